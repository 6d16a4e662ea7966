//! `clock_gettime`, `clock_getres`, `gettimeofday`, `time`: the clock for
//! programs that do not read it by themselves.
//!
//! The values come from the same reader as the vDSO's. Calls that read a clock
//! are counted, which tells which way programs go.

use core::sync::atomic::{AtomicU64, Ordering};

use timecounter::Timespec;
use timecounter::guard::GuardLine;

use super::errno::Errno;
use super::{Answer, Process, Task};
use crate::arch::percpu;
use crate::cpuset::MAX_CPUS;
use crate::proc::clockid::{self, CpuClock};
use crate::proc::sched;
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

/// A count on a cache line of its own.
#[repr(align(128))]
struct Count(AtomicU64);

/// Calls that read a clock, since boot, by processor: one count for all would
/// be what such calls on many processors wait for.
static CALLS: [Count; MAX_CPUS] = [const { Count(AtomicU64::new(0)) }; MAX_CPUS];

/// Number of `clock_gettime`, `gettimeofday` and `time` calls since boot.
pub fn clock_calls() -> u64 {
    CALLS
        .iter()
        .map(|count| count.0.load(Ordering::Relaxed))
        .fold(0, u64::wrapping_add)
}

fn count() {
    if let Some(count) = CALLS.get(percpu::number()) {
        count.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A `struct timespec` or `struct timeval`: two 64-bit numbers.
fn pair(seconds: i64, fraction: i64) -> [u8; 16] {
    let words = u128::from(seconds.cast_unsigned()) | u128::from(fraction.cast_unsigned()) << 64;
    words.to_le_bytes()
}

fn copy_out(process: &Process, pointer: u64, bytes: &[u8]) -> Answer {
    process.memory().space_mut().copy_out(pointer, bytes)?;
    Ok(0)
}

fn timespec(process: &Process, pointer: u64, time: Timespec) -> Answer {
    copy_out(process, pointer, &pair(time.sec, i64::from(time.nsec)))
}

/// The precise clock for a process: under the jitter guard, not before what its
/// own reads were told.
fn precise(
    process: &Process,
    plain: fn() -> Timespec,
    beside: fn(&GuardLine) -> Timespec,
) -> Timespec {
    if !time::is_guarded() {
        return plain();
    }
    process.memory().guard_line().map_or_else(plain, beside)
}

fn realtime(process: &Process) -> Timespec {
    precise(process, time::realtime, time::realtime_beside)
}

fn monotonic(process: &Process) -> Timespec {
    precise(process, time::monotonic, time::monotonic_beside)
}

/// The clock is a C `int`: the upper half of the register is not looked at.
fn clock(register: u64) -> i32 {
    register as i32
}

/// `clock_gettime(clock, timespec)`. No rate adjustment exists that RAW would
/// leave out, and no suspended time that BOOTTIME would add.
pub(super) fn gettime(task: &Task, which: u64, pointer: u64) -> Answer {
    count();
    let which = clock(which);
    let now = match which {
        id::REALTIME => realtime(&task.process),
        id::MONOTONIC | id::MONOTONIC_RAW | id::BOOTTIME => monotonic(&task.process),
        id::REALTIME_COARSE => time::realtime_coarse(),
        id::MONOTONIC_COARSE => time::monotonic_coarse(),
        _ => Timespec::from_ns(cpu_time(task, which, true)?),
    };
    timespec(&task.process, pointer, now)
}

/// CPU time in nanoseconds, for the clocks that show it. `EINVAL` also for a
/// process that does not exist, and for a thread that is not one of the
/// caller's process, as on Linux.
///
/// Where it is `read`, the number of the calling thread stands for its process
/// as well; Linux has that for old programs.
fn cpu_time(task: &Task, which: i32, read: bool) -> Result<u64, Errno> {
    let own = task.process.pid;
    let time = match clockid::decode(which).ok_or(Errno::Inval)? {
        CpuClock::Process(0) => sched::process_time(own),
        CpuClock::Process(pid) if read && pid == task.tid => sched::process_time(own),
        CpuClock::Process(pid) => sched::process_time(pid),
        CpuClock::Thread(0) => sched::thread_time(task.tid),
        CpuClock::Thread(tid) if sched::process_of(tid) == Some(own) => sched::thread_time(tid),
        CpuClock::Thread(_) => None,
    };
    time.ok_or(Errno::Inval)
}

/// `clock_getres(clock, timespec)`; a null pointer only asks whether the clock
/// exists. CPU time is counted in nanoseconds.
pub(super) fn getres(task: &Task, which: u64, pointer: u64) -> Answer {
    let which = clock(which);
    let step = match which {
        id::REALTIME | id::MONOTONIC | id::MONOTONIC_RAW | id::BOOTTIME => time::resolution(),
        id::REALTIME_COARSE | id::MONOTONIC_COARSE => time::resolution_coarse(),
        _ => {
            cpu_time(task, which, false)?;
            Timespec { sec: 0, nsec: 1 }
        }
    };
    if pointer == 0 {
        return Ok(0);
    }
    timespec(&task.process, pointer, step)
}

/// `gettimeofday(timeval, timezone)`; either may be null. The kernel keeps no
/// time zone, and says 0 as Linux does.
pub(super) fn gettimeofday(process: &Process, pointer: u64, zone: u64) -> Answer {
    count();
    if pointer != 0 {
        let now = realtime(process);
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
    let seconds = realtime(process).sec;
    if pointer != 0 {
        copy_out(process, pointer, &seconds.to_le_bytes())?;
    }
    Ok(seconds.cast_unsigned())
}
