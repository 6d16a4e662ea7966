//! Threads on processors of their own.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors that this thread may run on, in ascending order.
///
/// # Errors
///
/// The host does not say.
pub fn usable() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("which processors may be used")?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// Keeps the calling thread, and the threads it starts, on `cpu`.
///
/// # Errors
///
/// The thread may not run there.
pub fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("run on processor {cpu}"))
}
