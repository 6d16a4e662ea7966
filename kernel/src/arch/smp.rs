//! Starting the other CPUs.
//!
//! The firmware's table (MADT) lists them. Each waits for INIT and then a
//! start-up message that names a page below 1 MiB ([`crate::mm::low`]), where
//! `trampoline.s` takes it to long mode and into `begin`. SDM volume 3A, 9.4.4
//! has the protocol and its times: INIT, 10 ms, start-up, 200 us, start-up once
//! more.
//!
//! All get their INIT first, so that 10 ms pass once and not 254 times. Then
//! they start one after the other: there is one stack on offer, which a CPU
//! takes by one exchange (`STACK_OFFER`), and the next CPU's turn is when it
//! has. What follows in `begin` runs at the same time on all.
//!
//! **A CPU that does not answer** within `PATIENCE` has its offer taken back
//! and is logged and left out; its number goes to the next. Should it come later
//! it finds no stack and halts, or takes that of another that is just being
//! started, sees by its local APIC's ID that it is not meant, and halts; then the
//! other is missed as well, and both are named.

use core::arch::global_asm;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use alloc::vec::Vec;
use drivers::bus::{Cpuid, Msr};
use drivers::cpuid::TscFacts;
use drivers::lapic::Message;
use drivers::madt::Madt;
use drivers::native::Processor;
use drivers::tsc;

use super::deadline::{self, Deadline};
use super::{cpu, gdt, idt, lapic, percpu, syscall};
use crate::cpuset::MAX_CPUS;
use crate::mm::stack::KernelStack;
use crate::mm::{low, paging};
use crate::{acpi, klog, proc};

/// Between INIT and the start-up message.
const AFTER_INIT: Duration = Duration::from_millis(10);
/// Between the first start-up message and the second.
const AFTER_START: Duration = Duration::from_micros(200);
/// How long a CPU has to take its stack, and all to come up. Real ones take less
/// than a millisecond; an emulator has them all wait for each other.
const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_WITH_ALL: Duration = Duration::from_secs(20);

global_asm!(include_str!("trampoline.s"), options(att_syntax));

unsafe extern "C" {
    static trampoline_start: u8;
    static trampoline_long: u8;
    static trampoline_gdt: u8;
    static trampoline_gdt_address: u8;
    static trampoline_root: u8;
    static trampoline_jump: u8;
    static trampoline_end: u8;
}

/// The stack pointer for the CPU that is being started; 0 when there is none.
#[unsafe(no_mangle)]
static STACK_OFFER: AtomicU64 = AtomicU64::new(0);

/// Why a CPU was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartError {
    NoMemory,
    NoAnswer,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoMemory => "no memory for its stacks",
            Self::NoAnswer => "does not answer",
        })
    }
}

/// Starts every CPU of the table but the one that runs, unless `disabled`, and
/// logs how many there are.
pub fn start_all(disabled: bool) {
    name_here();
    if !disabled {
        start_others();
    }
    klog!("SMP: {} processors", percpu::count());
}

/// Gives this CPU its local APIC's ID and its number in TSC_AUX.
fn name_here() {
    let here = percpu::here();
    here.apic_id
        .store(lapic::id().unwrap_or(0), Ordering::Relaxed);
    /// IA32_TSC_AUX, which RDTSCP and RDPID read (SDM volume 4).
    const TSC_AUX: u32 = 0xc000_0103;
    let has_rdtscp = Processor.leaf(0x8000_0000, 0).eax >= 0x8000_0001
        && Processor.leaf(0x8000_0001, 0).edx >> 27 & 1 == 1;
    let has_rdpid = Processor.leaf(0, 0).eax >= 7 && Processor.leaf(7, 0).ecx >> 22 & 1 == 1;
    if has_rdtscp || has_rdpid {
        super::msrs().write(TSC_AUX, percpu::number() as u64);
    }
}

