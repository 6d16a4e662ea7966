//! What a new process finds on its stack.
//!
//! The layout is the x86-64 psABI's (section 3.4.1), from the stack pointer
//! up: argument count, argument pointers, 0, environment pointers, 0, the
//! auxiliary vector, then the strings that all of these point to. The stack
//! pointer is a multiple of 16.

use alloc::vec::Vec;
use core::fmt;

use super::elf::Program;
use super::layout;

/// Bytes of arguments and their pointers that a program may get: a quarter of
/// the stack, as Linux allows.
pub const MAX_BYTES: usize = (layout::STACK_SIZE / 4) as usize;

/// The only environment variable: where a program finds others.
const PATH: &[u8] = b"PATH=/bin";

/// What the auxiliary vector tells beside constants.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The program that was loaded.
    pub program: &'a Program,
    /// Address of the vDSO object, if there is one.
    pub vdso: Option<u64>,
    /// `CPUID.01H:EDX`, which Linux gives as `AT_HWCAP`.
    pub capabilities: u32,
    /// Seed for the program's own random numbers (stack protector).
    pub random: [u8; 16],
}

/// The initial stack.
#[derive(Debug, PartialEq, Eq)]
pub struct Image {
    /// Address of the first byte: the initial stack pointer.
    pub pointer: u64,
    /// Everything from there up to the top of the stack.
    pub bytes: Vec<u8>,
}

/// The arguments take more room than a program may have for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("argument list too long")
    }
}

impl core::error::Error for TooLong {}

/// Lays out the stack of a program that is started with `arguments`, its name
/// first.
///
/// # Errors
///
/// [`TooLong`] if it would take more than [`MAX_BYTES`].
pub fn build(arguments: &[&str], facts: &Facts<'_>) -> Result<Image, TooLong> {
    // Strings first, at the top; their addresses are known once their size is.
    let mut strings = Vec::new();
    let mut place = |bytes: &[u8]| {
        let at = strings.len();
        strings.extend_from_slice(bytes);
        strings.push(0);
        at
    };
    let argument_offsets: Vec<usize> = arguments
        .iter()
        .map(|argument| place(argument.as_bytes()))
        .collect();
    let path = place(PATH);
    let platform = place(b"x86_64");
    let random = place(&facts.random);

    let auxiliary = auxiliary(facts);
    // Count, arguments, 0, one variable, 0, the vector with the three entries
    // that point to strings and the one that ends it.
    let words = 1 + arguments.len() + 1 + 1 + 1 + 2 * (auxiliary.len() + 4);
    let size = words * 8 + strings.len();
    let padded = size.next_multiple_of(16);
    if padded > MAX_BYTES {
        return Err(TooLong);
    }
    let pointer = layout::STACK_TOP - padded as u64;
    let base = pointer + words as u64 * 8;
    let address = |offset: usize| base + offset as u64;

    let mut bytes = Vec::with_capacity(padded);
    let mut word = |value: u64| bytes.extend_from_slice(&value.to_le_bytes());
    word(arguments.len() as u64);
    for &offset in &argument_offsets {
        word(address(offset));
    }
    word(0);
    word(address(path));
    word(0);
    let pointers = [
        (key::PLATFORM, address(platform)),
        (key::RANDOM, address(random)),
        (
            key::EXECFN,
            address(argument_offsets.first().copied().unwrap_or(platform)),
        ),
        (key::NULL, 0),
    ];
    for (key, value) in auxiliary.into_iter().chain(pointers) {
        word(key);
        word(value);
    }
    bytes.extend_from_slice(&strings);
    bytes.resize(padded, 0);
    Ok(Image { pointer, bytes })
}

/// Keys of the auxiliary vector (Linux's `auxvec.h`).
mod key {
    pub(super) const NULL: u64 = 0;
    pub(super) const PHDR: u64 = 3;
    pub(super) const PHENT: u64 = 4;
    pub(super) const PHNUM: u64 = 5;
    pub(super) const PAGESZ: u64 = 6;
    pub(super) const ENTRY: u64 = 9;
    pub(super) const UID: u64 = 11;
    pub(super) const EUID: u64 = 12;
    pub(super) const GID: u64 = 13;
    pub(super) const EGID: u64 = 14;
    pub(super) const PLATFORM: u64 = 15;
    pub(super) const HWCAP: u64 = 16;
    pub(super) const CLKTCK: u64 = 17;
    pub(super) const SECURE: u64 = 23;
    pub(super) const RANDOM: u64 = 25;
    pub(super) const EXECFN: u64 = 31;
    pub(super) const SYSINFO_EHDR: u64 = 33;
}

/// The entries that are numbers.
fn auxiliary(facts: &Facts<'_>) -> Vec<(u64, u64)> {
    let program = facts.program;
    let mut entries = Vec::from([
        (key::PHENT, 56),
        (key::PHNUM, u64::from(program.header_count)),
        (key::PAGESZ, layout::PAGE),
        (key::ENTRY, program.entry),
        (key::UID, 0),
        (key::EUID, 0),
        (key::GID, 0),
        (key::EGID, 0),
        (key::HWCAP, u64::from(facts.capabilities)),
        // USER_HZ, part of the ABI and unrelated to the kernel's tick.
        (key::CLKTCK, 100),
        (key::SECURE, 0),
    ]);
    if let Some(headers) = program.headers {
        entries.push((key::PHDR, headers));
    }
    if let Some(vdso) = facts.vdso {
        entries.push((key::SYSINFO_EHDR, vdso));
    }
    entries
}

#[cfg(test)]
#[path = "stack_tests.rs"]
mod tests;
