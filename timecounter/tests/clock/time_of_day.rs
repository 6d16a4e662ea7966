//! Time of day: setting it, and leap seconds.

use super::*;

#[test]
fn setting_the_time_moves_time_of_day_alone() {
    let mut machine = on_tsc();
    let clock = machine.clock;
    for time in [
        Timespec {
            sec: 1_700_000_000,
            nsec: 250_000_000,
        },
        Timespec {
            sec: 10,
            nsec: 200_000_000,
        },
        Timespec { sec: 0, nsec: 0 },
        Timespec {
            sec: 8_277_292_036,
            nsec: 999_999_999,
        },
        Timespec { sec: 1, nsec: 1 },
    ] {
        let (uptime, at) = (clock.monotonic_ns(), machine.now_ns());
        clock.setclock(time, &mut || machine.pass_ns(10_000));
        let passed = machine.now_ns() - at;
        let told = clock.realtime();
        let since = told.to_ns() - time.to_ns();
        assert!(
            (0..=i128::from(passed)).contains(&since),
            "set {time}, {passed} ns later it is {told}"
        );
        assert!(clock.getrealtime() >= time, "coarse is before {time}");
        let gained = clock.monotonic_ns() - uptime;
        assert!(gained.abs_diff(passed) <= 3, "uptime: {gained} in {passed}");
        let sum = clock.boottime().wrapping_add(clock.binuptime());
        let real = clock.bintime();
        assert_eq!(sum, real, "boottime + uptime = time of day");
    }
}

#[test]
fn a_step_that_is_asked_for_mid_segment_starts_where_the_next_one_does() {
    let mut machine = on_tsc();
    machine.pass_ns(500_000);
    let clock = machine.clock;
    let mut reads = Vec::new();
    clock.setclock(Timespec { sec: 5000, nsec: 0 }, &mut || {
        machine.pass_ns(20_000);
        reads.push(clock.realtime());
    });
    let stepped = reads
        .windows(2)
        .filter(|pair| pair[1].sec >= pair[0].sec + 1000);
    assert_eq!(stepped.count(), 1, "one step, then on: {reads:?}");
}

#[test]
fn an_inserted_leap_second_repeats_exactly_one_second() {
    let mut machine = on_tsc();
    let clock = machine.clock;
    let midnight = 1_483_228_800;
    clock.set_tai_offset(36);
    clock.plan_leap_second(true, false);
    let start = Timespec {
        sec: midnight - 3,
        nsec: 0,
    };
    clock.setclock(start, &mut || machine.pass_ns(10_000));
    let uptime = clock.monotonic_ns();
    let real = clock.realtime().to_ns();
    let mut steps = Vec::new();
    let mut last = clock.realtime();
    for _ in 0..6000 {
        machine.tick(MS);
        let now = clock.realtime();
        if now < last {
            steps.push((last, now));
        }
        last = now;
    }
    assert_eq!(steps.len(), 1, "one step back: {steps:?}");
    let (from, to) = steps[0];
    assert_eq!(
        (from.sec, to.sec),
        (midnight - 1, midnight - 1),
        "{steps:?}"
    );
    assert!(from.nsec > 998_000_000, "exactly at the second: {steps:?}");
    let told = clock.realtime().to_ns() - real;
    let passed = i128::from(clock.monotonic_ns() - uptime);
    assert!(
        (passed - told - 1_000_000_000).abs() <= 2,
        "{told} in {passed}"
    );
    assert_eq!(clock.leap_second(), (LeapState::Wait, 37));
}

#[test]
fn a_leap_second_in_a_stall_is_not_missed() {
    for stall in [3, 5, 250, 90_000, 200_000] {
        let mut machine = on_tsc();
        let clock = machine.clock;
        let midnight = 1_483_228_800;
        clock.plan_leap_second(true, false);
        let start = Timespec {
            sec: midnight - 3,
            nsec: 0,
        };
        clock.setclock(start, &mut || machine.pass_ns(10_000));
        let real = clock.realtime().to_ns();
        let at = machine.now_ns();
        machine.pass_ns(stall * SECOND);
        clock.windup();
        let told = clock.realtime().to_ns() - real;
        let passed = i128::from(machine.now_ns() - at);
        let missing = passed - told - 1_000_000_000;
        assert!(
            missing.abs() <= 3 * i128::from(stall) + 3,
            "{stall} s: {missing} ns missing"
        );
    }
}
