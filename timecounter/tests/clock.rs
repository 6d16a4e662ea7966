//! The clock as a whole: counters turned by hand, windups early, late and lost.

mod common;

use common::{Machine, Manual};
use proptest::prelude::*;
use timecounter::clock::{MAX_ADJUSTMENT, Windup};
use timecounter::registry::RegisterError;
use timecounter::second::LeapState;
use timecounter::select::ChooseError;
use timecounter::{Bintime, Timespec};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

fn tsc() -> &'static Manual {
    Manual::new("TSC", 2_400_000_000, 64, 1000)
}

fn hpet() -> &'static Manual {
    Manual::new("HPET", 100_000_000, 32, 950)
}

fn pm() -> &'static Manual {
    Manual::new("ACPI-fast", 3_579_545, 24, 900)
}

fn pit() -> &'static Manual {
    Manual::new("i8254", 1_193_182, 16, 0)
}

/// A machine on the TSC whose first read is far from zero.
fn on_tsc() -> Machine {
    let mut machine = Machine::new();
    machine.add(tsc(), 0x0000_F000_0000_ABCD);
    machine
}

#[test]
fn uptime_starts_at_one_second_on_the_dummy_counter() {
    let machine = Machine::new();
    assert_eq!(machine.clock.active().expect("started").name(), "dummy");
    let uptime = machine.clock.monotonic();
    assert_eq!(uptime.sec, 1, "uptime is {uptime}");
    assert!(machine.clock.monotonic() >= uptime, "the dummy moves on");
}

#[test]
fn a_tsc_that_counts_since_long_before_boot_does_not_show_in_uptime() {
    let machine = on_tsc();
    let uptime = machine.clock.monotonic_ns();
    assert!(
        uptime < 2 * SECOND,
        "uptime is {uptime} ns on a TSC of 30 hours"
    );
}

#[test]
fn ticks_on_time_lose_nothing() {
    let mut machine = on_tsc();
    let start = (machine.clock.monotonic_ns(), machine.now_ns());
    for _ in 0..10_000 {
        machine.tick(MS);
    }
    let told = machine.clock.monotonic_ns() - start.0;
    let passed = machine.now_ns() - start.1;
    // The scale is rounded down: 2 * 2.4e9 units of 2^-64 s a second.
    assert!(told.abs_diff(passed) <= 5, "told {told} of {passed} ns");
    assert_eq!(machine.clock.statistics().late_publications(), 0);
}

#[test]
fn a_windup_a_second_late_keeps_the_seconds() {
    for gap in [SECOND, 2 * SECOND, 4_294_967_295, 10 * SECOND, 100 * SECOND] {
        let mut machine = on_tsc();
        let before = machine.clock.monotonic_ns();
        machine.tick(gap);
        let told = machine.clock.monotonic_ns() - before;
        assert!(told.abs_diff(gap) <= 60, "told {told} of {gap} ns");
        assert!(machine.clock.statistics().late_publications() > 0);
    }
}

#[test]
fn a_stall_of_years_is_bounded_work_and_lost_by_nobody() {
    let mut machine = on_tsc();
    let before = machine.clock.monotonic();
    for _ in 0..100 {
        machine.pass_ns(365 * 86_400 * SECOND / 100);
    }
    machine.clock.windup();
    let told = machine.clock.monotonic().sec - before.sec;
    assert!(
        (365 * 86_400 - 1..=365 * 86_400).contains(&told),
        "told {told} s of a year"
    );
}

#[test]
fn a_late_read_is_low_by_the_floor_slope_and_never_high() {
    let mut machine = on_tsc();
    machine.tick(MS);
    let before = machine.clock.monotonic_ns();
    machine.pass_ns(200 * MS);
    let told = machine.clock.monotonic_ns() - before;
    assert!(told <= 200 * MS, "told {told} ns of 200 ms");
    assert!(
        told >= 200 * MS - 200 * MS / 1000,
        "told {told} ns of 200 ms: more than 1000 ppm low"
    );
    machine.clock.windup();
    let caught_up = machine.clock.monotonic_ns() - before;
    assert!(caught_up.abs_diff(200 * MS) <= 5, "then {caught_up} ns");
}

