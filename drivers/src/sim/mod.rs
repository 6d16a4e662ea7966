//! Behavioural models of the chips, for tests on the host.
//!
//! All models of a machine share one simulated [`Clock`]; a counter's value is
//! computed from it, so a model costs nothing while nobody reads it and runs
//! the same each time. Time passes only by what is done: each access to a chip
//! takes its cost, half before the chip samples its count and half after, and
//! each pause takes a little. So a driver that waits for ever is found by a
//! bound on its reads and not by a test that hangs.
//!
//! What is modelled is what a driver can see, quirks included: the latch and
//! byte flip-flop of the i8254, the torn 8-byte read of the HPET and its
//! enable bit, the unlatched reads of the PIIX4's ACPI timer, a TSC that moves
//! in steps. The faults are knobs on the models: [`Oscillator`] can stop, run
//! at another rate and jump; each chip adds its own.

mod acpi_timer;
mod clock;
mod hpet;
mod i8254;
mod lapic;
mod ports;
mod processor;

pub use acpi_timer::AcpiTimerModel;
pub use clock::{Clock, Oscillator};
pub use hpet::HpetModel;
pub use i8254::I8254Model;
pub use lapic::LapicModel;
pub use ports::PortsModel;
pub use processor::{CpuidTable, ProcessorModel};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a test thread that panicked has left whole values behind, since
/// every change of a model is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
