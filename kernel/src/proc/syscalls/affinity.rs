//! `sched_setaffinity` and `sched_getaffinity`.
//!
//! A mask is a row of 64-bit words, the lowest bit of the first for processor
//! 0. The kernel's has as many words as the machine's processors need.

use super::errno::Errno;
use super::{Answer, Task};
use crate::arch::percpu;
use crate::cpuset::{CpuSet, MAX_CPUS};
use crate::proc::sched;

/// Bytes of a word.
const WORD: u64 = 8;

/// Bytes of the largest mask.
const LARGEST: usize = MAX_CPUS / 8;

/// Bytes of this machine's mask.
fn size() -> u64 {
    (percpu::count() as u64).div_ceil(64) * WORD
}

/// The thread that a call is about. A thread's number is a C `int`, 0 the
/// caller; a negative one is nobody's.
fn thread(task: &Task, number: u64) -> Result<u32, Errno> {
    match number as i32 {
        0 => Ok(task.tid),
        number => u32::try_from(number).map_err(|_| Errno::Srch),
    }
}

/// `sched_setaffinity(thread, length, mask)`. A short mask is continued with
/// zeros, a long one cut. Processors that are not there are passed over;
/// without any other it is `EINVAL`. Any thread of any process may be named:
/// there is one user.
pub(super) fn set(task: &Task, number: u64, length: u64, mask: u64) -> Answer {
    // A C `unsigned int`.
    let length = u64::from(length as u32).min(LARGEST as u64);
    let mut bytes = [0; LARGEST];
    if let Some(given) = bytes.get_mut(..length as usize) {
        task.process.memory().space().copy_in(mask, given)?;
    }
    let tid = thread(task, number)?;
    if sched::affinity(tid).is_none() {
        return Err(Errno::Srch);
    }
    let mut words = [0; LARGEST / WORD as usize];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let allowed = CpuSet::from_words(&words).and(&percpu::online());
    if allowed.is_empty() {
        return Err(Errno::Inval);
    }
    if sched::set_affinity(tid, allowed) {
        Ok(0)
    } else {
        Err(Errno::Srch)
    }
}

/// `sched_getaffinity(thread, length, mask)`: the number of bytes stored. The
/// length must be whole words and enough for every processor.
pub(super) fn get(task: &Task, number: u64, length: u64, mask: u64) -> Answer {
    let length = u64::from(length as u32);
    if length * 8 < percpu::count() as u64 || !length.is_multiple_of(WORD) {
        return Err(Errno::Inval);
    }
    let allowed = sched::affinity(thread(task, number)?).ok_or(Errno::Srch)?;
    let size = size().min(length);
    let mut bytes = [0; LARGEST];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(allowed.words()) {
        *bytes = word.to_le_bytes();
    }
    let stored = bytes.get(..size as usize).unwrap_or_default();
    task.process.memory().space_mut().copy_out(mask, stored)?;
    Ok(size)
}
