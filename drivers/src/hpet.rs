//! The High Precision Event Timer as a timecounter.
//!
//! A memory-mapped up-counter of at least 10 MHz whose period, in
//! femtoseconds, is in its own capabilities register. Three habits of real and
//! emulated parts shape this driver:
//!
//! * Firmware leaves the counter stopped, so the enable bit is set first and
//!   the counter then has to be *seen* to move.
//! * The counter is 32 or 64 bits wide. It is read as 32 bits always: some
//!   chipsets and hypervisors split an 8-byte load in two, and the halves do
//!   not belong together when the low one wraps in between; and on a 32-bit
//!   part the upper halves of the registers are not there to be touched.
//! * The period may be nonsense (0, or in picoseconds), and is believed only
//!   inside the limits of the specification and of reason.
//!
//! The read needs no fence of its own: the register page is mapped uncached,
//! and the processor executes loads from uncached memory in program order.
//!
//! Source: IA-PC HPET specification 1.0a, section 2.3.

use core::fmt;

use timecounter::{Timecounter, UserCounter};

use crate::bus::{Mmio, Pace};
use crate::liveness;

/// Capabilities, low half: revision, counters, width, vendor.
const CAPABILITIES: u16 = 0x000;
/// Capabilities, high half: the period.
const PERIOD: u16 = 0x004;
/// General configuration, low half.
const CONFIGURATION: u16 = 0x010;
/// Main counter, low half. The offset user space reads, too.
pub const MAIN_COUNTER: u16 = 0x0F0;

const CONFIGURATION_ENABLE: u32 = 1 << 0;
const FEMTOSECONDS_PER_SECOND: u64 = 1_000_000_000_000_000;
const FEMTOSECONDS_PER_NANOSECOND: u128 = 1_000_000;
/// The specification's limit: 100 ns, or 10 MHz.
const LONGEST_PERIOD_FS: u32 = 100_000_000;
/// No part counts at 10 GHz. A period below this is one given in another unit:
/// chips have been seen to report picoseconds (52,083 for 19.2 MHz).
const SHORTEST_PERIOD_FS: u32 = 100_000;

/// A period that no HPET has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPeriod {
    /// 0: the rate is not stated.
    Zero,
    /// Above the specification's 100 ns; all ones where no chip answers.
    TooLong(u32),
    /// Above 10 GHz; probably in another unit.
    TooShort(u32),
}

impl fmt::Display for BadPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("period of 0 fs"),
            Self::TooLong(fs) => write!(f, "period of {fs} fs is above {LONGEST_PERIOD_FS}"),
            Self::TooShort(fs) => write!(f, "period of {fs} fs is below {SHORTEST_PERIOD_FS}"),
        }
    }
}

/// The rate in Hz that belongs to a period in femtoseconds, to the nearest.
///
/// # Errors
///
/// [`BadPeriod`] outside 100,000 to 100,000,000 fs.
pub const fn frequency(period_fs: u32) -> Result<u64, BadPeriod> {
    match period_fs {
        0 => Err(BadPeriod::Zero),
        1..SHORTEST_PERIOD_FS => Err(BadPeriod::TooShort(period_fs)),
        SHORTEST_PERIOD_FS..=LONGEST_PERIOD_FS => {
            let period = period_fs as u64;
            Ok((FEMTOSECONDS_PER_SECOND + period / 2) / period)
        }
        _ => Err(BadPeriod::TooLong(period_fs)),
    }
}

/// The time of `ticks` periods in whole nanoseconds, rounded down; `None` when
/// it does not fit (more than 584 years).
#[must_use]
pub fn ticks_to_ns(ticks: u64, period_fs: u32) -> Option<u64> {
    let femtoseconds = u128::from(ticks) * u128::from(period_fs);
    u64::try_from(femtoseconds / FEMTOSECONDS_PER_NANOSECOND).ok()
}

/// The General Capabilities and ID register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Revision, never 0.
    pub revision: u8,
    /// Number of comparators, 1 to 32.
    pub timers: u8,
    /// Width of the main counter: 64 bits, otherwise 32.
    pub counter_is_64_bit: bool,
    /// Whether timers 0 and 1 can replace the i8254 and the RTC.
    pub legacy_replacement: bool,
    /// PCI vendor.
    pub vendor: u16,
    /// Period of the main counter in femtoseconds, as stated.
    pub period_fs: u32,
}

