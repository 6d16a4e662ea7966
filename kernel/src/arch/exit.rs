//! The end: telling QEMU how it went, or standing still.

use drivers::bus::PortIo;
use x86_64::instructions::{hlt, interrupts};

/// Port of QEMU's `isa-debug-exit` device; QEMU exits with twice the value
/// plus one.
const DEBUG_EXIT: u16 = 0xf4;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// Every command succeeded: QEMU's status is 33.
    Success,
    /// A command failed: 35.
    Failure,
    /// The kernel panicked: 37.
    Panic,
}

impl ExitStatus {
    const fn value(self) -> u32 {
        match self {
            Self::Success => 0x10,
            Self::Failure => 0x11,
            Self::Panic => 0x12,
        }
    }
}

/// Logs the closing line and ends the machine: through QEMU's debug port, else
/// by standing still.
pub fn power_off(status: ExitStatus) -> ! {
    match status {
        ExitStatus::Success => crate::klog!("timehands: exit status 0"),
        ExitStatus::Failure => crate::klog!("timehands: exit status 1"),
        // A panic has printed its own line.
        ExitStatus::Panic => {}
    }
    stop(status)
}

/// Ends the machine without a closing line; the other CPUs stop first.
pub fn stop(status: ExitStatus) -> ! {
    super::ipi::halt_others();
    super::ports().write_u32(DEBUG_EXIT, status.value());
    // Still here: there is no such port.
    crate::klog!("The operating system has halted.");
    loop {
        interrupts::disable();
        hlt();
    }
}
