//! From counts to time: the scale, the multiplier and the floor slope.
//!
//! # Background
//!
//! A count lasts 1/f seconds. FreeBSD's *scale* is that in units of 2^-64 s, so
//! that a count difference times the scale is a [`Bintime`]; a rate adjustment
//! is part of it. Division happens here, when a rate is set, and never when a
//! clock is read.
//!
//! # Scale
//!
//! [`Scale::new`] is FreeBSD's formula to the bit:
//!
//! ```text
//! half  = (2^63 + trunc(adjustment / 1024) * 2199) / f
//! scale = 2 * half
//! ```
//!
//! with `adjustment` in ns per second, 32 of its bits a fraction. An adjustment
//! `a` scales by 1 + a / (10^9 * 2^32), that is by 2^63 * a / (10^9 * 2^32) =
//! a * 2.147483648 in units of 2^-63; 2199/1024 = 2.1474609 stands for it and
//! applies 10.6 ppm too little *of the adjustment*. Truncation makes time run
//! slow by less than 2f units of 2^-64 s a second (below 10^-9 for every f up to
//! 5.8 GHz), never fast.
//!
//! # Multiplier
//!
//! Readers want nanoseconds. Nanoseconds a count, 10^9 * scale in units of 2^-64,
//! need more than 64 bits at or below 1 GHz (68 for an HPET, 73 for the ACPI
//! timer). So the [`Multiplier`] keeps its top 64 bits: `mult` = (10^9 * scale)
//! \>> s with the least s that fits, and the nanoseconds of `delta` counts are
//! the high half of (delta << s) * mult. Cutting those s <= 30 bits off loses
//! less than delta * 2^(s-64) ns, a quarter of a nanosecond in 2^32 counts,
//! so that
//!
//! ```text
//! ns(delta) <= bintime(delta) in ns <= ns(delta) + 2    for delta < 2^32
//! ```
//!
//! # Limits
//!
//! Rates from 2 Hz (the scale of 1 Hz is 2^64 and does not fit) to 2^63 Hz.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::float_arithmetic,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

use core::fmt;

use crate::bintime::Bintime;
use crate::timespec::NSEC_PER_SEC;

/// Units of 2^-63 s in a second; the formula works on halves so that a second
/// with its adjustment fits 64 bits.
const HALF_SECOND_UNITS: u64 = 1 << 63;
/// FreeBSD's stand-in for 2^63 / (10^9 * 2^32), as a fraction of two integers.
const ADJUSTMENT_NUMERATOR: i128 = 2199;
/// Its denominator.
const ADJUSTMENT_DENOMINATOR: i64 = 1024;
/// The floor slope is the nominal one less 2^-10 of it: below any rate that may
/// be set, since adjustments end at 500 ppm and 2^-10 is 977 ppm.
const FLOOR_MARGIN_BITS: u32 = 10;

/// Why no scale can be made of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleError {
    /// The frequency is 0.
    ZeroFrequency,
    /// A count is a second or more: its length does not fit 64 bits.
    TooSlow,
    /// A count is shorter than 2^-63 s.
    TooFast,
    /// The adjustment stops the clock, turns it back or doubles its rate.
    AdjustmentOutOfRange,
}

impl fmt::Display for ScaleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroFrequency => "frequency is 0 Hz",
            Self::TooSlow => "frequency is too low: a count does not fit 2^64 units",
            Self::TooFast => "frequency is above 2^63 Hz",
            Self::AdjustmentOutOfRange => "rate adjustment is out of range",
        })
    }
}

impl core::error::Error for ScaleError {}

/// The length of a count, in units of 2^-64 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scale(u64);

impl Scale {
    /// The scale of a counter of `frequency` Hz under `adjustment`, in ns per
    /// second with 32 fraction bits (`ppm * 1000 << 32`), rounded down to an
    /// even number of units.
    ///
    /// # Errors
    ///
    /// [`ScaleError`] where the result is 0 or does not fit.
    pub const fn new(frequency: u64, adjustment: i64) -> Result<Self, ScaleError> {
        if frequency == 0 {
            return Err(ScaleError::ZeroFrequency);
        }
        let correction =
            ((adjustment / ADJUSTMENT_DENOMINATOR) as i128).wrapping_mul(ADJUSTMENT_NUMERATOR);
        let second = (HALF_SECOND_UNITS as i128).wrapping_add(correction);
        if second <= 0 || second > u64::MAX as i128 {
            return Err(ScaleError::AdjustmentOutOfRange);
        }
        match (second as u64).checked_div(frequency) {
            None => Err(ScaleError::ZeroFrequency),
            Some(0) => Err(ScaleError::TooFast),
            Some(half) => match half.checked_mul(2) {
                Some(scale) => Ok(Self(scale)),
                None => Err(ScaleError::TooSlow),
            },
        }
    }

