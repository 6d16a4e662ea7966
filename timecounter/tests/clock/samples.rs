//! Counters that wrap unseen, step back, or leap.

use super::*;

#[test]
fn missed_wraps_of_a_narrow_counter_are_found_by_a_wider_one() {
    for (ns, wraps) in [(100 * MS, 1), (300 * MS, 5), (10 * SECOND, 182)] {
        let mut machine = on_tsc();
        machine.add(pit(), 3);
        machine.choose("i8254").expect("fit");
        machine.tick(MS);
        let (told, at) = (machine.clock.monotonic_ns(), machine.now_ns());
        machine.tick(ns);
        machine.tick(MS);
        let gained = machine.clock.monotonic_ns() - told;
        let passed = machine.now_ns() - at;
        assert!(
            gained.abs_diff(passed) <= 10_000,
            "told {gained} of {passed} ns"
        );
        assert_eq!(machine.clock.statistics().missed_wraps(), wraps);
    }
}

#[test]
fn nine_tenths_of_a_wrap_are_exact_without_a_witness() {
    let mut machine = Machine::new();
    machine.add(pit(), 3);
    machine.tick(MS);
    let told = machine.clock.monotonic_ns();
    machine.tick(49 * MS);
    let gained = machine.clock.monotonic_ns() - told;
    assert!(
        gained.abs_diff(49 * MS) <= 2000,
        "told {gained} ns of 49 ms"
    );
}

#[test]
fn a_counter_that_steps_back_for_good_does_not_stop_the_clock() {
    let mut machine = Machine::new();
    let counter = tsc();
    machine.add(counter, 1 << 40);
    machine.tick(MS);
    machine.tick(MS);
    let before = machine.clock.monotonic_ns();
    counter.jump(1000);
    let during = machine.clock.monotonic_ns();
    assert_eq!(machine.clock.windup(), Windup::Rebased);
    let after = machine.clock.monotonic_ns();
    assert!(after >= before, "{before} then {after}");
    assert!(after - before <= 2 * MS, "a leap of {} ns", after - before);
    assert!(during.abs_diff(before) <= 2 * MS, "{before} then {during}");
    counter.advance(2_400_000);
    let later = machine.clock.monotonic_ns();
    assert!(
        (later - after).abs_diff(MS) <= 2,
        "{} ns in 1 ms",
        later - after
    );
    assert_eq!(machine.clock.statistics().rebased(), 1);
}

#[test]
fn a_sample_that_slips_back_a_little_makes_no_leap_on_any_counter() {
    for counter in [tsc(), hpet(), pm(), pit()] {
        let mut machine = Machine::new();
        machine.add(counter, 0x1234);
        let clock = machine.clock;
        machine.tick(MS);
        let (told, at) = (clock.monotonic_ns(), machine.now_ns());
        for slips in 1..=20 {
            // Two ticks between two windups, with a slip at the second.
            machine.tick(MS);
            counter.slip(1, counter.frequency / 1000 + 3);
            machine.tick(0);
            machine.tick(MS);
            let gained = clock.monotonic_ns() - told;
            let passed = machine.now_ns() - at;
            assert!(
                gained.abs_diff(passed) <= 2000,
                "{} slipped {slips} times: {gained} of {passed} ns",
                counter.name
            );
        }
        assert!(
            clock.statistics().backward_samples() > 0,
            "{}: slips are counted",
            counter.name
        );
    }
}

#[test]
fn a_narrow_counter_that_steps_back_for_good_does_not_stop_the_clock() {
    let counter = hpet();
    let mut machine = Machine::new();
    machine.add(counter, 1 << 20);
    let clock = machine.clock;
    machine.tick(MS);
    machine.tick(MS);
    let told = clock.monotonic_ns();
    // Half a second.
    machine.turn_back(counter, 50_000_000);
    machine.tick(0);
    assert!(clock.monotonic_ns() >= told, "uptime went back");
    assert!(clock.monotonic_ns() - told <= 2 * MS, "uptime leapt");
    let (told, at) = (clock.monotonic_ns(), machine.now_ns());
    for _ in 0..10 {
        machine.tick(MS);
    }
    let gained = clock.monotonic_ns() - told;
    assert!(gained.abs_diff(machine.now_ns() - at) <= 20, "{gained} ns");
}

