//! Conversions between bintime, timespec and timeval against exact rational
//! arithmetic, and the reports of clocks that lost a nanosecond, or a sign.

use proptest::prelude::*;
use timecounter::{Bintime, Timespec, Timeval, delta};

const GIGA: i128 = 1_000_000_000;

/// Nanoseconds at the ends and in the middle of a second.
fn nsec() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(499_999_999),
        Just(500_000_000),
        Just(999_999_998),
        Just(999_999_999),
        0..1_000_000_000_u32,
    ]
}

/// Seconds around zero, of our times, and at the ends of the range.
fn sec() -> impl Strategy<Value = i64> {
    prop_oneof![
        -3..=3_i64,
        1_400_000_000..2_000_000_000_i64,
        Just(i64::MIN),
        Just(i64::MAX),
        any::<i64>(),
    ]
}

fn timespec() -> impl Strategy<Value = Timespec> {
    (sec(), nsec()).prop_map(|(sec, nsec)| Timespec { sec, nsec })
}

fn bintime() -> impl Strategy<Value = Bintime> {
    let frac = prop_oneof![
        Just(0),
        Just(1),
        Just(1 << 63),
        Just(u64::MAX),
        any::<u64>()
    ];
    (sec(), frac).prop_map(|(sec, frac)| Bintime { sec, frac })
}