#[test]
fn reads_between_publication_and_start_use_the_segment_before() {
    let mut machine = on_tsc();
    let clock = machine.clock;
    for _ in 0..100 {
        machine.tick(MS);
        // Just announced: its start lies an eighth of a tick ahead.
        let told = clock.monotonic_ns();
        machine.pass_ns(1000);
        let then = clock.monotonic_ns();
        assert!((then - told).abs_diff(1000) <= 2, "{} ns", then - told);
        machine.pass_ns(500_000);
        clock.windup();
        machine.pass_ns(499_000);
    }
}

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
fn coarse_reads_are_a_tick_old_at_most_and_never_ahead() {
    let mut machine = on_tsc();
    for tick in 0..1000 {
        let ns = MS + (tick % 7) * 50_000;
        machine.tick(ns);
        machine.pass_ns(tick * 997);
        let coarse = machine.clock.getmonotonic();
        let precise = machine.clock.monotonic();
        assert!(coarse <= precise, "coarse {coarse} above {precise}");
        let age = precise.to_ns() - coarse.to_ns();
        assert!(age <= 3 * i128::from(MS), "coarse is {age} ns old");
        assert!(machine.clock.getrealtime() <= machine.clock.realtime());
    }
}

#[test]
fn coarse_uptime_moves_every_tick() {
    let mut machine = on_tsc();
    let mut seen = std::collections::BTreeSet::new();
    let start = machine.clock.getmonotonic();
    for _ in 0..50 {
        machine.tick(10 * MS);
        seen.insert(machine.clock.getmonotonic());
    }
    assert!(seen.len() >= 50, "only {} values in 50 ticks", seen.len());
    let told = machine.clock.getmonotonic().to_ns() - start.to_ns();
    assert!((told - 500_000_000).abs() <= 10_000_000, "{told} ns");
}

#[test]
fn bintime_is_never_below_nanoseconds_and_two_above_at_most() {
    let mut machine = on_tsc();
    for step in 0..5000 {
        machine.pass_ns(step % 1700 * 211);
        if step % 3 == 0 {
            machine.clock.windup();
        }
        let ns = i128::from(machine.clock.monotonic_ns());
        let units = machine.clock.binuptime().units();
        let as_units = |ns: i128| (ns << 64) / 1_000_000_000;
        assert!(units >= as_units(ns), "bintime is below {ns} ns");
        assert!(units <= as_units(ns + 2), "bintime is above {} ns", ns + 2);
        assert_eq!(
            machine.clock.monotonic().to_ns(),
            ns,
            "one clock, two forms"
        );
    }
}

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
fn setting_the_time_moves_time_of_day_alone() {
    let mut machine = on_tsc();
    let clock = machine.clock;
    for time in [
        Timespec {
            sec: 1_700_000_000,
            nsec: 250_000_000,
        },
        Timespec {
            sec: 10,
            nsec: 200_000_000,
        },
        Timespec { sec: 0, nsec: 0 },
        Timespec {
            sec: 8_277_292_036,
            nsec: 999_999_999,
        },
        Timespec { sec: 1, nsec: 1 },
    ] {
        let (uptime, at) = (clock.monotonic_ns(), machine.now_ns());
        clock.setclock(time, &mut || machine.pass_ns(10_000));
        let passed = machine.now_ns() - at;
        let told = clock.realtime();
        let since = told.to_ns() - time.to_ns();
        assert!(
            (0..=i128::from(passed)).contains(&since),
            "set {time}, {passed} ns later it is {told}"
        );
        assert!(clock.getrealtime() >= time, "coarse is before {time}");
        let gained = clock.monotonic_ns() - uptime;
        assert!(gained.abs_diff(passed) <= 3, "uptime: {gained} in {passed}");
        let sum = clock.boottime().wrapping_add(clock.binuptime());
        let real = clock.bintime();
        assert_eq!(sum, real, "boottime + uptime = time of day");
    }
}

