//! System calls with pointers that a kernel must refuse.

#![allow(unsafe_code, reason = "hands bad pointers to system calls")]

use super::call::{call, number};
use crate::abi::{ClockId, Errno};

/// An address that a system call must refuse to write to.
///
/// None of them is memory that this program may write, so handing one to a
/// call is sound: a kernel that writes there anyway has broken the process
/// whatever the program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPointer {
    /// The null page, which is never mapped.
    Null,
    /// The last bytes below the hole of non-canonical addresses: the object
    /// would reach into it.
    LastUser,
    /// In the hole, where even the kernel must not touch memory.
    NonCanonical,
    /// The kernel's half.
    Kernel,
    /// The very last byte: adding a size to it wraps round.
    Top,
    /// This program's code, which it may read but not write.
    Text,
}

impl BadPointer {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Null,
        Self::LastUser,
        Self::NonCanonical,
        Self::Kernel,
        Self::Top,
        Self::Text,
    ];

    /// The address itself.
    #[must_use]
    pub fn address(self) -> usize {
        match self {
            // Null itself means "do not store" to some calls.
            Self::Null => 8,
            Self::LastUser => 0x0000_7fff_ffff_fff8,
            Self::NonCanonical => 0x0000_8000_0000_0000,
            Self::Kernel => 0xffff_8000_0000_0000,
            Self::Top => usize::MAX,
            Self::Text => (Self::address as fn(Self) -> usize) as usize,
        }
    }
}

/// `clock_gettime` with a bad result pointer.
///
/// # Errors
///
/// [`Errno::FAULT`] from a correct kernel.
pub fn clock_gettime_into(clock: ClockId, pointer: BadPointer) -> Result<usize, Errno> {
    let arguments = [clock.0 as usize, pointer.address(), 0, 0, 0, 0];
    // SAFETY: the address is no memory of this program (see `BadPointer`).
    unsafe { call(number::CLOCK_GETTIME, arguments) }
}

/// `clock_getres` with a bad result pointer.
///
/// # Errors
///
/// [`Errno::FAULT`] from a correct kernel.
pub fn clock_getres_into(clock: ClockId, pointer: BadPointer) -> Result<usize, Errno> {
    let arguments = [clock.0 as usize, pointer.address(), 0, 0, 0, 0];
    // SAFETY: the address is no memory of this program (see `BadPointer`).
    unsafe { call(number::CLOCK_GETRES, arguments) }
}

/// `gettimeofday` with a bad result pointer.
///
/// # Errors
///
/// [`Errno::FAULT`] from a correct kernel.
pub fn gettimeofday_into(pointer: BadPointer) -> Result<usize, Errno> {
    // SAFETY: the address is no memory of this program (see `BadPointer`).
    unsafe { call(number::GETTIMEOFDAY, [pointer.address(), 0, 0, 0, 0, 0]) }
}

/// `write` of 16 bytes from a bad pointer. [`BadPointer::Text`] is a good one
/// to read from.
///
/// # Errors
///
/// [`Errno::FAULT`] from a correct kernel.
pub fn write_from(descriptor: i32, pointer: BadPointer) -> Result<usize, Errno> {
    let arguments = [descriptor as usize, pointer.address(), 16, 0, 0, 0];
    // SAFETY: write only reads, and does not hand anything back.
    unsafe { call(number::WRITE, arguments) }
}
