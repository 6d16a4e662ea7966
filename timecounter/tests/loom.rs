//! Every interleaving and every value a relaxed load may return, for the
//! production ring, reader and gate with a small payload.
//!
//! Run with `RUSTFLAGS="--cfg loom"`; empty otherwise.
//!
//! The counter is a relaxed read-modify-write, the weakest thing that still has
//! one order of counts; any thread may make it jump past a segment's end. One
//! count is nominally [`NOMINAL`] units of time; rates differ by a sixteenth of
//! that either way and the floor slope is an eighth below: the proportions of
//! 500 ppm and 1/1024, enlarged until a handful of counts shows them.

#![cfg(loom)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use timecounter::UserCounter;
use timecounter::gate::Gate;
use timecounter::kind::Kind;
use timecounter::reader::{self, Counters, Extent, Halves, View};
use timecounter::ring::{Payload, Ring, Slot};
use timecounter::sync::{Site, weaken};

const NOMINAL: u64 = 64;
const FAST: u64 = NOMINAL + NOMINAL / 16;
const SLOW: u64 = NOMINAL - NOMINAL / 16;
const FLOOR: u64 = NOMINAL - NOMINAL / 8;

const TSC: Kind = Kind::new(UserCounter::Tsc, 0, 64, 1);
const OTHER: Kind = Kind::new(UserCounter::Hpet, 0, 64, 2);

/// A segment: four counts long, as steep as `slope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    start: u64,
    base: u64,
    slope: u64,
}

const LENGTH: u64 = 4;

impl Segment {
    fn next(self, slope: u64) -> Self {
        Self {
            start: self.start + LENGTH,
            base: self.base + LENGTH * self.slope,
            slope,
        }
    }

    fn line(self) -> u64 {
        self.base << 8 | self.slope
    }
}

struct Words {
    start: AtomicU64,
    line: AtomicU64,
}

impl Words {
    fn slot() -> Slot<Self> {
        Slot::new(Self {
            start: AtomicU64::new(0),
            line: AtomicU64::new(0),
        })
    }
}

impl Payload for Words {
    type Segment = Segment;

    fn store(&self, segment: &Segment, after: &mut impl FnMut() -> bool) -> bool {
        self.start.store(segment.start, Ordering::Relaxed);
        if !after() {
            return false;
        }
        self.line.store(segment.line(), Ordering::Relaxed);
        after()
    }

    fn load(&self) -> Segment {
        let line = self.line.load(Ordering::Relaxed);
        Segment {
            start: self.start.load(Ordering::Relaxed),
            base: line >> 8,
            slope: line & 0xff,
        }
    }
}

impl Extent for Words {
    fn start(&self) -> u64 {
        self.start.load(Ordering::Relaxed)
    }
    fn length(&self) -> u64 {
        LENGTH
    }
    fn floor(&self) -> u64 {
        // The reader's tail then is one less than the counts past the end.
        u64::MAX
    }
    fn monotonic_ns(&self) -> u64 {
        0
    }
    fn multiplier(&self) -> u64 {
        0
    }
}

/// A read of the line. The reader hands the counts of the tail over, each worth
/// the floor slope.
#[derive(Clone, Copy)]
struct Line {
    base: u64,
    slope: u64,
}

impl View<Words> for Line {
    type Time = u64;

    fn load(words: &Words) -> Self {
        let line = words.line.load(Ordering::Relaxed);
        Self {
            base: line >> 8,
            slope: line & 0xff,
        }
    }

    fn fast(&self, delta: u64) -> u64 {
        self.base + delta * self.slope
    }

    fn general(&self, delta: u64, _shift: u8, tail: u64) -> u64 {
        self.base + delta * self.slope + tail * FLOOR
    }

    fn coarse(words: &Words) -> u64 {
        words.line.load(Ordering::Relaxed) >> 8
    }
}

struct World {
    ring: Ring<Words, 4>,
    /// The time; both counters count it, from different origins.
    count: AtomicU64,
}

/// What the other counter is ahead.
const AHEAD: u64 = 92;

impl World {
    /// A clock on `first`, published before any reader exists.
    fn new() -> Arc<Self> {
        let world = Self {
            ring: Ring::new([Words::slot(), Words::slot(), Words::slot(), Words::slot()]),
            count: AtomicU64::new(FIRST.start),
        };
        world.ring.publish(TSC.word(), &FIRST);
        Arc::new(world)
    }

    fn jump(&self, counts: u64) {
        self.count.fetch_add(counts, Ordering::Relaxed);
    }

    fn monotonic(&self, counters: &Tally<'_>) -> u64 {
        reader::read::<Line, _, _, 4>(&self.ring, counters).expect("readable from here")
    }
}

const FIRST: Segment = Segment {
    start: 6,
    base: 1000,
    slope: FAST,
};

/// The counters as one reader sees them, and how often it looked.
struct Tally<'w> {
    world: &'w World,
    reads: std::cell::Cell<u32>,
    /// The count that the latest read went by.
    last: std::cell::Cell<u64>,
    /// The count is taken before `current` is loaded, as hardware may.
    early: std::cell::Cell<Option<u64>>,
    count_first: bool,
}

impl<'w> Tally<'w> {
    fn new(world: &'w World) -> Self {
        Self {
            world,
            reads: std::cell::Cell::new(0),
            last: std::cell::Cell::new(0),
            early: std::cell::Cell::new(None),
            count_first: false,
        }
    }

