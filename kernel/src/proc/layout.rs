//! Where things are in a process.
//!
//! ```text
//! 0x0000_0000_0001_0000  LOWEST      first address a program may use
//!                                    the program's segments, then its break
//! 0x0000_1000_0000_0000  MMAP_BOTTOM
//!                                    anonymous mappings, from the top down
//! 0x0000_7fff_e000_0000  MMAP_TOP
//! 0x0000_7fff_efff_c000              the process's line of the jitter guard
//! 0x0000_7fff_efff_d000              timehands page, read-only
//! 0x0000_7fff_efff_e000              HPET registers, read-only, uncached
//! 0x0000_7fff_efff_f000              kept free for the pvclock page
//! 0x0000_7fff_f000_0000  VDSO        the vDSO object, read and execute
//! 0x0000_7fff_fffb_e000              stack
//! 0x0000_7fff_ffff_e000  STACK_TOP
//! 0x0000_7fff_ffff_f000  LIMIT       end of user space
//! ```
//!
//! The last page below the non-canonical hole belongs to nobody: a `syscall`
//! instruction at its very end would return to a non-canonical address, where
//! `sysret` faults in ring 0 on Intel processors. The lowest 64 KiB stay free
//! so that small offsets from a null pointer fault too.

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// The first address a program may use, as Linux's `mmap_min_addr` has it.
pub const LOWEST: u64 = 0x1_0000;

/// End of user space, exclusive.
pub const LIMIT: u64 = crate::mm::paging::USER_END;

/// Lower end of the anonymous mappings; the break stays below.
pub const MMAP_BOTTOM: u64 = 0x0000_1000_0000_0000;

/// Upper end of the anonymous mappings.
pub const MMAP_TOP: u64 = 0x0000_7fff_e000_0000;

/// Base of the vDSO object.
pub const VDSO: u64 = 0x0000_7fff_f000_0000;

/// The timehands page: the object reads it at this distance below itself.
pub const TIMEHANDS: u64 = VDSO - 3 * PAGE;

/// The page of the process's own line of the jitter guard, which it may write.
pub const GUARD: u64 = VDSO - 4 * PAGE;

/// The HPET's register page.
pub const HPET: u64 = VDSO - 2 * PAGE;

/// Bytes of stack: room for what small static programs do, mapped at once so
/// that no page fault is needed to grow it.
pub const STACK_SIZE: u64 = 64 * PAGE;

/// Upper end of the stack. The page above stays free.
pub const STACK_TOP: u64 = LIMIT - PAGE;

/// Lower end of the stack; nothing is ever mapped between the vDSO and this,
/// so an overflow faults.
pub const STACK_BOTTOM: u64 = STACK_TOP - STACK_SIZE;

/// The start of `address`'s page.
#[must_use]
pub const fn page_start(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// The least multiple of a page not below `address`; `None` beyond 64 bits.
#[must_use]
pub const fn page_end(address: u64) -> Option<u64> {
    match address.checked_add(PAGE - 1) {
        Some(end) => Some(page_start(end)),
        None => None,
    }
}

const _: () = {
    assert!(MMAP_TOP < GUARD, "mappings stay below the vDSO's data");
    assert!(
        VDSO + 16 * PAGE < STACK_BOTTOM,
        "there is room for the object"
    );
};
