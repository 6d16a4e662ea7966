//! Firmware tables: finding and checking them.
//!
//! From the root pointer (RSDP) through the root table (XSDT, or RSDT where
//! that is all there is) to each table, by physical address. What the tables
//! say is decoded by `drivers`, from the bytes that [`table`] gives.
//!
//! **Why not the `acpi` crate.** Its handler cannot refuse an address, it
//! trusts the RSDP's length before the checksum and subtracts from the root
//! table's length unchecked, so firmware can make it fault. Here every address
//! and length goes through a reader that may say no, and what is malformed is
//! a line in the log and absent.
//!
//! Source: ACPI specification 6.5, sections 5.2.5 (RSDP), 5.2.6 (header),
//! 5.2.7 (RSDT), 5.2.8 (XSDT).

use core::fmt;

use heapless::Vec;
use spin::Once;

/// Bytes of the header that every table starts with.
const HEADER: usize = 36;
/// Longest table accepted. The largest real ones (DSDT) are some 100 KiB.
const LONGEST: usize = 1 << 20;
/// Most tables kept; real machines have about 30.
const MOST: usize = 64;

/// What is wrong with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcpiError {
    /// The loader found no root pointer.
    NoRootPointer,
    /// The address is not mapped, or is memory that is given out.
    Unreadable(u64),
    /// The root pointer at the address does not have its signature.
    NotRootPointer(u64),
    /// A length that is too short for its header or beyond all reason.
    BadLength(u64, u32),
    /// The bytes do not add up to 0.
    BadChecksum(u64),
    /// The root table at the address is neither RSDT nor XSDT.
    NotRootTable(u64),
}

impl fmt::Display for AcpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRootPointer => f.write_str("no root pointer"),
            Self::Unreadable(at) => write!(f, "nothing readable at {at:#x}"),
            Self::NotRootPointer(at) => write!(f, "no root pointer at {at:#x}"),
            Self::BadLength(at, len) => write!(f, "table at {at:#x} claims {len} bytes"),
            Self::BadChecksum(at) => write!(f, "table at {at:#x} has a wrong checksum"),
            Self::NotRootTable(at) => write!(f, "no root table at {at:#x}"),
        }
    }
}

impl core::error::Error for AcpiError {}

/// Reads physical memory: address, length; `None` where it may not.
pub type Reader<'a> = &'a dyn Fn(u64, usize) -> Option<&'static [u8]>;

/// The tables that were found whole.
#[derive(Debug, Default)]
pub struct Tables(Vec<&'static [u8], MOST>);

/// The little-endian number of `size` bytes (at most 8) at `offset`.
fn number(bytes: &[u8], offset: usize, size: usize) -> Option<u64> {
    let field = bytes.get(offset..offset.checked_add(size)?)?;
    let mut whole = [0; 8];
    whole.get_mut(..size)?.copy_from_slice(field);
    Some(u64::from_le_bytes(whole))
}

fn adds_up(bytes: &[u8]) -> bool {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) == 0
}

/// The whole table at an address, its length and checksum verified.
fn whole_table(read: Reader<'_>, at: u64) -> Result<&'static [u8], AcpiError> {
    let header = read(at, HEADER).ok_or(AcpiError::Unreadable(at))?;
    let len = number(header, 4, 4).unwrap_or(0) as u32;
    if !(HEADER..=LONGEST).contains(&(len as usize)) {
        return Err(AcpiError::BadLength(at, len));
    }
    let bytes = read(at, len as usize).ok_or(AcpiError::Unreadable(at))?;
    if adds_up(bytes) {
        Ok(bytes)
    } else {
        Err(AcpiError::BadChecksum(at))
    }
}

/// Where the root pointer says the root table is.
fn root_table(read: Reader<'_>, at: u64) -> Result<u64, AcpiError> {
    let first = read(at, 20).ok_or(AcpiError::Unreadable(at))?;
    if !first.starts_with(b"RSD PTR ") {
        return Err(AcpiError::NotRootPointer(at));
    }
    if !adds_up(first) {
        return Err(AcpiError::BadChecksum(at));
    }
    let rsdt = number(first, 16, 4).unwrap_or(0);
    let revision = number(first, 15, 1).unwrap_or(0);
    if revision >= 2 {
        // The rest came with ACPI 2.0: length, XSDT, a checksum over all. Where
        // it is wrong the first part still stands.
        let xsdt = read(at, 36)
            .filter(|whole| adds_up(whole))
            .and_then(|whole| number(whole, 24, 8))
            .filter(|&xsdt| xsdt != 0);
        return Ok(xsdt.unwrap_or(rsdt));
    }
    Ok(rsdt)
}

impl Tables {
    /// Finds the tables from the root pointer at physical address `rsdp`.
    /// `skipped` is told of each one left out because it is malformed.
    ///
    /// # Errors
    ///
    /// [`AcpiError`] when the root pointer or the root table is malformed.
    pub fn find(
        rsdp: u64,
        read: Reader<'_>,
        mut skipped: impl FnMut(AcpiError),
    ) -> Result<Self, AcpiError> {
        let at = root_table(read, rsdp)?;
        let root = whole_table(read, at)?;
        let size = match root.get(..4) {
            Some(b"XSDT") => 8,
            Some(b"RSDT") => 4,
            _ => return Err(AcpiError::NotRootTable(at)),
        };
        let mut tables = Vec::new();
        for entry in root.get(HEADER..).unwrap_or_default().chunks_exact(size) {
            let at = number(entry, 0, size).unwrap_or(0);
            match whole_table(read, at) {
                // More than anybody looks for: the rest is not kept.
                Ok(bytes) => drop(tables.push(bytes)),
                Err(error) => skipped(error),
            }
        }
        Ok(Self(tables))
    }

    /// The bytes, header included, of the first table with this signature.
    pub fn table(&self, signature: &[u8; 4]) -> Option<&'static [u8]> {
        self.0
            .iter()
            .copied()
            .find(|bytes| bytes.starts_with(signature))
    }

    /// The signatures, in the order of the root table.
    pub fn signatures(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|bytes| {
            bytes
                .get(..4)
                .and_then(|name| str::from_utf8(name).ok())
                .unwrap_or("????")
        })
    }
}

static TABLES: Once<Tables> = Once::new();

/// Finds this machine's tables and logs what was found.
#[cfg(target_os = "none")]
pub fn init(rsdp: Option<u64>) {
    let found = rsdp.ok_or(AcpiError::NoRootPointer).and_then(|rsdp| {
        Tables::find(rsdp, &crate::mm::phys::firmware_bytes, |error| {
            crate::klog!("acpi: skipped: {error}");
        })
    });
    match found {
        Ok(tables) => {
            let tables = TABLES.call_once(|| tables);
            let mut names = heapless::String::<{ MOST * 5 }>::new();
            for name in tables.signatures() {
                // Room for all: four letters and a space each.
                let _ = names.push(' ').and_then(|()| names.push_str(name));
            }
            crate::klog!("acpi:{names}");
        }
        Err(error) => crate::klog!("acpi: {error}"),
    }
}

/// The bytes, header included, of this machine's table with that signature.
pub fn table(signature: &[u8; 4]) -> Option<&'static [u8]> {
    TABLES.get()?.table(signature)
}

#[cfg(test)]
#[path = "acpi_tests.rs"]
mod tests;
