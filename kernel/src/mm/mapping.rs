//! What a mapping of a program can be: its protection, its owner, and why one
//! is refused.

use core::fmt;

use x86_64::structures::paging::PageTableFlags;
use x86_64::{PhysAddr, VirtAddr};

use super::{PAGE_SIZE, kernel};

/// Set in an entry whose frame the address space owns. One of the bits the
/// processor leaves to software.
pub(super) const OWNED: PageTableFlags = PageTableFlags::BIT_9;

/// What a program may do with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Read only.
    Read,
    /// Read and write, not execute.
    ReadWrite,
    /// Read and execute, not write.
    ReadExecute,
}

impl Protection {
    pub(super) fn flags(self) -> PageTableFlags {
        let base = PageTableFlags::PRESENT | PageTableFlags::USER_ACCESSIBLE;
        match self {
            Self::Read => base | PageTableFlags::NO_EXECUTE,
            Self::ReadWrite => base | PageTableFlags::NO_EXECUTE | PageTableFlags::WRITABLE,
            Self::ReadExecute => base,
        }
    }

    pub(super) fn of(flags: PageTableFlags) -> Self {
        if flags.contains(PageTableFlags::WRITABLE) {
            Self::ReadWrite
        } else if flags.contains(PageTableFlags::NO_EXECUTE) {
            Self::Read
        } else {
            Self::ReadExecute
        }
    }
}

/// Why a page could not be mapped or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapError {
    /// Not the start of a page below [`USER_END`](super::paging::USER_END).
    BadAddress,
    /// Something is mapped there already.
    InUse,
    /// Nothing is mapped there.
    NotMapped,
    /// No frame is free.
    OutOfMemory,
    /// Memory that belongs to somebody else cannot be writable.
    SharedWritable,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadAddress => "not a page of user memory",
            Self::InUse => "page already mapped",
            Self::NotMapped => "page not mapped",
            Self::OutOfMemory => "out of memory",
            Self::SharedWritable => "shared page cannot be writable",
        })
    }
}

impl core::error::Error for MapError {}

/// A frame that programs may read but that is not theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedFrame {
    pub(super) frame: PhysAddr,
    pub(super) uncached: bool,
}

impl SharedFrame {
    /// The frame of a kernel object that fills exactly one page and stays for
    /// ever. `None` when `T` is not page sized and page aligned.
    pub fn of<T>(object: &'static T) -> Option<Self> {
        let page_sized = size_of::<T>() as u64 == PAGE_SIZE;
        let address = VirtAddr::from_ptr(object);
        if !page_sized || !address.is_aligned(PAGE_SIZE) {
            return None;
        }
        Some(Self {
            frame: kernel::translate(address)?,
            uncached: false,
        })
    }

    /// A page of device registers. The caller ([`super::mmio`]) has made sure
    /// that it is not memory.
    pub(super) fn device(frame: PhysAddr) -> Self {
        Self {
            frame,
            uncached: true,
        }
    }
}

/// What is behind an address of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translation {
    /// Physical address.
    pub phys: PhysAddr,
    /// What the program may do there.
    pub protection: Protection,
    /// Whether the frame belongs to the address space.
    pub owned: bool,
}
