//! Who runs: the kernel's own thread (the shell) and the processes, in turn.
//!
//! A process gives up the CPU at a tick that interrupts its program, by
//! `sched_yield`, at its end, and between the pieces of a long system call
//! ([`pause`]); nowhere else in kernel code, so that need not expect another
//! thread between two of its lines. The kernel's thread gives it up when it
//! waits or has nothing to do.
//!
//! A process that has ended keeps its stack and memory until the kernel's
//! thread collects it, because nobody can free the stack he stands on.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::sync::atomic::{AtomicBool, Ordering};

use super::process::{self, Ended, Process, StartError};
use super::vdso;
use crate::arch::thread::{Thread, ThreadId};
use crate::arch::{context, cpu};
use crate::console;
use crate::mm::paging;
use crate::sync::{IrqMutex, without_interrupts};
use crate::time;

struct Task {
    thread: Thread,
    process: Arc<Process>,
    ended: Option<Ended>,
}

struct Scheduler {
    /// In the order of their start. Only the kernel's thread adds or removes.
    tasks: Vec<Task>,
    /// Whose turn it is: 0 is the kernel's thread, n is `tasks[n - 1]`.
    turn: usize,
    /// The kernel's thread waits for a process to end.
    waiting: bool,
    /// The process that Ctrl-C is for; without one, all of them.
    foreground: Option<Arc<Process>>,
    last_pid: u32,
}

static SCHEDULER: IrqMutex<Scheduler> = IrqMutex::new(Scheduler {
    tasks: Vec::new(),
    turn: 0,
    waiting: false,
    foreground: None,
    last_pid: 0,
});

impl Scheduler {
    fn task(&self, turn: usize) -> Option<&Task> {
        self.tasks.get(turn.checked_sub(1)?)
    }

    /// Takes the next turn, and makes its address space current.
    fn choose(&mut self) -> ThreadId {
        let turns = self.tasks.len() + 1;
        let next = (1..=turns)
            .map(|ahead| (self.turn + ahead) % turns)
            .find(|&turn| match self.task(turn) {
                Some(task) => task.ended.is_none(),
                None => !self.waiting,
            });
        // Nobody can run only if the kernel's thread waits for nothing; it
        // finds that out by itself.
        self.turn = next.unwrap_or(0);
        match self.task(self.turn) {
            Some(task) => {
                task.process.memory.lock().space().root().activate();
                task.thread.id()
            }
            None => {
                paging::activate_kernel();
                ThreadId::BOOT
            }
        }
    }

    fn current(&self) -> Option<&Arc<Process>> {
        self.task(self.turn).map(|task| &task.process)
    }

    /// Takes out the tasks that have ended and are `wanted`.
    fn collect(&mut self, wanted: impl Fn(&Task) -> bool) -> Vec<Task> {
        let all = mem::take(&mut self.tasks);
        let (gone, kept) = all
            .into_iter()
            .partition(|task| task.ended.is_some() && wanted(task));
        self.tasks = kept;
        gone
    }
}

/// A tick came in this turn and found the kernel at work.
static TURN_OVER: AtomicBool = AtomicBool::new(false);

/// Lets the others run; returns when it is this thread's turn again.
fn run_others() {
    without_interrupts(|| {
        TURN_OVER.store(false, Ordering::Relaxed);
        let next = SCHEDULER.with(Scheduler::choose);
        context::switch(next);
    });
}

/// The process whose system call or exception this is.
pub fn current() -> Option<Arc<Process>> {
    SCHEDULER.with(|scheduler| scheduler.current().cloned())
}

/// A tick: hands on a Ctrl-C that was typed, and is the next one's turn if it
/// interrupted a program.
pub fn tick(from_program: bool) {
    if console::take_interrupt() {
        SCHEDULER.with(|scheduler| match &scheduler.foreground {
            Some(process) => process.interrupt(),
            // Typed during `wait`, which waits for all of them.
            None => scheduler
                .tasks
                .iter()
                .for_each(|task| task.process.interrupt()),
        });
    }
    if from_program {
        yield_now();
    } else {
        TURN_OVER.store(true, Ordering::Relaxed);
    }
}

