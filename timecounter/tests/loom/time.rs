//! Whether time goes back, and how long a reader takes.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::model;
use super::world::{
    AHEAD, FAST, FIRST, FLOOR, LAP, LENGTH, OTHER, SLOW, STORES, Segment, TSC, Tally, World,
    segments,
};

fn twice(world: &World) {
    twice_by(world, &Tally::new(world));
}

fn twice_by(world: &World, tally: &Tally<'_>) {
    let first = world.monotonic(tally);
    let second = world.monotonic(tally);
    assert!(second >= first, "{first} then {second}");
}

/// What the clock is at `count` once all of `announced` are published: the
/// definition, without ring or reader.
fn told(announced: &[Segment], count: u64) -> u64 {
    let started = announced
        .iter()
        .rev()
        .find(|segment| segment.start <= count);
    let segment = started.expect("counts begin in the first segment");
    let delta = count - segment.start;
    // As the reader counts them, see `floor`.
    let beyond = delta.saturating_sub(LENGTH + 1);
    segment.base + delta.min(LENGTH) * segment.slope + beyond * FLOOR
}

/// Two windups of opposite rates whose writer stops behind store number `stop`:
/// for good, or until the clock has jumped by `jump`.
fn windups(world: &World, slope: u64, stop: u32, jump: u64, resume: bool) {
    let mut stores = 0;
    for segment in &segments(slope, 2)[1..] {
        let published = world.ring.publish_until(TSC.word(), segment, &mut || {
            stores += 1;
            if stores == stop {
                world.jump(jump);
            }
            stores != stop || resume
        });
        if published.is_none() {
            return;
        }
    }
}

#[test]
fn time_never_goes_back_wherever_a_writer_stops_for_good() {
    for slope in [SLOW, FAST] {
        for stop in 1..=2 * STORES {
            model(move || {
                let world = World::new();
                let writer = {
                    let world = world.clone();
                    thread::spawn(move || windups(&world, slope, stop, 0, false))
                };
                twice(&world);
                writer.join().expect("writer");
                twice(&world);
            });
        }
    }
}

#[test]
fn time_never_goes_back_wherever_a_writer_pauses_past_the_end() {
    for slope in [SLOW, FAST] {
        for stop in 1..=2 * STORES {
            for jump in [1, 3, 40] {
                model(move || {
                    let world = World::new();
                    let writer = {
                        let world = world.clone();
                        thread::spawn(move || windups(&world, slope, stop, jump, true))
                    };
                    twice(&world);
                    writer.join().expect("writer");
                });
            }
        }
    }
}

#[test]
fn time_never_goes_back_if_the_count_is_taken_before_the_state() {
    for slope in [SLOW, FAST] {
        model(move || {
            let world = World::new();
            let writer = {
                let world = world.clone();
                thread::spawn(move || windups(&world, slope, 3, 5, true))
            };
            twice_by(&world, &Tally::count_first(&world));
            writer.join().expect("writer");
        });
    }
}

#[test]
fn a_reader_that_sleeps_while_its_slot_is_refilled_tells_a_time_of_the_clock() {
    for count_first in [false, true] {
        model(move || {
            let world = World::new();
            let writer = {
                let world = world.clone();
                thread::spawn(move || {
                    for segment in &segments(SLOW, LAP)[1..] {
                        world.ring.publish(TSC.word(), segment);
                        world.jump(LENGTH);
                    }
                })
            };
            let tally = if count_first {
                Tally::count_first(&world)
            } else {
                Tally::new(&world)
            };
            let time = world.monotonic(&tally);
            let count = tally.last.get();
            let announced = segments(SLOW, LAP);
            let known = (1..=announced.len()).any(|n| told(&announced[..n], count) == time);
            assert!(known, "{time} at count {count} is no time of this clock");
            assert!(world.monotonic(&tally) >= time, "back from {time}");
            writer.join().expect("writer");
        });
    }
}

#[test]
fn what_one_cpu_has_told_another_does_not_see_go_back() {
    model(|| {
        let world = World::new();
        let told = Arc::new(AtomicU64::new(0));
        let writer = {
            let world = world.clone();
            thread::spawn(move || windups(&world, SLOW, 0, 0, true))
        };
        let teller = {
            let (world, told) = (world.clone(), told.clone());
            thread::spawn(move || {
                let time = world.monotonic(&Tally::new(&world));
                told.store(time, Ordering::Release);
            })
        };
        let before = told.load(Ordering::Acquire);
        let time = world.monotonic(&Tally::new(&world));
        assert!(time >= before, "told {before}, then read {time}");
        writer.join().expect("writer");
        teller.join().expect("teller");
    });
}

#[test]
fn time_never_goes_back_across_a_change_of_counter() {
    for stop in 1..=STORES {
        model(move || {
            let world = World::new();
            // The change waits for the segment's end.
            world.jump(LENGTH);
            let writer = {
                let world = world.clone();
                thread::spawn(move || {
                    let new = world.count.fetch_add(1, Ordering::Relaxed) + AHEAD;
                    let old = world.count.fetch_add(1, Ordering::Relaxed);
                    let beyond = old - (FIRST.start + LENGTH);
                    let segment = Segment {
                        start: new,
                        base: FIRST.base + LENGTH * FIRST.slope + beyond * FLOOR,
                        slope: SLOW,
                    };
                    let mut stores = 0;
                    world.ring.publish_until(OTHER.word(), &segment, &mut || {
                        stores += 1;
                        if stores == stop {
                            world.jump(5);
                        }
                        true
                    });
                })
            };
            twice(&world);
            writer.join().expect("writer");
        });
    }
}

#[test]
fn a_reader_is_done_in_two_rounds_while_the_writer_stands_still() {
    for publications in 0..4 {
        for stop in 1..=STORES {
            model(move || {
                let world = World::new();
                let mut segment = FIRST;
                for _ in 0..publications {
                    segment = segment.next(SLOW);
                    world.ring.publish(TSC.word(), &segment);
                }
                let mut stores = 0;
                world
                    .ring
                    .publish_until(TSC.word(), &segment.next(FAST), &mut || {
                        stores += 1;
                        stores != stop
                    });
                // Before, inside and past what is announced.
                for count in [0, 7, segment.start, segment.start + 1, segment.start + 50] {
                    world.count.store(count, Ordering::Relaxed);
                    let tally = Tally::new(&world);
                    world.monotonic(&tally);
                    let reads = tally.reads.get();
                    assert!(reads <= 3, "count {count}: {reads} looks at the counter");
                }
            });
        }
    }
}
