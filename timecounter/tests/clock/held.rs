//! A writer that is held anywhere inside the windup that changes the counter,
//! while others read.

use timecounter::clock::Windup;
use timecounter::second::LeapState;
use timecounter::watch::Watched;

use super::rig::{Rig, board};
use super::time_of_day::before_midnight;
use super::{MS, Manual, SECOND, on_tsc};

/// More stores than a windup makes, the sample of the counter included.
const STORES: u32 = 30;

/// Winds up until the change is made. The first windup that comes so far is held
/// at its `nth` store for `ns`; whether one did.
fn hold_at(rig: &Rig, nth: u32, ns: u64) -> bool {
    let mut held = false;
    for _ in 0..200 {
        rig.board.pass(MS);
        let mut stores = 0;
        let done = rig.clock.windup_until(&mut || {
            stores += 1;
            if stores == nth && !held {
                held = true;
                for _ in 0..10 {
                    rig.look();
                    rig.board.pass(ns / 10);
                }
                rig.look();
            }
            true
        });
        rig.look();
        if done == Windup::Switched {
            break;
        }
    }
    held
}

#[test]
fn a_convicted_counter_is_left_without_a_step_back_wherever_the_writer_is_held() {
    let mut held = 0;
    for ppb in [2_000_000, 20_000_000, 300_000_000] {
        for (nth, ns) in (1..=STORES).flat_map(|nth| [(nth, 9 * MS), (nth, SECOND)]) {
            let (rig, [_, hpet, _]) = board(u64::from(nth));
            hpet.turn(ppb);
            let found = rig.interval();
            assert!(matches!(found, Watched::Convicted { .. }), "{found}");
            held += u32::from(hold_at(&rig, nth, ns));
            rig.settle();
            assert_eq!(rig.active(), "ACPI-fast", "{ppb} ppb, store {nth}");
            // What a tail lost while the CPU was held comes back with the next windup.
            rig.interval();
            let left = rig.error_ppb();
            assert!(left.abs() < 20_000, "{left} ppb are left of {ppb}");
        }
    }
    assert!(held > 120, "{held} windups were held");
}

#[test]
fn a_leap_second_in_a_change_that_is_made_twice_is_made_once() {
    for (lead, nth) in (11..40).flat_map(|lead| [(lead, 2), (lead, 9), (lead, 18)]) {
        let mut machine = on_tsc();
        let clock = machine.clock;
        clock.plan_leap_second(true, false);
        let start = before_midnight(2 * SECOND);
        clock.setclock(start, &mut || machine.pass_ns(10_000));
        while clock.realtime() < before_midnight(lead * 100_000) {
            machine.tick(MS);
        }
        machine.add_unsettled(Manual::new("better", 1_000_000_000, 64, 2000), 9);
        let real = clock.realtime().to_ns();
        let uptime = clock.monotonic_ns();
        let mut held = false;
        let mut made = false;
        for _ in 0..1000 {
            machine.pass_ns(10_000);
            let mut stores = 0;
            let done = clock.windup_until(&mut || {
                stores += 1;
                if stores == nth && !held {
                    held = true;
                    machine.pass_ns(SECOND);
                }
                true
            });
            made |= done == Windup::Switched;
            if made {
                break;
            }
        }
        assert!(held && made, "{held} and {made}");
        for _ in 0..20 {
            machine.tick(MS);
        }
        let told = clock.realtime().to_ns() - real;
        let passed = i128::from(clock.monotonic_ns() - uptime);
        assert!(
            (passed - told - 1_000_000_000).abs() <= 2,
            "{lead}, held at {nth}: {told} in {passed}"
        );
        let state = clock.leap_second().0;
        assert!(
            matches!(state, LeapState::Oop | LeapState::Wait),
            "{state:?}"
        );
    }
}
