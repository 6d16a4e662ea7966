//! Timecounters and timehands: the hardware-free core of Timehands.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, loom))]
extern crate std;

pub mod bintime;
#[cfg(not(loom))]
pub mod clock;
pub mod counter;
pub mod delta;
pub mod gate;
pub mod generation;
pub mod getres;
pub mod kind;
#[cfg(not(loom))]
mod leap;
pub mod page;
pub mod quality;
pub mod reader;
#[cfg(not(loom))]
pub mod registry;
pub mod ring;
pub mod scale;
pub mod second;
#[cfg(not(loom))]
pub mod select;
#[cfg(not(loom))]
mod settime;
pub mod sync;
pub mod tick;
pub mod timespec;
pub mod validate;
#[cfg(not(loom))]
pub mod windup;
#[cfg(not(loom))]
mod witness;

pub use bintime::Bintime;
#[cfg(not(loom))]
pub use clock::Clock;
pub use counter::{Flags, Timecounter, UserCounter};
pub use scale::{Multiplier, Scale, ScaleError};
pub use timespec::{Timespec, Timeval};
