//! Device registers, mapped uncached into the kernel and handed to the drivers
//! as windows of volatile words.
//!
//! A range that is memory is refused, so a firmware table with a wrong address
//! cannot make the kernel write over itself.

use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use drivers::native::RegisterWindow;
use x86_64::{PhysAddr, VirtAddr};

use super::paging::SharedFrame;
use super::{PAGE_SIZE, frames, kernel};

/// Addresses for devices: one entry of the top-level table, 512 GiB.
const REGION: u64 = 1 << 39;
/// Physical addresses have at most 52 bits.
const PHYSICAL_END: u64 = 1 << 52;

/// Bytes of [`REGION`] used so far. Mappings stay for ever.
static USED: AtomicU64 = AtomicU64::new(0);

/// Why registers could not be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MmioError {
    /// The length is 0 or the range leaves the physical address space.
    BadRange,
    /// The range is memory.
    Memory,
    /// No frame for a page table, or no addresses left.
    OutOfMemory,
}

impl fmt::Display for MmioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadRange => "registers outside the physical address space",
            Self::Memory => "registers where there is memory",
            Self::OutOfMemory => "no memory to map registers",
        })
    }
}

impl core::error::Error for MmioError {}

/// A mapped range of device registers.
#[derive(Debug, Clone, Copy)]
pub struct Registers {
    phys: u64,
    virt: VirtAddr,
    len: u64,
}

/// Maps the `len` bytes of registers at physical address `start`.
///
/// # Errors
///
/// [`MmioError`].
pub fn map(start: u64, len: u64) -> Result<Registers, MmioError> {
    let end = start
        .checked_add(len)
        .filter(|&end| end <= PHYSICAL_END && len > 0);
    let end = end.ok_or(MmioError::BadRange)?;
    let first = start & !(PAGE_SIZE - 1);
    let bytes = end.next_multiple_of(PAGE_SIZE) - first;
    if frames::overlaps_usable(first, first + bytes) {
        return Err(MmioError::Memory);
    }
    let offset = USED
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|&used| used <= REGION)
        })
        .map_err(|_| MmioError::OutOfMemory)?;
    let base = kernel::DEVICES + offset;
    for page in (0..bytes).step_by(PAGE_SIZE as usize) {
        let virt = VirtAddr::new_truncate(base + page);
        // SAFETY: the addresses were just taken for this mapping alone, and
        // the frame is not memory, so nobody holds anything about it.
        unsafe { kernel::map(virt, PhysAddr::new_truncate(first + page), true) }
            .ok_or(MmioError::OutOfMemory)?;
    }
    let virt = VirtAddr::new_truncate(base + (start - first));
    Ok(Registers {
        phys: start,
        virt,
        len,
    })
}

impl Registers {
    /// The first KiB of the registers, which is what the HPET's and the local
    /// APIC's drivers take. `None` when fewer are mapped, or not at a multiple
    /// of 4.
    pub fn window(&self) -> Option<RegisterWindow> {
        let large_enough = self.len >= size_of::<[u32; 256]>() as u64;
        if !large_enough || !self.virt.is_aligned(align_of::<u32>() as u64) {
            return None;
        }
        let base = NonNull::new(self.virt.as_mut_ptr::<[u32; 256]>())?;
        // SAFETY: the KiB is inside a mapping that is uncached, writable and
        // stays for ever; `map` has made sure that it is not memory, so no
        // reference to it exists.
        Some(unsafe { RegisterWindow::new(base) })
    }

    /// The page of the first register, for a program to read.
    pub fn page(&self) -> SharedFrame {
        SharedFrame::device(PhysAddr::new_truncate(self.phys & !(PAGE_SIZE - 1)))
    }
}