    fn count_first(world: &'w World) -> Self {
        Self {
            count_first: true,
            ..Self::new(world)
        }
    }
}

impl Counters for Tally<'_> {
    fn order(&self) {
        if self.count_first {
            let count = self.world.count.fetch_add(1, Ordering::Relaxed);
            self.early.set(Some(count));
        }
    }
    fn tsc<T>(&self, _ahead: &T) -> Halves {
        self.reads.set(self.reads.get() + 1);
        let count = self
            .early
            .take()
            .unwrap_or_else(|| self.world.count.fetch_add(1, Ordering::Relaxed));
        self.last.set(count);
        count.into()
    }
    fn read(&self, kind: Kind) -> Option<u64> {
        self.reads.set(self.reads.get() + 1);
        let count = self.world.count.fetch_add(1, Ordering::Relaxed);
        self.last.set(count);
        if kind.index() == OTHER.index() {
            Some(count + AHEAD)
        } else {
            Some(count)
        }
    }
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// Whether the model finds a failure.
fn fails(check: impl Fn() + Sync + Send + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| model(check))).is_err()
}

/// Publications that come round to the slot of the first.
const LAP: usize = 4;

/// Stores of one publication: the mark, the kind, two words, the generation,
/// `current`.
const STORES: u32 = 6;

fn twice(world: &World) {
    twice_by(world, &Tally::new(world));
}

fn twice_by(world: &World, tally: &Tally<'_>) {
    let first = world.monotonic(tally);
    let second = world.monotonic(tally);
    assert!(second >= first, "{first} then {second}");
}

/// All segments of a clock whose rates alternate, `slope` first.
fn segments(slope: u64, count: usize) -> Vec<Segment> {
    let mut segments = vec![FIRST];
    for number in 0..count {
        let slope = if number % 2 == 0 {
            slope
        } else {
            FAST + SLOW - slope
        };
        segments.push(segments[number].next(slope));
    }
    segments
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

fn a_snapshot_is_whole() {
    let world = World::new();
    let writer = {
        let world = world.clone();
        thread::spawn(move || {
            for segment in &segments(SLOW, LAP)[1..] {
                world.ring.publish(TSC.word(), segment);
            }
        })
    };
    let seen = reader::consistent(&world.ring, Words::load);
    assert!(segments(SLOW, LAP).contains(&seen), "torn: {seen:?}");
    writer.join().expect("writer");
}

#[test]
fn every_snapshot_is_whole() {
    model(a_snapshot_is_whole);
}

#[test]
fn a_snapshot_tears_without_the_fence_behind_the_mark() {
    weaken(Site::Mark);
    assert!(fails(a_snapshot_is_whole), "W1 is needed by no model");
}

#[test]
fn a_snapshot_tears_without_the_fence_behind_the_fields() {
    weaken(Site::Accept);
    assert!(fails(a_snapshot_is_whole), "R2 is needed by no model");
}

#[test]
fn a_snapshot_tears_if_current_is_stored_relaxed() {
    weaken(Site::Publish);
    assert!(fails(a_snapshot_is_whole), "W2 is needed by no model");
}

#[test]
fn a_snapshot_tears_if_current_is_loaded_relaxed() {
    weaken(Site::Current);
    assert!(fails(a_snapshot_is_whole), "R1 is needed by no model");
}

#[test]
fn no_reader_uses_an_older_state_after_a_newer_one() {
    model(|| {
        let world = World::new();
        let writer = {
            let world = world.clone();
            thread::spawn(move || {
                for segment in &segments(SLOW, LAP)[1..] {
                    world.ring.publish(TSC.word(), segment);
                }
            })
        };
        let first = reader::consistent(&world.ring, Words::load);
        let second = reader::consistent(&world.ring, Words::load);
        assert!(second.start >= first.start, "{first:?} then {second:?}");
        writer.join().expect("writer");
    });
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

fn only_one_is_inside() {
    let gate = Arc::new(Gate::new());
    let shared = Arc::new(AtomicU64::new(0));
    let inside = Arc::new(AtomicU64::new(0));
    let enter = {
        let (gate, shared, inside) = (gate.clone(), shared.clone(), inside.clone());
        move || {
            let Some(_pass) = gate.try_enter() else {
                return 0;
            };
            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two inside");
            // What a windup does: load and store without a lock.
            let value = shared.load(Ordering::Relaxed);
            shared.store(value + 1, Ordering::Relaxed);
            inside.fetch_sub(1, Ordering::Relaxed);
            1
        }
    };
    let other = thread::spawn(enter.clone());
    let mine = enter() + enter();
    let all = mine + other.join().expect("other");
    assert_eq!(shared.load(Ordering::Relaxed), all, "a windup was lost");
}

#[test]
fn two_windups_never_run_at_once() {
    model(only_one_is_inside);
}

#[test]
fn a_windup_is_lost_if_the_gate_is_entered_relaxed() {
    weaken(Site::Enter);
    assert!(
        fails(only_one_is_inside),
        "the acquire is needed by no model"
    );
}

#[test]
fn a_windup_is_lost_if_the_gate_is_left_relaxed() {
    weaken(Site::Leave);
    assert!(
        fails(only_one_is_inside),
        "the release is needed by no model"
    );
}
