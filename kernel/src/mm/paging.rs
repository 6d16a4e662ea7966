//! Address spaces of programs.
//!
//! An [`AddressSpace`] owns its tables and the memory mapped in it; dropping
//! it gives both back. The upper half is the kernel's, shared by all
//! ([`super::kernel`]). What a program may do with a page is one of three
//! [`Protection`]s, so a page that is writable and executable cannot be asked
//! for. Memory that belongs to somebody else (the timehands page, device
//! registers) comes in as a [`SharedFrame`], which is never writable.
//!
//! **Several processors.** Changes need `&mut`, so a lock; a switch must not
//! wait for one, so it uses a [`Root`], which never changes. What a page is
//! taken away from may still be in the TLB of a processor that runs another
//! thread of the program: [`AddressSpace::unmap`] flushes this processor's and
//! hands the frame out as [`Unmapped`], to be dropped when the others have
//! flushed theirs.

use alloc::sync::Arc;
use core::ops::Range;

use x86_64::structures::paging::mapper::{MapToError, TranslateResult, UnmapError};
use x86_64::structures::paging::{
    Mapper, OffsetPageTable, Page, PageTableFlags, PhysFrame, Size4KiB, Translate,
};
use x86_64::{PhysAddr, VirtAddr};

use super::kernel::{self, TableFrames, table_at};
use super::mapping::OWNED;
use super::{PAGE_SIZE, frames, phys};

pub use super::mapping::{MapError, Protection, SharedFrame, Translation};

/// First address past what programs may use: the last page below the hole in
/// the address space stays empty, so that no instruction can end at its edge
/// and return to an address that is not canonical.
pub const USER_END: u64 = 0x0000_7fff_ffff_f000;

/// The memory of one program.
#[derive(Debug)]
pub struct AddressSpace {
    tables: Arc<Tables>,
    /// Frames mapped and owned.
    owned: usize,
}

/// The tables below a root, which go when nobody holds them.
#[derive(Debug)]
struct Tables(PhysAddr);

/// An address space, to be made current.
#[cfg(target_os = "none")]
#[derive(Debug, Clone)]
pub struct Root(Arc<Tables>);

#[cfg(target_os = "none")]
impl Root {
    /// Makes this the current address space of this processor.
    pub fn activate(&self) {
        load_root(self.0.0);
    }
}

/// A frame that a program has no more. Dropping it frees it, so that must not
/// be before no processor reaches it by its TLB.
#[derive(Debug)]
#[must_use]
pub struct Unmapped(Option<PhysAddr>);

impl Drop for Unmapped {
    fn drop(&mut self) {
        if let Some(frame) = self.0 {
            // SAFETY: the frame was mapped in one address space alone, which
            // has no mapping of it any more, and this was its only name.
            unsafe { frames::release(frame) };
        }
    }
}

impl AddressSpace {
    /// An address space with nothing but the kernel's half.
    ///
    /// # Errors
    ///
    /// [`MapError::OutOfMemory`].
    pub fn new() -> Result<Self, MapError> {
        let kernel_root = kernel::root().ok_or(MapError::OutOfMemory)?;
        let root = frames::allocate_zeroed().ok_or(MapError::OutOfMemory)?;
        // SAFETY: the new frame is ours alone and all zeros, an empty table.
        let table = unsafe { table_at(root) };
        kernel::copy_upper_half(kernel_root, table);
        Ok(Self {
            tables: Arc::new(Tables(root)),
            owned: 0,
        })
    }

