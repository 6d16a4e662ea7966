//! The kind word: how a segment's counter is read and scaled.
//!
//! ```text
//!  31            24 23            16 15             8 7              0
//! +----------------+----------------+----------------+----------------+
//! | counter index  |   width - 1    | 0 g  shift s   |  user counter  |
//! +----------------+----------------+----------------+----------------+
//! ```
//!
//! `g` says that reads go by the jitter guard, see [`crate::guard`].
//!
//! The three low bytes decide how a program reads the clock. Their commonest
//! value, a full-width TSC above 1 GHz, is told by one compare, see
//! [`Kind::is_fast`]. The index is the counter's place in the kernel's registry.

use crate::counter::UserCounter;

/// The decoded kind word; `Copy` and as cheap as the word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Kind(u32);

impl Kind {
    /// Bits that programs look at.
    const LOW: u32 = 0x00ff_ffff;
    /// Reads go by the jitter guard.
    const GUARDED: u32 = 1 << 14;
    /// TSC, shift 0, 64 bits wide.
    const FAST: u32 = Self::new(UserCounter::Tsc, 0, 64, 0).0;

    /// Composes the word. `shift` is at most 63, `width` 1 to 64.
    #[must_use]
    pub const fn new(user: UserCounter, shift: u8, width: u8, index: u8) -> Self {
        Self(
            user as u32
                | (shift as u32) << 8
                | ((width.wrapping_sub(1) & 63) as u32) << 16
                | (index as u32) << 24,
        )
    }

    /// The word as it stands in a slot.
    #[inline(always)]
    #[must_use]
    pub const fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// The word to be stored.
    #[inline(always)]
    #[must_use]
    pub const fn word(self) -> u32 {
        self.0
    }

    /// Whether an ordered TSC read, an unshifted multiplication and no mask
    /// are all that is needed.
    #[inline(always)]
    #[must_use]
    pub const fn is_fast(self) -> bool {
        self.0 & Self::LOW == Self::FAST
    }

    /// Whether the count is the whole TSC, whatever the multiplier's shift, and
    /// needs no guard.
    #[inline(always)]
    #[must_use]
    pub const fn is_tsc(self) -> bool {
        self.with_shift(0).is_fast()
    }

    /// Whether reads go by the jitter guard.
    #[inline(always)]
    #[must_use]
    pub const fn is_guarded(self) -> bool {
        self.0 & Self::GUARDED != 0
    }

    /// The same counter, guarded or not.
    #[must_use]
    pub const fn with_guard(self, guarded: bool) -> Self {
        Self(self.0 & !Self::GUARDED | if guarded { Self::GUARDED } else { 0 })
    }

    /// How user space reads the counter; an id this version does not know
    /// means by system call.
    #[inline(always)]
    #[must_use]
    pub const fn user(self) -> UserCounter {
        match self.0 as u8 {
            1 => UserCounter::Tsc,
            2 => UserCounter::Hpet,
            4 => UserCounter::Pvclock,
            _ => UserCounter::None,
        }
    }

    /// The same counter, read by user space through `user`.
    #[must_use]
    pub const fn with_user(self, user: UserCounter) -> Self {
        Self(self.0 & !0xff | user as u32)
    }

    /// The same counter with multipliers of another shift.
    #[must_use]
    pub const fn with_shift(self, shift: u8) -> Self {
        Self(self.0 & !0x3f00 | (shift as u32 & 63) << 8)
    }

    /// The power of two a difference is multiplied by before the multiplier.
    #[inline(always)]
    #[must_use]
    pub const fn shift(self) -> u8 {
        (self.0 >> 8) as u8 & 63
    }

    /// Significant bits of the counter.
    #[inline(always)]
    #[must_use]
    pub const fn width(self) -> u8 {
        ((self.0 >> 16) as u8 & 63) + 1
    }

    /// 2^width - 1.
    #[inline(always)]
    #[must_use]
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.width())
    }

    /// The counter's place in the registry.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> u8 {
        (self.0 >> 24) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_comes_back_as_it_went_in() {
        for user in [UserCounter::None, UserCounter::Tsc, UserCounter::Hpet] {
            for shift in [0, 1, 10, 63] {
                for width in [1, 16, 24, 32, 63, 64] {
                    for index in [0, 1, 255] {
                        let kind = Kind::from_word(Kind::new(user, shift, width, index).word());
                        assert_eq!(
                            (kind.user(), kind.shift(), kind.width(), kind.index()),
                            (user, shift, width, index)
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn only_an_unshifted_full_width_tsc_is_fast() {
        assert!(Kind::new(UserCounter::Tsc, 0, 64, 9).is_fast());
        for slow in [
            Kind::new(UserCounter::None, 0, 64, 0),
            Kind::new(UserCounter::Hpet, 0, 64, 0),
            Kind::new(UserCounter::Tsc, 1, 64, 0),
            Kind::new(UserCounter::Tsc, 0, 63, 0),
        ] {
            assert!(!slow.is_fast(), "{slow:?} must take the general path");
        }
    }

    #[test]
    fn the_mask_has_as_many_ones_as_the_counter_is_wide() {
        for width in 1..=64 {
            let mask = Kind::new(UserCounter::None, 0, width, 0).mask();
            assert_eq!(mask.count_ones(), u32::from(width));
            assert_eq!(mask.trailing_ones(), u32::from(width));
        }
    }

    #[test]
    fn an_unknown_way_of_user_space_means_the_system_call() {
        assert_eq!(Kind::from_word(0x003f_00ff).user(), UserCounter::None);
    }
}