impl Capabilities {
    /// Takes the 64-bit register apart. Total: every value decodes to
    /// something, and [`frequency`] judges the period.
    #[must_use]
    pub const fn decode(register: u64) -> Self {
        Self {
            revision: register as u8,
            // The field is the index of the last timer, 0 to 31.
            timers: (register >> 8 & 0x1F) as u8 + 1,
            counter_is_64_bit: register >> 13 & 1 != 0,
            legacy_replacement: register >> 15 & 1 != 0,
            vendor: (register >> 16) as u16,
            period_fs: (register >> 32) as u32,
        }
    }

    /// Width of the main counter in bits.
    #[must_use]
    pub const fn counter_bits(&self) -> u32 {
        if self.counter_is_64_bit { 64 } else { 32 }
    }
}

/// Why there is no `HPET` to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpetError {
    /// The firmware describes none.
    NotInTables,
    /// The table puts its registers in this ACPI address space, not in memory.
    AddressSpace(u8),
    /// The table's address is 0 or could not be mapped.
    NoRegisters(u64),
    /// The period is unbelievable.
    Period(BadPeriod),
    /// The counter stands still although enabled.
    NotAdvancing,
}

impl fmt::Display for HpetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInTables => f.write_str("not in the ACPI tables"),
            Self::AddressSpace(space) => {
                write!(f, "registers in ACPI address space {space}, not in memory")
            }
            Self::NoRegisters(address) => write!(f, "no registers at {address:#x}"),
            Self::Period(bad) => bad.fmt(f),
            Self::NotAdvancing => f.write_str("counter does not advance"),
        }
    }
}

/// An HPET that was seen to count.
#[derive(Debug)]
pub struct Hpet<M> {
    registers: M,
    capabilities: Capabilities,
    frequency: u64,
    user: UserCounter,
}

impl<M: Mmio> Hpet<M> {
    /// Enables the main counter and checks that it counts.
    ///
    /// Touches the low halves of registers only. Other bits of the
    /// configuration (legacy replacement) stay as the firmware left them.
    ///
    /// # Errors
    ///
    /// [`HpetError::Period`] and [`HpetError::NotAdvancing`], after a bounded
    /// number of reads.
    pub fn attach(registers: M, pace: &impl Pace) -> Result<Self, HpetError> {
        let low = registers.read(CAPABILITIES);
        let period_fs = registers.read(PERIOD);
        let capabilities = Capabilities::decode(u64::from(period_fs) << 32 | u64::from(low));
        let frequency = frequency(period_fs).map_err(HpetError::Period)?;

        let configuration = registers.read(CONFIGURATION);
        if configuration & CONFIGURATION_ENABLE == 0 {
            registers.write(CONFIGURATION, configuration | CONFIGURATION_ENABLE);
        }
        let hpet = Self {
            registers,
            capabilities,
            frequency,
            user: UserCounter::Hpet,
        };
        if !liveness::advances(|| hpet.read(), hpet.mask(), pace) {
            return Err(HpetError::NotAdvancing);
        }
        Ok(hpet)
    }

    /// Keeps programs from reading the counter themselves: its registers will
    /// not be mapped for them.
    pub const fn keep_from_programs(&mut self) {
        self.user = UserCounter::None;
    }

    /// What the chip says about itself.
    pub const fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Sets the enable bit again, for a resume from suspend; the counter goes
    /// on from wherever the hardware left it.
    pub fn resume(&self) {
        let configuration = self.registers.read(CONFIGURATION);
        self.registers
            .write(CONFIGURATION, configuration | CONFIGURATION_ENABLE);
    }
}

impl<M: Mmio> Timecounter for Hpet<M> {
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("steady on every CPU and asleep, dear to read")
    }

    fn name(&self) -> &'static str {
        "HPET"
    }

    fn frequency(&self) -> u64 {
        self.frequency
    }

    fn mask(&self) -> u64 {
        u64::from(u32::MAX)
    }

    fn quality(&self) -> i32 {
        950
    }

    #[inline]
    fn read(&self) -> u64 {
        u64::from(self.registers.read(MAIN_COUNTER))
    }

    fn user_counter(&self) -> UserCounter {
        self.user
    }
}
