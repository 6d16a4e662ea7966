//! The i8254 interval timer as a timecounter, the one that is always there.
//!
//! Channel 0 counts down from its reload value at 1,193,182 Hz. Here it runs
//! free with the largest reload, 65,536 (programmed as 0), in mode 2, which
//! decrements by one; mode 3, in which firmware leaves it, decrements by two.
//! The count seen outside is the negated one, so that it goes up. (Where the
//! chip is the tick as well, [`i8254_periodic`](crate::i8254_periodic) does the bookkeeping.)
//!
//! # One reader at a time, without a lock
//!
//! A read is three port accesses: latch, low byte, high byte. Two readers that
//! interleave get each other's bytes. Interrupts are held off for the three,
//! which settles it on one CPU; between CPUs, and against an NMI, one atomic
//! word does. It holds the last completed count, a sequence number and a busy
//! bit. Who sets the busy bit has the chip. Who finds it set does not wait for
//! a turn but for the *result*: a reading that was in progress when it called
//! is as good as its own, because that reading was latched after every reading
//! that had already been returned to anybody. So counts never go back, and
//! nobody queues.
//!
//! The wait is bounded: when the owner does not come back (its virtual CPU was
//! stopped between the accesses, or the reader is an NMI on the owner's own
//! CPU), the last completed count is returned. Nobody has been given a later
//! one, so that does not go back either; it is older than the call by as long
//! as the owner was away.
//!
//! # Limits
//!
//! Firmware that borrows the latch in system management mode can spoil one
//! read, by at most one period of 54.9 ms. A chip that is seen to do so at
//! start is read with care, three readings a read. That, and a wrap every 54.9
//! ms, is why the quality is 0.
//!
//! Source: Intel 82C54 data sheet (231244), "Counter latch command", mode
//! definitions.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use timecounter::Timecounter;

use crate::bus::{Pace, PortIo};
use crate::liveness::{self, Consistency};

/// Rate in Hz: a third of the ACPI timer's, a twelfth of 14.31818 MHz.
pub const FREQUENCY: u32 = 1_193_182;

const CHANNEL_0: u16 = 0x40;
const CONTROL: u16 = 0x43;
/// Channel 0, low byte then high byte, mode 2 (rate generator), binary.
const CONTROL_RATE_GENERATOR: u8 = 0b0011_0100;
/// Latch the count of channel 0.
const CONTROL_LATCH: u8 = 0b0000_0000;
/// Times a reader looks for another's result: at 10 to 140 cycles a `PAUSE`,
/// 13 to 190 us, several times what the three accesses take on a bus (4 us) or
/// in an emulator (7 us).
const PATIENCE: u32 = 4096;
/// Reads of the test for a clobbered latch; 70 to 700 us.
const TEST_READS: u32 = 100;
/// Most readings of one careful read.
const CAREFUL_LIMIT: u32 = 16;

/// The divisor for `hz` ticks a second, to the nearest; `None` for 0.
///
/// It may exceed what fits the chip: see [`reload`].
#[must_use]
pub const fn divisor(hz: u32) -> Option<u32> {
    if hz == 0 {
        return None;
    }
    Some(((FREQUENCY as u64 + hz as u64 / 2) / hz as u64) as u32)
}

/// The reload value that makes the chip divide by `divisor`: 65,536 is
/// programmed as 0, less than 2 and more than 65,536 cannot be (mode 2 does
/// not work with 1).
#[must_use]
pub const fn reload(divisor: u32) -> Option<u16> {
    match divisor {
        2..=0xFFFF => Some(divisor as u16),
        0x1_0000 => Some(0),
        _ => None,
    }
}

/// Puts the two bytes of a latched count together. Without the latch the low
/// byte may belong to the count before a borrow and the high byte to the one
/// after it, which is wrong by 256.
#[must_use]
pub const fn from_bytes(low: u8, high: u8) -> u16 {
    u16::from_le_bytes([low, high])
}

/// Why there is no `i8254` to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum I8254Error {
    /// The counter stands still, or no chip answers.
    NotAdvancing,
    /// Reads go back even when they are taken with care.
    Inconsistent,
}

impl fmt::Display for I8254Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAdvancing => "counter does not advance",
            Self::Inconsistent => "counter goes backwards",
        })
    }
}

/// Bit 0 of the state word: somebody is between latch and high byte.
const BUSY: u64 = 1;
const COUNT_SHIFT: u32 = 1;
const SEQUENCE_SHIFT: u32 = 17;

