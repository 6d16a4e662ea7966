//! Who is next on which processor.
//!
//! One queue holds every thread that could run and does not, first come first.
//! A processor takes the first one that is allowed there, so turns go round
//! among all threads that may run on it, however they are spread. A thread
//! that is added goes to the end.
//!
//! A processor looks at the queue when it has a reason to. The queue says who
//! has one: for a thread that is added that is one idle processor where it is
//! allowed, its last one if possible; if none is idle, every processor where it
//! is allowed, because each of them now has a second thread to share its time
//! with and has to start its tick, which ends the turns. A processor that was
//! told once is not told again before it has looked.
//!
//! One queue and its lock are taken once a switch; with as many threads as
//! processors, the case that has to scale, nobody switches. A walk passes over
//! threads pinned elsewhere, of which there are some hundreds at worst.

use alloc::collections::VecDeque;

use crate::cpuset::CpuSet;

/// A thread in the queue.
#[derive(Debug)]
struct Ready {
    tid: u32,
    allowed: CpuSet,
}

/// The queue, and what the processors are doing.
#[derive(Debug)]
pub struct RunQueue {
    ready: VecDeque<Ready>,
    /// Processors that wait for a thread.
    idle: CpuSet,
    /// Processors that end a turn at their tick, beside the first.
    ticking: CpuSet,
    /// Processors that were told and have not looked since.
    told: CpuSet,
}

impl Default for RunQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl RunQueue {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            idle: CpuSet::empty(),
            ticking: CpuSet::empty(),
            told: CpuSet::empty(),
        }
    }

    /// Adds the thread `tid`, which must not be in the queue, allowed on
    /// `allowed` and last seen on `last`. Returns the processors to tell.
    pub fn add(&mut self, tid: u32, allowed: CpuSet, last: usize) -> CpuSet {
        self.ready.push_back(Ready { tid, allowed });
        let idle = self.idle.and(&allowed);
        let mut tell = CpuSet::empty();
        if idle.contains(last) {
            tell.insert(last);
        } else if let Some(first) = idle.iter().next() {
            tell.insert(first);
        } else {
            for cpu in allowed.iter() {
                if !self.is_ticking(cpu) && !self.told.contains(cpu) {
                    tell.insert(cpu);
                }
            }
        }
        for cpu in tell.iter() {
            // The next thread goes to another one.
            self.idle.remove(cpu);
            self.told.insert(cpu);
        }
        tell
    }

    /// The processor `cpu` takes a thread.
    pub fn take(&mut self, cpu: usize) -> Option<u32> {
        self.look(cpu);
        let at = self.first(cpu)?;
        Some(self.ready.remove(at)?.tid)
    }

    /// The processor `cpu` looks whether a thread could run there that does
    /// not.
    pub fn is_wanted(&mut self, cpu: usize) -> bool {
        self.look(cpu);
        self.first(cpu).is_some()
    }

    fn look(&mut self, cpu: usize) {
        self.told.remove(cpu);
        self.idle.remove(cpu);
    }

    fn first(&self, cpu: usize) -> Option<usize> {
        self.ready
            .iter()
            .position(|ready| ready.allowed.contains(cpu))
    }

    /// The processor `cpu` found nothing and waits to be told.
    pub fn rest(&mut self, cpu: usize) {
        self.idle.insert(cpu);
    }

    /// The processor `cpu` starts or stops to end turns at its tick.
    pub fn set_ticking(&mut self, cpu: usize, ticking: bool) {
        if ticking {
            self.ticking.insert(cpu);
        } else {
            self.ticking.remove(cpu);
        }
    }

    /// Whether it does; processor 0 always does.
    #[must_use]
    pub fn is_ticking(&self, cpu: usize) -> bool {
        cpu == 0 || self.ticking.contains(cpu)
    }

    /// Takes the thread `tid` out; false if it is not in the queue.
    pub fn remove(&mut self, tid: u32) -> bool {
        match self.ready.iter().position(|ready| ready.tid == tid) {
            Some(at) => self.ready.remove(at).is_some(),
            None => false,
        }
    }
}

#[cfg(test)]
#[path = "runqueue_tests.rs"]
mod tests;
