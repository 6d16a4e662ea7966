//! Physical memory through the loader's map of all of it.
//!
//! The map is at one offset: physical address `p` is read and written at
//! `offset + p`. Everything in [`super`] that follows a physical address goes
//! through here.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use timecounter::guard::GuardLine;
use x86_64::{PhysAddr, VirtAddr};

use super::PAGE_SIZE;

/// Virtual address of physical address 0; 0 until [`init`].
static OFFSET: AtomicU64 = AtomicU64::new(0);

/// Records where physical memory is mapped.
///
/// # Safety
///
/// All of physical memory must be mapped writable from `offset` on, for ever.
pub unsafe fn init(offset: u64) {
    OFFSET.store(offset, Ordering::Relaxed);
}

/// Virtual address of physical address 0.
pub(super) fn offset() -> VirtAddr {
    VirtAddr::new_truncate(OFFSET.load(Ordering::Relaxed))
}

/// Where `address` is mapped.
pub(super) fn virt(address: PhysAddr) -> VirtAddr {
    VirtAddr::new_truncate(offset().as_u64().wrapping_add(address.as_u64()))
}

/// Fills the frame at `frame` with zeros.
///
/// # Safety
///
/// The frame must be memory that nobody else uses.
pub(super) unsafe fn zero_frame(frame: PhysAddr) {
    let start: *mut u8 = virt(frame).as_mut_ptr();
    // SAFETY: the whole frame is in the map of physical memory, and by the
    // caller's promise nobody else uses it.
    unsafe { start.write_bytes(0, PAGE_SIZE as usize) };
}

/// Copies out of physical memory, within one frame.
///
/// # Safety
///
/// `from` and the bytes after it must be memory (not device registers) inside
/// one frame. A program may be writing them, and then any mix of old and new
/// bytes is read; the kernel must hold no reference to them.
pub(super) unsafe fn copy_from(from: PhysAddr, to: &mut [u8]) {
    let from: *const u8 = virt(from).as_ptr();
    // SAFETY: by the caller's promise the source is mapped memory that no
    // reference covers, so it cannot overlap `to`.
    unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
}

/// Reads a 32-bit word of physical memory in one access.
///
/// # Safety
///
/// As [`copy_from`]; `from` must be a multiple of 4.
pub(super) unsafe fn load_word(from: PhysAddr) -> u32 {
    // SAFETY: by the caller's promise this is mapped, aligned memory; whoever
    // else may be at it is a program.
    unsafe { AtomicU32::from_ptr(virt(from).as_mut_ptr()) }.load(Ordering::Acquire)
}

/// The guard line at `at`, for as long as the caller sees to.
///
/// # Safety
///
/// `at` must be memory, a multiple of 64, that is not freed while the result is in
/// use, and that nobody touches meanwhile but by atomic accesses or as a program.
pub(super) unsafe fn guard_line<'a>(at: PhysAddr) -> &'a GuardLine {
    // SAFETY: by the caller's promise this is mapped, aligned memory, and any
    // value of it is a line.
    unsafe { &*virt(at).as_ptr() }
}

/// Copies into physical memory, within one frame.
///
/// # Safety
///
/// As [`copy_from`], for the destination.
pub(super) unsafe fn copy_to(to: PhysAddr, from: &[u8]) {
    let to: *mut u8 = virt(to).as_mut_ptr();
    // SAFETY: by the caller's promise the destination is mapped memory that no
    // reference covers, so it cannot overlap `from`.
    unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
}

/// The bytes at a physical address that firmware reported, such as a table's.
///
/// `None` when the range is not in the map of physical memory.
#[cfg(target_os = "none")]
pub fn firmware_bytes(address: u64, len: usize) -> Option<&'static [u8]> {
    let end = address.checked_add(u64::try_from(len).ok()?)?;
    if len == 0 || end > 1 << 46 {
        return None;
    }
    let mut page = address & !(PAGE_SIZE - 1);
    while page < end {
        let mapped = super::kernel::translate(virt(PhysAddr::new(page)))?;
        if mapped.as_u64() != page {
            return None;
        }
        page += PAGE_SIZE;
    }
    // A firmware table may lie in a frame the allocator gives out only if the
    // firmware's memory map lies; such a range is refused too.
    if super::frames::overlaps_usable(address, end) {
        return None;
    }
    let start: *const u8 = virt(PhysAddr::new(address)).as_ptr();
    // SAFETY: each page of the range is mapped, which was just looked up, and
    // none is given out as memory, so the bytes stay and nobody writes them.
    Some(unsafe { core::slice::from_raw_parts(start, len) })
}
