//! Waits that end at an instant.
//!
//! An instant is of one of two clocks and stays so: when the clock of the
//! calendar is stepped, a wait until noon ends at the new noon. The tick asks
//! who is due; it does so on every tick of every processor, so the common
//! answer, nobody, comes from the earliest instant of each clock alone.

use alloc::vec::Vec;

/// When a wait ends. Nanoseconds; `u64::MAX` is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// Since boot.
    Monotonic(u64),
    /// Since 1970.
    Realtime(u64),
}

/// One instant, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds since boot.
    pub monotonic: u64,
    /// Nanoseconds since 1970.
    pub realtime: u64,
}

impl Deadline {
    /// Whether the wait is over.
    #[must_use]
    pub const fn is_past(self, now: Now) -> bool {
        match self {
            Self::Monotonic(at) => at <= now.monotonic,
            Self::Realtime(at) => at <= now.realtime,
        }
    }
}

/// The threads whose waits end at an instant.
#[derive(Debug)]
pub struct Timeouts {
    list: Vec<(u32, Deadline)>,
    /// The earliest of each clock.
    earliest: Now,
}

const NEVER: Now = Now {
    monotonic: u64::MAX,
    realtime: u64::MAX,
};

impl Default for Timeouts {
    fn default() -> Self {
        Self::new()
    }
}

impl Timeouts {
    /// Nobody.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            list: Vec::new(),
            earliest: NEVER,
        }
    }

    /// Whether nobody is here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The wait of thread `tid`, which must not be here already, ends at
    /// `deadline`.
    pub fn add(&mut self, tid: u32, deadline: Deadline) {
        self.list.push((tid, deadline));
        self.earliest = earlier(self.earliest, deadline);
    }

    /// The wait of thread `tid` is over, if it is here.
    pub fn remove(&mut self, tid: u32) {
        let before = self.list.len();
        self.list.retain(|(other, _)| *other != tid);
        if self.list.len() != before {
            self.find_earliest();
        }
    }

    /// Takes out a thread whose wait is over; `None` when there is none.
    pub fn due(&mut self, now: Now) -> Option<u32> {
        if self.earliest.monotonic > now.monotonic && self.earliest.realtime > now.realtime {
            return None;
        }
        let at = self
            .list
            .iter()
            .position(|(_, deadline)| deadline.is_past(now))?;
        let (tid, _) = self.list.swap_remove(at);
        self.find_earliest();
        Some(tid)
    }

    fn find_earliest(&mut self) {
        let all = self.list.iter().map(|(_, deadline)| *deadline);
        self.earliest = all.fold(NEVER, earlier);
    }
}

fn earlier(so_far: Now, deadline: Deadline) -> Now {
    match deadline {
        Deadline::Monotonic(at) => Now {
            monotonic: so_far.monotonic.min(at),
            ..so_far
        },
        Deadline::Realtime(at) => Now {
            realtime: so_far.realtime.min(at),
            ..so_far
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn due(timeouts: &mut Timeouts, monotonic: u64, realtime: u64) -> Vec<u32> {
        let now = Now {
            monotonic,
            realtime,
        };
        let mut all: Vec<u32> = std::iter::from_fn(|| timeouts.due(now)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_wait_is_over_at_its_instant_and_not_before() {
        let mut timeouts = Timeouts::new();
        timeouts.add(1, Deadline::Monotonic(100));
        timeouts.add(2, Deadline::Monotonic(50));
        timeouts.add(3, Deadline::Realtime(1_000));
        assert_eq!(due(&mut timeouts, 49, 999), [], "just before");
        assert_eq!(due(&mut timeouts, 50, 999), [2], "the first");
        assert_eq!(due(&mut timeouts, 50, 999), [], "once only");
        assert_eq!(due(&mut timeouts, 100, 1_000), [1, 3], "the others");
    }

    #[test]
    fn a_step_of_the_calendar_moves_its_waits_and_no_others() {
        let mut timeouts = Timeouts::new();
        timeouts.add(1, Deadline::Monotonic(100));
        timeouts.add(2, Deadline::Realtime(100));
        assert_eq!(due(&mut timeouts, 10, 100), [2], "stepped ahead");
        timeouts.add(2, Deadline::Realtime(100));
        assert_eq!(due(&mut timeouts, 100, 0), [1], "stepped back");
    }

    #[test]
    fn a_wait_that_ended_otherwise_is_never_due() {
        let mut timeouts = Timeouts::new();
        timeouts.add(1, Deadline::Monotonic(10));
        timeouts.add(2, Deadline::Monotonic(20));
        timeouts.remove(1);
        timeouts.remove(7);
        assert!(!timeouts.is_empty(), "one is left");
        assert_eq!(due(&mut timeouts, 15, 0), [], "the first has gone");
        assert_eq!(due(&mut timeouts, 20, 0), [2], "the second has not");
        assert!(timeouts.is_empty(), "none is left");
    }

    #[test]
    fn the_end_of_the_numbers_is_never() {
        let mut timeouts = Timeouts::new();
        timeouts.add(1, Deadline::Monotonic(u64::MAX));
        assert_eq!(due(&mut timeouts, u64::MAX - 1, u64::MAX - 1), [], "never");
    }
}
