//! Exceptions: one line and a stop, instead of a reset without a word.
//!
//! All of them use a stack of their own (IST 1), so that a stack overflow, the
//! loader's or that of a kernel that has no handlers yet, can be told too.

use core::cell::UnsafeCell;
use core::mem::size_of;

use x86_64::VirtAddr;
use x86_64::instructions::segmentation::{CS, DS, ES, SS, Segment};
use x86_64::instructions::tables::{lidt, load_tss};
use x86_64::registers::control::Cr2;
use x86_64::structures::DescriptorTablePointer;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable};
use x86_64::structures::tss::TaskStateSegment;

use super::stop;

/// Vectors that the CPU itself raises.
const VECTORS: usize = 32;
/// Distance of the stubs in `entry.s`.
const STUB: u64 = 16;
const STACK: usize = 16 * 1024;
/// Vector of the page fault, the only one that sets CR2.
const PAGE_FAULT: u64 = 14;

/// Gate attributes: present, ring 0, 64-bit interrupt gate, IST 1 (AMD64
/// manual, volume 2, figure 4-24), in place in the first quadword.
const GATE: u64 = 0x8e << 40 | 1 << 32;

/// What the CPU and the stub pushed.
#[repr(C)]
struct Frame {
    vector: u64,
    error: u64,
    rip: u64,
    cs: u64,
    flags: u64,
    rsp: u64,
    ss: u64,
}

struct Tables {
    tss: TaskStateSegment,
    gdt: GlobalDescriptorTable,
    idt: [[u64; 2]; VECTORS],
    stack: [u8; STACK],
}

struct Shared(UnsafeCell<Tables>);

// SAFETY: the loader runs on one CPU, without interrupts; `install` is the only
// code that touches the contents, and it runs once.
unsafe impl Sync for Shared {}

static TABLES: Shared = Shared(UnsafeCell::new(Tables {
    tss: TaskStateSegment::new(),
    gdt: GlobalDescriptorTable::new(),
    idt: [[0; 2]; VECTORS],
    stack: [0; STACK],
}));

unsafe extern "C" {
    /// The first of the stubs.
    safe static trap_stubs: u8;
}

/// Loads descriptor tables that live as long as the loader's image does.
pub(crate) fn install() {
    // SAFETY: called once, before anything else refers to the tables.
    let tables: &'static mut Tables = unsafe { &mut *TABLES.0.get() };
    let stack_end = VirtAddr::from_ptr(tables.stack.as_ptr_range().end);
    tables.tss.interrupt_stack_table[0] = stack_end.align_down(16_u64);

    let code = tables.gdt.append(Descriptor::kernel_code_segment());
    let data = tables.gdt.append(Descriptor::kernel_data_segment());
    let task = tables.gdt.append(Descriptor::tss_segment(&tables.tss));
    tables.gdt.load();
    // SAFETY: the selectors were just taken from the table that is now loaded,
    // and are of the kinds the registers need.
    unsafe {
        CS::set_reg(code);
        SS::set_reg(data);
        DS::set_reg(data);
        ES::set_reg(data);
        load_tss(task);
    }

    let first = core::ptr::from_ref(&trap_stubs) as u64;
    for (stub, gate) in (first..).step_by(STUB as usize).zip(&mut tables.idt) {
        let low = (stub & 0xffff) | u64::from(code.0) << 16 | (stub >> 16 & 0xffff) << 48;
        *gate = [low | GATE, stub >> 32];
    }
    let pointer = DescriptorTablePointer {
        limit: (size_of::<[[u64; 2]; VECTORS]>() - 1) as u16,
        base: VirtAddr::from_ptr(&raw const tables.idt),
    };
    // SAFETY: the gates lead to the stubs, which never return, and the table is
    // static.
    unsafe { lidt(&pointer) };
}

/// Called by the stubs.
#[unsafe(no_mangle)]
extern "C" fn loader_trap(frame: &Frame) -> ! {
    let Frame {
        vector,
        error,
        rip,
        cs,
        flags,
        rsp,
        ss,
    } = frame;
    if *vector == PAGE_FAULT {
        let address = Cr2::read_raw();
        stop(format_args!(
            "page fault at {address:#x} (error {error:#x}), rip {rip:#x}, rsp {rsp:#x}"
        ))
    }
    stop(format_args!(
        "exception {vector} (error {error:#x}), rip {cs:#x}:{rip:#x}, flags {flags:#x}, \
         rsp {ss:#x}:{rsp:#x}"
    ))
}
