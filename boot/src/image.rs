//! The kernel's ELF file: what it asks for, checked, and its memory image.
//!
//! [`Image::parse`] accepts a static x86-64 executable (`ET_EXEC`, at the
//! addresses it was linked for) or a static position-independent one (`ET_DYN`,
//! anywhere). Everything a later step relies on is checked here once: segments
//! lie in the file and in one canonical half of the address space, share no
//! page, and none is writable and executable.
//!
//! [`Image::load`] writes the memory image into one slice that covers all
//! segments. Contents are copied out of the file rather than mapped in place,
//! since the archive aligns its entries to 512 bytes only.

use core::fmt;

use bootloader_api::BootloaderConfig;
use bootloader_api::info::TlsTemplate;
use elf::ElfBytes;
use elf::abi;
use elf::endian::LittleEndian;
use elf::parse::ParseError;
use heapless::Vec;

use crate::memory::Span;
use crate::{PAGE, relocate};

/// Most loadable segments; linkers make four or five.
pub const MAX_SEGMENTS: usize = 16;

/// Where the kernel's configuration is, see [`bootloader_api::entry_point`].
const CONFIG_SECTION: &str = ".bootloader-config";

/// End of the lower canonical half with 48-bit virtual addresses.
const LOWER_END: u64 = 1 << 47;
/// Start of the upper one.
const UPPER_START: u64 = 0xffff_8000_0000_0000;

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

/// One loadable segment; addresses are the linker's.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Addresses it occupies.
    pub span: Span,
    /// Initial contents; the rest of the span is zero.
    pub contents: &'a [u8],
    /// Whether the kernel may write it.
    pub writable: bool,
    /// Whether the kernel may execute it.
    pub executable: bool,
}

/// A checked kernel.
#[derive(Debug)]
pub struct Image<'a> {
    /// Segments by address.
    pub segments: Vec<Segment<'a>, MAX_SEGMENTS>,
    /// Pages from the first segment to the last.
    pub span: Span,
    /// Largest alignment a segment asks for, at least a page.
    pub alignment: u64,
    /// Whether it may be moved.
    pub position_independent: bool,
    /// Linker's address of the entry point.
    pub entry: u64,
    /// What the kernel wants from its loader.
    pub config: BootloaderConfig,
    /// Linker's addresses to make read-only once relocations are applied.
    pub read_only_after_load: Option<Span>,
    /// The thread-local storage template, addresses the linker's.
    pub tls: Option<TlsTemplate>,
    dynamic: Option<&'a [u8]>,
}

impl<'a> Image<'a> {
    /// Checks a file.
    ///
    /// # Errors
    ///
    /// The first thing found wrong; see [`Error`].
    pub fn parse(file: &'a [u8]) -> Result<Self, Error> {
        let elf = ElfBytes::<LittleEndian>::minimal_parse(file)?;
        let header = &elf.ehdr;
        if header.class != elf::file::Class::ELF64 || header.e_machine != abi::EM_X86_64 {
            return Err(Error::WrongMachine(header.e_machine));
        }
        let position_independent = match header.e_type {
            abi::ET_EXEC => false,
            abi::ET_DYN => true,
            other => return Err(Error::WrongType(other)),
        };

        let mut segments = Vec::new();
        let mut alignment = PAGE;
        let (mut relro, mut tls, mut dynamic) = (None, None, None);
        for header in elf.segments().ok_or(Error::NoSegments)?.iter() {
            match header.p_type {
                abi::PT_LOAD if header.p_memsz > 0 => {
                    if header.p_align > 1 {
                        if !header.p_align.is_power_of_two() {
                            return Err(Error::Malformed("segment alignment"));
                        }
                        alignment = alignment.max(header.p_align);
                    }
                    let segment = segment(file, &header)?;
                    segments.push(segment).map_err(|_| Error::TooManySegments)?;
                }
                abi::PT_GNU_RELRO => {
                    let span = Span::new(header.p_vaddr, header.p_memsz);
                    relro = Some(span.ok_or(Error::Malformed("read-only range"))?);
                }
                abi::PT_TLS => {
                    tls = Some(TlsTemplate {
                        start_addr: header.p_vaddr,
                        file_size: header.p_filesz,
                        mem_size: header.p_memsz,
                    });
                }
                abi::PT_DYNAMIC => dynamic = Some(slice(file, header.p_offset, header.p_filesz)?),
                _ => {}
            }
        }
        segments.sort_unstable_by_key(|segment| segment.span.start);
        let span = whole_span(&segments, position_independent)?;
        let image = Self {
            config: config(&elf)?,
            segments,
            span,
            alignment,
            position_independent,
            entry: header.e_entry,
            read_only_after_load: relro,
            tls,
            dynamic,
        };
        let entered = |s: &Segment<'_>| {
            s.executable && s.span.start <= image.entry && image.entry < s.span.end
        };
        if !image.segments.iter().any(entered) {
            return Err(Error::BadEntry(image.entry));
        }
        Ok(image)
    }

    /// Writes the image to run at the linker's addresses plus `base` (modulo
    /// 2^64). `memory` stands for the addresses of [`Image::span`].
    ///
    /// # Errors
    ///
    /// [`Error::Relocation`] and [`Error::RelocationTarget`] for what cannot be
    /// applied, [`Error::Truncated`] if `memory` is shorter than the span.
    pub fn load(&self, memory: &mut [u8], base: u64) -> Result<(), Error> {
        memory.fill(0);
        for segment in &self.segments {
            let offset = (segment.span.start - self.span.start) as usize;
            memory
                .get_mut(offset..)
                .and_then(|rest| rest.get_mut(..segment.contents.len()))
                .ok_or(Error::Truncated)?
                .copy_from_slice(segment.contents);
        }
        match self.dynamic {
            Some(table) => relocate::apply(self, table, memory, base),
            None => Ok(()),
        }
    }

    /// Whether a page of the segment at this linker's address stays writable
    /// after loading.
    pub fn stays_writable(&self, segment: &Segment<'_>, page: u64) -> bool {
        // The linker pads the range's end to a page; a page that the range only
        // begins in holds other data too and stays as it was.
        let frozen = self.read_only_after_load.is_some_and(|span| {
            span.contains(Span {
                start: page.max(segment.span.start),
                end: page.saturating_add(PAGE),
            })
        });
        segment.writable && !frozen
    }
}

