//! The local APIC of this machine: where its registers are, the tick it
//! drives.

use core::fmt;

use drivers::calibrate::{CalibrationError, Limits};
use drivers::i8259;
use drivers::lapic::{self, Lapic, Location};
use drivers::native::{Processor, RegisterWindow};
use spin::Once;
use timecounter::Timecounter;

use super::trap::vector;
use crate::mm::mmio::{self, MmioError};

/// Why there is no tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LapicError {
    /// The vectors meant for the i8259 pair cannot be its own.
    Vector(i8259::BadVector),
    /// Firmware has turned the local APIC off.
    Disabled,
    /// It is in x2APIC mode, which this kernel does not drive.
    X2Apic,
    /// Its registers could not be mapped.
    Unmapped(MmioError),
    /// [`init`] has not run.
    NotStarted,
    /// The timer's rate could not be measured.
    Rate(CalibrationError),
    /// So many interrupts a second are beyond the timer.
    BadRate(u32),
}

impl fmt::Display for LapicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("local APIC: ")?;
        match self {
            Self::Vector(error) => write!(f, "{error}"),
            Self::Disabled => f.write_str("disabled by firmware"),
            Self::X2Apic => f.write_str("in x2APIC mode"),
            Self::Unmapped(error) => write!(f, "{error}"),
            Self::NotStarted => f.write_str("not started"),
            Self::Rate(error) => write!(f, "timer: {error}"),
            Self::BadRate(hz) => write!(f, "timer: cannot interrupt {hz} times a second"),
        }
    }
}

impl core::error::Error for LapicError {}

static LAPIC: Once<Lapic<RegisterWindow>> = Once::new();

/// Turns the local APIC on, everything masked, and the i8259 pair off.
///
/// # Errors
///
/// [`LapicError`]; there is no tick then.
pub fn init() -> Result<(), LapicError> {
    i8259::remap_and_mask(&super::ports(), vector::I8259).map_err(LapicError::Vector)?;
    let base = match lapic::locate(&super::msrs()) {
        Location::Memory(base) => base,
        Location::X2Apic => return Err(LapicError::X2Apic),
        Location::Disabled => return Err(LapicError::Disabled),
    };
    let registers = mmio::map(base, 4096).map_err(LapicError::Unmapped)?;
    let window = registers
        .window()
        .ok_or(LapicError::Unmapped(MmioError::BadRange))?;
    LAPIC
        .call_once(|| Lapic::new(window))
        .enable(vector::SPURIOUS);
    Ok(())
}

/// Measures the timer's rate against `reference`, in counts a second.
///
/// # Errors
///
/// [`LapicError::NotStarted`], [`LapicError::Rate`].
pub fn measure_timer(reference: &dyn Timecounter, limits: &Limits) -> Result<u64, LapicError> {
    let lapic = LAPIC.get().ok_or(LapicError::NotStarted)?;
    let measured = lapic
        .measure_timer(reference, &Processor, limits)
        .map_err(LapicError::Rate)?;
    Ok(measured.frequency)
}

/// Starts the tick: `hz` interrupts a second from a timer of `timer_hz`. A
/// tick that runs already changes to the new rate.
///
/// # Errors
///
/// [`LapicError::NotStarted`], [`LapicError::BadRate`].
pub fn start_tick(timer_hz: u64, hz: u32) -> Result<(), LapicError> {
    let lapic = LAPIC.get().ok_or(LapicError::NotStarted)?;
    let count = lapic::initial_count(timer_hz, hz).ok_or(LapicError::BadRate(hz))?;
    lapic.start_periodic(vector::TICK, count);
    Ok(())
}

/// Starts this CPU's tick at the rate of CPU 0's.
pub fn start_tick_here() {}

/// Stops this CPU's tick.
pub fn stop_tick_here() {}

/// Ends the interrupt in service.
pub(super) fn end_of_interrupt() {
    if let Some(lapic) = LAPIC.get() {
        lapic.end_of_interrupt();
    }
}
