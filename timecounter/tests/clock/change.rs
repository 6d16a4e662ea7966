//! From one counter to another.

use super::*;

#[test]
fn changing_the_counter_steps_neither_clock() {
    let mut machine = on_tsc();
    machine.add(hpet(), 0xFFFF_FF00);
    machine.add(pm(), 0xFF_FFF0);
    machine.add(pit(), 7);
    for round in 0..250 {
        for name in ["HPET", "ACPI-fast", "i8254", "TSC"] {
            let (told, real) = (machine.clock.monotonic_ns(), machine.clock.realtime());
            let at = machine.now_ns();
            machine.choose(name).expect("all run at their rates");
            assert_eq!(machine.clock.active().expect("running").name(), name);
            let passed = machine.now_ns() - at;
            let gained = machine.clock.monotonic_ns() - told;
            // Less what the floor slope cost, and a count of either.
            assert!(
                gained <= passed + 1700 && gained + 2000 + passed / 900 >= passed,
                "round {round}: {gained} ns told in {passed} ns to {name}"
            );
            assert!(machine.clock.realtime() >= real, "realtime went back");
            for _ in 0..3 {
                machine.tick(MS);
            }
        }
    }
}

#[test]
fn each_counter_in_turn_tells_the_time() {
    let mut machine = on_tsc();
    machine.add(hpet(), 1);
    machine.add(pm(), 2);
    machine.add(pit(), 3);
    let start = machine.clock.monotonic_ns();
    let at = machine.now_ns();
    for name in ["i8254", "ACPI-fast", "HPET", "TSC"] {
        machine.choose(name).expect("fit");
        for _ in 0..3 {
            machine.tick(MS);
        }
    }
    let told = machine.clock.monotonic_ns() - start;
    let passed = machine.now_ns() - at;
    assert!(told.abs_diff(passed) <= 8000, "told {told} of {passed} ns");
}

#[test]
fn a_counter_at_half_its_rate_is_refused_with_the_figure() {
    let mut machine = with_liar(50_000_000);
    match machine.choose("LIAR") {
        Err(ChooseError::Rate { ppb }) => assert!(
            (-510_000_000..=-490_000_000).contains(&ppb),
            "half the rate was measured as {ppb} ppb"
        ),
        other => panic!("a counter at half its rate: {other:?}"),
    }
    assert_eq!(machine.clock.active().expect("running").name(), "TSC");
    assert!(!machine.clock.pinned(), "a refused choice pins nothing");
    let before = machine.clock.monotonic_ns();
    machine.tick(MS);
    assert!(machine.clock.monotonic_ns() > before, "the clock goes on");
}

#[test]
fn the_next_best_takes_over_when_the_best_proves_unfit() {
    let mut machine = Machine::new();
    machine.add(hpet(), 5);
    let stopped = Manual::new("TSC", 2_400_000_000, 64, 1000);
    machine.clock.register(stopped).expect("sound to look at");
    machine.settle();
    assert_eq!(machine.clock.active().expect("running").name(), "HPET");
    let tsc = machine.clock.registry().find("TSC").expect("registered");
    assert_eq!(tsc.quality(), -2000, "it is not tried again");
    assert!(
        tsc.reason().to_string().contains("HPET"),
        "{}",
        tsc.reason()
    );
}

#[test]
fn a_stopped_counter_can_be_left() {
    let mut machine = Machine::new();
    machine.add(hpet(), 5);
    let other = tsc();
    machine.clock.register(other).expect("sound");
    // From now on the HPET stands still.
    let clock = machine.clock;
    let before = clock.monotonic_ns();
    clock
        .choose("TSC", &mut || other.advance(24_000))
        .expect("the TSC runs");
    assert!(clock.monotonic_ns() >= before, "uptime went back");
}

/// A machine on the TSC with a counter that claims 100 MHz and runs at `real`.
fn with_liar(real: u64) -> Machine {
    let mut machine = on_tsc();
    machine.add(Manual::lying("LIAR", (100_000_000, real), 64, -1), 7);
    machine
}

#[test]
fn a_refused_choice_costs_no_other_counter_its_quality() {
    let mut machine = with_liar(50_000_000);
    assert!(machine.choose("LIAR").is_err(), "half its rate");
    machine.settle();
    let tsc = machine.clock.registry().find("TSC").expect("registered");
    assert_eq!(tsc.quality(), 1000, "{}", tsc.reason());
    assert_eq!(machine.clock.active().expect("running").name(), "TSC");
}

