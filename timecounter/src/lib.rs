//! Timecounters and timehands: the hardware-free core of Timehands.
#![no_std]
#![forbid(unsafe_code)]

pub mod bintime;
pub mod counter;
pub mod generation;
pub mod scale;
pub mod timespec;

pub use bintime::Bintime;
pub use counter::{Flags, Timecounter, UserCounter};
pub use scale::{Multiplier, Scale, ScaleError};
pub use timespec::{Timespec, Timeval};