    /// The scale of `frequency` Hz without adjustment.
    ///
    /// # Errors
    ///
    /// [`ScaleError`] where `frequency` is 0, 1 or above 2^63.
    pub const fn nominal(frequency: u64) -> Result<Self, ScaleError> {
        Self::new(frequency, 0)
    }

    /// A scale read back from a page: `units` of 2^-64 s a count. Where it is
    /// torn or wrong the times are, and nothing else.
    #[must_use]
    #[inline]
    pub const fn from_units(units: u64) -> Self {
        Self(units)
    }

    /// The number of units of 2^-64 s a count.
    #[must_use]
    pub const fn units(self) -> u64 {
        self.0
    }

    /// How long `delta` counts last: exactly the product, or [`Bintime::MAX`]
    /// where that exceeds 2^63 s.
    #[must_use]
    #[inline]
    pub const fn bintime(self, delta: u64) -> Bintime {
        let units = (self.0 as u128).wrapping_mul(delta as u128);
        if units > i128::MAX as u128 {
            return Bintime::MAX;
        }
        Bintime::from_units(units as i128)
    }

    /// FreeBSD's `large_delta`: from this count difference on, the product with
    /// the scale may exceed a second and a 64-bit multiplication loses it;
    /// clamped to 2^32 - 1. [`bintime`](Self::bintime) needs no such limit.
    #[must_use]
    pub const fn large_delta(self) -> u32 {
        match HALF_SECOND_UNITS.checked_div(self.0 >> 1) {
            Some(delta) if delta < u32::MAX as u64 => delta as u32,
            _ => u32::MAX,
        }
    }
}

/// Nanoseconds a count, in the form that a reader multiplies with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiplier {
    /// The top 64 bits of the nanoseconds a count.
    pub mult: u64,
    /// How many bits of them were cut off: 0 above 1 GHz, at most 30.
    pub shift: u8,
}

impl Multiplier {
    /// The multiplier of `scale`, with the least shift that fits.
    #[must_use]
    pub const fn from_scale(scale: Scale) -> Self {
        let full = ns_units(scale.0);
        let shift = (u128::BITS - u64::BITS).saturating_sub(full.leading_zeros());
        Self {
            mult: (full >> shift) as u64,
            shift: shift as u8,
        }
    }

    /// The floor slope of a counter whose unadjusted scale is `nominal`, to be
    /// used with the shift of another multiplier of the same counter: nominal
    /// less 1/1024, rounded down. `None` where it does not fit that shift, which
    /// does not happen for one within 500 ppm of `nominal`.
    #[must_use]
    pub const fn floor_with(nominal: Scale, shift: u8) -> Option<Self> {
        let margin = nominal.0.div_ceil(1 << FLOOR_MARGIN_BITS);
        let full = ns_units(nominal.0.saturating_sub(margin));
        match full.checked_shr(shift as u32) {
            Some(mult) if mult <= u64::MAX as u128 => Some(Self {
                mult: mult as u64,
                shift,
            }),
            _ => None,
        }
    }

    /// The nanoseconds of `delta` counts, rounded down. Exact for every delta
    /// that lasts less than 292 years, `u64::MAX` beyond, so that it never
    /// decreases: with a shift, `mult` is at least 2^63, and bits of
    /// `delta` get lost no sooner than at 2^63 ns.
    #[must_use]
    #[inline]
    pub const fn ns(self, delta: u64) -> u64 {
        if delta.leading_zeros() < self.shift as u32 {
            return u64::MAX;
        }
        self.ns_within_segment(delta)
    }

    /// [`ns`](Self::ns) for a `delta` that is known to be no longer than a
    /// segment, hence far below 292 years: one shift, one multiplication and no
    /// branch.
    #[must_use]
    #[inline(always)]
    pub const fn ns_within_segment(self, delta: u64) -> u64 {
        let shifted = delta.wrapping_shl(self.shift as u32);
        ((shifted as u128).wrapping_mul(self.mult as u128) >> 64) as u64
    }
}

