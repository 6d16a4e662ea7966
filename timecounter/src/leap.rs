//! The clock's leap seconds: the second handler, kept between windups.
//!
//! [`SecondHandler`] is a value; a clock that is a `static` keeps it as one word
//! that only a caller inside the gate stores.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;
use crate::second::{LeapState, SecondHandler};
use crate::windup::{SecondChange, Seconds};

/// The handler's state as one word: TAI - UTC in the high half, the state in
/// bits 8 to 15, insert and delete in bits 0 and 1.
#[derive(Debug)]
pub(crate) struct Leap(AtomicU64);

impl Leap {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn load(&self) -> SecondHandler {
        let word = self.0.load(Ordering::Relaxed);
        SecondHandler {
            state: match (word >> 8) as u8 {
                1 => LeapState::Ins,
                2 => LeapState::Del,
                3 => LeapState::Oop,
                4 => LeapState::Wait,
                _ => LeapState::Ok,
            },
            insert: word & 1 != 0,
            delete: word & 2 != 0,
            tai_offset: ((word >> 32) as u32).cast_signed(),
        }
    }

    fn store(&self, handler: SecondHandler) {
        let word = u64::from(handler.tai_offset.cast_unsigned()) << 32
            | (handler.state as u64) << 8
            | u64::from(handler.delete) << 1
            | u64::from(handler.insert);
        self.0.store(word, Ordering::Relaxed);
    }

    /// What [`restore`](Self::restore) takes, for a windup that publishes nothing
    /// in the end.
    pub(crate) fn saved(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Makes what was begun since `saved` not have begun.
    pub(crate) fn restore(&self, saved: u64) {
        self.0.store(saved, Ordering::Relaxed);
    }

    /// The handler for one windup.
    pub(crate) fn session(&self) -> Session<'_> {
        Session(self)
    }
}

/// Asks the handler for the seconds of one windup.
#[derive(Debug)]
pub(crate) struct Session<'l>(&'l Leap);

impl Seconds for Session<'_> {
    fn begin(&mut self, utc: i64, count: u64) -> SecondChange {
        let mut handler = self.0.load();
        let told = handler.elapse(utc, count);
        self.0.store(handler);
        SecondChange {
            step: told.saturating_sub(utc.saturating_add_unsigned(count)),
            tai: handler.tai_offset,
            leap: handler.state as u32,
        }
    }
}

impl Clock {
    /// Plans a leap second at the end of the UTC day, as `STA_INS` and `STA_DEL`
    /// do: it is made in the first day that ends while the flag is set. What was
    /// announced already, a tick and a lead ahead, stays.
    pub fn plan_leap_second(&self, insert: bool, delete: bool) {
        let _inside = self.enter();
        let handler = SecondHandler {
            insert,
            delete,
            ..self.leap.load()
        };
        self.leap.store(handler);
    }

    /// Sets TAI - UTC, in seconds; 0 means unknown.
    pub fn set_tai_offset(&self, seconds: i32) {
        let _inside = self.enter();
        let handler = SecondHandler {
            tai_offset: seconds,
            ..self.leap.load()
        };
        self.leap.store(handler);
    }

    /// State of the leap-second automaton and TAI - UTC, as of the seconds
    /// announced.
    #[must_use]
    pub fn leap_second(&self) -> (LeapState, i32) {
        let handler = self.leap.load();
        (handler.state, handler.tai_offset)
    }
}
