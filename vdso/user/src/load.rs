//! Loads the shared object into a host process, with a timehands page below it.
//!
//! This is how the object is tested and measured without its kernel: one
//! mapping holds, from low to high addresses, the page of the jitter guard, the
//! timehands page, a page that stands for the registers of the HPET, one kept for
//! the pvclock page, and the object, laid out as a kernel lays it out. The first
//! three stay writable, for this process is the kernel's stand-in too: it
//! publishes on the second and counts in the third. The object is made read-only and executable before it is first
//! called.
//!
//! A mapping is never taken down; its functions may be called from anywhere.

#![allow(unsafe_code, reason = "maps memory and calls what it has put there")]

use core::ffi::c_void;
use core::fmt;
use core::ptr::null_mut;
use core::sync::atomic::AtomicU32;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
use timecounter::guard::GuardLine;
use timecounter::page::{PAGE_SIZE, TimehandsPage};

use crate::symbols;
use crate::sys::Image;

/// Pages below the object.
const DATA_PAGES: usize = 4;
/// Distance of the jitter guard's line below the object.
const GUARD: usize = 4 * PAGE_SIZE;
/// Distance of the timehands page below the object.
const TIMEHANDS: usize = 3 * PAGE_SIZE;
/// Distance of the HPET's registers below the object.
const HPET: usize = 2 * PAGE_SIZE;
/// Largest object that is taken for one.
const MAX_SIZE: usize = 1 << 20;

/// A page of registers, as a device would have them.
pub type Registers = [AtomicU32; PAGE_SIZE / 4];

/// The shared object in this process.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    image: Image,
    page: &'static TimehandsPage,
    hpet: &'static Registers,
    guard: &'static GuardLine,
}

/// Why an object was not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// Not a shared object, or cut off, or absurdly large.
    NotAnObject,
    /// The host gives no memory for it, or does not let it be executed.
    Memory(Errno),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnObject => f.write_str("not a shared object"),
            Self::Memory(error) => write!(f, "cannot map the object: {error}"),
        }
    }
}

impl core::error::Error for LoadError {}

impl Object {
    /// Maps `file` and, below it, a timehands page without a time.
    ///
    /// # Errors
    ///
    /// [`LoadError`]; nothing stays mapped that could be called.
    pub fn load(file: &[u8]) -> Result<Self, LoadError> {
        let layout = symbols::layout(file).ok_or(LoadError::NotAnObject)?;
        let code = file.get(..layout.size).ok_or(LoadError::NotAnObject)?;
        if code.len() > MAX_SIZE {
            return Err(LoadError::NotAnObject);
        }
        let size = code.len().next_multiple_of(PAGE_SIZE);
        let writable = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping wherever the host likes.
        let start = unsafe {
            mmap_anonymous(
                null_mut(),
                DATA_PAGES * PAGE_SIZE + size,
                writable,
                MapFlags::PRIVATE,
            )
        }
        .map_err(LoadError::Memory)?
        .cast::<u8>();
        // SAFETY: the object is behind the data pages, inside the mapping, which
        // is page-aligned, zeroed, writable, and known to nobody else.
        let (base, page, hpet, guard) = unsafe {
            let base = start.add(DATA_PAGES * PAGE_SIZE);
            base.copy_from_nonoverlapping(code.as_ptr(), code.len());
            let page = base.sub(TIMEHANDS).cast::<TimehandsPage>();
            page.write(TimehandsPage::new());
            let hpet = base.sub(HPET).cast::<Registers>();
            let guard = base.sub(GUARD).cast::<GuardLine>();
            (base, page, hpet, guard)
        };
        // SAFETY: from here on these pages are only used through these, all that
        // changes in them is atomic, and the mapping stays for ever.
        let (page, hpet, guard) = unsafe { (&*page, &*hpet, &*guard) };
        let executable = MprotectFlags::READ | MprotectFlags::EXEC;
        // SAFETY: these pages hold the object alone, of which there is no other
        // reference yet.
        unsafe { mprotect(base.cast::<c_void>(), size, executable) }.map_err(LoadError::Memory)?;
        // SAFETY: mapped as the program headers say, and never changed again.
        let image = unsafe { Image::at(base.expose_provenance()) };
        let image = image.ok_or(LoadError::NotAnObject)?;
        Ok(Self {
            image,
            page,
            hpet,
            guard,
        })
    }

    /// The object, to look functions up in.
    #[must_use]
    pub fn image(&self) -> Image {
        self.image
    }

    /// The page that the object's functions read.
    #[must_use]
    pub fn page(&self) -> &'static TimehandsPage {
        self.page
    }

    /// What the object's functions take for the HPET's registers.
    #[must_use]
    pub fn hpet(&self) -> &'static Registers {
        self.hpet
    }

    /// The line by which the object's functions read a guarded counter.
    #[must_use]
    pub fn guard(&self) -> &'static GuardLine {
        self.guard
    }
}

/// The vDSO of the host's own kernel, if it gives its processes one.
#[must_use]
pub fn host() -> Option<Image> {
    const AT_SYSINFO_EHDR: u64 = 33;
    let vector = std::fs::read("/proc/self/auxv").ok()?;
    let (words, _) = vector.as_chunks::<8>();
    let (pairs, _) = words.as_chunks::<2>();
    let address = pairs
        .iter()
        .map(|pair| pair.map(u64::from_ne_bytes))
        .find_map(|[key, value]| (key == AT_SYSINFO_EHDR).then_some(value))?;
    // SAFETY: the kernel has mapped its object there for the process's life.
    unsafe { Image::at(usize::try_from(address).ok()?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_an_object_is_refused() {
        for file in [&[][..], b"\x7fELF", &[0; 4096]] {
            assert_eq!(
                Object::load(file).err(),
                Some(LoadError::NotAnObject),
                "{} bytes",
                file.len()
            );
        }
    }

    #[test]
    fn the_host_has_a_vdso_that_tells_the_time() {
        let image = host().and_then(Image::clock_gettime);
        let time = image.map(|function| function.call(crate::abi::ClockId::MONOTONIC));
        assert!(matches!(time, None | Some(Ok(_))), "{time:?}");
    }
}
