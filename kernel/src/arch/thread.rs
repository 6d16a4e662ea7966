//! Threads: a kernel stack each, in a fixed pool.
//!
//! Each CPU has one thread for the kernel's own work, the one it booted on, and
//! there is one for each thread of a program, which runs the kernel on its own stack
//! while it is in a system call or an interrupt. [`super::context`] switches
//! from one to another.
//!
//! **Soundness.** What a switch touches lives in a pool that is never freed,
//! and each slot says whether its thread is running or suspended. A switch
//! checks this, and a thread that is running cannot be dropped, so no call
//! order frees a stack in use or runs one twice.

use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::context;
use super::syscall::Registers;
use crate::cpuset::MAX_CPUS;
use crate::mm::stack::{KernelStack, OutOfStacks};

/// Programs' threads that can exist at once.
pub const MAX_THREADS: usize = 1024;

/// A slot without a thread.
const FREE: u8 = 0;
/// Its thread can be switched to.
pub(super) const SUSPENDED: u8 = 1;
/// Its thread is running.
pub(super) const RUNNING: u8 = 2;

/// Bytes of an `fxsave` area (SDM volume 1, section 10.5.1).
const VECTORS: usize = 512;

/// x87 control word and MXCSR of a new program, as the psABI (section 3.2.1)
/// has them: all exceptions masked, extended precision, rounding to nearest.
const X87_CONTROL: u16 = 0x037f;
const MXCSR: u32 = 0x1f80;

/// An `fxsave` area.
#[repr(C, align(16))]
pub(super) struct Vectors(pub(super) UnsafeCell<[u8; VECTORS]>);

/// The first contents of a thread's stack, from the stack pointer up.
#[repr(C)]
struct Start {
    /// What the switch pops.
    preserved: [u64; 6],
    /// Where it returns to.
    goes_to: u64,
    /// What is popped there.
    registers: Registers,
}

/// One thread's place in the pool.
pub(super) struct Slot {
    pub(super) state: AtomicU8,
    /// Stack pointer while suspended.
    pub(super) stack_pointer: AtomicU64,
    /// Where the stack starts when the thread comes from ring 3; 0 for the
    /// thread that never goes there.
    pub(super) stack_top: AtomicU64,
    pub(super) fs_base: AtomicU64,
    pub(super) vectors: Vectors,
}

// SAFETY: `vectors` is touched by `switch` and `Thread::suspended` only: by the
// first for the thread it leaves and the one it has just made RUNNING, which
// no other CPU can, by the second while the slot is not SUSPENDED and nobody's.
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

    pub(super) fn runs_programs(&self) -> bool {
        self.stack_top.load(Ordering::Relaxed) != 0
    }
}

/// The slots. The first ones are the threads that the CPUs boot on, by the
/// CPU's number; they run no programs and are never freed.
pub(super) static POOL: [Slot; MAX_CPUS + MAX_THREADS] = {
    let mut pool = [const { Slot::new(FREE) }; MAX_CPUS + MAX_THREADS];
    let mut cpu = 0;
    while cpu < MAX_CPUS {
        pool[cpu] = Slot::new(RUNNING);
        cpu += 1;
    }
    pool
};

/// Names a thread of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadId(pub(super) usize);

impl ThreadId {
    /// The thread that the kernel booted on.
    pub const BOOT: Self = Self(0);
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
            Self::TooMany => "too many threads",
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
        let registers = Registers::start(entry, stack_pointer);
        Self::suspended(registers, 0, |vectors| {
            *vectors = [0; VECTORS];
            // SDM volume 1, table 10-2: FCW at 0, MXCSR at 24.
            let fields: [(usize, &[u8]); 2] =
                [(0, &X87_CONTROL.to_le_bytes()), (24, &MXCSR.to_le_bytes())];
            for (at, bytes) in fields {
                for (to, from) in vectors.iter_mut().skip(at).zip(bytes) {
                    *to = *from;
                }
            }
        })
    }

    /// A suspended copy of the running thread, which made a system call with
    /// `registers`: it returns from that call with 0, on its own stack and with
    /// its own FS base if they are given.
    ///
    /// # Errors
    ///
    /// [`ThreadError`].
    pub fn copy(
        registers: &Registers,
        stack_pointer: Option<u64>,
        fs_base: Option<u64>,
    ) -> Result<Self, ThreadError> {
        let fs_base = fs_base.unwrap_or_else(context::fs_base);
        Self::suspended(registers.copied(stack_pointer), fs_base, |vectors| {
            // SAFETY: the area is 512 bytes and aligned to 16, as all in the
            // pool are. The kernel is compiled without vector registers, so
            // they hold what they did at the system call.
            unsafe { core::arch::x86_64::_fxsave64(vectors.as_mut_ptr()) };
        })
    }

    /// A suspended thread that goes on in its program with `registers` and the
    /// vector registers that `save` puts into their area.
    fn suspended(
        registers: Registers,
        fs_base: u64,
        save: impl FnOnce(&mut [u8; VECTORS]),
    ) -> Result<Self, ThreadError> {
        let stack = KernelStack::new()?;
        let (slot, place) = POOL
            .iter()
            .enumerate()
            .skip(MAX_CPUS)
            .find(|(_, place)| {
                // RUNNING keeps everybody off the slot while it is filled in.
                place
                    .state
                    .compare_exchange(FREE, RUNNING, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            })
            .ok_or(ThreadError::TooMany)?;

        let frame = Start {
            preserved: [0; 6],
            goes_to: context::enter_program as *const () as u64,
            registers,
        };
        let top = stack.top().as_u64();
        let start = top - size_of_val(&frame) as u64;
        // SAFETY: the stack was just mapped, is longer than the frame, ends at
        // `top`, and nobody else knows it. Its top is 16-byte aligned.
        unsafe { (start as *mut Start).write(frame) };
        // SAFETY: the slot is ours until its state changes below.
        save(unsafe { &mut *place.vectors.0.get() });
        place.stack_pointer.store(start, Ordering::Relaxed);
        place.stack_top.store(top, Ordering::Relaxed);
        place.fs_base.store(fs_base, Ordering::Relaxed);
        place.state.store(SUSPENDED, Ordering::Release);
        Ok(Self {
            slot,
            _stack: stack,
        })
    }

    /// Whether it has left its stack, so that it can be dropped. Who switches
    /// away from it may still be on it for some instructions.
    pub fn is_suspended(&self) -> bool {
        POOL.get(self.slot)
            .is_some_and(|place| place.state.load(Ordering::Acquire) == SUSPENDED)
    }

    /// Its name for [`switch`](super::context::switch).
    pub fn id(&self) -> ThreadId {
        ThreadId(self.slot)
    }
}

impl Drop for Thread {
    /// Waits for a CPU that is just leaving the thread.
    ///
    /// # Panics
    ///
    /// When the thread drops itself: its stack would be freed under it.
    fn drop(&mut self) {
        assert!(
            context::current() != self.id(),
            "a thread cannot drop itself"
        );
        let Some(place) = POOL.get(self.slot) else {
            return;
        };
        while place
            .state
            .compare_exchange(SUSPENDED, FREE, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            core::hint::spin_loop();
        }
    }
}
