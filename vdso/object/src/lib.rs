//! `linux-vdso.so.1`: the shared object that every program has mapped.
//!
//! A libc finds it through the auxiliary vector (`AT_SYSINFO_EHDR`) and calls
//! its functions in place of system calls. Names, versions, arguments and results
//! are those of the Linux x86-64 vDSO (vdso(7)): a result is 0, or the negated
//! error number that the system call would give. As there, a bad pointer is the
//! program's own fault, and faults; it becomes `EFAULT` only where the system
//! call is made.
//!
//! The object is code alone. The timehands page, the registers of the HPET and
//! the process's line of the jitter guard, the only page it writes, are mapped
//! right below it, see `object.ld`; which instructions read the TSC,
//! the kernel decides before it maps the object, see [`vdso::patch`].
//!
//! # The shape of a read
//!
//! CLOCK_MONOTONIC comes first and straight: the ordinary read is inlined into
//! the exported function, which has no stack frame, and everything else leaves it
//! by a tail call. The other clocks go through one more jump.
//!
//! The CPU number is the limit of a segment that each CPU has for just this, as
//! under Linux: `LSL` needs no feature, where `RDTSCP` and `RDPID` do.

#![no_std]

use core::arch::{asm, global_asm};
use core::ptr::NonNull;

use timecounter::Timespec;
use timecounter::guard::GuardLine;
use timecounter::page::{MonotonicView, RealtimeView, SLOTS, TimehandsPage, Words};
use timecounter::reader::{self, Missed, View};
use vdso::clock::{self, MONOTONIC, REALTIME};
use vdso::counter::{HpetPage, Patched, UserCounters};

/// `struct timespec`, and `struct timeval` with microseconds for nanoseconds.
#[repr(C)]
struct Pair {
    sec: i64,
    fraction: i64,
}

/// `struct timezone`.
#[repr(C)]
struct Timezone {
    minutes_west: i32,
    dst_time: i32,
}

/// Numbers of the system calls (Linux, `arch/x86/entry/syscalls/syscall_64.tbl`).
mod call {
    pub(crate) const GETTIMEOFDAY: usize = 96;
    pub(crate) const TIME: usize = 201;
    pub(crate) const CLOCK_GETTIME: usize = 228;
    pub(crate) const CLOCK_GETRES: usize = 229;
    pub(crate) const GETCPU: usize = 309;
}

// The exported names, strong with the prefix and weak without, as in the Linux
// object. They are given here and not by `no_mangle`, since the compiler would
// export those under a version script of its own, without a version.
global_asm!(
    ".macro export name, function",
    ".globl __vdso_\\name",
    ".type __vdso_\\name, @function",
    ".set __vdso_\\name, \\function",
    ".weak \\name",
    ".type \\name, @function",
    ".set \\name, \\function",
    ".endm",
    "export clock_gettime, {clock_gettime}",
    "export gettimeofday, {gettimeofday}",
    "export clock_getres, {clock_getres}",
    "export time, {time}",
    "export getcpu, {getcpu}",
    clock_gettime = sym clock_gettime,
    gettimeofday = sym gettimeofday,
    clock_getres = sym clock_getres,
    time = sym time,
    getcpu = sym getcpu,
);

/// `int __vdso_clock_gettime(clockid_t, struct timespec *)`.
///
/// # Safety
///
/// `out` is valid for writing a `struct timespec`.
unsafe extern "C" fn clock_gettime(id: i32, out: *mut Pair) -> isize {
    if id == MONOTONIC {
        // SAFETY: the caller's condition.
        unsafe { ordinary::<MonotonicView>(id, out) }
    } else {
        // SAFETY: the caller's condition.
        unsafe { another_clock(id, out) }
    }
}

#[inline(never)]
unsafe fn another_clock(id: i32, out: *mut Pair) -> isize {
    if id == REALTIME {
        // SAFETY: the caller's condition.
        return unsafe { ordinary::<RealtimeView>(id, out) };
    }
    match clock::read(page(), &counters(), id) {
        // SAFETY: the caller's condition.
        Some(time) => unsafe { store(out, time) },
        None => clock_gettime_call(id, out),
    }
}

#[inline(always)]
unsafe fn ordinary<V: View<Words, Time = Timespec>>(id: i32, out: *mut Pair) -> isize {
    match reader::read_ordinary::<V, Words, _, SLOTS>(page().ring(), &counters()) {
        // SAFETY: the caller's condition.
        Ok(time) => unsafe { store(out, time) },
        // SAFETY: the caller's condition.
        Err(missed) => unsafe { general::<V>(id, out, missed) },
    }
}

#[cold]
#[inline(never)]
unsafe fn general<V: View<Words, Time = Timespec>>(
    id: i32,
    out: *mut Pair,
    missed: Missed,
) -> isize {
    match reader::read_general::<V, Words, _, SLOTS>(page().ring(), &counters(), missed) {
        // SAFETY: the caller's condition.
        Some(time) => unsafe { store(out, time) },
        None => clock_gettime_call(id, out),
    }
}

#[inline(always)]
unsafe fn store(out: *mut Pair, time: Timespec) -> isize {
    // SAFETY: the caller's condition: `out` is valid for writing.
    unsafe {
        out.write(Pair {
            sec: time.sec,
            fraction: i64::from(time.nsec),
        });
    }
    0
}

