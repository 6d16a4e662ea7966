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
//! by another processor while this one still stands on its stack.
//! [`context::switch`] waits for it to be suspended there. That ends: the thread
//! that a processor waits for was put into the queue under the lock before, by a
//! processor that took its own next thread in the same hold of the lock, so the
//! waits are ordered by time and cannot form a circle.
//!
//! * `futex` lets threads wait for each other, `exit` ends threads and
//!   processes, `jobs` is what the kernel's thread does, `times` reads CPU time.

mod exit;
mod futex;
mod jobs;
mod times;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::sync::atomic::{AtomicBool, Ordering};

use super::cputime::Meter;
use super::futex::Waiters;
use super::process::{Ended, Process};
use super::runqueue::RunQueue;
use super::task::Task;
use super::timeouts::Timeouts;
use crate::arch::thread::{Thread, ThreadId};
use crate::arch::{context, ipi, lapic, percpu};
use crate::cpuset::{CpuSet, MAX_CPUS};
use crate::mm::paging;
use crate::sync::{IrqMutex, without_interrupts};
use crate::{console, time};

pub use exit::{end_process, end_thread};
pub use futex::{Waited, wait_on, wake};
pub use jobs::{idle, idle_loop, run, start, wait};
pub use times::{Status, process_of, process_time, statuses, thread_time};

/// The kernel's thread in the queue; programs' numbers start at 1.
const KERNEL: u32 = 0;

/// Numbers of processes and threads stay below this, as Linux's do: a clock's
/// number has room for them.
const ID_LIMIT: u32 = 1 << 22;

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

/// What becomes of the thread that leaves a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leave {
    Ready,
    Waiting,
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

/// What a processor goes on with.
struct Next {
    id: ThreadId,
    /// None for its home.
    task: Option<Arc<Task>>,
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

    /// The processor `cpu` leaves what it runs and goes on with the next in the
    /// queue, or home.
    fn turn(&mut self, cpu: usize, leave: Leave) -> Next {
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
    fn reconsider(&mut self, cpu: usize, turn_is_over: bool) -> Option<Next> {
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

    /// A number that no process and no thread has.
    fn new_id(&mut self) -> u32 {
        loop {
            self.last_id = self.last_id % (ID_LIMIT - 1) + 1;
            let id = self.last_id;
            if !self.threads.contains_key(&id) && !self.groups.contains_key(&id) {
                return id;
            }
        }
    }

    /// Adds a thread, which has not run yet.
    fn add(&mut self, task: Arc<Task>, thread: Thread, allowed: CpuSet, last: usize) {
        let tid = task.tid;
        let entry = Entry {
            task,
            thread,
            state: State::Ready,
            allowed,
            last,
            fresh: true,
            timed_out: false,
            since: 0,
            used: Meter::new(),
        };
        self.threads.insert(tid, entry);
        self.enqueue(tid, allowed, last);
    }

    /// Takes out the threads that have ended and left their stacks. They are
    /// to be dropped when the lock is free.
    fn take_ended(&mut self) -> Vec<Entry> {
        self.threads
            .extract_if(.., |_, entry| {
                entry.state == State::Ended && entry.thread.is_suspended()
            })
            .map(|(_, entry)| entry)
            .collect()
    }
}

/// Goes on with `next`; returns when somebody switches back to this thread.
/// Interrupts are off.
fn switch_to(next: Next) {
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

/// The thread whose system call or exception this is.
pub fn current() -> Option<Arc<Task>> {
    without_interrupts(|| here().1.current.with(|current| current.clone()))
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
        end_thread(0);
    }
}

/// Adds a thread to the caller's process, allowed where the caller is. The
/// process may be at its end; nothing is added then.
pub fn add_thread(parent: &Task, task: Arc<Task>, thread: Thread) -> bool {
    let (added, ended) = with(|scheduler| {
        let ended = scheduler.take_ended();
        let caller = scheduler.threads.get(&parent.tid);
        let place = caller.map(|entry| (entry.allowed, entry.last));
        let group = scheduler.groups.get_mut(&task.process.pid);
        let (Some((allowed, last)), Some(group)) = (place, group) else {
            return (false, ended);
        };
        if group.how.is_some() {
            return (false, ended);
        }
        group.threads += 1;
        scheduler.add(task, thread, allowed, last);
        (true, ended)
    });
    drop(ended);
    added
}

/// A number for a new thread. Threads that have ended give their stacks back
/// first, so that there is room for it.
pub fn prepare_thread() -> u32 {
    let (id, ended) = with(|scheduler| (scheduler.new_id(), scheduler.take_ended()));
    drop(ended);
    id
}

/// Processors that the thread `tid` may run on; `None` if there is no such
/// thread.
pub fn affinity(tid: u32) -> Option<CpuSet> {
    with(|scheduler| {
        let entry = scheduler.threads.get(&tid);
        Some(entry.filter(|entry| entry.state != State::Ended)?.allowed)
    })
}

/// Restricts the thread `tid` to `allowed`, which must not be empty; false if
/// there is no such thread. A thread that runs elsewhere moves before it is
/// back in its program, the caller before this returns.
pub fn set_affinity(tid: u32, allowed: CpuSet) -> bool {
    let found = with(|scheduler| {
        let Some(entry) = scheduler.threads.get_mut(&tid) else {
            return false;
        };
        entry.allowed = allowed;
        let last = entry.last;
        match entry.state {
            State::Ended => return false,
            State::Waiting => {}
            State::Ready => {
                scheduler.queue.remove(tid);
                scheduler.enqueue(tid, allowed, last);
            }
            State::Running(cpu) => {
                if !allowed.contains(cpu) {
                    scheduler.tell.insert(cpu);
                }
            }
        }
        true
    });
    without_interrupts(|| {
        let (cpu, _) = here();
        if let Some(next) = with(|scheduler| scheduler.reconsider(cpu, false)) {
            switch_to(next);
        }
    });
    found
}

/// Makes the other processors that run the caller's process forget what it
/// had unmapped or protected. Interrupts must be on, and every lock held must
/// be one that is waited for with interrupts on.
pub fn flush_others() {
    let Some(pid) = current().map(|task| task.process.pid) else {
        return;
    };
    let others = with(|scheduler| {
        let mut others = CpuSet::empty();
        for entry in scheduler.threads.values() {
            if let State::Running(cpu) = entry.state
                && entry.task.process.pid == pid
            {
                others.insert(cpu);
            }
        }
        // What this processor had is gone from its TLB already.
        others.remove(percpu::number());
        others
    });
    if !others.is_empty() {
        ipi::flush(&others);
    }
}
