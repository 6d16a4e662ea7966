//! Whether two counters agree: the arithmetic of the watchdog.
//!
//! # Background
//!
//! No counter knows that it is wrong; two that disagree show that one of them
//! is, and a third shows which. Each gives its own idea of how long an interval
//! was. The differences of those ideas, with what the reads leave uncertain, are
//! all there is to judge by.
//!
//! # Method
//!
//! An interval is usable for a counter only while it is shorter than half a wrap,
//! by whichever counter says most: after a longer one a masked difference means
//! nothing. A deviation convicts only if it exceeds the threshold by more than
//! what is uncertain, so a read that takes long (a system management interrupt, a
//! vCPU that was put aside) widens the uncertainty and convicts nobody.
//!
//! # Limits
//!
//! Two counters that go wrong alike convict a third that is right. An interval
//! that hides whole wraps of every counter is not recognised.

use core::fmt;

/// Largest deviation between two rates that is corrected and not convicted, in
/// 10^-9: what the clock's own adjustments are limited to.
pub const THRESHOLD_PPB: i64 = 500_000;

const NS_PER_SEC: u128 = 1_000_000_000;

/// Counts that passed on a counter, and the rate it claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Counts, all wraps included.
    pub counts: u64,
    /// Hz, not 0.
    pub hz: u64,
}

impl Span {
    /// Its length by its own rate in nanoseconds, rounded down, at most 2^63 - 1.
    #[must_use]
    pub fn ns(self) -> i64 {
        let ns = u128::from(self.counts) * NS_PER_SEC / u128::from(self.hz.max(1));
        i64::try_from(ns).unwrap_or(i64::MAX)
    }
}

/// What two counters say of each other over one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They agree within the threshold.
    Stable,
    /// They disagree by more.
    Unstable,
    /// The interval may hide wraps of one of them.
    Unusable,
}

/// Compares the interval `checked` with `reference`, whose wrap takes `wrap_ns`.
///
/// `threshold_ns` and the result's skew (checked less reference) are in
/// nanoseconds.
#[must_use]
pub fn compare(checked: Span, reference: Span, wrap_ns: u64, threshold_ns: u64) -> (i64, Verdict) {
    let skew = checked.ns().saturating_sub(reference.ns());
    let longest = checked.ns().max(reference.ns()).unsigned_abs();
    let verdict = if longest >= wrap_ns {
        Verdict::Unusable
    } else if skew.unsigned_abs() > threshold_ns {
        Verdict::Unstable
    } else {
        Verdict::Stable
    };
    (skew, verdict)
}

/// `part` of `whole` in 10^-9, rounded down; 0 of nothing.
#[must_use]
pub fn ppb(part: i64, whole: i64) -> i64 {
    let whole = i128::from(whole);
    if whole <= 0 {
        return 0;
    }
    let ppb = (i128::from(part) * NS_PER_SEC as i128).div_euclid(whole);
    i64::try_from(ppb).unwrap_or(if part < 0 { i64::MIN } else { i64::MAX })
}

/// The constant rate error between two samples of a clock's drift, each
/// (elapsed, drift) in nanoseconds: in 10^-9, rounded down. Nothing if the second
/// is not later.
#[must_use]
pub fn drift_ppb(first: (i64, i64), second: (i64, i64)) -> Option<i64> {
    let elapsed = second.0.checked_sub(first.0).filter(|&ns| ns > 0)?;
    Some(ppb(second.1.checked_sub(first.1)?, elapsed))
}

/// By how much one counter is faster than another, in 10^-9, and what the reads
/// leave uncertain of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deviation {
    /// 10^-9; positive where the first is faster.
    pub ppb: i64,
    /// 10^-9, not negative.
    pub uncertain: i64,
}

impl Deviation {
    /// Over an interval of `first` and `second` nanoseconds by the two counters,
    /// where the samples took `bracket_ns` in all.
    #[must_use]
    pub fn over(first: i64, second: i64, bracket_ns: i64) -> Self {
        // By the slower of the two a stopped counter would divide by nothing.
        let longest = first.max(second);
        Self {
            ppb: ppb(first.saturating_sub(second), longest),
            uncertain: ppb(bracket_ns.max(0), longest),
        }
    }

    /// Whether it is beyond `limit` for certain.
    #[must_use]
    pub fn exceeds(self, limit: i64) -> bool {
        self.ppb.saturating_abs().saturating_sub(self.uncertain) > limit
    }

