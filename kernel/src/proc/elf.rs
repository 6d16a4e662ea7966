//! Checks a static executable before anything of it is loaded.
//!
//! The file comes from outside, so nothing in it is believed: what passes
//! [`check`] has segments inside the file and inside user space, in ascending
//! order, each page in one segment only, none both writable and executable,
//! and an entry point in code. The loader can then copy without further
//! questions. Section headers are not looked at; a stripped file need not
//! have them.
//!
//! Limits: position-independent and dynamically linked programs are refused,
//! as are segments that share a page (the kernel would have to merge their
//! permissions) and executable stacks. Layout and rules are the gABI's.

use core::fmt;
use core::ops::Range;

use elf::abi;
use elf::endian::LittleEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::segment::{ProgramHeader, SegmentTable};
use heapless::Vec;

use super::layout;

/// Loadable segments that a program may have. Linkers make four.
pub const MAX_SEGMENTS: usize = 16;
/// Program headers that a program may have.
const MAX_HEADERS: u16 = 64;
/// Bytes of an ELF header and of a program header, 64-bit.
const HEADER: usize = 64;
const PROGRAM_HEADER: u16 = 56;

/// What a program may do with a segment; it may always read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Constants.
    Read,
    /// Data.
    Write,
    /// Code.
    Execute,
}

/// A loadable segment, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Addresses of its bytes, zeroed ones included; not page-aligned.
    pub memory: Range<u64>,
    /// Where in the file its first bytes are; the rest is zero.
    pub file: Range<usize>,
    /// What the program may do with it.
    pub access: Access,
}

impl Segment {
    /// The pages that the segment touches.
    #[must_use]
    pub fn pages(&self) -> Range<u64> {
        // `check` has seen that the end rounds up to at most the user limit.
        let end = layout::page_end(self.memory.end).unwrap_or(layout::LIMIT);
        layout::page_start(self.memory.start)..end
    }
}

/// A program that may be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Address of the first instruction.
    pub entry: u64,
    /// The segments, ascending, no page in two of them.
    pub segments: Vec<Segment, MAX_SEGMENTS>,
    /// Address of the program headers in memory, if a segment holds them.
    pub headers: Option<u64>,
    /// Number of program headers.
    pub header_count: u16,
}

impl Program {
    /// First page behind the last segment, where the break starts.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.segments
            .last()
            .map_or(layout::LOWEST, |segment| segment.pages().end)
    }
}

/// Why a program is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElfError {
    /// No ELF header.
    NotElf,
    /// A header that contradicts itself or the file's length.
    Malformed,
    /// A 32-bit program.
    Class32,
    /// Big-endian.
    BigEndian,
    /// For another processor; its number.
    Machine(u16),
    /// For another operating system; its number.
    OtherSystem(u8),
    /// Names a dynamic linker.
    Dynamic,
    /// Position-independent.
    PositionIndependent,
    /// An object file, a core dump, or something else that does not run.
    NotExecutable,
    /// More program headers or segments than this kernel takes.
    TooManySegments,
    /// Nothing to load.
    NoSegments,
    /// A segment outside the file.
    OutsideFile,
    /// A segment outside user space.
    OutsideUserSpace,
    /// A segment whose address and file offset differ within a page.
    Misaligned,
    /// Segments that are not in ascending order or share a page.
    Overlap,
    /// A segment (or the stack) that is both writable and executable.
    WritableCode,
    /// An entry point that is not in code.
    Entry,
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self {
            Self::NotElf => "not an ELF file",
            Self::Malformed => "malformed ELF header",
            Self::Class32 => "a 32-bit program",
            Self::BigEndian => "a big-endian program",
            Self::Machine(machine) => {
                return write!(f, "a program for another processor (machine {machine})");
            }
            Self::OtherSystem(system) => {
                return write!(f, "a program for another system (OSABI {system})");
            }
            Self::Dynamic => "dynamically linked; link it statically",
            Self::PositionIndependent => "position-independent; link it with -no-pie",
            Self::NotExecutable => "not an executable",
            Self::TooManySegments => "too many segments",
            Self::NoSegments => "nothing to load",
            Self::OutsideFile => "a segment outside the file",
            Self::OutsideUserSpace => "a segment outside user space",
            Self::Misaligned => "a misaligned segment",
            Self::Overlap => "segments overlap or are out of order",
            Self::WritableCode => "a segment that is both writable and executable",
            Self::Entry => "the entry point is not in code",
        };
        f.write_str(reason)
    }
}

impl core::error::Error for ElfError {}

