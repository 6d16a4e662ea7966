//! What the writer counts, for `kern.timecounter`.

use core::sync::atomic::{AtomicU64, Ordering};

/// Counts of what should be rare; stored only inside the gate.
#[derive(Debug)]
pub struct Statistics {
    pub(crate) late: AtomicU64,
    pub(crate) rebased: AtomicU64,
    pub(crate) backward: AtomicU64,
    pub(crate) missed_wraps: AtomicU64,
}

impl Statistics {
    pub(crate) const fn new() -> Self {
        Self {
            late: AtomicU64::new(0),
            rebased: AtomicU64::new(0),
            backward: AtomicU64::new(0),
            missed_wraps: AtomicU64::new(0),
        }
    }

    /// Segments published after they should have started.
    #[must_use]
    pub fn late_publications(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    /// Times that a counter stepped back, or leapt by more than a century, so
    /// that the clock went on without it.
    #[must_use]
    pub fn rebased(&self) -> u64 {
        self.rebased.load(Ordering::Relaxed)
    }

    /// Samples below the one before, read again and, if that was no better,
    /// taken for equal to it.
    #[must_use]
    pub fn backward_samples(&self) -> u64 {
        self.backward.load(Ordering::Relaxed)
    }

    /// Whole wraps of a narrow counter that went unseen and were added.
    #[must_use]
    pub fn missed_wraps(&self) -> u64 {
        self.missed_wraps.load(Ordering::Relaxed)
    }
}
