//! Threads: a kernel stack each, and the switch from one to another.
//!
//! There is one thread for the kernel's own work, the one it booted on, and
//! one for each program. A program's thread runs the kernel on its own stack
//! while it is in a system call or an interrupt, so a switch only has to
//! exchange stack pointers: the registers that the calling convention lets a
//! function change are dead at the call, the rest are pushed.
//!
//! **Vector registers.** The kernel is compiled without them, so they hold the
//! program's values all the time that it is in the kernel, and are saved only
//! when another program runs. `fxsave` covers x87 and SSE; AVX stays off
//! (CR4.OSXSAVE is clear, which CPUID shows to programs).
//!
//! **Soundness.** What a switch touches lives in a fixed pool that is never
//! freed, and each slot says whether its thread is running or suspended.
//! [`switch`] checks this, and a thread that is running cannot be dropped, so
//! no call order frees a stack in use or runs one twice. There is one CPU;
//! interrupts are off during a switch.

use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use x86_64::VirtAddr;
use x86_64::registers::model_specific::FsBase;

use super::{gdt, syscall};
use crate::mm::stack::{KernelStack, OutOfStacks};

/// Threads that can exist at once.
pub const MAX_THREADS: usize = 64;

/// A slot without a thread.
const FREE: u8 = 0;
/// Its thread can be switched to.
const SUSPENDED: u8 = 1;
/// Its thread is running.
const RUNNING: u8 = 2;

/// Bytes of an `fxsave` area (SDM volume 1, section 10.5.1).
const VECTORS: usize = 512;

/// x87 control word and MXCSR of a new program, as the psABI (section 3.2.1)
/// has them: all exceptions masked, extended precision, rounding to nearest.
const X87_CONTROL: u16 = 0x037f;
const MXCSR: u32 = 0x1f80;

/// An `fxsave` area.
#[repr(C, align(16))]
struct Vectors(UnsafeCell<[u8; VECTORS]>);

/// One thread's place in the pool.
struct Slot {
    state: AtomicU8,
    /// Stack pointer while suspended.
    stack_pointer: AtomicU64,
    /// Where the stack starts when the thread comes from ring 3; 0 for the
    /// thread that never goes there.
    stack_top: AtomicU64,
    fs_base: AtomicU64,
    vectors: Vectors,
}

// SAFETY: `vectors` is touched by `switch` and `Thread::user` only: by the
// first while it runs with interrupts off on the only CPU, by the second while
// the slot is not SUSPENDED, when no switch can choose it.
unsafe impl Sync for Slot {}

impl Slot {
    const fn new(state: u8) -> Self {
        Self {
            state: AtomicU8::new(state),
            stack_pointer: AtomicU64::new(0),
            stack_top: AtomicU64::new(0),
            fs_base: AtomicU64::new(0),
            vectors: Vectors(UnsafeCell::new([0; VECTORS])),
        }
    }

    fn runs_programs(&self) -> bool {
        self.stack_top.load(Ordering::Relaxed) != 0
    }
}

/// The slot of the thread that boots.
const BOOT: usize = 0;

static POOL: [Slot; MAX_THREADS] = {
    let mut pool = [const { Slot::new(FREE) }; MAX_THREADS];
    pool[BOOT] = Slot::new(RUNNING);
    pool
};

/// The slot that is running.
static CURRENT: AtomicUsize = AtomicUsize::new(BOOT);

/// Names a thread of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadId(usize);

impl ThreadId {
    /// The thread that the kernel booted on.
    pub const BOOT: Self = Self(BOOT);
}

/// Why there is no new thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadError {
    /// [`MAX_THREADS`] exist.
    TooMany,
    /// No memory for its stack.
    OutOfMemory,
}

impl fmt::Display for ThreadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooMany => "too many processes",
            Self::OutOfMemory => "out of memory",
        })
    }
}

impl core::error::Error for ThreadError {}

impl From<OutOfStacks> for ThreadError {
    fn from(_: OutOfStacks) -> Self {
        Self::OutOfMemory
    }
}

/// A program's thread. Dropping it gives its stack back.
#[derive(Debug)]
pub struct Thread {
    slot: usize,
    /// Owned for as long as the slot names it.
    _stack: KernelStack,
}