#[test]
fn a_refused_choice_leaves_what_was_wanted_before() {
    let mut machine = with_liar(50_000_000);
    // Wanted, but no windup has come yet.
    machine.add_unsettled(Manual::new("better", 1_000_000_000, 64, 2000), 77);
    assert!(machine.choose("LIAR").is_err(), "half its rate");
    for _ in 0..5 {
        machine.tick(MS);
    }
    assert_eq!(machine.clock.active().expect("running").name(), "better");
}

#[test]
fn a_pinned_choice_stays_pinned_when_another_is_refused() {
    let mut machine = with_liar(50_000_000);
    machine.add(hpet(), 3);
    machine.choose("HPET").expect("fit");
    assert!(machine.choose("LIAR").is_err(), "half its rate");
    assert!(machine.clock.pinned(), "still the operator's choice");
    machine.settle();
    assert_eq!(machine.clock.active().expect("running").name(), "HPET");
}

#[test]
fn choosing_the_active_counter_takes_a_pending_change_back() {
    let mut machine = on_tsc();
    machine.add_unsettled(Manual::new("better", 1_000_000_000, 64, 2000), 9);
    machine.choose("TSC").expect("it is active");
    for _ in 0..5 {
        machine.tick(MS);
    }
    assert_eq!(machine.clock.active().expect("running").name(), "TSC");
}

#[test]
fn a_counter_registered_during_a_choice_does_not_get_the_pin() {
    let mut machine = on_tsc();
    machine.add(hpet(), 3);
    let clock = machine.clock;
    let better = Manual::new("better", 1_000_000_000, 64, 2000);
    let mut turns = 0;
    let outcome = clock.choose("HPET", &mut || {
        if turns == 3 {
            machine.add_unsettled(better, 9);
        }
        turns += 1;
        machine.pass_ns(10_000);
    });
    assert_eq!(outcome, Ok(()), "the HPET is fit");
    assert_eq!(clock.active().expect("running").name(), "HPET");
}

#[test]
fn a_counter_a_percent_off_is_refused_whenever_it_is_asked_for() {
    for real in [99_000_000, 101_000_000] {
        for phase in 0..24 {
            let mut machine = with_liar(real);
            machine.tick(MS);
            // From well before the segment's end to past it.
            machine.pass_ns(phase * 60_000);
            let outcome = machine.choose("LIAR");
            assert!(
                matches!(outcome, Err(ChooseError::Rate { .. })),
                "{real} Hz for 100 MHz, asked in phase {phase}: {outcome:?}"
            );
        }
    }
}

#[test]
fn a_counter_too_slow_for_the_adjustment_in_force_is_refused() {
    let clock_of = |adjustment| {
        // 700 ppm slow.
        let slow = Manual::lying("SLOW", (1_000_000_000, 999_300_000), 64, -1);
        let mut machine = Machine::new();
        machine.add(Manual::new("NS", 1_000_000_000, 64, 1000), 1);
        machine.add(slow, 7);
        machine.clock.set_adjustment(adjustment).expect("in range");
        machine.choose("SLOW")
    };
    assert_eq!(clock_of(0), Ok(()), "above the floor slope");
    let outcome = clock_of(-MAX_ADJUSTMENT);
    assert!(
        matches!(outcome, Err(ChooseError::Rate { .. })),
        "below the floor slope: {outcome:?}"
    );
}

#[test]
fn a_narrow_counter_that_wraps_during_the_wait_is_not_called_a_liar() {
    for (from, to) in [("TSC", "i8254"), ("i8254", "ACPI-fast")] {
        for stall in [30, 40, 50, 57, 70, 112, 900] {
            let mut machine = on_tsc();
            machine.add(pm(), 5);
            machine.add(pit(), 9);
            machine.choose(from).expect("fit");
            machine.tick(MS);
            let clock = machine.clock;
            let mut first = true;
            let outcome = clock.choose(to, &mut || {
                let ns = if first { stall * MS } else { 10_000 };
                first = false;
                machine.pass_ns(ns);
            });
            assert_eq!(outcome, Ok(()), "{from} to {to} over {stall} ms");
        }
    }
}

