//! The real instructions behind the traits of [`bus`](crate::bus).
//!
//! The only file of the crate with `unsafe`. What can break memory safety
//! (ports, model-specific registers, physical registers) is a value that only
//! an `unsafe` constructor makes, so that the one who makes it answers for the
//! machine once; the drivers that are handed it stay safe code.

use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use core::hint::black_box;
use core::ptr::NonNull;

use volatile::VolatilePtr;

use crate::bus::{Cpuid, CpuidRegisters, Mmio, Msr, OrderedRead, Pace, PortIo, TscRead};

/// The I/O ports of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Ports(());

impl Ports {
    /// Access to the ports.
    ///
    /// # Safety
    ///
    /// The caller runs at a privilege level at which `IN`, `OUT`, `CLI` and
    /// `STI` are allowed, and hands the value only to drivers whose chips it
    /// may let them reprogram.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

impl PortIo for Ports {
    fn read_u8(&self, port: u16) -> u8 {
        let value;
        // SAFETY: the maker of `self` promised the privilege and answers for
        // the chip behind the port. No `nomem`: a counter read must stay
        // between the loads and stores around it in the program.
        unsafe {
            asm!("in al, dx", out("al") value, in("dx") port, options(nostack, preserves_flags));
        }
        value
    }

    fn write_u8(&self, port: u16, value: u8) {
        // SAFETY: as in `read_u8`. No `nomem`: the chip may act on memory that
        // was prepared before.
        unsafe {
            asm!("out dx, al", in("dx") port, in("al") value, options(nostack, preserves_flags));
        }
    }

    fn read_u32(&self, port: u16) -> u32 {
        let value;
        // SAFETY: as in `read_u8`.
        unsafe {
            asm!("in eax, dx", out("eax") value, in("dx") port, options(nostack, preserves_flags));
        }
        value
    }

    fn write_u32(&self, port: u16, value: u32) {
        // SAFETY: as in `write_u8`.
        unsafe {
            asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags));
        }
    }

    fn uninterrupted<R>(&self, section: impl FnOnce() -> R) -> R {
        /// RFLAGS.IF.
        const INTERRUPT_FLAG: u64 = 1 << 9;
        let flags: u64;
        // SAFETY: the maker of `self` promised the privilege for `CLI`; the
        // push is balanced by the pop. The kernel target has no red zone, and
        // without `nostack` the compiler keeps clear of one elsewhere.
        unsafe {
            asm!("pushfq", "pop {}", "cli", out(reg) flags, options(preserves_flags));
        }
        let result = section();
        if flags & INTERRUPT_FLAG != 0 {
            // SAFETY: interrupts were on before, so the caller was prepared
            // for them.
            unsafe {
                asm!("sti", options(nostack));
            }
        }
        result
    }
}

/// The model-specific registers of the calling CPU.
#[derive(Clone, Copy, Debug)]
pub struct Msrs(());

impl Msrs {
    /// Access to the model-specific registers.
    ///
    /// # Safety
    ///
    /// The caller runs at CPL 0, and hands the value only to code whose writes
    /// it agrees with: an MSR can move the system call entry.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

impl Msr for Msrs {
    fn read(&self, number: u32) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: the maker of `self` promised CPL 0; a register that does not
        // exist raises #GP, which is defined behaviour of the kernel.
        unsafe {
            asm!("rdmsr", in("ecx") number, out("eax") low, out("edx") high, options(nostack, preserves_flags));
        }
        u64::from(high) << 32 | u64::from(low)
    }

    fn write(&self, number: u32, value: u64) {
        let low = value as u32;
        let high = (value >> 32) as u32;
        // SAFETY: as in `read`, and the maker of `self` agreed to the write.
        unsafe {
            asm!("wrmsr", in("ecx") number, in("eax") low, in("edx") high, options(nostack, preserves_flags));
        }
    }
}

/// What every privilege level may ask the processor: `CPUID`, the time-stamp
/// counter, `PAUSE`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processor;

impl Cpuid for Processor {
    fn leaf(&self, leaf: u32, subleaf: u32) -> CpuidRegisters {
        let r = __cpuid_count(leaf, subleaf);
        CpuidRegisters {
            eax: r.eax,
            ebx: r.ebx,
            ecx: r.ecx,
            edx: r.edx,
        }
    }
}