impl Thread {
    /// A suspended thread that starts a program at `entry` with the stack
    /// pointer `stack_pointer`, both in the lower half, all other registers 0.
    ///
    /// # Errors
    ///
    /// [`ThreadError`].
    pub fn user(entry: u64, stack_pointer: u64) -> Result<Self, ThreadError> {
        let stack = KernelStack::new()?;
        let (slot, place) = POOL
            .iter()
            .enumerate()
            .skip(1)
            .find(|(_, place)| {
                // RUNNING keeps everybody off the slot while it is filled in.
                place
                    .state
                    .compare_exchange(FREE, RUNNING, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            })
            .ok_or(ThreadError::TooMany)?;

        // From the top down: what `iretq` pops, then what `exchange` pops.
        let frame: [u64; 12] = [
            // r15, r14, r13, r12, rbx, rbp
            0,
            0,
            0,
            0,
            0,
            0,
            // where `exchange` returns to
            enter_program as *const () as u64,
            entry,
            u64::from(gdt::USER_CODE),
            syscall::USER_FLAGS,
            stack_pointer,
            u64::from(gdt::USER_DATA),
        ];
        let top = stack.top().as_u64();
        let start = top - size_of_val(&frame) as u64;
        // SAFETY: the stack was just mapped, is longer than the frame, ends at
        // `top`, and nobody else knows it. Its top is 16-byte aligned.
        unsafe { (start as *mut [u64; 12]).write(frame) };

        let mut vectors = [0; VECTORS];
        // SDM volume 1, table 10-2: FCW at 0, MXCSR at 24.
        let fields: [(usize, &[u8]); 2] =
            [(0, &X87_CONTROL.to_le_bytes()), (24, &MXCSR.to_le_bytes())];
        for (at, bytes) in fields {
            for (to, from) in vectors.iter_mut().skip(at).zip(bytes) {
                *to = *from;
            }
        }
        // SAFETY: the slot is ours until its state changes below.
        unsafe { place.vectors.0.get().write(vectors) };
        place.stack_pointer.store(start, Ordering::Relaxed);
        place.stack_top.store(top, Ordering::Relaxed);
        place.fs_base.store(0, Ordering::Relaxed);
        place.state.store(SUSPENDED, Ordering::Release);
        Ok(Self {
            slot,
            _stack: stack,
        })
    }

    /// Its name for [`switch`].
    pub fn id(&self) -> ThreadId {
        ThreadId(self.slot)
    }
}

impl Drop for Thread {
    /// # Panics
    ///
    /// When the thread is running: its stack would be freed under it.
    fn drop(&mut self) {
        let freed = POOL.get(self.slot).is_some_and(|place| {
            place
                .state
                .compare_exchange(SUSPENDED, FREE, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        });
        assert!(freed, "a running thread cannot be dropped");
    }
}

/// The running thread.
pub fn current() -> ThreadId {
    ThreadId(CURRENT.load(Ordering::Relaxed))
}

/// Suspends the running thread and runs `to`; returns when somebody switches
/// back. Switching to the running thread does nothing.
///
/// The caller has interrupts off, and has made the address space current that
/// `to` needs.
///
/// # Panics
///
/// When `to` does not exist, or interrupts are on.
pub fn switch(to: ThreadId) {
    assert!(
        !x86_64::instructions::interrupts::are_enabled(),
        "a switch needs interrupts off"
    );
    let from = current();
    if from == to {
        return;
    }
    let (Some(old), Some(new)) = (POOL.get(from.0), POOL.get(to.0)) else {
        panic!("no such thread");
    };
    assert_eq!(
        new.state
            .compare_exchange(SUSPENDED, RUNNING, Ordering::Acquire, Ordering::Relaxed),
        Ok(SUSPENDED),
        "only a suspended thread can be switched to"
    );
    if old.runs_programs() {
        // SAFETY: the area is 512 bytes, aligned to 16, and this thread's.
        unsafe { core::arch::x86_64::_fxsave64(old.vectors.0.get().cast()) };
    }
    if new.runs_programs() {
        // SAFETY: as above; it holds what `fxsave` or `Thread::user` left.
        unsafe { core::arch::x86_64::_fxrstor64(new.vectors.0.get().cast()) };
        FsBase::write(VirtAddr::new_truncate(new.fs_base.load(Ordering::Relaxed)));
        let top = VirtAddr::new_truncate(new.stack_top.load(Ordering::Relaxed));
        // SAFETY: the thread's own stack, empty whenever its program runs; it
        // stays until another thread that runs programs is switched to,
        // because a running thread cannot be dropped.
        unsafe { gdt::set_kernel_stack(top) };
        syscall::set_kernel_stack(top);
    }
    CURRENT.store(to.0, Ordering::Relaxed);
    // Suspended from here on, although this stack is in use for three more
    // instructions: nobody can look while interrupts are off.
    old.state.store(SUSPENDED, Ordering::Release);
    let load = new.stack_pointer.load(Ordering::Relaxed);
    // SAFETY: `load` was stored by `exchange` for a thread that was suspended
    // by it, or by `Thread::user` in the same form. The stack is mapped: a
    // thread's stack goes only when the thread does, which frees the slot.
    unsafe { exchange(old.stack_pointer.as_ptr(), load) };
}

/// Sets the running program's FS base. False for a non-canonical address,
/// which the processor would refuse.
pub fn set_fs_base(base: u64) -> bool {
    let Ok(address) = VirtAddr::try_new(base) else {
        return false;
    };
    if let Some(place) = POOL.get(current().0) {
        place.fs_base.store(base, Ordering::Relaxed);
    }
    FsBase::write(address);
    true
}

/// The running program's FS base.
pub fn fs_base() -> u64 {
    POOL.get(current().0)
        .map_or(0, |place| place.fs_base.load(Ordering::Relaxed))
}

/// Pushes the registers that a function preserves, stores the stack pointer to
/// `save`, takes `load` as the new one and pops the same from there.
///
/// # Safety
///
/// `load` must be what this function stored for a stack that is still there
/// and suspended, or point to a frame of the same form.
#[unsafe(naked)]
unsafe extern "sysv64" fn exchange(save: *mut u64, load: u64) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Where a new program's thread starts: the stack holds what `iretq` pops. The
/// registers that `exchange` did not zero are the kernel's and must not leak.
#[unsafe(naked)]
unsafe extern "sysv64" fn enter_program() {
    naked_asm!(
        "xor eax, eax",
        "xor ecx, ecx",
        "xor edx, edx",
        "xor esi, esi",
        "xor edi, edi",
        "xor r8d, r8d",
        "xor r9d, r9d",
        "xor r10d, r10d",
        "xor r11d, r11d",
        "iretq",
    )
}