/// Checks that `file` is a program which may be loaded, and says how.
///
/// # Errors
///
/// [`ElfError`] names the first reason against it.
pub fn check(file: &[u8]) -> Result<Program, ElfError> {
    let header = header(file)?;
    let table = usize::try_from(header.e_phoff).map_err(|_| ElfError::Malformed)?;
    let size = usize::from(header.e_phnum) * usize::from(PROGRAM_HEADER);
    let bytes = table
        .checked_add(size)
        .and_then(|end| file.get(table..end))
        .ok_or(ElfError::Malformed)?;

    let mut segments: Vec<Segment, MAX_SEGMENTS> = Vec::new();
    for entry in SegmentTable::new(LittleEndian, Class::ELF64, bytes).iter() {
        match entry.p_type {
            abi::PT_INTERP => return Err(ElfError::Dynamic),
            abi::PT_GNU_STACK if entry.p_flags & abi::PF_X != 0 => {
                return Err(ElfError::WritableCode);
            }
            abi::PT_LOAD if entry.p_memsz > 0 => {
                let segment = segment(&entry, file.len())?;
                if segments
                    .last()
                    .is_some_and(|last| segment.pages().start < last.pages().end)
                {
                    return Err(ElfError::Overlap);
                }
                segments
                    .push(segment)
                    .map_err(|_| ElfError::TooManySegments)?;
            }
            _ => {}
        }
    }
    if segments.is_empty() {
        return Err(ElfError::NoSegments);
    }
    let in_code = |segment: &Segment| {
        segment.access == Access::Execute && segment.memory.contains(&header.e_entry)
    };
    if !segments.iter().any(in_code) {
        return Err(ElfError::Entry);
    }
    Ok(Program {
        entry: header.e_entry,
        headers: headers_in_memory(&segments, table, size),
        segments,
        header_count: header.e_phnum,
    })
}

/// The file header, if it is one of a static x86-64 Linux executable.
fn header(file: &[u8]) -> Result<FileHeader<LittleEndian>, ElfError> {
    let (ident, rest) = file
        .get(..HEADER)
        .and_then(|header| header.split_at_checked(abi::EI_NIDENT))
        .ok_or(ElfError::NotElf)?;
    if !ident.starts_with(&abi::ELFMAGIC) {
        return Err(ElfError::NotElf);
    }
    match ident.get(abi::EI_CLASS) {
        Some(&abi::ELFCLASS64) => {}
        Some(&abi::ELFCLASS32) => return Err(ElfError::Class32),
        _ => return Err(ElfError::Malformed),
    }
    if ident.get(abi::EI_DATA) == Some(&abi::ELFDATA2MSB) {
        return Err(ElfError::BigEndian);
    }
    let ident = parse_ident::<LittleEndian>(ident).map_err(|_| ElfError::Malformed)?;
    let header = FileHeader::parse_tail(ident, rest).map_err(|_| ElfError::Malformed)?;
    if header.e_machine != abi::EM_X86_64 {
        return Err(ElfError::Machine(header.e_machine));
    }
    if !matches!(header.osabi, abi::ELFOSABI_SYSV | abi::ELFOSABI_LINUX) {
        return Err(ElfError::OtherSystem(header.osabi));
    }
    if header.e_phnum > MAX_HEADERS {
        return Err(ElfError::TooManySegments);
    }
    if header.e_phnum > 0 && header.e_phentsize != PROGRAM_HEADER {
        return Err(ElfError::Malformed);
    }
    match header.e_type {
        abi::ET_EXEC => Ok(header),
        abi::ET_DYN if names_interpreter(file, &header) => Err(ElfError::Dynamic),
        abi::ET_DYN => Err(ElfError::PositionIndependent),
        _ => Err(ElfError::NotExecutable),
    }
}

/// A position-independent file that asks for a dynamic linker.
fn names_interpreter(file: &[u8], header: &FileHeader<LittleEndian>) -> bool {
    let start = usize::try_from(header.e_phoff).ok();
    let size = usize::from(header.e_phnum) * usize::from(PROGRAM_HEADER);
    start
        .and_then(|start| file.get(start..start.checked_add(size)?))
        .is_some_and(|bytes| {
            SegmentTable::new(LittleEndian, Class::ELF64, bytes)
                .iter()
                .any(|entry| entry.p_type == abi::PT_INTERP)
        })
}

/// One loadable segment, checked by itself.
fn segment(entry: &ProgramHeader, file_size: usize) -> Result<Segment, ElfError> {
    if entry.p_filesz > entry.p_memsz {
        return Err(ElfError::Malformed);
    }
    let file_end = entry.p_offset.checked_add(entry.p_filesz);
    let file = usize::try_from(entry.p_offset)
        .ok()
        .zip(file_end.and_then(|end| usize::try_from(end).ok()))
        .filter(|&(_, end)| end <= file_size)
        .map(|(start, end)| start..end)
        .ok_or(ElfError::OutsideFile)?;
    let memory = entry
        .p_vaddr
        .checked_add(entry.p_memsz)
        // Below the mappings, which leaves room for the break as well.
        .filter(|&end| entry.p_vaddr >= layout::LOWEST && end <= layout::MMAP_BOTTOM)
        .map(|end| entry.p_vaddr..end)
        .ok_or(ElfError::OutsideUserSpace)?;
    if entry.p_vaddr % layout::PAGE != entry.p_offset % layout::PAGE {
        return Err(ElfError::Misaligned);
    }
    let access = match (
        entry.p_flags & abi::PF_W != 0,
        entry.p_flags & abi::PF_X != 0,
    ) {
        (false, false) => Access::Read,
        (true, false) => Access::Write,
        (false, true) => Access::Execute,
        (true, true) => return Err(ElfError::WritableCode),
    };
    Ok(Segment {
        memory,
        file,
        access,
    })
}

/// Address of the program headers, for `AT_PHDR`.
fn headers_in_memory(segments: &[Segment], table: usize, size: usize) -> Option<u64> {
    segments
        .iter()
        .find(|segment| segment.file.start <= table && table + size <= segment.file.end)
        .map(|segment| segment.memory.start + (table - segment.file.start) as u64)
}

#[cfg(test)]
#[path = "elf_tests.rs"]
mod tests;