fn start_others() {
    let Some(Ok(madt)) = acpi::table(b"APIC").map(Madt::new) else {
        klog!("SMP: no table of processors");
        return;
    };
    let here = lapic::id();
    let ids: Vec<u32> = madt
        .processors(lapic::is_x2apic())
        .filter(|&id| Some(id) != here)
        .collect();
    if ids.is_empty() {
        return;
    }
    let page = match low::place(trampoline) {
        Ok(address) => (address >> 12) as u8,
        Err(error) => {
            klog!("SMP: {error}");
            return;
        }
    };
    let room = MAX_CPUS - 1;
    if let Some(beyond) = ids.len().checked_sub(room).filter(|&beyond| beyond > 0) {
        klog!("SMP: {beyond} processors are beyond the {MAX_CPUS} that can be used");
    }
    let ids = ids.get(..room).unwrap_or(&ids);
    for &id in ids {
        lapic::send(id, Message::Init);
    }
    deadline::pause(AFTER_INIT);
    let mut number = 1;
    for &id in ids {
        match start(number, id, page) {
            Ok(()) => number += 1,
            Err(error) => klog!("SMP: processor with APIC ID {id}: {error}, left out"),
        }
    }
    let mut all = Deadline::after(PATIENCE_WITH_ALL);
    for number in 1..number {
        if !all.wait_for(|| percpu::is_online(number)) {
            let id = percpu::block(number).apic_id.load(Ordering::Relaxed);
            klog!("SMP: processor with APIC ID {id}: started and does not come up, left out");
        }
    }
}

/// Starts one CPU; returns when it has its stack.
fn start(number: usize, id: u32, page: u8) -> Result<(), StartError> {
    gdt::prepare(number).map_err(|_| StartError::NoMemory)?;
    let stack = KernelStack::new().map_err(|_| StartError::NoMemory)?;
    percpu::block(number).apic_id.store(id, Ordering::Relaxed);
    // From the bottom up: what `trampoline.s` pops, and a place for the address
    // that a caller of `begin` would have left.
    let frame = [number as u64, begin as *const () as u64, 0];
    let bottom = stack.top().as_u64() - size_of_val(&frame) as u64;
    // SAFETY: the stack is mapped, longer than the frame, and ends at its top;
    // nobody else knows it.
    unsafe { (bottom as *mut [u64; 3]).write(frame) };
    // Pairs with the exchange in `trampoline.s`: the frame is there.
    STACK_OFFER.store(bottom, Ordering::Release);
    let taken = || STACK_OFFER.load(Ordering::Acquire) == 0;
    lapic::send(id, Message::StartUp(page));
    if !Deadline::after(AFTER_START).wait_for(taken) {
        lapic::send(id, Message::StartUp(page));
        Deadline::after(PATIENCE).wait_for(taken);
    }
    if STACK_OFFER.swap(0, Ordering::AcqRel) != 0 {
        return Err(StartError::NoAnswer);
    }
    // It is the CPU's for ever.
    core::mem::forget(stack);
    Ok(())
}

/// The trampoline's bytes for the page at `at`, with the page tables at `root`.
fn trampoline(at: u32, root: u32) -> Vec<u8> {
    let start = &raw const trampoline_start;
    let len = &raw const trampoline_end as usize - start as usize;
    // SAFETY: the symbols enclose bytes of the kernel's read-only data.
    let mut code = unsafe { core::slice::from_raw_parts(start, len) }.to_vec();
    let offset = |symbol: *const u8| symbol as usize - start as usize;
    let address = |symbol: *const u8| at + offset(symbol) as u32;
    let words = [
        (
            &raw const trampoline_gdt_address,
            address(&raw const trampoline_gdt),
        ),
        (&raw const trampoline_root, root),
        (
            &raw const trampoline_jump,
            address(&raw const trampoline_long),
        ),
    ];
    for (symbol, word) in words {
        let place = code.iter_mut().skip(offset(symbol));
        for (to, from) in place.zip(word.to_le_bytes()) {
            *to = from;
        }
    }
    code
}

/// The first function of another CPU, on its own stack, interrupts off.
extern "sysv64" fn begin(number: usize) -> ! {
    percpu::load(number);
    gdt::load(number);
    idt::load();
    paging::activate_kernel();
    if let Err(error) = cpu::init() {
        klog!("SMP: CPU {number}: {error}");
        halt();
    }
    syscall::init();
    let expected = percpu::here().apic_id.load(Ordering::Relaxed);
    if let Err(error) = lapic::init_here() {
        klog!("SMP: CPU {number}: {error}");
        halt();
    }
    if lapic::id() != Some(expected) {
        halt();
    }
    tsc::serialize_lfence(&TscFacts::read(&Processor), &super::msrs());
    name_here();
    percpu::set_online();
    x86_64::instructions::interrupts::enable();
    proc::idle_loop()
}

/// For a CPU that cannot be used.
fn halt() -> ! {
    loop {
        x86_64::instructions::interrupts::disable();
        x86_64::instructions::hlt();
    }
}
