//! What the processors' own threads do: the kernel's thread starts programs
//! and waits for them, the others wait for something to run.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::turns::{Leave, switch_to};
use super::{Entry, Group, KERNEL, Scheduler, futex, here, with};
use crate::arch::{context, cpu, percpu};
use crate::cpuset::CpuSet;
use crate::proc::cputime::Meter;
use crate::proc::process::{self, Ended, StartError};
use crate::proc::task::Task;
use crate::proc::vdso;
use crate::sync::without_interrupts;
use crate::{console, time};

/// Processes that can be at once, those included that have ended and are not
/// waited for yet: each keeps its memory until then.
const MAX_PROCESSES: usize = 64;

/// What the kernel's thread finds when it looks for a process's end.
enum Sight {
    /// It has ended.
    Gone(Box<Gone>),
    /// It has, but its last threads are still leaving their stacks.
    Leaving,
    /// It has not.
    Alive,
}

/// What is left of a process, to be dropped when the lock is free.
struct Gone {
    name: String,
    how: Ended,
    _group: Group,
    _threads: Vec<Entry>,
}

impl Scheduler {
    /// The kernel's thread has work, or may have.
    pub(super) fn wake_kernel(&mut self) {
        self.queue.remove(KERNEL);
        self.enqueue(KERNEL, CpuSet::single(0), 0);
    }

    /// Takes the process `pid` out if it has ended.
    fn collect(&mut self, pid: u32) -> Sight {
        let Some(group) = self.groups.get(&pid) else {
            return Sight::Alive;
        };
        let (0, Some(how)) = (group.threads, group.how) else {
            return Sight::Alive;
        };
        let all = self.threads.values();
        let mut of_it = all.filter(|entry| entry.task.process.pid == pid);
        if !of_it.all(|entry| entry.thread.is_suspended()) {
            return Sight::Leaving;
        }
        let threads = self
            .threads
            .extract_if(.., |_, entry| entry.task.process.pid == pid)
            .map(|(_, entry)| entry)
            .collect();
        match self.groups.remove(&pid) {
            Some(group) => Sight::Gone(Box::new(Gone {
                name: group.process.name.clone(),
                how,
                _group: group,
                _threads: threads,
            })),
            None => Sight::Alive,
        }
    }
}

/// Waits until the process `pid` has ended and takes it out.
fn await_end(pid: u32) -> (String, Ended) {
    loop {
        let sight = without_interrupts(|| {
            let (cpu, _) = here();
            let (sight, next) = with(|scheduler| match scheduler.collect(pid) {
                Sight::Alive => {
                    scheduler.kernel_waits = true;
                    (Sight::Alive, Some(scheduler.turn(cpu, Leave::Waiting)))
                }
                sight => (sight, None),
            });
            match next {
                Some(next) if next.task.is_some() => switch_to(next),
                Some(_) => halt(),
                None => {}
            }
            sight
        });
        match sight {
            Sight::Gone(gone) => return (gone.name.clone(), gone.how),
            Sight::Leaving => core::hint::spin_loop(),
            Sight::Alive => {}
        }
    }
}

/// Waits for an interrupt, with interrupts off until then. Without a tick none
/// might come: what is typed and whose wait is over is looked for here then.
fn halt() {
    if time::is_ticking() {
        cpu::wait_for_interrupt();
    } else {
        x86_64::instructions::interrupts::enable();
        console::poll();
        futex::expire();
    }
}

/// Adds a process; gives its number.
fn add(name: &str, arguments: &[&str], background: bool) -> Result<u32, StartError> {
    if with(|scheduler| scheduler.groups.len()) >= MAX_PROCESSES {
        return Err(StartError::TooMany);
    }
    let pid = super::prepare_thread();
    let (process, thread) = process::load(pid, name, arguments, vdso::shared().as_ref())?;
    let task = Arc::new(Task::new(pid, process.clone(), 0));
    with(|scheduler| {
        if !background {
            scheduler.foreground = Some(pid);
        }
        let group = Group {
            process,
            threads: 1,
            how: None,
            used: Meter::new(),
        };
        scheduler.groups.insert(pid, group);
        scheduler.add(task, thread, percpu::online(), 0);
    });
    Ok(pid)
}

/// Runs a program in the foreground and returns when it has ended. To be
/// called by the kernel's thread.
///
/// # Errors
///
/// [`StartError`].
pub fn run(name: &str, arguments: &[&str]) -> Result<Ended, StartError> {
    let pid = add(name, arguments, false)?;
    console::set_foreground(true);
    let (_, ended) = await_end(pid);
    console::set_foreground(false);
    with(|scheduler| scheduler.foreground = None);
    Ok(ended)
}

/// Starts a program in the background; gives its number.
///
/// # Errors
///
/// [`StartError`].
pub fn start(name: &str, arguments: &[&str]) -> Result<u32, StartError> {
    add(name, arguments, true)
}

/// Waits for all programs in the background and says how each ended, in the
/// order of their numbers. Ctrl-C ends those that still run.
pub fn wait() -> Vec<(String, Ended)> {
    console::set_foreground(true);
    let all: Vec<u32> = with(|scheduler| scheduler.groups.keys().copied().collect());
    let ended = all.into_iter().map(await_end).collect();
    console::set_foreground(false);
    ended
}

/// What the kernel's thread does while it has nothing to do: lets programs
/// run, or waits for an interrupt if there are none for this processor.
pub fn idle() {
    without_interrupts(|| {
        let (cpu, _) = here();
        let next = with(|scheduler| {
            if scheduler.queue.is_wanted(cpu) {
                return Some(scheduler.turn(cpu, Leave::Ready));
            }
            scheduler.queue.rest(cpu);
            None
        });
        match next {
            Some(next) => switch_to(next),
            None => halt(),
        }
    });
}

/// What a processor other than the first does for ever: runs programs' threads,
/// and halts while there are none for it.
pub fn idle_loop() -> ! {
    let home = context::current();
    without_interrupts(|| {
        let (cpu, _) = here();
        with(|scheduler| {
            if let Some(cpu) = scheduler.cpus.get_mut(cpu) {
                cpu.home = Some(home);
            }
        });
    });
    loop {
        without_interrupts(|| {
            let (cpu, _) = here();
            let next = with(|scheduler| scheduler.turn(cpu, Leave::Waiting));
            if next.task.is_some() {
                switch_to(next);
            } else {
                cpu::wait_for_interrupt();
            }
        });
    }
}
