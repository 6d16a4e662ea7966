//! Whether the time-stamp counters of all processors are one clock.
//!
//! # Background
//!
//! Each processor has its own counter. Started together they stay together; what
//! hot-plugging, firmware, a hypervisor or a sleep did to one shows as an offset
//! that a program sees as a step back when it moves there. FreeBSD lets all CPUs
//! stamp three phases and asks whether the phases came out in order, which finds
//! offsets above a rendezvous and can be failed by one unlucky sample. Here each
//! CPU is measured against CPU 0, and what decides is not a sample but what all
//! samples leave possible.
//!
//! # Method
//!
//! In a round ([`timecounter::rendezvous`]) the other CPU's stamp `there` is taken
//! between CPU 0's `before` and `after`. So the other's offset lies between
//! `there - after` and `there - before`, whatever else happened: a CPU that was put
//! aside widens that, and can't make it wrong. [`Offset`] is the intersection of
//! all rounds, as narrow as the quickest of them. If it is empty, no constant
//! offset explains the rounds: one counter runs at another rate, or jumped.
//!
//! # Why an offset that cannot be told from 0 does no harm
//!
//! A program sees a step back if it reads on one CPU, tells another, and that one
//! reads less. The message takes at least the quicker half of the quickest round,
//! as the stamps' did. An offset larger than that would have left 0 outside the
//! interval.
//!
//! # Limits
//!
//! Rates that differ by parts in a million need longer than a measurement takes;
//! one that is repeated later is compared with the first ([`since`]).

use core::fmt;

use timecounter::rendezvous::Round;

/// What disagreement of two CPUs the jitter guard makes up for, in nanoseconds.
/// Beyond that the counter is out of step.
pub const GUARD_LIMIT_NS: u64 = 10_000;

/// By how much a CPU's counter is ahead of CPU 0's: an interval that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Counts, at least.
    pub low: i64,
    /// Counts, at most.
    pub high: i64,
}

impl Offset {
    /// CPU 0's own.
    pub const NONE: Self = Self { low: 0, high: 0 };

    /// Nothing known.
    pub const UNKNOWN: Self = Self {
        low: i64::MIN,
        high: i64::MAX,
    };

    /// What one round leaves possible.
    #[must_use]
    pub fn of(round: &Round) -> Self {
        let signed = |from: u64| round.there.wrapping_sub(from).cast_signed();
        Self {
            low: signed(round.after),
            high: signed(round.before),
        }
    }

    /// What both leave possible; nothing if they exclude each other.
    #[must_use]
    pub fn and(self, other: Self) -> Option<Self> {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        (low <= high).then_some(Self { low, high })
    }

    /// Whether the counters may be one.
    #[must_use]
    pub const fn may_be_none(self) -> bool {
        self.low <= 0 && self.high >= 0
    }

    /// The middle, rounded down.
    #[must_use]
    pub const fn middle(self) -> i64 {
        self.low.midpoint(self.high)
    }

    /// How far the middle may be off, in counts.
    #[must_use]
    pub const fn error(self) -> u64 {
        self.high.abs_diff(self.middle())
    }
}

/// What was found of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its offset.
    Offset(Offset),
    /// No constant offset explains what was seen: the two that exclude each other.
    Unsteady(Offset, Offset),
    /// It did not answer.
    Silent,
}

impl Found {
    /// Takes one more round into account.
    #[must_use]
    pub fn with(self, round: &Round) -> Self {
        let Self::Offset(before) = self else {
            return self;
        };
        let now = Offset::of(round);
        before
            .and(now)
            .map_or(Self::Unsteady(before, now), Self::Offset)
    }
}

/// A CPU's line in the log.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The CPU's number.
    pub cpu: usize,
    /// What was found.
    pub found: Found,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = self.cpu;
        match self.found {
            Found::Offset(offset) => {
                let word = if offset.may_be_none() {
                    "synchronized"
                } else {
                    "not synchronized"
                };
                write!(
                    f,
                    "TSC: CPU {cpu} {word} with CPU 0 (offset {} cycles, worst error {} cycles)",
                    offset.middle(),
                    offset.error()
                )
            }
            Found::Unsteady(first, second) => write!(
                f,
                "TSC: CPU {cpu} has no steady offset to CPU 0 ({} to {} cycles, then {} to {})",
                first.low, first.high, second.low, second.high
            ),
            Found::Silent => write!(f, "TSC: CPU {cpu} did not answer"),
        }
    }
}

