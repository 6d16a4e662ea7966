//! Threads, futexes and affinity as the system calls have them: for programs
//! that test a kernel's.
//!
//! Everything a thread touches is `'static`: a stack that is never given back,
//! and words that say when it has ended.

#![allow(
    unsafe_code,
    reason = "the syscall instruction, and a second thread that goes on behind it"
)]

use core::arch::asm;
use core::mem;
use core::sync::atomic::{AtomicU32, Ordering};

use super::call::{Memory, call};
use crate::abi::{Errno, Timespec};

/// Call numbers of x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`).
mod number {
    pub(super) const MPROTECT: usize = 10;
    pub(super) const MUNMAP: usize = 11;
    pub(super) const CLONE: usize = 56;
    pub(super) const EXIT: usize = 60;
    pub(super) const FUTEX: usize = 202;
    pub(super) const SCHED_SETAFFINITY: usize = 203;
    pub(super) const SCHED_GETAFFINITY: usize = 204;
    pub(super) const SET_ROBUST_LIST: usize = 273;
    pub(super) const GETCPU: usize = 309;
}

/// CLONE_VM, FS, FILES, SIGHAND, THREAD, SYSVSEM.
const THREAD: usize = 0x5_0f00;
/// CLONE_PARENT_SETTID, CHILD_CLEARTID, CHILD_SETTID.
const NUMBERS: usize = 0x130_0000;

/// Bytes of a thread's stack.
const STACK: usize = 64 * 1024;

/// The words that a kernel keeps for a thread.
#[derive(Debug, Default)]
pub struct Words {
    /// The number that it stored for the parent.
    pub parent: AtomicU32,
    /// The number that it stored for the child when that began; cleared and
    /// woken at its end. Not 0 from `spawn` on.
    pub child: AtomicU32,
}

impl Words {
    /// No thread yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            parent: AtomicU32::new(0),
            child: AtomicU32::new(0),
        }
    }
}

/// Starts a thread that runs `run` and ends; gives its number.
///
/// # Errors
///
/// [`Errno::AGAIN`] with too many threads, [`Errno::NOMEM`].
pub fn spawn(
    run: extern "C" fn(usize),
    argument: usize,
    words: &'static Words,
) -> Result<usize, Errno> {
    let mut stack = Memory::map(STACK)?;
    let bytes = stack.bytes();
    let top = bytes.as_ptr().expose_provenance() + STACK;
    let first = [run as usize, argument];
    for (to, from) in bytes
        .iter_mut()
        .skip(STACK - size_of_val(&first))
        .zip(first.iter().flat_map(|word| word.to_le_bytes()))
    {
        *to = from;
    }
    // A thread that has not begun has not ended.
    words.child.store(u32::MAX, Ordering::Relaxed);
    let result: isize;
    // SAFETY: the new thread starts behind the instruction with a stack of its
    // own, that holds what it pops and is never given back. The words that the
    // kernel writes are `'static`. The old thread goes on with its registers,
    // but for the three that the instruction changes.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "pop rax",
            "pop rdi",
            "call rax",
            "xor edi, edi",
            "mov eax, {exit}",
            "syscall",
            "ud2",
            "2:",
            exit = const number::EXIT,
            inlateout("rax") number::CLONE => result,
            in("rdi") THREAD | NUMBERS,
            in("rsi") top - size_of_val(&first),
            in("rdx") words.parent.as_ptr().expose_provenance(),
            in("r10") words.child.as_ptr().expose_provenance(),
            in("r8") 0,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if let Ok(value @ -4095..=-1) = i32::try_from(result) {
        words.child.store(0, Ordering::Relaxed);
        return Err(Errno(-value));
    }
    mem::forget(stack);
    Ok(result.cast_unsigned())
}

/// Asks for a thread with flags that no system takes: without CLONE_VM, which
/// CLONE_SIGHAND needs, and with it without CLONE_SIGHAND, which CLONE_THREAD
/// needs.
///
/// # Errors
///
/// [`Errno::INVAL`], always.
pub fn clone_without(vm: bool) -> Result<usize, Errno> {
    const VM: usize = 0x100;
    const SIGHAND: usize = 0x800;
    let flags = THREAD & !if vm { VM } else { SIGHAND };
    // SAFETY: the flags are refused before anything is done.
    unsafe { call(number::CLONE, [flags, 0, 0, 0, 0, 0]) }
}

/// Ends the calling thread.
pub fn exit_thread() -> ! {
    loop {
        // SAFETY: the call touches no memory but the words of `spawn`.
        let _: Result<usize, Errno> = unsafe { call(number::EXIT, [0; 6]) };
    }
}

/// How [`lose_page`] takes a page away.
#[derive(Clone, Copy, Debug)]
pub enum Loss {
    /// It is unmapped.
    Unmapped,
    /// It becomes read-only.
    ReadOnly,
}