/// `int __vdso_gettimeofday(struct timeval *, struct timezone *)`; either may be
/// null.
///
/// # Safety
///
/// What is not null is valid for writing the structure it names.
unsafe extern "C" fn gettimeofday(time: *mut Pair, zone: *mut Timezone) -> isize {
    if !time.is_null() {
        let Some(now) = page().realtime(&counters()) else {
            return system_call(call::GETTIMEOFDAY, time as usize, zone as usize, 0);
        };
        // SAFETY: not null, hence the caller's condition.
        unsafe {
            time.write(Pair {
                sec: now.sec,
                fraction: i64::from(now.nsec / 1000),
            });
        }
    }
    if !zone.is_null() {
        // The kernel keeps no time zone.
        // SAFETY: not null, hence the caller's condition.
        unsafe {
            zone.write(Timezone {
                minutes_west: 0,
                dst_time: 0,
            });
        }
    }
    0
}

/// `int __vdso_clock_getres(clockid_t, struct timespec *)`. The resolution is
/// the active counter's; it is not in the page, for programs ask for it once.
extern "C" fn clock_getres(id: i32, out: *mut Pair) -> isize {
    system_call(call::CLOCK_GETRES, id as usize, out as usize, 0)
}

/// `time_t __vdso_time(time_t *)`: the second that CLOCK_REALTIME is in, not the
/// one that the latest windup saw, so that it never lags behind a timespec.
///
/// # Safety
///
/// `out` is null or valid for writing a `time_t`.
unsafe extern "C" fn time(out: *mut i64) -> i64 {
    let Some(now) = page().realtime(&counters()) else {
        return system_call(call::TIME, out as usize, 0, 0) as i64;
    };
    if !out.is_null() {
        // SAFETY: not null, hence the caller's condition.
        unsafe { out.write(now.sec) };
    }
    now.sec
}

/// `int __vdso_getcpu(unsigned *, unsigned *, void *)`; each may be null.
///
/// # Safety
///
/// What is not null of the first two is valid for writing.
unsafe extern "C" fn getcpu(cpu: *mut u32, node: *mut u32, cache: *mut u8) -> isize {
    let Some(limit) = cpu_segment_limit() else {
        return system_call(call::GETCPU, cpu as usize, node as usize, cache as usize);
    };
    // Linux, `arch/x86/include/asm/segment.h`: the number in twelve bits, the node
    // above.
    for (out, value) in [(cpu, limit & 0xfff), (node, limit >> 12)] {
        if !out.is_null() {
            // SAFETY: not null, hence the caller's condition.
            unsafe { out.write(value) };
        }
    }
    0
}

/// The limit of the segment that tells the CPU's number, if there is one.
#[inline(always)]
fn cpu_segment_limit() -> Option<u32> {
    const SELECTOR: u32 = 0x7b;
    let (limit, found): (u32, u8);
    // SAFETY: LSL reads a descriptor that programs may see, or clears ZF.
    unsafe {
        asm!(
            "lsl {limit:e}, {selector:e}",
            "setz {found}",
            selector = in(reg) SELECTOR,
            limit = inout(reg) 0_u32 => limit,
            found = out(reg_byte) found,
            options(nomem, nostack),
        );
    }
    (found != 0).then_some(limit)
}

/// The timehands page, which is mapped below the object.
#[inline(always)]
fn page() -> &'static TimehandsPage {
    // The address of the slots is the one that costs nothing to add to.
    const SLOTS_OFFSET: usize = 0x100;
    let slots: *const u8;
    // SAFETY: an address is computed, and nothing else.
    unsafe {
        asm!(
            ".hidden timehands_page",
            "lea {slots}, [rip + timehands_page + {offset}]",
            slots = out(reg) slots,
            offset = const SLOTS_OFFSET,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    let page = slots.wrapping_sub(SLOTS_OFFSET).cast::<TimehandsPage>();
    // SAFETY: who mapped the object has mapped a timehands page there, readable
    // as long as the object is mapped. All that changes in it is atomic.
    unsafe { &*page }
}

#[inline(always)]
fn counters() -> UserCounters<Patched> {
    let registers: *mut u32;
    // SAFETY: an address is computed, and nothing else.
    unsafe {
        asm!(
            ".hidden hpet_page",
            "lea {registers}, [rip + hpet_page]",
            registers = out(reg) registers,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    let hpet = NonNull::new(registers).map_or(HpetPage::ABSENT, |registers| {
        // SAFETY: who sends programs to the HPET by the kind word has mapped its
        // registers there.
        unsafe { HpetPage::new(registers) }
    });
    UserCounters::new(Patched, hpet).with_guard(guard_line(), page())
}

/// The process's line of the jitter guard.
#[inline(always)]
fn guard_line() -> &'static GuardLine {
    let line: *const GuardLine;
    // SAFETY: an address is computed, and nothing else.
    unsafe {
        asm!(
            ".hidden guard_page",
            "lea {line}, [rip + guard_page]",
            line = out(reg) line,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    // SAFETY: who sends programs to the guard by the kind word has mapped a page
    // for it there, readable and writable; it is touched only then, and atomic.
    unsafe { &*line }
}

#[cold]
fn clock_gettime_call(id: i32, out: *mut Pair) -> isize {
    system_call(call::CLOCK_GETTIME, id as usize, out as usize, 0)
}

#[cold]
fn system_call(number: usize, first: usize, second: usize, third: usize) -> isize {
    let result;
    // SAFETY: the kernel checks the arguments, which are the program's own, and
    // changes RAX, RCX, R11 and what the arguments point to.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result
}

/// Nothing here panics; the language asks for it.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