#[test]
fn a_counter_that_leaps_absurdly_never_turns_uptime_back() {
    for frequency in [1_000, 1_000_000, 1_000_000_000, 5_800_000_000] {
        for leap in [1 << 33, 1 << 40, 1 << 50, 1 << 61, (1 << 63) - 1, 1 << 63] {
            let counter = Manual::new("any", frequency, 64, 1);
            let mut machine = Machine::new();
            machine.add(counter, 99);
            let clock = machine.clock;
            let mut told = clock.monotonic_ns();
            for _ in 0..3 {
                counter.advance(leap);
                for _ in 0..3 {
                    clock.windup();
                    counter.advance(10);
                    let now = clock.monotonic_ns();
                    let fraction = clock.monotonic().nsec;
                    assert!(fraction < 1_000_000_000, "{fraction} ns in a second");
                    assert!(now >= told, "{frequency} Hz, {leap}: {told} then {now}");
                    told = now;
                }
            }
        }
    }
}

#[test]
fn a_witness_that_comes_later_than_its_counter_is_used() {
    let mut machine = Machine::new();
    machine.add(pit(), 3);
    machine.choose("i8254").expect("fit");
    machine.add(tsc(), 77);
    machine.tick(MS);
    machine.tick(MS);
    let (told, at) = (machine.clock.monotonic_ns(), machine.now_ns());
    machine.tick(300 * MS);
    machine.tick(MS);
    let gained = machine.clock.monotonic_ns() - told;
    let passed = machine.now_ns() - at;
    assert!(gained.abs_diff(passed) <= 10_000, "{gained} of {passed} ns");
    assert_eq!(machine.clock.statistics().missed_wraps(), 5);
}

#[test]
fn a_witness_at_twice_its_rate_adds_no_wraps_within_one() {
    // It is as wide as a witness must be, and never compared.
    let wild = Manual::lying("WILD", (1_000_000_000, 2_000_000_000), 64, 1);
    for stall in [20, 25, 30, 35, 40] {
        let mut machine = Machine::new();
        machine.add(pit(), 3);
        machine.choose("i8254").expect("fit");
        machine.add_unsettled(wild, 5);
        machine.tick(MS);
        let (told, at) = (machine.clock.monotonic_ns(), machine.now_ns());
        machine.tick(stall * MS);
        machine.tick(MS);
        let gained = machine.clock.monotonic_ns() - told;
        let passed = machine.now_ns() - at;
        assert!(
            gained.abs_diff(passed) <= 10_000,
            "{stall} ms: {gained} of {passed} ns"
        );
    }
}

#[test]
fn a_counter_at_three_windups_a_wrap_loses_nothing() {
    // 55 windups a second: 18.2 ms of the i8254's 54.9 ms.
    let mut machine = Machine::new();
    machine.clock.set_hz(55);
    machine.add(pit(), 3);
    assert_eq!(machine.clock.active().expect("running").name(), "i8254");
    let (mut told, mut at) = (machine.clock.monotonic_ns(), machine.now_ns());
    for tick in 0..200 {
        // On time, and a tick and a half late.
        let ns = 18_181_818 + tick % 4 * 9_000_000;
        for _ in 0..7 {
            machine.pass_ns(ns / 7);
            let now = machine.clock.monotonic_ns();
            let gained = now - told;
            let passed = machine.now_ns() - at;
            assert!(
                gained <= passed + 50_000 && gained + 50_000 >= passed,
                "tick {tick}: {gained} in {passed} ns"
            );
            (told, at) = (now, machine.now_ns());
        }
        machine.clock.windup();
    }
}

#[test]
fn a_fast_counter_wound_up_late_at_a_seconds_edge_never_goes_back() {
    // Above 2^32 Hz a second does not fit the reader's 32-bit difference, and a
    // windup may be stopped after any store.
    for frequency in [4_300_000_000, 5_800_000_001] {
        for (late, stop) in (0..40).flat_map(|late| (1..60).map(move |stop| (late, stop))) {
            let mut machine = Machine::new();
            machine.clock.set_hz(2);
            machine.add(Manual::new("TSC", frequency, 64, 1000), 1 << 40);
            let clock = machine.clock;
            machine.tick(500 * MS);
            machine.pass_ns(700 * MS + late * 25 * MS);
            let told = clock.monotonic_ns();
            let mut stores = 0;
            clock.windup_until(&mut || {
                stores += 1;
                stores <= stop
            });
            let now = clock.monotonic_ns();
            assert!(
                now >= told && now - told < 10 * MS,
                "{frequency} Hz, {late}, stopped after {stop}: {told} then {now}"
            );
        }
    }
}
