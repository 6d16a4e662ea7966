//! Waiting for another CPU, but not for ever.
//!
//! Such waits happen with interrupts off and before there is a tick, so the
//! clock's time is no measure: a narrow counter wraps meanwhile unseen. Here the
//! active counter's own steps are added up from look to look, which loses time
//! only if a whole wrap (55 ms for the narrowest) passes between two looks. That
//! makes a wait longer, never shorter.

use core::time::Duration;

use crate::time;

/// Looks at a counter that stands still, or is not there, after which a wait
/// ends: seconds, if a look takes 10 ns.
const LOOKS: u32 = 1 << 28;

/// A time by which something has to have happened.
pub(super) struct Deadline {
    limit_ns: u64,
    passed: u128,
    last: Option<u64>,
    /// Looks in a row that saw no progress.
    looks: u32,
}

impl Deadline {
    /// So long from now.
    pub(super) fn after(limit: Duration) -> Self {
        Self {
            limit_ns: u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX),
            passed: 0,
            last: None,
            looks: 0,
        }
    }

    /// Whether it is over; to be asked in a loop.
    pub(super) fn is_over(&mut self) -> bool {
        let active = time::clock().active();
        let now = active.map(|active| active.read());
        if now == self.last {
            self.looks = self.looks.saturating_add(1);
            return self.looks > LOOKS;
        }
        self.looks = 0;
        let (Some(active), Some(now)) = (active, now) else {
            return false;
        };
        if let Some(last) = self.last.replace(now) {
            self.passed += u128::from(now.wrapping_sub(last) & active.mask());
        }
        // Nanoseconds are counts * 10^9 / frequency, compared without division.
        self.passed * 1_000_000_000 >= u128::from(self.limit_ns) * u128::from(active.frequency())
    }

    /// Waits until `done` says so. False when it did not in time.
    pub(super) fn wait_for(&mut self, mut done: impl FnMut() -> bool) -> bool {
        loop {
            if done() {
                return true;
            }
            if self.is_over() {
                return done();
            }
            core::hint::spin_loop();
        }
    }
}

/// Lets so much time pass.
pub(super) fn pause(length: Duration) {
    Deadline::after(length).wait_for(|| false);
}
