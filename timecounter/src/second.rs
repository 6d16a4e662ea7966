//! The second handler: what happens once a second, at its turn.
//!
//! # Background
//!
//! UTC inserts (or, in theory, deletes) a second at the end of a UTC day. POSIX
//! time has no name for 23:59:60, so 23:59:59 is told twice, or skipped. FreeBSD
//! does this in `ntp_update_second`, a state machine that is called as
//! each second begins and may correct the second's number:
//!
//! | state  | meaning                                    | leaves it                         |
//! |--------|--------------------------------------------|-----------------------------------|
//! | `Ok`   | nothing planned                            | a flag is set: `Ins`, `Del`       |
//! | `Ins`  | a second will be inserted at the day's end | at 00:00:00: -1 s, TAI + 1, `Oop` |
//! | `Del`  | 23:59:59 will be deleted                   | at 23:59:59: +1 s, TAI - 1, `Wait`|
//! | `Oop`  | the inserted second is running             | `Wait`                            |
//! | `Wait` | it is over, the flag is still set          | flags cleared: `Ok`               |
//!
//! The correction moves boot time. Uptime never notices.
//!
//! # Late windups
//!
//! A windup that comes late owes several seconds. FreeBSD hands all of them the
//! same number, and two of them at most after 200 s, so that a late
//! windup misses the leap. [`SecondHandler::elapse`] gives each its own number.
//! The cost does not grow with the lateness: seconds in which no transition
//! can happen are passed over at once.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::float_arithmetic,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

use core::fmt;

/// Seconds in a UTC day without a leap second.
const SECONDS_PER_DAY: i64 = 86_400;

/// State of the leap-second automaton, with the values of `ntp_gettime`'s
/// return (`TIME_OK` and so on).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum LeapState {
    /// No leap second is planned.
    #[default]
    Ok = 0,
    /// A second will be inserted at the end of the day.
    Ins = 1,
    /// The last second of the day will be deleted.
    Del = 2,
    /// The inserted second is running.
    Oop = 3,
    /// The leap second is over; its flag has not been cleared yet.
    Wait = 4,
}

impl fmt::Display for LeapState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "OK",
            Self::Ins => "INS",
            Self::Del => "DEL",
            Self::Oop => "OOP",
            Self::Wait => "WAIT",
        })
    }
}

/// What has to be kept from one second to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondHandler {
    /// Where the automaton is.
    pub state: LeapState,
    /// `STA_INS`: insert a second at the end of the day. Wins over `delete`.
    pub insert: bool,
    /// `STA_DEL`: delete the last second of the day.
    pub delete: bool,
    /// TAI - UTC in seconds; 0 means unknown.
    pub tai_offset: i32,
}

impl SecondHandler {
    /// The second `number` (UTC, as it would be without a leap) begins; returns
    /// the number that it gets: itself, one less where a second is inserted, one
    /// more where one is deleted.
    pub const fn second(&mut self, number: i64) -> i64 {
        match self.state {
            LeapState::Ok => {
                if self.insert {
                    self.state = LeapState::Ins;
                } else if self.delete {
                    self.state = LeapState::Del;
                }
            }
            LeapState::Ins => {
                if !self.insert {
                    self.state = LeapState::Ok;
                } else if second_of_day(number) == 0 {
                    self.state = LeapState::Oop;
                    self.tai_offset = self.tai_offset.saturating_add(1);
                    return number.saturating_sub(1);
                }
            }
            LeapState::Del => {
                if !self.delete {
                    self.state = LeapState::Ok;
                } else if second_of_day(number) == SECONDS_PER_DAY - 1 {
                    self.state = LeapState::Wait;
                    self.tai_offset = self.tai_offset.saturating_sub(1);
                    return number.saturating_add(1);
                }
            }
            LeapState::Oop => self.state = LeapState::Wait,
            LeapState::Wait => {
                if !self.insert && !self.delete {
                    self.state = LeapState::Ok;
                }
            }
        }
        number
    }

    /// `elapsed` seconds have begun since the one numbered `utc`; handles each
    /// with its own number and returns the number of the last.
    pub const fn elapse(&mut self, mut utc: i64, mut elapsed: u64) -> i64 {
        while elapsed > 0 {
            let quiet = self.quiet_seconds(utc);
            let skipped = if quiet < elapsed { quiet } else { elapsed };
            utc = utc.saturating_add_unsigned(skipped);
            elapsed = elapsed.saturating_sub(skipped);
            if elapsed > 0 {
                utc = self.second(utc.saturating_add(1));
                elapsed = elapsed.saturating_sub(1);
            }
        }
        utc
    }

