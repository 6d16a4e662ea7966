//! The two ACPI tables that describe counters: FADT and HPET.
//!
//! Input is the bytes of one table, header included, as something else found
//! and checksummed it. Every field is taken by a bounded read, nothing is
//! believed about lengths but the smaller of the slice's and the header's, and
//! no bytes at all make a decoder panic. [`madt`](crate::madt) does the same
//! for the interrupt controllers.
//!
//! Source: ACPI specification 6.5, sections 5.2.6 (header), 5.2.9 (FADT),
//! 5.2.3.2 (generic address); IA-PC HPET specification 1.0a, section 3.2.4.

use core::fmt;

use crate::acpi_timer::{self, AcpiTimerError};
use crate::hpet::HpetError;

const HEADER_TABLE_LENGTH: usize = 4;

const FADT_PM_TMR_BLK: usize = 76;
const FADT_PM_TMR_LEN: usize = 91;
const FADT_FLAGS: usize = 112;
const FADT_X_PM_TMR_BLK: usize = 208;
const HPET_BASE: usize = 40;

/// Why a table cannot be used at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// It is another table.
    Signature,
    /// Shorter than its fixed part, or than its own header says it is.
    Short,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Signature => "not the table that was asked for",
            Self::Short => "the table is cut short",
        })
    }
}

/// A table whose signature and length are right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a>(&'a [u8]);

impl<'a> Table<'a> {
    /// Checks the header and cuts the slice to the length it states.
    pub(crate) fn new(bytes: &'a [u8], signature: &[u8; 4]) -> Result<Self, TableError> {
        let table = Self(bytes);
        match table.bytes::<4>(0) {
            Some(found) if found == *signature => (),
            Some(_) => return Err(TableError::Signature),
            None => return Err(TableError::Short),
        }
        let length = table.u32(HEADER_TABLE_LENGTH).ok_or(TableError::Short)?;
        let length = usize::try_from(length).map_err(|_| TableError::Short)?;
        bytes.get(..length).map(Self).ok_or(TableError::Short)
    }

    /// Over any bytes, for parts of a table.
    pub(crate) const fn part(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes from `offset` on; none where the table ends before.
    pub(crate) fn rest(&self, offset: usize) -> &'a [u8] {
        self.0.get(offset..).unwrap_or_default()
    }

    fn bytes<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.0.get(offset..)?.first_chunk::<N>().copied()
    }

    pub(crate) fn u8(&self, offset: usize) -> Option<u8> {
        self.bytes(offset).map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&self, offset: usize) -> Option<u16> {
        self.bytes(offset).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&self, offset: usize) -> Option<u32> {
        self.bytes(offset).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&self, offset: usize) -> Option<u64> {
        self.bytes(offset).map(u64::from_le_bytes)
    }

    /// A generic address structure. Its widths are left out: firmware gets
    /// them wrong, and each register's own definition gives the access.
    fn generic_address(&self, offset: usize) -> Option<GenericAddress> {
        Some(GenericAddress {
            space: self.u8(offset)?,
            address: self.u64(offset + 4)?,
        })
    }
}

const SPACE_MEMORY: u8 = 0;
const SPACE_IO: u8 = 1;

struct GenericAddress {
    space: u8,
    address: u64,
}

/// Where the ACPI timer's register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerAddress {
    /// This I/O port.
    Port(u16),
    /// This physical address.
    Memory(u64),
}

/// What the FADT says about the ACPI timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerBlock {
    /// The register.
    pub address: TimerAddress,
    /// Width of the counter in bits, 24 or 32.
    pub width: u32,
}

/// Finds the ACPI timer in the FADT (signature `FACP`).
///
/// The extended address is preferred where it is usable: not 0, in memory or
/// a port that exists. Else the 32-bit port of ACPI 1.0 counts.
///
/// # Errors
///
/// [`AcpiTimerError`] for a table that is unusable or names no timer.
pub fn timer_block(fadt: &[u8]) -> Result<TimerBlock, AcpiTimerError> {
    let table = Table::new(fadt, b"FACP").map_err(|_| AcpiTimerError::NoFadt)?;
    let length = table.u8(FADT_PM_TMR_LEN).ok_or(AcpiTimerError::NoFadt)?;
    if !acpi_timer::present(length) {
        return Err(AcpiTimerError::Length(length));
    }
    let flags = table.u32(FADT_FLAGS).ok_or(AcpiTimerError::NoFadt)?;
    let port = |address: u64| {
        u16::try_from(address)
            .ok()
            .filter(|&port| port != 0)
            .map(TimerAddress::Port)
    };
    let extended = table
        .generic_address(FADT_X_PM_TMR_BLK)
        .and_then(|gas| match gas.space {
            SPACE_MEMORY if gas.address != 0 => Some(TimerAddress::Memory(gas.address)),
            SPACE_IO => port(gas.address),
            _ => None,
        });
    let address = extended
        .or_else(|| port(u64::from(table.u32(FADT_PM_TMR_BLK)?)))
        .ok_or(AcpiTimerError::NoRegister)?;
    Ok(TimerBlock {
        address,
        width: acpi_timer::width(flags),
    })
}

/// The physical address of the HPET's registers, by the table of that name.
///
/// The copies of capability fields in the table are not used: the chip's own
/// register decides.
///
/// # Errors
///
/// [`HpetError`] for a table that is unusable or places the registers
/// elsewhere than in memory.
pub fn hpet_address(hpet: &[u8]) -> Result<u64, HpetError> {
    let table = Table::new(hpet, b"HPET").map_err(|_| HpetError::NotInTables)?;
    let base = table
        .generic_address(HPET_BASE)
        .ok_or(HpetError::NotInTables)?;
    match base {
        GenericAddress { space, .. } if space != SPACE_MEMORY => {
            Err(HpetError::AddressSpace(space))
        }
        GenericAddress { address: 0, .. } => Err(HpetError::NoRegisters(0)),
        GenericAddress { address, .. } => Ok(address),
    }
}
