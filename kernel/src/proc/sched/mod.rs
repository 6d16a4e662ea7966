//! Who runs where: the threads of programs on all processors, in turn.
//!
//! Every processor has a thread of its own, its *home*, which runs when no
//! program's thread can and halts it until there is one. Processor 0's is the
//! kernel's thread, the shell: it takes its turn in the queue while it has work
//! and is a home otherwise.
//!
//! A program's thread gives the processor up at a tick that interrupts its
//! program, by `sched_yield`, when it waits, at its end, when it is no longer
//! allowed where it runs, and between the pieces of a long system call
//! ([`pause`]); nowhere else in kernel code. Returning from a switch it may be
//! on another processor.
//!
//! **One lock** covers the queue, the threads, the futexes and the CPU times.
//! It is taken with interrupts off and for a bounded time, and no other lock is
//! taken inside but the heap's. What a system call needs to know of its own
//! thread is kept per processor and per thread, so that calls on different
//! processors share no line for it.
//!
//! **Leaving a thread.** A thread that is put back into the queue can be taken
//! by another processor while this one still stands on its stack. The
//! [switch](crate::arch::context::switch) to it waits for it to be suspended.
//! That ends: the thread that a processor waits for was put into the queue
//! under the lock before, by a processor that took its own next thread in the
//! same hold of the lock, so the waits are ordered by time and cannot form a
//! circle.
//!
//! * `turns` switches, `threads` makes threads and moves them, `exit` ends them
//!   and their processes, `futex` lets them wait for each other, `jobs` is what
//!   the processors' own threads do, `times` reads CPU time.

mod exit;
mod futex;
mod jobs;
mod threads;
mod times;
mod turns;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::mem;
use core::sync::atomic::{AtomicBool, Ordering};

use super::cputime::Meter;
use super::futex::Waiters;
use super::process::{Ended, Process};
use super::runqueue::RunQueue;
use super::task::Task;
use super::timeouts::Timeouts;
use crate::arch::thread::{Thread, ThreadId};
use crate::arch::{ipi, percpu};
use crate::cpuset::{CpuSet, MAX_CPUS};
use crate::sync::{IrqMutex, without_interrupts};

pub use exit::{end_process, end_thread};
pub use futex::{Waited, wait_on, wake};
pub use jobs::{idle, idle_loop, run, start, wait};
pub use threads::{add_thread, affinity, flush_others, prepare_thread, set_affinity};
pub use times::{Status, process_of, process_time, statuses, thread_time};
pub use turns::{leave_kernel, pause, reschedule, tick, yield_now};

/// The kernel's thread in the queue; programs' numbers start at 1.
const KERNEL: u32 = 0;

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is in the queue.
    Ready,
    /// It runs on this processor.
    Running(usize),
    /// It waits for a futex.
    Waiting,
    /// It never runs again; its stack may still be in use for a moment.
    Ended,
}

/// A thread of a program.
struct Entry {
    task: Arc<Task>,
    thread: Thread,
    state: State,
    allowed: CpuSet,
    /// The processor it was on last.
    last: usize,
    /// It has not run yet.
    fresh: bool,
    /// Its wait ended at its deadline.
    timed_out: bool,
    /// When its present run began.
    since: u64,
    used: Meter,
}

/// A process: its threads together.
struct Group {
    process: Arc<Process>,
    /// Threads that have not ended.
    threads: usize,
    /// How it ends, once that is decided.
    how: Option<Ended>,
    used: Meter,
}

/// A processor.
struct Cpu {
    /// The program's thread it runs; none while it is home.
    running: Option<u32>,
    home: Option<ThreadId>,
}

struct Scheduler {
    queue: RunQueue,
    threads: BTreeMap<u32, Entry>,
    groups: BTreeMap<u32, Group>,
    cpus: [Cpu; MAX_CPUS],
    waiters: Waiters,
    timeouts: Timeouts,
    /// The kernel's thread waits for a process to end.
    kernel_waits: bool,
    /// The process that Ctrl-C is for; without one, all of them.
    foreground: Option<u32>,
    last_id: u32,
    /// Processors that have to look at the queue, told when the lock is free.
    tell: CpuSet,
}

static SCHEDULER: IrqMutex<Scheduler> = IrqMutex::new(Scheduler {
    queue: RunQueue::new(),
    threads: BTreeMap::new(),
    groups: BTreeMap::new(),
    cpus: [const {
        Cpu {
            running: None,
            home: None,
        }
    }; MAX_CPUS],
    waiters: Waiters::new(),
    timeouts: Timeouts::new(),
    kernel_waits: false,
    foreground: None,
    last_id: 0,
    tell: CpuSet::empty(),
});

/// What a processor keeps for itself, on lines of its own.
#[repr(align(128))]
struct Local {
    /// The thread whose system call or exception is at work there.
    current: IrqMutex<Option<Arc<Task>>>,
    /// Something came up while the kernel was at work there: a tick, or word
    /// from another processor.
    look: AtomicBool,
}

static LOCALS: [Local; MAX_CPUS] = [const {
    Local {
        current: IrqMutex::new(None),
        look: AtomicBool::new(false),
    }
}; MAX_CPUS];

/// This processor's own; to be called with interrupts off.
fn here() -> (usize, &'static Local) {
    let cpu = percpu::number();
    match LOCALS.get(cpu) {
        Some(local) => (cpu, local),
        None => panic!("processor {cpu} of {MAX_CPUS}"),
    }
}

/// Works on the scheduler, then tells the processors that have to look at it.
fn with<R>(work: impl FnOnce(&mut Scheduler) -> R) -> R {
    without_interrupts(|| {
        let (result, tell) = SCHEDULER.with(|scheduler| {
            let result = work(scheduler);
            (result, mem::take(&mut scheduler.tell))
        });
        let (cpu, local) = here();
        for other in tell.iter() {
            if other == cpu {
                local.look.store(true, Ordering::Relaxed);
            } else {
                ipi::reschedule(other);
            }
        }
        result
    })
}

impl Scheduler {
    fn running(&self, cpu: usize) -> Option<u32> {
        self.cpus.get(cpu)?.running
    }

    fn set_running(&mut self, cpu: usize, tid: Option<u32>) {
        if let Some(cpu) = self.cpus.get_mut(cpu) {
            cpu.running = tid;
        }
    }

    fn enqueue(&mut self, tid: u32, allowed: CpuSet, last: usize) {
        for cpu in self.queue.add(tid, allowed, last).iter() {
            self.tell.insert(cpu);
        }
    }

    /// A thread that waited can run.
    fn make_ready(&mut self, tid: u32) {
        if let Some(entry) = self.threads.get_mut(&tid)
            && entry.state == State::Waiting
        {
            entry.state = State::Ready;
            let (allowed, last) = (entry.allowed, entry.last);
            self.enqueue(tid, allowed, last);
        }
    }
}

/// The thread whose system call or exception this is.
pub fn current() -> Option<Arc<Task>> {
    without_interrupts(|| here().1.current.with(|current| current.clone()))
}
