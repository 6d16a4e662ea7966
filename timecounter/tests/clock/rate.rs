//! Rates: adjustments and corrected frequencies.

use super::*;

#[test]
fn a_rate_change_does_not_move_the_time_it_is_made_at() {
    let mut machine = on_tsc();
    for flip in 0..2000 {
        let ppm = if flip % 2 == 0 { 1 } else { -1 };
        let before = machine.clock.monotonic_ns();
        machine
            .clock
            .set_adjustment(ppm * MAX_ADJUSTMENT)
            .expect("500 ppm is allowed");
        machine.clock.windup();
        let after = machine.clock.monotonic_ns();
        assert!(after.abs_diff(before) <= 1, "moved {before} to {after}");
        machine.tick(MS);
    }
    assert!(machine.clock.set_adjustment(MAX_ADJUSTMENT + 1).is_err());
}

#[test]
fn five_hundred_ppm_are_five_hundred_ppm() {
    let mut machine = on_tsc();
    machine
        .clock
        .set_adjustment(MAX_ADJUSTMENT)
        .expect("allowed");
    machine.tick(MS);
    machine.tick(MS);
    let before = machine.clock.monotonic_ns();
    for _ in 0..10_000 {
        machine.tick(MS);
    }
    let told = machine.clock.monotonic_ns() - before;
    // FreeBSD's constant realises 499.9947 ppm.
    assert!(
        told.abs_diff(10 * SECOND + 4_999_947) <= 20,
        "told {told} ns in 10 s"
    );
}

#[test]
fn correcting_the_active_rate_is_continuous_and_bounded() {
    let mut machine = on_tsc();
    machine.tick(MS);
    let counter = machine.clock.active().expect("running");
    for absurd in [0, 1, 2_000_000_000, 2_403_000_000, u64::MAX] {
        assert!(
            !machine.clock.set_frequency(&counter, absurd),
            "{absurd} Hz for a counter of 2.4 GHz"
        );
        assert_eq!(counter.frequency(), 2_400_000_000);
    }
    machine.pass_ns(300_000);
    let before = machine.clock.monotonic_ns();
    assert!(machine.clock.set_frequency(&counter, 2_400_500_000));
    assert!(machine.clock.monotonic_ns().abs_diff(before) <= 1);
    machine.clock.windup();
    assert!(machine.clock.monotonic_ns().abs_diff(before) <= 1);
    for _ in 0..3 {
        machine.tick(MS);
    }
    let before = machine.clock.monotonic_ns();
    for _ in 0..1000 {
        machine.tick(MS);
    }
    let told = machine.clock.monotonic_ns() - before;
    let expected = SECOND * 24_000 / 24_005;
    assert!(
        told.abs_diff(expected) <= 3,
        "told {told}, not {expected} ns"
    );
}

#[test]
fn many_small_corrections_are_bounded_like_one_large_one() {
    let mut machine = on_tsc();
    machine.tick(MS);
    let counter = machine.clock.active().expect("running");
    let mut hz = 2_400_000_000;
    // 100 ppm at a time, within one segment and over many.
    for round in 0..40 {
        if machine.clock.set_frequency(&counter, hz + 240_000) {
            hz += 240_000;
        }
        if round >= 20 {
            machine.tick(MS);
        }
    }
    assert!(hz > 2_400_000_000, "a correction of 100 ppm is accepted");
    let ppm = (hz - 2_400_000_000) / 2_400;
    assert!(ppm <= 500, "{ppm} ppm in all");
}

/// Neither the line nor the tail of a later state may be below an earlier
/// state's tail, whichever corrections came between.
#[test]
fn a_reader_that_slept_over_corrections_is_not_ahead_of_the_next() {
    for (hz, adjustment) in [
        (2_400_500_000, -MAX_ADJUSTMENT),
        (2_401_100_000, -MAX_ADJUSTMENT),
        (2_401_100_000, 0),
        (2_402_200_000, 0),
        (2_399_000_000, -MAX_ADJUSTMENT),
    ] {
        let mut machine = on_tsc();
        machine.tick(MS);
        let clock = machine.clock;
        let told = asleep(clock, || {
            let counter = clock.active().expect("running");
            let _ = clock.set_frequency(&counter, hz);
            clock.set_adjustment(adjustment).expect("in range");
            machine.tick(MS);
            // Then the writer stands still.
            machine.pass_ns(10 * SECOND);
        });
        let then = clock.monotonic_ns();
        assert!(then >= told, "{hz} Hz: {told} ns, then {then} ns");
    }
}

#[test]
fn an_idle_counter_is_corrected_within_an_eighth_of_what_its_driver_says() {
    let mut machine = on_tsc();
    machine.add(hpet(), 1);
    let clock = machine.clock;
    let idle = clock.registry().find("HPET").expect("registered");
    let mut hz = 100_000_000;
    for _ in 0..10 {
        if clock.set_frequency(&idle, hz + 10_000_000) {
            hz += 10_000_000;
        }
    }
    assert_eq!(hz, 110_000_000, "a second tenth is more than an eighth");
}

#[test]
fn a_rate_near_one_gigahertz_is_adjusted_over_the_change_of_shift() {
    for hz in [999_999_999, 1_000_000_000, 1_000_000_001, 1_000_400_000] {
        let mut machine = Machine::new();
        machine.add(Manual::new("TSC", hz, 64, 1000), 1 << 40);
        let mut last = 0;
        for flip in 0..400 {
            let adjustment = if flip % 2 == 0 { 1 } else { -1 } * MAX_ADJUSTMENT;
            machine.clock.set_adjustment(adjustment).expect("in range");
            // Some ticks late, so that readers come by the tail too.
            for part in 0..5 {
                machine.pass_ns(200_000 + flip * 311);
                let now = machine.clock.monotonic_ns();
                assert!(now >= last, "{hz} Hz, part {part}: {last} then {now}");
                last = now;
            }
            machine.clock.windup();
            let now = machine.clock.monotonic_ns();
            assert!(now >= last, "{hz} Hz, published: {last} then {now}");
            last = now;
        }
    }
}
