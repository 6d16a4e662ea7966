//! The last steps: the kernel's page tables, its boot information, the jump.

use core::arch::asm;
use core::convert::Infallible;
use core::{ptr, slice};

use bootloader_api::BootInfo;
use bootloader_api::info::MemoryRegion;
use x86_64::PhysAddr;
use x86_64::registers::control::{Cr3, Cr3Flags};
use x86_64::structures::paging::PhysFrame;

/// How the kernel starts. All but the table are its virtual addresses.
pub(crate) struct Start {
    /// Physical address of its top page table.
    pub(crate) top_table: u64,
    /// End of its stack, 16-byte aligned.
    pub(crate) stack_top: u64,
    /// Its entry point.
    pub(crate) entry: u64,
    /// Where the boot information goes; the regions follow it.
    pub(crate) boot_info: u64,
}

/// Switches to the kernel's address space, writes the boot information there
/// (`fill` completes it) and calls the entry point.
///
/// # Safety
///
/// The tables at `start.top_table` map the loader at its own addresses, and at
/// `start.boot_info` writable pages, not otherwise in use, with room for a
/// [`BootInfo`] and `regions`; entry point and stack are as the kernel expects.
pub(crate) unsafe fn start(
    start: &Start,
    regions: &[MemoryRegion],
    fill: impl FnOnce(&mut BootInfo),
) -> Result<Infallible, crate::loader::Error> {
    let table = PhysFrame::containing_address(PhysAddr::new(start.top_table));
    // SAFETY: the caller's tables map the loader, this code and its stack
    // included, where they are.
    unsafe { Cr3::write(table, Cr3Flags::empty()) };

    let info = start.boot_info as *mut BootInfo;
    // A BootInfo is a multiple of its own alignment, which is a region's too.
    let first = info.wrapping_add(1).cast::<MemoryRegion>();
    // SAFETY: the caller's pages have room for both, in this order; they are
    // mapped writable and belong to the kernel, that is, to this reference.
    let info = unsafe {
        ptr::copy_nonoverlapping(regions.as_ptr(), first, regions.len());
        let regions: &'static mut [MemoryRegion] = slice::from_raw_parts_mut(first, regions.len());
        info.write(BootInfo::new(regions.into()));
        &mut *info
    };
    fill(info);

    // SAFETY: the entry point is an `extern "C" fn(&'static mut BootInfo) -> !`
    // by the contract of `bootloader_api::entry_point`. It finds its argument in
    // RDI and, as after a call, a (null) return address at 8 mod 16; nothing of
    // the loader's is used after the jump but its exception handlers.
    unsafe {
        asm!(
            "mov rsp, {stack}",
            "xor ebp, ebp",
            "push 0",
            "jmp {entry}",
            stack = in(reg) start.stack_top,
            entry = in(reg) start.entry,
            in("rdi") ptr::from_mut(info),
            options(noreturn),
        )
    }
}
