//! The end of threads and processes.
//!
//! A thread ends by itself; a process ends when its last thread does, or all of
//! it at once: by `exit_group`, by an exception of any thread, by Ctrl-C. Then
//! its threads that wait are made ready, those that run elsewhere are told, and
//! each ends on its way back to the program, none in the middle of kernel work.
//! One that has never run would start in its program and is taken out here.
//!
//! An ended thread keeps its stack until another thread collects it, because
//! nobody can free the stack that he stands on.

use alloc::vec::Vec;

use super::turns::{Leave, switch_to};
use super::{Scheduler, State, current, futex, here, with};
use crate::proc::futex::{ANY, Key};
use crate::proc::process::Ended;

impl Scheduler {
    /// A thread of the process `pid` has ended; the last one's `status` is the
    /// process's, if nothing else has ended that.
    fn leave_group(&mut self, pid: u32, status: i32) {
        let Some(group) = self.groups.get_mut(&pid) else {
            return;
        };
        group.threads = group.threads.saturating_sub(1);
        if group.threads > 0 {
            return;
        }
        group.how.get_or_insert(Ended::Exited(status));
        if self.kernel_waits {
            self.kernel_waits = false;
            self.wake_kernel();
        }
    }

    /// Decides how the process `pid` ends, unless that is decided, and brings
    /// all of its threads to their ends.
    fn end_group(&mut self, pid: u32, how: Ended) {
        let Some(group) = self.groups.get_mut(&pid) else {
            return;
        };
        if group.how.is_some() {
            return;
        }
        group.how = Some(how);
        group.process.set_ending();
        let threads: Vec<(u32, State, bool)> = self
            .threads
            .iter()
            .filter(|(_, entry)| entry.task.process.pid == pid)
            .map(|(&tid, entry)| (tid, entry.state, entry.fresh))
            .collect();
        for (tid, state, fresh) in threads {
            match state {
                State::Waiting => self.make_ready(tid),
                State::Running(cpu) => {
                    self.tell.insert(cpu);
                }
                State::Ready if fresh => {
                    self.queue.remove(tid);
                    if let Some(entry) = self.threads.get_mut(&tid) {
                        entry.state = State::Ended;
                    }
                    self.leave_group(pid, 0);
                }
                State::Ready | State::Ended => {}
            }
        }
    }
}

/// Ctrl-C was typed: for the process in the foreground or, without one, during
/// a wait for all of them.
pub(super) fn interrupt() {
    with(|scheduler| match scheduler.foreground {
        Some(pid) => scheduler.end_group(pid, Ended::Interrupted),
        None => {
            let all: Vec<u32> = scheduler.groups.keys().copied().collect();
            for pid in all {
                scheduler.end_group(pid, Ended::Interrupted);
            }
        }
    });
}

/// Ends the running process. The caller holds nothing that needs dropping: its
/// stack is never returned to.
pub fn end_process(how: Ended) -> ! {
    let pid = current().map(|task| task.process.pid);
    if let Some(pid) = pid {
        with(|scheduler| scheduler.end_group(pid, how));
    }
    end_thread(0)
}

/// Ends the running thread with `status`. The caller holds nothing that needs
/// dropping.
///
/// # Panics
///
/// When a processor's own thread calls it.
pub fn end_thread(status: i32) -> ! {
    x86_64::instructions::interrupts::disable();
    clear_word();
    let (cpu, _) = here();
    let next = with(|scheduler| {
        let tid = scheduler.running(cpu)?;
        let pid = scheduler.threads.get(&tid)?.task.process.pid;
        scheduler.leave_group(pid, status);
        Some(scheduler.turn(cpu, Leave::Ended))
    });
    let Some(next) = next else {
        panic!("the kernel's own thread cannot end");
    };
    switch_to(next);
    unreachable!("a thread that has ended was switched to")
}

/// Clears the word that the running thread has asked for and wakes who waits
/// for it, if there is anybody left who could.
fn clear_word() {
    let Some(task) = current() else { return };
    let address = task.clear_at_end();
    if address == 0 || task.process.is_ending() {
        return;
    }
    let cleared = task
        .process
        .memory()
        .space_mut()
        .copy_out(address, &0_u32.to_le_bytes());
    // A program that has unmapped the word has nobody waiting there.
    if cleared.is_ok() {
        let pid = task.process.pid;
        futex::wake(Key { pid, address }, ANY, 1);
    }
}
