//! The reference kernel: one small machine around the timecounter core.
//!
//! [`start`] is the order of bring-up. What touches hardware or memory by
//! address lives in [`arch`] and [`mm`], the only modules that may be unsafe;
//! everything else is ordinary safe Rust, and what needs no hardware at all
//! also compiles for the host, where `cargo test -p kernel --lib` runs its
//! tests.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod acpi;
#[allow(unsafe_code, reason = "registers, descriptor tables, interrupt entry")]
pub mod arch;
pub mod archive;
pub mod console;
pub mod cpuset;
#[allow(unsafe_code, reason = "page tables, physical memory, device registers")]
pub mod mm;
#[cfg(target_os = "none")]
pub mod panic;
pub mod proc;
pub mod shell;
#[cfg(target_os = "none")]
pub mod start;
pub mod sync;
pub mod sysctl;
pub mod time;
pub mod tunables;
