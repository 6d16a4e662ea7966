//! Segments and the task state.
//!
//! The selectors are Linux's, because programs can see them and some compare:
//!
//! | selector | segment |
//! |---|---|
//! | 0x10 | kernel code, 64 bit |
//! | 0x18 | kernel data |
//! | 0x23 | user code, 32 bit |
//! | 0x2b | user data |
//! | 0x33 | user code, 64 bit |
//! | 0x40 | task state (two entries) |
//! | 0x7b | the CPU's number, as the segment's limit |
//!
//! The order is also what `syscall` and `sysret` ask for: with 0x10 and 0x23
//! in the STAR register they find every segment at its fixed distance.
//!
//! The last is for `lsl`, an instruction of three cycles that tells a program
//! where it runs. Each CPU has tables of its own.
//!
//! Three exceptions have stacks of their own, because they can come when the
//! current stack pointer is worth nothing: double fault, NMI, machine check.

use x86_64::structures::gdt::DescriptorFlags;

/// Kernel code.
pub const KERNEL_CODE: u16 = 0x10;
/// Kernel data and stack.
pub const KERNEL_DATA: u16 = 0x18;
/// User code, 32 bit.
pub const USER_CODE_32: u16 = 0x23;
/// User data and stack.
pub const USER_DATA: u16 = 0x2b;
/// User code, 64 bit.
pub const USER_CODE: u16 = 0x33;
/// Task state.
pub const TASK_STATE: u16 = 0x40;

/// A data segment whose limit is the CPU's number.
pub const CPU_NUMBER: u16 = 0x7b;

/// Index into the task state's interrupt stacks for a double fault.
pub const DOUBLE_FAULT_STACK: u16 = 0;
/// The same for an NMI.
pub const NMI_STACK: u16 = 1;
/// The same for a machine check.
pub const MACHINE_CHECK_STACK: u16 = 2;

/// The descriptors below the task state's, in the order of the selectors.
const SEGMENTS: [u64; 8] = [
    0,
    // 0x08: Linux has 32-bit kernel code here; this kernel has none.
    0,
    DescriptorFlags::KERNEL_CODE64.bits(),
    DescriptorFlags::KERNEL_DATA.bits(),
    DescriptorFlags::USER_CODE32.bits(),
    DescriptorFlags::USER_DATA.bits(),
    DescriptorFlags::USER_CODE64.bits(),
    0,
];

/// The descriptor that holds `number` as its limit: a read-only data segment of
/// privilege 3 that grows down and has been accessed, as Linux's (SDM 3A,
/// figure 3-8 and table 3-1).
fn number_segment(number: usize) -> u64 {
    let number = number as u64;
    (number & 0xffff) | (number >> 16 & 0xf) << 48 | 0xf5 << 40
}

#[cfg(target_os = "none")]
pub use tables::{load, prepare, set_kernel_stack};

#[cfg(target_os = "none")]
pub(super) mod tables {
    use x86_64::PrivilegeLevel::Ring0;
    use x86_64::instructions::segmentation::{CS, DS, ES, FS, GS, SS, Segment};
    use x86_64::instructions::tables::load_tss;
    use x86_64::registers::segmentation::SegmentSelector;
    use x86_64::structures::DescriptorTablePointer;
    use x86_64::structures::gdt::Descriptor;
    use x86_64::structures::tss::TaskStateSegment;
    use x86_64::{VirtAddr, instructions};

    use super::{
        CPU_NUMBER, DOUBLE_FAULT_STACK, KERNEL_CODE, KERNEL_DATA, MACHINE_CHECK_STACK, NMI_STACK,
        SEGMENTS, TASK_STATE, number_segment,
    };
    use crate::arch::cpu::FatalError;
    use crate::arch::percpu;
    use crate::mm::stack::KernelStack;

    /// Up to the CPU's number, which is the last.
    const ENTRIES: usize = CPU_NUMBER as usize / 8 + 1;

    /// The tables of one CPU, which the processor reads by address.
    pub(in crate::arch) struct Tables {
        segments: [u64; ENTRIES],
        task_state: TaskStateSegment,
    }

    impl Tables {
        pub(in crate::arch) const fn new() -> Self {
            Self {
                segments: [0; ENTRIES],
                task_state: TaskStateSegment::new(),
            }
        }
    }

    fn kernel_selector(selector: u16) -> SegmentSelector {
        SegmentSelector::new(selector / 8, Ring0)
    }

