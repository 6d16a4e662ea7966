//! Error numbers of Linux (`include/uapi/asm-generic/errno-base.h`
//! and `errno.h`).

use crate::mm::paging::MapError;
use crate::mm::user::Fault;

/// Why a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Errno {
    /// Not permitted.
    Perm = 1,
    /// No such process or thread.
    Srch = 3,
    /// Not an open descriptor.
    BadF = 9,
    /// Not now.
    Again = 11,
    /// Not enough memory, or addresses that are not there.
    NoMem = 12,
    /// Not allowed on this memory.
    Access = 13,
    /// A pointer that the program may not use so.
    Fault = 14,
    /// An argument out of its range.
    Inval = 22,
    /// No such call.
    NoSys = 38,
    /// The time is over.
    TimedOut = 110,
}

impl Errno {
    /// The value for RAX.
    pub(super) fn as_result(self) -> u64 {
        i64::from(-(self as i32)).cast_unsigned()
    }
}

impl From<Fault> for Errno {
    fn from(_: Fault) -> Self {
        Self::Fault
    }
}

impl From<MapError> for Errno {
    fn from(error: MapError) -> Self {
        match error {
            MapError::BadAddress => Self::Inval,
            MapError::InUse | MapError::SharedWritable => Self::Access,
            MapError::NotMapped | MapError::OutOfMemory => Self::NoMem,
        }
    }
}
