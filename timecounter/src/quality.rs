//! Quality: which counter is chosen.
//!
//! FreeBSD's rules, as pure functions of the numbers alone. The highest quality
//! wins; among equals the higher frequency, among equals in both the newer
//! registration. A negative quality is chosen on request only. A counter that
//! would wrap between two ticks is demoted at registration.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::float_arithmetic,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

/// Quality of a counter that failed the rate test.
pub const DEMOTED: i32 = -2000;
/// Quality of the dummy counter, which is there before any hardware.
pub const DUMMY: i32 = -1_000_000;

/// What selection compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Quality after the rate test.
    pub quality: i32,
    /// Nominal rate in Hz.
    pub frequency: u64,
}

impl Rank {
    /// Whether a counter of this rank may be chosen without a request.
    #[must_use]
    pub const fn is_eligible(self) -> bool {
        self.quality >= 0
    }
}

/// The ticks a second that a counter needs so that it does not wrap between two
/// of them, with a tenth to spare (FreeBSD: u = f / mask, u = u * 11 / 10, in
/// integers).
#[must_use]
pub const fn needed_hz(frequency: u64, mask: u64) -> u64 {
    match frequency.checked_div(mask) {
        Some(wraps) => wraps.saturating_mul(11) / 10,
        None => u64::MAX,
    }
}

/// The quality of a counter after the rate test at `hz` ticks a second:
/// [`DEMOTED`] if it needs more of them, unless it was negative before.
#[must_use]
pub const fn after_rate_test(quality: i32, frequency: u64, mask: u64, hz: u32) -> i32 {
    if quality >= 0 && needed_hz(frequency, mask) > hz as u64 {
        DEMOTED
    } else {
        quality
    }
}

/// Whether `candidate`, registered after `current`, takes its place without a
/// request.
#[must_use]
pub const fn prefers(current: Rank, candidate: Rank) -> bool {
    candidate.is_eligible()
        && (candidate.quality > current.quality
            || (candidate.quality == current.quality && candidate.frequency >= current.frequency))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HPET: Rank = Rank {
        quality: 950,
        frequency: 14_318_180,
    };

    #[test]
    fn a_higher_quality_wins_whatever_the_frequencies() {
        let slow = Rank {
            quality: 951,
            frequency: 1,
        };
        assert!(prefers(HPET, slow), "951 over 950");
        assert!(!prefers(slow, HPET), "not 950 over 951");
    }

    #[test]
    fn among_equals_the_higher_frequency_and_then_the_newer_wins() {
        let faster = Rank {
            frequency: 25_000_000,
            ..HPET
        };
        assert!(prefers(HPET, faster), "the faster one wins");
        assert!(!prefers(faster, HPET), "the slower one does not");
        assert!(prefers(HPET, HPET), "the newer one wins");
    }

    #[test]
    fn a_negative_quality_is_never_chosen_unasked() {
        let dummy = Rank {
            quality: DUMMY,
            frequency: 1_000_000,
        };
        let unsynchronized = Rank {
            quality: -100,
            frequency: 2_400_000_000,
        };
        assert!(!prefers(dummy, unsynchronized), "not even over the dummy");
        assert!(prefers(dummy, HPET), "anything eligible over the dummy");
    }

    #[test]
    fn a_counter_that_wraps_between_ticks_is_demoted() {
        for (hz, want) in [(18, DEMOTED), (19, 0), (1000, 0)] {
            assert_eq!(
                after_rate_test(0, 1_193_182, 0xffff, hz),
                want,
                "16 bits at 1193182 Hz with {hz} ticks a second"
            );
        }
        assert_eq!(
            after_rate_test(-100, 1_193_182, 0xffff, 18),
            -100,
            "a negative quality stays as it is"
        );
    }
}
