//! `futex`: wait and wake, plain and by bits.

use super::errno::Errno;
use super::{Answer, Task};
use crate::proc::futex::{ANY, Key};
use crate::proc::layout;
use crate::proc::sched::{self, Waited};
use crate::proc::timeouts::Deadline;
use crate::time;

/// Operations and flags (Linux's `include/uapi/linux/futex.h`).
const WAIT: u32 = 0;
const WAKE: u32 = 1;
const WAIT_BITSET: u32 = 9;
const WAKE_BITSET: u32 = 10;
const PRIVATE: u32 = 128;
const REALTIME: u32 = 256;

const SECOND: u64 = 1_000_000_000;

/// `futex(address, operation, value, timeout, _, bits)`. Operations that move
/// waiters or lend priority are `ENOSYS`.
///
/// A process shares no memory that it can write, so a futex is private whether
/// it says so or not; one that does not is also checked to be readable, as
/// Linux has to.
pub(super) fn futex(
    task: &Task,
    [address, operation, value, timeout, _, bits]: [u64; 6],
) -> Answer {
    let operation = operation as u32;
    let command = operation & !(PRIVATE | REALTIME);
    let on_realtime = operation & REALTIME != 0;
    if on_realtime && command != WAIT_BITSET {
        return Err(Errno::NoSys);
    }
    let bits = match command {
        WAIT | WAKE => ANY,
        WAIT_BITSET | WAKE_BITSET => bits as u32,
        _ => return Err(Errno::NoSys),
    };
    let waits = matches!(command, WAIT | WAIT_BITSET);
    // The timeout comes before everything else.
    let deadline = if waits && timeout != 0 {
        let length = read_timeout(task, timeout)?;
        Some(match (command, on_realtime) {
            (WAIT, _) => Deadline::Monotonic(time::clock().monotonic_ns().saturating_add(length)),
            (_, true) => Deadline::Realtime(length),
            (_, false) => Deadline::Monotonic(length),
        })
    } else {
        None
    };
    if bits == 0 {
        return Err(Errno::Inval);
    }
    if !address.is_multiple_of(4) {
        return Err(Errno::Inval);
    }
    if address >= layout::LIMIT {
        return Err(Errno::Fault);
    }
    let key = Key {
        pid: task.process.pid,
        address,
    };
    if waits {
        wait(task, key, bits, value as u32, deadline)
    } else {
        if operation & PRIVATE == 0 {
            task.process.memory().space().load_word(address)?;
        }
        // A C `int`; Linux wakes one before it looks how many were wanted.
        let most = usize::try_from(value as i32).unwrap_or(0).max(1);
        Ok(sched::wake(key, bits, most) as u64)
    }
}

fn wait(task: &Task, key: Key, bits: u32, expected: u32, deadline: Option<Deadline>) -> Answer {
    let is_as_expected = || {
        let word = task.process.memory().space().load_word(key.address)?;
        Ok::<_, Errno>(word == expected)
    };
    match sched::wait_on(task.tid, key, bits, deadline, is_as_expected)? {
        // At the end of the process nobody sees the answer.
        Waited::Woken | Waited::Ending => Ok(0),
        Waited::Changed => Err(Errno::Again),
        Waited::TimedOut => Err(Errno::TimedOut),
    }
}

/// A `struct timespec` in nanoseconds; beyond 584 years is never.
fn read_timeout(task: &Task, pointer: u64) -> Result<u64, Errno> {
    let mut bytes = [0; 16];
    task.process.memory().space().copy_in(pointer, &mut bytes)?;
    let words = u128::from_le_bytes(bytes);
    let (seconds, nanoseconds) = (words as u64, (words >> 64) as u64);
    if i64::try_from(seconds).is_err() || nanoseconds >= SECOND {
        return Err(Errno::Inval);
    }
    Ok(seconds.saturating_mul(SECOND).saturating_add(nanoseconds))
}
