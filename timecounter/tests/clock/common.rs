//! Counters that tests turn by hand.

use std::sync::atomic::{AtomicU64, Ordering};

use timecounter::page::TimehandsPage;
use timecounter::{Clock, Timecounter, UserCounter};

/// A counter that stands where it was put.
#[derive(Debug)]
pub(crate) struct Manual {
    pub(crate) name: &'static str,
    pub(crate) frequency: u64,
    pub(crate) mask: u64,
    pub(crate) quality: i32,
    count: AtomicU64,
}

impl Manual {
    /// A counter for the whole run of the test program.
    pub(crate) fn new(
        name: &'static str,
        frequency: u64,
        width: u32,
        quality: i32,
    ) -> &'static Self {
        Box::leak(Box::new(Self {
            name,
            frequency,
            mask: u64::MAX >> (64 - width),
            quality,
            count: AtomicU64::new(0),
        }))
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
        self.position() & self.mask
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
        counter.jump(count);
        let origin = count.wrapping_sub(self.counts(counter));
        self.counters.push((counter, origin));
        self.clock.register(counter).expect("a sound counter");
        self.settle();
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

    /// Time passes for every counter.
    pub(crate) fn pass_ns(&mut self, ns: u64) {
        self.femtoseconds += u128::from(ns) * 1_000_000;
        for (counter, origin) in &self.counters {
            counter.jump(origin.wrapping_add(self.counts(counter)));
        }
    }

    /// Counts of `counter` since the machine came into being.
    fn counts(&self, counter: &Manual) -> u64 {
        (self.femtoseconds * u128::from(counter.frequency) / 1_000_000_000_000_000) as u64
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
