//! New threads, where threads may run, and what those of a process share.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::turns::switch_to;
use super::{Entry, Scheduler, State, current, here, with};
use crate::arch::thread::Thread;
use crate::arch::{ipi, percpu};
use crate::cpuset::CpuSet;
use crate::proc::cputime::Meter;
use crate::proc::task::Task;
use crate::sync::without_interrupts;

/// Numbers of processes and threads stay below this, as Linux's do: a clock's
/// number has room for them.
const ID_LIMIT: u32 = 1 << 22;

impl Scheduler {
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
    pub(super) fn add(&mut self, task: Arc<Task>, thread: Thread, allowed: CpuSet, last: usize) {
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
