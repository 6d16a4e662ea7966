//! A board on which reading a counter takes time, with counters that can be made
//! to go wrong.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use timecounter::page::TimehandsPage;
use timecounter::watch::Watched;
use timecounter::{Clock, Timecounter};

use super::MS;

/// Time itself, in nanoseconds; it passes when somebody reads a counter or waits.
#[derive(Debug, Default)]
pub(crate) struct Board {
    now: AtomicU64,
    random: AtomicU64,
    /// One read in so many is put aside for up to a millisecond; 0 for none.
    pub(crate) put_aside: AtomicU64,
}

impl Board {
    pub(crate) fn pass(&self, ns: u64) -> u64 {
        self.now.fetch_add(ns, Ordering::Relaxed) + ns
    }

    fn random(&self, below: u64) -> u64 {
        // Knuth's multiplier of MMIX; the low bits are the weak ones.
        let next = |x: u64| Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let x = self
            .random
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        (x.unwrap_or_default() >> 33) % below
    }

    /// A read that takes `ns` at its slowest: the time at which it latches.
    fn read(&self, ns: u64) -> u64 {
        let aside = self.put_aside.load(Ordering::Relaxed);
        let at = self.pass(ns / 2 + self.random(ns / 4 + 1));
        let rest = ns / 4 + 1;
        self.pass(self.random(rest));
        if aside != 0 && self.random(aside) == 0 {
            self.pass(self.random(MS));
        }
        at
    }
}

/// A counter of the board, with fault knobs.
#[derive(Debug)]
pub(crate) struct Chip {
    board: &'static Board,
    pub(crate) name: &'static str,
    frequency: u64,
    mask: u64,
    pub(crate) quality: i32,
    calibrated: bool,
    /// Nanoseconds a read takes.
    pub(crate) cost: AtomicU64,
    /// What it runs too fast, in 10^-9, since `turned`.
    ppb: AtomicI64,
    /// Where and when its rate was last changed.
    count: AtomicU64,
    turned: AtomicU64,
}

impl Chip {
    fn at(&self, ns: u64) -> u64 {
        let ns = u128::from(ns.saturating_sub(self.turned.load(Ordering::Relaxed)));
        let rate = (1_000_000_000 + self.ppb.load(Ordering::Relaxed)) as u128;
        // 2^30 seconds of 2^32 Hz and 10^-9 fit.
        let counts = ns * rate / 1_000_000_000 * u128::from(self.frequency) / 1_000_000_000;
        self.count
            .load(Ordering::Relaxed)
            .wrapping_add(counts as u64)
    }

    pub(crate) fn turn(&self, ppb: i64) {
        let now = self.board.now.load(Ordering::Relaxed);
        self.count.store(self.at(now), Ordering::Relaxed);
        self.turned.store(now, Ordering::Relaxed);
        self.ppb.store(ppb, Ordering::Relaxed);
    }

    pub(crate) fn jump_ns(&self, ns: i64) {
        let counts = i128::from(ns) * i128::from(self.frequency) / 1_000_000_000;
        self.count.fetch_add(counts as u64, Ordering::Relaxed);
    }
}

impl Timecounter for Chip {
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
    fn is_calibrated(&self) -> bool {
        self.calibrated
    }
    fn read(&self) -> u64 {
        let at = self.board.read(self.cost.load(Ordering::Relaxed));
        self.at(at) & self.mask
    }
}

/// A clock and its counters; every step of it checks that time goes forwards.
pub(crate) struct Rig {
    pub(crate) board: &'static Board,
    pub(crate) clock: &'static Clock,
    pub(crate) latest: Cell<u64>,
}

impl Rig {
    pub(crate) fn new(seed: u64) -> Self {
        let board: &Board = Box::leak(Box::default());
        board.random.store(seed, Ordering::Relaxed);
        let page = Box::leak(Box::new(TimehandsPage::new()));
        let clock = Box::leak(Box::new(Clock::new(page)));
        clock.set_hz(100);
        Self {
            board,
            clock,
            latest: Cell::new(0),
        }
    }

    pub(crate) fn add(
        &self,
        name: &'static str,
        frequency: u64,
        width: u32,
        quality: i32,
    ) -> &'static Chip {
        let chip = Box::leak(Box::new(Chip {
            board: self.board,
            name,
            frequency,
            mask: u64::MAX >> (64 - width),
            quality,
            calibrated: name == "TSC",
            cost: AtomicU64::new(if name == "TSC" { 30 } else { 1000 }),
            ppb: AtomicI64::new(0),
            count: AtomicU64::new(1 << 30),
            turned: AtomicU64::new(0),
        }));
        self.clock.register(chip).expect("a sound counter");
        self.settle();
        chip
    }

    pub(crate) fn settle(&self) {
        let board = self.board;
        self.clock
            .settle(&mut || _ = board.pass(100_000))
            .expect("the best is fit");
    }

    pub(crate) fn look(&self) {
        let now = self.clock.monotonic_ns();
        let before = self.latest.replace(now);
        assert!(now >= before, "time went back from {before} to {now} ns");
    }

    /// An interval of windups, and the check at its end.
    pub(crate) fn interval(&self) -> Watched {
        for _ in 0..100 {
            self.board.pass(10 * MS);
            self.look();
            self.clock.windup();
            self.look();
        }
        let found = self.clock.watch();
        self.look();
        found
    }

    /// What the clock gains on the board over some seconds, in 10^-9.
    pub(crate) fn error_ppb(&self) -> i64 {
        let read = || {
            (
                self.clock.monotonic_ns(),
                self.board.now.load(Ordering::Relaxed),
            )
        };
        let (told, at) = read();
        for _ in 0..5 {
            self.interval();
        }
        let (told, passed) = (read().0 - told, read().1 - at);
        (told as i64 - passed as i64) * 1_000_000_000 / passed as i64
    }

    pub(crate) fn active(&self) -> &'static str {
        self.clock.active().map_or("none", |active| active.name())
    }

    pub(crate) fn quality(&self, name: &str) -> i32 {
        self.clock
            .registry()
            .find(name)
            .map_or(0, |it| it.quality())
    }
}

/// HPET, ACPI timer and TSC, the HPET active; each a little off, as crystals are.
pub(crate) fn board(seed: u64) -> (Rig, [&'static Chip; 3]) {
    let rig = Rig::new(seed);
    let chips = [
        rig.add("TSC", 2_400_000_000, 64, 800),
        rig.add("HPET", 100_000_000, 32, 950),
        rig.add("ACPI-fast", 3_579_545, 24, 900),
    ];
    for (chip, ppb) in chips.iter().zip([-400, 700, 0]) {
        chip.turn(ppb);
    }
    assert_eq!(rig.active(), "HPET");
    assert_eq!(rig.interval(), Watched::Started, "no samples before");
    (rig, chips)
}
