//! Bring-up, in order.
//!
//! Each step needs the ones before it: the console to say what goes wrong,
//! memory for the stacks of the exceptions, exceptions before anything that
//! may raise one, the RAM disk for the tunables, tables and tunables for the
//! clock, the clock for the vDSO (which reads the TSC as the clock found it
//! cheapest), the clock before the other CPUs, whose start is timed by it, and
//! before the first tick. What the machine lacks is a line in the log where the
//! kernel can do without it, and a panic where it cannot.

use bootloader_api::{BootInfo, BootloaderConfig};

use crate::arch::trap::{Exception, TrapFrame};
use crate::arch::{cpu, gdt, idt, lapic, percpu, smp, syscall};
use crate::tunables::Tunables;
use crate::{acpi, archive, console, klog, mm, proc, shell, time};

/// What the kernel asks of its loader.
pub static LOADER: BootloaderConfig = {
    let mut config = BootloaderConfig::new_default();
    config.mappings = mm::MAPPINGS;
    config.kernel_stack_size = 128 * 1024;
    config
};

/// The kernel's first function, on the loader's stack, interrupts off.
pub fn start(boot: &'static mut BootInfo) -> ! {
    let boot: &'static BootInfo = boot;
    percpu::init();
    console::init();
    klog!("Timehands {}", env!("CARGO_PKG_VERSION"));

    cpu::init().unwrap_or_else(|error| panic!("{error}"));
    let memory = mm::init(boot).unwrap_or_else(|error| panic!("{error}"));
    klog!("memory: {} KiB free", memory.free / 1024);
    if memory.writable_executable > 0 {
        klog!(
            "memory: {} writable mappings are no longer executable",
            memory.writable_executable
        );
    }

    gdt::prepare(percpu::number()).unwrap_or_else(|error| panic!("{error}"));
    gdt::load(percpu::number());
    idt::init();
    syscall::init();

    match mm::ramdisk(boot).map(archive::init) {
        Some(Ok(())) => klog!("ramdisk: {} files", archive::entries().count()),
        Some(Err(error)) => klog!("ramdisk: {error}"),
        None => klog!("ramdisk: none"),
    }
    acpi::init(boot.rsdp_addr.as_ref().copied());
    if let Err(error) = lapic::init() {
        panic!("{error}");
    }
    let tunables = tunables();
    time::init(&tunables);
    smp::start_all(tunables.smp_disabled);
    time::tsc_sync::run(&tunables);
    let read = time::facts().and_then(|facts| facts.ordered_read);
    match archive::file(proc::vdso::PATH).map(|file| proc::vdso::init(file, read)) {
        Some(Ok(())) => {}
        Some(Err(error)) => klog!("vdso: {error}"),
        None => klog!("vdso: none; programs make system calls"),
    }
    time::start_ticking();
    x86_64::instructions::interrupts::enable();
    shell::live::run(&tunables)
}

/// The tunables of the RAM disk's `cmdline`, then those of the boot protocol.
fn tunables() -> Tunables {
    let mut tunables = Tunables::default();
    for name in ["cmdline", "cmdline.boot"] {
        if let Some(text) = archive::file(name) {
            tunables.apply(text, |complaint| klog!("{complaint}"));
        }
    }
    tunables
}

/// One tick, with interrupts off, on the stack of what it interrupted.
pub(crate) fn tick(frame: &mut TrapFrame) {
    time::tick();
    if percpu::number() == 0 {
        console::poll();
    }
    proc::tick(frame.from_user());
}

/// A program did something it may not: it ends, and nothing else does.
pub(crate) fn user_fault(frame: &mut TrapFrame, exception: &Exception) {
    proc::user_fault(frame.rip, exception);
}
