//! The ACPI power management timer as a timecounter: `ACPI-fast`, `ACPI-safe`.
//!
//! A free-running counter of three times the NTSC colour carrier, 3.579545
//! MHz, 24 or 32 bits wide, in a port or memory register that the FADT names.
//!
//! On the PIIX4 and some relatives the count is not latched to the bus clock
//! (PIIX4 specification update, erratum 20): in 3 of every 69.8 ns a read
//! returns bits of two neighbouring counts, off in either direction. So the
//! chip is tried with consecutive reads at start; if one goes back, the careful
//! reader is used from then on, which takes three reads that are in order and
//! returns the middle one: for that to be wrong two reads in three would have
//! to be wrong in agreement.
//!
//! The read needs no fence: `IN` waits until earlier instructions have
//! completed, and a memory register is mapped uncached.
//!
//! Source: ACPI specification 6.5, sections 4.8.3.3 and 5.2.9.

use core::fmt;

use timecounter::{Flags, Timecounter};

use crate::bus::{Mmio, Pace, PortIo};
use crate::liveness::{self, Consistency};

/// Rate in Hz, fixed by the specification.
pub const FREQUENCY: u64 = 3_579_545;

/// FADT flag TMR_VAL_EXT: the counter has 32 bits.
const FADT_TMR_VAL_EXT: u32 = 1 << 8;
/// The only legal PM_TMR_LEN of a timer that exists, in bytes.
const REGISTER_LENGTH: u8 = 4;
/// Runs of the test for badly latched reads, and reads in each. The erratum
/// spoils one read in 23; 2,000 reads miss one that is ten times rarer with a
/// probability of 2 in 10,000, and take 20 ms on the slowest hypervisor known
/// (9 us a read).
const PROBES: u32 = 10;
const READS_PER_PROBE: u32 = 200;
/// Most reads of one careful read. Even at one bad read in four the chance
/// that no three in order turn up is below one in a million.
const SAFE_READ_LIMIT: u32 = 64;

/// Width in bits of the counter, by the FADT's flags.
#[must_use]
pub const fn width(fadt_flags: u32) -> u32 {
    if fadt_flags & FADT_TMR_VAL_EXT != 0 {
        32
    } else {
        24
    }
}

/// Whether there is a timer, by the FADT's PM_TMR_LEN.
///
/// The width of the register says nothing about the width of the counter, and
/// any length but 4 says that there is no timer.
#[must_use]
pub const fn present(pm_tmr_len: u8) -> bool {
    pm_tmr_len == REGISTER_LENGTH
}

/// The result of a [`safe_read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SafeRead {
    /// The middle of the last three samples.
    pub value: u32,
    /// Samples taken.
    pub reads: u32,
}

/// Samples until three in succession do not decrease and returns the middle
/// one, or the middle of the last three after 64 samples.
///
/// The comparison ignores the wrap: at one the last samples before it are
/// dropped and three after it taken, at the cost of up to two reads more.
pub fn safe_read(mut sample: impl FnMut() -> u32) -> SafeRead {
    let mut first = sample();
    let mut middle = sample();
    let mut last = sample();
    let mut reads = 3;
    while (first > middle || middle > last) && reads < SAFE_READ_LIMIT {
        first = middle;
        middle = last;
        last = sample();
        reads += 1;
    }
    SafeRead {
        value: middle,
        reads,
    }
}

/// Why there is no ACPI timer to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcpiTimerError {
    /// No FADT, or one too short to name a timer.
    NoFadt,
    /// PM_TMR_LEN is not 4: the platform has no timer.
    Length(u8),
    /// Length 4 but no address in a port or memory.
    NoRegister,
    /// The register in memory could not be mapped.
    NotMapped(u64),
    /// The counter stands still.
    NotAdvancing,
}

impl fmt::Display for AcpiTimerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFadt => f.write_str("not in the ACPI tables"),
            Self::Length(length) => write!(f, "register length {length} in the FADT, not 4"),
            Self::NoRegister => f.write_str("no register address in the FADT"),
            Self::NotMapped(address) => write!(f, "no register at {address:#x}"),
            Self::NotAdvancing => f.write_str("counter does not advance"),
        }
    }
}

