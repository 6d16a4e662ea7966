//! The archive in the kernel's address space, with the command line added.
//!
//! Without a command line the archive's own frames are mapped and that is all.
//! With one, the frames up to the page in which the last entry ends are mapped
//! in place, and a *tail* of new frames follows: the bytes of that page that
//! belong to the archive, the added entry, the end mark. See [`crate::archive`]
//! for the reason.

use crate::PAGE;
use crate::archive::{COMMAND_LINE, entry_length, write_entry};
use crate::span::Span;

/// How the RAM disk is put together; all but `length` in whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RamDisk {
    /// Physical pages that are mapped in place, in front.
    pub in_place: Span,
    /// Number of new frames behind them.
    pub tail_pages: u64,
    /// Physical addresses of the bytes that the tail begins with.
    pub carried: Span,
    /// Offset of the archive's first byte in the first page.
    pub offset: u64,
    /// Length of the whole archive in bytes.
    pub length: u64,
}

impl RamDisk {
    /// Lays out the archive at `archive`, whose entries end `end` bytes in.
    pub fn new(archive: Span, end: usize, command_line: &[u8]) -> Self {
        let offset = archive.start % PAGE;
        if command_line.is_empty() {
            return Self {
                in_place: archive.pages(),
                tail_pages: 0,
                carried: Span {
                    start: archive.end,
                    end: archive.end,
                },
                offset,
                length: archive.length(),
            };
        }
        let entries_end = archive.start + end as u64;
        let first_page = archive.start - offset;
        // An archive that starts and ends in one page has no page to keep.
        let tail_page = entries_end / PAGE * PAGE;
        let added = entry_length(command_line.len()) as u64;
        Self {
            in_place: Span {
                start: first_page,
                end: tail_page,
            },
            tail_pages: (entries_end - tail_page + added).div_ceil(PAGE),
            carried: Span {
                start: tail_page,
                end: entries_end,
            },
            offset,
            length: end as u64 + added,
        }
    }

    /// All pages, in bytes.
    pub fn pages(&self) -> u64 {
        self.in_place.length() + self.tail_pages * PAGE
    }

    /// Writes the tail: what is at [`RamDisk::carried`], then the entry.
    /// `None` if the tail is smaller than was laid out.
    pub fn fill_tail(&self, tail: &mut [u8], carried: &[u8], command_line: &[u8]) -> Option<()> {
        tail.fill(0);
        tail.get_mut(..carried.len())?.copy_from_slice(carried);
        write_entry(tail.get_mut(carried.len()..)?, COMMAND_LINE, command_line).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::Archive;
    use crate::samples::archive;
    use std::vec;

    #[test]
    fn without_a_command_line_the_archive_is_mapped_as_it_is() {
        let disk = RamDisk::new(
            Span {
                start: 0x70_0000,
                end: 0x70_2800,
            },
            0x2000,
            b"",
        );
        assert_eq!(
            disk.in_place,
            Span {
                start: 0x70_0000,
                end: 0x70_3000
            },
            "its pages"
        );
        assert_eq!((disk.tail_pages, disk.length), (0, 0x2800), "and no more");
    }

    #[test]
    fn the_joined_pages_are_an_archive_with_the_command_line_in_it() {
        // Physical memory from address 0: the archive at different places in
        // its first page, and ending at different places in its last.
        for (start, contents) in [
            (0x1000, 100),
            (0x1000, 3000),
            (0x1200, 9000),
            (0x1e00, 0x1000),
        ] {
            let contents = vec![7; contents];
            let bytes = archive(&[("kernel", &contents)]);
            let span = Span {
                start,
                end: start + bytes.len() as u64,
            };
            let mut memory = vec![0xaa; 0x6000];
            memory[start as usize..span.end as usize].copy_from_slice(&bytes);

            let end = Archive::new(&bytes).unwrap().end_of_entries();
            let disk = RamDisk::new(span, end, b"kern.hz=100");
            let mut tail = vec![0xbb; (disk.tail_pages * PAGE) as usize];
            let carried = &memory[disk.carried.start as usize..disk.carried.end as usize];
            disk.fill_tail(&mut tail, carried, b"kern.hz=100").unwrap();
            let in_place = &memory[disk.in_place.start as usize..disk.in_place.end as usize];
            let joined = [in_place, &tail].concat();
            assert_eq!(
                disk.in_place,
                disk.in_place.pages(),
                "whole pages at {start:#x}"
            );
            assert_eq!(joined.len() as u64, disk.pages(), "pages at {start:#x}");

            let whole = &joined[disk.offset as usize..][..disk.length as usize];
            let whole = Archive::new(whole).unwrap();
            assert_eq!(
                whole.kernel(),
                Ok(&contents[..]),
                "the kernel at {start:#x}"
            );
            assert_eq!(
                whole.file(COMMAND_LINE),
                Some(&b"kern.hz=100"[..]),
                "at {start:#x}"
            );
        }
    }
}
