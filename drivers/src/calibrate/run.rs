//! One attempt at a calibration: both counters followed over their wraps.

use timecounter::Timecounter;

use super::{Calibration, CalibrationError, Limits, NANOSECONDS, agree};
use crate::bus::Pace;

/// Brackets of which the narrowest is kept.
const BRACKETS: u32 = 8;
/// The first window is this part of the longest one.
const FIRST_WINDOW_DIVISOR: u64 = 16;
/// Waits start with this many pauses and double until one lasts a 64th of
/// what is left, so that a window costs some hundred reads whatever a read
/// and a pause cost.
const FIRST_TURNS: u32 = 16;
const MOST_TURNS: u32 = 1 << 16;
const POLLS_PER_WAIT: u64 = 64;
/// Pauses after which a reference that did not move stands still: at least
/// 0.4 ms (10 cycles each at 3 GHz), hundreds of periods of any counter.
const STUCK_TURNS: u64 = 1 << 17;

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

/// Both counters, counted from the start of the attempt.
pub(super) struct Run<'a, T, P> {
    target: &'a T,
    target_mask: u64,
    reference: &'a dyn Timecounter,
    pace: &'a P,
    limits: &'a Limits,
    pub(super) reads: u32,
    last_reference: u64,
    reference_count: u64,
    last_target: u64,
    target_count: u64,
    target_went_back: bool,
}

impl<'a, T: Fn() -> u64, P: Pace> Run<'a, T, P> {
    pub(super) fn new(
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

    pub(super) fn attempt(&mut self) -> Result<Calibration, CalibrationError> {
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
