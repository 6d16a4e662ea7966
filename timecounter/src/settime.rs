//! Setting the time of day.
//!
//! Time of day is uptime plus *boottime*, so setting it changes boottime and
//! leaves uptime alone. The change is a segment like any other: it holds from
//! the next one's start on.

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::bintime::Bintime;
use crate::clock::Clock;
use crate::timespec::Timespec;

/// A boottime that waits for its windup.
#[derive(Debug)]
pub(crate) struct Step {
    pending: AtomicBool,
    sec: AtomicI64,
    frac: AtomicU64,
    /// Number of the publishing windup that took it.
    applied: AtomicU64,
}

impl Step {
    pub(crate) const fn new() -> Self {
        Self {
            pending: AtomicBool::new(false),
            sec: AtomicI64::new(0),
            frac: AtomicU64::new(0),
            applied: AtomicU64::new(0),
        }
    }

    /// The boottime to be used from the next segment on.
    pub(crate) fn pending(&self) -> Option<Bintime> {
        self.pending.load(Ordering::Relaxed).then(|| Bintime {
            sec: self.sec.load(Ordering::Relaxed),
            frac: self.frac.load(Ordering::Relaxed),
        })
    }

    /// Says that the publishing windup `number` has used it.
    pub(crate) fn applied(&self, number: u64) {
        if self.pending.swap(false, Ordering::Relaxed) {
            self.applied.store(number, Ordering::Relaxed);
        }
    }

    fn ask(&self, boottime: Bintime) {
        self.sec.store(boottime.sec, Ordering::Relaxed);
        self.frac.store(boottime.frac, Ordering::Relaxed);
        self.pending.store(true, Ordering::Relaxed);
    }
}

impl Clock {
    /// Sets the time of day to `time` as of this call. Returns when every clock
    /// shows it: when the segment that brings it has started and a windup since
    /// then has refreshed the coarse values. `relax` is called while waiting.
    ///
    /// The caller has checked that `time` is one that can be told for long
    /// enough, see [`crate::validate`].
    pub fn setclock(&self, time: Timespec, relax: &mut impl FnMut()) {
        let boottime = Bintime::from(time).wrapping_sub(self.binuptime());
        {
            let _inside = self.enter();
            self.step.ask(boottime);
        }
        while self.step.pending().is_some() {
            self.windup();
            relax();
        }
        let applied = self.step.applied.load(Ordering::Relaxed);
        while self.published() <= applied {
            self.windup();
            relax();
        }
    }
}
