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

use core::fmt;

use timecounter::Timecounter;

use crate::bus::Pace;

const NANOSECONDS: u128 = 1_000_000_000;
/// Brackets of which the narrowest is kept.
const BRACKETS: u32 = 8;
/// The first window is this part of the longest one.
const FIRST_WINDOW_DIVISOR: u64 = 16;
const ATTEMPTS: u32 = 3;
/// Waits start with this many pauses and double until one lasts a 64th of
/// what is left, so that a window costs some hundred reads whatever a read
/// and a pause cost.
const FIRST_TURNS: u32 = 16;
const MOST_TURNS: u32 = 1 << 16;
const POLLS_PER_WAIT: u64 = 64;
/// Pauses after which a reference that did not move stands still: at least
/// 0.4 ms (10 cycles each at 3 GHz), hundreds of periods of any counter.
const STUCK_TURNS: u64 = 1 << 17;
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

/// A reading of the target and where it lies on the reference's time line.
#[derive(Clone, Copy)]
struct Bracket {
    /// Sum of the two reference counts, that is twice the middle.
    twice_middle: u64,
    /// Their distance.
    width: u64,
    /// The target's count.
    target: u64,
}

/// One attempt: both counters followed over their wraps.
struct Run<'a, T, P> {
    target: &'a T,
    target_mask: u64,
    reference: &'a dyn Timecounter,
    pace: &'a P,
    limits: &'a Limits,
    reads: u32,
    last_reference: u64,
    reference_count: u64,
    last_target: u64,
    target_count: u64,
    target_went_back: bool,
}

impl<'a, T: Fn() -> u64, P: Pace> Run<'a, T, P> {
    fn new(
        target: &'a T,
        target_mask: u64,
        reference: &'a dyn Timecounter,
        pace: &'a P,
        limits: &'a Limits,
        reads: u32,
    ) -> Self {
        Self {
            target,
            target_mask,
            reference,
            pace,
            limits,
            reads: reads + 1,
            last_reference: reference.read(),
            reference_count: 0,
            last_target: target(),
            target_count: 0,
            target_went_back: false,
        }
    }

    fn attempt(&mut self) -> Result<Calibration, CalibrationError> {
        let start = self.best_bracket();
        let mut window = (self.limits.window_ns / FIRST_WINDOW_DIVISOR).max(1);
        let mut half: Option<Bracket> = None;
        loop {
            self.wait_until(start.twice_middle / 2 + self.reference_counts(window))?;
            let end = self.best_bracket();
            if self.target_went_back {
                return Err(CalibrationError::Unsteady);
            }
            let whole = self.rate(&start, &end)?;
            if let Some(half) = half {
                let first = self.rate(&start, &half)?;
                let second = self.rate(&half, &end)?;
                if !agree(&first, &second) {
                    return Err(CalibrationError::Unsteady);
                }
                if whole.error_ppb <= self.limits.good_enough_ppb || window >= self.limits.window_ns
                {
                    return Ok(whole);
                }
            }
            half = Some(end);
            window = window.saturating_mul(2);
        }
    }

