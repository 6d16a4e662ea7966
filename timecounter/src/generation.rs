//! Generation numbers: one global sequence of 32 bits, without 0.
//!
//! 0 marks a slot that is being written, so counting skips it: the number after
//! 2^32 - 1 is 1. A reader takes a snapshot for another one only if it sleeps
//! over exactly 2^32 - 1 windups inside one read: 49 days at 1 kHz.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::float_arithmetic,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

/// The mark of a slot that is being written; never a generation.
pub const BEING_WRITTEN: u32 = 0;

/// The generation after `generation`.
#[must_use]
#[inline]
pub const fn next(generation: u32) -> u32 {
    match generation.wrapping_add(1) {
        BEING_WRITTEN => 1,
        next => next,
    }
}

/// The generation before `generation`.
#[must_use]
#[inline]
pub const fn previous(generation: u32) -> u32 {
    match generation.wrapping_sub(1) {
        BEING_WRITTEN => u32::MAX,
        previous => previous,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_skips_the_mark_of_a_slot_being_written() {
        assert_eq!(next(u32::MAX - 1), u32::MAX, "the last number is used");
        assert_eq!(next(u32::MAX), 1, "forwards over 0");
        assert_eq!(previous(1), u32::MAX, "backwards over 0");
    }

    #[test]
    fn previous_undoes_next() {
        for generation in [1, 2, 0x7fff_ffff, u32::MAX - 1, u32::MAX] {
            assert_eq!(
                previous(next(generation)),
                generation,
                "generation {generation}"
            );
        }
    }
}
