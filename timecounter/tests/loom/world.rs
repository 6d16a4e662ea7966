//! A clock of a handful of counts, and the counters as its readers see them.
//!
//! The counter is a relaxed read-modify-write, the weakest thing that still has
//! one order of counts; any thread may make it jump past a segment's end. One
//! count is nominally [`NOMINAL`] units of time; rates differ by a sixteenth of
//! that either way and the floor slope is an eighth below: the proportions of
//! 500 ppm and 1/1024, enlarged until a handful of counts shows them.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use timecounter::UserCounter;
use timecounter::kind::Kind;
use timecounter::reader::{self, Counters, Extent, Halves, View};
use timecounter::ring::{Payload, Ring, Slot};

pub(crate) const NOMINAL: u64 = 64;
pub(crate) const FAST: u64 = NOMINAL + NOMINAL / 16;
pub(crate) const SLOW: u64 = NOMINAL - NOMINAL / 16;
pub(crate) const FLOOR: u64 = NOMINAL - NOMINAL / 8;

pub(crate) const TSC: Kind = Kind::new(UserCounter::Tsc, 0, 64, 1);
pub(crate) const OTHER: Kind = Kind::new(UserCounter::Hpet, 0, 64, 2);

/// A segment: four counts long, as steep as `slope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) base: u64,
    pub(crate) slope: u64,
}

pub(crate) const LENGTH: u64 = 4;

impl Segment {
    pub(crate) fn next(self, slope: u64) -> Self {
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

pub(crate) struct Words {
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
pub(crate) struct Line {
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

pub(crate) struct World {
    pub(crate) ring: Ring<Words, 4>,
    /// The time; both counters count it, from different origins.
    pub(crate) count: AtomicU64,
}

/// What the other counter is ahead.
pub(crate) const AHEAD: u64 = 92;

impl World {
    /// A clock on `first`, published before any reader exists.
    pub(crate) fn new() -> Arc<Self> {
        let world = Self {
            ring: Ring::new([Words::slot(), Words::slot(), Words::slot(), Words::slot()]),
            count: AtomicU64::new(FIRST.start),
        };
        world.ring.publish(TSC.word(), &FIRST);
        Arc::new(world)
    }

    pub(crate) fn jump(&self, counts: u64) {
        self.count.fetch_add(counts, Ordering::Relaxed);
    }

    pub(crate) fn monotonic(&self, counters: &Tally<'_>) -> u64 {
        reader::read::<Line, _, _, 4>(&self.ring, counters).expect("readable from here")
    }
}

pub(crate) const FIRST: Segment = Segment {
    start: 6,
    base: 1000,
    slope: FAST,
};

/// The counters as one reader sees them, and how often it looked.
pub(crate) struct Tally<'w> {
    world: &'w World,
    pub(crate) reads: std::cell::Cell<u32>,
    /// The count that the latest read went by.
    pub(crate) last: std::cell::Cell<u64>,
    /// The count is taken before `current` is loaded, as hardware may.
    early: std::cell::Cell<Option<u64>>,
    count_first: bool,
}

impl<'w> Tally<'w> {
    pub(crate) fn new(world: &'w World) -> Self {
        Self {
            world,
            reads: std::cell::Cell::new(0),
            last: std::cell::Cell::new(0),
            early: std::cell::Cell::new(None),
            count_first: false,
        }
    }

    pub(crate) fn count_first(world: &'w World) -> Self {
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

/// Publications that come round to the slot of the first.
pub(crate) const LAP: usize = 4;

/// Stores of one publication: the mark, the kind, two words, the generation,
/// `current`.
pub(crate) const STORES: u32 = 6;

/// All segments of a clock whose rates alternate, `slope` first.
pub(crate) fn segments(slope: u64, count: usize) -> Vec<Segment> {
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
