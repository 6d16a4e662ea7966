//! Memory: frames, page tables, the heap, user memory, device registers.
//!
//! **Layout.** The lower half belongs to programs. The upper half is the same
//! in every address space:
//!
//! | from | what |
//! |---|---|
//! | `0xffff_8000_0000_0000` | all physical memory, read-write, never executable |
//! | `0xffff_a000_0000_0000` | what the loader places: boot information, RAM disk, first stack |
//! | `0xffff_c000_0000_0000` | device registers ([`mmio`]) |
//! | `0xffff_c080_0000_0000` | kernel stacks, each below a guard page ([`stack`]) |
//! | `0xffff_ffff_8020_0000` | the kernel image |
//!
//! Sharing works by copying the upper 256 entries of the top-level table into
//! each new one, so no entry may appear there later: [`init`] makes the tables
//! below the two regions that grow before the first address space exists.
//!
//! **W^X.** No page is writable and executable at once: for programs the type
//! [`paging::Protection`] has no such value; the kernel's own pages come from
//! the loader, and [`init`] takes execution from any that are writable.

pub mod frames;
pub mod heap;
pub mod kernel;
pub mod low;
mod mapping;
pub mod mmio;
pub mod paging;
pub mod phys;
pub mod stack;
pub mod user;

use core::fmt;

use bootloader_api::BootInfo;
use bootloader_api::config::{Mapping, Mappings};

/// Bytes of a page and of a frame.
pub const PAGE_SIZE: u64 = 4096;

/// Where the loader maps physical memory.
const PHYSICAL_MEMORY: u64 = 0xffff_8000_0000_0000;
/// What the loader may use for everything else it maps.
const LOADER_RANGE: core::ops::Range<u64> = 0xffff_a000_0000_0000..0xffff_c000_0000_0000;

/// The memory layout asked of the loader.
pub const MAPPINGS: Mappings = {
    let mut mappings = Mappings::new_default();
    mappings.physical_memory = Some(Mapping::FixedAddress(PHYSICAL_MEMORY));
    mappings.dynamic_range_start = Some(LOADER_RANGE.start);
    mappings.dynamic_range_end = Some(LOADER_RANGE.end);
    mappings
};

/// Why there is no memory management.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitError {
    /// The loader did not map physical memory.
    NoPhysicalMap,
    /// No usable region is large enough for the frame allocator's bitmap.
    NoUsableMemory,
    /// No run of free frames for the heap, or none for the first tables.
    OutOfMemory,
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPhysicalMap => "the loader did not map physical memory",
            Self::NoUsableMemory => "the memory map has no usable region",
            Self::OutOfMemory => "not enough memory for the heap",
        })
    }
}

impl core::error::Error for InitError {}

/// What [`init`] found, for the log.
#[derive(Debug, Clone, Copy)]
pub struct Summary {
    /// Bytes of free memory after the heap.
    pub free: u64,
    /// Kernel mappings that were writable and executable, and no longer are.
    pub writable_executable: usize,
}

/// Starts memory management from what the loader reports.
///
/// # Errors
///
/// [`InitError`]; the kernel cannot go on then.
pub fn init(boot: &'static BootInfo) -> Result<Summary, InitError> {
    let offset = *boot
        .physical_memory_offset
        .as_ref()
        .ok_or(InitError::NoPhysicalMap)?;
    // SAFETY: the loader maps all of physical memory at the offset it reports;
    // that is what `BootInfo` promises for this field.
    unsafe { phys::init(offset) };
    frames::init(&boot.memory_regions)?;
    kernel::init()?;
    let writable_executable = kernel::take_execution_from_writable_pages();
    heap::init()?;
    Ok(Summary {
        free: frames::free_bytes(),
        writable_executable,
    })
}

/// The RAM disk that the loader left in memory, if it left one.
pub fn ramdisk(boot: &'static BootInfo) -> Option<&'static [u8]> {
    let start = *boot.ramdisk_addr.as_ref()?;
    let len = usize::try_from(boot.ramdisk_len)
        .ok()
        .filter(|&len| len > 0)?;
    // SAFETY: the loader reports a mapped range that it keeps out of the
    // usable memory regions, so it stays and nobody writes it.
    Some(unsafe { core::slice::from_raw_parts(start as *const u8, len) })
}

#[cfg(test)]
mod tests;
