//! The second handler over any stretch of time: late windups, leap seconds.

use proptest::prelude::*;
use timecounter::second::{LeapState, SecondHandler};

const DAY: i64 = 86_400;

fn handler() -> impl Strategy<Value = SecondHandler> {
    let state = proptest::sample::select(vec![
        LeapState::Ok,
        LeapState::Ins,
        LeapState::Del,
        LeapState::Oop,
        LeapState::Wait,
    ]);
    (state, any::<bool>(), any::<bool>(), -50..50_i32).prop_map(
        |(state, insert, delete, tai_offset)| SecondHandler {
            state,
            insert,
            delete,
            tai_offset,
        },
    )
}

/// Seconds close to a midnight before or after 1970.
fn near_midnight() -> impl Strategy<Value = i64> {
    (-3..20_000_i64, -5..5_i64).prop_map(|(day, second)| day * DAY + second)
}

proptest! {
    #[test]
    fn seconds_that_are_handled_late_end_as_if_handled_in_time(
        start in near_midnight(),
        elapsed in prop_oneof![0..10_u64, 86_390..86_410_u64, 0..200_000_u64],
        handler in handler(),
    ) {
        let (mut late, mut punctual) = (handler, handler);
        let mut utc = start;
        for _ in 0..elapsed {
            utc = punctual.second(utc + 1);
        }
        prop_assert_eq!(late.elapse(start, elapsed), utc, "the second's number");
        prop_assert_eq!(late, punctual, "the handler's state");
    }

    #[test]
    fn utc_and_tai_drift_apart_by_what_the_offset_says(
        start in near_midnight(),
        elapsed in 0..1_000_000_u64,
        handler in handler(),
    ) {
        let mut after = handler;
        let utc = after.elapse(start, elapsed);
        let tai_before = start + i64::from(handler.tai_offset);
        let tai_after = utc + i64::from(after.tai_offset);
        prop_assert_eq!(tai_after - tai_before, elapsed as i64, "TAI counts every second");
    }

    #[test]
    fn without_a_flag_no_second_is_renumbered(
        start in near_midnight(),
        elapsed in 0..1_000_000_u64,
        handler in handler(),
    ) {
        let mut handler = SecondHandler { insert: false, delete: false, ..handler };
        let utc = handler.elapse(start, elapsed);
        prop_assert_eq!(utc, start + elapsed as i64, "an ordinary stretch of time");
    }
}
