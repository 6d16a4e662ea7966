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
fn a_sample_a_little_back_is_taken_for_standing_still() {
    let machine = on_tsc();
    let counter = machine.clock.active().expect("running");
    let manual = counter.counter();
    let before = machine.clock.monotonic_ns();
    machine.clock.windup();
    assert_eq!(manual.read(), counter.read());
    assert!(machine.clock.monotonic_ns() >= before);
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
