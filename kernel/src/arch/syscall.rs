//! The `syscall` instruction's entry and way back.
//!
//! The instruction leaves the return address in RCX and RFLAGS in R11, loads
//! CS and SS from `STAR`, clears the flags in `SFMASK`, jumps to `LSTAR`, and
//! does not touch the stack (SDM volume 2, SYSCALL). So the entry has to find
//! a stack by itself: GS, exchanged for the kernel's, points to this CPU's block
//! ([`super::percpu`]), which has it. It is exchanged back as the last thing
//! before the way out.
//!
//! The registers are laid out as [`Registers`] and handed to
//! [`crate::proc::system_call`]. All but RAX, RCX and R11 come back as they
//! were, as Linux's ABI promises.
//!
//! **The way back.** `sysret` to a non-canonical address faults on Intel
//! processors in ring 0 with the program's stack pointer, which is how several
//! kernels were broken. User space ends a page before the hole, so the return
//! address of a `syscall` that was executed there is never one. Should that be
//! wrong one day, the address goes the way of `iretq`, which faults on the
//! kernel's own stack: a panic, and no way in.
//!
//! **32-bit code.** A program can jump into the 32-bit code segment. `syscall`
//! is undefined there on Intel processors, but AMD's and QEMU's go to `CSTAR`
//! in ring 0, with the program's stack pointer. No 32-bit call exists, so what
//! is there answers `ENOSYS`.

use core::arch::naked_asm;
use core::sync::atomic::Ordering;

use x86_64::VirtAddr;
use x86_64::registers::model_specific::{Efer, EferFlags, LStar, Msr, SFMask};
use x86_64::registers::rflags::RFlags;

use super::gdt;
use super::percpu::{self, KERNEL_STACK, PROGRAM_STACK};

/// A program starts with interrupts on; bit 1 is always set.
pub const USER_FLAGS: u64 = 0x202;

/// A program's registers at a system call, in the order of the entry's pushes,
/// the last one first.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Registers {
    // Those that a call of a function preserves: the entry saves them only for
    // the thread that may be made a copy of.
    pub(super) r15: u64,
    pub(super) r14: u64,
    pub(super) r13: u64,
    pub(super) r12: u64,
    pub(super) rbp: u64,
    pub(super) rbx: u64,
    /// Sixth argument.
    pub r9: u64,
    /// Fifth argument.
    pub r8: u64,
    /// Fourth argument: RCX is taken by the instruction.
    pub r10: u64,
    /// Third argument.
    pub rdx: u64,
    /// Second argument.
    pub rsi: u64,
    /// First argument.
    pub rdi: u64,
    /// The call's number, and its result.
    pub rax: u64,
    /// What `iretq` would pop.
    pub(super) rip: u64,
    pub(super) cs: u64,
    pub(super) rflags: u64,
    pub(super) rsp: u64,
    pub(super) ss: u64,
}

impl Registers {
    /// Those of a program that starts at `entry` with the stack pointer
    /// `stack_pointer`: all others 0.
    pub(super) fn start(entry: u64, stack_pointer: u64) -> Self {
        Self {
            rip: entry,
            cs: u64::from(gdt::USER_CODE),
            rflags: USER_FLAGS,
            rsp: stack_pointer,
            ss: u64::from(gdt::USER_DATA),
            ..Self::default()
        }
    }

    /// Those of a thread that returns from the same system call with 0, on a
    /// stack of its own if it has one.
    pub(super) fn copied(&self, stack_pointer: Option<u64>) -> Self {
        Self {
            rax: 0,
            rsp: stack_pointer.unwrap_or(self.rsp),
            ..*self
        }
    }

    /// The call's arguments.
    pub fn arguments(&self) -> [u64; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }
}

/// Makes `top` the stack that system calls run on here. Interrupts must be off.
pub(super) fn set_kernel_stack(top: VirtAddr) {
    percpu::here()
        .kernel_stack
        .store(top.as_u64(), Ordering::Relaxed);
}