    /// Whether it is within `limit` for certain.
    #[must_use]
    pub fn is_within(self, limit: i64) -> bool {
        self.ppb.saturating_abs().saturating_add(self.uncertain) <= limit
    }
}

/// In parts per million where they tell more than nothing.
impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ppm, uncertain) = (self.ppb / 1000, self.uncertain / 1000);
        write!(f, "{ppm:+} +-{uncertain} ppm")
    }
}

/// Which of two counters that disagree is wrong, by a third.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Culprit {
    /// The first: the third agrees with the second.
    First,
    /// The second: the third agrees with the first.
    Second,
    /// The third agrees with both or with neither.
    Undecided,
}

/// Judges by the deviations of either from the third; `limit` is what still
/// counts as agreement, in 10^-9.
#[must_use]
pub fn convict(first: Deviation, second: Deviation, limit: i64) -> Culprit {
    match (first.exceeds(limit), second.exceeds(limit)) {
        (true, false) if second.is_within(limit) => Culprit::First,
        (false, true) if first.is_within(limit) => Culprit::Second,
        _ => Culprit::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stopped_counter_is_a_billion_parts_slow() {
        let deviation = Deviation::over(0, 1_000_000_000, 0);
        assert_eq!(deviation.ppb, -1_000_000_000, "it lost everything");
        assert!(deviation.exceeds(THRESHOLD_PPB), "and that convicts");
    }

    #[test]
    fn two_that_stand_still_do_not_disagree() {
        assert_eq!(Deviation::over(0, 0, 5), Deviation::default());
    }

    #[test]
    fn the_threshold_itself_convicts_nobody() {
        let at = |ppb, uncertain| Deviation { ppb, uncertain };
        assert!(!at(500_000, 0).exceeds(500_000), "exactly at it");
        assert!(at(500_001, 0).exceeds(500_000), "one above it");
        assert!(at(-500_001, 0).exceeds(500_000), "one below its negative");
        assert!(!at(700_000, 200_000).exceeds(500_000), "a slow read");
        assert!(!at(i64::MIN, i64::MAX).is_within(i64::MAX - 1), "no wrap");
    }

    #[test]
    fn the_third_convicts_whom_it_contradicts() {
        let right = Deviation::default();
        let wrong = Deviation {
            ppb: 20_000_000,
            uncertain: 10_000,
        };
        let blurred = Deviation {
            ppb: 400_000,
            uncertain: 300_000,
        };
        let table = [
            (wrong, right, Culprit::First),
            (right, wrong, Culprit::Second),
            (right, right, Culprit::Undecided),
            (wrong, wrong, Culprit::Undecided),
            (wrong, blurred, Culprit::Undecided),
            (blurred, wrong, Culprit::Undecided),
        ];
        for (first, second, culprit) in table {
            assert_eq!(
                convict(first, second, THRESHOLD_PPB),
                culprit,
                "{first} against {second}"
            );
        }
    }

    #[test]
    fn drift_needs_two_samples_in_order() {
        assert_eq!(drift_ppb((5, 0), (5, 3)), None, "no time between them");
        assert_eq!(drift_ppb((5, 0), (4, 3)), None, "the wrong way round");
        assert_eq!(
            drift_ppb((0, 0), (1_000_000_000, -1)),
            Some(-1),
            "backwards"
        );
        assert_eq!(
            drift_ppb((i64::MIN, 0), (i64::MAX, 0)),
            None,
            "too far apart"
        );
    }

    proptest! {
        #[test]
        fn the_skew_is_exact_in_wide_arithmetic(
            counts in any::<u64>(), other in any::<u64>(),
            hz in 1_u64..=1 << 40, other_hz in 1_u64..=1 << 40,
        ) {
            let exact = |counts: u64, hz: u64| {
                (i128::from(counts) * 1_000_000_000 / i128::from(hz)).min(i128::from(i64::MAX))
            };
            let (skew, _) = compare(
                Span { counts, hz },
                Span { counts: other, hz: other_hz },
                u64::MAX,
                0,
            );
            prop_assert_eq!(i128::from(skew), exact(counts, hz) - exact(other, other_hz));
        }

        #[test]
        fn parts_are_rounded_down_and_never_wrap(part in any::<i64>(), whole in 1_i64..) {
            let exact = (i128::from(part) * 1_000_000_000).div_euclid(i128::from(whole));
            let clamped = exact.clamp(i64::MIN.into(), i64::MAX.into());
            prop_assert_eq!(i128::from(ppb(part, whole)), clamped);
        }
    }
}
