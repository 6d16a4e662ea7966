//! `brk`, `mmap`, `munmap`, `mprotect`: anonymous memory only.

use core::ops::Range;

use super::errno::Errno;
use super::{Answer, Process};
use crate::mm::paging::Protection;
use crate::proc::layout::{self, PAGE};

const PROT_READ: u64 = 1;
const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;

const MAP_SHARED: u64 = 0x01;
const MAP_PRIVATE: u64 = 0x02;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;

/// `None` is no access at all. What can be written or executed can be read.
fn protection(bits: u64) -> Result<Option<Protection>, Errno> {
    match (bits & PROT_WRITE != 0, bits & PROT_EXEC != 0) {
        _ if bits & !(PROT_READ | PROT_WRITE | PROT_EXEC) != 0 => Err(Errno::Inval),
        (true, true) => Err(Errno::Access),
        (true, false) => Ok(Some(Protection::ReadWrite)),
        (false, true) => Ok(Some(Protection::ReadExecute)),
        (false, false) => Ok((bits & PROT_READ != 0).then_some(Protection::Read)),
    }
}

/// `length` bytes from a page's start, in whole pages of user space.
fn range(start: u64, length: u64) -> Result<Range<u64>, Errno> {
    if !start.is_multiple_of(PAGE) || length == 0 {
        return Err(Errno::Inval);
    }
    let end = start
        .checked_add(length)
        .and_then(layout::page_end)
        .filter(|&end| end <= layout::LIMIT)
        .ok_or(Errno::NoMem)?;
    Ok(start..end)
}

/// `brk(address)`: where the break is afterwards, moved or not.
pub(super) fn brk(process: &Process, address: u64) -> Answer {
    Ok(process.memory().set_break(address))
}

/// `mmap(address, length, protection, flags)` of anonymous memory. Without
/// other processes to share with, shared and private are the same.
pub(super) fn mmap(process: &Process, address: u64, length: u64, bits: u64, flags: u64) -> Answer {
    let anonymous = flags & MAP_ANONYMOUS != 0;
    if !anonymous || flags & (MAP_SHARED | MAP_PRIVATE) == 0 || length == 0 {
        return Err(Errno::Inval);
    }
    let protection = protection(bits)?;
    let mut memory = process.memory();
    if flags & MAP_FIXED != 0 {
        let range = range(address, length)?;
        let start = range.start;
        memory.map_fixed(range, protection)?;
        return Ok(start);
    }
    let size = layout::page_end(length).ok_or(Errno::NoMem)?;
    Ok(memory.map_anonymous(address, size, protection)?)
}

/// `munmap(address, length)`.
pub(super) fn munmap(process: &Process, address: u64, length: u64) -> Answer {
    let range = range(address, length).map_err(|_| Errno::Inval)?;
    process.memory().unmap(&range)?;
    Ok(0)
}

/// `mprotect(address, length, protection)`. Taking all access away is not
/// offered: the memory would have to be kept somewhere out of reach.
pub(super) fn mprotect(process: &Process, address: u64, length: u64, bits: u64) -> Answer {
    if length == 0 && address.is_multiple_of(PAGE) {
        return Ok(0);
    }
    let range = range(address, length)?;
    let protection = protection(bits)?.ok_or(Errno::Inval)?;
    process.memory().protect(&range, protection)?;
    Ok(0)
}
