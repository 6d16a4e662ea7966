//! Binary time: seconds and a 64-bit binary fraction.
//!
//! # Background
//!
//! FreeBSD keeps time as `struct bintime`: a signed 64-bit number of seconds
//! and an unsigned fraction in units of 2^-64 s (54 zeptoseconds). A count
//! turns into it by one multiplication, carries are those of integer addition,
//! and no decimal rounding happens until a time leaves the kernel.
//!
//! # Method
//!
//! Both words together are one two's-complement 128-bit number, so addition and
//! subtraction are those of `i128` and need no carry logic of their own.
//!
//! # Rounding
//!
//! A nanosecond is 18446744073.709551616 units, not a whole number. Into
//! bintime every conversion rounds *up*, out of it every conversion
//! *truncates*. The rounded-up value exceeds the nanoseconds it came from by
//! less than one unit, hence by less than a nanosecond, so truncation gives them
//! back: timespec -> bintime -> timespec is the identity. Rounding down in both
//! directions, as FreeBSD does, loses a nanosecond on most round trips.
//!
//! # Limits
//!
//! Seconds span the whole of `i64`. The fraction always counts forwards, before
//! zero too: -0.25 s is second -1 and three quarters.

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

/// 10^9, as wide as the fraction.
const GIGA: u64 = NSEC_PER_SEC as u64;
/// Whole units of 2^-64 s in a nanosecond: floor(2^64 / 10^9). The division of
/// 2^64 - 1 gives the same, since 10^9 does not divide 2^64.
const UNITS_PER_NSEC: u64 = u64::MAX / GIGA;
/// The units of a second that 10^9 times [`UNITS_PER_NSEC`] leaves over:
/// 2^64 mod 10^9.
const UNITS_LEFT: u64 = u64::MAX % GIGA + 1;

/// A time or an interval, in seconds and units of 2^-64 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bintime {
    /// Whole seconds, rounded towards minus infinity.
    pub sec: i64,
    /// The rest, in units of 2^-64 s.
    pub frac: u64,
}

impl Bintime {
    /// Zero.
    pub const ZERO: Self = Self { sec: 0, frac: 0 };
    /// The latest time that can be told.
    pub const MAX: Self = Self {
        sec: i64::MAX,
        frac: u64::MAX,
    };

    /// `sec` seconds and `frac` units of 2^-64 s.
    #[must_use]
    pub const fn new(sec: i64, frac: u64) -> Self {
        Self { sec, frac }
    }

    /// The time that is `units` times 2^-64 s.
    #[must_use]
    #[inline]
    pub const fn from_units(units: i128) -> Self {
        Self {
            sec: (units >> 64) as i64,
            frac: units as u64,
        }
    }

    /// The number of units of 2^-64 s.
    #[must_use]
    #[inline]
    pub const fn units(self) -> i128 {
        ((self.sec as i128) << 64) | self.frac as i128
    }

    /// `ns` nanoseconds, rounded up to the next unit.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self {
            sec: (ns / GIGA) as i64,
            frac: frac_from_nsec((ns % GIGA) as u32),
        }
    }

    /// Nanoseconds, truncated towards minus infinity. Every bintime fits.
    #[must_use]
    pub const fn to_ns(self) -> i128 {
        (self.sec as i128)
            .wrapping_mul(GIGA as i128)
            .wrapping_add(self.nsec() as i128)
    }

    /// The fraction in nanoseconds, truncated: 0 to 999,999,999.
    #[must_use]
    #[inline]
    pub const fn nsec(self) -> u32 {
        ((self.frac as u128).wrapping_mul(GIGA as u128) >> 64) as u32
    }

    /// `self + other`, or `None` where the seconds leave `i64`.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.units().checked_add(other.units()) {
            Some(units) => Some(Self::from_units(units)),
            None => None,
        }
    }

    /// `self - other`, or `None` where the seconds leave `i64`.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.units().checked_sub(other.units()) {
            Some(units) => Some(Self::from_units(units)),
            None => None,
        }
    }

    /// `self + other` modulo 2^64 s, as FreeBSD's `bintime_add`.
    #[must_use]
    #[inline]
    pub const fn wrapping_add(self, other: Self) -> Self {
        Self::from_units(self.units().wrapping_add(other.units()))
    }

    /// `self - other` modulo 2^64 s, as FreeBSD's `bintime_sub`.
    #[must_use]
    #[inline]
    pub const fn wrapping_sub(self, other: Self) -> Self {
        Self::from_units(self.units().wrapping_sub(other.units()))
    }

    /// `self + other`, or the nearest time that can be told.
    #[must_use]
    #[inline]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self::from_units(self.units().saturating_add(other.units()))
    }
}

/// Rounds up: the nanosecond part of a time is kept exactly.
impl From<Timespec> for Bintime {
    fn from(time: Timespec) -> Self {
        Self {
            sec: time.sec,
            frac: frac_from_nsec(time.nsec),
        }
    }
}

/// ceil(nsec * 2^64 / 10^9) for `nsec` below 10^9, without a 128-bit division:
/// the whole units by multiplication, the rest of them (at most
/// 10^9 * 709551616, so it fits) by a 64-bit one.
const fn frac_from_nsec(nsec: u32) -> u64 {
    let nsec = nsec as u64;
    nsec.wrapping_mul(UNITS_PER_NSEC)
        .wrapping_add(nsec.wrapping_mul(UNITS_LEFT).div_ceil(GIGA))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_fraction_carries_into_the_seconds() {
        let sum = Bintime::new(1, u64::MAX).checked_add(Bintime::new(0, 1));
        assert_eq!(
            sum,
            Some(Bintime::new(2, 0)),
            "2 - 2^-64 s plus 2^-64 s is 2 s"
        );
    }

    #[test]
    fn an_empty_fraction_borrows_from_the_seconds() {
        let difference = Bintime::new(5, 0).checked_sub(Bintime::new(0, 1));
        assert_eq!(
            difference,
            Some(Bintime::new(4, u64::MAX)),
            "5 s less 2^-64 s is just below 5 s"
        );
    }

    #[test]
    fn leaving_the_range_of_seconds_is_reported_and_not_wrapped() {
        let unit = Bintime::new(0, 1);
        assert_eq!(Bintime::MAX.checked_add(unit), None, "above the maximum");
        assert_eq!(
            Bintime::new(i64::MIN, 0).checked_sub(unit),
            None,
            "below the minimum"
        );
        assert_eq!(
            Bintime::MAX.saturating_add(unit),
            Bintime::MAX,
            "saturation stays at the maximum"
        );
    }

    #[test]
    fn nanoseconds_before_zero_truncate_downwards() {
        assert_eq!(
            Bintime::new(-1, u64::MAX).to_ns(),
            -1,
            "just before zero lies within the nanosecond that starts at -1 ns"
        );
        assert_eq!(
            Bintime::new(i64::MIN, 0).to_ns(),
            i128::from(i64::MIN) * 1_000_000_000,
            "the earliest second is within range"
        );
    }

    #[test]
    fn one_nanosecond_is_rounded_up_to_a_whole_unit() {
        assert_eq!(
            Bintime::from_ns(1).frac,
            18_446_744_074,
            "the exact value is 18446744073.7"
        );
    }
}