/// Writes that the thread of `lose_page` has made.
static WRITES: AtomicU32 = AtomicU32::new(0);

extern "C" fn write_for_ever(address: usize) {
    loop {
        // SAFETY: nothing in Rust knows the page. Once it is gone the
        // instruction ends the process.
        unsafe { asm!("mov dword ptr [{}], 1", in(reg) address, options(nostack)) };
        WRITES.fetch_add(1, Ordering::Release);
    }
}

/// Takes a page away under a thread that writes there all the time, which must
/// end the process. Returns only if there is no such page or thread, or if the
/// thread can still write a while later.
pub fn lose_page(loss: Loss, words: &'static Words) {
    const PAGE: usize = 4096;
    const READ: usize = 1;
    const WHILE: u32 = 1_000_000;
    let Ok(page) = Memory::map(PAGE) else { return };
    let address = page.address();
    mem::forget(page);
    if spawn(write_for_ever, address, words).is_err() {
        return;
    }
    while WRITES.load(Ordering::Acquire) < 1_000 {
        core::hint::spin_loop();
    }
    let lost = match loss {
        // SAFETY: nothing in Rust knows the page any more.
        Loss::Unmapped => unsafe { call(number::MUNMAP, [address, PAGE, 0, 0, 0, 0]) },
        // SAFETY: as above.
        Loss::ReadOnly => unsafe { call(number::MPROTECT, [address, PAGE, READ, 0, 0, 0]) },
    };
    if lost.is_err() {
        return;
    }
    let start = WRITES.load(Ordering::Acquire);
    while WRITES.load(Ordering::Acquire).wrapping_sub(start) < WHILE {
        core::hint::spin_loop();
    }
}

/// A futex call on a word of the program.
///
/// # Errors
///
/// Those of futex(2).
pub fn futex(
    word: &AtomicU32,
    operation: u32,
    value: u32,
    timeout: Option<&Timespec>,
    bits: u32,
) -> Result<usize, Errno> {
    let timeout = timeout.map_or(0, |time| core::ptr::from_ref(time).expose_provenance());
    futex_at(
        word.as_ptr().expose_provenance(),
        operation,
        value,
        timeout,
        bits,
    )
}

/// The same with any addresses: waiting and waking only read memory.
///
/// # Errors
///
/// Those of futex(2); [`Errno::INVAL`] for an operation that is neither.
pub fn futex_at(
    address: usize,
    operation: u32,
    value: u32,
    timeout: usize,
    bits: u32,
) -> Result<usize, Errno> {
    /// FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
    const FLAGS: u32 = 128 | 256;
    /// WAIT, WAKE, WAIT_BITSET, WAKE_BITSET, and one that does not exist.
    const KNOWN: [u32; 5] = [0, 1, 9, 10, 127];
    if !KNOWN.contains(&(operation & !FLAGS)) {
        return Err(Errno::INVAL);
    }
    // SAFETY: the operation writes no memory.
    unsafe {
        call(
            number::FUTEX,
            [
                address,
                operation as usize,
                value as usize,
                timeout,
                0,
                bits as usize,
            ],
        )
    }
}

/// Restricts a thread, 0 for the caller, to the processors of a mask.
///
/// # Errors
///
/// Those of sched_setaffinity(2).
pub fn set_affinity(thread: usize, mask: &[u8]) -> Result<usize, Errno> {
    let arguments = [
        thread,
        mask.len(),
        mask.as_ptr().expose_provenance(),
        0,
        0,
        0,
    ];
    // SAFETY: the call only reads `mask`.
    unsafe { call(number::SCHED_SETAFFINITY, arguments) }
}

/// The processors that a thread may run on; gives the bytes stored.
///
/// # Errors
///
/// Those of sched_getaffinity(2).
pub fn get_affinity(thread: usize, mask: &mut [u8]) -> Result<usize, Errno> {
    let address = mask.as_mut_ptr().expose_provenance();
    // SAFETY: the call writes `mask` only, which is borrowed for it.
    unsafe {
        call(
            number::SCHED_GETAFFINITY,
            [thread, mask.len(), address, 0, 0, 0],
        )
    }
}

/// The processor that the call is made on.
///
/// # Errors
///
/// None that the interface names.
pub fn getcpu() -> Result<u32, Errno> {
    let mut cpu = 0_u32;
    let address = (&raw mut cpu).expose_provenance();
    // SAFETY: the call writes `cpu` only.
    unsafe { call(number::GETCPU, [address, 0, 0, 0, 0, 0]) }?;
    Ok(cpu)
}

/// Names an empty list of robust mutexes with a head of `length` bytes.
///
/// # Errors
///
/// [`Errno::INVAL`] for a length that is not the head's.
pub fn set_robust_list(length: usize) -> Result<usize, Errno> {
    // SAFETY: without a list nothing is done at the thread's end.
    unsafe { call(number::SET_ROBUST_LIST, [0, length, 0, 0, 0, 0]) }
}