/// The part of the file a segment's contents are.
fn slice(file: &[u8], offset: u64, length: u64) -> Result<&[u8], Error> {
    let span = Span::new(offset, length).ok_or(Error::Truncated)?;
    let range = usize::try_from(span.start)
        .ok()
        .zip(usize::try_from(span.end).ok());
    range
        .and_then(|(start, end)| file.get(start..end))
        .ok_or(Error::Truncated)
}

fn segment<'a>(file: &'a [u8], header: &elf::segment::ProgramHeader) -> Result<Segment<'a>, Error> {
    let at = header.p_vaddr;
    if header.p_filesz > header.p_memsz {
        return Err(Error::Malformed("segment size"));
    }
    let writable = header.p_flags & abi::PF_W != 0;
    let executable = header.p_flags & abi::PF_X != 0;
    if writable && executable {
        return Err(Error::WritableCode(at));
    }
    // A page must be left above, so that rounding to pages cannot wrap.
    let span = Span::new(at, header.p_memsz).filter(|span| span.end <= u64::MAX - PAGE);
    Ok(Segment {
        span: span.ok_or(Error::OutOfRange(at))?,
        contents: slice(file, header.p_offset, header.p_filesz)?,
        writable,
        executable,
    })
}

/// The pages from the first segment to the last, if no two share one and all
/// are in one canonical half.
fn whole_span(segments: &[Segment<'_>], movable: bool) -> Result<Span, Error> {
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
        return Err(Error::NoSegments);
    };
    for (segment, next) in segments.iter().zip(segments.iter().skip(1)) {
        if segment.span.pages().overlaps(next.span.pages()) {
            return Err(Error::Overlap(next.span.start));
        }
    }
    let span = Span {
        start: first.span.start,
        end: last.span.end,
    }
    .pages();
    // Page 0 stays unmapped, so that null pointers fault. An image that can be
    // moved is usually linked at 0.
    if !is_canonical(span) || (span.start == 0 && !movable) {
        return Err(Error::OutOfRange(first.span.start));
    }
    Ok(span)
}

/// Whether all of a span lies in one canonical half of the address space.
pub(crate) fn is_canonical(span: Span) -> bool {
    span.start <= span.end && (span.end <= LOWER_END || span.start >= UPPER_START)
}

