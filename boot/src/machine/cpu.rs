//! Features of the CPU and the ways to leave it.

use core::arch::x86_64::__cpuid;

use x86_64::instructions::hlt;
use x86_64::instructions::port::Port;
use x86_64::registers::model_specific::{Efer, EferFlags};

/// Extended features (AMD64 manual, volume 3, appendix E.4.2). `entry.s` has
/// checked that the leaf exists.
const EXTENDED_FEATURES: u32 = 0x8000_0001;
const EDX_NX: u32 = 1 << 20;
const EDX_PAGE_1GIB: u32 = 1 << 26;

/// QEMU's isa-debug-exit device, and what it is told when the loader gives up.
const EXIT_PORT: u16 = 0xf4;
const EXIT_PANIC: u32 = 0x12;

fn extended_features() -> u32 {
    __cpuid(EXTENDED_FEATURES).edx
}

/// Whether page tables may map 1 GiB at once.
pub(crate) fn has_1gib_pages() -> bool {
    extended_features() & EDX_PAGE_1GIB != 0
}

/// Makes bit 63 of page table entries forbid execution; false if it cannot.
pub(crate) fn enable_execute_disable() -> bool {
    let supported = extended_features() & EDX_NX != 0;
    if supported {
        // SAFETY: the CPU has the bit, and no entry in use has bit 63 set.
        unsafe { Efer::update(|flags| flags.insert(EferFlags::NO_EXECUTE_ENABLE)) };
    }
    supported
}

/// Ends QEMU if it listens, else halts for good.
pub(crate) fn exit() -> ! {
    // SAFETY: nothing but the exit device answers at this port on a PC.
    unsafe { Port::<u32>::new(EXIT_PORT).write(EXIT_PANIC) };
    loop {
        hlt();
    }
}
