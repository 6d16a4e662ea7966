//! Physical memory through the one-to-one mapping of the first 4 GiB.

use core::slice;

use boot::PAGE;
use boot::handover::PhysicalMemory;
use boot::memory::{Arena, REACH};
use boot::span::Span;
use x86_64::PhysAddr;
use x86_64::structures::paging::{FrameAllocator, PhysFrame, Size4KiB};

/// What the boot protocol left in memory, for reading.
#[derive(Clone, Copy)]
pub(crate) struct Identity;

impl PhysicalMemory for Identity {
    fn bytes(&self, span: Span) -> Option<&[u8]> {
        if span.start == 0 || span.start > span.end || span.end > REACH {
            return None;
        }
        let start = span.start as *const u8;
        // SAFETY: everything below REACH is mapped at its own address, and 0,
        // the null pointer, is excluded. Any byte is a valid u8. The loader
        // writes only to its own image and to frames of the arena, which keeps
        // clear of the archive; everything else is copied before the first
        // frame is taken.
        Some(unsafe { slice::from_raw_parts(start, span.length() as usize) })
    }
}

/// Frames that are the caller's alone.
pub(crate) struct Block {
    /// Physical address of the first.
    pub(crate) address: u64,
    /// Their contents.
    pub(crate) bytes: &'static mut [u8],
}

impl Block {
    /// Length in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Gives out frames of one stretch of free memory.
pub(crate) struct Frames {
    arena: Arena,
}

impl Frames {
    pub(crate) fn new(arena: Arena) -> Self {
        Self { arena }
    }

    /// Consecutive frames for `length` bytes, a multiple of the page size.
    pub(crate) fn take(&mut self, length: u64) -> Option<Block> {
        let address = self.arena.take(length / PAGE)?;
        // SAFETY: the arena is free memory between 1 MiB and REACH according to
        // the memory map, mapped at its own address; it gives each frame out
        // once, so nothing else refers to these.
        let bytes = unsafe { slice::from_raw_parts_mut(address as *mut u8, length as usize) };
        Some(Block { address, bytes })
    }

    /// Everything given out so far.
    pub(crate) fn taken(&self) -> Span {
        self.arena.taken()
    }
}

// SAFETY: each frame is free memory and is given out once, see `take`.
unsafe impl FrameAllocator<Size4KiB> for Frames {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        let address = self.arena.take(1)?;
        Some(PhysFrame::containing_address(PhysAddr::new(address)))
    }
}
