//! The kernel's page tables.
//!
//! They are built through the one-to-one mapping and not used before they are
//! whole. Tables above the last level allow everything and the last level
//! decides, as the kernel's own mappings beside these will need.

use core::fmt;

use boot::PAGE;
use x86_64::structures::paging::mapper::MapToError;
use x86_64::structures::paging::{
    Mapper, OffsetPageTable, Page, PageSize, PageTable, PageTableFlags, PhysFrame, Size1GiB,
    Size2MiB, Size4KiB,
};
use x86_64::{PhysAddr, VirtAddr};

use super::frames::{Block, Frames};
use super::{LoaderImage, cpu};

/// Where pages of 1 GiB may begin: below are the first 4 GiB with their mix of
/// memory and devices, which should not share a page, since the MTRRs may give
/// one page one type only (Intel SDM, volume 3, 13.11.9).
const MIXED_END: u64 = 1 << 32;

/// Why a page could not be mapped.
pub(crate) enum Error {
    /// No frame left for a table.
    NotEnoughMemory,
    /// Something is there already.
    Occupied(u64),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEnoughMemory => write!(f, "not enough memory below 4 GiB for page tables"),
            Self::Occupied(at) => write!(f, "the page at {at:#x} is mapped twice"),
        }
    }
}

/// What may be done with a mapping besides reading.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub(crate) writable: bool,
    pub(crate) executable: bool,
}

impl Access {
    pub(crate) const CONSTANT: Self = Self {
        writable: false,
        executable: false,
    };
    pub(crate) const TEXT: Self = Self {
        writable: false,
        executable: true,
    };
    pub(crate) const DATA: Self = Self {
        writable: true,
        executable: false,
    };

    fn flags(self) -> PageTableFlags {
        let mut flags = PageTableFlags::PRESENT;
        flags.set(PageTableFlags::WRITABLE, self.writable);
        flags.set(PageTableFlags::NO_EXECUTE, !self.executable);
        flags
    }
}

/// An address space under construction.
pub(crate) struct AddressSpace<'a> {
    frames: &'a mut Frames,
    top_table: u64,
    table: OffsetPageTable<'static>,
}

impl<'a> AddressSpace<'a> {
    /// An empty one, or `None` without memory for its top table.
    pub(crate) fn new(frames: &'a mut Frames) -> Option<Self> {
        let Block { address, bytes } = frames.take(PAGE)?;
        bytes.fill(0);
        // SAFETY: the block is one page, page-aligned, zeroed (a table with no
        // entries), and given up for this reference; tables below it are
        // reached at their physical addresses, which are mapped one to one.
        let table = unsafe {
            let top = &mut *bytes.as_mut_ptr().cast::<PageTable>();
            OffsetPageTable::new(top, VirtAddr::zero())
        };
        Some(Self {
            frames,
            top_table: address,
            table,
        })
    }

    /// Physical address of the top table, for CR3.
    pub(crate) fn top_table(&self) -> u64 {
        self.top_table
    }

    /// Frames for `length` bytes, for the kernel.
    pub(crate) fn frames(&mut self, length: u64) -> Option<Block> {
        self.frames.take(length)
    }

    /// Maps `length` bytes in pages of 4 KiB.
    pub(crate) fn map(
        &mut self,
        at: u64,
        physical: u64,
        length: u64,
        access: Access,
    ) -> Result<(), Error> {
        self.map_pages::<Size4KiB>(at, physical, length, access)
    }

    /// Keeps the loader where it is, for the jump and its exception handlers.
    pub(crate) fn map_loader(&mut self, image: &LoaderImage) -> Result<(), Error> {
        let parts = [
            (image.constants, Access::CONSTANT),
            (image.text, Access::TEXT),
            (image.data, Access::DATA),
        ];
        parts
            .into_iter()
            .try_for_each(|(span, access)| self.map(span.start, span.start, span.length(), access))
    }

    /// Maps physical memory up to `end` behind `offset`, in the largest pages
    /// that are allowed.
    pub(crate) fn map_physical(&mut self, offset: u64, end: u64) -> Result<(), Error> {
        let giant_end = if cpu::has_1gib_pages() && offset.is_multiple_of(Size1GiB::SIZE) {
            (end & !(Size1GiB::SIZE - 1)).max(MIXED_END)
        } else {
            MIXED_END
        };
        let rest = end.next_multiple_of(Size2MiB::SIZE) - giant_end;
        self.map_pages::<Size2MiB>(offset, 0, MIXED_END, Access::DATA)?;
        let giant = giant_end - MIXED_END;
        self.map_pages::<Size1GiB>(offset + MIXED_END, MIXED_END, giant, Access::DATA)?;
        self.map_pages::<Size2MiB>(offset + giant_end, giant_end, rest, Access::DATA)
    }

    /// Makes an entry of the top table refer to that table.
    pub(crate) fn map_itself(&mut self, index: u16) {
        let frame = PhysFrame::<Size4KiB>::containing_address(PhysAddr::new(self.top_table));
        let entry = &mut self.table.level_4_table_mut()[usize::from(index)];
        entry.set_frame(frame, Access::DATA.flags());
    }

    fn map_pages<S: PageSize + fmt::Debug>(
        &mut self,
        at: u64,
        physical: u64,
        length: u64,
        access: Access,
    ) -> Result<(), Error>
    where
        OffsetPageTable<'static>: Mapper<S>,
    {
        let tables = PageTableFlags::PRESENT | PageTableFlags::WRITABLE;
        for done in (0..length).step_by(S::SIZE as usize) {
            let page = Page::<S>::containing_address(VirtAddr::new(at + done));
            let frame = PhysFrame::containing_address(PhysAddr::new(physical + done));
            // SAFETY: this address space is not in use, so no reference can be
            // invalidated by it; the kernel gets what the plan promises.
            let mapped = unsafe {
                let frames = &mut *self.frames;
                self.table
                    .map_to_with_table_flags(page, frame, access.flags(), tables, frames)
            };
            match mapped {
                Ok(flush) => flush.ignore(),
                Err(MapToError::FrameAllocationFailed) => return Err(Error::NotEnoughMemory),
                Err(_) => return Err(Error::Occupied(at + done)),
            }
        }
        Ok(())
    }
}
