//! The jitter guard: reads that do not go back although the CPUs' counters
//! disagree.
//!
//! # Background
//!
//! Two CPUs whose counters are a few hundred counts apart show a program that
//! moves from one to the other a step back. If no bound on that is known, the
//! counter is unfit. If one is, a common *last value* mends it: nobody is told
//! less than was told before. Linux did so in 2004 with one compare-and-exchange
//! a read for machines without a synchronized counter; it costs a cache line that
//! all CPUs write, so a counter that is in step goes without.
//!
//! # Method
//!
//! A line holds the latest monotonic time told, in nanoseconds. Not a count: so
//! it outlives a change of counter, and a masked count needs no special care. A
//! reader looks at the line, reads its counter, and is told
//!
//! * what it saw in the line, if that is ahead of its own time by at most the
//!   bound, which is the largest disagreement of any two CPUs;
//! * its own time otherwise.
//!
//! Then it sees to it that the line holds at least that. Times that derive from
//! the same count (CLOCK_REALTIME) are moved by the same nanoseconds.
//!
//! # Why it is right
//!
//! The look comes before the count. So what a fair reader left in the line was a
//! time of some CPU before the count was taken, hence at most the bound ahead of
//! it: what is further ahead is junk and may be replaced. What turned up in the
//! line *after* the look may be far ahead of a reader that was put aside, and is
//! left alone: lowering it would let the next reader go back. So the values in
//! the line only ever grow, but for junk, and a read that begins after another
//! has ended sees what that was told or something later, by the coherence of one
//! atomic word alone.
//!
//! # Who may write the line
//!
//! Each process has its own, in a page that it can write, and the kernel has one
//! of its own that no program reaches. A program that writes junk moves its own
//! time by at most the bound. The kernel looks at the line of a process when it
//! answers that process's system calls, so that those and the process's own reads
//! are one clock; what it finds there does not reach its own line.
//!
//! # Limits
//!
//! Between processes, time may differ by the bound. When the guard is switched
//! on, readers that went without it may have been told up to the bound more.

use crate::sync::{AtomicU64, Ordering};

/// Times the kernel tries to put its answer into the line of a process that keeps
/// writing there. A fair one makes it fail only by making progress.
const ATTEMPTS: u32 = 64;

/// The latest time told, alone on its cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct GuardLine {
    last: AtomicU64,
}

impl GuardLine {
    /// A line on which nothing was told.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            last: AtomicU64::new(0),
        }
    }

    /// See the form for production.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        Self {
            last: AtomicU64::new(0),
        }
    }

    /// What is in the line, in nanoseconds. To be called before the count is read.
    #[inline]
    #[must_use]
    pub fn look(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// What a reader is told that `saw` this in the line before it took a count
    /// that is `own` nanoseconds, where no CPU is ahead of it by more than
    /// `bound`.
    #[inline]
    pub fn pass(&self, saw: u64, own: u64, bound: u64) -> u64 {
        let told = told(saw, own, bound);
        self.raise(saw, told, u32::MAX);
        told
    }

    /// Puts `told` into the line unless more is there that was not `saw`.
    #[inline]
    fn raise(&self, saw: u64, told: u64, attempts: u32) {
        let mut last = saw;
        for _ in 0..attempts {
            if last == told || last > told && last != saw {
                return;
            }
            let swapped =
                self.last
                    .compare_exchange(last, told, Ordering::Relaxed, Ordering::Relaxed);
            match swapped {
                Ok(_) => return,
                Err(now) => last = now,
            }
        }
    }

    /// Stores any value: what a program can do to its own line.
    pub fn write(&self, last: u64) {
        self.last.store(last, Ordering::Relaxed);
    }
}

#[cfg(not(loom))]
impl Default for GuardLine {
    fn default() -> Self {
        Self::new()
    }
}

/// The larger of both times, if the one in the line is no junk.
#[inline]
const fn told(saw: u64, own: u64, bound: u64) -> u64 {
    if saw > own && saw - own <= bound {
        saw
    } else {
        own
    }
}

/// The line or lines that a reader goes by.
#[derive(Clone, Copy, Debug)]
pub struct Guard<'a> {
    line: &'a GuardLine,
    beside: Option<&'a GuardLine>,
    bound: u64,
}

/// What a reader saw in its lines before it read the counter.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    line: u64,
    beside: u64,
}

impl<'a> Guard<'a> {
    /// The guard of one line and a bound in nanoseconds.
    #[inline]
    #[must_use]
    pub const fn new(line: &'a GuardLine, bound_ns: u32) -> Self {
        Self {
            line,
            beside: None,
            bound: bound_ns as u64,
        }
    }

    /// The same, answering a process whose line is `process`: the larger of both,
    /// each under the bound.
    #[must_use]
    pub const fn beside(self, process: &'a GuardLine) -> Self {
        Self {
            beside: Some(process),
            ..self
        }
    }

    /// Looks at the lines, before the count is read.
    #[inline]
    #[must_use]
    pub fn look(&self) -> Seen {
        Seen {
            line: self.line.look(),
            beside: self.beside.map_or(0, GuardLine::look),
        }
    }

    /// What a reader of `own` nanoseconds is told, at least `own`.
    #[inline]
    #[must_use]
    pub fn pass(&self, seen: Seen, own: u64) -> u64 {
        let ours = self.line.pass(seen.line, own, self.bound);
        let Some(process) = self.beside else {
            return ours;
        };
        let answer = told(seen.beside, own, self.bound).max(ours);
        process.raise(seen.beside, answer, ATTEMPTS);
        answer
    }
}
