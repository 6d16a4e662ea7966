//! Differences of counts, and how long they can be told apart.
//!
//! # Background
//!
//! A counter of width w shows the time modulo 2^w counts. The difference of
//! two reads is exact as long as less than one wrap lies between them: subtract
//! first, mask after. Handling the wrap by a comparison instead loses one count
//! at each (`mask - last + now` forgets the step from the mask to 0).
//!
//! # Limits
//!
//! A stall longer than a wrap loses whole wraps and cannot be seen in the
//! difference. Hence the least windup rate, and [`wrap_ns`] to say what stall a
//! counter can bear.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::float_arithmetic,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

use crate::timespec::NSEC_PER_SEC;

/// Windups a wrap that a counter needs: two could both fall just short of one.
const WINDUPS_PER_WRAP: u128 = 3;

/// Counts from `last` to `now` on a counter of `mask`, modulo its wrap.
#[must_use]
#[inline]
pub const fn masked(now: u64, last: u64, mask: u64) -> u64 {
    now.wrapping_sub(last) & mask
}

/// Counts from `last` to `now` on a 64-bit counter, or 0 where `now` is behind.
/// A TSC that lags another CPU's by a few counts would otherwise
/// be taken for one that ran for centuries.
#[must_use]
#[inline]
pub const fn clamped(now: u64, last: u64) -> u64 {
    let delta = now.wrapping_sub(last);
    if (delta as i64) < 0 { 0 } else { delta }
}

/// Counts from `last` to `now`, or nothing where `now` is taken to lie before
/// `last`: in the upper half of the differences of a 64-bit counter, which does
/// not wrap, and in the last 1/32 of those of a narrow one, which does.
#[must_use]
pub const fn forwards(now: u64, last: u64, mask: u64) -> Option<u64> {
    let delta = masked(now, last, mask);
    let before = if mask == u64::MAX {
        mask >> 1
    } else {
        mask >> 5
    };
    if delta > mask.wrapping_sub(before) {
        None
    } else {
        Some(delta)
    }
}

/// The mask of a counter `width` bits wide; widths above 64 count as 64.
#[must_use]
pub const fn mask(width: u32) -> u64 {
    match u64::MAX.checked_shl(width) {
        Some(above) => !above,
        None => u64::MAX,
    }
}

/// How long a counter of `frequency` Hz runs until it shows the same count
/// again, in nanoseconds, rounded down; `None` for 0 Hz.
#[must_use]
pub const fn wrap_ns(frequency: u64, mask: u64) -> Option<u128> {
    counts_per_wrap(mask)
        .wrapping_mul(NSEC_PER_SEC as u128)
        .checked_div(frequency as u128)
}

/// The windups a second that a counter needs so that three fall into each wrap
/// (FreeBSD's `tc_min_ticktock_freq`): f / ((mask + 1) / 3), at least 1.
#[must_use]
pub const fn min_windup_rate(frequency: u64, mask: u64) -> u64 {
    match (frequency as u128).checked_div(counts_per_wrap(mask) / WINDUPS_PER_WRAP) {
        Some(0) => 1,
        Some(rate) => rate as u64,
        None => frequency,
    }
}

/// Counts in a wrap: up to 2^64, so that 10^9 times it fits.
const fn counts_per_wrap(mask: u64) -> u128 {
    (mask as u128).wrapping_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_from_the_mask_to_zero_is_one_count() {
        for width in [8, 16, 24, 32, 63, 64] {
            let mask = mask(width);
            assert_eq!(masked(0, mask, mask), 1, "{width} bits");
            assert_eq!(masked(mask, 0, mask), mask, "{width} bits, all but a wrap");
        }
    }

    #[test]
    fn a_small_step_back_is_told_from_a_large_one_forwards() {
        for width in [8, 16, 24, 32, 63, 64] {
            let mask = mask(width);
            assert_eq!(forwards(mask - 1, 1, mask), None, "{width} bits, 2 back");
            assert_eq!(forwards(1, mask - 1, mask), Some(3), "{width} bits, over 0");
            let most = if width == 64 { mask / 2 } else { mask / 10 * 9 };
            assert_eq!(
                forwards(most, 0, mask),
                Some(most),
                "{width} bits, forwards"
            );
        }
    }

    #[test]
    fn constant_junk_above_the_mask_does_not_matter() {
        let junk = 0xabcd_0000;
        assert_eq!(masked(junk | 3, junk | 0xfffe, 0xffff), 5, "16 bits");
    }

    #[test]
    fn a_counter_behind_the_base_reads_as_the_base() {
        assert_eq!(clamped(999_900, 1_000_000), 0, "100 counts behind");
        assert_eq!(clamped(1_000_050, 1_000_000), 50, "50 counts ahead");
        assert_eq!(clamped(4, u64::MAX), 5, "ahead, over the wrap");
    }

    #[test]
    fn a_64_bit_nanosecond_counter_wraps_after_2_to_the_64_nanoseconds() {
        assert_eq!(
            wrap_ns(1_000_000_000, u64::MAX),
            Some(1 << 64),
            "does not fit 64 bits"
        );
        assert_eq!(wrap_ns(0, u64::MAX), None, "never at 0 Hz");
    }

    #[test]
    fn a_wide_counter_still_needs_a_windup_a_second() {
        assert_eq!(
            min_windup_rate(14_318_180, 0xffff_ffff),
            1,
            "an HPET wraps after five minutes"
        );
        assert_eq!(min_windup_rate(1_193_182, 0xffff), 54, "an i8254 does not");
    }

    #[test]
    fn a_mask_too_narrow_for_three_windups_asks_for_one_a_count() {
        assert_eq!(min_windup_rate(1_000, 1), 1_000, "one bit");
    }
}
