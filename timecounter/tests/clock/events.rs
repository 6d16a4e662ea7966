//! Whatever happens, in whatever order.

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Windup,
    Adjust(i64),
    Choose(usize),
    Step(i64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0_u64..2_000_000).prop_map(Event::Pass),
        1 => (0_u64..30_000_000).prop_map(Event::Pass),
        4 => Just(Event::Windup),
        1 => (-MAX_ADJUSTMENT..=MAX_ADJUSTMENT).prop_map(Event::Adjust),
        1 => (0_usize..4).prop_map(Event::Choose),
        1 => (0_i64..4_000_000_000).prop_map(Event::Step),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens in whatever order, uptime never goes back, never runs
    /// more than its rate allows ahead, and time of day is uptime plus boottime.
    #[test]
    fn uptime_never_goes_back(events in prop::collection::vec(event(), 1..120)) {
        let mut machine = on_tsc();
        machine.add(hpet(), 0xFFFF_0000);
        machine.add(pm(), 0xFF_0000);
        machine.add(pit(), 0xFF00);
        let clock = machine.clock;
        let mut last = clock.monotonic_ns();
        let (start, at) = (last, machine.now_ns());
        let mut since_windup = 0;
        for event in events {
            match event {
                Event::Pass(ns) => {
                    // Three quarters of the i8254's range are 41 ms.
                    if since_windup + ns > 39_000_000 {
                        clock.windup();
                        since_windup = 0;
                    }
                    since_windup += ns;
                    machine.pass_ns(ns);
                }
                Event::Windup => {
                    clock.windup();
                    since_windup = 0;
                }
                Event::Adjust(adjustment) => clock.set_adjustment(adjustment).expect("in range"),
                Event::Choose(which) => {
                    // A stall just before may have cost the i8254 its wraps.
                    let name = ["TSC", "HPET", "ACPI-fast", "i8254"][which];
                    let _ = machine.choose(name);
                }
                Event::Step(sec) => {
                    let time = Timespec { sec, nsec: 0 };
                    clock.setclock(time, &mut || machine.pass_ns(10_000));
                    prop_assert!(clock.realtime() >= time, "set {} reads {}", time, clock.realtime());
                }
            }
            let now = clock.monotonic_ns();
            prop_assert!(now >= last, "{last} then {now}");
            let told = now - start;
            let passed = machine.now_ns() - at;
            prop_assert!(told <= passed + passed / 1900 + 5000, "{told} told in {passed}");
            prop_assert!(clock.getmonotonic().to_ns() <= i128::from(now));
            last = now;
        }
    }

    /// The line agrees with an exact rational one: base plus counts over rate.
    #[test]
    fn the_line_is_the_exact_one_to_two_nanoseconds(
        frequency in prop_oneof![
            Just(999_999_999_u64), Just(1_000_000_000), Just(1_000_000_001),
            Just(3_579_545), Just(1_193_182), 1_000_000_u64..5_800_000_000,
        ],
        ticks in 1_u64..400,
    ) {
        let mut machine = Machine::new();
        let counter = Manual::new("any", frequency, 64, 1);
        machine.add(counter, 1 << 50);
        let base = machine.clock.binuptime();
        let count = counter.position();
        for _ in 0..ticks {
            machine.tick(MS);
        }
        let counts = i128::from(counter.position() - count);
        let exact = counts * 1_000_000_000 / i128::from(frequency);
        let told = i128::from(machine.clock.monotonic_ns()) - base.wrapping_add(Bintime::ZERO).to_ns();
        // Scale rounding loses 2f units of 2^-64 s a second.
        let lost = exact * i128::from(frequency) * 2 / (1_i128 << 64) + 3;
        prop_assert!(told <= exact + 2 && told + lost >= exact, "{told}, exactly {exact}");
    }
}