    fn mapper(&mut self) -> OffsetPageTable<'_> {
        // SAFETY: the root holds a table of ours, all of physical memory is
        // mapped at the offset, and the result borrows `self`.
        unsafe { OffsetPageTable::new(table_at(self.tables.0), phys::offset()) }
    }

    /// Maps a new zeroed frame, owned by the address space.
    ///
    /// # Errors
    ///
    /// [`MapError::BadAddress`], [`MapError::InUse`], [`MapError::OutOfMemory`].
    pub fn map(&mut self, page: u64, protection: Protection) -> Result<(), MapError> {
        let page = user_page(page)?;
        let frame = frames::allocate_zeroed().ok_or(MapError::OutOfMemory)?;
        let mapped = self.map_frame(page, frame, protection.flags() | OWNED);
        if mapped.is_ok() {
            self.owned += 1;
        } else {
            // SAFETY: the frame was allocated above and not mapped.
            unsafe { frames::release(frame) };
        }
        mapped
    }

    /// Maps memory that belongs to somebody else.
    ///
    /// # Errors
    ///
    /// As [`map`](Self::map), and [`MapError::SharedWritable`].
    pub fn map_shared(
        &mut self,
        page: u64,
        shared: SharedFrame,
        protection: Protection,
    ) -> Result<(), MapError> {
        if protection == Protection::ReadWrite {
            return Err(MapError::SharedWritable);
        }
        let page = user_page(page)?;
        let mut flags = protection.flags();
        if shared.uncached {
            flags |= PageTableFlags::NO_CACHE | PageTableFlags::WRITE_THROUGH;
        }
        self.map_frame(page, shared.frame, flags)
    }

    fn map_frame(
        &mut self,
        page: Page<Size4KiB>,
        frame: PhysAddr,
        flags: PageTableFlags,
    ) -> Result<(), MapError> {
        let frame = PhysFrame::containing_address(frame);
        let tables =
            PageTableFlags::PRESENT | PageTableFlags::WRITABLE | PageTableFlags::USER_ACCESSIBLE;
        let mut mapper = self.mapper();
        // SAFETY: the page is in the lower half, where only the program
        // reaches it; the frame is new or shared and then not writable, so no
        // memory of the kernel changes under it.
        let mapped =
            unsafe { mapper.map_to_with_table_flags(page, frame, flags, tables, &mut TableFrames) };
        match mapped {
            // A page that was not mapped is in no TLB.
            Ok(flush) => flush.ignore(),
            Err(MapToError::FrameAllocationFailed) => return Err(MapError::OutOfMemory),
            Err(MapToError::ParentEntryHugePage | MapToError::PageAlreadyMapped(_)) => {
                return Err(MapError::InUse);
            }
        }
        Ok(())
    }

    /// Removes a mapping, here and from this processor's TLB. An owned frame
    /// becomes free when the result is dropped.
    ///
    /// # Errors
    ///
    /// [`MapError::BadAddress`], [`MapError::NotMapped`].
    pub fn unmap(&mut self, page: u64) -> Result<Unmapped, MapError> {
        let page = user_page(page)?;
        let owned = self
            .translate(page.start_address().as_u64())
            .is_some_and(|t| t.owned);
        let (frame, flush) = self.mapper().unmap(page).map_err(|error| match error {
            UnmapError::PageNotMapped => MapError::NotMapped,
            UnmapError::ParentEntryHugePage | UnmapError::InvalidFrameAddress(_) => {
                MapError::BadAddress
            }
        })?;
        kernel::flush_page(page.start_address());
        flush.ignore();
        if owned {
            self.owned -= 1;
        }
        Ok(Unmapped(owned.then_some(frame.start_address())))
    }

    /// Changes what the program may do with a page.
    ///
    /// # Errors
    ///
    /// [`MapError::BadAddress`], [`MapError::NotMapped`],
    /// [`MapError::SharedWritable`].
    pub fn protect(&mut self, page: u64, protection: Protection) -> Result<(), MapError> {
        let page = user_page(page)?;
        let start = page.start_address();
        let now = self.flags(start).ok_or(MapError::NotMapped)?;
        if protection == Protection::ReadWrite && !now.contains(OWNED) {
            return Err(MapError::SharedWritable);
        }
        let keep = OWNED | PageTableFlags::NO_CACHE | PageTableFlags::WRITE_THROUGH;
        // SAFETY: only the program reaches the page, and a shared one does not
        // become writable.
        let changed = unsafe {
            self.mapper()
                .update_flags(page, protection.flags() | (now & keep))
        };
        changed.map_err(|_| MapError::NotMapped)?.ignore();
        kernel::flush_page(start);
        Ok(())
    }

    fn flags(&self, address: VirtAddr) -> Option<PageTableFlags> {
        self.lookup(address).map(|(_, flags)| flags)
    }

    fn lookup(&self, address: VirtAddr) -> Option<(PhysAddr, PageTableFlags)> {
        // SAFETY: the root holds a table of ours. The reference is only read
        // through, and `&self` keeps `mapper` from being called meanwhile.
        let mapper = unsafe { OffsetPageTable::new(table_at(self.tables.0), phys::offset()) };
        match mapper.translate(address) {
            TranslateResult::Mapped {
                frame,
                offset,
                flags,
            } => Some((frame.start_address() + offset, flags)),
            _ => None,
        }
    }

    /// What the program has at `address`; `None` where it has nothing, the
    /// kernel's half included.
    pub fn translate(&self, address: u64) -> Option<Translation> {
        if address >= USER_END {
            return None;
        }
        let (phys, flags) = self.lookup(VirtAddr::new_truncate(address))?;
        flags
            .contains(PageTableFlags::USER_ACCESSIBLE)
            .then_some(Translation {
                phys,
                protection: Protection::of(flags),
                owned: flags.contains(OWNED),
            })
    }

    /// The first page of `range` that is mapped.
    ///
    /// What a missing table would cover is one step, so a range may be all of
    /// user space.
    pub fn next_mapped(&self, range: &Range<u64>) -> Option<u64> {
        let mut page = range.start;
        while page < range.end.min(USER_END) {
            let Some(hole) = self.hole(page) else {
                return Some(page);
            };
            page = page - page % hole + hole;
        }
        None
    }

    /// Bytes around `address` that the uppermost missing entry on the way to
    /// its page leaves unmapped; `None` if the page is mapped.
    fn hole(&self, address: u64) -> Option<u64> {
        let mut table = self.tables.0;
        for level in (0..4).rev() {
            let covered = PAGE_SIZE << (9 * level);
            // SAFETY: the root holds a table of ours, and a present entry above
            // the lowest level leads to one; each is referred to once, only
            // read through, and `&self` keeps `mapper` from being called.
            let entry = unsafe { &table_at(table)[(address / covered % 512) as usize] };
            if entry.is_unused() {
                return Some(covered);
            }
            table = entry.addr();
        }
        None
    }

    /// Number of frames the program owns, without its page tables.
    pub fn owned_pages(&self) -> usize {
        self.owned
    }

    /// What a switch to it needs.
    #[cfg(target_os = "none")]
    pub fn root(&self) -> Root {
        Root(Arc::clone(&self.tables))
    }
}

