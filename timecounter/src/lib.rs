//! Timecounters and timehands: the hardware-free core of Timehands.
#![no_std]
#![forbid(unsafe_code)]

pub mod bintime;
pub mod counter;
pub mod gate;
pub mod generation;
pub mod kind;
pub mod page;
pub mod reader;
pub mod ring;
pub mod scale;
mod sync;
pub mod timespec;

pub use bintime::Bintime;
pub use counter::{Flags, Timecounter, UserCounter};
pub use scale::{Multiplier, Scale, ScaleError};
pub use timespec::{Timespec, Timeval};
