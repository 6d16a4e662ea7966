//! Which times a clock may be set to.
//!
//! `clock_settime` passes what a program wrote. POSIX asks to refuse a nanosecond
//! part outside the second; FreeBSD also refuses negative seconds (they made its
//! calendar code panic) and years beyond about 8000 (a loop over
//! years hung a machine). Within these bounds every value is kept exactly: boot time
//! is a 64-bit number of seconds and a 64-bit fraction.

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

use crate::timespec::{NSEC_PER_SEC, Timespec};

/// The last second that may be set, as in FreeBSD: 8000 years of 365 days.
pub const MAX_SETTABLE_SEC: i64 = 8000 * 365 * 86_400;

/// Why a clock cannot be set to a time (`EINVAL` all).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettimeError {
    /// The nanosecond part is negative or a second and more.
    NsecOutOfRange,
    /// The time is before 1970.
    NegativeSeconds,
    /// The time is after [`MAX_SETTABLE_SEC`].
    TooLate,
}

impl fmt::Display for SettimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NsecOutOfRange => "nanoseconds are not within 0 to 999999999",
            Self::NegativeSeconds => "time is before 1970",
            Self::TooLate => "time is more than 8000 years after 1970",
        })
    }
}

impl core::error::Error for SettimeError {}

/// The time `sec` seconds and `nsec` nanoseconds after 1970, if it may be set.
///
/// # Errors
///
/// [`SettimeError`], with nothing changed anywhere.
pub const fn settime(sec: i64, nsec: i64) -> Result<Timespec, SettimeError> {
    if nsec < 0 || nsec >= NSEC_PER_SEC as i64 {
        return Err(SettimeError::NsecOutOfRange);
    }
    if sec < 0 {
        return Err(SettimeError::NegativeSeconds);
    }
    if sec > MAX_SETTABLE_SEC {
        return Err(SettimeError::TooLate);
    }
    Ok(Timespec {
        sec,
        nsec: nsec as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nanosecond_part_outside_the_second_is_refused() {
        for nsec in [i64::MIN, -1, 1_000_000_000, i64::MAX] {
            assert_eq!(
                settime(1_000_000, nsec),
                Err(SettimeError::NsecOutOfRange),
                "{nsec} ns"
            );
        }
    }

    #[test]
    fn the_ends_of_the_range_are_accepted_and_what_lies_beyond_is_not() {
        let last = Timespec {
            sec: 252_288_000_000,
            nsec: 999_999_999,
        };
        assert_eq!(settime(0, 0), Ok(Timespec::ZERO), "the first time");
        assert_eq!(settime(last.sec, 999_999_999), Ok(last), "the last time");
        assert_eq!(
            settime(-1, 0),
            Err(SettimeError::NegativeSeconds),
            "before the first"
        );
        for sec in [last.sec + 1, 1 << 40, 1 << 62, i64::MAX] {
            assert_eq!(settime(sec, 0), Err(SettimeError::TooLate), "{sec} s");
        }
    }
}
