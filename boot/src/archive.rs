//! The RAM disk: a ustar archive that holds the kernel and its files.
//!
//! Both boot protocols can pass one file beside the loader, so everything
//! travels in one. The kernel is the entry `kernel`; the whole archive is
//! handed on.
//!
//! **The command line.** `BootInfo` has no field for it. Tunables therefore
//! travel as the entry `cmdline`, under any loader, and this loader adds what
//! its boot protocol passed as one more entry, [`COMMAND_LINE`], at the
//! archive's end, where the two zero blocks were. The kernel reads `cmdline`
//! first and then this entry, so that what was typed at the machine wins. The
//! memory behind a module is not the loader's to write, so the archive's last
//! page is copied, extended there, and mapped in place of the original: in the
//! kernel's address space the archive is one piece.

use core::fmt;

use tar_no_std::{CorruptDataError, TarArchiveRef, TypeFlag};

/// Entry that the kernel's ELF file is in.
pub const KERNEL: &str = "kernel";
/// Entry that the boot protocol's command line is added as.
pub const COMMAND_LINE: &str = "cmdline.boot";

/// Unit of the format: headers and padded contents.
const BLOCK: usize = 512;
/// The mark at an archive's end: two blocks of zeros.
const END: usize = 2 * BLOCK;

/// Why an archive cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is not a ustar archive, or a damaged one.
    Corrupt(CorruptDataError),
    /// It has no entry [`KERNEL`].
    NoKernel,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(error) => write!(f, "the module is not a tar archive: {error}"),
            Self::NoKernel => write!(f, "the archive has no entry named {KERNEL}"),
        }
    }
}

/// A checked archive.
#[derive(Clone, Debug)]
pub struct Archive<'a> {
    tar: TarArchiveRef<'a>,
}

impl<'a> Archive<'a> {
    /// Checks every header of the archive.
    ///
    /// Bytes after the last whole block are ignored: GRUB and QEMU pass a file
    /// as it is.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] with the first thing found wrong.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let whole = bytes.len() / BLOCK * BLOCK;
        let tar = TarArchiveRef::new(bytes.get(..whole).unwrap_or_default());
        Ok(Self {
            tar: tar.map_err(Error::Corrupt)?,
        })
    }

    /// The contents of the entry [`KERNEL`].
    ///
    /// # Errors
    ///
    /// [`Error::NoKernel`] if there is none.
    pub fn kernel(&self) -> Result<&'a [u8], Error> {
        self.file(KERNEL).ok_or(Error::NoKernel)
    }

    /// The contents of the file `name`, also if the archive calls it `./name`.
    pub fn file(&self, name: &str) -> Option<&'a [u8]> {
        let named = |found: &str| found.strip_prefix("./").unwrap_or(found) == name;
        let mut entries = self.tar.entries();
        let file = entries.find(|entry| entry.filename().as_str().is_ok_and(named));
        file.map(|entry| entry.data())
    }

    /// Offset of the end mark: where the next entry's header would be.
    pub fn end_of_entries(&self) -> usize {
        self.tar.headers().last().map_or(0, |(block, header)| {
            // The other types (links, directories, devices) may give a size, but
            // nothing follows their header.
            let contents = match header.typeflag.try_to_type_flag() {
                Ok(
                    TypeFlag::REGTYPE
                    | TypeFlag::AREGTYPE
                    | TypeFlag::CONTTYPE
                    | TypeFlag::XHDTYPE
                    | TypeFlag::XGLTYPE,
                ) => header.payload_block_count().unwrap_or(0),
                _ => 0,
            };
            (block + 1 + contents) * BLOCK
        })
    }
}

/// Bytes that an entry with `length` bytes of contents takes, end mark included.
pub fn entry_length(length: usize) -> usize {
    BLOCK + length.next_multiple_of(BLOCK) + END
}

