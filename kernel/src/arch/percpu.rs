//! What each CPU has of its own: one block, found through GS.
//!
//! While the kernel runs, GS has the address of this CPU's block as its base;
//! the program's base waits in IA32_KERNEL_GS_BASE. `swapgs` exchanges the two
//! at each way in from ring 3 and back at each way out ([`super::idt`] and
//! [`super::syscall`]). A program cannot set its base (CR4.FSGSBASE is off, the
//! descriptors it can load have base 0), so the two are told apart by the sign.
//!
//! **Moving.** Code that may be switched away from can go on on another CPU,
//! where a number or a block looked up before is somebody else's. A switch only
//! happens where [`super::context::switch`] is called, and on a tick that
//! interrupted a program; what lies between two lines of other kernel code with
//! interrupts off stays on its CPU.

use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use x86_64::VirtAddr;
use x86_64::registers::model_specific::{GsBase, KernelGsBase};

use super::gdt::tables::Tables;
use crate::cpuset::{CpuSet, MAX_CPUS};

/// One CPU's block, on cache lines that no other CPU writes in passing.
#[repr(C, align(128))]
pub(super) struct Block {
    /// Top of the running program's kernel stack, for the system call entry.
    pub(super) kernel_stack: AtomicU64,
    /// The program's stack pointer, for a few instructions of that entry.
    program_stack: AtomicU64,
    number: AtomicUsize,
    /// The running thread's place in the pool.
    pub(super) current: AtomicUsize,
    /// The thread that the last switch left, until its successor has said that
    /// its registers are saved; [`NOBODY`] otherwise.
    pub(super) leaving: AtomicUsize,
    /// The number that messages to its local APIC carry.
    pub(super) apic_id: AtomicU32,
    online: AtomicBool,
    /// Calls: see [`super::ipi`].
    pub(super) call: AtomicU64,
    /// TLB flushes asked for, and done.
    pub(super) flushes_wanted: AtomicU64,
    pub(super) flushes_done: AtomicU64,
    /// Its descriptors and task state.
    pub(super) tables: UnsafeCell<Tables>,
}

// SAFETY: everything but the tables is atomic. Those are written by the CPU
// that prepares them before the block's own one runs, and afterwards by that
// one alone with interrupts off.
unsafe impl Sync for Block {}

/// No thread.
pub(super) const NOBODY: usize = usize::MAX;

/// Offsets for the entries.
pub(super) const KERNEL_STACK: usize = offset_of!(Block, kernel_stack);
pub(super) const PROGRAM_STACK: usize = offset_of!(Block, program_stack);

static BLOCKS: [Block; MAX_CPUS] = [const {
    Block {
        kernel_stack: AtomicU64::new(0),
        program_stack: AtomicU64::new(0),
        number: AtomicUsize::new(0),
        current: AtomicUsize::new(0),
        leaving: AtomicUsize::new(NOBODY),
        apic_id: AtomicU32::new(0),
        online: AtomicBool::new(false),
        call: AtomicU64::new(0),
        flushes_wanted: AtomicU64::new(0),
        flushes_done: AtomicU64::new(0),
        tables: UnsafeCell::new(Tables::new()),
    }
}; MAX_CPUS];

/// The block of a CPU.
///
/// # Panics
///
/// When the number is none that a CPU can have.
pub(super) fn block(cpu: usize) -> &'static Block {
    match BLOCKS.get(cpu) {
        Some(block) => block,
        None => panic!("CPU {cpu} of {MAX_CPUS}"),
    }
}

/// This CPU's block.
pub(super) fn here() -> &'static Block {
    block(number())
}

/// Makes the block of `cpu` the one of the CPU that calls this. The boot
/// processor does so before everything else.
pub(super) fn load(cpu: usize) {
    let block = block(cpu);
    block.number.store(cpu, Ordering::Relaxed);
    block.current.store(cpu, Ordering::Relaxed);
    reload(cpu);
}

/// [`load`] again, after the null selector was put into GS, which on some
/// processors clears the base.
pub(super) fn reload(cpu: usize) {
    GsBase::write(VirtAddr::from_ptr(block(cpu)));
    // Programs' base, for ever.
    KernelGsBase::write(VirtAddr::zero());
}

/// Starts the boot processor's. Until then [`number`] must not be called.
pub fn init() {
    load(0);
    block(0).online.store(true, Ordering::Release);
}

/// The number of the CPU that asks. It stays true only as long as the caller
/// cannot be switched away from.
#[inline]
pub fn number() -> usize {
    let number: usize;
    // SAFETY: GS points to this CPU's block whenever Rust code of the kernel
    // runs. Not `pure`: the answer changes when the thread moves.
    unsafe {
        core::arch::asm!(
            "mov {number}, gs:[{at}]",
            number = out(reg) number,
            at = const offset_of!(Block, number),
            options(nostack, preserves_flags, readonly),
        );
    }
    number
}

/// Says that this CPU runs the kernel.
pub(super) fn set_online() {
    here().online.store(true, Ordering::Release);
}

/// Whether a CPU runs the kernel.
pub(super) fn is_online(cpu: usize) -> bool {
    // Pairs with `set_online`: what the CPU prepared is there.
    BLOCKS
        .get(cpu)
        .is_some_and(|block| block.online.load(Ordering::Acquire))
}

/// The CPUs that run the kernel. A CPU never leaves.
pub fn online() -> CpuSet {
    (0..MAX_CPUS).filter(|&cpu| is_online(cpu)).collect()
}

/// How many CPUs run the kernel.
pub fn count() -> usize {
    online().len()
}
