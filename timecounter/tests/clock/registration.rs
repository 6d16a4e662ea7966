//! Which counters are let in, and which is preferred.

use super::*;

#[test]
fn an_unknown_name_changes_nothing_and_pins_nothing() {
    let mut machine = on_tsc();
    for name in ["", "tsc", "TSC ", "HPET", "TSC-low"] {
        assert_eq!(machine.choose(name), Err(ChooseError::Unknown), "{name:?}");
    }
    machine.add(Manual::new("better", 1_000_000_000, 64, 2000), 9);
    assert_eq!(
        machine.clock.active().expect("running").name(),
        "better",
        "a wrong name must not keep a better counter from being chosen"
    );
}

#[test]
fn a_choice_stays_until_it_is_given_back() {
    let mut machine = on_tsc();
    machine.add(hpet(), 1);
    machine.choose("HPET").expect("fit");
    machine.add(Manual::new("better", 1_000_000_000, 64, 2000), 9);
    assert_eq!(machine.clock.active().expect("running").name(), "HPET");
    let clock = machine.clock;
    clock
        .choose_best(&mut || machine.pass_ns(10_000))
        .expect("fit");
    assert_eq!(clock.active().expect("running").name(), "better");
}

#[test]
fn a_narrow_counter_without_enough_ticks_is_not_chosen() {
    let mut machine = Machine::new();
    machine.clock.set_hz(50);
    machine.add(pit(), 1);
    let entry = machine.clock.registry().find("i8254").expect("registered");
    assert_eq!(entry.quality(), -2000);
    assert_eq!(
        entry.reason().to_string(),
        "needs 54 windups a second, there are 50"
    );
    assert_eq!(machine.clock.active().expect("running").name(), "dummy");
}

#[test]
fn an_i8254_is_fit_from_54_windups_a_second() {
    for (hz, quality) in [(53, -2000), (54, 0)] {
        let mut machine = Machine::new();
        machine.clock.set_hz(hz);
        machine.add(pit(), 1);
        let entry = machine.clock.registry().find("i8254").expect("registered");
        assert_eq!(entry.quality(), quality, "at {hz} windups a second");
    }
}

#[test]
fn a_lone_narrow_counter_says_what_stall_it_bears() {
    let mut machine = Machine::new();
    machine.add(pit(), 1);
    let alone = machine.clock.bearable_stall_ns();
    assert!(
        alone.is_some_and(|ns| (48 * MS..49 * MS).contains(&ns)),
        "seven eighths of 54.9 ms, not {alone:?}"
    );
    machine.add(tsc(), 1);
    machine.choose("i8254").expect("fit");
    assert_eq!(
        machine.clock.bearable_stall_ns(),
        None,
        "the TSC shows wraps"
    );
    machine.choose("TSC").expect("fit");
    assert_eq!(machine.clock.bearable_stall_ns(), None, "64 bits");
}

#[test]
fn a_counter_with_fewer_than_two_windups_a_wrap_cannot_be_chosen() {
    for (hz, fit) in [(8, false), (36, false), (37, true), (54, true)] {
        let mut machine = on_tsc();
        machine.clock.set_hz(hz);
        machine.add(pit(), 1);
        let refusal = ChooseError::TooNarrow {
            needs: 37,
            hz: u64::from(hz),
        };
        let expected = if fit { Ok(()) } else { Err(refusal) };
        assert_eq!(machine.choose("i8254"), expected, "{hz} windups a second");
        let name = if fit { "i8254" } else { "TSC" };
        assert_eq!(machine.clock.active().expect("running").name(), name);
    }
}

#[test]
fn registration_refuses_what_cannot_tell_time() {
    let machine = Machine::new();
    let register = |name, frequency, width| {
        machine
            .clock
            .register(Manual::new(name, frequency, width, 1))
    };
    assert!(matches!(
        register("zero", 0, 64),
        Err(RegisterError::Frequency(_))
    ));
    assert!(matches!(
        register("narrow", 1000, 7),
        Err(RegisterError::Mask(0x7f))
    ));
    assert_eq!(register("", 1000, 64), Err(RegisterError::Name));
    assert_eq!(register("a.b", 1000, 64), Err(RegisterError::Name));
    assert_eq!(
        register("sixteen-letters-", 1000, 64),
        Err(RegisterError::Name)
    );
    assert_eq!(register("dummy", 1000, 64), Err(RegisterError::Duplicate));
}

#[test]
fn a_rate_that_cannot_be_adjusted_is_refused() {
    let machine = Machine::new();
    for frequency in [1, 1 << 63, u64::MAX - 1, u64::MAX] {
        let outcome = machine.clock.register(Manual::new("any", frequency, 64, 1));
        assert!(
            matches!(outcome, Err(RegisterError::Frequency(_))),
            "{frequency} Hz: {outcome:?}"
        );
    }
}

#[test]
fn every_width_and_rate_that_is_let_in_tells_time() {
    for frequency in [
        2,
        3,
        1_000,
        1_000_000,
        1_000_000_000,
        5_800_000_000,
        1 << 40,
        1 << 55,
    ] {
        for width in [8, 9, 16, 24, 31, 32, 33, 63, 64] {
            for hz in [1, 1_000, 1_000_000] {
                let mut machine = Machine::new();
                machine.clock.set_hz(hz);
                machine.add(Manual::new("any", frequency, width, 1), 1 << 62);
                let clock = machine.clock;
                let mut told = clock.monotonic_ns();
                let tick = SECOND / u64::from(hz);
                for part in 0..30 {
                    machine.pass_ns(tick / 3);
                    if part % 3 == 0 {
                        clock.windup();
                    }
                    let now = clock.monotonic_ns();
                    assert!(
                        now >= told,
                        "{frequency} Hz, {width} bits, {hz} windups a second: {told} then {now}"
                    );
                    told = now;
                }
            }
        }
    }
}

#[test]
fn a_full_registry_refuses_the_next_and_keeps_running() {
    let mut machine = on_tsc();
    let names = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n",
    ];
    for name in names {
        machine.add(Manual::new(name, 1_000_000, 64, 1), 1);
    }
    let outcome = machine
        .clock
        .register(Manual::new("o", 1_000_000, 64, 2000));
    assert_eq!(outcome, Err(RegisterError::Full), "sixteen with the dummy");
    machine.tick(MS);
    assert_eq!(machine.clock.active().expect("running").name(), "TSC");
}

#[test]
fn more_ticks_give_a_narrow_counter_its_quality_back() {
    let mut machine = Machine::new();
    machine.add(pit(), 1);
    machine.clock.set_hz(50);
    for _ in 0..5 {
        machine.tick(20 * MS);
    }
    let entry = machine.clock.registry().find("i8254").expect("registered");
    assert_eq!(
        entry.quality(),
        -2000,
        "three windups a wrap are 54 a second"
    );
    machine.clock.set_hz(1000);
    assert_eq!(entry.quality(), 0, "{}", entry.reason());
    machine.settle();
    assert_eq!(machine.clock.active().expect("running").name(), "i8254");
}
