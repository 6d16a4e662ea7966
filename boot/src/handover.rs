//! What a boot protocol hands over, whichever it was.
//!
//! Everything is read through [`PhysicalMemory`], so that a test can put a
//! structure at any address. Pointers come from outside: each is checked
//! against what the loader can reach, lengths are bounded before they are used,
//! and what the loader needs later is either copied or set aside in the map.

use core::fmt;

use heapless::Vec;

use crate::memory::{self, MemoryMap};
use crate::span::Span;

/// Longest command line taken; Linux's limit is the same.
pub const MAX_COMMAND_LINE: usize = 2048;

/// Physical memory as the loader sees it.
pub trait PhysicalMemory {
    /// The bytes of `span`, or `None` if any of it is out of reach.
    fn bytes(&self, span: Span) -> Option<&[u8]>;
}

/// Everything the loader needs to know about the machine.
#[derive(Clone, Debug)]
pub struct Handover {
    /// Firmware's memory map; the archive and whatever must outlive the loader
    /// are already set aside in it.
    pub memory: MemoryMap,
    /// Physical addresses of the one module.
    pub archive: Span,
    /// The command line, without the terminating NUL.
    pub command_line: Vec<u8, MAX_COMMAND_LINE>,
    /// Physical address of the ACPI root pointer, if the protocol knows it.
    pub rsdp: Option<u64>,
}

/// What is wrong with a handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The entry code was reached by neither protocol.
    UnknownProtocol(u32),
    /// A pointer leads out of the first 4 GiB, or a length does.
    OutOfReach(&'static str, u64),
    /// The structure does not start with its magic number.
    BadMagic(u32),
    /// A structure of this size cannot be right.
    BadSize(&'static str, u32),
    /// No memory map, or one without memory.
    NoMemoryMap,
    /// The memory map cannot be used.
    Memory(memory::Error),
    /// There is no module: the archive with the kernel is missing.
    NoModule,
    /// The module is not in memory that the map reports and the loader leaves free.
    ModuleNotInMemory(Span),
    /// The command line is longer than [`MAX_COMMAND_LINE`].
    LongCommandLine,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownProtocol(magic) => {
                write!(
                    f,
                    "started by an unknown boot protocol (magic {magic:#010x})"
                )
            }
            Self::OutOfReach(what, address) => {
                write!(f, "{what} at {address:#x} is not in the first 4 GiB")
            }
            Self::BadMagic(magic) => write!(f, "start info has magic {magic:#010x}"),
            Self::BadSize(what, size) => write!(f, "{what} has an impossible size of {size}"),
            Self::NoMemoryMap => write!(f, "no memory map from the boot protocol"),
            Self::Memory(error) => error.fmt(f),
            Self::NoModule => {
                write!(
                    f,
                    "no module: pass the archive that holds the kernel (-initrd, module2)"
                )
            }
            Self::ModuleNotInMemory(span) => {
                write!(f, "the module at {span} is not in free memory")
            }
            Self::LongCommandLine => {
                write!(f, "the command line has more than {MAX_COMMAND_LINE} bytes")
            }
        }
    }
}

impl From<memory::Error> for Error {
    fn from(error: memory::Error) -> Self {
        Self::Memory(error)
    }
}

impl Handover {
    /// Checks the parts against each other and sets the archive aside.
    pub(crate) fn new(
        mut memory: MemoryMap,
        archive: Option<Span>,
        command_line: Vec<u8, MAX_COMMAND_LINE>,
        rsdp: Option<u64>,
    ) -> Result<Self, Error> {
        if !memory.has_memory() {
            return Err(Error::NoMemoryMap);
        }
        let archive = archive
            .filter(|span| span.length() > 0)
            .ok_or(Error::NoModule)?;
        if !memory.is_memory(archive) {
            return Err(Error::ModuleNotInMemory(archive));
        }
        memory.add_used(archive)?;
        Ok(Self {
            memory,
            archive,
            command_line,
            rsdp,
        })
    }
}

/// The bytes of a structure, or the error that names it.
pub(crate) fn structure<'a>(
    memory: &'a impl PhysicalMemory,
    what: &'static str,
    address: u64,
    length: u64,
) -> Result<&'a [u8], Error> {
    Span::new(address, length)
        .and_then(|span| memory.bytes(span))
        .ok_or(Error::OutOfReach(what, address))
}

/// Little-endian u32 at `offset`; 0 past the end, which no caller reads.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes
        .get(offset..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// Little-endian u64 at `offset`; 0 past the end, which no caller reads.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    bytes
        .get(offset..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u64::from_le_bytes(*chunk))
}