    /// `ns` in counts of the reference, rounded up.
    fn reference_counts(&self, ns: u64) -> u64 {
        let counts = u128::from(ns) * u128::from(self.reference.frequency()) / NANOSECONDS;
        u64::try_from(counts).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Reads the reference and returns its count since the start.
    fn read_reference(&mut self) -> u64 {
        let now = self.reference.read();
        self.reads = self.reads.saturating_add(1);
        let moved = now.wrapping_sub(self.last_reference) & self.reference.mask();
        self.last_reference = now;
        self.reference_count = self.reference_count.saturating_add(moved);
        self.reference_count
    }

    /// Reads the target and returns its count since the start. A step back
    /// (more than half the range forwards) is not counted but remembered.
    fn read_target(&mut self) -> u64 {
        let now = (self.target)();
        let moved = now.wrapping_sub(self.last_target) & self.target_mask;
        self.last_target = now;
        if moved > self.target_mask / 2 {
            self.target_went_back = true;
        } else {
            self.target_count = self.target_count.saturating_add(moved);
        }
        self.target_count
    }

    fn bracket(&mut self) -> Bracket {
        let before = self.read_reference();
        let target = self.read_target();
        let after = self.read_reference();
        Bracket {
            twice_middle: before.saturating_add(after),
            width: after - before,
            target,
        }
    }

    fn best_bracket(&mut self) -> Bracket {
        let mut best = self.bracket();
        for _ in 1..BRACKETS {
            let next = self.bracket();
            if next.width < best.width {
                best = next;
            }
        }
        best
    }

    fn wait_until(&mut self, end: u64) -> Result<(), CalibrationError> {
        let mut turns = FIRST_TURNS;
        let mut turns_without_progress = 0;
        loop {
            let before = self.reference_count;
            if before >= end {
                return Ok(());
            }
            if self.reads >= self.limits.reads || self.target_count >= self.limits.target_counts {
                return Err(CalibrationError::ReferenceSlow);
            }
            self.pace.relax(turns);
            let moved = self.read_reference() - before;
            self.read_target();
            turns_without_progress = if moved == 0 {
                turns_without_progress + u64::from(turns)
            } else {
                0
            };
            if turns_without_progress >= STUCK_TURNS {
                return Err(CalibrationError::ReferenceStuck);
            }
            if moved < (end - before) / POLLS_PER_WAIT {
                turns = (turns * 2).min(MOST_TURNS);
            }
        }
    }

    /// The target's rate between two brackets, with its bound.
    fn rate(&self, from: &Bracket, to: &Bracket) -> Result<Calibration, CalibrationError> {
        let counts = u128::from(to.target - from.target);
        // In half counts of the reference, as `twice_middle` is. The first
        // wait made it at least one whole count.
        let elapsed = u128::from(to.twice_middle.saturating_sub(from.twice_middle)).max(1);
        let reference = u128::from(self.reference.frequency());
        let frequency = (counts * 2 * reference + elapsed / 2) / elapsed;
        let frequency = u64::try_from(frequency).unwrap_or(u64::MAX);
        if frequency == 0 {
            return Err(CalibrationError::TargetStuck);
        }
        // Half of each bracket, and one count because each end is known to a
        // whole count only; in half counts that is the widths and 2.
        let uncertain = u128::from(from.width) + u128::from(to.width) + 2;
        // The target's own last count, and the rounding to whole Hz.
        let rounding = NANOSECONDS / counts.max(1) + NANOSECONDS / (2 * u128::from(frequency)) + 2;
        let error = (uncertain * NANOSECONDS / elapsed).saturating_add(rounding);
        Ok(Calibration {
            frequency,
            error_ppb: u64::try_from(error).unwrap_or(u64::MAX),
            window_ns: u64::try_from(elapsed * NANOSECONDS / (2 * reference)).unwrap_or(u64::MAX),
            reads: self.reads,
        })
    }
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

/// The smallest step by which a counter was seen to move in `reads` reads in
/// a row: the greatest common divisor of the differences, 1 if it did not
/// move.
///
/// Some counters are faster in name than in truth: a TSC that a 100 MHz clock
/// moves by 26 at a time, for one. Differences that are negative or enormous
/// (another CPU's counter after a migration) are left out.
pub fn smallest_step(read: impl Fn() -> u64, mask: u64, reads: u32) -> u64 {
    let mut step = 0;
    let mut last = read();
    for _ in 1..reads {
        let now = read();
        let moved = now.wrapping_sub(last) & mask;
        last = now;
        if moved <= mask / 2 {
            step = greatest_common_divisor(step, moved);
        }
    }
    step.max(1)
}

/// Euclid's; the divisor of 0 and n is n.
const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
