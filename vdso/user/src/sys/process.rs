//! What the kernel leaves on a new process's stack.

#![allow(unsafe_code, reason = "walks the vectors that the kernel left")]

use core::ffi::CStr;

use crate::abi::auxiliary;

/// The initial stack, as the x86-64 psABI (section 3.4.1) lays it out:
/// argument count, argument pointers, 0, environment pointers, 0, auxiliary
/// vector.
#[derive(Debug)]
pub struct Process {
    count: usize,
    vectors: *const usize,
}

impl Process {
    /// # Safety
    ///
    /// `stack` must be the stack pointer as the process's first instruction
    /// found it, and nobody may have changed what lies above it.
    #[cfg(feature = "program")]
    pub(super) unsafe fn new(stack: *const usize) -> Self {
        Self {
            // SAFETY: the kernel put the argument count there.
            count: unsafe { stack.read() },
            // SAFETY: the null that ends the arguments is at or above this.
            vectors: unsafe { stack.add(1) },
        }
    }

    /// The arguments, the program's name first. One that is not UTF-8 reads
    /// as "?", which no option is.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        (0..self.count).map_while(|index| {
            // SAFETY: below the count there are pointers only.
            let pointer = unsafe { self.vectors.add(index).read() };
            if pointer == 0 {
                return None;
            }
            let start = core::ptr::with_exposed_provenance(pointer);
            // SAFETY: each points to a NUL-terminated string that stays as
            // long as the process.
            let text = unsafe { CStr::from_ptr(start) };
            Some(text.to_str().unwrap_or("?"))
        })
    }

    /// The auxiliary vector's entry for `key`.
    #[must_use]
    pub fn auxiliary(&self, key: u64) -> Option<u64> {
        // SAFETY: the environment follows the null after the arguments.
        let mut at = unsafe { self.vectors.add(self.count + 1) };
        // SAFETY: the environment's pointers end with a null.
        while unsafe { at.read() } != 0 {
            // SAFETY: the null was not reached, so there is another entry.
            at = unsafe { at.add(1) };
        }
        loop {
            // SAFETY: the null is followed by pairs, of which the last has the
            // key AT_NULL.
            let (found, value) = unsafe { (at.add(1).read(), at.add(2).read()) };
            if found as u64 == key {
                return Some(value as u64);
            }
            if found as u64 == auxiliary::NULL {
                return None;
            }
            // SAFETY: AT_NULL was not reached, so there is another pair.
            at = unsafe { at.add(2) };
        }
    }

    /// The vDSO that the kernel mapped, if it did.
    #[must_use]
    pub fn vdso(&self) -> Option<super::Image> {
        let address = self.auxiliary(auxiliary::SYSINFO_EHDR)?;
        // SAFETY: the kernel mapped an ELF object at the address it names here,
        // and never unmaps it.
        unsafe { super::Image::at(usize::try_from(address).ok()?) }
    }
}
