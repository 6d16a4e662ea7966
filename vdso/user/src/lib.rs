//! The program side: start, system calls, and the way to the vDSO.
//!
//! A program for the Timehands kernel is a static Linux x86-64 executable, so
//! everything here is the Linux ABI and nothing else: the same binary runs on
//! a Linux host, which is how it is tested first.
//!
//! * [`sys`] holds what cannot be said in safe Rust: the entry point, the
//!   `syscall` instruction, calls through pointers into the vDSO, and the
//!   deliberate faults of the test programs.
//! * [`symbols`] finds a function in a vDSO image. It works on a byte slice,
//!   trusts nothing in it, and is tested on the host.
//! * [`vdso`] puts the two together: clock reads through the vDSO.
//! * `team`, for programs, runs a thread on each processor.
//! * [`abi`] has the types, clock numbers and error numbers of the interface.
//! * [`print`] formats to standard output.
//! * `load`, with the feature `host`, maps an object into a host process.
//!
//! A program is a `no_std`, `no_main` binary with the feature `program`:
//!
//! ```ignore
//! #![no_std]
//! #![no_main]
//!
//! fn main(process: &user::sys::Process) -> i32 {
//!     user::println!("{} arguments", process.arguments().count());
//!     0
//! }
//!
//! user::program!(main);
//! ```

#![cfg_attr(not(any(test, feature = "host")), no_std)]
#![deny(unsafe_code)]

pub mod abi;
#[cfg(feature = "host")]
pub mod load;
pub mod print;
pub mod symbols;
pub mod sys;
#[cfg(feature = "program")]
pub mod team;
pub mod vdso;
