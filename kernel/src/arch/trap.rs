//! What happens on an exception or interrupt.
//!
//! An exception in the kernel is a bug: it prints what happened, where, and
//! every register, and panics. In a program it ends the program and nobody
//! else. Device interrupts are the local APIC's timer (the tick) and spurious
//! ones.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use x86_64::registers::control::Cr2;

use super::{cpu, lapic};

/// Vectors by name.
pub mod vector {
    /// Debug exception.
    pub const DEBUG: u64 = 1;
    /// Non-maskable interrupt.
    pub const NMI: u64 = 2;
    /// `int3`.
    pub const BREAKPOINT: u64 = 3;
    /// An exception that could not be delivered.
    pub const DOUBLE_FAULT: u64 = 8;
    /// General protection.
    pub const GENERAL_PROTECTION: u64 = 13;
    /// Page fault.
    pub const PAGE_FAULT: u64 = 14;
    /// Machine check.
    pub const MACHINE_CHECK: u64 = 18;
    /// First vector that is not an exception.
    pub const FIRST_INTERRUPT: u64 = 32;
    /// First of the 16 vectors the i8259 pair is moved to, all masked.
    pub const I8259: u8 = 32;
    /// The local APIC's timer.
    pub const TICK: u8 = 0xec;
    /// An interrupt that vanished before it was delivered.
    pub const SPURIOUS: u8 = 0xff;
}

/// The registers of interrupted code, as the entry saves them. What is changed
/// here is what the code goes on with.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the registers' names say what they are")]
pub struct TrapFrame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rbp: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rbx: u64,
    pub rax: u64,
    /// Which exception or interrupt.
    pub vector: u64,
    /// What the processor says about it; 0 where it says nothing.
    pub error_code: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

impl TrapFrame {
    /// Whether a program was interrupted, rather than the kernel.
    pub fn from_user(&self) -> bool {
        self.cs & 3 == 3
    }
}

/// An exception, for printing: its name and what its error code means.
#[derive(Debug, Clone, Copy)]
pub struct Exception {
    /// Vector.
    pub vector: u64,
    /// Error code.
    pub error_code: u64,
    /// The address of a page fault.
    pub address: Option<u64>,
}

impl Exception {
    /// What `frame` was entered for.
    fn of(frame: &TrapFrame) -> Self {
        let address = (frame.vector == vector::PAGE_FAULT).then(Cr2::read_raw);
        Self {
            vector: frame.vector,
            error_code: frame.error_code,
            address,
        }
    }

    /// The exception's name in the processor's manual (SDM 3A, table 6-1).
    pub fn name(&self) -> &'static str {
        match self.vector {
            0 => "divide error",
            vector::DEBUG => "debug exception",
            vector::NMI => "non-maskable interrupt",
            vector::BREAKPOINT => "breakpoint",
            4 => "overflow",
            5 => "bound range exceeded",
            6 => "invalid opcode",
            7 => "device not available",
            vector::DOUBLE_FAULT => "double fault",
            10 => "invalid task state",
            11 => "segment not present",
            12 => "stack fault",
            vector::GENERAL_PROTECTION => "general protection",
            vector::PAGE_FAULT => "page fault",
            16 => "x87 error",
            17 => "alignment check",
            vector::MACHINE_CHECK => "machine check",
            19 => "SIMD error",
            21 => "control protection",
            _ => "exception",
        }
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.error_code;
        write!(f, "{} (vector {})", self.name(), self.vector)?;
        if let Some(address) = self.address {
            // SDM 3A, figure 4-12.
            let access = match code & 0x12 {
                0x10 | 0x12 => "execute",
                0x02 => "write",
                _ => "read",
            };
            let mode = if code & 4 != 0 { "user" } else { "kernel" };
            let why = if code & 8 != 0 {
                "reserved bit set"
            } else if code & 1 != 0 {
                "not permitted"
            } else {
                "not mapped"
            };
            write!(f, ": {mode} {access} of {address:#x}, {why}")?;
        } else if code != 0 {
            // A selector's error code (SDM 3A, figure 6-7).
            let table = match code >> 1 & 3 {
                0 => "GDT",
                2 => "LDT",
                _ => "IDT",
            };
            write!(
                f,
                ": error code {code:#x}, {table} entry {:#x}",
                code >> 3 & 0x1fff
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for TrapFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  rip {:#x}:{:016x} flags {:08x}",
            self.cs, self.rip, self.rflags
        )?;
        writeln!(
            f,
            "  rsp {:#x}:{:016x} rbp {:016x}",
            self.ss, self.rsp, self.rbp
        )?;
        writeln!(
            f,
            "  rax {:016x} rbx {:016x} rcx {:016x}",
            self.rax, self.rbx, self.rcx
        )?;
        writeln!(
            f,
            "  rdx {:016x} rsi {:016x} rdi {:016x}",
            self.rdx, self.rsi, self.rdi
        )?;
        writeln!(
            f,
            "  r8  {:016x} r9  {:016x} r10 {:016x}",
            self.r8, self.r9, self.r10
        )?;
        writeln!(
            f,
            "  r11 {:016x} r12 {:016x} r13 {:016x}",
            self.r11, self.r12, self.r13
        )?;
        write!(f, "  r14 {:016x} r15 {:016x}", self.r14, self.r15)
    }
}

/// NMIs seen; they are counted and otherwise ignored.
static NMIS: AtomicU64 = AtomicU64::new(0);
/// Interrupts at vectors that nobody asked for.
static STRAY: AtomicU64 = AtomicU64::new(0);

/// Number of NMIs so far.
pub fn nmis() -> u64 {
    NMIS.load(Ordering::Relaxed)
}

/// Number of interrupts at vectors that nobody asked for.
pub fn stray_interrupts() -> u64 {
    STRAY.load(Ordering::Relaxed)
}

const TICK: u64 = vector::TICK as u64;
const SPURIOUS: u64 = vector::SPURIOUS as u64;

/// Called by the entry for every vector, with interrupts off.
pub(super) extern "C" fn dispatch(frame: &mut TrapFrame) {
    cpu::clear_access_flag();
    match frame.vector {
        TICK => {
            lapic::end_of_interrupt();
            crate::start::tick(frame);
        }
        SPURIOUS => {}
        vector::NMI => {
            NMIS.fetch_add(1, Ordering::Relaxed);
        }
        0..vector::FIRST_INTERRUPT => exception(frame),
        _ => {
            // Ended all the same, or it would block the tick.
            STRAY.fetch_add(1, Ordering::Relaxed);
            lapic::end_of_interrupt();
        }
    }
}

fn exception(frame: &mut TrapFrame) {
    let exception = Exception::of(frame);
    if frame.from_user() && frame.vector != vector::MACHINE_CHECK {
        crate::start::user_fault(frame, &exception);
    } else {
        // The last page fault's address is worth printing in any case: after a
        // double fault it is below the stack that overflowed.
        panic!("{exception}\n{frame}\n  cr2 {:016x}", Cr2::read_raw());
    }
}