    /// Fills the tables of a CPU that has not loaded them; to be called again
    /// for one that never came to it, at no cost.
    ///
    /// # Errors
    ///
    /// [`FatalError::NoStack`] when there is no memory for the interrupt
    /// stacks.
    pub fn prepare(cpu: usize) -> Result<(), FatalError> {
        let tables = percpu::block(cpu).tables.get();
        // SAFETY: the CPU does not run, and CPUs are prepared one after the
        // other by the boot processor, so nobody else refers to its tables.
        let Tables {
            segments,
            task_state,
        } = unsafe { &mut *tables };
        for index in [DOUBLE_FAULT_STACK, NMI_STACK, MACHINE_CHECK_STACK] {
            let index = usize::from(index);
            if task_state.interrupt_stack_table[index].is_null() {
                let stack = KernelStack::new().map_err(|_| FatalError::NoStack)?;
                task_state.interrupt_stack_table[index] = stack.top();
                // The processor uses it from now on, for ever.
                core::mem::forget(stack);
            }
        }
        // SAFETY: the task state is in a static, so its address stays good.
        let Descriptor::SystemSegment(low, high) =
            (unsafe { Descriptor::tss_segment_unchecked(task_state) })
        else {
            return Err(FatalError::NoStack);
        };
        let task = usize::from(TASK_STATE / 8);
        let number = usize::from(CPU_NUMBER / 8);
        for (index, slot) in segments.iter_mut().enumerate() {
            *slot = if index == task {
                low
            } else if index == task + 1 {
                high
            } else if index == number {
                number_segment(cpu)
            } else {
                SEGMENTS.get(index).copied().unwrap_or(0)
            };
        }
        Ok(())
    }

    /// Loads the tables of `cpu`, which must be this one, and prepared.
    pub fn load(cpu: usize) {
        let tables = percpu::block(cpu).tables.get();
        // SAFETY: only an address is made, inside a static.
        let segments = unsafe { &raw const (*tables).segments };
        let pointer = DescriptorTablePointer {
            limit: (size_of::<[u64; ENTRIES]>() - 1) as u16,
            base: VirtAddr::from_ptr(segments),
        };
        // SAFETY: the table is in a static and holds valid descriptors where
        // the selectors loaded here point; the data segments that 64-bit code
        // never looks at get the null selector. Interrupts are off while GS
        // has lost its base.
        unsafe {
            instructions::tables::lgdt(&pointer);
            CS::set_reg(kernel_selector(KERNEL_CODE));
            SS::set_reg(kernel_selector(KERNEL_DATA));
            DS::set_reg(SegmentSelector::NULL);
            ES::set_reg(SegmentSelector::NULL);
            FS::set_reg(SegmentSelector::NULL);
            GS::set_reg(SegmentSelector::NULL);
            percpu::reload(cpu);
            load_tss(kernel_selector(TASK_STATE));
            // No local descriptors: firmware leaves LDTR with a base of 0, where
            // a program could put a call gate of its own making.
            core::arch::asm!("lldt {0:x}", in(reg) 0u16, options(nostack, preserves_flags));
        }
    }

    /// Sets the stack on which an interrupt from user mode arrives on this CPU.
    ///
    /// # Safety
    ///
    /// `top` must be the top of a mapped kernel stack that nobody uses while
    /// user mode runs, and stay so until the next call.
    pub unsafe fn set_kernel_stack(top: VirtAddr) {
        crate::sync::without_interrupts(|| {
            // SAFETY: this CPU's own task state, which the processor reads
            // only on an interrupt from user mode, and interrupts are off.
            unsafe {
                (*percpu::here().tables.get())
                    .task_state
                    .privilege_stack_table[0] = top
            };
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a selector's descriptor is: privilege, code, 64 bit, 32 bit.
    fn kind(selector: u16) -> (u64, bool, bool, bool) {
        let descriptor = SEGMENTS[usize::from(selector / 8)];
        let bit = |bit: u32| descriptor >> bit & 1 == 1;
        assert!(bit(47), "selector {selector:#x} has a present descriptor");
        (descriptor >> 45 & 3, bit(43), bit(53), bit(54))
    }

    #[test]
    fn every_selector_names_the_segment_that_linux_has_there() {
        assert_eq!(
            kind(KERNEL_CODE),
            (0, true, true, false),
            "kernel code, 64 bit"
        );
        assert!(!kind(KERNEL_DATA).1, "kernel data");
        assert_eq!(
            kind(USER_CODE_32),
            (3, true, false, true),
            "user code, 32 bit"
        );
        assert_eq!(
            (kind(USER_DATA).0, kind(USER_DATA).1),
            (3, false),
            "user data"
        );
        assert_eq!(kind(USER_CODE), (3, true, true, false), "user code, 64 bit");
    }

    #[test]
    fn the_number_of_a_cpu_is_the_limit_of_a_segment_that_programs_may_ask() {
        for number in [0, 1, 255, 0xfffff] {
            let descriptor = number_segment(number);
            let limit = (descriptor & 0xffff) | (descriptor >> 48 & 0xf) << 16;
            assert_eq!(limit, number as u64, "limit of CPU {number}");
            assert_eq!(descriptor >> 55 & 1, 0, "counted in bytes");
            assert_eq!(descriptor >> 45 & 3, 3, "privilege");
            assert_eq!(descriptor >> 40 & 0x1f, 0x15, "read-only data, present");
        }
        assert_eq!(CPU_NUMBER, 15 * 8 + 3, "entry 15, as Linux has it");
    }

    #[test]
    fn syscall_and_sysret_find_the_segments_at_their_fixed_distances() {
        assert_eq!(KERNEL_CODE + 8, KERNEL_DATA, "syscall: SS is CS + 8");
        assert_eq!(USER_CODE_32 + 8, USER_DATA, "sysret: SS is base + 8");
        assert_eq!(
            USER_CODE_32 + 16,
            USER_CODE,
            "sysret: 64-bit CS is base + 16"
        );
    }
}