/// Turns the instruction on, on this CPU.
pub fn init() {
    // Loaded at the entry: the kernel's CS, and SS eight above. At the way
    // back: CS sixteen above the second base and SS eight above it, as the
    // descriptor table has them (SDM volume 2, SYSRET).
    let bases = u64::from(gdt::KERNEL_CODE) << 32 | u64::from(gdt::USER_CODE_32) << 48;
    const {
        assert!(gdt::KERNEL_DATA == gdt::KERNEL_CODE + 8, "SYSCALL's SS");
        assert!(gdt::USER_DATA == gdt::USER_CODE_32 + 8, "SYSRET's SS");
        assert!(gdt::USER_CODE == gdt::USER_CODE_32 + 16, "SYSRET's CS");
    }
    // SAFETY: the bases name descriptors of the right kind, as just checked.
    unsafe { Msr::new(STAR).write(bases) };
    LStar::write(VirtAddr::from_ptr(entry as *const ()));
    let entry_32 = entry_32 as *const () as u64;
    // SAFETY: the address is an entry for just this, and interrupts find it as
    // they find `entry`. A null selector makes `sysenter` a fault.
    unsafe {
        Msr::new(CSTAR).write(entry_32);
        Msr::new(SYSENTER_CS).write(0);
    }
    SFMask::write(
        RFlags::INTERRUPT_FLAG
            | RFlags::TRAP_FLAG
            | RFlags::DIRECTION_FLAG
            | RFlags::ALIGNMENT_CHECK
            | RFlags::NESTED_TASK
            | RFlags::IOPL_LOW
            | RFlags::IOPL_HIGH,
    );
    // SAFETY: the registers that the instruction uses are set.
    unsafe { Efer::update(|flags| flags.insert(EferFlags::SYSTEM_CALL_EXTENSIONS)) };
}

/// The model-specific register with the segment bases (SDM volume 4).
const STAR: u32 = 0xc000_0081;

/// Where `syscall` goes from 32-bit code.
const CSTAR: u32 = 0xc000_0083;

/// The code segment of `sysenter`.
const SYSENTER_CS: u32 = 0x174;

/// `-ENOSYS`.
const NO_SUCH_CALL: i32 = -38;

extern "sysv64" fn dispatch(registers: &mut Registers) {
    crate::proc::system_call(registers);
}

/// Where `syscall` goes.
///
/// Thirteen registers and the five words of an interrupt frame are pushed, 144
/// bytes from a top that is 16-byte aligned, so the call is aligned too.
///
/// Interrupts are off on the way out, whatever the dispatcher left: the
/// program's GS and then its stack are in place before it is.
///
/// # Safety
///
/// To be reached by the instruction only.
#[unsafe(naked)]
unsafe extern "sysv64" fn entry() {
    naked_asm!(
        "swapgs",
        "mov gs:[{program_stack}], rsp",
        "mov rsp, gs:[{kernel_stack}]",
        "push {user_data}",
        "push qword ptr gs:[{program_stack}]",
        "push r11",
        "push {user_code}",
        "push rcx",
        "push rax",
        "push rdi",
        "push rsi",
        "push rdx",
        "push r10",
        "push r8",
        "push r9",
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov rdi, rsp",
        "call {dispatch}",
        "cli",
        "add rsp, 48",
        "pop r9",
        "pop r8",
        "pop r10",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rax",
        "mov rcx, [rsp]",
        "mov r11, rcx",
        "shr r11, 47",
        "jnz 2f",
        "mov r11, [rsp + 16]",
        "mov rsp, [rsp + 24]",
        "swapgs",
        "sysretq",
        "2:",
        "swapgs",
        "iretq",
        program_stack = const PROGRAM_STACK,
        kernel_stack = const KERNEL_STACK,
        user_data = const gdt::USER_DATA,
        user_code = const gdt::USER_CODE,
        dispatch = sym dispatch,
    )
}

/// Where `syscall` goes from 32-bit code: straight back.
///
/// # Safety
///
/// To be reached by the instruction only.
#[unsafe(naked)]
unsafe extern "sysv64" fn entry_32() {
    naked_asm!(
        "swapgs",
        "mov gs:[{program_stack}], rsp",
        "mov rsp, gs:[{kernel_stack}]",
        "push {user_data}",
        "push qword ptr gs:[{program_stack}]",
        "swapgs",
        "push r11",
        "push {user_code}",
        "push rcx",
        "mov eax, {answer}",
        "iretq",
        program_stack = const PROGRAM_STACK,
        kernel_stack = const KERNEL_STACK,
        user_data = const gdt::USER_DATA,
        user_code = const gdt::USER_CODE_32,
        answer = const NO_SUCH_CALL,
    )
}
