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

use bootloader_api::BootloaderConfig;
use bootloader_api::info::TlsTemplate;
use elf::ElfBytes;
use elf::abi;
use elf::endian::LittleEndian;
use heapless::Vec;

use crate::span::Span;
use crate::{PAGE, relocate};

mod error;

pub use error::Error;

/// Most loadable segments; linkers make four or five.
pub const MAX_SEGMENTS: usize = 16;

/// Where the kernel's configuration is, see [`bootloader_api::entry_point`].
const CONFIG_SECTION: &str = ".bootloader-config";

/// End of the lower canonical half with 48-bit virtual addresses.
const LOWER_END: u64 = 1 << 47;
/// Start of the upper one.
const UPPER_START: u64 = 0xffff_8000_0000_0000;

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
mod tests;
