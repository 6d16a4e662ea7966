//! The vDSO as memory, and calls into it.

#![allow(unsafe_code, reason = "views mapped memory and calls into it")]

use core::ffi::{c_int, c_long, c_uint, c_void};

use crate::abi::{ClockId, Errno, Timespec, Timeval};
use crate::symbols;

/// What a mapping is a multiple of.
const PAGE: usize = 4096;

/// A vDSO image in this process.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    bytes: &'static [u8],
}

impl Image {
    /// The image whose ELF header is at `address`; `None` if there is none.
    ///
    /// # Safety
    ///
    /// `address` is 0, or that of an object which is mapped readable as its
    /// program headers say, and stays so, unchanged, for ever.
    #[must_use]
    pub unsafe fn at(address: usize) -> Option<Self> {
        if address == 0 || !address.is_multiple_of(PAGE) {
            return None;
        }
        let start = core::ptr::with_exposed_provenance(address);
        // SAFETY: an object takes at least the page that its header is in.
        let head = unsafe { core::slice::from_raw_parts(start, PAGE) };
        let size = symbols::layout(head)?.size;
        // SAFETY: its first segment is mapped for the size just read.
        let bytes = unsafe { core::slice::from_raw_parts(start, size) };
        Some(Self { bytes })
    }

    /// The function `name`, to be called as `signature` says.
    fn address(self, name: &[u8]) -> Option<*const c_void> {
        let offset = symbols::find(self.bytes, name)?;
        Some(self.bytes.get(offset..)?.as_ptr().cast())
    }

    /// `__vdso_clock_gettime`.
    #[must_use]
    pub fn clock_gettime(self) -> Option<Function<Timespec>> {
        self.address(b"__vdso_clock_gettime").map(Function::new)
    }

    /// `__vdso_clock_getres`.
    #[must_use]
    pub fn clock_getres(self) -> Option<Function<Timespec>> {
        self.address(b"__vdso_clock_getres").map(Function::new)
    }

    /// `__vdso_gettimeofday`.
    #[must_use]
    pub fn gettimeofday(self) -> Option<Function<Timeval>> {
        self.address(b"__vdso_gettimeofday").map(Function::new)
    }

    /// `__vdso_time`.
    #[must_use]
    pub fn time(self) -> Option<Function<c_long>> {
        self.address(b"__vdso_time").map(Function::new)
    }

    /// `__vdso_getcpu`.
    #[must_use]
    pub fn getcpu(self) -> Option<Function<c_uint>> {
        self.address(b"__vdso_getcpu").map(Function::new)
    }
}

/// A function of the vDSO that gives a `T`. The kernel's interface fixes name
/// and signature together, so one made for a name is callable as its type says.
#[derive(Debug)]
pub struct Function<T> {
    address: *const c_void,
    result: core::marker::PhantomData<fn() -> T>,
}

impl<T> Clone for Function<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Function<T> {}

// SAFETY: an address of code that never goes away; any thread may call it.
unsafe impl<T> Send for Function<T> {}

// SAFETY: as above, and it has nothing to be changed.
unsafe impl<T> Sync for Function<T> {}

impl<T> Function<T> {
    fn new(address: *const c_void) -> Self {
        Self {
            address,
            result: core::marker::PhantomData,
        }
    }
}

impl Function<Timespec> {
    /// Reads the clock, or its step, by what the function is.
    ///
    /// # Errors
    ///
    /// [`Errno::INVAL`] for a clock that does not exist.
    #[inline]
    pub fn call(self, clock: ClockId) -> Result<Timespec, Errno> {
        let mut time = Timespec::default();
        match self.call_into(clock, &mut time) {
            0 => Ok(time),
            error => Err(Errno(error.wrapping_neg())),
        }
    }

    /// The bare call: 0, and `time` is set, or the negated error number. For
    /// who repeats it and can do without the checks of [`call`](Self::call),
    /// which read back at once what was just stored.
    #[inline]
    pub fn call_into(self, clock: ClockId, time: &mut Timespec) -> i32 {
        type Signature = unsafe extern "C" fn(c_int, *mut Timespec) -> c_int;
        // SAFETY: `__vdso_clock_gettime` and `__vdso_clock_getres` have this
        // signature, and the address came from their symbol.
        let function = unsafe { core::mem::transmute::<*const c_void, Signature>(self.address) };
        // SAFETY: it writes one `struct timespec` to `time`.
        unsafe { function(clock.0, time) }
    }
}

impl Function<Timeval> {
    /// Time of day in microseconds.
    ///
    /// # Errors
    ///
    /// None that the interface names for a good pointer.
    #[inline]
    pub fn call(self) -> Result<Timeval, Errno> {
        type Signature = unsafe extern "C" fn(*mut Timeval, *mut c_void) -> c_int;
        let mut time = Timeval::default();
        // SAFETY: `__vdso_gettimeofday` has this signature, and the address
        // came from its symbol.
        let function = unsafe { core::mem::transmute::<*const c_void, Signature>(self.address) };
        // SAFETY: it writes one `struct timeval` to `time`, and no time zone to
        // a null pointer.
        match unsafe { function(&raw mut time, core::ptr::null_mut()) } {
            0 => Ok(time),
            error => Err(Errno(error.wrapping_neg())),
        }
    }
}

impl Function<c_long> {
    /// Time of day in whole seconds.
    #[must_use]
    pub fn call(self) -> i64 {
        type Signature = unsafe extern "C" fn(*mut c_long) -> c_long;
        // SAFETY: `__vdso_time` has this signature, and the address came from
        // its symbol.
        let function = unsafe { core::mem::transmute::<*const c_void, Signature>(self.address) };
        // SAFETY: it writes nothing to a null pointer.
        unsafe { function(core::ptr::null_mut()) }
    }
}

impl Function<c_uint> {
    /// The CPU that the call is made on.
    ///
    /// # Errors
    ///
    /// None that the interface names.
    pub fn call(self) -> Result<u32, Errno> {
        type Signature = unsafe extern "C" fn(*mut c_uint, *mut c_uint, *mut c_void) -> c_int;
        let mut cpu = 0;
        // SAFETY: `__vdso_getcpu` has this signature, and the address came from
        // its symbol.
        let function = unsafe { core::mem::transmute::<*const c_void, Signature>(self.address) };
        // SAFETY: it writes one number to `cpu` and nothing to null pointers.
        match unsafe { function(&raw mut cpu, core::ptr::null_mut(), core::ptr::null_mut()) } {
            0 => Ok(cpu),
            error => Err(Errno(error.wrapping_neg())),
        }
    }
}
