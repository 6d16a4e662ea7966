//! Interrupt entry: one short stub a vector, one common path, one dispatcher.
//!
//! The stable toolchain has no `x86-interrupt` functions. The stubs are made
//! by the assembler, 16 bytes each, so that the table can compute their
//! addresses: each pushes a zero where the processor pushes no error code,
//! then its vector, and the common path saves the general registers as a
//! [`TrapFrame`]. The kernel is compiled without SSE,
//! so a program's vector registers are untouched until a switch.
//!
//! **GS.** What interrupts a program exchanges GS for the kernel's and back
//! ([`super::percpu`]). A device interrupt that interrupts the kernel finds it
//! there already: interrupts are off wherever it is not. An exception, an NMI or
//! a machine check can come at any instruction, also between a `swapgs` and the
//! instruction next to it that changes the privilege, so those look at the base
//! itself, whose sign says whose it is.

use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;

use x86_64::VirtAddr;
use x86_64::instructions::tables::lidt;
use x86_64::structures::DescriptorTablePointer;

use super::gdt;
use super::trap::{TrapFrame, dispatch, vector};

/// IA32_GS_BASE.
const GS_BASE: u32 = 0xc000_0101;

/// Bytes of a stub: push, push, jump need at most 12.
const STUB_SIZE: u64 = 16;

/// Gate type: 64-bit interrupt gate, present; interrupts are off inside.
const INTERRUPT_GATE: u64 = 0x8e;

/// The 256 stubs, one after the other.
#[unsafe(naked)]
unsafe extern "C" fn stubs() {
    naked_asm!(
        ".set vector, 0",
        ".rept 256",
        ".balign 16, 0xcc",
        // #DF #TS #NP #SS #GP #PF #AC #CP #VC #SX come with an error code.
        ".if (vector == 8) || (vector >= 10 && vector <= 14) || (vector == 17) || (vector == 21) || (vector == 29) || (vector == 30)",
        ".else",
        "push 0",
        ".endif",
        "push vector",
        "jmp {common}",
        ".set vector, vector + 1",
        ".endr",
        common = sym common,
    )
}

/// Saves the registers in the order of [`TrapFrame`],
/// calls the dispatcher with its address, and goes back to what it then holds.
#[unsafe(naked)]
unsafe extern "C" fn common() {
    naked_asm!(
        "push rax",
        "push rbx",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push rbp",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "cld",
        // RBX remembers across the call whether GS was exchanged.
        "xor ebx, ebx",
        "test byte ptr [rsp + {cs}], 3",
        "jnz 2f",
        "cmp qword ptr [rsp + {vector}], {first_interrupt}",
        "jae 3f",
        "mov ecx, {gs_base}",
        "rdmsr",
        "test edx, edx",
        "js 3f",
        "2:",
        "swapgs",
        "mov ebx, 1",
        "3:",
        // The processor aligned the stack to 16 before it pushed 5 words; with
        // the 2 of the stub and the 15 above that is aligned again.
        "mov rdi, rsp",
        "call {dispatch}",
        "test ebx, ebx",
        "jz 4f",
        "swapgs",
        "4:",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rbp",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rbx",
        "pop rax",
        // Vector and error code.
        "add rsp, 16",
        "iretq",
        cs = const offset_of!(TrapFrame, cs),
        vector = const offset_of!(TrapFrame, vector),
        first_interrupt = const vector::FIRST_INTERRUPT,
        gs_base = const GS_BASE,
        dispatch = sym dispatch,
    )
}

/// The table of 256 gates of 16 bytes, which the processor reads by address.
#[repr(C, align(16))]
struct Table(UnsafeCell<[[u64; 2]; 256]>);

// SAFETY: written by `init` alone, before interrupts are on.
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new([[0; 2]; 256]));

/// One gate (SDM 3A, figure 6-8): the handler's address in three pieces, the
/// code segment, the stack of its own if any, type and privilege.
fn gate(handler: u64, stack: Option<u16>, privilege: u64) -> [u64; 2] {
    let stack = stack.map_or(0, |index| u64::from(index) + 1);
    let low = (handler & 0xffff)
        | u64::from(gdt::KERNEL_CODE) << 16
        | stack << 32
        | (INTERRUPT_GATE | privilege << 5) << 40
        | (handler >> 16 & 0xffff) << 48;
    [low, handler >> 32]
}

/// Fills the table and loads it: every vector leads to the dispatcher.
pub fn init() {
    // SAFETY: this runs once, before interrupts are on and with no other CPU,
    // so nobody else refers to the table.
    let gates = unsafe { &mut *TABLE.0.get() };
    let first = stubs as *const () as u64;
    for (number, slot) in (0u64..).zip(gates.iter_mut()) {
        let stack = match number {
            vector::DOUBLE_FAULT => Some(gdt::DOUBLE_FAULT_STACK),
            vector::NMI => Some(gdt::NMI_STACK),
            vector::MACHINE_CHECK => Some(gdt::MACHINE_CHECK_STACK),
            _ => None,
        };
        // A program may raise a breakpoint by an instruction, nothing else.
        let privilege = if number == vector::BREAKPOINT { 3 } else { 0 };
        *slot = gate(first + number * STUB_SIZE, stack, privilege);
    }
    load();
}

/// Loads the table, which all CPUs share, on this one.
pub fn load() {
    let pointer = DescriptorTablePointer {
        limit: (size_of::<Table>() - 1) as u16,
        base: VirtAddr::from_ptr(TABLE.0.get()),
    };
    // SAFETY: the table is a static, and each gate leads to a stub that saves
    // and restores what it interrupts.
    unsafe { lidt(&pointer) };
}
