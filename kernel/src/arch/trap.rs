//! What happens on an exception or interrupt.
//!
//! An exception in the kernel is a bug: it prints what happened, where, and
//! every register, and panics. In a program it ends the program and nobody
//! else. Device interrupts are the local APIC's timer (the tick), messages of
//! other CPUs and spurious ones.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use x86_64::registers::control::Cr2;

use super::{cpu, ipi, lapic};

pub use super::exception::{Exception, vector};

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

const RESCHEDULE: u64 = vector::RESCHEDULE as u64;
const CALL: u64 = vector::CALL as u64;
const FLUSH: u64 = vector::FLUSH as u64;
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
        RESCHEDULE => {
            lapic::end_of_interrupt();
            crate::proc::reschedule(frame.from_user());
        }
        CALL => {
            lapic::end_of_interrupt();
            ipi::answer_call();
        }
        FLUSH => {
            lapic::end_of_interrupt();
            ipi::answer_flush();
        }
        SPURIOUS => {}
        vector::NMI => {
            ipi::halt_if_told();
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
    let exception = Exception {
        vector: frame.vector,
        error_code: frame.error_code,
        address: (frame.vector == vector::PAGE_FAULT).then(Cr2::read_raw),
    };
    if frame.from_user() && frame.vector != vector::MACHINE_CHECK {
        crate::start::user_fault(frame, &exception);
    } else {
        // The last page fault's address is worth printing in any case: after a
        // double fault it is below the stack that overflowed.
        panic!("{exception}\n{frame}\n  cr2 {:016x}", Cr2::read_raw());
    }
}
