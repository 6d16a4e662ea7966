//! The two forms of the local APIC's registers, and a value that is either.
//!
//! Source: Intel SDM volume 3A, interrupt command register (figure 12-12), x2APIC
//! (12.12, register map in table 12-6).

use super::Register;
use crate::bus::{Mmio, Msr};

/// The first of the registers in x2APIC mode.
const X2APIC_MSRS: u32 = 0x800;
/// Delivery status of the interrupt command, in xAPIC mode only.
const COMMAND_PENDING: u32 = 1 << 12;
/// Reads of it, some 100 ns each, before the next command is stored anyhow.
const COMMAND_POLLS: u32 = 10_000;

/// How the registers are reached.
pub trait Access: Sync {
    /// Loads a register.
    fn get(&self, register: Register) -> u32;
    /// Stores to a register. Not to the two of the interrupt command.
    fn set(&self, register: Register, value: u32);
    /// The ID.
    fn id(&self) -> u32;
    /// Whether this is x2APIC mode.
    fn is_x2apic(&self) -> bool {
        false
    }
    /// Stores an interrupt command, which sends it. Interrupts are off.
    fn command(&self, destination: u32, command: u32);
}

/// xAPIC mode: a page of memory.
impl<M: Mmio> Access for M {
    #[inline]
    fn get(&self, register: Register) -> u32 {
        self.read(register as u16)
    }

    #[inline]
    fn set(&self, register: Register, value: u32) {
        self.write(register as u16, value);
    }

    fn id(&self) -> u32 {
        self.get(Register::Id) >> 24
    }

    fn command(&self, destination: u32, command: u32) {
        // One that is still on its way must not be overwritten. It takes a
        // microsecond; one that never leaves is not worth waiting for.
        for _ in 0..COMMAND_POLLS {
            if self.get(Register::CommandLow) & COMMAND_PENDING == 0 {
                break;
            }
        }
        self.set(Register::CommandHigh, destination << 24);
        self.set(Register::CommandLow, command);
    }
}

/// x2APIC mode: model-specific registers.
#[derive(Clone, Copy, Debug)]
pub struct X2Apic<S>(pub S);

impl<S: Msr + Sync> Access for X2Apic<S> {
    #[inline]
    fn get(&self, register: Register) -> u32 {
        self.0.read(msr_of(register)) as u32
    }

    #[inline]
    fn set(&self, register: Register, value: u32) {
        self.0.write(msr_of(register), u64::from(value));
    }

    fn id(&self) -> u32 {
        self.get(Register::Id)
    }

    fn is_x2apic(&self) -> bool {
        true
    }

    fn command(&self, destination: u32, command: u32) {
        // One register of 64 bits, and nothing to wait for.
        let value = u64::from(destination) << 32 | u64::from(command);
        self.0.write(msr_of(Register::CommandLow), value);
    }
}

const fn msr_of(register: Register) -> u32 {
    X2APIC_MSRS + (register as u32 >> 4)
}

/// Registers in the form that was found at run time.
#[derive(Clone, Copy, Debug)]
pub enum Registers<M, S> {
    /// xAPIC mode.
    Memory(M),
    /// x2APIC mode.
    Msrs(X2Apic<S>),
}

impl<M: Mmio, S: Msr + Sync> Access for Registers<M, S> {
    #[inline]
    fn get(&self, register: Register) -> u32 {
        match self {
            Self::Memory(memory) => memory.get(register),
            Self::Msrs(msrs) => msrs.get(register),
        }
    }

    #[inline]
    fn set(&self, register: Register, value: u32) {
        match self {
            Self::Memory(memory) => memory.set(register, value),
            Self::Msrs(msrs) => msrs.set(register, value),
        }
    }

    fn id(&self) -> u32 {
        match self {
            Self::Memory(memory) => memory.id(),
            Self::Msrs(msrs) => msrs.id(),
        }
    }

    fn is_x2apic(&self) -> bool {
        matches!(self, Self::Msrs(_))
    }

    fn command(&self, destination: u32, command: u32) {
        match self {
            Self::Memory(memory) => memory.command(destination, command),
            Self::Msrs(msrs) => msrs.command(destination, command),
        }
    }
}
