//! Turns: which thread a processor goes on with, and when it looks.

use alloc::sync::Arc;
use core::mem;
use core::sync::atomic::Ordering;

use super::{KERNEL, Scheduler, State, current, exit, futex, here, with};
use crate::arch::thread::ThreadId;
use crate::arch::{context, lapic};
use crate::cpuset::CpuSet;
use crate::mm::paging;
use crate::proc::task::Task;
use crate::sync::without_interrupts;
use crate::{console, time};

/// What becomes of the thread that leaves a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    Ready,
    Waiting,
    Ended,
}

/// What a processor goes on with.
pub(super) struct Next {
    pub(super) id: ThreadId,
    /// None for its home.
    pub(super) task: Option<Arc<Task>>,
}

impl Scheduler {
    /// The processor `cpu` leaves what it runs and goes on with the next in the
    /// queue, or home.
    pub(super) fn turn(&mut self, cpu: usize, leave: Leave) -> Next {
        let now = time::clock().monotonic_ns();
        self.put_down(cpu, leave, now);
        let next = self.take_up(cpu, now);
        self.set_tick(cpu);
        // It has just looked.
        self.tell.remove(cpu);
        next
    }

    fn put_down(&mut self, cpu: usize, leave: Leave, now: u64) {
        let Some(tid) = self.running(cpu) else {
            if cpu == 0 {
                self.queue.remove(KERNEL);
                if leave == Leave::Ready {
                    self.enqueue(KERNEL, CpuSet::single(0), 0);
                }
            }
            return;
        };
        self.set_running(cpu, None);
        let Some(entry) = self.threads.get_mut(&tid) else {
            return;
        };
        entry.used.stop(entry.since, now);
        let (since, allowed) = (entry.since, entry.allowed);
        entry.state = match leave {
            Leave::Ready => State::Ready,
            Leave::Waiting => State::Waiting,
            Leave::Ended => State::Ended,
        };
        if let Some(group) = self.groups.get_mut(&entry.task.process.pid) {
            group.used.stop(since, now);
        }
        if leave == Leave::Ready {
            self.enqueue(tid, allowed, cpu);
        }
    }

    /// Makes the next one's address space current, too.
    fn take_up(&mut self, cpu: usize, now: u64) -> Next {
        let taken = self.queue.take(cpu);
        let program = taken.filter(|&tid| tid != KERNEL);
        let Some((tid, entry)) = program.and_then(|tid| Some((tid, self.threads.get_mut(&tid)?)))
        else {
            if taken.is_none() {
                self.queue.rest(cpu);
            }
            paging::activate_kernel();
            let home = self.cpus.get(cpu).and_then(|cpu| cpu.home);
            return Next {
                id: home.unwrap_or(ThreadId::BOOT),
                task: None,
            };
        };
        entry.state = State::Running(cpu);
        entry.last = cpu;
        entry.fresh = false;
        entry.since = now;
        entry.used.start(now);
        entry.task.process.root.activate();
        let next = Next {
            id: entry.thread.id(),
            task: Some(entry.task.clone()),
        };
        if let Some(group) = self.groups.get_mut(&entry.task.process.pid) {
            group.used.start(now);
        }
        self.set_running(cpu, Some(tid));
        next
    }

    /// This processor ticks while its thread has to share it. Processor 0
    /// always ticks.
    fn set_tick(&mut self, cpu: usize) {
        if cpu == 0 {
            return;
        }
        let wanted = self.running(cpu).is_some() && self.queue.is_wanted(cpu);
        if wanted != self.queue.is_ticking(cpu) {
            self.queue.set_ticking(cpu, wanted);
            if wanted {
                lapic::start_tick_here();
            } else {
                lapic::stop_tick_here();
            }
        }
    }

    /// What a processor that runs a program goes on with, if with something
    /// else.
    pub(super) fn reconsider(&mut self, cpu: usize, turn_is_over: bool) -> Option<Next> {
        let allowed = self
            .running(cpu)
            .and_then(|tid| self.threads.get(&tid))
            .is_none_or(|entry| entry.allowed.contains(cpu));
        if !allowed || turn_is_over && self.queue.is_wanted(cpu) {
            return Some(self.turn(cpu, Leave::Ready));
        }
        self.set_tick(cpu);
        None
    }
}

/// Goes on with `next`; returns when somebody switches back to this thread.
/// Interrupts are off.
pub(super) fn switch_to(next: Next) {
    let (_, local) = here();
    // Not the last reference: the scheduler has one until it is suspended.
    let before = local
        .current
        .with(|current| mem::replace(current, next.task));
    drop(before);
    context::switch(next.id);
}

/// Lets the others run; returns when it is this thread's turn again.
fn run_others() {
    without_interrupts(|| {
        let (cpu, local) = here();
        local.look.store(false, Ordering::Relaxed);
        switch_to(with(|scheduler| scheduler.turn(cpu, Leave::Ready)));
    });
}

/// A tick on this processor: hands on a Ctrl-C that was typed, ends waits that
/// are over, and is the next one's turn if it interrupted a program.
pub fn tick(from_program: bool) {
    if console::take_interrupt() {
        exit::interrupt();
    }
    futex::expire();
    look(from_program, true);
}

/// Another processor has news for this one.
pub fn reschedule(from_program: bool) {
    look(from_program, false);
}

/// Sees what there is to do instead, with interrupts off. The kernel is not
/// interrupted in its work, but looks at the end of it.
fn look(from_program: bool, turn_is_over: bool) {
    let (cpu, local) = here();
    local.look.store(!from_program, Ordering::Relaxed);
    if !from_program {
        return;
    }
    if let Some(next) = with(|scheduler| scheduler.reconsider(cpu, turn_is_over)) {
        switch_to(next);
    }
    end_if_ending();
}

/// For the way back to the program, with interrupts off and nothing held: does
/// what came up during the call. Does not return to a process that has ended.
pub fn leave_kernel() {
    let (_, local) = here();
    if local.look.load(Ordering::Relaxed) {
        look(true, true);
    } else {
        end_if_ending();
    }
}

/// For the middle of a system call that takes long, with nothing held: lets
/// the others run if something came up since this turn began. Returns also to
/// a process that has ended, so that the call can come to an end.
pub fn pause() {
    if without_interrupts(|| here().1.look.load(Ordering::Relaxed)) {
        run_others();
    }
}

/// Gives up the rest of this turn.
pub fn yield_now() {
    let wanted = without_interrupts(|| {
        let (cpu, _) = here();
        with(|scheduler| scheduler.queue.is_wanted(cpu))
    });
    if wanted {
        run_others();
    }
}

/// Ends the running thread if its process has ended.
fn end_if_ending() {
    let ending = current().is_some_and(|task| task.process.is_ending());
    if ending {
        exit::end_thread(0);
    }
}
