//! Measuring one counter by another.
//!
//! # Method
//!
//! A reading of the counter under test (the *target*) is put between two of
//! the reference, so its place on the reference's time line is known to half
//! the distance of those two: a *bracket*. Whatever comes in between, an
//! interrupt or a stopped virtual CPU, widens the bracket and never falsifies
//! it; of several in a row the narrowest is kept. Two brackets some time apart
//! give the rate, and a bound of its error that needs no assumption about
//! noise:
//!
//! ```text
//! error <= (half the first bracket + half the second + 1 count) / window
//! ```
//!
//! which is below 2 x (cost of a reference read) / window. A regression over
//! many samples reports a smaller error, but one that holds only if the noise
//! is independent, and a hypervisor's is not.
//!
//! The window doubles until the bound is good enough or the time is up. At
//! each doubling the rate of the first half is compared with that of the
//! second: a jump of either counter, or wraps missed during a long stop, make
//! them differ by more than their bounds allow, and the measurement starts
//! over, up to three times.
//!
//! # Limits
//!
//! The bound is relative to the reference: a reference that is wrong at a
//! constant rate is found only by asking another
//! ([`crosscheck`](crate::crosscheck)). Nothing waits without counting: the
//! reads of the reference, the counts of the target and the time spent on a
//! reference that stands still are all limited.

mod run;

use core::fmt;

use timecounter::Timecounter;

use crate::bus::Pace;
use run::Run;

const NANOSECONDS: u128 = 1_000_000_000;
/// Attempts before a rate counts as unsteady.
const ATTEMPTS: u32 = 3;
/// Rates of the two halves may differ by twice their bounds and this, for
/// references whose emulation rounds.
const STEADY_SLACK_PPB: u64 = 10_000;

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest window, in ns of the reference.
    pub window_ns: u64,
    /// Stop as soon as the error bound is this small, in parts per 10^9.
    pub good_enough_ppb: u64,
    /// Most reads of the reference in all.
    pub reads: u32,
    /// Give up when the target has moved by this many counts in one attempt:
    /// the bound in time for a reference that crawls.
    pub target_counts: u64,
}

impl Limits {
    /// For a rate that time will be told by: 100 ms, less where 1 ppm is
    /// reached before.
    pub const PRECISE: Self = Self {
        window_ns: 100_000_000,
        good_enough_ppb: 1_000,
        reads: 4096,
        target_counts: 1 << 32,
    };
    /// For telling a counter that lies from one that does not: 10 ms, or
    /// 100 ppm.
    pub const QUICK: Self = Self {
        window_ns: 10_000_000,
        good_enough_ppb: 100_000,
        reads: 2048,
        target_counts: 1 << 32,
    };
}

/// A measured rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// In Hz, to the nearest.
    pub frequency: u64,
    /// Bound of its error in parts per 10^9, relative to the reference.
    pub error_ppb: u64,
    /// The window it was measured over, in ns of the reference.
    pub window_ns: u64,
    /// Reads of the reference that were made.
    pub reads: u32,
}

/// Why there is no rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalibrationError {
    /// The reference claims a rate of 0.
    NoReferenceRate,
    /// The reference stands still.
    ReferenceStuck,
    /// The counter under test stands still.
    TargetStuck,
    /// The reference needed more reads, or the target moved further, than
    /// allowed before the window was over: the reference crawls.
    ReferenceSlow,
    /// Three times the two halves of the window gave different rates.
    Unsteady,
}

impl fmt::Display for CalibrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoReferenceRate => "the reference has no rate",
            Self::ReferenceStuck => "the reference does not advance",
            Self::TargetStuck => "counter does not advance",
            Self::ReferenceSlow => "the reference is too slow",
            Self::Unsteady => "the rate is not steady",
        })
    }
}

/// Measures the rate of the counter that `target` reads, whose values wrap
/// after `target_mask`, by `reference`.
///
/// # Errors
///
/// [`CalibrationError`], after a bounded number of reads.
pub fn measure(
    target: impl Fn() -> u64,
    target_mask: u64,
    reference: &dyn Timecounter,
    pace: &impl Pace,
    limits: &Limits,
) -> Result<Calibration, CalibrationError> {
    if reference.frequency() == 0 {
        return Err(CalibrationError::NoReferenceRate);
    }
    let mut reads = 0;
    let mut result = Err(CalibrationError::Unsteady);
    for _ in 0..ATTEMPTS {
        let mut run = Run::new(&target, target_mask, reference, pace, limits, reads);
        result = run.attempt();
        if result != Err(CalibrationError::Unsteady) {
            break;
        }
        reads = run.reads;
    }
    result
}

/// Whether two rates of one counter can both be right.
fn agree(a: &Calibration, b: &Calibration) -> bool {
    let bounds = a.error_ppb.saturating_add(b.error_ppb);
    let allowed = bounds.saturating_mul(2).saturating_add(STEADY_SLACK_PPB);
    difference_ppb(a.frequency, b.frequency) <= allowed
}

/// The difference of two rates in parts per 10^9 of the smaller, rounded down.
pub(crate) fn difference_ppb(a: u64, b: u64) -> u64 {
    let small = u128::from(a.min(b)).max(1);
    let ppb = u128::from(a.abs_diff(b)) * NANOSECONDS / small;
    u64::try_from(ppb).unwrap_or(u64::MAX)
}
