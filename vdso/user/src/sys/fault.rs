//! Deliberate faults, one function each, for programs that test how a kernel
//! ends a process.
//!
//! Each does what its name says with inline assembly, so that the compiler
//! knows nothing about the address and cannot assume that the access works.
//! None returns on a kernel that protects what it should; if one does, the
//! program is told by the return.

#![allow(unsafe_code, reason = "accesses that are meant to fault")]

use core::arch::asm;

use crate::abi::auxiliary;
use crate::sys::Process;

/// Reads eight bytes.
fn read(address: usize) {
    // SAFETY: a plain load that faults, or has no effect.
    unsafe {
        asm!("mov {0}, qword ptr [{0}]", inout(reg) address => _, options(nostack, readonly, preserves_flags));
    }
}

/// Writes to a place that must not be writable.
fn write(address: usize) {
    // SAFETY: the callers name read-only or unmapped places. If the store goes
    // through, the kernel's protection is broken and the program reports it;
    // it writes back what was there.
    unsafe {
        asm!("mov {1}, qword ptr [{0}]", "mov qword ptr [{0}], {1}", in(reg) address, out(reg) _, options(nostack, preserves_flags));
    }
}

/// Jumps.
fn jump(address: usize) {
    // SAFETY: the callers name places that are not executable, so the jump
    // faults at its first instruction.
    unsafe { asm!("call {0}", in(reg) address, clobber_abi("C")) }
}

/// Reads through a null pointer.
pub fn null_read() {
    read(0);
}

/// Writes to the program's own code.
pub fn text_write() {
    write((text_write as fn()) as usize);
}

/// Writes to the timehands page, three pages below the vDSO.
pub fn timehands_write(process: &Process) {
    write(vdso_base(process).wrapping_sub(0x3000));
}

/// Writes to the HPET's registers, two pages below the vDSO.
pub fn hpet_write(process: &Process) {
    write(vdso_base(process).wrapping_sub(0x2000));
}

/// Writes to the vDSO itself.
pub fn vdso_write(process: &Process) {
    write(vdso_base(process));
}

/// Without a vDSO, the null page, which faults as well.
fn vdso_base(process: &Process) -> usize {
    process
        .auxiliary(auxiliary::SYSINFO_EHDR)
        .and_then(|address| usize::try_from(address).ok())
        .unwrap_or(0x3000)
}

/// Jumps to data.
pub fn data_jump() {
    // The bytes of `ret`: a kernel that executes them is found out.
    let code = [0xc3_u8; 16];
    jump(code.as_ptr().addr());
}

/// Executes an undefined instruction.
pub fn undefined() {
    // SAFETY: raises #UD and changes nothing.
    unsafe { asm!("ud2", options(nostack)) }
}

/// Divides by zero.
pub fn divide() {
    // SAFETY: raises #DE; the registers it would change are declared.
    unsafe {
        asm!("xor edx, edx", "mov eax, 1", "xor ecx, ecx", "div ecx", out("eax") _, out("ecx") _, out("edx") _, options(nostack));
    }
}

/// Executes an instruction of the kernel's.
pub fn privileged() {
    // SAFETY: raises #GP outside ring 0.
    unsafe { asm!("cli", options(nostack)) }
}

/// Writes to an I/O port.
pub fn port() {
    // SAFETY: raises #GP outside ring 0 without I/O privilege. Port 0x80 is the
    // diagnostic port, so nothing happens if it goes through.
    unsafe { asm!("out 0x80, al", in("al") 0_u8, options(nostack, preserves_flags)) }
}

/// Reads from a non-canonical address, which raises #GP and not a page fault.
pub fn noncanonical_read() {
    read(0x0000_8000_0000_0000);
}

/// Makes a system call from 32-bit code. Where the instruction exists there
/// and the call is refused, the program goes on to an undefined one; where it
/// is answered, to one of the kernel's.
pub fn syscall_32() {
    // SAFETY: never returns. The code is at an address of 32 bits in a program
    // that is not position-independent; elsewhere the far jump faults.
    unsafe {
        asm!(
            "lea rax, [rip + 2f]",
            "mov rcx, 0x2300000000",
            "or rax, rcx",
            "push rax",
            "jmp fword ptr [rsp]",
            ".code32",
            "2:",
            // `getpid` of 32-bit Linux.
            "mov eax, 20",
            "syscall",
            // -ENOSYS
            "cmp eax, -38",
            "jne 3f",
            "ud2",
            "3:",
            "hlt",
            ".code64",
            options(noreturn)
        )
    }
}

/// Jumps to a non-canonical address.
pub fn noncanonical_jump() {
    jump(0x0000_8000_0000_0000);
}

/// Reads the kernel's half.
pub fn kernel_read() {
    read(0xffff_8000_0000_0000);
}

/// Uses up the stack.
pub fn stack_overflow() {
    // SAFETY: pushes until the guard below the stack is reached; the frame it
    // runs over lies above, not below, so nothing but free stack is written.
    unsafe { asm!("2:", "push 0", "jmp 2b", options(noreturn)) }
}

/// Writes `text` to standard output and gives up the processor, both with the
/// direction, alignment-check and nested-task flags set, under which the kernel
/// must not run: it would copy backwards, touch memory it should not, or fault
/// at its next `iretq`.
pub fn hostile_flags(text: &str) {
    const WRITE: u64 = 1;
    const SCHED_YIELD: u64 = 24;
    for number in [WRITE, SCHED_YIELD] {
        // SAFETY: neither call writes to memory; RFLAGS are restored before
        // Rust code runs again, and the stack is used in balance.
        unsafe {
            asm!(
                "pushfq",
                "pushfq",
                "or dword ptr [rsp], 0x44400",
                "popfq",
                "syscall",
                "popfq",
                inout("rax") number => _,
                in("rdi") 1_u64,
                in("rsi") text.as_ptr(),
                in("rdx") text.len(),
                out("rcx") _,
                out("r11") _,
            );
        }
    }
}
