//! Timecounters and timehands: the hardware-free core of Timehands.
#![no_std]
#![forbid(unsafe_code)]

pub mod counter;

pub use counter::{Flags, Timecounter, UserCounter};
