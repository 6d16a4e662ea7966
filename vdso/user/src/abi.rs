//! Types, clock numbers and error numbers of the Linux x86-64 interface.
//!
//! Only what the programs here use. The values are fixed by Linux's
//! `include/uapi` headers (`time.h`, `errno-base.h`, `auxvec.h`) and by the
//! x86-64 psABI supplement, and cannot change.

use core::fmt;

/// Seconds and nanoseconds as `struct timespec` carries them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timespec {
    /// Whole seconds.
    pub sec: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nsec: i64,
}

impl Timespec {
    /// The same time as one number of nanoseconds, which holds every
    /// [`Timespec`] without overflow.
    #[must_use]
    pub const fn nanoseconds(self) -> i128 {
        self.sec as i128 * 1_000_000_000 + self.nsec as i128
    }
}

impl fmt::Display for Timespec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.sec, self.nsec)
    }
}

/// Seconds and microseconds as `struct timeval` carries them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timeval {
    /// Whole seconds.
    pub sec: i64,
    /// Microseconds, 0 to 999,999.
    pub usec: i64,
}

/// A clock's number in the system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockId(pub i32);

impl ClockId {
    /// Time of day, UTC.
    pub const REALTIME: Self = Self(0);
    /// Time since boot, never set, never going back.
    pub const MONOTONIC: Self = Self(1);
    /// CPU time of the process.
    pub const PROCESS_CPUTIME: Self = Self(2);
    /// CPU time of the thread.
    pub const THREAD_CPUTIME: Self = Self(3);
    /// The monotonic clock before any rate adjustment.
    pub const MONOTONIC_RAW: Self = Self(4);
    /// Time of day as of the last tick.
    pub const REALTIME_COARSE: Self = Self(5);
    /// Time since boot as of the last tick.
    pub const MONOTONIC_COARSE: Self = Self(6);
    /// Time since boot, suspended time included.
    pub const BOOTTIME: Self = Self(7);
}

/// A system call's error: a number from 1 to 4095.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// No such process.
    pub const SRCH: Self = Self(3);
    /// Not an open descriptor, or not open for this.
    pub const BADF: Self = Self(9);
    /// Out of memory.
    pub const NOMEM: Self = Self(12);
    /// An address that the process may not use this way.
    pub const FAULT: Self = Self(14);
    /// An argument out of its range.
    pub const INVAL: Self = Self(22);
    /// The system has no such call.
    pub const NOSYS: Self = Self(38);
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::SRCH => "ESRCH",
            Self::BADF => "EBADF",
            Self::NOMEM => "ENOMEM",
            Self::FAULT => "EFAULT",
            Self::INVAL => "EINVAL",
            Self::NOSYS => "ENOSYS",
            Self(number) => return write!(f, "errno {number}"),
        };
        f.write_str(name)
    }
}

/// The auxiliary vector's keys that are used here.
pub mod auxiliary {
    /// Ends the vector.
    pub const NULL: u64 = 0;
    /// Address of the program headers.
    pub const PHDR: u64 = 3;
    /// Size of a program header.
    pub const PHENT: u64 = 4;
    /// Number of program headers.
    pub const PHNUM: u64 = 5;
    /// Size of a page.
    pub const PAGESZ: u64 = 6;
    /// Address of the first instruction.
    pub const ENTRY: u64 = 9;
    /// User number.
    pub const UID: u64 = 11;
    /// Ticks a second of `times(2)`.
    pub const CLKTCK: u64 = 17;
    /// Address of 16 random bytes.
    pub const RANDOM: u64 = 25;
    /// Address of the vDSO's ELF header.
    pub const SYSINFO_EHDR: u64 = 33;
}
