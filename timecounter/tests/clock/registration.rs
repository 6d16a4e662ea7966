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
        "needs 55 windups a second, there are 50"
    );
    assert_eq!(machine.clock.active().expect("running").name(), "dummy");
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