fn config(elf: &ElfBytes<'_, LittleEndian>) -> Result<BootloaderConfig, Error> {
    let section = elf
        .section_header_by_name(CONFIG_SECTION)?
        .ok_or(Error::NoConfig)?;
    let (bytes, _) = elf.section_data(&section)?;
    BootloaderConfig::deserialize(bytes).map_err(Error::BadConfig)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{KERNEL_ENTRY, Kernel};
    use std::vec;

    #[test]
    fn a_position_independent_kernel_is_accepted() {
        let file = Kernel::default().build();
        let image = Image::parse(&file).unwrap();
        assert!(image.position_independent, "ET_DYN");
        assert_eq!(image.entry, KERNEL_ENTRY, "entry point");
        assert_eq!(
            image.span,
            Span {
                start: 0,
                end: 0x4000
            },
            "text, data and bss"
        );
        assert_eq!(
            image.config.kernel_stack_size, 0x1_8000,
            "its configuration"
        );
    }

    #[test]
    fn the_image_has_contents_zeros_and_relocated_pointers() {
        let file = Kernel::default().build();
        let image = Image::parse(&file).unwrap();
        let mut memory = vec![0xaa; 0x4000];
        image.load(&mut memory, 0xffff_8000_0000_0000).unwrap();
        assert_eq!(memory[KERNEL_ENTRY as usize], 0xf4, "code");
        assert_eq!(
            memory[0x2000..0x2008],
            0xffff_8000_0000_1000_u64.to_le_bytes(),
            "pointer"
        );
        assert!(
            memory[0x2010..0x4000].iter().all(|&byte| byte == 0),
            "bss is zero"
        );
    }

    #[test]
    fn other_files_are_told_apart() {
        assert_eq!(Image::parse(&[0; 100]).unwrap_err(), Error::NotElf, "zeros");
        assert_eq!(
            Image::parse(b"#!/bin/sh").unwrap_err(),
            Error::Truncated,
            "too short"
        );
        let arm = Kernel {
            machine: 183,
            ..Kernel::default()
        }
        .build();
        assert_eq!(
            Image::parse(&arm).unwrap_err(),
            Error::WrongMachine(183),
            "AArch64"
        );
        let object = Kernel {
            kind: 1,
            ..Kernel::default()
        }
        .build();
        assert_eq!(
            Image::parse(&object).unwrap_err(),
            Error::WrongType(1),
            "object file"
        );
        let mut narrow = Kernel::default().build();
        narrow[4] = 1;
        assert!(Image::parse(&narrow).is_err(), "32-bit");
    }

    #[test]
    fn a_truncated_file_is_refused_at_every_length() {
        let file = Kernel::default().build();
        for length in 0..file.len() {
            let refused = Image::parse(&file[..length]).unwrap_err();
            assert!(
                matches!(refused, Error::Truncated | Error::NoConfig),
                "{length} of {} bytes: {refused}",
                file.len()
            );
        }
    }

    #[test]
    fn writable_code_is_refused() {
        let file = Kernel {
            text_flags: 7,
            ..Kernel::default()
        }
        .build();
        assert_eq!(
            Image::parse(&file).unwrap_err(),
            Error::WritableCode(0x1000),
            "RWX"
        );
    }

    #[test]
    fn segments_that_share_a_page_are_refused() {
        let file = Kernel {
            data_address: 0x1800,
            ..Kernel::default()
        }
        .build();
        assert_eq!(
            Image::parse(&file).unwrap_err(),
            Error::Overlap(0x1800),
            "one page apart"
        );
    }

    #[test]
    fn segments_outside_the_address_space_are_refused() {
        for at in [
            LOWER_END - 0x1000,
            1 << 50,
            UPPER_START - 0x1000,
            u64::MAX - 0x800,
        ] {
            let file = Kernel {
                data_address: at,
                ..Kernel::default()
            }
            .build();
            let error = Image::parse(&file).unwrap_err();
            assert!(matches!(error, Error::OutOfRange(_)), "at {at:#x}: {error}");
        }
    }

    #[test]
    fn a_fixed_kernel_at_page_0_is_refused() {
        let file = Kernel {
            kind: abi::ET_EXEC,
            ..Kernel::default()
        }
        .build();
        assert_eq!(
            Image::parse(&file).unwrap_err(),
            Error::OutOfRange(0),
            "null must fault"
        );
    }

    #[test]
    fn an_entry_point_outside_code_is_refused() {
        for entry in [0, 0x2000, 0x9000] {
            let file = Kernel {
                entry,
                ..Kernel::default()
            }
            .build();
            assert_eq!(
                Image::parse(&file).unwrap_err(),
                Error::BadEntry(entry),
                "{entry:#x}"
            );
        }
    }

    #[test]
    fn a_kernel_without_a_configuration_is_refused() {
        let file = Kernel {
            config_name: ".bootloader-confog",
            ..Kernel::default()
        }
        .build();
        assert_eq!(
            Image::parse(&file).unwrap_err(),
            Error::NoConfig,
            "another section"
        );
        let mut file = Kernel::default().build();
        let uuid = file
            .windows(3)
            .position(|bytes| bytes == [0x74, 0x3c, 0xa9])
            .unwrap();
        file[uuid] ^= 1;
        assert_eq!(
            Image::parse(&file).unwrap_err(),
            Error::BadConfig("invalid UUID"),
            "damaged"
        );
    }

    #[test]
    fn pages_of_the_read_only_range_lose_their_write_permission() {
        let file = Kernel::default().build();
        let mut image = Image::parse(&file).unwrap();
        let data = *image.segments.last().unwrap();
        assert!(
            image.stays_writable(&data, 0x2000),
            "no range, all stays as it was"
        );
        image.read_only_after_load = Some(Span {
            start: 0x2000,
            end: 0x3000,
        });
        assert!(!image.stays_writable(&data, 0x2000), "in the range");
        assert!(image.stays_writable(&data, 0x3000), "behind it");
    }
}
