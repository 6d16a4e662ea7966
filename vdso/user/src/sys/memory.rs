//! `memcpy`, `memmove`, `memset`, `memcmp` and `bcmp`, which compiled code
//! calls and a program without a libc must bring.
//!
//! The string instructions keep them short and keep the compiler from turning
//! their own loops into calls to themselves. Test programs move a few bytes at
//! a time, so speed does not matter.

#![allow(
    unsafe_code,
    reason = "the compiler's own memory routines, under their C names"
)]

use core::arch::asm;

/// # Safety
///
/// As C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the caller vouches for both ranges; the ABI has DF clear.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") count => _,
            inout("rdi") to => _,
            inout("rsi") from => _,
            options(nostack, preserves_flags),
        );
    }
    to
}

/// # Safety
///
/// As C's `memmove`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    if to.addr().wrapping_sub(from.addr()) >= count {
        // SAFETY: copying upwards overwrites nothing that is still to be read.
        return unsafe { memcpy(to, from, count) };
    }
    // SAFETY: the caller vouches for both ranges, count is above 0 here, and
    // copying downwards overwrites nothing that is still to be read. DF is
    // clear again afterwards.
    unsafe {
        asm!(
            "std",
            "rep movsb",
            "cld",
            inout("rcx") count => _,
            inout("rdi") to.wrapping_add(count - 1) => _,
            inout("rsi") from.wrapping_add(count - 1) => _,
            options(nostack),
        );
    }
    to
}

/// # Safety
///
/// As C's `memset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, count: usize) -> *mut u8 {
    // SAFETY: the caller vouches for the range; the ABI has DF clear.
    unsafe {
        asm!(
            "rep stosb",
            inout("rcx") count => _,
            inout("rdi") to => _,
            in("al") value.to_le_bytes()[0],
            options(nostack, preserves_flags),
        );
    }
    to
}

/// # Safety
///
/// As C's `memcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, count: usize) -> i32 {
    for index in 0..count {
        // SAFETY: `index` is within both ranges, for which the caller vouches.
        let (a, b) = unsafe {
            (
                left.add(index).read_volatile(),
                right.add(index).read_volatile(),
            )
        };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
    }
    0
}

/// # Safety
///
/// As BSD's `bcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, count: usize) -> i32 {
    // SAFETY: the caller vouches for both ranges.
    unsafe { memcmp(left, right, count) }
}

/// # Safety
///
/// As C's `strlen`.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: the caller vouches for everything up to the NUL.
    while unsafe { text.add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}
