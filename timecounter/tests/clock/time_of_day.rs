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

/// Leap seconds of a clock that starts `before` a midnight, as pairs of the
/// times of day told before and after each step back.
fn steps_back(machine: &mut Machine, ticks: u64, tick_ns: u64) -> Vec<(Timespec, Timespec)> {
    let mut steps = Vec::new();
    let mut last = machine.clock.realtime();
    for _ in 0..ticks {
        machine.tick(tick_ns);
        let now = machine.clock.realtime();
        if now < last {
            steps.push((last, now));
        }
        last = now;
    }
    steps
}

/// A Timespec `ns` before the midnight that ends 2016.
pub(crate) fn before_midnight(ns: u64) -> Timespec {
    let midnight = 1_483_228_800 * SECOND;
    Timespec::from_ns(midnight - ns)
}

#[test]
fn a_leap_second_during_a_change_of_counter_is_made_once() {
    // The second begins before, in and after the gap that a change leaves.
    for lead in (0..40).map(|n| n * 100_000) {
        for slow_change in [10_000, 500_000, 2_000_000_000] {
            let mut machine = on_tsc();
            machine.add(hpet(), 3);
            let clock = machine.clock;
            clock.plan_leap_second(true, false);
            let start = before_midnight(3 * SECOND);
            clock.setclock(start, &mut || machine.pass_ns(10_000));
            while clock.realtime() < before_midnight(lead + 5 * MS) {
                machine.tick(MS);
            }
            let real = clock.realtime().to_ns();
            let uptime = clock.monotonic_ns();
            clock
                .choose("HPET", &mut || machine.pass_ns(slow_change))
                .expect("fit");
            steps_back(&mut machine, 20, MS);
            let told = clock.realtime().to_ns() - real;
            let passed = i128::from(clock.monotonic_ns() - uptime);
            assert!(
                (passed - told - 1_000_000_000).abs() <= 2,
                "asked {lead} ns before, {slow_change} ns a turn: {told} in {passed}"
            );
            let state = clock.leap_second().0;
            assert!(
                matches!(state, LeapState::Oop | LeapState::Wait),
                "{state:?}"
            );
        }
    }
}

#[test]
fn a_leap_second_next_to_a_counters_step_back_is_made_once() {
    for lead in (11..40).map(|n| n * 100_000) {
        let counter = tsc();
        let mut machine = Machine::new();
        machine.add(counter, 1 << 40);
        let clock = machine.clock;
        clock.plan_leap_second(true, false);
        let start = before_midnight(2 * SECOND);
        clock.setclock(start, &mut || machine.pass_ns(10_000));
        while clock.realtime() < before_midnight(lead) {
            machine.tick(MS);
        }
        machine.turn_back(counter, 1 << 39);
        machine.tick(MS);
        assert_eq!(clock.statistics().rebased(), 1, "the counter stepped back");
        for _ in 0..5 {
            machine.tick(MS);
        }
        let state = clock.leap_second().0;
        assert_eq!(state, LeapState::Oop, "{lead} ns before midnight");
        let offset = clock.realtime().to_ns() - before_midnight(0).to_ns();
        assert!(
            (-1_000_000_000..=-980_000_000).contains(&offset),
            "{offset} ns after midnight is not within the repeated second"
        );
    }
}

#[test]
fn a_leap_second_at_one_windup_a_second_never_hides_the_precise_time() {
    // A windup that is a little late announces two seconds that both change
    // something: the repeated one, and the one after it.
    for phase in 0..60 {
        let mut machine = Machine::new();
        machine.clock.set_hz(1);
        machine.add(hpet(), 3);
        let clock = machine.clock;
        clock.plan_leap_second(true, false);
        let start = before_midnight(2950 * MS);
        clock.setclock(start, &mut || machine.pass_ns(10_000_000));
        machine.pass_ns(phase * 5 * MS);
        for step in 0..700 {
            let (uptime, at) = (clock.monotonic_ns(), machine.now_ns());
            machine.pass_ns(10 * MS);
            if step % 107 == 0 {
                clock.windup();
            }
            let gained = clock.monotonic_ns() - uptime;
            let passed = machine.now_ns() - at;
            // A start late by a second or so catches up with a thousandth of it.
            assert!(
                gained.abs_diff(passed) <= 3 * MS,
                "phase {phase}: {gained} in {passed} ns"
            );
        }
        assert_eq!(clock.leap_second().0, LeapState::Wait, "phase {phase}");
    }
}

#[test]
fn a_second_deleted_is_skipped_exactly() {
    let mut machine = on_tsc();
    let clock = machine.clock;
    clock.set_tai_offset(37);
    clock.plan_leap_second(false, true);
    clock.setclock(before_midnight(3 * SECOND), &mut || machine.pass_ns(10_000));
    let (real, uptime) = (clock.realtime().to_ns(), clock.monotonic_ns());
    let mut skips = 0;
    for _ in 0..5000 {
        let last = clock.realtime().to_ns();
        machine.tick(MS);
        if clock.realtime().to_ns() - last > 500_000_000 {
            skips += 1;
        }
    }
    let told = clock.realtime().to_ns() - real;
    let passed = i128::from(clock.monotonic_ns() - uptime);
    assert_eq!(skips, 1, "one step");
    assert!(
        (told - passed - 1_000_000_000).abs() <= 2,
        "{told} in {passed}"
    );
    assert_eq!(clock.leap_second(), (LeapState::Wait, 36));
}

#[test]
fn two_steps_within_a_second_end_at_the_later() {
    let mut machine = on_tsc();
    let clock = machine.clock;
    for sec in [1_700_000_000, 5, 1_600_000_000] {
        let time = Timespec {
            sec,
            nsec: 999_999_999,
        };
        clock.setclock(time, &mut || machine.pass_ns(10_000));
        let told = clock.realtime();
        assert!(
            told >= time && told.sec <= sec + 1,
            "set {time}, told {told}"
        );
    }
}
