//! Memory below 1 MiB, where a CPU that starts in real mode finds its first
//! instructions.
//!
//! The frame allocator leaves that memory alone. Here two of its pages are taken
//! for ever: one for the code, one for the top-level page table that the code
//! switches to, whose address has to fit 32 bits. That table maps the code's
//! page at its own address, executable and not writable, beside the kernel's
//! half. Both stay, for a CPU that starts when nobody waits for it any more.

use core::fmt;

use x86_64::structures::paging::{
    Mapper, OffsetPageTable, Page, PageTableFlags, PhysFrame, Size4KiB,
};
use x86_64::{PhysAddr, VirtAddr};

use super::kernel::{self, TableFrames, table_at};
use super::{PAGE_SIZE, frames, phys};

/// There is no such memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoLowMemory;

impl fmt::Display for NoLowMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory below 1 MiB")
    }
}

impl core::error::Error for NoLowMemory {}

/// Takes the two pages and fills the code's with the bytes that `code` makes
/// from the addresses of both, the code's first. Gives the code's address, a
/// multiple of 4096. To be called once.
///
/// # Errors
///
/// [`NoLowMemory`], also when there is no memory for page tables, or when the
/// code is longer than a page.
pub fn place(code: impl FnOnce(u32, u32) -> alloc::vec::Vec<u8>) -> Result<u32, NoLowMemory> {
    let [code_page, root] = frames::low_pages().ok_or(NoLowMemory)?;
    let narrow = |page: PhysAddr| u32::try_from(page.as_u64()).map_err(|_| NoLowMemory);
    let bytes = code(narrow(code_page)?, narrow(root)?);
    if bytes.len() as u64 > PAGE_SIZE {
        return Err(NoLowMemory);
    }
    // SAFETY: both pages are memory that is used by nobody: the memory map says
    // so, and the frame allocator gives none below 1 MiB out.
    unsafe {
        phys::zero_frame(code_page);
        phys::zero_frame(root);
        phys::copy_to(code_page, &bytes);
    }
    let kernel_root = kernel::root().ok_or(NoLowMemory)?;
    // SAFETY: as above; all zeros are an empty table.
    let table = unsafe { table_at(root) };
    kernel::copy_upper_half(kernel_root, table);
    // SAFETY: the root holds a table, which `table` is the only reference to,
    // and physical memory is mapped at the offset.
    let mut mapper = unsafe { OffsetPageTable::new(table, phys::offset()) };
    let page = Page::<Size4KiB>::containing_address(VirtAddr::new(code_page.as_u64()));
    let frame = PhysFrame::containing_address(code_page);
    // SAFETY: the tables are not current anywhere, and the page is not writable
    // through them.
    unsafe { mapper.map_to(page, frame, PageTableFlags::PRESENT, &mut TableFrames) }
        .map_err(|_| NoLowMemory)?
        .ignore();
    narrow(code_page)
}
