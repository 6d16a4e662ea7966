//! The local APIC: the tick, the end of interrupt, messages to other CPUs.
//!
//! It comes in two forms. In xAPIC mode its registers are a page of memory and
//! its ID has 8 bits; in x2APIC mode they are model-specific registers, at 0x800
//! and a sixteenth of their offset in the page, and the ID has 32. What differs
//! is behind [`Access`]; the driver is the same.
//!
//! The timer counts down from an initial count at the bus (or crystal) rate
//! over a divisor, and in periodic mode starts over by itself. Its rate is
//! nowhere announced reliably, so it is measured against a timecounter
//! ([`Lapic::measure_timer`]) and the initial count for a tick derived from
//! it ([`initial_count`]).
//!
//! It drives the tick and is never a timecounter: it stops with deep sleep
//! states on older parts and every CPU has its own.
//!
//! Source: Intel SDM volume 3A, chapter "Advanced Programmable Interrupt
//! Controller (APIC)": register map (table 12-1), divide configuration (figure
//! 12-10), timer modes (12.5.4), interrupt command register (figure 12-12),
//! spurious vector register (figure 12-23), x2APIC (12.12).

use timecounter::Timecounter;

use crate::bus::{Msr, Pace};
use crate::calibrate::{self, Calibration, CalibrationError, Limits};

mod access;

pub use access::{Access, Registers, X2Apic};

/// IA32_APIC_BASE.
const APIC_BASE_MSR: u32 = 0x1B;
const APIC_BASE_ENABLE: u64 = 1 << 11;
const APIC_BASE_X2APIC: u64 = 1 << 10;
const APIC_BASE_ADDRESS: u64 = 0x000F_FFFF_FFFF_F000;

/// Byte offsets of the registers that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Register {
    /// Local APIC ID, bits 31:24.
    Id = 0x020,
    /// Version and number of local vector table entries.
    Version = 0x030,
    /// Task priority; 0 lets every interrupt through.
    TaskPriority = 0x080,
    /// End of interrupt; any write of 0 ends the one in service.
    EndOfInterrupt = 0x0B0,
    /// Spurious interrupt vector and software enable.
    SpuriousVector = 0x0F0,
    /// Error status; written before it is read.
    ErrorStatus = 0x280,
    /// Interrupt command, low half; writing it sends.
    CommandLow = 0x300,
    /// Interrupt command, high half: the destination in bits 31:24.
    CommandHigh = 0x310,
    /// Local vector table: timer.
    LvtTimer = 0x320,
    /// Local vector table: performance counters.
    LvtPerformance = 0x340,
    /// Local vector table: pin LINT0, where the i8259 is wired.
    LvtLint0 = 0x350,
    /// Local vector table: pin LINT1, NMI on a PC.
    LvtLint1 = 0x360,
    /// Local vector table: internal errors.
    LvtError = 0x370,
    /// Timer: initial count; writing it starts the timer.
    InitialCount = 0x380,
    /// Timer: current count.
    CurrentCount = 0x390,
    /// Timer: divide configuration.
    DivideConfiguration = 0x3E0,
}

const LVT_MASKED: u32 = 1 << 16;
const LVT_TIMER_PERIODIC: u32 = 1 << 17;
/// Delivery mode "NMI" of a local vector table entry.
const LVT_NMI: u32 = 0b100 << 8;
const SPURIOUS_SOFTWARE_ENABLE: u32 = 1 << 8;
/// The divisor used throughout. Its bits are 3, 1, 0 of the register: 0b0011.
/// 16 keeps a 32-bit count above one second up to 64 GHz of input.
const DIVIDE_BY_16: u32 = 0b0011;

/// Where the MSR says the register page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// At this physical address, enabled.
    Memory(u64),
    /// Enabled in x2APIC mode: the registers are MSRs.
    X2Apic,
    /// Globally disabled.
    Disabled,
}

/// Decodes IA32_APIC_BASE.
#[must_use]
pub const fn location(apic_base: u64) -> Location {
    if apic_base & APIC_BASE_ENABLE == 0 {
        Location::Disabled
    } else if apic_base & APIC_BASE_X2APIC != 0 {
        Location::X2Apic
    } else {
        Location::Memory(apic_base & APIC_BASE_ADDRESS)
    }
}

/// Reads IA32_APIC_BASE of the calling CPU (every x86_64 has the register).
pub fn locate<M: Msr>(msr: &M) -> Location {
    location(msr.read(APIC_BASE_MSR))
}

/// The initial count for `hz` interrupts a second of a timer that counts at
/// `timer_hz`, to the nearest; `None` when it is 0 or does not fit.
#[must_use]
pub fn initial_count(timer_hz: u64, hz: u32) -> Option<u32> {
    let hz = u64::from(hz);
    let count = timer_hz.checked_add(hz / 2)?.checked_div(hz)?;
    u32::try_from(count).ok().filter(|&count| count != 0)
}

/// Puts the calling CPU's local APIC into x2APIC mode. It must be enabled; there
/// is no way back but through [`Location::Disabled`].
pub fn enter_x2apic<M: Msr>(msr: &M) {
    msr.write(
        APIC_BASE_MSR,
        msr.read(APIC_BASE_MSR) | APIC_BASE_ENABLE | APIC_BASE_X2APIC,
    );
}

