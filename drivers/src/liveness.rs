//! Does it count, and does it only count upwards?
//!
//! A missing chip reads as all ones, a stopped one as a constant, a badly
//! latched one as garbage now and then. All three are told apart here with a
//! bounded number of reads before a driver offers the counter to anybody.

use crate::bus::Pace;

/// Most reads that [`advances`] makes.
const ADVANCE_READS: u32 = 64;
/// `PAUSE`s between two of them. The slowest counter supported has a period of
/// 838 ns (i8254); 64 x 64 pauses take 14 us at the 10 cycles of the fastest
/// `PAUSE` and 3 GHz, so a running counter is seen to move many times over.
const ADVANCE_TURNS: u32 = 64;

/// Whether the counter changes within a bounded wait.
pub(crate) fn advances(mut read: impl FnMut() -> u64, mask: u64, pace: &impl Pace) -> bool {
    let first = read() & mask;
    (0..ADVANCE_READS).any(|_| {
        pace.relax(ADVANCE_TURNS);
        read() & mask != first
    })
}

/// What [`consistency`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consistency {
    /// Every read was at or after the one before.
    Steady,
    /// At least one read lay before its predecessor.
    Backwards,
}

/// Reads the counter `reads` times in a row and looks at the signs of the
/// differences.
///
/// The sign alone is enough to find garbage: a read that is too high makes the
/// difference after it negative, one that is too low the difference before it.
/// A difference is negative when it lies in the upper half of the range; an
/// honest counter would have to be left alone for half a wrap to look like it.
pub(crate) fn consistency(mut read: impl FnMut() -> u64, mask: u64, reads: u32) -> Consistency {
    let mut last = read() & mask;
    for _ in 1..reads {
        let now = read() & mask;
        if now.wrapping_sub(last) & mask > mask / 2 {
            return Consistency::Backwards;
        }
        last = now;
    }
    Consistency::Steady
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    struct NoTime;
    impl Pace for NoTime {
        fn relax(&self, _turns: u32) {}
    }

    #[test]
    fn a_constant_does_not_advance_and_the_reads_are_bounded() {
        let reads = Cell::new(0);
        let constant = || {
            reads.set(reads.get() + 1);
            u64::MAX
        };
        assert!(
            !advances(constant, 0xFFFF, &NoTime),
            "all ones is no counter"
        );
        assert_eq!(
            reads.get(),
            ADVANCE_READS + 1,
            "one read a turn and the first"
        );
    }

    #[test]
    fn a_change_above_the_mask_is_not_an_advance() {
        let reads = Cell::new(0);
        let junk = || {
            reads.set(reads.get() + 1);
            reads.get() << 16
        };
        assert!(
            !advances(junk, 0xFFFF, &NoTime),
            "junk above the mask is not counted"
        );
    }

    #[test]
    fn a_wrap_is_steady_and_a_step_back_is_not() {
        let list = |samples: &'static [u64]| {
            let next = Cell::new(0);
            move || {
                let value = samples.get(next.get()).copied().unwrap_or(0);
                next.set(next.get() + 1);
                value
            }
        };
        let wrap = list(&[0xFFFE, 0xFFFF, 0, 0, 5]);
        assert_eq!(
            consistency(wrap, 0xFFFF, 5),
            Consistency::Steady,
            "over the top"
        );
        let back = list(&[10, 11, 10]);
        assert_eq!(
            consistency(back, 0xFFFF, 3),
            Consistency::Backwards,
            "one count back"
        );
        let high = list(&[10, 0x4000, 11]);
        assert_eq!(
            consistency(high, 0xFFFF, 3),
            Consistency::Backwards,
            "garbage upwards"
        );
        let half = list(&[0, 0x7FFF]);
        assert_eq!(
            consistency(half, 0xFFFF, 2),
            Consistency::Steady,
            "just under half the range"
        );
        let over = list(&[0, 0x8000]);
        assert_eq!(
            consistency(over, 0xFFFF, 2),
            Consistency::Backwards,
            "half the range"
        );
    }
}
