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
//!
//! The order is also what `syscall` and `sysret` ask for: with 0x10 and 0x23
//! in the STAR register they find every segment at its fixed distance.
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

#[cfg(target_os = "none")]
pub use tables::{init, set_kernel_stack};

#[cfg(target_os = "none")]
mod tables {
    use core::cell::UnsafeCell;

    use x86_64::PrivilegeLevel::Ring0;
    use x86_64::instructions::segmentation::{CS, DS, ES, FS, GS, SS, Segment};
    use x86_64::instructions::tables::load_tss;
    use x86_64::registers::segmentation::SegmentSelector;
    use x86_64::structures::DescriptorTablePointer;
    use x86_64::structures::gdt::Descriptor;
    use x86_64::structures::tss::TaskStateSegment;
    use x86_64::{VirtAddr, instructions};

    use super::{
        DOUBLE_FAULT_STACK, KERNEL_CODE, KERNEL_DATA, MACHINE_CHECK_STACK, NMI_STACK, SEGMENTS,
        TASK_STATE,
    };
    use crate::arch::cpu::FatalError;
    use crate::mm::stack::KernelStack;

    /// The segments and the two entries of the task state.
    const ENTRIES: usize = SEGMENTS.len() + 2;

    /// The tables of the one CPU, which the processor reads by address.
    struct Tables {
        segments: UnsafeCell<[u64; ENTRIES]>,
        task_state: UnsafeCell<TaskStateSegment>,
    }

    // SAFETY: written by `init`, before a second thread exists, and by
    // `set_kernel_stack`, on the CPU whose tables they are and with interrupts
    // off.
    unsafe impl Sync for Tables {}

    static TABLES: Tables = Tables {
        segments: UnsafeCell::new([0; ENTRIES]),
        task_state: UnsafeCell::new(TaskStateSegment::new()),
    };

    fn kernel_selector(selector: u16) -> SegmentSelector {
        SegmentSelector::new(selector / 8, Ring0)
    }

    /// Loads segments and task state.
    ///
    /// # Errors
    ///
    /// [`FatalError::NoStack`] when there is no memory for the interrupt
    /// stacks.
    pub fn init() -> Result<(), FatalError> {
        let task_state = TABLES.task_state.get();
        for index in [DOUBLE_FAULT_STACK, NMI_STACK, MACHINE_CHECK_STACK] {
            let stack = KernelStack::new().map_err(|_| FatalError::NoStack)?;
            // SAFETY: this runs once and alone, so nobody else refers to the
            // task state; the index is one of seven.
            unsafe { (*task_state).interrupt_stack_table[usize::from(index)] = stack.top() };
            // The processor uses it from now on, for ever.
            core::mem::forget(stack);
        }
        // SAFETY: the task state is a static, so its address stays good.
        let Descriptor::SystemSegment(low, high) =
            (unsafe { Descriptor::tss_segment_unchecked(task_state) })
        else {
            return Err(FatalError::NoStack);
        };
        // SAFETY: as for the task state.
        let segments = unsafe { &mut *TABLES.segments.get() };
        let (plain, task) = segments.split_at_mut(SEGMENTS.len());
        plain.copy_from_slice(&SEGMENTS);
        task.copy_from_slice(&[low, high]);
        let pointer = DescriptorTablePointer {
            limit: (size_of::<[u64; ENTRIES]>() - 1) as u16,
            base: VirtAddr::from_ptr(TABLES.segments.get()),
        };
        // SAFETY: the table is a static and holds valid descriptors where the
        // selectors loaded here point; the data segments that 64-bit code
        // never looks at get the null selector.
        unsafe {
            instructions::tables::lgdt(&pointer);
            CS::set_reg(kernel_selector(KERNEL_CODE));
            SS::set_reg(kernel_selector(KERNEL_DATA));
            DS::set_reg(SegmentSelector::NULL);
            ES::set_reg(SegmentSelector::NULL);
            FS::set_reg(SegmentSelector::NULL);
            GS::set_reg(SegmentSelector::NULL);
            load_tss(kernel_selector(TASK_STATE));
            // No local descriptors: firmware leaves LDTR with a base of 0, where
            // a program could put a call gate of its own making.
            core::arch::asm!("lldt {0:x}", in(reg) 0u16, options(nostack, preserves_flags));
        }
        Ok(())
    }

    /// Sets the stack on which an interrupt from user mode arrives.
    ///
    /// # Safety
    ///
    /// `top` must be the top of a mapped kernel stack that nobody uses while
    /// user mode runs, and stay so until the next call.
    pub unsafe fn set_kernel_stack(top: VirtAddr) {
        crate::sync::without_interrupts(|| {
            // SAFETY: this CPU's own task state, which the processor reads
            // only on an interrupt from user mode, and interrupts are off.
            unsafe { (*TABLES.task_state.get()).privilege_stack_table[0] = top };
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