/// A message from one CPU to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// An interrupt at a vector, 16 or more.
    Interrupt(u8),
    /// A non-maskable interrupt.
    Nmi,
    /// A reset into waiting for a start-up message.
    Init,
    /// A start at this page, in real mode, for a CPU that waits for one.
    StartUp(u8),
}

impl Message {
    /// The low half of the interrupt command: delivery mode in bits 10:8, level
    /// "assert" in bit 14, edge triggered, physical destination.
    const fn command(self) -> u32 {
        const ASSERT: u32 = 1 << 14;
        match self {
            Self::Interrupt(vector) => ASSERT | vector as u32,
            Self::Nmi => ASSERT | 0b100 << 8,
            Self::Init => ASSERT | 0b101 << 8,
            Self::StartUp(page) => ASSERT | 0b110 << 8 | page as u32,
        }
    }
}

/// The local APIC of the calling CPU.
///
/// All CPUs see their own behind the same addresses, so one value serves all;
/// each method acts on the CPU that calls it.
#[derive(Debug)]
pub struct Lapic<A> {
    registers: A,
}

impl<A: Access> Lapic<A> {
    /// Over its registers.
    pub const fn new(registers: A) -> Self {
        Self { registers }
    }

    fn get(&self, register: Register) -> u32 {
        self.registers.get(register)
    }

    fn set(&self, register: Register, value: u32) {
        self.registers.set(register, value);
    }

    /// Its ID, which the MADT and the interrupt command register name it by.
    pub fn id(&self) -> u32 {
        self.registers.id()
    }

    /// Whether it is driven in x2APIC mode, where IDs have 32 bits.
    pub fn is_x2apic(&self) -> bool {
        self.registers.is_x2apic()
    }

    /// Sends a message to the CPU whose local APIC has the ID `destination`;
    /// in xAPIC mode only its low 8 bits count, and 255 is everybody.
    ///
    /// The caller has interrupts off: the command is two stores in xAPIC mode,
    /// between which no handler may send another.
    pub fn send(&self, destination: u32, message: Message) {
        self.registers.command(destination, message.command());
    }

    /// Turns it on with everything masked but NMI, and accepts interrupts of
    /// every priority.
    ///
    /// `spurious_vector` is where an interrupt goes that vanished before it
    /// was delivered; its handler sends no [`end_of_interrupt`](Self::end_of_interrupt).
    pub fn enable(&self, spurious_vector: u8) {
        for entry in [
            Register::LvtTimer,
            Register::LvtPerformance,
            Register::LvtLint0,
            Register::LvtError,
        ] {
            self.set(entry, LVT_MASKED);
        }
        self.set(Register::LvtLint1, LVT_NMI);
        self.set(Register::TaskPriority, 0);
        self.set(
            Register::SpuriousVector,
            SPURIOUS_SOFTWARE_ENABLE | u32::from(spurious_vector),
        );
        // Written first, then read, as its definition asks.
        self.set(Register::ErrorStatus, 0);
        // An interrupt that was in service when the firmware let go blocks
        // all of lower priority until it is ended.
        self.end_of_interrupt();
    }

    /// Ends the interrupt in service.
    #[inline]
    pub fn end_of_interrupt(&self) {
        self.set(Register::EndOfInterrupt, 0);
    }

    /// Starts the timer: an interrupt at `vector` every `initial_count`
    /// counts, until [`stop_timer`](Self::stop_timer).
    pub fn start_periodic(&self, vector: u8, initial_count: u32) {
        self.set(Register::DivideConfiguration, DIVIDE_BY_16);
        self.set(Register::LvtTimer, LVT_TIMER_PERIODIC | u32::from(vector));
        self.set(Register::InitialCount, initial_count);
    }

    /// Stops and masks the timer.
    pub fn stop_timer(&self) {
        self.set(Register::LvtTimer, LVT_MASKED);
        self.set(Register::InitialCount, 0);
    }

    /// Counts left of the current period.
    pub fn current_count(&self) -> u32 {
        self.get(Register::CurrentCount)
    }

    /// Measures the rate of the timer, divided by 16 as
    /// [`start_periodic`](Self::start_periodic) sets it, and leaves it
    /// stopped. Interrupts from it stay masked meanwhile.
    ///
    /// # Errors
    ///
    /// As [`calibrate::measure`]; a timer that does not move is
    /// [`CalibrationError::TargetStuck`].
    pub fn measure_timer<P: Pace>(
        &self,
        reference: &dyn Timecounter,
        pace: &P,
        limits: &Limits,
    ) -> Result<Calibration, CalibrationError> {
        self.set(Register::DivideConfiguration, DIVIDE_BY_16);
        self.set(Register::LvtTimer, LVT_MASKED | LVT_TIMER_PERIODIC);
        self.set(Register::InitialCount, u32::MAX);
        // It counts down, a target counts up.
        let elapsed = || u64::from(u32::MAX - self.current_count());
        let measured = calibrate::measure(elapsed, u64::from(u32::MAX), reference, pace, limits);
        self.stop_timer();
        measured
    }
}
