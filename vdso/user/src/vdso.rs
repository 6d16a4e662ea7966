//! Clock reads through the vDSO, with the system call where there is none.

use crate::abi::{ClockId, Errno, Timespec, Timeval};
use crate::sys::{self, Function, Process};

/// The clock functions of this process's vDSO.
///
/// A function that the vDSO lacks is made up for by the system call, as in a
/// libc; [`Clocks::is_complete`] tells whether any is missing.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    gettime: Option<Function<Timespec>>,
    getres: Option<Function<Timespec>>,
    timeofday: Option<Function<Timeval>>,
    time: Option<Function<i64>>,
}

impl Clocks {
    /// Looks the functions up.
    #[must_use]
    pub fn new(process: &Process) -> Self {
        let image = process.vdso();
        Self {
            gettime: image.and_then(sys::Image::clock_gettime),
            getres: image.and_then(sys::Image::clock_getres),
            timeofday: image.and_then(sys::Image::gettimeofday),
            time: image.and_then(sys::Image::time),
        }
    }

    /// All four functions were found.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.gettime.is_some()
            && self.getres.is_some()
            && self.timeofday.is_some()
            && self.time.is_some()
    }

    /// Reads a clock.
    ///
    /// # Errors
    ///
    /// [`Errno::INVAL`] for a clock that does not exist.
    #[inline]
    pub fn clock_gettime(&self, clock: ClockId) -> Result<Timespec, Errno> {
        match self.gettime {
            Some(function) => function.call(clock),
            None => sys::clock_gettime(clock),
        }
    }

    /// The step that a clock moves by.
    ///
    /// # Errors
    ///
    /// [`Errno::INVAL`] for a clock that does not exist.
    pub fn clock_getres(&self, clock: ClockId) -> Result<Timespec, Errno> {
        match self.getres {
            Some(function) => function.call(clock),
            None => sys::clock_getres(clock),
        }
    }

    /// Time of day in microseconds.
    ///
    /// # Errors
    ///
    /// None that the interface names.
    #[inline]
    pub fn gettimeofday(&self) -> Result<Timeval, Errno> {
        match self.timeofday {
            Some(function) => function.call(),
            None => sys::gettimeofday(),
        }
    }

    /// Time of day in whole seconds.
    ///
    /// # Errors
    ///
    /// None that the interface names.
    pub fn time(&self) -> Result<i64, Errno> {
        match self.time {
            Some(function) => Ok(function.call()),
            None => sys::time().map(|seconds| seconds as i64),
        }
    }
}