/// 10^9 times `units`: below 2^94, so it does not overflow.
const fn ns_units(units: u64) -> u128 {
    (units as u128).wrapping_mul(NSEC_PER_SEC as u128)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 500 ppm as an adjustment: 500,000 ns a second, 32 fraction bits.
    const PPM_500: i64 = 500_000 << 32;

    #[test]
    fn an_adjustment_scales_as_in_freebsd() {
        for (frequency, slow, nominal, fast) in [
            (
                1_000_000,
                18_437_520_799_212,
                18_446_744_073_708,
                18_455_967_348_204,
            ),
            (
                1_193_182,
                15_452_396_029_450,
                15_460_126_010_708,
                15_467_855_991_964,
            ),
            (
                3_579_545,
                5_150_800_115_436,
                5_153_376_776_576,
                5_155_953_437_714,
            ),
            (
                14_318_180,
                1_287_700_028_858,
                1_288_344_194_144,
                1_288_988_359_428,
            ),
            (
                1_000_000_000,
                18_437_520_798,
                18_446_744_072,
                18_455_967_348,
            ),
            (
                1_500_000_000,
                12_291_680_532,
                12_297_829_382,
                12_303_978_232,
            ),
        ] {
            for (adjustment, want) in [(-PPM_500, slow), (0, nominal), (PPM_500, fast)] {
                assert_eq!(
                    Scale::new(frequency, adjustment).map(Scale::units),
                    Ok(want),
                    "{frequency} Hz adjusted by {adjustment}"
                );
            }
        }
    }

    #[test]
    fn a_rate_without_a_scale_is_refused() {
        for (frequency, adjustment, want) in [
            (0, 0, ScaleError::ZeroFrequency),
            (1, 0, ScaleError::TooSlow),
            (2, i64::MAX, ScaleError::AdjustmentOutOfRange),
            (u64::MAX, 0, ScaleError::TooFast),
            (1_000_000_000, i64::MIN, ScaleError::AdjustmentOutOfRange),
        ] {
            assert_eq!(
                Scale::new(frequency, adjustment),
                Err(want),
                "{frequency} Hz adjusted by {adjustment}"
            );
        }
    }

    #[test]
    fn the_slowest_rate_still_fits_when_it_is_sped_up() {
        assert_eq!(
            Scale::new(2, PPM_500).map(Scale::units),
            Ok(9_227_983_674_102_775_808),
            "2 Hz plus 500 ppm"
        );
    }

    #[test]
    fn only_rates_above_1_ghz_need_no_shift() {
        for (frequency, want) in [
            (1_193_182, 10),
            (3_579_545, 9),
            (100_000_000, 4),
            (999_999_999, 1),
            (1_000_000_000, 0),
            (1_000_000_001, 0),
            (4_000_000_000, 0),
        ] {
            let shift = Scale::nominal(frequency).map(|scale| Multiplier::from_scale(scale).shift);
            assert_eq!(shift, Ok(want), "{frequency} Hz");
        }
    }

    #[test]
    fn the_floor_slope_fits_the_shift_of_every_legal_rate() {
        for frequency in [2, 1_000, 999_999_999, 1_000_000_000, 5_800_000_001] {
            for adjustment in [-PPM_500, 0, PPM_500] {
                let nominal = Scale::nominal(frequency).expect("a legal rate");
                let scale = Scale::new(frequency, adjustment).expect("a legal rate");
                let rate = Multiplier::from_scale(scale);
                let floor = Multiplier::floor_with(nominal, rate.shift)
                    .expect("the floor slope fits the shift");
                assert!(
                    floor.mult < rate.mult,
                    "{frequency} Hz adjusted by {adjustment}: {floor:?} against {rate:?}"
                );
                assert!(
                    floor.mult > rate.mult - rate.mult / 500,
                    "{frequency} Hz: the floor {floor:?} is within 0.2 % of {rate:?}"
                );
            }
        }
    }

    #[test]
    fn a_span_that_no_clock_can_tell_saturates() {
        let slow = Multiplier::from_scale(Scale::nominal(1_000).expect("a legal rate"));
        assert_eq!(slow.ns(u64::MAX), u64::MAX, "585 million years at 1 kHz");
        let slowest = Scale::new(2, PPM_500).expect("a legal rate");
        assert_eq!(
            slowest.bintime(u64::MAX),
            Bintime::MAX,
            "more than 2^63 s at 2 Hz"
        );
    }
}
