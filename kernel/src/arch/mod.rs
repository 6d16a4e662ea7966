//! The processor: descriptor tables, interrupt entry, features, registers.
//!
//! One of the two places of the kernel that may be unsafe; what it offers to
//! the rest is safe to call.

#[cfg(target_os = "none")]
pub mod context;
#[cfg(target_os = "none")]
pub mod cpu;
#[cfg(target_os = "none")]
mod deadline;
#[cfg(any(target_os = "none", test))]
pub mod exception;
#[cfg(target_os = "none")]
pub mod exit;
#[cfg(any(target_os = "none", test))]
pub mod gdt;
#[cfg(target_os = "none")]
pub mod idt;
#[cfg(target_os = "none")]
pub mod ipi;
#[cfg(target_os = "none")]
pub mod lapic;
#[cfg(target_os = "none")]
pub mod percpu;
#[cfg(target_os = "none")]
pub mod smp;
#[cfg(target_os = "none")]
pub mod syscall;
#[cfg(target_os = "none")]
pub mod thread;
#[cfg(target_os = "none")]
pub mod trap;
#[cfg(target_os = "none")]
pub mod uart;

/// The I/O ports, for the drivers.
#[cfg(target_os = "none")]
pub fn ports() -> drivers::native::Ports {
    // SAFETY: the kernel runs at CPL 0 and owns every chip of the machine.
    unsafe { drivers::native::Ports::new() }
}

/// The model-specific registers, for the drivers.
#[cfg(target_os = "none")]
pub fn msrs() -> drivers::native::Msrs {
    // SAFETY: the kernel runs at CPL 0. The drivers write only registers of
    // the chips they drive; those of system calls are written in this module.
    unsafe { drivers::native::Msrs::new() }
}
