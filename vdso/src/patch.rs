//! Fits the object's image to the processor, before it is mapped.
//!
//! The object is built for any x86-64 processor: its ordered TSC reads are
//! `LFENCE` and `RDTSC` ([`crate::counter`]). A kernel that measured `RDTSCP` to
//! be cheaper replaces them in its copy of the image. Where they are says a note
//! in the object, found through its program headers, so that section headers may
//! be stripped:
//!
//! ```text
//! owner "Timehands", type 1; descriptor: entries of 8 bytes each
//!   +0  i32  place, relative to this entry
//!   +4  u32  what is there: 1 = ORDER, 2 = TSC
//! ```
//!
//! Offsets in the file are offsets in memory, for the object has one loadable
//! segment that starts with the file.
//!
//! An image is untrusted: every number is checked against its length, every
//! place must hold one of the two sequences that may be there, and nothing is
//! written before all of them have been looked at.

#![deny(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used
)]

use core::fmt;

/// Mark of a place that orders: `lfence`, or a no-operation.
pub const ORDER: u32 = 1;
/// Mark of a place that reads the counter: `rdtsc` and `nop`, or `rdtscp`.
pub const TSC: u32 = 2;

/// Owner of the note, with the terminating zero and padded to four bytes.
const OWNER: [u8; 12] = *b"Timehands\0\0\0";
/// Type of the note.
const SITES: u32 = 1;

const LFENCE: [u8; 3] = [0x0f, 0xae, 0xe8];
const NOP: [u8; 3] = [0x0f, 0x1f, 0x00];
const RDTSC: [u8; 3] = [0x0f, 0x31, 0x90];
const RDTSCP: [u8; 3] = [0x0f, 0x01, 0xf9];

/// The instructions of an ordered TSC read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `lfence; rdtsc`.
    Lfence,
    /// `rdtscp`.
    Rdtscp,
}

impl Form {
    /// What stands at a place that is marked as `place`.
    const fn bytes(self, place: u32) -> Option<[u8; 3]> {
        match (place, self) {
            (ORDER, Self::Lfence) => Some(LFENCE),
            (ORDER, Self::Rdtscp) => Some(NOP),
            (TSC, Self::Lfence) => Some(RDTSC),
            (TSC, Self::Rdtscp) => Some(RDTSCP),
            _ => None,
        }
    }
}

/// Why an image was left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchError {
    /// Not a 64-bit little-endian ELF file, or its program headers are not in it.
    NotElf,
    /// There is no table of places.
    NoTable,
    /// The table or an entry of it reaches outside the image, or is cut off.
    Truncated,
    /// An entry names something else than the two kinds of place, or there is
    /// neither of the two sequences.
    NotAPlace {
        /// Offset of the entry in the image.
        entry: usize,
    },
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotElf => f.write_str("not an ELF image"),
            Self::NoTable => f.write_str("no table of counter reads"),
            Self::Truncated => f.write_str("the table of counter reads leaves the image"),
            Self::NotAPlace { entry } => write!(f, "no counter read where entry {entry:#x} says"),
        }
    }
}

impl core::error::Error for PatchError {}

/// Makes every ordered TSC read of `image` one of form `form` and returns how
/// many places that were. An image may be patched again.
///
/// # Errors
///
/// [`PatchError`]; the image is then unchanged.
pub fn apply(image: &mut [u8], form: Form) -> Result<usize, PatchError> {
    let table = table(image)?;
    let entries = || table.clone().step_by(ENTRY);
    for entry in entries() {
        let (at, place) = site(image, entry)?;
        let found = read::<3>(image, at).ok_or(PatchError::Truncated)?;
        let known = [Form::Lfence, Form::Rdtscp].map(|form| form.bytes(place));
        if !known.contains(&Some(found)) {
            return Err(PatchError::NotAPlace { entry });
        }
    }
    for entry in entries() {
        let (at, place) = site(image, entry)?;
        let bytes = form.bytes(place).ok_or(PatchError::NotAPlace { entry })?;
        image
            .get_mut(at..)
            .and_then(|rest| rest.first_chunk_mut())
            .map(|to| *to = bytes)
            .ok_or(PatchError::Truncated)?;
    }
    Ok(table.len() / ENTRY)
}

