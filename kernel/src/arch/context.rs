//! The switch from one thread to another.
//!
//! Every thread is in the kernel on its own stack when it is switched away
//! from, so a switch only has to exchange stack pointers: the registers that
//! the calling convention lets a function change are dead at the call, the
//! rest are pushed. Interrupts are off during a switch.
//!
//! **Leaving a thread.** Until its stack pointer is stored, a thread cannot be
//! run elsewhere, and the one who stores it stands on its stack. So the thread
//! that is switched *to* says that the other is suspended (`finish`), and who
//! wants to run a thread too early waits for that. The wait is a few
//! instructions long, and ends: see the scheduler on why it has no circle.
//!
//! **Vector registers.** The kernel is compiled without them, so they hold the
//! program's values all the time that it is in the kernel, and are saved only
//! when another program runs. `fxsave` covers x87 and SSE; AVX stays off
//! (CR4.OSXSAVE is clear, which CPUID shows to programs).

use core::arch::naked_asm;
use core::sync::atomic::Ordering;

use x86_64::VirtAddr;
use x86_64::registers::model_specific::FsBase;

use super::percpu::{self, NOBODY};
use super::thread::{POOL, RUNNING, SUSPENDED, ThreadId};
use super::{gdt, syscall};
use crate::sync::without_interrupts;

/// The running thread.
pub fn current() -> ThreadId {
    without_interrupts(|| ThreadId(percpu::here().current.load(Ordering::Relaxed)))
}

/// Suspends the running thread and runs `to`; returns when somebody switches
/// back. Switching to the running thread does nothing.
///
/// The caller has interrupts off, and has made the address space current that
/// `to` needs.
///
/// # Panics
///
/// When `to` does not exist, or interrupts are on. A thread that is running
/// elsewhere and does not leave is waited for, for ever.
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
    // Pairs with the release in `finish`: the stack and the registers saved on
    // it are there.
    while let Err(state) =
        new.state
            .compare_exchange(SUSPENDED, RUNNING, Ordering::Acquire, Ordering::Relaxed)
    {
        assert_eq!(state, RUNNING, "there is no such thread any more");
        core::hint::spin_loop();
    }
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
    let here = percpu::here();
    here.current.store(to.0, Ordering::Relaxed);
    here.leaving.store(from.0, Ordering::Relaxed);
    let load = new.stack_pointer.load(Ordering::Relaxed);
    // SAFETY: `load` was stored by `exchange` for a thread that was suspended
    // by it, or by `Thread::user` in the same form. The stack is mapped: a
    // thread's stack goes only when the thread does, which frees the slot.
    unsafe { exchange(old.stack_pointer.as_ptr(), load) };
    finish();
}

/// Says that the thread that this CPU left is suspended. The first thing that a
/// thread does when it was switched to, with interrupts off.
extern "sysv64" fn finish() {
    let leaving = percpu::here().leaving.swap(NOBODY, Ordering::Relaxed);
    if let Some(old) = POOL.get(leaving) {
        old.state.store(SUSPENDED, Ordering::Release);
    }
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

/// Where a new thread starts: the stack holds its
/// [`Registers`](super::syscall::Registers), the last five of which `iretq`
/// pops. RCX and R11 are what `syscall` would have left there; nothing of the
/// kernel's leaks.
#[unsafe(naked)]
pub(super) unsafe extern "sysv64" fn enter_program() {
    naked_asm!(
        // 18 words below a top that is 16-byte aligned, so the call is too.
        "call {finish}",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "pop r9",
        "pop r8",
        "pop r10",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rax",
        "mov rcx, [rsp]",
        "mov r11, [rsp + 16]",
        "swapgs",
        "iretq",
        finish = sym finish,
    )
}
