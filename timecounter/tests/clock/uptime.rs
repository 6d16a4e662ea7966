//! Uptime: ticks on time, late and lost; coarse and precise reads.

use super::*;

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
