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
