//! The steps that clocks are promised to move in (`clock_getres`).
//!
//! A precise clock cannot tell apart what happens within one step of its
//! counter. FreeBSD reports 10^9 / f + 1 ns, a cheap way to round up that is
//! never 0; some counters move several counts at a time (a TSC has been measured to
//! move by 26), so that the measured step counts where it is the longer.
//! A coarse clock moves once a tick.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::float_arithmetic,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

use crate::timespec::{NSEC_PER_SEC, Timespec};

/// 10^9, as wide as a frequency.
const GIGA: u64 = NSEC_PER_SEC as u64;

/// Resolution of a clock that runs on a counter of `frequency` Hz which moves
/// `step` counts at a time: max(10^9 / f + 1, step * 10^9 / f rounded up) ns.
/// `None` for 0 Hz.
#[must_use]
pub const fn precise(frequency: u64, step: u64) -> Option<Timespec> {
    let Some(period) = GIGA.checked_div(frequency) else {
        return None;
    };
    let count = period.saturating_add(1);
    let span = (step as u128).wrapping_mul(GIGA as u128);
    let measured = span.div_ceil(frequency as u128);
    Some(Timespec::from_ns(if measured > u64::MAX as u128 {
        u64::MAX
    } else if measured as u64 > count {
        measured as u64
    } else {
        count
    }))
}

/// Resolution of a coarse clock with `hz` ticks a second: 10^9 / hz ns, rounded
/// up. `None` for 0.
#[must_use]
pub const fn coarse(hz: u32) -> Option<Timespec> {
    match hz {
        0 => None,
        hz => Some(Timespec::from_ns(GIGA.div_ceil(hz as u64))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resolution_of_a_fast_counter_is_never_zero() {
        assert_eq!(
            precise(5_800_000_000, 1),
            Some(Timespec { sec: 0, nsec: 1 }),
            "a count of 0.17 ns"
        );
    }

    #[test]
    fn a_period_of_whole_nanoseconds_is_rounded_up_too() {
        assert_eq!(
            precise(100_000_000, 1),
            Some(Timespec { sec: 0, nsec: 11 }),
            "10 ns and one, as in FreeBSD"
        );
    }

    #[test]
    fn a_counter_that_moves_in_steps_reports_its_step() {
        assert_eq!(
            precise(2_600_000_000, 27),
            Some(Timespec { sec: 0, nsec: 11 }),
            "27 counts at 2.6 GHz last 10.4 ns"
        );
        assert_eq!(
            precise(1_193_182, 1),
            Some(Timespec { sec: 0, nsec: 839 }),
            "a step of one count changes nothing"
        );
    }

    #[test]
    fn a_resolution_of_a_second_and_more_keeps_its_parts_in_range() {
        assert_eq!(
            precise(1, 2),
            Some(Timespec { sec: 2, nsec: 0 }),
            "two counts at 1 Hz"
        );
    }

    #[test]
    fn no_rate_has_no_resolution() {
        assert_eq!(precise(0, 1), None, "a stopped counter");
        assert_eq!(coarse(0), None, "no tick");
    }
}
