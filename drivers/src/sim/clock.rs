//! Simulated time and what counts it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::lock;

const PICOSECONDS: u128 = 1_000_000_000_000;

#[derive(Debug, Default)]
struct Time {
    picoseconds: AtomicU64,
    /// Advances so far, to place stalls.
    advances: AtomicU64,
    stall_every: AtomicU64,
    stall_ps: AtomicU64,
}

/// The one clock of a simulated machine; clones share it. It lasts 213 days.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<Time>);

impl Clock {
    /// At 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Picoseconds since the start.
    #[must_use]
    pub fn now_ps(&self) -> u64 {
        self.0.picoseconds.load(Ordering::Relaxed)
    }

    /// Lets time pass.
    pub fn advance_ps(&self, picoseconds: u64) {
        let count = self.0.advances.fetch_add(1, Ordering::Relaxed) + 1;
        let every = self.0.stall_every.load(Ordering::Relaxed);
        let stall = if every != 0 && count.is_multiple_of(every) {
            self.0.stall_ps.load(Ordering::Relaxed)
        } else {
            0
        };
        self.0
            .picoseconds
            .fetch_add(picoseconds + stall, Ordering::Relaxed);
    }

    /// As [`advance_ps`](Self::advance_ps), in nanoseconds.
    pub fn advance_ns(&self, nanoseconds: u64) {
        self.advance_ps(nanoseconds * 1_000);
    }

    /// The fault of a preempted virtual CPU: every `every`th passage of time
    /// takes `nanoseconds` more. 0 ends it.
    pub fn stall_every(&self, every: u64, nanoseconds: u64) {
        self.0
            .stall_ps
            .store(nanoseconds * 1_000, Ordering::Relaxed);
        self.0.stall_every.store(every, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Line {
    /// The count at `since_ps`.
    base: u64,
    since_ps: u64,
    running: bool,
    /// The rate in Hz is `numerator / denominator`.
    numerator: u128,
    denominator: u128,
}

/// Counts periods of a crystal since it was made; clones share it.
#[derive(Clone, Debug)]
pub struct Oscillator {
    clock: Clock,
    line: Arc<Mutex<Line>>,
}

impl Oscillator {
    /// Of `numerator / denominator` Hz; the denominator is not 0.
    #[must_use]
    pub fn new(clock: &Clock, numerator: u128, denominator: u128) -> Self {
        Self {
            clock: clock.clone(),
            line: Arc::new(Mutex::new(Line {
                base: 0,
                since_ps: clock.now_ps(),
                running: true,
                numerator,
                denominator: denominator.max(1),
            })),
        }
    }

    /// The count, modulo 2^64.
    #[must_use]
    pub fn count(&self) -> u64 {
        Self::count_of(&lock(&self.line), self.clock.now_ps())
    }

    /// Lets it stand still, or go on from where it stood.
    pub fn set_running(&self, running: bool) {
        self.change(|line| line.running = running);
    }

    /// From now on at `numerator / denominator` of the present rate.
    pub fn scale(&self, numerator: u64, denominator: u64) {
        self.change(|line| {
            line.numerator *= u128::from(numerator);
            line.denominator *= u128::from(denominator);
        });
    }

    /// Moves the count by `counts` at once.
    pub fn jump(&self, counts: i64) {
        self.change(|line| line.base = line.base.wrapping_add_signed(counts));
    }

    fn change(&self, change: impl FnOnce(&mut Line)) {
        let now = self.clock.now_ps();
        let mut line = lock(&self.line);
        line.base = Self::count_of(&line, now);
        line.since_ps = now;
        change(&mut line);
    }

    fn count_of(line: &Line, now_ps: u64) -> u64 {
        if !line.running {
            return line.base;
        }
        let elapsed = u128::from(now_ps.saturating_sub(line.since_ps));
        let counts = elapsed * line.numerator / (PICOSECONDS * line.denominator);
        line.base.wrapping_add(counts as u64)
    }
}