#[test]
fn a_sample_that_slips_during_a_change_makes_no_leap() {
    for to in ["HPET", "ACPI-fast", "i8254"] {
        for slipping in ["TSC", to] {
            for (nth, by) in (1..9).flat_map(|nth| [(nth, 1), (nth, 27)]) {
                let old = tsc();
                let mut machine = Machine::new();
                machine.add(old, 1 << 40);
                let others = [hpet(), pm(), pit()];
                for other in others {
                    machine.add(other, 0x1000);
                }
                let all = [old, others[0], others[1], others[2]];
                let slips = all.iter().find(|tc| tc.name == slipping).expect("one of");
                let clock = machine.clock;
                let (told, at) = (clock.monotonic_ns(), machine.now_ns());
                let mut turns = 0;
                slips.slip(nth, by);
                let outcome = clock.choose(to, &mut || {
                    turns += 1;
                    if turns % 20 == 0 {
                        slips.slip(nth, by);
                    }
                    machine.pass_ns(10_000);
                });
                // A slip may look like a wrong rate, but never like time.
                assert!(
                    matches!(outcome, Ok(()) | Err(ChooseError::Rate { .. })),
                    "{slipping} slips by {by}: {outcome:?}"
                );
                let gained = clock.monotonic_ns() - told;
                let passed = machine.now_ns() - at;
                assert!(
                    gained <= passed + 100_000,
                    "{slipping} slips by {by} in read {nth}: {gained} of {passed} ns"
                );
            }
        }
    }
}

#[test]
fn a_stopped_counter_is_left_for_a_narrow_one_at_a_slow_tick() {
    let mut machine = Machine::new();
    machine.clock.set_hz(100);
    machine.add(hpet(), 5);
    let other = pit();
    machine.clock.register(other).expect("sound");
    let clock = machine.clock;
    let outcome = clock.choose("i8254", &mut || other.advance(1193));
    assert_eq!(outcome, Ok(()), "the i8254 runs");
}

#[test]
fn the_dummy_does_not_replace_a_counter_that_runs() {
    let mut machine = on_tsc();
    let outcome = machine.choose("dummy");
    assert!(
        matches!(outcome, Err(ChooseError::Rate { .. })),
        "{outcome:?}"
    );
    assert_eq!(machine.clock.active().expect("running").name(), "TSC");
}

#[test]
fn an_old_counter_seconds_late_loses_nothing_but_the_floor_slope() {
    for gap in [SECOND, 3 * SECOND, 20 * SECOND] {
        let mut machine = on_tsc();
        machine.add(hpet(), 3);
        let clock = machine.clock;
        let told = clock.monotonic_ns();
        let at = machine.now_ns();
        let mut first = true;
        clock
            .choose("HPET", &mut || {
                machine.pass_ns(if first { gap } else { 10_000 });
                first = false;
            })
            .expect("fit");
        let gained = clock.monotonic_ns() - told;
        let passed = machine.now_ns() - at;
        assert!(
            gained <= passed && gained + passed / 1000 >= passed,
            "{gained} of {passed} ns"
        );
    }
}

#[test]
fn a_change_and_a_step_asked_for_together_both_happen_once() {
    let mut machine = on_tsc();
    machine.add(hpet(), 3);
    machine.add_unsettled(Manual::new("better", 1_000_000_000, 64, 2000), 9);
    let clock = machine.clock;
    let time = Timespec {
        sec: 1_700_000_000,
        nsec: 0,
    };
    let at = machine.now_ns();
    clock.setclock(time, &mut || machine.pass_ns(10_000));
    assert_eq!(clock.active().expect("running").name(), "better");
    for _ in 0..5 {
        machine.tick(MS);
    }
    let since = clock.realtime().to_ns() - time.to_ns();
    let passed = i128::from(machine.now_ns() - at);
    assert!((passed - since).abs() <= 3000, "{since} of {passed} ns");
}

#[test]
fn the_clock_can_be_given_counters_before_it_is_started() {
    let page = Box::leak(Box::new(timecounter::page::TimehandsPage::new()));
    let clock: &'static timecounter::Clock = Box::leak(Box::new(timecounter::Clock::new(page)));
    assert_eq!(clock.monotonic(), Timespec::ZERO, "nothing tells time yet");
    assert_eq!(clock.windup(), Windup::Early, "nor can it be wound up");
    clock.register(tsc()).expect("sound");
    clock.start();
    let names: Vec<_> = clock.registry().iter().map(|tc| tc.name()).collect();
    assert_eq!(names, ["dummy", "TSC"], "the dummy is always first");
    assert!(clock.monotonic().sec >= 1, "started");
}
