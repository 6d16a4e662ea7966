//! CPU time: how long threads have been running, in nanoseconds.
//!
//! A [`Meter`] adds up the time between [`start`](Meter::start) and
//! [`stop`](Meter::stop) of any number of threads that may run at once: one
//! for a thread's clock, all of a process's for the process's. While `n` of
//! them run, started at `s1` to `sn`, the time so far is
//!
//! ```text
//! done + (now - s1) + ... + (now - sn)  =  done + n * now - (s1 + ... + sn)
//! ```
//!
//! so that a reading costs the same for one thread and for five hundred, and
//! is right while they run on other processors.
//!
//! **Never back.** The instants come from the processor that calls, and two
//! processors' clocks can disagree by the counter's skew: a reading taken where
//! the clock is ahead may be above the sum that a stop where it is behind
//! leaves. So a meter remembers the largest value it has shown and shows no
//! less. It stands still for at most the skew then; the sum itself is not
//! changed and no error is carried along.
//!
//! Limits: a meter is not synchronized; the scheduler's lock covers it. The
//! time of interrupts counts for the thread that they interrupt. 2^64 ns are
//! 584 years.

/// Adds up the running time of threads. All instants and values are in
/// nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meter {
    /// Of the runs that have ended.
    done: u64,
    /// Runs that have not.
    running: u32,
    /// Sum of the instants at which those started.
    starts: u128,
    /// The largest value shown.
    shown: u64,
}

impl Meter {
    /// A meter at 0.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            done: 0,
            running: 0,
            starts: 0,
            shown: 0,
        }
    }

    /// A thread starts to run at `now`.
    pub fn start(&mut self, now: u64) {
        self.running += 1;
        self.starts += u128::from(now);
    }

    /// The thread that started at `started` stops at `now`. An instant before
    /// its start, which another processor's clock can give, counts as none.
    pub fn stop(&mut self, started: u64, now: u64) {
        self.running = self.running.saturating_sub(1);
        self.starts = self.starts.saturating_sub(u128::from(started));
        self.done = self.done.saturating_add(now.saturating_sub(started));
    }

    /// The time so far, seen at `now`: never less than an earlier reading.
    pub fn read(&mut self, now: u64) -> u64 {
        let passed = (u128::from(self.running) * u128::from(now)).saturating_sub(self.starts);
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        self.shown = self.shown.max(self.done.saturating_add(passed));
        self.shown
    }
}

#[cfg(test)]
#[path = "cputime_tests.rs"]
mod tests;
