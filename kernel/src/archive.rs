//! The RAM disk: a ustar archive that the loader leaves in memory.
//!
//! It holds `kernel`, `cmdline`, `etc/rc`, `bin/NAME` and
//! `lib/linux-vdso.so.1`; [`file()`] finds one by its name. The archive comes
//! from outside, so its structure (checksums, sizes, terminator) is verified
//! once, in [`init`], and an archive that fails it counts as absent.

use core::fmt;

use spin::Once;
use tar_no_std::TarArchiveRef;

/// A ustar archive whose structure has been verified.
#[derive(Debug, Clone)]
pub struct Archive(TarArchiveRef<'static>);

/// What is wrong with an archive, in the words of the one who found it.
#[derive(Debug)]
pub struct ArchiveError(tar_no_std::CorruptDataError);

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a ustar archive: {:?}", self.0)
    }
}

impl core::error::Error for ArchiveError {}

/// One file of the archive.
#[derive(Debug)]
pub struct Entry {
    entry: tar_no_std::ArchiveEntry<'static>,
}

impl Entry {
    /// Calls `f` with the file's path, without a leading `./`. A path that is
    /// not UTF-8 reads as empty.
    pub fn with_name<R>(&self, f: impl FnOnce(&str) -> R) -> R {
        let name = self.entry.filename();
        f(plain(name.as_str().unwrap_or_default()))
    }

    /// The file's bytes.
    pub fn data(&self) -> &'static [u8] {
        self.entry.data()
    }
}

impl Archive {
    /// Verifies `bytes`: every header's checksum and size, and the end mark.
    ///
    /// # Errors
    ///
    /// [`ArchiveError`] names the first fault.
    pub fn new(bytes: &'static [u8]) -> Result<Self, ArchiveError> {
        // A loader may hand on the module rounded up or with its tail cut to
        // whole pages; the format itself counts in blocks of 512 bytes.
        let whole = bytes.len() - bytes.len() % 512;
        let blocks = bytes.get(..whole).unwrap_or_default();
        TarArchiveRef::new(blocks).map(Self).map_err(ArchiveError)
    }

    /// The regular files, in the order of the archive.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        self.0.entries().map(|entry| Entry { entry })
    }

    /// The bytes of the file called `name`; the last one, as `tar` extracts,
    /// when there are several.
    pub fn file(&self, name: &str) -> Option<&'static [u8]> {
        self.entries()
            .filter(|entry| entry.with_name(|path| path == plain(name)))
            .last()
            .map(|entry| entry.data())
    }
}

/// `./bin/x` and `/bin/x` are `bin/x`.
fn plain(path: &str) -> &str {
    path.strip_prefix("./")
        .unwrap_or(path)
        .trim_start_matches('/')
}

static ARCHIVE: Once<Archive> = Once::new();

/// Makes `bytes` the RAM disk. The first archive that is whole stays.
///
/// # Errors
///
/// [`ArchiveError`] when it is not an archive; there is no RAM disk then.
pub fn init(bytes: &'static [u8]) -> Result<(), ArchiveError> {
    let archive = Archive::new(bytes)?;
    ARCHIVE.call_once(|| archive);
    Ok(())
}

/// The bytes of the RAM disk's file `name`, such as `bin/true`.
pub fn file(name: &str) -> Option<&'static [u8]> {
    ARCHIVE.get()?.file(name)
}

/// The RAM disk's regular files; none without a RAM disk.
pub fn entries() -> impl Iterator<Item = Entry> {
    ARCHIVE.get().into_iter().flat_map(Archive::entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::string::ToString;
    use std::vec::Vec;

    /// One ustar member; `Archive` needs no more of the header than this.
    fn member(name: &str, data: &[u8]) -> Vec<u8> {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(std::format!("{:011o}", data.len()).as_bytes());
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..155].copy_from_slice(std::format!("{sum:06o}\0").as_bytes());
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }

    fn archive(members: &[Vec<u8>]) -> &'static mut [u8] {
        let mut bytes = members.concat();
        bytes.resize(bytes.len() + 1024, 0);
        Box::leak(bytes.into_boxed_slice())
    }

    #[test]
    fn a_file_is_found_by_its_name_with_or_without_a_leading_dot_or_slash() {
        let bytes = archive(&[
            member("./bin/true", b"elf"),
            member("cmdline", b"kern.hz=100\n"),
        ]);
        let archive = Archive::new(bytes).expect("a whole archive");
        assert_eq!(archive.file("bin/true"), Some(&b"elf"[..]), "plain name");
        assert_eq!(
            archive.file("/bin/true"),
            Some(&b"elf"[..]),
            "absolute name"
        );
        assert_eq!(
            archive.file("cmdline"),
            Some(&b"kern.hz=100\n"[..]),
            "second member"
        );
        assert_eq!(archive.file("bin"), None, "a folder is not a file");
        let names: Vec<_> = archive
            .entries()
            .map(|entry| entry.with_name(str::to_string))
            .collect();
        assert_eq!(names, ["bin/true", "cmdline"], "the order of the archive");
    }

    #[test]
    fn the_last_of_two_members_with_one_name_counts() {
        let bytes = archive(&[member("cmdline", b"old"), member("cmdline", b"new")]);
        let archive = Archive::new(bytes).expect("a whole archive");
        assert_eq!(
            archive.file("cmdline"),
            Some(&b"new"[..]),
            "as tar extracts it"
        );
    }

    #[test]
    fn a_damaged_archive_is_refused() {
        let bytes = archive(&[member("bin/true", b"elf")]);
        bytes[3] ^= 1;
        let error = Archive::new(bytes).expect_err("a checksum that does not match");
        assert!(
            error.to_string().starts_with("not a ustar archive"),
            "the error says what it is: {error}"
        );
        assert!(
            Archive::new(&[]).is_err(),
            "nothing at all is no archive either"
        );
        let cut = archive(&[member("bin/true", &[0; 2000])]);
        let len = cut.len() - 2048;
        assert!(Archive::new(&cut[..len]).is_err(), "a member cut short");
    }
}
