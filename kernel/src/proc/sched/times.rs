//! CPU time of threads and processes, and what they are doing.

use alloc::string::String;
use alloc::vec::Vec;

use super::{State, with};
use crate::time;

/// A process at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its number.
    pub pid: u32,
    /// Threads that have not ended.
    pub threads: usize,
    /// A processor that runs one of them; none if no thread runs.
    pub cpu: Option<usize>,
    /// CPU time of all its threads, those that have ended included, in
    /// nanoseconds.
    pub used_ns: u64,
    /// The program.
    pub name: String,
}

/// CPU time of the thread `tid` in nanoseconds; `None` if there is no such
/// thread.
pub fn thread_time(tid: u32) -> Option<u64> {
    with(|scheduler| {
        let entry = scheduler.threads.get_mut(&tid)?;
        if entry.state == State::Ended {
            return None;
        }
        Some(entry.used.read(time::clock().monotonic_ns()))
    })
}

/// CPU time of the process `pid` in nanoseconds, with that of its threads that
/// have ended; `None` if there is no such process.
pub fn process_time(pid: u32) -> Option<u64> {
    with(|scheduler| {
        let group = scheduler.groups.get_mut(&pid)?;
        Some(group.used.read(time::clock().monotonic_ns()))
    })
}

/// The process that the thread `tid` is one of.
pub fn process_of(tid: u32) -> Option<u32> {
    with(|scheduler| {
        let entry = scheduler.threads.get(&tid);
        Some(entry?.task.process.pid)
    })
}

/// All processes, by number.
pub fn statuses() -> Vec<Status> {
    with(|scheduler| {
        let now = time::clock().monotonic_ns();
        let threads = &scheduler.threads;
        let one = |(&pid, group): (&u32, &mut super::Group)| Status {
            pid,
            threads: group.threads,
            cpu: threads.values().find_map(|entry| match entry.state {
                State::Running(cpu) if entry.task.process.pid == pid => Some(cpu),
                _ => None,
            }),
            used_ns: group.used.read(now),
            name: group.process.name.clone(),
        };
        scheduler.groups.iter_mut().map(one).collect()
    })
}