/// Writes an entry and the end mark to the start of `to`; returns the bytes
/// written, or `None` if they do not fit or the name is too long for a header.
pub fn write_entry(to: &mut [u8], name: &str, contents: &[u8]) -> Option<usize> {
    let length = entry_length(contents.len());
    let to = to.get_mut(..length)?;
    to.fill(0);
    let (header, rest) = to.split_first_chunk_mut::<BLOCK>()?;
    header
        .get_mut(..100)?
        .get_mut(..name.len())?
        .copy_from_slice(name.as_bytes());
    // Offsets and widths of POSIX.1-1988 ustar; a field ends with a NUL.
    octal(header.get_mut(100..107)?, 0o444);
    octal(header.get_mut(108..115)?, 0);
    octal(header.get_mut(116..123)?, 0);
    octal(header.get_mut(124..135)?, contents.len());
    octal(header.get_mut(136..147)?, 0);
    header[156] = b'0';
    header.get_mut(257..265)?.copy_from_slice(b"ustar\x0000");
    // The sum is taken with its own field (148..156) full of blanks.
    header.get_mut(148..156)?.fill(b' ');
    let sum = header.iter().map(|&byte| usize::from(byte)).sum();
    octal(header.get_mut(148..154)?, sum);
    header[154] = 0;
    rest.get_mut(..contents.len())?.copy_from_slice(contents);
    Some(length)
}

/// Fills `field` with `value` in octal digits, zeros in front.
fn octal(field: &mut [u8], value: usize) {
    let mut left = value;
    for digit in field.iter_mut().rev() {
        *digit = b'0' + (left & 7) as u8;
        left >>= 3;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::archive;
    use std::vec;

    #[test]
    fn the_kernel_is_found_among_other_entries() {
        let bytes = archive(&[
            ("cmdline", b"a=1"),
            ("kernel", b"\x7fELF"),
            ("bin/x", &[1; 700]),
        ]);
        assert_eq!(
            Archive::new(&bytes).unwrap().kernel(),
            Ok(&b"\x7fELF"[..]),
            "plain name"
        );
        let bytes = archive(&[("./kernel", b"\x7fELF")]);
        assert_eq!(
            Archive::new(&bytes).unwrap().kernel(),
            Ok(&b"\x7fELF"[..]),
            "`tar -c .`"
        );
    }

    #[test]
    fn an_archive_without_a_kernel_is_refused() {
        let bytes = archive(&[("kernels", b"x")]);
        assert_eq!(
            Archive::new(&bytes).unwrap().kernel(),
            Err(Error::NoKernel),
            "other name"
        );
    }

    #[test]
    fn anything_but_an_archive_is_refused() {
        let elf = vec![0x7f; 4096];
        assert!(
            matches!(Archive::new(&elf), Err(Error::Corrupt(_))),
            "no header"
        );
        assert!(
            matches!(Archive::new(&[]), Err(Error::Corrupt(_))),
            "nothing"
        );
        let mut bytes = archive(&[("kernel", &[7; 2000])]);
        bytes[3] ^= 1;
        assert!(
            matches!(Archive::new(&bytes), Err(Error::Corrupt(_))),
            "wrong checksum"
        );
        let mut short = archive(&[("kernel", &[7; 2000])]);
        short.truncate(1024);
        assert!(
            matches!(Archive::new(&short), Err(Error::Corrupt(_))),
            "contents cut off"
        );
    }

    #[test]
    fn an_added_entry_reads_back_and_leaves_the_others_alone() {
        for line in [&b"kern.hz=100"[..], &[b'x'; 512], &[b'y'; 513]] {
            let mut bytes = archive(&[("kernel", &[7; 700]), ("empty", b"")]);
            let end = Archive::new(&bytes).unwrap().end_of_entries();
            assert_eq!(end, 4 * BLOCK, "two headers and two blocks of contents");
            bytes.truncate(end);
            bytes.resize(end + entry_length(line.len()), 0xaa);
            let written = write_entry(&mut bytes[end..], COMMAND_LINE, line).unwrap();
            assert_eq!(end + written, bytes.len(), "it fills what was reserved");
            let archive = Archive::new(&bytes).unwrap();
            let added = archive.tar.entries().last().unwrap();
            assert_eq!(added.filename().as_str(), Ok(COMMAND_LINE), "its name");
            assert_eq!(added.data(), line, "its contents");
            assert_eq!(
                archive.kernel(),
                Ok(&[7; 700][..]),
                "the kernel is still there"
            );
        }
    }

    #[test]
    fn an_entry_that_does_not_fit_is_not_written() {
        let mut room = vec![1; entry_length(10) - 1];
        assert_eq!(
            write_entry(&mut room, "x", &[0; 10]),
            None,
            "one byte short"
        );
        let name = [b'n'; 101];
        let name = core::str::from_utf8(&name).unwrap();
        let mut room = vec![0; 4096];
        assert_eq!(
            write_entry(&mut room, name, b""),
            None,
            "name longer than its field"
        );
    }
}