/// Where the timer's register is.
#[derive(Clone, Copy, Debug)]
pub enum Register<P, M> {
    /// An I/O port.
    Port {
        /// The port space.
        ports: P,
        /// The port's number.
        port: u16,
    },
    /// Memory.
    Memory {
        /// A window that contains the register.
        window: M,
        /// Its byte offset in the window.
        offset: u16,
    },
}

impl<P: PortIo, M: Mmio> Register<P, M> {
    #[inline]
    fn read(&self) -> u32 {
        match self {
            Self::Port { ports, port } => ports.read_u32(*port),
            Self::Memory { window, offset } => window.read(*offset),
        }
    }
}

/// What is known about reads of the timer in succession.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadTest {
    Passed,
    Failed,
    Skipped,
}

/// An ACPI timer that was seen to count.
#[derive(Debug)]
pub struct AcpiTimer<P, M> {
    register: Register<P, M>,
    mask: u32,
    test: ReadTest,
}

impl<P: PortIo, M: Mmio> AcpiTimer<P, M> {
    /// Checks that the timer counts, and how it has to be read.
    ///
    /// Without `test` it is taken for one that can be read at one go, as
    /// FreeBSD does where `hw.acpi.timer_test_enabled` is 0.
    ///
    /// `width` is what [`width`] said. 32 bits are used only if the top byte is
    /// seen to be anything but zero: firmware that announces 32 bits of a
    /// 24-bit counter exists, and 24 bits of a 32-bit one count just as well.
    ///
    /// # Errors
    ///
    /// [`AcpiTimerError::NotAdvancing`], after a bounded number of reads.
    pub fn attach(
        register: Register<P, M>,
        width: u32,
        test: bool,
        pace: &impl Pace,
    ) -> Result<Self, AcpiTimerError> {
        const MASK_24: u32 = 0x00FF_FFFF;
        let read = || u64::from(register.read());
        if !liveness::advances(read, u64::from(MASK_24), pace) {
            return Err(AcpiTimerError::NotAdvancing);
        }
        // 24 bits are compared here, too: in a 32-bit counter they count the
        // same.
        let goes_back = || {
            liveness::consistency(read, u64::from(MASK_24), READS_PER_PROBE)
                == Consistency::Backwards
        };
        let test = if !test {
            ReadTest::Skipped
        } else if (0..PROBES).any(|_| goes_back()) {
            ReadTest::Failed
        } else {
            ReadTest::Passed
        };
        let sample = safe_read(|| register.read()).value;
        let mask = if width == 32 && sample > MASK_24 {
            u32::MAX
        } else {
            MASK_24
        };
        Ok(Self {
            register,
            mask,
            test,
        })
    }

    fn careful(&self) -> bool {
        self.test == ReadTest::Failed
    }
}

impl<P: PortIo, M: Mmio> Timecounter for AcpiTimer<P, M> {
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.test {
            ReadTest::Passed => "passed the read test",
            ReadTest::Failed => "failed the read test: three reads a sample",
            ReadTest::Skipped => "not tested: hw.acpi.timer_test_enabled is 0",
        })
    }

    fn name(&self) -> &'static str {
        if self.careful() {
            "ACPI-safe"
        } else {
            "ACPI-fast"
        }
    }

    fn frequency(&self) -> u64 {
        FREQUENCY
    }

    fn mask(&self) -> u64 {
        u64::from(self.mask)
    }

    fn quality(&self) -> i32 {
        if self.careful() { 850 } else { 900 }
    }

    #[inline]
    fn read(&self) -> u64 {
        let value = if self.careful() {
            safe_read(|| self.register.read()).value
        } else {
            self.register.read()
        };
        u64::from(value)
    }

    fn flags(&self) -> Flags {
        Flags::SUSPEND_SAFE
    }
}
