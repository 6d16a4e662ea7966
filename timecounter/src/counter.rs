//! What a timecounter is.
//!
//! A *timecounter* is a free-running binary counter of fixed, known frequency.
//! It is used to tell time and never to raise interrupts. The core reads it,
//! subtracts, masks and multiplies; everything that is particular to a chip
//! stays in the driver.

use core::fmt;

/// How a program in user space can read a counter without a system call.
///
/// The discriminants are part of the user page's format (`PROTOCOL.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum UserCounter {
    /// It cannot: the reader makes the system call.
    None = 0,
    /// The time-stamp counter, by an ordered `RDTSC`.
    Tsc = 1,
    /// The main counter of the HPET, low 32 bits, through a read-only mapping
    /// of its register page.
    Hpet = 2,
    /// The paravirtual clock page of KVM and Xen.
    Pvclock = 4,
}

/// A free-running counter that time can be told by.
///
/// # Contract
///
/// * The counter advances at [`frequency`](Self::frequency) Hz, which does not
///   change behind the core's back, and counts upwards modulo
///   [`mask`](Self::mask) + 1.
/// * [`mask`](Self::mask) is contiguous low bits. A read may return junk above
///   the mask as long as that junk is constant; the core masks differences.
/// * [`read`](Self::read) takes no lock, has no side effect that another
///   reader could see, and is ordered: it does not execute before an earlier
///   load of the calling CPU has completed.
/// * A wrap takes at least three windups. One that wraps faster is registered
///   but demoted, with that reason, until there are windups enough.
pub trait Timecounter: Sync {
    /// Its name in `kern.timecounter.choice`, at most 15 bytes of ASCII without
    /// spaces, dots, parentheses.
    fn name(&self) -> &'static str;
    /// Nominal rate in Hz; a counter that reports 0 is refused.
    fn frequency(&self) -> u64;
    /// 2^width - 1, width from 8 to 64.
    fn mask(&self) -> u64;
    /// Rank: the highest non-negative quality is chosen; negative only on
    /// request.
    fn quality(&self) -> i32;
    /// The current count.
    fn read(&self) -> u64;
    /// How user space reads it; by default it cannot.
    fn user_counter(&self) -> UserCounter {
        UserCounter::None
    }
    /// `C2STOP`, `SUSPEND_SAFE`; by default none.
    fn flags(&self) -> Flags {
        Flags::NONE
    }
    /// Writes in a few words why the counter has its quality; by default
    /// nothing.
    ///
    /// # Errors
    ///
    /// The formatter's.
    fn explain(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
    /// Whether [`frequency`](Self::frequency) was measured against another
    /// counter, so that it is no better than that one; by default it is what the
    /// chip says of itself.
    fn is_calibrated(&self) -> bool {
        false
    }
    /// The smallest step the counter was seen to move by, in counts; 1 unless
    /// the driver measured otherwise (some TSCs move 26 at a time).
    fn step(&self) -> u64 {
        1
    }
}

/// Properties of a timecounter that do not influence its selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The counter stops while its CPU is in C2 or deeper.
    pub const C2STOP: Self = Self(1);
    /// The counter keeps counting, or restarts sanely, across suspend.
    pub const SUSPEND_SAFE: Self = Self(2);

    /// Whether every flag of `other` is set in `self`.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Debug for dyn Timecounter + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.quality())
    }
}
