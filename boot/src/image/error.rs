//! What can be wrong with a kernel's file.

use core::fmt;

use elf::abi;
use elf::parse::ParseError;

use super::{CONFIG_SECTION, MAX_SEGMENTS};

/// Why a kernel cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The entry does not start with the ELF magic number.
    NotElf,
    /// An ELF file, but not 64-bit little-endian for x86-64.
    WrongMachine(u16),
    /// A type other than executable and position-independent executable.
    WrongType(u16),
    /// A table or a segment runs past the end of the file.
    Truncated,
    /// A field that makes no sense; what it is.
    Malformed(&'static str),
    /// There is nothing to load.
    NoSegments,
    /// More than [`MAX_SEGMENTS`].
    TooManySegments,
    /// A segment at this address is both writable and executable.
    WritableCode(u64),
    /// A segment at this address leaves the address space or a half of it.
    OutOfRange(u64),
    /// The segment at this address shares a page with another.
    Overlap(u64),
    /// The entry point is in no executable segment.
    BadEntry(u64),
    /// There is no section `.bootloader-config`.
    NoConfig,
    /// The configuration is from another version of the interface.
    BadConfig(&'static str),
    /// A relocation of a type only a dynamic linker could apply.
    Relocation(u32),
    /// A relocation that writes outside the loaded segments.
    RelocationTarget(u64),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotElf => write!(f, "the kernel is not an ELF file"),
            Self::WrongMachine(machine) => {
                write!(
                    f,
                    "the kernel is not for 64-bit x86 (ELF machine {machine})"
                )
            }
            Self::WrongType(kind) => {
                write!(f, "the kernel is not an executable (ELF type {kind})")
            }
            Self::Truncated => write!(f, "the kernel's ELF file is truncated"),
            Self::Malformed(what) => write!(f, "the kernel's ELF file has a bad {what}"),
            Self::NoSegments => write!(f, "the kernel has nothing to load"),
            Self::TooManySegments => {
                write!(
                    f,
                    "the kernel has more than {MAX_SEGMENTS} loadable segments"
                )
            }
            Self::WritableCode(at) => {
                write!(
                    f,
                    "the kernel's segment at {at:#x} is writable and executable"
                )
            }
            Self::OutOfRange(at) => {
                write!(
                    f,
                    "the kernel's segment at {at:#x} is out of the address range"
                )
            }
            Self::Overlap(at) => {
                write!(
                    f,
                    "the kernel's segment at {at:#x} shares a page with another"
                )
            }
            Self::BadEntry(at) => {
                write!(
                    f,
                    "the kernel's entry point {at:#x} is in no executable segment"
                )
            }
            Self::NoConfig => {
                write!(
                    f,
                    "the kernel has no {CONFIG_SECTION}: it was not built for bootloader_api"
                )
            }
            Self::BadConfig(why) => write!(f, "the kernel's {CONFIG_SECTION} is unusable: {why}"),
            Self::Relocation(kind) => {
                write!(
                    f,
                    "the kernel needs a dynamic linker (relocation type {kind})"
                )
            }
            Self::RelocationTarget(at) => {
                write!(
                    f,
                    "a relocation at {at:#x} is outside the kernel's segments"
                )
            }
        }
    }
}

impl From<ParseError> for Error {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::BadMagic(_) => Self::NotElf,
            ParseError::UnsupportedElfClass(_) | ParseError::UnsupportedElfEndianness(_) => {
                Self::WrongMachine(abi::EM_NONE)
            }
            ParseError::SliceReadError(_) => Self::Truncated,
            _ => Self::Malformed("table"),
        }
    }
}
