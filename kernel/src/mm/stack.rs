//! Kernel stacks, each above a page that is not mapped: an overflow is a page
//! fault with a message, not somebody else's data.
//!
//! A stack that is given back stays mapped and is handed out again. To take it
//! apart every CPU would have to flush its TLB, for memory that the next program
//! needs anyhow.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use alloc::vec::Vec;
use x86_64::VirtAddr;

use super::{PAGE_SIZE, frames, kernel};
use crate::sync::IrqMutex;

/// Pages of a stack: a system call or a fault of a program with a tick on top.
/// The kernel's own thread keeps the loader's stack, which is larger.
const PAGES: u64 = 8;
/// Addresses a stack takes, guard page included, rounded to a power of two.
const SLOT: u64 = 16 * PAGE_SIZE;
/// Addresses for stacks: one entry of the top-level table, 512 GiB.
const SLOTS: u64 = (1 << 39) / SLOT;

/// Stacks given back: the slot, and how many of its pages are mapped, which are
/// fewer than all where memory was short.
static FREE: IrqMutex<Vec<(u64, u64)>> = IrqMutex::new(Vec::new());
/// The first slot never used.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// No memory for a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfStacks;

impl fmt::Display for OutOfStacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no memory for a kernel stack")
    }
}

impl core::error::Error for OutOfStacks {}

/// A stack of 32 KiB for one thread of the kernel; dropping it gives it back.
#[derive(Debug)]
pub struct KernelStack {
    slot: u64,
    mapped: u64,
}

impl KernelStack {
    /// A stack that was given back, or a newly mapped one. What is in it is not
    /// for reading.
    ///
    /// # Errors
    ///
    /// [`OutOfStacks`] when memory is short.
    pub fn new() -> Result<Self, OutOfStacks> {
        let (slot, mapped) = match FREE.with(Vec::pop) {
            Some(free) => free,
            None => {
                let fresh = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                    (next < SLOTS).then_some(next + 1)
                });
                (fresh.map_err(|_| OutOfStacks)?, 0)
            }
        };
        let mut stack = Self { slot, mapped };
        while stack.mapped < PAGES {
            let frame = frames::allocate_zeroed().ok_or(OutOfStacks)?;
            let page = stack.page(stack.mapped);
            // SAFETY: the slot is this stack's alone and inside the region of
            // stacks; the frame is new.
            let mapped = unsafe { kernel::map(page, frame, false) };
            if mapped.is_none() {
                // SAFETY: the frame was allocated above and not mapped.
                unsafe { frames::release(frame) };
                return Err(OutOfStacks);
            }
            stack.mapped += 1;
        }
        Ok(stack)
    }

    /// The `index`th page from the top; the guard page follows the last.
    fn page(&self, index: u64) -> VirtAddr {
        VirtAddr::new_truncate(self.top().as_u64() - (index + 1) * PAGE_SIZE)
    }

    /// The address just past the stack, 16-byte aligned: a first stack pointer.
    pub fn top(&self) -> VirtAddr {
        VirtAddr::new_truncate(kernel::STACKS + (self.slot + 1) * SLOT)
    }
}

impl Drop for KernelStack {
    fn drop(&mut self) {
        FREE.with(|free| free.push((self.slot, self.mapped)));
    }
}
