//! How a driver reaches its chip.
//!
//! Each trait is one kind of access that the processor has an instruction
//! for. The real ones are in [`native`](crate::native); the models of the
//! chips implement the same traits on a simulated clock. They are taken as
//! type parameters, not as trait objects, since a counter's read is hot.
//!
//! All methods take `&self`: the processor's buses are shared, and what must
//! not be interleaved says so where it is used
//! ([`PortIo::uninterrupted`]).

/// The 64 KiB I/O port space.
pub trait PortIo: Sync {
    /// `IN AL, port`.
    fn read_u8(&self, port: u16) -> u8;
    /// `OUT port, AL`.
    fn write_u8(&self, port: u16, value: u8);
    /// `IN EAX, port`.
    fn read_u32(&self, port: u16) -> u32;
    /// `OUT port, EAX`.
    fn write_u32(&self, port: u16, value: u32);
    /// Runs `section` with interrupts held off on the calling CPU, and puts
    /// the interrupt flag back as it was.
    ///
    /// It keeps a chip that is read in several accesses from being left half
    /// read for as long as an interrupt lasts. It excludes nobody on other
    /// CPUs and no NMI.
    fn uninterrupted<R>(&self, section: impl FnOnce() -> R) -> R;
}

/// A window of memory-mapped 32-bit registers.
///
/// Offsets are in bytes from the start of the window and multiples of 4. An
/// access is exactly one aligned 32-bit load or store, because several
/// hypervisors split or refuse anything else.
pub trait Mmio: Sync {
    /// Loads the register at `offset`.
    fn read(&self, offset: u16) -> u32;
    /// Stores to the register at `offset`.
    fn write(&self, offset: u16, value: u32);
}

/// Model-specific registers.
///
/// An access to a register that the processor does not have raises #GP; a
/// caller asks CPUID first.
pub trait Msr {
    /// `RDMSR`.
    fn read(&self, number: u32) -> u64;
    /// `WRMSR`.
    fn write(&self, number: u32, value: u64);
}

/// What `CPUID` returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuidRegisters {
    /// EAX.
    pub eax: u32,
    /// EBX.
    pub ebx: u32,
    /// ECX.
    pub ecx: u32,
    /// EDX.
    pub edx: u32,
}

/// The `CPUID` instruction; any `Fn(leaf, subleaf) -> CpuidRegisters` is one.
pub trait Cpuid {
    /// `CPUID` with EAX = `leaf` and ECX = `subleaf`.
    fn leaf(&self, leaf: u32, subleaf: u32) -> CpuidRegisters;
}

impl<F: Fn(u32, u32) -> CpuidRegisters> Cpuid for F {
    fn leaf(&self, leaf: u32, subleaf: u32) -> CpuidRegisters {
        self(leaf, subleaf)
    }
}

/// The two ways to read the time-stamp counter so that the read does not
/// execute before earlier loads have completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedRead {
    /// `LFENCE; RDTSC`.
    LfenceRdtsc,
    /// `RDTSCP`, where CPUID 8000_0001h EDX bit 27 announces it.
    Rdtscp,
}

/// The time-stamp counter.
pub trait TscRead: Sync {
    /// Its value, read in the way asked for.
    fn read(&self, how: OrderedRead) -> u64;
}

/// Passing time without touching a chip.
///
/// Loops that wait for a counter call this between reads: on a virtual machine
/// a read of an emulated chip costs thousands of times what a `PAUSE` does,
/// and a model moves its clock here.
pub trait Pace {
    /// Lets `turns` times the time of a `PAUSE` pass.
    fn relax(&self, turns: u32);
}

impl<T: PortIo> PortIo for &T {
    fn read_u8(&self, port: u16) -> u8 {
        (**self).read_u8(port)
    }
    fn write_u8(&self, port: u16, value: u8) {
        (**self).write_u8(port, value);
    }
    fn read_u32(&self, port: u16) -> u32 {
        (**self).read_u32(port)
    }
    fn write_u32(&self, port: u16, value: u32) {
        (**self).write_u32(port, value);
    }
    fn uninterrupted<R>(&self, section: impl FnOnce() -> R) -> R {
        (**self).uninterrupted(section)
    }
}

impl<T: Mmio> Mmio for &T {
    fn read(&self, offset: u16) -> u32 {
        (**self).read(offset)
    }
    fn write(&self, offset: u16, value: u32) {
        (**self).write(offset, value);
    }
}

impl<T: TscRead> TscRead for &T {
    fn read(&self, how: OrderedRead) -> u64 {
        (**self).read(how)
    }
}
