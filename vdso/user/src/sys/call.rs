//! System calls, by the `syscall` instruction.

#![allow(
    unsafe_code,
    reason = "the syscall instruction, and the memory that mmap hands over"
)]

use core::arch::asm;

use crate::abi::{ClockId, Errno, Timespec, Timeval};

/// Call numbers of x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`).
pub(super) mod number {
    pub(in crate::sys) const WRITE: usize = 1;
    pub(in crate::sys) const MMAP: usize = 9;
    pub(in crate::sys) const MUNMAP: usize = 11;
    pub(in crate::sys) const SCHED_YIELD: usize = 24;
    pub(in crate::sys) const GETPID: usize = 39;
    pub(in crate::sys) const GETTIMEOFDAY: usize = 96;
    pub(in crate::sys) const GETUID: usize = 102;
    pub(in crate::sys) const GETTID: usize = 186;
    pub(in crate::sys) const TIME: usize = 201;
    pub(in crate::sys) const SET_TID_ADDRESS: usize = 218;
    pub(in crate::sys) const CLOCK_GETTIME: usize = 228;
    pub(in crate::sys) const CLOCK_GETRES: usize = 229;
    pub(in crate::sys) const EXIT_GROUP: usize = 231;
}

/// Makes a system call; a result from -4095 to -1 is an error.
///
/// # Safety
///
/// The call must be one that touches no memory that Rust code relies on, other
/// than through pointers passed here that are good for what it does with them.
pub(super) unsafe fn call(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the caller answers for the call's effect on memory; the
    // instruction itself overwrites RAX, RCX and R11, all declared here, and
    // leaves the stack alone.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    match i32::try_from(result) {
        Ok(value @ -4095..=-1) => Err(Errno(-value)),
        _ => Ok(result.cast_unsigned()),
    }
}

/// A call without pointers in its arguments that affects no memory.
fn plain(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: private to this file, and used for calls without pointers only.
    unsafe { call(number, arguments) }
}

/// Ends the process with `status`, of which the low eight bits count.
pub fn exit(status: i32) -> ! {
    loop {
        // The call does not return; if a kernel lets it, ask again.
        let _: Result<usize, Errno> = plain(number::EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]);
    }
}

/// Writes bytes to a descriptor; returns how many it took.
///
/// # Errors
///
/// [`Errno::BADF`] for a descriptor that is not open.
pub fn write(descriptor: i32, bytes: &[u8]) -> Result<usize, Errno> {
    let arguments = [
        descriptor as usize,
        bytes.as_ptr().addr(),
        bytes.len(),
        0,
        0,
        0,
    ];
    // SAFETY: write only reads memory, here all of `bytes`, which is borrowed.
    unsafe { call(number::WRITE, arguments) }
}

/// The process's number.
///
/// # Errors
///
/// None that the interface names.
pub fn getpid() -> Result<usize, Errno> {
    plain(number::GETPID, [0; 6])
}

/// The thread's number.
///
/// # Errors
///
/// None that the interface names.
pub fn gettid() -> Result<usize, Errno> {
    plain(number::GETTID, [0; 6])
}

/// The user's number.
///
/// # Errors
///
/// None that the interface names.
#[inline]
pub fn getuid() -> Result<usize, Errno> {
    plain(number::GETUID, [0; 6])
}

/// Names no address to clear at the thread's end; returns the thread's number.
///
/// # Errors
///
/// None that the interface names.
pub fn set_tid_address() -> Result<usize, Errno> {
    plain(number::SET_TID_ADDRESS, [0; 6])
}

/// Gives up the processor for this turn.
///
/// # Errors
///
/// None that the interface names.
pub fn yield_now() -> Result<usize, Errno> {
    plain(number::SCHED_YIELD, [0; 6])
}

/// Makes a call with a number that no system has, which must be refused.
///
/// # Errors
///
/// [`Errno::NOSYS`], always.
pub fn unknown_call() -> Result<usize, Errno> {
    // Linux numbers its calls from 0 and skips nothing near this.
    plain(0x7fff_0000, [0; 6])
}