const fn count_of(state: u64) -> u16 {
    (state >> COUNT_SHIFT) as u16
}

const fn sequence_of(state: u64) -> u64 {
    state >> SEQUENCE_SHIFT
}

const fn completed(after: u64, count: u16) -> u64 {
    (sequence_of(after).wrapping_add(1) << SEQUENCE_SHIFT) | (count as u64) << COUNT_SHIFT
}

/// Channel 0, running free.
#[derive(Debug)]
pub struct I8254<P> {
    ports: P,
    state: AtomicU64,
    careful: bool,
}

impl<P: PortIo> I8254<P> {
    /// Sets channel 0 running free and checks that it counts.
    ///
    /// Its interrupt, IRQ 0, has to be masked, or the kernel gets 18 a second.
    ///
    /// # Errors
    ///
    /// [`I8254Error`], after a bounded number of reads.
    pub fn attach(ports: P, pace: &impl Pace) -> Result<Self, I8254Error> {
        let mut chip = Self {
            ports,
            state: AtomicU64::new(0),
            careful: false,
        };
        chip.resume();
        if !liveness::advances(|| chip.read(), chip.mask(), pace) {
            return Err(I8254Error::NotAdvancing);
        }
        let test = |chip: &Self| liveness::consistency(|| chip.read(), chip.mask(), TEST_READS);
        if test(&chip) == Consistency::Backwards {
            chip.careful = true;
            if test(&chip) == Consistency::Backwards {
                return Err(I8254Error::Inconsistent);
            }
        }
        Ok(chip)
    }

    /// Programs the channel again; for a resume from suspend.
    pub fn resume(&self) {
        self.ports.uninterrupted(|| {
            self.ports.write_u8(CONTROL, CONTROL_RATE_GENERATOR);
            self.ports.write_u8(CHANNEL_0, 0);
            self.ports.write_u8(CHANNEL_0, 0);
        });
    }

    /// One reading of the chip, our own or one that was in progress.
    fn reading(&self) -> u16 {
        // Acquire pairs with the release of the owner that stored this state:
        // its port accesses are before ours.
        let seen = self.state.load(Ordering::Acquire);
        let own = self.ports.uninterrupted(|| {
            let taken = seen & BUSY == 0
                && self
                    .state
                    .compare_exchange(seen, seen | BUSY, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok();
            taken.then(|| {
                let count = self.latched();
                self.state.store(completed(seen, count), Ordering::Release);
                count
            })
        });
        own.unwrap_or_else(|| self.result_of_another(seen))
    }

    /// The count of the first reading completed after `seen`, or the one in
    /// `seen` when none is.
    fn result_of_another(&self, seen: u64) -> u16 {
        for _ in 0..PATIENCE {
            let now = self.state.load(Ordering::Acquire);
            if sequence_of(now) != sequence_of(seen) {
                return count_of(now);
            }
            core::hint::spin_loop();
        }
        count_of(seen)
    }

    /// Latch, low byte, high byte; negated, so that it counts up.
    fn latched(&self) -> u16 {
        self.ports.write_u8(CONTROL, CONTROL_LATCH);
        let low = self.ports.read_u8(CHANNEL_0);
        let high = self.ports.read_u8(CHANNEL_0);
        from_bytes(low, high).wrapping_neg()
    }

    /// Readings until three in succession are in order, and the middle one.
    fn careful_reading(&self) -> u16 {
        const HALF: u16 = 0x8000;
        let mut first = self.reading();
        let mut middle = self.reading();
        for _ in 2..CAREFUL_LIMIT {
            let last = self.reading();
            // In order, and together within half a period: a single bad one
            // cannot satisfy both differences.
            if middle.wrapping_sub(first) < HALF
                && last.wrapping_sub(middle) < HALF
                && last.wrapping_sub(first) < HALF
            {
                return middle;
            }
            first = middle;
            middle = last;
        }
        middle
    }
}

impl<P: PortIo> Timecounter for I8254<P> {
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("wraps every 55 ms, dearest to read")
    }

    fn name(&self) -> &'static str {
        "i8254"
    }

    fn frequency(&self) -> u64 {
        u64::from(FREQUENCY)
    }

    fn mask(&self) -> u64 {
        u64::from(u16::MAX)
    }

    fn quality(&self) -> i32 {
        0
    }

    fn read(&self) -> u64 {
        u64::from(if self.careful {
            self.careful_reading()
        } else {
            self.reading()
        })
    }
}