/// Bytes of a table entry.
const ENTRY: usize = 8;

/// The place that the entry at `entry` names, and its mark.
fn site(image: &[u8], entry: usize) -> Result<(usize, u32), PatchError> {
    let distance = read(image, entry).map(i32::from_le_bytes);
    let place = entry
        .checked_add(4)
        .and_then(|at| read(image, at))
        .map(u32::from_le_bytes);
    let at = distance
        .and_then(|distance| isize::try_from(distance).ok())
        .and_then(|distance| entry.checked_add_signed(distance));
    at.zip(place).ok_or(PatchError::Truncated)
}

/// Where the table's entries are in the image.
fn table(image: &[u8]) -> Result<core::ops::Range<usize>, PatchError> {
    const IDENT: [u8; 7] = *b"\x7fELF\x02\x01\x01";
    const PHDR: usize = 56;
    const PT_NOTE: u32 = 4;
    if !image.starts_with(&IDENT) || half(image, 54) != Some(PHDR) {
        return Err(PatchError::NotElf);
    }
    let headers = long(image, 32).zip(half(image, 56));
    let (first, count) = headers.ok_or(PatchError::NotElf)?;
    for index in 0..count {
        // An image can have neither 2^16 headers nor 2^63 bytes.
        let header = first.saturating_add(index.saturating_mul(PHDR));
        let kind = read(image, header).map(u32::from_le_bytes);
        if kind.ok_or(PatchError::NotElf)? != PT_NOTE {
            continue;
        }
        let offset = long(image, header.saturating_add(8));
        let size = long(image, header.saturating_add(32));
        let (offset, size) = offset.zip(size).ok_or(PatchError::NotElf)?;
        if let Some(table) = find_note(image, offset, offset.saturating_add(size))? {
            return Ok(table);
        }
    }
    Err(PatchError::NoTable)
}

/// Our note's descriptor among the notes from `at` to `end`.
fn find_note(
    image: &[u8],
    mut at: usize,
    end: usize,
) -> Result<Option<core::ops::Range<usize>>, PatchError> {
    const HEADER: usize = 12;
    while at < end {
        let header = word(image, at)
            .zip(word(image, at.saturating_add(4)))
            .zip(word(image, at.saturating_add(8)));
        let ((owner, size), kind) = header.ok_or(PatchError::Truncated)?;
        let name = at.saturating_add(HEADER);
        let start = name.saturating_add(owner.next_multiple_of(4));
        let stop = start.saturating_add(size);
        if stop > end || stop > image.len() {
            return Err(PatchError::Truncated);
        }
        // Ten characters with the zero; the padding is not counted.
        if owner == 10 && kind == SITES as usize && read(image, name) == Some(OWNER) {
            return match size {
                0 => Err(PatchError::NoTable),
                _ if size.is_multiple_of(ENTRY) => Ok(Some(start..stop)),
                _ => Err(PatchError::Truncated),
            };
        }
        at = start.saturating_add(size.next_multiple_of(4));
    }
    Ok(None)
}

fn read<const N: usize>(image: &[u8], at: usize) -> Option<[u8; N]> {
    image.get(at..)?.first_chunk().copied()
}

fn half(image: &[u8], at: usize) -> Option<usize> {
    read(image, at).map(|bytes| usize::from(u16::from_le_bytes(bytes)))
}

/// A number of a note's header. A size near 2^32 is rounded up within `usize`.
fn word(image: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(read(image, at)?)).ok()
}

fn long(image: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(read(image, at)?)).ok()
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