/// What follows for the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One clock, as far as any program can tell.
    InStep,
    /// Apart, by at most so many counts between any two CPUs: usable with the
    /// guard.
    Skewed {
        /// Counts.
        bound: u64,
    },
    /// This CPU is too far off, or it is not known how far.
    OutOfStep {
        /// The CPU's number.
        cpu: usize,
        /// Its offset.
        offset: Offset,
    },
    /// This CPU's counter runs at another rate, or jumped.
    Unsteady {
        /// The CPU's number.
        cpu: usize,
    },
    /// This CPU did not answer.
    Unanswered {
        /// The CPU's number.
        cpu: usize,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InStep => f.write_str("all CPUs in step"),
            Self::Skewed { bound } => write!(f, "CPUs up to {bound} cycles apart"),
            Self::OutOfStep { cpu, offset } if offset.may_be_none() => write!(
                f,
                "CPU {cpu} was not measured closely enough ({} to {} cycles)",
                offset.low, offset.high
            ),
            Self::OutOfStep { cpu, offset } => write!(
                f,
                "CPU {cpu} is out of step ({} to {} cycles)",
                offset.low, offset.high
            ),
            Self::Unsteady { cpu } => write!(f, "CPU {cpu} does not keep its offset"),
            Self::Unanswered { cpu } => write!(f, "CPU {cpu} was not measured"),
        }
    }
}

/// Counts of a counter of `hz` that the guard makes up for.
#[must_use]
pub fn guard_limit(hz: u64) -> u64 {
    let counts = u128::from(hz) * u128::from(GUARD_LIMIT_NS) / 1_000_000_000;
    u64::try_from(counts).unwrap_or(u64::MAX)
}

/// Counts as nanoseconds, rounded up, at most 2^32 - 1.
#[must_use]
pub fn bound_ns(counts: u64, hz: u64) -> u32 {
    let ns = (u128::from(counts) * 1_000_000_000).div_ceil(u128::from(hz.max(1)));
    u32::try_from(ns).unwrap_or(u32::MAX)
}

/// Judges what was found of all CPUs but CPU 0, each with its number, where the
/// guard makes up for `limit` counts. From the intervals alone, so a wide one is
/// never taken for proof of anything.
#[must_use]
pub fn judge(lines: impl IntoIterator<Item = Line>, limit: u64) -> Verdict {
    let mut spread = Offset::NONE;
    let mut in_step = true;
    for Line { cpu, found } in lines {
        let offset = match found {
            Found::Offset(offset) => offset,
            Found::Unsteady(..) => return Verdict::Unsteady { cpu },
            Found::Silent => return Verdict::Unanswered { cpu },
        };
        // Ends of the pair that may be furthest apart, this CPU one of them.
        let low = spread.low.min(offset.low);
        let high = spread.high.max(offset.high);
        if high.abs_diff(low) > limit {
            return Verdict::OutOfStep { cpu, offset };
        }
        spread = Offset { low, high };
        in_step &= offset.may_be_none();
    }
    if in_step {
        Verdict::InStep
    } else {
        Verdict::Skewed {
            bound: spread.high.abs_diff(spread.low),
        }
    }
}

/// `now` as it stands beside an earlier measurement of the same CPU, between which
/// nobody wrote the counter: offsets that exclude each other are no offset.
#[must_use]
pub fn since(earlier: Found, now: Found) -> Found {
    match (earlier, now) {
        (Found::Offset(before), Found::Offset(after)) if before.and(after).is_none() => {
            Found::Unsteady(before, after)
        }
        _ => now,
    }
}

/// What to add to a CPU's counter so that it is in step, if it is known to be out
/// of it.
#[must_use]
pub fn correction(found: Found) -> Option<i64> {
    match found {
        Found::Offset(offset) if !offset.may_be_none() => offset.middle().checked_neg(),
        _ => None,
    }
}
