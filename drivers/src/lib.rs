//! TSC, HPET, ACPI PM timer and i8254 as timecounters, and the two interrupt
//! controllers a kernel needs before any of them can drive a tick.
//!
//! One file a chip. A driver takes its bus as a value ([`bus`]), so that the
//! same code runs on the instructions of a real processor ([`native`]) and on
//! a model of the chip (`sim`, behind the feature of that name). What a
//! register or a firmware table *means* is decided by pure functions beside
//! the driver that uses them.
//!
//! The way from nothing to a list of counters:
//!
//! 1. the kernel finds the ACPI tables and hands their bytes to [`tables`];
//! 2. [`probe::attach`] tries the chips, the dumb ones first, and calibrates
//!    the TSC against the best of them ([`crosscheck`], [`calibrate`]);
//! 3. what it found goes to the core's registry; what it did not find, or
//!    found lying, is one line each that says why.
//!
//! Everything here is bounded: no loop waits for hardware without counting its
//! reads, since hardware that is absent or lies is the normal case in virtual
//! machines.
#![no_std]
#![deny(unsafe_code)]

#[cfg(feature = "sim")]
extern crate std;

pub mod acpi_timer;
pub mod bus;
pub mod calibrate;
pub mod cpuid;
pub mod crosscheck;
pub mod hpet;
pub mod i8254;
pub mod i8254_periodic;
pub mod i8259;
pub mod lapic;
mod liveness;
pub mod madt;
#[cfg(target_arch = "x86_64")]
#[allow(
    unsafe_code,
    reason = "the real instructions; every other module is generic over its bus"
)]
pub mod native;
pub mod probe;
pub mod report;
#[cfg(feature = "sim")]
pub mod sim;
pub mod step;
pub mod tables;
mod trial;
pub mod tsc;
pub mod tsc_sync;
