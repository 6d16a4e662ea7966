//! How many ticks make a windup (FreeBSD's `tc_tick`).
//!
//! Above 1000 Hz not every tick winds up: `tc_tick` ticks make one, the number
//! that comes nearest to a thousand windups a second.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::float_arithmetic,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

/// Windups a second that ticks are thinned out to.
const WINDUP_HZ: u32 = 1000;
/// Microseconds in a second.
const MICROS: u64 = 1_000_000;

/// Ticks from one windup to the next at `hz` ticks a second: 1 up to 1000 Hz,
/// (hz + 500) / 1000 above.
#[must_use]
pub const fn ticks_per_windup(hz: u32) -> u32 {
    if hz <= WINDUP_HZ {
        1
    } else {
        hz.saturating_add(WINDUP_HZ / 2) / WINDUP_HZ
    }
}

/// The time between windups in microseconds, rounded down, for the boot line
/// `Timecounters tick every 1.000 msec`; `None` for 0 Hz.
#[must_use]
pub const fn windup_period_us(hz: u32) -> Option<u64> {
    (ticks_per_windup(hz) as u64)
        .saturating_mul(MICROS)
        .checked_div(hz as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_thinned_out_to_about_a_thousand_windups_a_second() {
        for (hz, ticks, period_us) in [
            (100, 1, 10_000),
            (250, 1, 4_000),
            (1_000, 1, 1_000),
            (1_001, 1, 999),
            (1_499, 1, 667),
            (1_500, 2, 1_333),
            (4_000, 4, 1_000),
        ] {
            assert_eq!(ticks_per_windup(hz), ticks, "ticks a windup at {hz} Hz");
            assert_eq!(windup_period_us(hz), Some(period_us), "period at {hz} Hz");
        }
    }

    #[test]
    fn no_tick_has_no_period() {
        assert_eq!(windup_period_us(0), None, "0 Hz");
    }
}