/// `result` is `exact` nanoseconds in normal form, or none of it fits.
fn exactly_or_not_at_all(result: Option<Timespec>, exact: i128) -> Result<(), TestCaseError> {
    match result {
        Some(time) => {
            prop_assert_eq!(time.to_ns(), exact, "the exact result");
            prop_assert!(time.nsec < 1_000_000_000, "{time:?} is in range");
        }
        None => prop_assert!(
            i64::try_from(exact.div_euclid(GIGA)).is_err(),
            "{exact} ns fits and was refused"
        ),
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_timespec_survives_the_way_through_bintime(time in timespec()) {
        prop_assert_eq!(Timespec::from(Bintime::from(time)), time, "there and back");
    }

    #[test]
    fn into_bintime_rounds_up_by_less_than_a_unit(nsec in nsec()) {
        let units = u128::from(Bintime::from(Timespec { sec: 0, nsec }).frac);
        let exact = u128::from(nsec) << 64;
        prop_assert!(units * 1_000_000_000 >= exact, "{nsec} ns: not below");
        prop_assert!(units * 1_000_000_000 < exact + 1_000_000_000, "{nsec} ns: below one unit more");
    }

    #[test]
    fn out_of_bintime_truncates_downwards(time in bintime()) {
        let ns = Timespec::from(time).to_ns();
        prop_assert_eq!(ns, time.to_ns(), "both forms truncate alike");
        // The nanosecond starts at or before the time, the next one after it.
        let into_second = ns - i128::from(time.sec) * GIGA;
        let frac = i128::from(time.frac);
        prop_assert!(into_second << 64 <= frac * GIGA, "not after the time");
        prop_assert!((into_second + 1) << 64 > frac * GIGA, "less than 1 ns before it");
    }

    #[test]
    fn nanosecond_totals_are_split_exactly(ns in any::<u64>()) {
        prop_assert_eq!(Timespec::from_ns(ns).to_ns(), i128::from(ns), "timespec");
        prop_assert_eq!(Bintime::from_ns(ns).to_ns(), i128::from(ns), "bintime");
    }

    #[test]
    fn bintimes_add_and_subtract_with_carries_or_not_at_all(a in bintime(), b in bintime()) {
        // By hand: the fractions, their carry, the seconds.
        let pair = |sec: i128, frac: u64| {
            i64::try_from(sec).ok().map(|sec| Bintime::new(sec, frac))
        };
        let (frac, carry) = a.frac.overflowing_add(b.frac);
        let sum = pair(i128::from(a.sec) + i128::from(b.sec) + i128::from(carry), frac);
        prop_assert_eq!(a.checked_add(b), sum, "sum");
        let (frac, borrow) = a.frac.overflowing_sub(b.frac);
        let difference = pair(i128::from(a.sec) - i128::from(b.sec) - i128::from(borrow), frac);
        prop_assert_eq!(a.checked_sub(b), difference, "difference");
        prop_assert_eq!(a.wrapping_add(b).wrapping_sub(b), a, "subtracting what was added");
    }

    #[test]
    fn timespecs_add_and_subtract_exactly_or_not_at_all(a in timespec(), b in timespec()) {
        for (result, exact) in [
            (a.checked_add(b), a.to_ns() + b.to_ns()),
            (a.checked_sub(b), a.to_ns() - b.to_ns()),
        ] {
            exactly_or_not_at_all(result, exact)?;
        }
    }

    #[test]
    fn normalizing_keeps_the_value_and_bounds_the_nanoseconds(
        sec in sec(),
        nsec in prop_oneof![-2_000_000_001..2_000_000_001_i64, any::<i64>()],
    ) {
        let exact = i128::from(sec) * GIGA + i128::from(nsec);
        exactly_or_not_at_all(Timespec::normalized(sec, nsec), exact)?;
    }

    #[test]
    fn a_masked_difference_is_the_one_modulo_the_wrap(
        width in prop_oneof![Just(8), Just(16), Just(24), Just(32), Just(63), Just(64), 1..=64_u32],
        now in any::<u64>(),
        last in any::<u64>(),
    ) {
        let exact = (i128::from(now) - i128::from(last)).rem_euclid(1 << width);
        let got = delta::masked(now, last, delta::mask(width));
        prop_assert_eq!(i128::from(got), exact, "{} bits", width);
    }
}

#[test]
fn an_early_time_set_leaves_the_nanoseconds_of_boot_time_in_range() {
    // Set to 10.2 s at an uptime of 50.9 s.
    let uptime = Timespec {
        sec: 50,
        nsec: 900_000_000,
    };
    let set = Timespec {
        sec: 10,
        nsec: 200_000_000,
    };
    let boottime = set.checked_sub(uptime).expect("in range");
    assert_eq!(
        boottime,
        Timespec {
            sec: -41,
            nsec: 300_000_000
        },
        "boot time lies before 1970"
    );
    assert_eq!(
        boottime.checked_add(uptime),
        Some(set),
        "reads as it was set"
    );
}

#[test]
fn a_time_set_in_bintime_reads_to_the_nanosecond_whatever_the_uptime() {
    let set = Timespec {
        sec: 1_700_000_000,
        nsec: 123_456_789,
    };
    for uptime in [
        Bintime::new(1, 0),
        Bintime::new(50, 1),
        Bintime::new(9, u64::MAX),
    ] {
        let boottime = Bintime::from(set).checked_sub(uptime).expect("in range");
        let realtime = boottime.checked_add(uptime).expect("in range");
        assert_eq!(Timespec::from(realtime), set, "at an uptime of {uptime:?}");
    }
}

#[test]
fn a_second_is_a_second_in_units_and_a_nanosecond_comes_back() {
    assert_eq!(
        Bintime::from_ns(1_000_000_000),
        Bintime::new(1, 0),
        "no truncated constant is involved"
    );
    assert_eq!(Bintime::from_ns(1).to_ns(), 1, "1 ns there and back");
}

#[test]
fn every_part_of_a_second_that_is_returned_is_in_range() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        // Knuth's MMIX generator: any full-period sequence would do.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state
    };
    for _ in 0..1_000_000 {
        let boottime = Bintime::new((random() >> 32) as i64, random());
        let uptime = Bintime::new((random() >> 34) as i64, random());
        let realtime = boottime.wrapping_add(uptime);
        let (spec, val) = (Timespec::from(realtime), Timeval::from(realtime));
        assert!(
            spec.nsec <= 999_999_999,
            "{boottime:?} + {uptime:?}: {spec:?}"
        );
        assert!(val.usec <= 999_999, "{boottime:?} + {uptime:?}: {val:?}");
        assert_eq!(
            val.usec,
            spec.nsec / 1000,
            "both forms agree on {realtime:?}"
        );
    }
    let carried = Timespec::normalized(7, 999_999_999 + 1);
    assert_eq!(carried, Some(Timespec { sec: 8, nsec: 0 }), "the carry");
}
