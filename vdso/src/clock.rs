//! The clocks of Linux, as far as the timehands page tells them.
//!
//! | Linux clock | number | here |
//! |---|---|---|
//! | `CLOCK_REALTIME` | 0 | realtime, precise |
//! | `CLOCK_MONOTONIC` | 1 | monotonic, precise |
//! | `CLOCK_MONOTONIC_RAW` | 4 | monotonic, precise |
//! | `CLOCK_REALTIME_COARSE` | 5 | realtime at the latest windup |
//! | `CLOCK_MONOTONIC_COARSE` | 6 | monotonic at the latest windup |
//! | `CLOCK_BOOTTIME` | 7 | monotonic, precise |
//!
//! `CLOCK_MONOTONIC_RAW` would differ only by corrections of the rate, which the
//! clock does not have; `CLOCK_BOOTTIME` only by time spent suspended, which
//! cannot be. All other numbers are for the system call to judge.

use timecounter::page::TimehandsPage;
use timecounter::reader::Counters;
use timecounter::{Timespec, UserCounter};

use timecounter::kind::Kind;

/// `CLOCK_REALTIME`.
pub const REALTIME: i32 = 0;
/// `CLOCK_MONOTONIC`.
pub const MONOTONIC: i32 = 1;
/// `CLOCK_MONOTONIC_RAW`.
pub const MONOTONIC_RAW: i32 = 4;
/// `CLOCK_REALTIME_COARSE`.
pub const REALTIME_COARSE: i32 = 5;
/// `CLOCK_MONOTONIC_COARSE`.
pub const MONOTONIC_COARSE: i32 = 6;
/// `CLOCK_BOOTTIME`.
pub const BOOTTIME: i32 = 7;

/// Reads the clock with Linux's number `id`. Nothing is returned for a number
/// that is not in the table above, and for every clock while the page says that
/// programs cannot read the counter: the caller makes the system call.
#[inline]
pub fn read(page: &TimehandsPage, counters: &impl Counters, id: i32) -> Option<Timespec> {
    match id {
        REALTIME => page.realtime(counters),
        MONOTONIC | MONOTONIC_RAW | BOOTTIME => page.monotonic(counters),
        REALTIME_COARSE => is_readable(page).then(|| page.realtime_coarse()),
        MONOTONIC_COARSE => is_readable(page).then(|| page.monotonic_coarse()),
        _ => None,
    }
}

/// Whether programs may read the clock by themselves; false sends the coarse
/// clocks, which need no counter, to the system call too.
#[inline(always)]
#[must_use]
pub fn is_readable(page: &TimehandsPage) -> bool {
    let ring = page.ring();
    let kind = Kind::from_word(ring.slot(ring.current()).kind());
    kind.user() != UserCounter::None
}