/// Makes the address space without a program current.
#[cfg(target_os = "none")]
pub fn activate_kernel() {
    if let Some(root) = kernel::root() {
        load_root(root);
    }
}

#[cfg(target_os = "none")]
fn load_root(root: PhysAddr) {
    use x86_64::registers::control::{Cr3, Cr3Flags};
    if Cr3::read().0.start_address() != root {
        // SAFETY: every root has the kernel's half, so code, stack and data in
        // use stay where they are.
        unsafe { Cr3::write(PhysFrame::containing_address(root), Cr3Flags::empty()) };
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        #[cfg(target_os = "none")]
        if x86_64::registers::control::Cr3::read().0.start_address() == self.0 {
            activate_kernel();
        }
        // SAFETY: this processor does not use the tables any more. No other
        // does: the scheduler lets go of a program when all of its threads are
        // suspended, and a processor that suspends one has left its address
        // space before. `self` is going, so nobody else refers to them.
        unsafe { release_below(self.0, 4) };
    }
}

/// Gives back a table of `level` (4 is the top), the tables below it and the
/// frames owned through them; of the top table only the program's half.
///
/// # Safety
///
/// The tables must not be in use.
unsafe fn release_below(table: PhysAddr, level: u8) {
    let entries = if level == 4 { kernel::FIRST_ENTRY } else { 512 };
    // SAFETY: by the caller's promise; each table is referred to once.
    for entry in unsafe { table_at(table) }.iter().take(entries) {
        let flags = entry.flags();
        if !flags.contains(PageTableFlags::PRESENT) {
            continue;
        }
        if level > 1 {
            // SAFETY: the lower half has no large pages, so the entry points
            // to a table, reachable from here alone.
            unsafe { release_below(entry.addr(), level - 1) };
        } else if flags.contains(OWNED) {
            // SAFETY: the mapping goes with its table.
            unsafe { frames::release(entry.addr()) };
        }
    }
    // SAFETY: nothing refers to the table any more.
    unsafe { frames::release(table) };
}

/// The page at `address`, if a program may have it.
fn user_page(address: u64) -> Result<Page<Size4KiB>, MapError> {
    if address >= USER_END || !address.is_multiple_of(PAGE_SIZE) {
        return Err(MapError::BadAddress);
    }
    Ok(Page::containing_address(VirtAddr::new_truncate(address)))
}
