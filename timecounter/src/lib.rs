//! Timecounters and timehands: the hardware-free core of Timehands.
#![no_std]
#![forbid(unsafe_code)]

pub mod bintime;
pub mod counter;
pub mod delta;
pub mod gate;
pub mod generation;
pub mod getres;
pub mod kind;
pub mod page;
pub mod quality;
pub mod reader;
pub mod ring;
pub mod scale;
pub mod second;
mod sync;
pub mod tick;
pub mod timespec;
pub mod validate;

pub use bintime::Bintime;
pub use counter::{Flags, Timecounter, UserCounter};
pub use scale::{Multiplier, Scale, ScaleError};
pub use timespec::{Timespec, Timeval};
