//! The watchdog on whole clocks, where reading a counter takes time: counters
//! that run wrong, stand still, jump, or are slow to read.

use std::sync::atomic::Ordering;

use timecounter::watch::Watched;

use super::SECOND;
use super::rig::{Rig, board};

#[test]
fn sound_counters_are_left_alone_however_the_reads_are_put_aside() {
    // Ten thousand checks in all.
    for seed in 0..100 {
        let (rig, [tsc, hpet, acpi]) = board(seed);
        rig.board.put_aside.store(3 + seed % 5, Ordering::Relaxed);
        let slow = [tsc, hpet, acpi][(seed % 3) as usize];
        slow.cost.store(200_000, Ordering::Relaxed);
        for check in 0..100 {
            let found = rig.interval();
            assert!(
                !matches!(found, Watched::Convicted { .. } | Watched::Undecided { .. }),
                "seed {seed}, check {check}: {found}"
            );
        }
        assert_eq!(rig.active(), "HPET", "seed {seed}");
    }
}

#[test]
fn an_error_of_300_ppm_is_measured_and_followed() {
    for ppb in [300_000, -300_000] {
        let (rig, [_, hpet, _]) = board(7);
        hpet.turn(ppb);
        for _ in 0..4 {
            rig.interval();
        }
        let skew = rig.clock.active().and_then(|active| active.skew_ppb());
        let skew = skew.expect("measured");
        assert!((skew - ppb).abs() < 5_000, "{skew} ppb of {ppb}");
        let left = rig.error_ppb();
        assert!(left.abs() < 10_000, "{left} ppb are left of {ppb}");
        assert_eq!(rig.active(), "HPET", "and it still tells the time");
    }
}

#[test]
fn without_a_third_a_nominal_rate_is_trusted_over_a_measured_one() {
    let rig = Rig::new(3);
    let acpi = rig.add("ACPI-fast", 3_579_545, 24, 900);
    let tsc = rig.add("TSC", 2_400_000_000, 64, 1000);
    rig.interval();
    tsc.turn(120_000);
    for _ in 0..4 {
        rig.interval();
    }
    let left = rig.error_ppb();
    assert!(left.abs() < 10_000, "the TSC follows the chip: {left} ppb");

    let rig = Rig::new(3);
    rig.add("TSC", 2_400_000_000, 64, 800).turn(120_000);
    rig.add("ACPI-fast", 3_579_545, 24, 900);
    for _ in 0..5 {
        assert!(
            !matches!(rig.interval(), Watched::Corrected { .. }),
            "the chip does not follow the TSC"
        );
    }
    assert_eq!(acpi.quality, 900);
}

#[test]
fn beyond_the_threshold_the_third_convicts_the_one_that_is_wrong() {
    for ppb in [20_000_000, -20_000_000, 700_000, -700_000] {
        for wrong in ["HPET", "ACPI-fast"] {
            let (rig, chips) = board(11);
            let chip = chips.iter().find(|chip| chip.name == wrong);
            chip.expect("it is there").turn(ppb);
            let found: Vec<Watched> = (0..3).map(|_| rig.interval()).collect();
            let convicted: Vec<&str> = found
                .iter()
                .filter_map(|found| match found {
                    Watched::Convicted { name, .. } => Some(*name),
                    _ => None,
                })
                .collect();
            assert_eq!(convicted, [wrong], "{ppb} ppb: {found:?}");
            rig.settle();
            let next = if wrong == "HPET" { "ACPI-fast" } else { "HPET" };
            assert_eq!(rig.active(), next, "the next best tells the time");
            let left = rig.error_ppb();
            assert!(left.abs() < 20_000, "{left} ppb after {ppb} of {wrong}");
        }
    }
}

#[test]
fn a_convicted_counter_is_replaced_although_it_was_chosen() {
    let (rig, [_, hpet, _]) = board(5);
    let board = rig.board;
    rig.clock
        .choose("HPET", &mut || _ = board.pass(100_000))
        .expect("it runs");
    hpet.turn(-30_000_000);
    rig.interval();
    rig.interval();
    rig.interval();
    assert_eq!(rig.active(), "ACPI-fast");
    assert!(!rig.clock.pinned(), "the choice is given up");
}

#[test]
fn a_counter_that_stands_still_is_replaced() {
    let (rig, [_, hpet, _]) = board(9);
    hpet.turn(-1_000_000_000);
    let found: Vec<String> = (0..3).map(|_| rig.interval().to_string()).collect();
    let reason = "HPET: stands still by ACPI-fast and TSC";
    assert!(
        found.iter().any(|found| found == reason) || rig.quality("HPET") < 0,
        "{found:?}"
    );
    rig.settle();
    assert_eq!(rig.active(), "ACPI-fast");
    let left = rig.error_ppb();
    assert!(left.abs() < 20_000, "{left} ppb");
}

#[test]
fn a_jump_convicts_the_counter_that_jumped() {
    for ns in [50_000_000, -50_000_000] {
        let (rig, [_, hpet, acpi]) = board(13);
        hpet.jump_ns(ns);
        if ns < 0 {
            // What readers see of that before the next windup is not looked at.
            rig.clock.windup();
            rig.latest.set(0);
        }
        let found = rig.interval();
        assert!(
            matches!(found, Watched::Convicted { name: "HPET", .. }),
            "{ns} ns: {found}"
        );
        rig.settle();
        // The reference is the TSC from now on, and no third is left.
        acpi.jump_ns(ns);
        let found = rig.interval();
        assert!(
            !matches!(found, Watched::Convicted { .. }),
            "two cannot convict: {found}"
        );
    }
}

#[test]
fn a_disagreement_that_nobody_can_decide_is_said_once() {
    let rig = Rig::new(1);
    rig.add("ACPI-fast", 3_579_545, 24, 900);
    let hpet = rig.add("HPET", 100_000_000, 32, 950);
    rig.interval();
    hpet.turn(20_000_000);
    let said = (0..6)
        .filter(|_| matches!(rig.interval(), Watched::Undecided { .. }))
        .count();
    assert_eq!(said, 1, "once");
    assert_eq!(rig.active(), "HPET", "and nobody is convicted");
}

#[test]
fn an_interval_that_may_hide_a_wrap_convicts_nobody() {
    let (rig, _) = board(17);
    for pause in [
        2 * SECOND,
        3 * SECOND,
        5 * SECOND,
        30 * SECOND,
        600 * SECOND,
    ] {
        rig.board.pass(pause);
        // Its readers know no more than the latest windup does.
        rig.clock.windup();
        let found = rig.interval();
        assert!(
            !matches!(found, Watched::Convicted { .. } | Watched::Undecided { .. }),
            "a pause of {pause} ns: {found}"
        );
    }
    assert_eq!(rig.active(), "HPET");
}

#[test]
fn a_lone_counter_is_checked_by_nobody() {
    let rig = Rig::new(2);
    rig.add("HPET", 100_000_000, 32, 950);
    assert_eq!(rig.interval(), Watched::Alone, "the dummy is no reference");
    let pit = rig.add("i8254", 1_193_182, 16, 0);
    for _ in 0..3 {
        let found = rig.interval();
        assert_eq!(found, Watched::Unusable, "it wraps 18 times meanwhile");
    }
    assert_eq!(pit.quality, 0);
}
