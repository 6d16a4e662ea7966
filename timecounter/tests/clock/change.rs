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
    let mut machine = on_tsc();
    let liar = Manual::new("LIAR", 50_000_000, 64, -1);
    machine.add(liar, 0);
    // It claims twice the rate it runs at.
    let claimed = Manual::new("HALF", 100_000_000, 64, -1);
    machine.clock.register(claimed).expect("sound to look at");
    let clock = machine.clock;
    let outcome = clock.choose("HALF", &mut || {
        machine.pass_ns(10_000);
        claimed.jump(liar.position());
    });
    match outcome {
        Err(ChooseError::Rate { ppb }) => assert!(
            (-510_000_000..=-490_000_000).contains(&ppb),
            "half the rate was measured as {ppb} ppb"
        ),
        other => panic!("a counter at half its rate: {other:?}"),
    }
    assert_eq!(clock.active().expect("running").name(), "TSC");
    assert!(!clock.pinned(), "a refused choice pins nothing");
    let before = clock.monotonic_ns();
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
