//! The kernel's half of every address space.
//!
//! The loader builds it; two regions grow afterwards, device registers and
//! kernel stacks. Their top-level entries are made at the start, so that they
//! are in every address space made later and a mapping added below them shows
//! up in all. Nothing is ever taken away there, so no CPU's TLB can hold what is
//! no longer true.

use spin::Once;
use x86_64::structures::paging::{
    FrameAllocator, Mapper, OffsetPageTable, Page, PageTable, PageTableFlags, PhysFrame, Size4KiB,
    Translate,
};
use x86_64::{PhysAddr, VirtAddr};

use super::{InitError, frames, phys};
use crate::sync::IrqMutex;

/// Start of the region for device registers.
pub(super) const DEVICES: u64 = 0xffff_c000_0000_0000;
/// Start of the region for kernel stacks.
pub(super) const STACKS: u64 = 0xffff_c080_0000_0000;
/// First entry of the top-level table that belongs to the kernel.
pub(super) const FIRST_ENTRY: usize = 256;

/// The address space that has no program: the loader's.
static ROOT: Once<PhysAddr> = Once::new();
/// Held while kernel tables change.
static CHANGES: IrqMutex<()> = IrqMutex::new(());

/// Frames for page tables.
pub(super) struct TableFrames;

// SAFETY: each frame comes from the allocator, which gives it to nobody else
// before it is released.
unsafe impl FrameAllocator<Size4KiB> for TableFrames {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        frames::allocate_zeroed().map(PhysFrame::containing_address)
    }
}

/// The table at a frame.
///
/// # Safety
///
/// The frame must hold a page table, and no other reference to it may exist
/// while this one does.
pub(super) unsafe fn table_at<'a>(frame: PhysAddr) -> &'a mut PageTable {
    let table: *mut PageTable = phys::virt(frame).as_mut_ptr();
    // SAFETY: the frame is mapped, aligned and, by the caller's promise, holds
    // a table that nobody else refers to.
    unsafe { &mut *table }
}

/// Top-level table of the address space without a program.
pub(super) fn root() -> Option<PhysAddr> {
    ROOT.get().copied()
}

#[cfg(target_os = "none")]
fn find_root() -> Option<PhysAddr> {
    Some(x86_64::registers::control::Cr3::read().0.start_address())
}

/// On the host there is no loader: an empty kernel half serves the tests.
#[cfg(not(target_os = "none"))]
fn find_root() -> Option<PhysAddr> {
    frames::allocate_zeroed()
}

/// Takes over the loader's tables and makes the entries for growing regions.
pub(super) fn init() -> Result<(), InitError> {
    let root = find_root().ok_or(InitError::OutOfMemory)?;
    for region in [DEVICES, STACKS] {
        // SAFETY: the root is a top-level table; nobody else changes it yet.
        let table = unsafe { table_at(root) };
        let entry = &mut table[VirtAddr::new_truncate(region).p4_index()];
        if entry.is_unused() {
            let below = frames::allocate_zeroed().ok_or(InitError::OutOfMemory)?;
            entry.set_addr(below, PageTableFlags::PRESENT | PageTableFlags::WRITABLE);
        }
    }
    ROOT.call_once(|| root);
    Ok(())
}

/// Puts the kernel's half of `root` into another top-level table.
pub(super) fn copy_upper_half(root: PhysAddr, table: &mut PageTable) {
    let from: *const PageTable = phys::virt(root).as_ptr();
    for index in FIRST_ENTRY..512 {
        // SAFETY: the kernel's root holds a table that no reference covers
        // now. Its upper entries no longer change, so the copy is whole.
        let entry = unsafe { &(&*from)[index] };
        table[index].set_addr(entry.addr(), entry.flags());
    }
}

/// Runs `f` on the kernel's tables.
fn with_mapper<R>(f: impl FnOnce(&mut OffsetPageTable<'_>) -> R) -> Option<R> {
    let root = root()?;
    Some(CHANGES.with(|()| {
        // SAFETY: the root holds a table, physical memory is mapped at the
        // offset, and the lock keeps other users of the kernel's half out.
        let mut mapper = unsafe { OffsetPageTable::new(table_at(root), phys::offset()) };
        f(&mut mapper)
    }))
}

/// Maps one page of the kernel's half, never executable.
///
/// # Safety
///
/// The page must be inside a growing region and belong to the caller; writing
/// the frame through it must not break what others hold about the frame.
pub(super) unsafe fn map(page: VirtAddr, frame: PhysAddr, uncached: bool) -> Option<()> {
    let mut flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE | PageTableFlags::NO_EXECUTE;
    if uncached {
        flags |= PageTableFlags::NO_CACHE | PageTableFlags::WRITE_THROUGH;
    }
    let page = Page::<Size4KiB>::containing_address(page);
    let frame = PhysFrame::containing_address(frame);
    with_mapper(|mapper| {
        // SAFETY: by the caller's promise.
        unsafe { mapper.map_to(page, frame, flags, &mut TableFrames) }
            .ok()
            // A page that was not mapped is in no TLB.
            .map(|flush| flush.ignore())
    })?
}

/// The physical address behind an address of the kernel's half.
pub fn translate(address: VirtAddr) -> Option<PhysAddr> {
    with_mapper(|mapper| mapper.translate_addr(address))?
}

/// Forgets what this CPU's TLB knows of one page.
pub(super) fn flush_page(page: VirtAddr) {
    #[cfg(target_os = "none")]
    x86_64::instructions::tlb::flush(page);
    #[cfg(not(target_os = "none"))]
    let _ = page;
}

/// Makes every page of the kernel's half that is writable not executable, and
/// says how many had been both.
pub(super) fn take_execution_from_writable_pages() -> usize {
    let Some(root) = root() else { return 0 };
    let changed = CHANGES.with(|()| {
        // SAFETY: the lock keeps other users out; tables are referred to one
        // at a time, each below the one before.
        let top = unsafe { table_at(root) };
        top.iter_mut()
            .skip(FIRST_ENTRY)
            .map(|entry| take_execution(entry, 4))
            .sum()
    });
    #[cfg(target_os = "none")]
    x86_64::instructions::tlb::flush_all();
    changed
}

/// [`take_execution_from_writable_pages`] below one entry of a table of
/// `level` (4 is the top).
fn take_execution(
    entry: &mut x86_64::structures::paging::page_table::PageTableEntry,
    level: u8,
) -> usize {
    let flags = entry.flags();
    if !flags.contains(PageTableFlags::PRESENT) {
        return 0;
    }
    if level > 1 && !flags.contains(PageTableFlags::HUGE_PAGE) {
        // SAFETY: a present entry above level 1 that is no large page points
        // to a table, and the walk refers to each table once.
        let below = unsafe { table_at(entry.addr()) };
        return below
            .iter_mut()
            .map(|entry| take_execution(entry, level - 1))
            .sum();
    }
    let both =
        flags.contains(PageTableFlags::WRITABLE) && !flags.contains(PageTableFlags::NO_EXECUTE);
    if both {
        entry.set_flags(flags | PageTableFlags::NO_EXECUTE);
    }
    usize::from(both)
}
