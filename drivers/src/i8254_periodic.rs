//! Telling time by an i8254 that also raises the tick.
//!
//! With a reload of `max_count` the chip itself counts only one tick period;
//! the ticks before it are kept in `offset`. The trouble is the moment in
//! between: after the count has started over and before the tick's handler has
//! added the period. A reader in that moment has to add it in the handler's
//! place, and the handler then must not add it again. Two signs give the
//! moment away: the count went down since the last read, or the interrupt is
//! pending and the count is still in the first half of a period.
//!
//! Right as long as the handler is late by less than one period; beyond that
//! whole periods are lost, which no chip that counts only one can show.
//!
//! The state is plain: a kernel with one CPU keeps it in a section without
//! interrupts together with the reading of the chip.

/// Bookkeeping of one periodic channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periodic {
    max_count: u32,
    offset: u64,
    last: u32,
    /// The period of the pending interrupt is in `offset` already.
    ticked: bool,
}

impl Periodic {
    /// For a channel that divides by `max_count`, 1 to 65,536.
    #[must_use]
    pub const fn new(max_count: u32) -> Self {
        Self {
            max_count,
            offset: 0,
            last: 0,
            ticked: false,
        }
    }

    /// The count since the start, given the chip's latched count and whether
    /// its interrupt is pending.
    ///
    /// A latched count above `max_count` (a reload that is not ours) counts as
    /// the start of a period.
    pub fn read(&mut self, raw: u16, pending: bool) -> u64 {
        // A count of 0 is the reload value 65,536 seen by 16 bits: the start
        // of a period, not its end.
        let left = if raw == 0 && self.max_count == 0x1_0000 {
            self.max_count
        } else {
            u32::from(raw)
        };
        let up = self.max_count.saturating_sub(left);
        let unserviced = pending && up < self.max_count / 2;
        if up < self.last || (unserviced && !self.ticked) {
            self.ticked = true;
            self.offset += u64::from(self.max_count);
        }
        self.last = up;
        self.offset + u64::from(up)
    }

    /// The tick's interrupt, once each period.
    pub fn interrupt(&mut self) {
        if self.ticked {
            self.ticked = false;
        } else {
            self.offset += u64::from(self.max_count);
            self.last = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_sees_the_wrap_first_adds_the_period_in_the_handlers_place() {
        let mut chip = Periodic::new(11_932);
        assert_eq!(
            chip.read(100, false),
            11_832,
            "near the end of the first period"
        );
        assert_eq!(
            chip.read(11_900, false),
            11_964,
            "after the wrap, before the handler"
        );
        chip.interrupt();
        assert_eq!(
            chip.read(11_000, false),
            12_864,
            "the handler did not add it again"
        );
    }

    #[test]
    fn a_pending_interrupt_gives_the_wrap_away_to_the_first_read_of_a_period() {
        let mut chip = Periodic::new(11_932);
        // No read in the first period at all, so the count cannot be seen to
        // go down.
        assert_eq!(chip.read(11_900, true), 11_964, "the period is added");
        assert_eq!(chip.read(11_800, true), 12_064, "and only once");
        chip.interrupt();
        assert_eq!(
            chip.read(11_700, false),
            12_164,
            "the handler does not add it again"
        );
    }

    #[test]
    fn an_interrupt_pending_late_in_a_period_belongs_to_the_next() {
        let mut chip = Periodic::new(11_932);
        assert_eq!(
            chip.read(10, true),
            11_922,
            "it rose between latch and look"
        );
        assert_eq!(chip.read(11_930, true), 11_934, "then the count went down");
    }

    #[test]
    fn the_count_goes_up_by_one_over_every_phase_of_a_full_period() {
        let mut chip = Periodic::new(0x1_0000);
        let mut expected = 0;
        for _ in 0..3 {
            for raw in core::iter::once(0).chain((1..=u16::MAX).rev()) {
                assert_eq!(chip.read(raw, false), expected, "raw {raw}");
                expected += 1;
            }
            // Late by a quarter of a period.
            for raw in core::iter::once(0).chain((0xC000..=u16::MAX).rev()) {
                assert_eq!(chip.read(raw, true), expected, "raw {raw}, tick pending");
                expected += 1;
            }
            chip.interrupt();
            for raw in (1..0xC000).rev() {
                assert_eq!(chip.read(raw, false), expected, "raw {raw}, tick served");
                expected += 1;
            }
        }
    }
}
