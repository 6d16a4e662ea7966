//! The local APICs of this machine: where their registers are, the tick that
//! each drives on its CPU, messages between CPUs.
//!
//! All are in the mode that firmware left the boot processor's in. The timers
//! run at one rate, so the boot processor's is measured and counts for all.

use core::fmt;

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use drivers::calibrate::{CalibrationError, Limits};
use drivers::i8259;
use drivers::lapic::{self, Lapic, Location, Message, Registers, X2Apic};
use drivers::native::{Msrs, Processor, RegisterWindow};
use spin::Once;
use timecounter::Timecounter;

use super::percpu;
use super::trap::vector;
use crate::mm::mmio::{self, MmioError};
use crate::sync::without_interrupts;

/// Why there is no tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LapicError {
    /// The vectors meant for the i8259 pair cannot be its own.
    Vector(i8259::BadVector),
    /// Firmware has turned the local APIC off.
    Disabled,
    /// It is in x2APIC mode, and the boot processor's is not: no message of one
    /// reaches the other.
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
            Self::X2Apic => f.write_str("in x2APIC mode, unlike the first"),
            Self::Unmapped(error) => write!(f, "{error}"),
            Self::NotStarted => f.write_str("not started"),
            Self::Rate(error) => write!(f, "timer: {error}"),
            Self::BadRate(hz) => write!(f, "timer: cannot interrupt {hz} times a second"),
        }
    }
}

impl core::error::Error for LapicError {}

static LAPIC: Once<Lapic<Registers<RegisterWindow, Msrs>>> = Once::new();

/// The initial count of the tick; 0 before there is one.
static TICK_COUNT: AtomicU32 = AtomicU32::new(0);

/// Turns the boot processor's local APIC on, everything masked, and the i8259
/// pair off.
///
/// # Errors
///
/// [`LapicError`]; there is no tick then.
pub fn init() -> Result<(), LapicError> {
    i8259::remap_and_mask(&super::ports(), vector::I8259).map_err(LapicError::Vector)?;
    let registers = match lapic::locate(&super::msrs()) {
        Location::Memory(base) => {
            let registers = mmio::map(base, 4096).map_err(LapicError::Unmapped)?;
            let window = registers.window();
            Registers::Memory(window.ok_or(LapicError::Unmapped(MmioError::BadRange))?)
        }
        Location::X2Apic => Registers::Msrs(X2Apic(super::msrs())),
        Location::Disabled => return Err(LapicError::Disabled),
    };
    LAPIC
        .call_once(|| Lapic::new(registers))
        .enable(vector::SPURIOUS);
    Ok(())
}

/// Turns the local APIC of another CPU on, which calls this, in the mode of the
/// boot processor's.
///
/// # Errors
///
/// [`LapicError::NotStarted`], [`LapicError::Disabled`], [`LapicError::X2Apic`].
pub(super) fn init_here() -> Result<(), LapicError> {
    let lapic = LAPIC.get().ok_or(LapicError::NotStarted)?;
    match (lapic::locate(&super::msrs()), lapic.is_x2apic()) {
        (Location::Memory(_), true) => lapic::enter_x2apic(&super::msrs()),
        (Location::X2Apic, false) => return Err(LapicError::X2Apic),
        (Location::Disabled, _) => return Err(LapicError::Disabled),
        (Location::Memory(_), false) | (Location::X2Apic, true) => {}
    }
    lapic.enable(vector::SPURIOUS);
    Ok(())
}

/// Whether the local APICs are in x2APIC mode.
pub(super) fn is_x2apic() -> bool {
    LAPIC.get().is_some_and(Lapic::is_x2apic)
}

/// The ID of this CPU's.
pub(super) fn id() -> Option<u32> {
    Some(LAPIC.get()?.id())
}

/// Sends a message to the CPU whose local APIC has the ID `destination`.
pub(super) fn send(destination: u32, message: Message) {
    without_interrupts(|| {
        if let Some(lapic) = LAPIC.get() {
            lapic.send(destination, message);
        }
    });
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

/// Starts this CPU's tick: `hz` interrupts a second from a timer of `timer_hz`. A
/// tick that runs already changes to the new rate.
///
/// # Errors
///
/// [`LapicError::NotStarted`], [`LapicError::BadRate`].
pub fn start_tick(timer_hz: u64, hz: u32) -> Result<(), LapicError> {
    let lapic = LAPIC.get().ok_or(LapicError::NotStarted)?;
    let count = lapic::initial_count(timer_hz, hz).ok_or(LapicError::BadRate(hz))?;
    TICK_COUNT.store(count, Ordering::Relaxed);
    lapic.start_periodic(vector::TICK, count);
    Ok(())
}

/// The CPU that ticks slowly where it has no other reason to: it notices that
/// CPU 0 has stopped, and is there to make the windups then.
pub const DEPUTY: usize = 1;

/// Ticks between two interrupts of the deputy's.
const DEPUTY_TICKS: u32 = 4;

/// Whether the deputy ticks slowly.
static SLOW: AtomicBool = AtomicBool::new(false);

/// Starts this CPU's tick at the rate that [`start_tick`] was last called with;
/// before that, nothing.
pub fn start_tick_here() {
    if percpu::number() == DEPUTY {
        SLOW.store(false, Ordering::Relaxed);
    }
    start_timer_here(1);
}

/// Stops this CPU's tick, or slows the deputy's down. An interrupt that was on
/// its way may still arrive.
pub fn stop_tick_here() {
    if percpu::number() != DEPUTY {
        if let Some(lapic) = LAPIC.get() {
            lapic.stop_timer();
        }
        return;
    }
    let ticking = TICK_COUNT.load(Ordering::Relaxed) != 0;
    // A timer that is started again and again would never come to its end.
    if ticking && !SLOW.swap(true, Ordering::Relaxed) {
        start_timer_here(DEPUTY_TICKS);
    }
}

/// For how many ticks one timer interrupt of this CPU stands.
pub fn ticks_an_interrupt() -> u32 {
    let slow = percpu::number() == DEPUTY && SLOW.load(Ordering::Relaxed);
    if slow { DEPUTY_TICKS } else { 1 }
}

fn start_timer_here(ticks: u32) {
    let count = TICK_COUNT.load(Ordering::Relaxed).saturating_mul(ticks);
    if let Some(lapic) = LAPIC.get()
        && count != 0
    {
        lapic.start_periodic(vector::TICK, count);
    }
}

/// Ends the interrupt in service.
pub(super) fn end_of_interrupt() {
    if let Some(lapic) = LAPIC.get() {
        lapic.end_of_interrupt();
    }
}