/// Reads a clock.
///
/// # Errors
///
/// [`Errno::INVAL`] for a clock that does not exist.
#[inline]
pub fn clock_gettime(clock: ClockId) -> Result<Timespec, Errno> {
    let mut time = Timespec::default();
    let address = (&raw mut time).expose_provenance();
    // SAFETY: the call writes one `struct timespec` to `time`, which has its
    // layout and is borrowed by nobody else.
    unsafe {
        call(
            number::CLOCK_GETTIME,
            [clock.0 as usize, address, 0, 0, 0, 0],
        )
    }?;
    Ok(time)
}

/// The step that a clock moves by.
///
/// # Errors
///
/// [`Errno::INVAL`] for a clock that does not exist.
pub fn clock_getres(clock: ClockId) -> Result<Timespec, Errno> {
    let mut step = Timespec::default();
    let address = (&raw mut step).expose_provenance();
    // SAFETY: as in `clock_gettime`.
    unsafe {
        call(
            number::CLOCK_GETRES,
            [clock.0 as usize, address, 0, 0, 0, 0],
        )
    }?;
    Ok(step)
}

/// Time of day in microseconds.
///
/// # Errors
///
/// None that the interface names for a good pointer.
#[inline]
pub fn gettimeofday() -> Result<Timeval, Errno> {
    let mut time = Timeval::default();
    let address = (&raw mut time).expose_provenance();
    // SAFETY: the call writes one `struct timeval` to `time`, which has its
    // layout and is borrowed by nobody else; it writes no time zone to null.
    unsafe { call(number::GETTIMEOFDAY, [address, 0, 0, 0, 0, 0]) }?;
    Ok(time)
}

/// Time of day in whole seconds.
///
/// # Errors
///
/// None that the interface names for a null pointer.
pub fn time() -> Result<usize, Errno> {
    plain(number::TIME, [0; 6])
}

/// Anonymous memory of this process, given back when dropped.
#[derive(Debug)]
pub struct Memory {
    address: usize,
    size: usize,
}

impl Memory {
    /// Asks for `size` bytes of zeroed memory.
    ///
    /// # Errors
    ///
    /// [`Errno::INVAL`] for size 0, [`Errno::NOMEM`] when there is not enough.
    pub fn map(size: usize) -> Result<Self, Errno> {
        const READ_WRITE: usize = 0x1 | 0x2;
        let address = map(size, READ_WRITE)?;
        Ok(Self { address, size })
    }

    /// Where they are.
    pub(super) fn address(&self) -> usize {
        self.address
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        let start = core::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: the kernel mapped this range readable and writable for `map`,
        // it stays until `drop`, and `&mut self` is the only way to it.
        unsafe { core::slice::from_raw_parts_mut(start, self.size) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: nothing borrows from the range any more, as it is borrowed
        // through `self` only.
        let _: Result<usize, Errno> =
            unsafe { call(number::MUNMAP, [self.address, self.size, 0, 0, 0, 0]) };
    }
}

/// Maps `size` bytes of anonymous memory that `protection` allows.
fn map(size: usize, protection: usize) -> Result<usize, Errno> {
    const PRIVATE_ANONYMOUS: usize = 0x02 | 0x20;
    let arguments = [0, size, protection, PRIVATE_ANONYMOUS, usize::MAX, 0];
    // SAFETY: without MAP_FIXED the kernel picks a range that was free, so no
    // existing memory changes.
    unsafe { call(number::MMAP, arguments) }
}

/// Takes `size` bytes of addresses without any access, and gives them back.
///
/// # Errors
///
/// [`Errno::NOMEM`] when there are not so many.
pub fn reserve(size: usize) -> Result<(), Errno> {
    const NONE: usize = 0;
    let address = map(size, NONE)?;
    // SAFETY: nobody knows the range, which was free before.
    unsafe { call(number::MUNMAP, [address, size, 0, 0, 0, 0]) }.map(drop)
}