/// For the middle of a system call that takes long, with nothing held: lets
/// the others run if a tick came since this turn began. Returns also to a
/// process that was interrupted, so that the call can come to an end.
pub fn pause() {
    if TURN_OVER.load(Ordering::Relaxed) {
        run_others();
    }
}

/// Gives up the rest of this turn. A process that was interrupted meanwhile
/// ends here and does not return.
pub fn yield_now() {
    run_others();
    end_if_interrupted();
}

/// Ends the running process if Ctrl-C was typed for it.
pub fn end_if_interrupted() {
    let interrupted = SCHEDULER.with(|scheduler| {
        scheduler
            .current()
            .is_some_and(|process| process.is_interrupted())
    });
    if interrupted {
        end(Ended::Interrupted);
    }
}

/// Ends the running process. The caller holds nothing that needs dropping: its
/// stack is never returned to.
///
/// # Panics
///
/// When the kernel's own thread calls it.
pub fn end(how: Ended) -> ! {
    let is_process = SCHEDULER.with(|scheduler| {
        scheduler.waiting = false;
        let turn = scheduler.turn;
        let task = turn
            .checked_sub(1)
            .and_then(|index| scheduler.tasks.get_mut(index));
        task.map(|task| task.ended = Some(how)).is_some()
    });
    assert!(is_process, "the kernel's own thread cannot end");
    loop {
        run_others();
    }
}

/// Adds a process; gives its number.
fn add(name: &str, arguments: &[&str], background: bool) -> Result<u32, StartError> {
    let pid = SCHEDULER.with(|scheduler| {
        scheduler.last_pid += 1;
        scheduler.last_pid
    });
    let (process, thread) = process::load(pid, name, arguments, vdso::shared().as_ref())?;
    SCHEDULER.with(|scheduler| {
        if !background {
            scheduler.foreground = Some(process.clone());
        }
        scheduler.tasks.push(Task {
            thread,
            process,
            ended: None,
        });
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
    let ended = loop {
        let gone = SCHEDULER.with(|scheduler| {
            let gone = scheduler.collect(|task| task.process.pid == pid);
            scheduler.waiting = gone.is_empty();
            gone
        });
        // The last of a process goes here, outside the scheduler's lock.
        match gone.first().and_then(|task| task.ended) {
            Some(ended) => break ended,
            None => run_others(),
        }
    };
    console::set_foreground(false);
    SCHEDULER.with(|scheduler| scheduler.foreground = None);
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
/// order of their start. Ctrl-C ends those that still run.
pub fn wait() -> Vec<(String, Ended)> {
    console::set_foreground(true);
    loop {
        let unfinished = SCHEDULER.with(|scheduler| {
            let unfinished = scheduler.tasks.iter().any(|task| task.ended.is_none());
            scheduler.waiting = unfinished;
            unfinished
        });
        if !unfinished {
            break;
        }
        run_others();
    }
    console::set_foreground(false);
    let gone = SCHEDULER.with(|scheduler| scheduler.collect(|_| true));
    gone.iter()
        .filter_map(|task| Some((task.process.name.clone(), task.ended?)))
        .collect()
}

/// What the kernel's thread does while it has nothing to do: lets programs
/// run, or waits for an interrupt if there are none. Without a tick there is
/// no interrupt, and what is typed is looked for here.
pub fn idle() {
    let alone = SCHEDULER.with(|scheduler| scheduler.tasks.iter().all(|task| task.ended.is_some()));
    if !alone {
        run_others();
    } else if time::is_ticking() {
        cpu::wait_for_interrupt();
    } else {
        console::poll();
    }
}
