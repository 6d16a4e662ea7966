//! `clock_gettime`, `clock_getres`, `gettimeofday`, `time`: the clock for
//! programs that do not read it by themselves.
//!
//! The values come from the same reader as the vDSO's. Calls that read a clock
//! are counted, which tells which way programs go.

use core::sync::atomic::{AtomicU64, Ordering};

use timecounter::Timespec;

use super::errno::Errno;
use super::{Answer, Process};
use crate::time;

/// Clock numbers (Linux's `include/uapi/linux/time.h`).
mod id {
    pub(super) const REALTIME: i32 = 0;
    pub(super) const MONOTONIC: i32 = 1;
    pub(super) const MONOTONIC_RAW: i32 = 4;
    pub(super) const REALTIME_COARSE: i32 = 5;
    pub(super) const MONOTONIC_COARSE: i32 = 6;
    pub(super) const BOOTTIME: i32 = 7;
}

/// Calls that read a clock, since boot.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Number of `clock_gettime`, `gettimeofday` and `time` calls since boot.
pub fn clock_calls() -> u64 {
    CALLS.load(Ordering::Relaxed)
}

fn count() {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

/// A `struct timespec` or `struct timeval`: two 64-bit numbers.
fn pair(seconds: i64, fraction: i64) -> [u8; 16] {
    let words = u128::from(seconds.cast_unsigned()) | u128::from(fraction.cast_unsigned()) << 64;
    words.to_le_bytes()
}

fn copy_out(process: &Process, pointer: u64, bytes: &[u8]) -> Answer {
    process.memory.lock().space_mut().copy_out(pointer, bytes)?;
    Ok(0)
}

fn timespec(process: &Process, pointer: u64, time: Timespec) -> Answer {
    copy_out(process, pointer, &pair(time.sec, i64::from(time.nsec)))
}

/// The clock is a C `int`: the upper half of the register is not looked at.
fn clock(register: u64) -> i32 {
    register as i32
}

/// `clock_gettime(clock, timespec)`. No rate adjustment exists that RAW would
/// leave out, and no suspended time that BOOTTIME would add.
pub(super) fn gettime(process: &Process, which: u64, pointer: u64) -> Answer {
    count();
    let now = match clock(which) {
        id::REALTIME => time::realtime(),
        id::MONOTONIC | id::MONOTONIC_RAW | id::BOOTTIME => time::monotonic(),
        id::REALTIME_COARSE => time::realtime_coarse(),
        id::MONOTONIC_COARSE => time::monotonic_coarse(),
        _ => return Err(Errno::Inval),
    };
    timespec(process, pointer, now)
}

/// `clock_getres(clock, timespec)`; a null pointer only asks whether the clock
/// exists.
pub(super) fn getres(process: &Process, which: u64, pointer: u64) -> Answer {
    let step = match clock(which) {
        id::REALTIME | id::MONOTONIC | id::MONOTONIC_RAW | id::BOOTTIME => time::resolution(),
        id::REALTIME_COARSE | id::MONOTONIC_COARSE => time::resolution_coarse(),
        _ => return Err(Errno::Inval),
    };
    if pointer == 0 {
        return Ok(0);
    }
    timespec(process, pointer, step)
}

/// `gettimeofday(timeval, timezone)`; either may be null. The kernel keeps no
/// time zone, and says 0 as Linux does.
pub(super) fn gettimeofday(process: &Process, pointer: u64, zone: u64) -> Answer {
    count();
    if pointer != 0 {
        let now = time::realtime();
        let bytes = pair(now.sec, i64::from(now.nsec / 1000));
        copy_out(process, pointer, &bytes)?;
    }
    if zone != 0 {
        copy_out(process, zone, &[0; 8])?;
    }
    Ok(0)
}

/// `time(pointer)`: whole seconds, also stored where the pointer is not null.
pub(super) fn time(process: &Process, pointer: u64) -> Answer {
    count();
    let seconds = time::realtime().sec;
    if pointer != 0 {
        copy_out(process, pointer, &seconds.to_le_bytes())?;
    }
    Ok(seconds.cast_unsigned())
}
