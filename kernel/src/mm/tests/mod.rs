//! Memory management in a made-up physical memory: a block of the host's, seen
//! through the same map by offset as the real one, so that the production code
//! runs unchanged.

mod space;
mod user;

use std::alloc::{Layout, alloc_zeroed};
use std::boxed::Box;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{PAGE_SIZE, frames, kernel, phys};
use bootloader_api::info::{MemoryRegion, MemoryRegionKind};

/// Where usable memory starts: the allocator leaves the first MiB alone.
const START: u64 = 1 << 20;
const SIZE: u64 = 8 << 20;

/// Tests count free frames, so one runs at a time.
static ONE_AT_A_TIME: Mutex<bool> = Mutex::new(false);

fn memory() -> MutexGuard<'static, bool> {
    let mut ready = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if !*ready {
        let layout = Layout::from_size_align(SIZE as usize, PAGE_SIZE as usize).expect("sizes");
        // SAFETY: the layout is not empty.
        let block = unsafe { alloc_zeroed(layout) };
        assert!(!block.is_null(), "8 MiB of host memory");
        // SAFETY: physical addresses START.. are the block, which is never
        // freed, and the only ones the frame allocator knows.
        unsafe { phys::init((block as u64).wrapping_sub(START)) };
        let usable = MemoryRegion {
            start: START,
            end: START + SIZE,
            kind: MemoryRegionKind::Usable,
        };
        frames::init(Box::leak(Box::new([usable]))).expect("room for the bitmap");
        kernel::init().expect("room for the first tables");
        *ready = true;
    }
    ready
}

/// Two places of a program, far enough apart to need tables of their own.
const CODE: u64 = 0x40_0000;
const DATA: u64 = 0x7f00_0000_1000;
