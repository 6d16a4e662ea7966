//! Memory of programs, reached by the kernel.
//!
//! Every pointer of a system call goes through here. The address space's own
//! tables say whether the program may read or write there, and the bytes move
//! through the map of physical memory. So a bad pointer is a [`Fault`] for
//! the caller and never an exception in the kernel, it does not matter which
//! address space is current, and SMAP can stay on.
//!
//! A copy checks its whole range first: one that fails has moved nothing.

use alloc::vec::Vec;
use core::fmt;

use timecounter::guard::GuardLine;

use super::paging::{AddressSpace, Protection, Translation, USER_END};
use super::{PAGE_SIZE, phys};

/// The program has no such access there: `EFAULT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault;

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bad address")
    }
}

impl core::error::Error for Fault {}

/// Why a string could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringError {
    /// It runs into memory the program cannot read: `EFAULT`.
    Fault,
    /// No end mark within the limit: `ENAMETOOLONG`.
    TooLong,
}

impl fmt::Display for StringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fault => "bad address",
            Self::TooLong => "string too long",
        })
    }
}

impl core::error::Error for StringError {}

impl AddressSpace {
    /// Copies `to.len()` bytes from the program's memory at `from`.
    ///
    /// # Errors
    ///
    /// [`Fault`] when any of it is not readable by the program.
    pub fn copy_in(&self, from: u64, to: &mut [u8]) -> Result<(), Fault> {
        self.check(from, to.len(), |_| true)?;
        let mut address = from;
        let mut rest = to;
        while !rest.is_empty() {
            let len = rest.len().min(to_page_end(address));
            let (piece, after) = rest.split_at_mut(len);
            let source = self.translate(address).ok_or(Fault)?;
            // SAFETY: the bytes are inside one frame of the program's memory,
            // which the kernel keeps no reference to. A device page is not
            // owned, and `check` has refused it.
            unsafe { phys::copy_from(source.phys, piece) };
            address += len as u64;
            rest = after;
        }
        Ok(())
    }

    /// Reads the 32-bit word at `from` in one access: another thread of the
    /// program may be changing it.
    ///
    /// # Errors
    ///
    /// [`Fault`] when it is not readable by the program, or not at a multiple
    /// of 4.
    pub fn load_word(&self, from: u64) -> Result<u32, Fault> {
        self.check(from, size_of::<u32>(), |_| true)?;
        let source = self.translate(from).ok_or(Fault)?;
        if !source.phys.is_aligned(align_of::<u32>() as u64) {
            return Err(Fault);
        }
        // SAFETY: the word is aligned, so inside one frame, which the program
        // owns and the kernel keeps no reference to.
        Ok(unsafe { phys::load_word(source.phys) })
    }

    /// The line of the jitter guard at the start of the page at `page`, if the
    /// program has memory of its own there that it can write.
    pub fn guard_line(&self, page: u64) -> Option<&GuardLine> {
        let source = self.translate(page)?;
        let own = source.owned && source.protection == Protection::ReadWrite;
        if !own || !source.phys.is_aligned(PAGE_SIZE) {
            return None;
        }
        // SAFETY: the start of a frame that the program owns, aligned and larger
        // than the line. `&self` keeps it mapped and the kernel from copying to it;
        // what the program does to it meanwhile meets an atomic.
        Some(unsafe { phys::guard_line(source.phys) })
    }

    /// Copies `from` to the program's memory at `to`.
    ///
    /// # Errors
    ///
    /// [`Fault`] when any of it is not writable by the program.
    pub fn copy_out(&mut self, to: u64, from: &[u8]) -> Result<(), Fault> {
        self.check(to, from.len(), |page| {
            page.protection == Protection::ReadWrite
        })?;
        self.write(to, from)
    }

    /// Puts `from` into pages whatever their protection, as a loader must to
    /// fill the code it maps read-execute.
    ///
    /// # Errors
    ///
    /// [`Fault`] when any of it is not the program's own memory.
    pub fn fill(&mut self, to: u64, from: &[u8]) -> Result<(), Fault> {
        self.check(to, from.len(), |_| true)?;
        self.write(to, from)
    }

    /// Reads bytes up to a zero, which is not part of the result.
    ///
    /// # Errors
    ///
    /// [`StringError::TooLong`] when there is no zero among the first `limit`
    /// bytes, [`StringError::Fault`] when they end before.
    pub fn read_string(&self, from: u64, limit: usize) -> Result<Vec<u8>, StringError> {
        let mut string = Vec::new();
        while string.len() < limit {
            let address = from
                .checked_add(string.len() as u64)
                .ok_or(StringError::Fault)?;
            let mut piece = [0; 64];
            let len = piece
                .len()
                .min(to_page_end(address))
                .min(limit - string.len());
            let piece = piece.get_mut(..len).unwrap_or_default();
            self.copy_in(address, piece)
                .map_err(|Fault| StringError::Fault)?;
            if let Some(end) = piece.iter().position(|&byte| byte == 0) {
                string.extend(piece.iter().take(end));
                return Ok(string);
            }
            string.extend_from_slice(piece);
        }
        Err(StringError::TooLong)
    }

    /// Checks that the program owns every page of the range and that `allowed`
    /// holds for each. An empty range is always allowed, as on Linux.
    fn check(
        &self,
        start: u64,
        len: usize,
        allowed: impl Fn(&Translation) -> bool,
    ) -> Result<(), Fault> {
        if len == 0 {
            return Ok(());
        }
        let end = start
            .checked_add(len as u64)
            .filter(|&end| end <= USER_END)
            .ok_or(Fault)?;
        let mut page = start & !(PAGE_SIZE - 1);
        while page < end {
            let found = self.translate(page).ok_or(Fault)?;
            if !found.owned || !allowed(&found) {
                return Err(Fault);
            }
            page += PAGE_SIZE;
        }
        Ok(())
    }

    /// Writes to a range that was checked to be the program's own.
    fn write(&mut self, to: u64, from: &[u8]) -> Result<(), Fault> {
        let mut address = to;
        let mut rest = from;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(to_page_end(address)));
            let target = self.translate(address).ok_or(Fault)?;
            // SAFETY: the bytes are inside one frame that the program owns,
            // and the kernel keeps no reference to those.
            unsafe { phys::copy_to(target.phys, piece) };
            address += piece.len() as u64;
            rest = after;
        }
        Ok(())
    }
}

/// Bytes from `address` to the end of its page.
fn to_page_end(address: u64) -> usize {
    (PAGE_SIZE - address % PAGE_SIZE) as usize
}
