//! Counters that tests turn by hand.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use timecounter::kind::Kind;
use timecounter::page::{NanosecondsView, SLOTS, TimehandsPage};
use timecounter::reader::{self, Counters, Halves};
use timecounter::{Clock, Timecounter, UserCounter};

/// A counter that stands where it was put.
#[derive(Debug)]
pub(crate) struct Manual {
    pub(crate) name: &'static str,
    pub(crate) frequency: u64,
    /// The rate it runs at, whatever it claims.
    real: u64,
    pub(crate) mask: u64,
    pub(crate) quality: i32,
    count: AtomicU64,
    /// Reads to come before the one that slips, and by how many counts.
    slip: AtomicU64,
    slip_by: AtomicU64,
}

impl Manual {
    /// A counter for the whole run of the test program.
    pub(crate) fn new(
        name: &'static str,
        frequency: u64,
        width: u32,
        quality: i32,
    ) -> &'static Self {
        Self::lying(name, (frequency, frequency), width, quality)
    }

    /// A counter that claims the first rate and runs at the second.
    pub(crate) fn lying(
        name: &'static str,
        (frequency, real): (u64, u64),
        width: u32,
        quality: i32,
    ) -> &'static Self {
        Box::leak(Box::new(Self {
            name,
            frequency,
            real,
            mask: u64::MAX >> (64 - width),
            quality,
            count: AtomicU64::new(0),
            slip: AtomicU64::new(0),
            slip_by: AtomicU64::new(0),
        }))
    }

    /// Makes the `nth` read from now, 1 for the next one, come out `by` counts
    /// too low, once.
    pub(crate) fn slip(&self, nth: u64, by: u64) {
        self.slip_by.store(by, Ordering::Relaxed);
        self.slip.store(nth, Ordering::Relaxed);
    }

    /// Moves on by `counts`.
    pub(crate) fn advance(&self, counts: u64) {
        self.count.fetch_add(counts, Ordering::Relaxed);
    }

    /// Jumps to `count`.
    pub(crate) fn jump(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
    }

    /// Where it stands, unmasked.
    pub(crate) fn position(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Timecounter for Manual {
    fn name(&self) -> &'static str {
        self.name
    }
    fn frequency(&self) -> u64 {
        self.frequency
    }
    fn mask(&self) -> u64 {
        self.mask
    }
    fn quality(&self) -> i32 {
        self.quality
    }
    fn read(&self) -> u64 {
        let reads_left = self.slip.load(Ordering::Relaxed);
        self.slip
            .store(reads_left.saturating_sub(1), Ordering::Relaxed);
        let back = match reads_left {
            1 => self.slip_by.load(Ordering::Relaxed),
            _ => 0,
        };
        self.position().wrapping_sub(back) & self.mask
    }
    fn user_counter(&self) -> UserCounter {
        if self.name == "TSC" {
            UserCounter::Tsc
        } else {
            UserCounter::None
        }
    }
}

/// Counters that stand on one time: moving it moves them all.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) clock: &'static Clock,
    counters: Vec<(&'static Manual, u64)>,
    femtoseconds: u128,
}

impl Machine {
    /// A started clock on the dummy, at 1000 Hz.
    pub(crate) fn new() -> Self {
        let page = Box::leak(Box::new(TimehandsPage::new()));
        let clock = Box::leak(Box::new(Clock::new(page)));
        clock.start();
        Self {
            clock,
            counters: Vec::new(),
            femtoseconds: 0,
        }
    }

    /// Registers a counter that starts at `count` and settles on the best.
    pub(crate) fn add(&mut self, counter: &'static Manual, count: u64) {
        self.add_unsettled(counter, count);
        self.settle();
    }

    /// Registers a counter that starts at `count` and comes to no windup.
    pub(crate) fn add_unsettled(&mut self, counter: &'static Manual, count: u64) {
        counter.jump(count);
        let origin = count.wrapping_sub(self.counts(counter));
        self.counters.push((counter, origin));
        self.clock.register(counter).expect("a sound counter");
    }

    /// Lets time pass until the wanted counter is active.
    pub(crate) fn settle(&mut self) {
        let clock = self.clock;
        clock
            .settle(&mut || self.pass_ns(10_000))
            .expect("the best counter is fit");
    }

    /// Chooses a counter while time passes.
    pub(crate) fn choose(&mut self, name: &str) -> Result<(), timecounter::select::ChooseError> {
        let clock = self.clock;
        clock.choose(name, &mut || self.pass_ns(10_000))
    }

    /// Turns one counter back by `counts`, for good.
    pub(crate) fn turn_back(&mut self, counter: &'static Manual, counts: u64) {
        for (known, origin) in &mut self.counters {
            if core::ptr::eq(*known, counter) {
                *origin = origin.wrapping_sub(counts);
            }
        }
        self.pass_ns(0);
    }

    /// Time passes for every counter.
    pub(crate) fn pass_ns(&mut self, ns: u64) {
        self.femtoseconds += u128::from(ns) * 1_000_000;
        for (counter, origin) in &self.counters {
            counter.jump(origin.wrapping_add(self.counts(counter)));
        }
    }

    /// Counts of `counter` since the machine came into being.
    fn counts(&self, counter: &Manual) -> u64 {
        (self.femtoseconds * u128::from(counter.real) / 1_000_000_000_000_000) as u64
    }

    /// Time that has passed in all, in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        (self.femtoseconds / 1_000_000) as u64
    }

    /// A tick of `ns` and its windup.
    pub(crate) fn tick(&mut self, ns: u64) {
        self.pass_ns(ns);
        self.clock.windup();
    }
}

/// Reads uptime in nanoseconds, falling asleep between the load of `current`
/// and the read of the counter; `meanwhile` is what happens then.
pub(crate) fn asleep(clock: &'static Clock, meanwhile: impl FnOnce()) -> u64 {
    struct Sleeper<F> {
        clock: &'static Clock,
        meanwhile: RefCell<Option<F>>,
    }
    impl<F: FnOnce()> Counters for Sleeper<F> {
        fn order(&self) {}
        fn tsc<T>(&self, _ahead: &T) -> Halves {
            // So that every read takes the general path.
            0.into()
        }
        fn read(&self, kind: Kind) -> Option<u64> {
            if let Some(meanwhile) = self.meanwhile.take() {
                meanwhile();
            }
            Counters::read(self.clock.registry(), kind)
        }
    }
    let sleeper = Sleeper {
        clock,
        meanwhile: RefCell::new(Some(meanwhile)),
    };
    reader::read::<NanosecondsView, _, _, SLOTS>(clock.page().ring(), &sleeper)
        .expect("registered counters can be read")
}
