//! What a CPU that stands still sees of the clock meanwhile.

use core::fmt;

use timecounter::{Clock, Timecounter};

use super::{COUNTERS, ruler};

/// Counters to judge the TSC by, best first.
const OTHERS: [&str; 3] = ["HPET", "ACPI-fast", "ACPI-safe"];

/// The counter that the clock is judged by: never the one that it runs on.
enum Reference {
    Ruler,
    Counter {
        counter: &'static dyn Timecounter,
        last: u64,
        passed: u64,
    },
}

impl Reference {
    fn beside(active: &str) -> Self {
        let other = || {
            COUNTERS.with(|counters| {
                OTHERS.iter().find_map(|name| {
                    let counter = counters.iter().find(|counter| counter.name() == *name)?;
                    Some(counter.real())
                })
            })
        };
        match if active == "TSC" { other() } else { None } {
            Some(counter) => Self::Counter {
                counter,
                last: counter.read(),
                passed: 0,
            },
            None => Self::Ruler,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Ruler => "TSC",
            Self::Counter { counter, .. } => counter.name(),
        }
    }

    /// Nanoseconds by it. To be called twice a wrap.
    fn now_ns(&mut self) -> u64 {
        match self {
            Self::Ruler => ruler::now_ns(),
            Self::Counter {
                counter,
                last,
                passed,
            } => {
                let now = counter.read();
                *passed += now.wrapping_sub(*last) & counter.mask();
                *last = now;
                let ns = u128::from(*passed) * 1_000_000_000 / u128::from(counter.frequency());
                ns as u64
            }
        }
    }
}

/// What was seen of the clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    against: &'static str,
    /// Furthest behind the reference, in ns; at most 0.
    behind: i64,
    /// Furthest ahead of it, at least 0.
    ahead: i64,
    back: u64,
    looks: u64,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} to +{} ns off {}, {} steps back in {} reads",
            self.behind, self.ahead, self.against, self.back, self.looks
        )
    }
}

/// A look-out beside a clock.
pub(super) struct Watch {
    reference: Reference,
    clock_start: u64,
    reference_start: u64,
    last: u64,
    seen: Seen,
}

impl Watch {
    /// Begins to compare `clock` with a counter that it does not run on.
    pub(super) fn start(clock: &Clock) -> Self {
        let active = clock.active().map_or("", |active| active.name());
        let mut reference = Reference::beside(active);
        let now = clock.monotonic_ns();
        Self {
            seen: Seen {
                against: reference.name(),
                behind: 0,
                ahead: 0,
                back: 0,
                looks: 0,
            },
            reference_start: reference.now_ns(),
            reference,
            clock_start: now,
            last: now,
        }
    }

    /// Reads both once. The counters are read one behind the other, so that
    /// this is no more exact than the time between.
    pub(super) fn look(&mut self, clock: &Clock) {
        let now = clock.monotonic_ns();
        let reference = self.reference.now_ns().wrapping_sub(self.reference_start);
        let error = now.wrapping_sub(self.clock_start).wrapping_sub(reference) as i64;
        self.seen.behind = self.seen.behind.min(error);
        self.seen.ahead = self.seen.ahead.max(error);
        self.seen.back += u64::from(now < self.last);
        self.seen.looks += 1;
        self.last = now;
    }

    /// Does nothing else for `ms` milliseconds.
    pub(super) fn stand(&mut self, clock: &Clock, ms: u32) {
        let start = ruler::now_ns();
        while ruler::now_ns().wrapping_sub(start) < u64::from(ms) * 1_000_000 {
            self.look(clock);
        }
    }

    /// What was seen so far.
    pub(super) fn seen(&self) -> Seen {
        self.seen
    }
}
