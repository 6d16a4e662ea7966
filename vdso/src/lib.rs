//! The timehands page as programs see it.
//!
//! The kernel publishes the clock in one page ([`timecounter::page`]) and maps
//! it read-only into every program. This crate is the program side: it reads the
//! counters that can be read without the kernel's help ([`counter`]) and tells
//! the clocks of Linux from page and count ([`clock`]), with the reader that the
//! kernel uses too. It serves three places:
//!
//! * the shared object `linux-vdso.so.1`, in the folder `object`, which every
//!   program on the reference kernel has mapped, and whose counter reads the
//!   kernel fits to the processor first ([`patch`]);
//! * a program that maps a page by itself, as the benchmarks on the host do;
//! * any other kernel's own vDSO.
//!
//! The format of the page is a contract, written down in `PROTOCOL.md` for
//! readers in other languages.

#![no_std]
#![deny(unsafe_code)]

pub mod clock;
#[expect(unsafe_code, reason = "counter instructions and device registers")]
pub mod counter;
pub mod patch;
