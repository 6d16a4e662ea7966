//! When the active counter is checked against the others.
//!
//! The check itself is the clock's; here is its turn: every so many windups, by
//! the CPU that winds up. The interval is a count of windups and not a time, so
//! that a counter that runs too slow or stops cannot put its own check off.

use core::sync::atomic::{AtomicU32, Ordering};

/// Seconds between two checks, 0 for none.
static INTERVAL: AtomicU32 = AtomicU32::new(0);

/// Windups since the latest check.
static WINDUPS: AtomicU32 = AtomicU32::new(0);

/// Sets the seconds between two checks; 0 turns them off.
pub fn set_interval(seconds: u32) {
    INTERVAL.store(seconds, Ordering::Relaxed);
}

/// Counts a windup, of which there are `hz` a second; whether it is time for a
/// check. To be called by one CPU at a time.
pub fn is_due(hz: u32) -> bool {
    let interval = INTERVAL.load(Ordering::Relaxed);
    let windups = WINDUPS.load(Ordering::Relaxed).saturating_add(1);
    let due = interval != 0 && windups >= interval.saturating_mul(hz);
    WINDUPS.store(if due { 0 } else { windups }, Ordering::Relaxed);
    due
}

/// Makes a check that could not be made due at the next windup.
pub fn put_off() {
    WINDUPS.store(u32::MAX, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::{is_due, put_off, set_interval};

    #[test]
    fn a_check_is_due_once_an_interval_and_never_when_it_is_off() {
        let due = |windups: u32| (0..windups).filter(|_| is_due(100)).count();
        assert_eq!(due(1_000), 0, "it is off at first");
        set_interval(3);
        assert!(is_due(100), "more than an interval has gone by");
        assert_eq!(due(299), 0, "not before three seconds of windups");
        assert!(is_due(100), "at the end of them");
        assert_eq!(due(3_000), 10, "and so on");
        put_off();
        assert!(is_due(100), "what could not be made is made next");
        assert!(!is_due(100), "once");
        set_interval(0);
        assert_eq!(due(1_000), 0, "off again");
    }
}