impl TscRead for Processor {
    #[inline]
    fn read(&self, how: OrderedRead) -> u64 {
        let (low, high): (u32, u32);
        match how {
            // SAFETY: every x86_64 has LFENCE (SSE2) and RDTSC. One block, so
            // that nothing is scheduled between the two; no `nomem`, so that
            // no load moves past it.
            OrderedRead::LfenceRdtsc => unsafe {
                asm!("lfence", "rdtsc", out("eax") low, out("edx") high, options(nostack, preserves_flags));
            },
            // SAFETY: RDTSCP raises #UD where it is missing, which is defined
            // behaviour; it also writes ECX. No `nomem`, as above.
            OrderedRead::Rdtscp => unsafe {
                asm!("rdtscp", out("eax") low, out("edx") high, out("ecx") _, options(nostack, preserves_flags));
            },
        }
        u64::from(high) << 32 | u64::from(low)
    }
}

impl Pace for Processor {
    /// A division lasts as long as a `PAUSE` did before Skylake, 10 to 30
    /// cycles. `PAUSE` itself would make an emulator that counts instructions
    /// leave its translated code each time: 0.1 s of waiting there took 10 s.
    fn relax(&self, turns: u32) {
        let mut quotient = turns;
        for _ in 0..turns {
            quotient = black_box(u32::MAX / (quotient | 1));
        }
    }
}

/// The first KiB of a chip's register page, which is as much as the HPET and
/// the local APIC use.
#[derive(Clone, Copy, Debug)]
pub struct RegisterWindow(NonNull<[u32; WINDOW_WORDS]>);

const WINDOW_WORDS: usize = 256;

impl RegisterWindow {
    /// The window that starts at `base`.
    ///
    /// # Safety
    ///
    /// `base` is the address of 1 KiB of device registers, mapped uncached,
    /// readable and writable for as long as the value or a copy of it lives,
    /// and no Rust reference to that memory exists.
    #[must_use]
    pub const unsafe fn new(base: NonNull<[u32; WINDOW_WORDS]>) -> Self {
        Self(base)
    }

    fn register(&self, offset: u16) -> VolatilePtr<'_, u32> {
        let index = usize::from(offset / 4) % WINDOW_WORDS;
        // SAFETY: the index is below WINDOW_WORDS, so the pointer stays inside
        // the array that `new` was promised.
        let word = unsafe { self.0.cast::<u32>().add(index) };
        // SAFETY: `new` was promised memory that is mapped for the life of
        // `self`; it is aligned since the array is.
        unsafe { VolatilePtr::new(word) }
    }
}

// SAFETY: device registers belong to no thread. Each access is one aligned
// 32-bit load or store, which the bus makes atomic, so concurrent ones are no
// data race as far as memory is concerned; what the chip does with them is the
// driver's business.
unsafe impl Send for RegisterWindow {}
// SAFETY: as for `Send`.
unsafe impl Sync for RegisterWindow {}

impl Mmio for RegisterWindow {
    #[inline]
    fn read(&self, offset: u16) -> u32 {
        self.register(offset).read()
    }

    #[inline]
    fn write(&self, offset: u16, value: u32) {
        self.register(offset).write(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuid_and_the_counter_work_in_user_space() {
        let basic = Processor.leaf(0, 0);
        assert!(basic.eax >= 1, "leaf 0 reports at least leaf 1: {basic:?}");
        let first = Processor.read(OrderedRead::LfenceRdtsc);
        let second = Processor.read(OrderedRead::LfenceRdtsc);
        assert!(
            second >= first,
            "two ordered reads of one thread do not decrease"
        );
    }

    #[test]
    fn a_register_window_reaches_each_word_and_never_leaves_the_array() {
        let mut memory = [0_u32; WINDOW_WORDS];
        let base = NonNull::from(&mut memory);
        // SAFETY: the array outlives the window and is used only through it.
        let window = unsafe { RegisterWindow::new(base) };
        for word in 0..256_u16 {
            window.write(word * 4, u32::from(word) + 1);
        }
        for word in 0..256_u16 {
            assert_eq!(window.read(word * 4), u32::from(word) + 1, "word {word}");
        }
        assert_eq!(
            window.read(0x400),
            1,
            "an offset past the end wraps into the window"
        );
    }
}