    /// How many of the seconds after `utc` leave the state as it is.
    const fn quiet_seconds(&self, utc: i64) -> u64 {
        match self.state {
            LeapState::Ok if !self.insert && !self.delete => u64::MAX,
            LeapState::Wait if self.insert || self.delete => u64::MAX,
            // The next second whose number within the day is 0.
            LeapState::Ins if self.insert => seconds_left(second_of_day(utc)),
            // The next one that is the last of a day: one second earlier.
            LeapState::Del if self.delete => seconds_left(second_of_day(utc.saturating_add(1))),
            _ => 0,
        }
    }
}

/// Seconds into the UTC day: 0 to 86,399, also before 1970.
const fn second_of_day(utc: i64) -> i64 {
    utc.rem_euclid(SECONDS_PER_DAY)
}

/// Seconds of a day that come after the `second_of_day`-th.
const fn seconds_left(second_of_day: i64) -> u64 {
    (SECONDS_PER_DAY - 1).abs_diff(second_of_day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2017-01-01 00:00:00 UTC, the end of the last leap second so far.
    const MIDNIGHT: i64 = 1_483_228_800;

    fn inserting() -> SecondHandler {
        SecondHandler {
            insert: true,
            tai_offset: 36,
            ..SecondHandler::default()
        }
    }

    #[test]
    fn an_inserted_second_repeats_the_last_one_of_the_day() {
        let mut handler = inserting();
        let mut utc = MIDNIGHT - 3;
        let mut told = [0; 6];
        for slot in &mut told {
            utc = handler.second(utc + 1);
            *slot = utc - MIDNIGHT;
        }
        assert_eq!(told, [-2, -1, -1, 0, 1, 2], "23:59:59 comes twice");
        assert_eq!(handler.tai_offset, 37, "TAI - UTC grows");
        assert_eq!(handler.state, LeapState::Wait, "the flag is still set");
    }

    #[test]
    fn a_flag_that_is_taken_back_in_time_cancels_the_leap() {
        let mut handler = inserting();
        assert_eq!(handler.second(MIDNIGHT - 2), MIDNIGHT - 2, "announced");
        handler.insert = false;
        assert_eq!(handler.second(MIDNIGHT - 1), MIDNIGHT - 1, "withdrawn");
        assert_eq!(handler.second(MIDNIGHT), MIDNIGHT, "an ordinary midnight");
        assert_eq!(handler.tai_offset, 36, "TAI - UTC is unchanged");
    }

    #[test]
    fn a_late_windup_does_not_miss_the_leap() {
        for late in [3, 200, 201, 86_400, 1_000_000] {
            let mut handler = inserting();
            let utc = handler.elapse(MIDNIGHT - 3, late);
            assert_eq!(
                utc,
                MIDNIGHT - 4 + late as i64,
                "{late} s late: one second was told twice"
            );
            assert_eq!(handler.tai_offset, 37, "{late} s late: TAI - UTC grew once");
        }
    }

    #[test]
    fn passing_over_quiet_seconds_changes_nothing() {
        for (insert, delete) in [(false, false), (true, false), (false, true), (true, true)] {
            for start in [MIDNIGHT - 5, MIDNIGHT, -86_402, 43_200] {
                for elapsed in [0, 1, 2, 5, 43_198, 43_199, 43_200, 86_400, 200_000] {
                    let mut at_once = SecondHandler {
                        insert,
                        delete,
                        ..SecondHandler::default()
                    };
                    let mut singly = at_once;
                    let mut utc = start;
                    for _ in 0..elapsed {
                        utc = singly.second(utc + 1);
                    }
                    assert_eq!(
                        (at_once.elapse(start, elapsed), at_once),
                        (utc, singly),
                        "insert {insert}, delete {delete}: {elapsed} s from {start}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_stall_of_ages_is_handled_at_once() {
        let mut handler = inserting();
        let utc = handler.elapse(0, u64::MAX);
        assert_eq!(utc, i64::MAX, "the number saturates");
        assert_eq!(handler.state, LeapState::Wait, "the leap was made");
    }
}
