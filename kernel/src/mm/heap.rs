//! The kernel's heap: one run of frames under a first-fit allocator.
//!
//! The size is fixed. Programs' memory does not come from here, so the heap
//! holds only what the kernel keeps about them, and a fixed size means that
//! no allocation ever changes page tables.

use core::alloc::{GlobalAlloc, Layout};
use core::fmt;
use core::ptr::NonNull;

use linked_list_allocator::Heap;

use super::{InitError, PAGE_SIZE, frames, phys};
use crate::sync::IrqMutex;

/// Bytes of the heap.
pub const HEAP_SIZE: usize = 8 << 20;

/// The heap behind a lock that interrupt handlers may take too.
pub struct KernelHeap(IrqMutex<Heap>);

impl fmt::Debug for KernelHeap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KernelHeap")
    }
}

#[cfg_attr(target_os = "none", global_allocator)]
static HEAP: KernelHeap = KernelHeap(IrqMutex::new(Heap::empty()));

// SAFETY: memory comes from a heap that owns a range of its own and gives no
// byte out twice; the lock makes each change whole.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.with(|heap| {
            heap.allocate_first_fit(layout)
                .map_or(core::ptr::null_mut(), NonNull::as_ptr)
        })
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        if let Some(start) = NonNull::new(start) {
            // SAFETY: by the caller's promise the block came from `alloc` with
            // this layout.
            self.0
                .with(|heap| unsafe { heap.deallocate(start, layout) });
        }
    }
}

/// Gives the heap its memory.
pub(super) fn init() -> Result<(), InitError> {
    let first =
        frames::allocate_run(HEAP_SIZE / PAGE_SIZE as usize).ok_or(InitError::OutOfMemory)?;
    let start: *mut u8 = phys::virt(first).as_mut_ptr();
    // SAFETY: the frames were just allocated, follow each other, are mapped
    // writable with all of physical memory, and are never released.
    HEAP.0.with(|heap| unsafe { heap.init(start, HEAP_SIZE) });
    Ok(())
}

/// Bytes of the heap in use.
pub fn used_bytes() -> usize {
    HEAP.0.with(|heap| heap.used())
}
