//! Processor features: what must be there, what is switched on.
//!
//! On: no-execute pages, write protection for the kernel too, and where the
//! processor has them SMEP, SMAP and UMIP, so that the kernel never executes
//! or touches a program's memory by its address ([`crate::mm::user`] goes
//! through the map of physical memory). SSE is on for programs; the kernel is
//! compiled without it.
//!
//! Off, whatever firmware left: what programs would see of each other (AVX
//! state, GS base, protection keys, performance counters), and translations
//! that outlive a change of address space.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use drivers::bus::Cpuid;
use drivers::native::Processor;
use x86_64::registers::control::{Cr0, Cr0Flags, Cr4, Cr4Flags, Efer, EferFlags};

/// Why the kernel cannot run on this processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FatalError {
    /// CPUID does not report the named feature.
    Missing(&'static str),
    /// No memory for an interrupt stack.
    NoStack,
}

impl fmt::Display for FatalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(feature) => write!(f, "the processor has no {feature}"),
            Self::NoStack => f.write_str("no memory for an interrupt stack"),
        }
    }
}

impl core::error::Error for FatalError {}

/// SMAP is on, so `clac` exists.
static SMAP: AtomicBool = AtomicBool::new(false);

/// Features of CPUID leaf 1, EDX, that the kernel needs (SDM 2A, table 3-11).
const NEEDED: [(u32, &str); 6] = [
    (4, "time-stamp counter"),
    (5, "model-specific registers"),
    (9, "local APIC"),
    (24, "fxsave"),
    (25, "SSE"),
    (26, "SSE2"),
];

/// The same for leaf 8000_0001, EDX.
const NEEDED_EXTENDED: [(u32, &str); 2] = [(11, "syscall"), (20, "no-execute pages")];

/// Checks the processor and switches its protections on.
///
/// # Errors
///
/// [`FatalError::Missing`] names the first feature that is needed and missing.
pub fn init() -> Result<(), FatalError> {
    let basic = Processor.leaf(1, 0).edx;
    let extended = Processor.leaf(0x8000_0001, 0).edx;
    for (word, needed) in [(basic, &NEEDED[..]), (extended, &NEEDED_EXTENDED[..])] {
        if let Some((_, name)) = needed.iter().find(|(bit, _)| word >> bit & 1 == 0) {
            return Err(FatalError::Missing(name));
        }
    }
    let structured = if Processor.leaf(0, 0).eax >= 7 {
        Processor.leaf(7, 0)
    } else {
        Default::default()
    };
    let mut cr4 = Cr4::read() | Cr4Flags::OSFXSR | Cr4Flags::OSXMMEXCPT_ENABLE;
    // A program that reads the TSC by itself is the point of the vDSO.
    cr4.remove(Cr4Flags::TIMESTAMP_DISABLE);
    // Firmware may have switched these on. Each gives a program registers or
    // rights that a switch would leave to the next one.
    cr4.remove(
        Cr4Flags::FSGSBASE
            | Cr4Flags::OSXSAVE
            | Cr4Flags::PROTECTION_KEY_USER
            | Cr4Flags::PERFORMANCE_MONITOR_COUNTER,
    );
    // The kernel's tables are written and flushed for neither of these.
    cr4.remove(Cr4Flags::PCID | Cr4Flags::PROTECTION_KEY_SUPERVISOR | Cr4Flags::PAGE_GLOBAL);
    cr4.set(
        Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION,
        structured.ebx >> 7 & 1 == 1,
    );
    let smap = structured.ebx >> 20 & 1 == 1;
    cr4.set(Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION, smap);
    cr4.set(
        Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION,
        structured.ecx >> 2 & 1 == 1,
    );
    let mut cr0 = Cr0::read()
        | Cr0Flags::WRITE_PROTECT
        | Cr0Flags::MONITOR_COPROCESSOR
        | Cr0Flags::NUMERIC_ERROR;
    cr0.remove(Cr0Flags::EMULATE_COPROCESSOR | Cr0Flags::TASK_SWITCHED);
    // SAFETY: each bit set is of a feature CPUID reports. No code of the
    // kernel relies on writing read-only pages or on reaching user pages.
    unsafe {
        Efer::update(|efer| efer.insert(EferFlags::NO_EXECUTE_ENABLE));
        Cr0::write(cr0);
        Cr4::write(cr4);
    }
    SMAP.store(smap, Ordering::Relaxed);
    Ok(())
}

/// Takes back a permission for user memory that interrupted code may have had:
/// an interrupt gate leaves the AC flag as a program set it.
pub(super) fn clear_access_flag() {
    if SMAP.load(Ordering::Relaxed) {
        // SAFETY: the instruction exists where SMAP does, and clears one flag.
        unsafe { core::arch::asm!("clac", options(nomem, nostack)) };
    }
}

/// Waits for the next interrupt, with interrupts on.
///
/// An interrupt that comes between the two instructions still ends the wait:
/// `sti` takes effect after the instruction that follows it.
pub fn wait_for_interrupt() {
    x86_64::instructions::interrupts::enable_and_hlt();
}