#[test]
fn a_step_that_is_asked_for_mid_segment_starts_where_the_next_one_does() {
    let mut machine = on_tsc();
    machine.pass_ns(500_000);
    let clock = machine.clock;
    let mut reads = Vec::new();
    clock.setclock(Timespec { sec: 5000, nsec: 0 }, &mut || {
        machine.pass_ns(20_000);
        reads.push(clock.realtime());
    });
    let stepped = reads
        .windows(2)
        .filter(|pair| pair[1].sec >= pair[0].sec + 1000);
    assert_eq!(stepped.count(), 1, "one step, then on: {reads:?}");
}

#[test]
fn an_inserted_leap_second_repeats_exactly_one_second() {
    let mut machine = on_tsc();
    let clock = machine.clock;
    let midnight = 1_483_228_800;
    clock.set_tai_offset(36);
    clock.plan_leap_second(true, false);
    let start = Timespec {
        sec: midnight - 3,
        nsec: 0,
    };
    clock.setclock(start, &mut || machine.pass_ns(10_000));
    let uptime = clock.monotonic_ns();
    let real = clock.realtime().to_ns();
    let mut steps = Vec::new();
    let mut last = clock.realtime();
    for _ in 0..6000 {
        machine.tick(MS);
        let now = clock.realtime();
        if now < last {
            steps.push((last, now));
        }
        last = now;
    }
    assert_eq!(steps.len(), 1, "one step back: {steps:?}");
    let (from, to) = steps[0];
    assert_eq!(
        (from.sec, to.sec),
        (midnight - 1, midnight - 1),
        "{steps:?}"
    );
    assert!(from.nsec > 998_000_000, "exactly at the second: {steps:?}");
    let told = clock.realtime().to_ns() - real;
    let passed = i128::from(clock.monotonic_ns() - uptime);
    assert!(
        (passed - told - 1_000_000_000).abs() <= 2,
        "{told} in {passed}"
    );
    assert_eq!(clock.leap_second(), (LeapState::Wait, 37));
}

#[test]
fn a_leap_second_in_a_stall_is_not_missed() {
    for stall in [3, 5, 250, 90_000, 200_000] {
        let mut machine = on_tsc();
        let clock = machine.clock;
        let midnight = 1_483_228_800;
        clock.plan_leap_second(true, false);
        let start = Timespec {
            sec: midnight - 3,
            nsec: 0,
        };
        clock.setclock(start, &mut || machine.pass_ns(10_000));
        let real = clock.realtime().to_ns();
        let at = machine.now_ns();
        machine.pass_ns(stall * SECOND);
        clock.windup();
        let told = clock.realtime().to_ns() - real;
        let passed = i128::from(machine.now_ns() - at);
        let missing = passed - told - 1_000_000_000;
        assert!(
            missing.abs() <= 3 * i128::from(stall) + 3,
            "{stall} s: {missing} ns missing"
        );
    }
}

#[test]
fn turning_user_reads_off_shows_at_the_next_read() {
    let machine = on_tsc();
    let ring = machine.clock.page().ring();
    let user = || timecounter::kind::Kind::from_word(ring.slot(ring.current()).kind()).user();
    assert_eq!(user(), timecounter::UserCounter::Tsc);
    machine.clock.set_user_enabled(false);
    assert_eq!(user(), timecounter::UserCounter::None);
    machine.clock.windup();
    assert_eq!(user(), timecounter::UserCounter::None, "and stays off");
    machine.clock.set_user_enabled(true);
    assert_eq!(user(), timecounter::UserCounter::Tsc);
}

#[test]
fn a_windup_abandoned_after_any_store_leaves_readers_a_whole_clock() {
    for stop in 0..25 {
        let mut machine = on_tsc();
        machine.tick(MS);
        let before = machine.clock.monotonic_ns();
        machine.pass_ns(MS);
        let mut stores = 0;
        machine.clock.windup_until(&mut || {
            stores += 1;
            stores <= stop
        });
        machine.pass_ns(2 * MS);
        let told = machine.clock.monotonic_ns() - before;
        assert!(
            (3 * MS - 3000..=3 * MS).contains(&told),
            "stopped after {stop}: {told} ns of 3 ms"
        );
        machine.clock.windup();
        let told = machine.clock.monotonic_ns() - before;
        assert!(
            told.abs_diff(3 * MS) <= 3,
            "stopped after {stop}: {told} ns"
        );
    }
}

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
