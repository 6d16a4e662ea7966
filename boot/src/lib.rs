//! The loader's reasoning, without the machine.
//!
//! A boot protocol leaves a CPU in 32-bit mode with one pointer to a structure
//! in physical memory. From there to a running kernel everything that can go
//! wrong is a matter of reading bytes somebody else wrote: [`pvh`] and
//! [`multiboot2`] read what the protocol left into one [`handover::Handover`];
//! [`archive`] finds the kernel in the RAM disk, [`ramdisk`] adds the command
//! line to it; [`image`] checks the kernel's ELF file and lays it out in memory;
//! [`plan`] gives everything the kernel is promised a virtual address;
//! [`memory`] keeps the map of physical memory and says at the end what is
//! left. All of this is safe code over slices, so it is tested on the host,
//! with mutated input; the binary adds the entry point, the page tables and
//! the jump.
//!
//! # Limits
//!
//! - The loader itself uses only memory below 4 GiB, which its early page
//!   tables map one to one. The kernel is told about all memory.
//! - Address space randomization ([`Mappings::aslr`]) is not done: dynamic
//!   addresses are the lowest free ones, the same on every boot.
//! - There is no framebuffer: the console is the serial port.
//!
//! [`Mappings::aslr`]: bootloader_api::config::Mappings::aslr

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod archive;
pub mod handover;
pub mod image;
pub mod memory;
pub mod multiboot2;
pub mod plan;
pub mod pvh;
pub mod ramdisk;
mod relocate;
pub mod span;

#[cfg(test)]
mod mutation;
#[cfg(test)]
mod samples;

/// Size of the pages and frames everything is measured in.
pub const PAGE: u64 = 4096;
