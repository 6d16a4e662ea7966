//! Decimal time: `timespec` in nanoseconds and `timeval` in microseconds.
//!
//! # Background
//!
//! These are the forms that leave the kernel (POSIX `struct timespec` and
//! `struct timeval`). Both keep the sub-second part non-negative, so -0.5 s is
//! second -1 and 500,000,000 ns. Kernels have leaked a negative part to callers
//! by normalising the overflow side alone, and one past the second by a
//! mistyped limit; here every constructor normalises both sides, or refuses.
//!
//! # Rounding
//!
//! Bintime to timespec and timespec to timeval truncate towards minus infinity.
//! Widening conversions are exact, except into bintime, which rounds up (see
//! [`bintime`](crate::bintime)).

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

/// Nanoseconds in a second.
pub const NSEC_PER_SEC: u32 = 1_000_000_000;
/// Microseconds in a second.
pub const USEC_PER_SEC: u32 = 1_000_000;

/// [`NSEC_PER_SEC`], as wide as a total of nanoseconds.
const GIGA: u64 = NSEC_PER_SEC as u64;
/// Nanoseconds in a microsecond.
const NSEC_PER_USEC: u32 = NSEC_PER_SEC / USEC_PER_SEC;

/// A time or an interval in seconds and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timespec {
    /// Whole seconds, rounded towards minus infinity.
    pub sec: i64,
    /// Nanoseconds into that second: 0 to 999,999,999.
    pub nsec: u32,
}

impl Timespec {
    /// Zero.
    pub const ZERO: Self = Self { sec: 0, nsec: 0 };

    /// `sec` seconds and `nsec` nanoseconds, which may be negative or exceed a
    /// second; `None` where the seconds leave `i64`.
    #[must_use]
    pub const fn normalized(sec: i64, nsec: i64) -> Option<Self> {
        Self::carried(sec as i128, nsec)
    }

    /// [`normalized`](Self::normalized) for seconds that may come back into
    /// range by the carry. They are far from the ends of `i128`.
    const fn carried(sec: i128, nsec: i64) -> Option<Self> {
        let sec = sec.wrapping_add(nsec.div_euclid(NSEC_PER_SEC as i64) as i128);
        if sec < i64::MIN as i128 || sec > i64::MAX as i128 {
            return None;
        }
        Some(Self {
            sec: sec as i64,
            nsec: nsec.rem_euclid(NSEC_PER_SEC as i64) as u32,
        })
    }

    /// `ns` nanoseconds, exactly. Every `u64` fits.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self {
            sec: (ns / GIGA) as i64,
            nsec: (ns % GIGA) as u32,
        }
    }

    /// The number of nanoseconds, exactly. Every timespec fits.
    #[must_use]
    pub const fn to_ns(self) -> i128 {
        (self.sec as i128)
            .wrapping_mul(NSEC_PER_SEC as i128)
            .wrapping_add(self.nsec as i128)
    }

    /// `self + other`, or `None` where the seconds leave `i64`.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        Self::carried(
            (self.sec as i128).wrapping_add(other.sec as i128),
            (self.nsec as i64).wrapping_add(other.nsec as i64),
        )
    }

    /// `self - other`, or `None` where the seconds leave `i64`.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        Self::carried(
            (self.sec as i128).wrapping_sub(other.sec as i128),
            (self.nsec as i64).wrapping_sub(other.nsec as i64),
        )
    }
}

/// Truncates towards minus infinity.
impl From<Bintime> for Timespec {
    fn from(time: Bintime) -> Self {
        Self {
            sec: time.sec,
            nsec: time.nsec(),
        }
    }
}

/// Exact.
impl From<Timeval> for Timespec {
    fn from(time: Timeval) -> Self {
        Self {
            sec: time.sec,
            nsec: time.usec.wrapping_mul(NSEC_PER_USEC),
        }
    }
}

/// `SECONDS.NNNNNNNNN`, the second rounded towards minus infinity, as
/// FreeBSD's messages print a timespec.
impl fmt::Display for Timespec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.sec, self.nsec)
    }
}

/// A time or an interval in seconds and microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timeval {
    /// Whole seconds, rounded towards minus infinity.
    pub sec: i64,
    /// Microseconds into that second: 0 to 999,999.
    pub usec: u32,
}

/// Truncates towards minus infinity.
impl From<Timespec> for Timeval {
    fn from(time: Timespec) -> Self {
        Self {
            sec: time.sec,
            usec: time.nsec / NSEC_PER_USEC,
        }
    }
}

/// Truncates towards minus infinity.
impl From<Bintime> for Timeval {
    fn from(time: Bintime) -> Self {
        Timespec::from(time).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_nanosecond_part_borrows_from_the_seconds() {
        for (sec, nsec, want) in [
            (5, -1, (4, 999_999_999)),
            (0, -500_000_000, (-1, 500_000_000)),
            (0, -1_000_000_000, (-1, 0)),
            (0, -1_000_000_001, (-2, 999_999_999)),
        ] {
            let got = Timespec::normalized(sec, nsec).map(|time| (time.sec, time.nsec));
            assert_eq!(got, Some(want), "{sec} s and {nsec} ns");
        }
    }

    #[test]
    fn a_nanosecond_part_of_a_second_carries() {
        for (nsec, want) in [
            (999_999_999, (1, 999_999_999)),
            (1_000_000_000, (2, 0)),
            (10_000_000_000, (11, 0)),
        ] {
            let got = Timespec::normalized(1, nsec).map(|time| (time.sec, time.nsec));
            assert_eq!(got, Some(want), "1 s and {nsec} ns");
        }
    }

    #[test]
    fn a_sum_outside_the_range_of_seconds_is_refused() {
        let last = Timespec {
            sec: i64::MAX,
            nsec: 999_999_999,
        };
        let first = Timespec {
            sec: i64::MIN,
            nsec: 0,
        };
        let nanosecond = Timespec { sec: 0, nsec: 1 };
        assert_eq!(last.checked_add(nanosecond), None, "past the last second");
        assert_eq!(first.checked_sub(nanosecond), None, "before the first");
    }

    #[test]
    fn microseconds_truncate_downwards_before_zero_too() {
        let time = Timespec {
            sec: -1,
            nsec: 999_999_999,
        };
        assert_eq!(
            Timeval::from(time),
            Timeval {
                sec: -1,
                usec: 999_999
            },
            "-1 ns lies within the last microsecond before zero"
        );
    }
}
