//! One thread of a process, as its system calls see it.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use super::process::Process;

/// A thread of a program.
#[derive(Debug)]
pub struct Task {
    /// Its number; the first thread of a process has the process's.
    pub tid: u32,
    /// What it is a thread of.
    pub process: Arc<Process>,
    /// The word that is cleared and woken when it ends; 0 for none.
    clear_at_end: AtomicU64,
}

impl Task {
    /// The thread `tid` of `process`; at its end the word at `clear_at_end` is
    /// cleared, unless that is 0.
    #[must_use]
    pub const fn new(tid: u32, process: Arc<Process>, clear_at_end: u64) -> Self {
        Self {
            tid,
            process,
            clear_at_end: AtomicU64::new(clear_at_end),
        }
    }

    /// Sets the word that is cleared at its end.
    pub fn set_clear_at_end(&self, address: u64) {
        self.clear_at_end.store(address, Ordering::Relaxed);
    }

    /// The word that is cleared at its end.
    pub fn clear_at_end(&self) -> u64 {
        self.clear_at_end.load(Ordering::Relaxed)
    }
}
