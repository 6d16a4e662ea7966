//! Compares the clock with a counter that it does not run on: while a CPU
//! stands still, or from one `sysctl` to the next.

use alloc::string::{String, ToString};
use core::fmt;

use timecounter::{Clock, Timecounter};

use super::{COUNTERS, ruler};
use crate::sync::IrqMutex;

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

/// A read of the clock between two of the reference.
#[derive(Clone, Copy)]
struct Bracket {
    before: u64,
    clock: u64,
    after: u64,
}

impl Bracket {
    fn take(reference: &mut Reference, clock: &Clock) -> Self {
        Self {
            before: reference.now_ns(),
            clock: clock.monotonic_ns(),
            after: reference.now_ns(),
        }
    }

    fn width(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }

    /// The narrowest of some.
    fn narrow(reference: &mut Reference, clock: &Clock) -> Self {
        let mut best = Self::take(reference, clock);
        for _ in 1..BRACKETS {
            let next = Self::take(reference, clock);
            if next.width() < best.width() {
                best = next;
            }
        }
        best
    }
}

/// What was seen of the clock. It is off by so much at the least, however long
/// the host stopped this CPU between two reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    against: &'static str,
    /// Furthest behind the reference, in ns.
    behind: u64,
    /// Furthest ahead of it, in ns.
    ahead: u64,
    back: u64,
    looks: u64,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "-{} to +{} ns off {}, {} steps back in {} reads",
            self.behind, self.ahead, self.against, self.back, self.looks
        )
    }
}

/// Brackets of which the narrowest is taken where one must be close.
const BRACKETS: u32 = 8;

/// The comparison that goes on.
static GOING_ON: IrqMutex<Option<Watch>> = IrqMutex::new(None);

/// Begins to compare `clock` with a counter that it does not run on now, and
/// must not change to meanwhile.
pub(crate) fn begin(clock: &Clock) {
    let watch = Watch::start(clock);
    GOING_ON.with(|going_on| *going_on = Some(watch));
}

/// What the comparison has come to. To be called twice a wrap of the HPET's, or
/// of the ACPI timer's where there is none.
pub(crate) fn so_far(clock: &Clock) -> String {
    GOING_ON.with(|going_on| {
        going_on.as_mut().map_or_else(
            || "none".to_string(),
            |watch| {
                let now = Bracket::narrow(&mut watch.reference, clock);
                watch.judge(now);
                watch.seen.to_string()
            },
        )
    })
}

/// A look-out beside a clock.
pub(super) struct Watch {
    reference: Reference,
    start: Bracket,
    last: u64,
    seen: Seen,
}

impl Watch {
    /// Begins to compare `clock` with a counter that it does not run on.
    pub(super) fn start(clock: &Clock) -> Self {
        let active = clock.active().map_or("", |active| active.name());
        let mut reference = Reference::beside(active);
        let start = Bracket::narrow(&mut reference, clock);
        Self {
            seen: Seen {
                against: reference.name(),
                behind: 0,
                ahead: 0,
                back: 0,
                looks: 0,
            },
            reference,
            start,
            last: start.clock,
        }
    }

    /// Reads both once.
    pub(super) fn look(&mut self, clock: &Clock) {
        let now = Bracket::take(&mut self.reference, clock);
        self.judge(now);
    }

    fn judge(&mut self, now: Bracket) {
        let passed = now.clock.saturating_sub(self.start.clock);
        let least = now.before.saturating_sub(self.start.after);
        let most = now.after.saturating_sub(self.start.before);
        let seen = &mut self.seen;
        seen.behind = seen.behind.max(least.saturating_sub(passed));
        seen.ahead = seen.ahead.max(passed.saturating_sub(most));
        seen.back += u64::from(now.clock < self.last);
        seen.looks += 1;
        self.last = now.clock;
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
