//! Which counter tells the time: the choice, and the rates that a counter may be
//! given.
//!
//! # Method
//!
//! One counter is *wanted*: the best, or the one that an operator chose, which is
//! then pinned. A choice asks for it and winds the clock up until the change is
//! made or refused; one that is refused leaves what was wanted before. Nobody
//! waits inside the gate.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use crate::change::Samples;
use crate::clock::{Clock, MAX_ADJUSTMENT};
use crate::delta::min_windup_rate;
use crate::registry::{DUMMY, Demotion, Registered};
use crate::windup::Rate;

/// Largest deviation of a counter's rate that a change accepts, in 10^-9: the
/// margin of the floor slope, 1/1024.
pub(crate) const MARGIN_PPB: i128 = 976_562;

/// Windups a wrap below which a counter is refused.
const WINDUPS_A_WRAP: u64 = 2;

/// Windups after which a change that does not come about is given up.
const ATTEMPTS: u32 = 1 << 24;

/// Why a counter was not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChooseError {
    /// No counter of that name is registered.
    Unknown,
    /// It wraps so fast that readers would mistake one wrap for another.
    TooNarrow {
        /// The windups a second without which it cannot be read.
        needs: u64,
        /// Those there are.
        hz: u64,
    },
    /// Its rate is this much off the active counter's, in 10^-9.
    Rate {
        /// The measured deviation.
        ppb: i64,
    },
    /// Neither counter moved.
    Stuck,
}

impl fmt::Display for ChooseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("no such timecounter"),
            Self::TooNarrow { needs, hz } => {
                write!(f, "needs {needs} windups a second, there are {hz}")
            }
            Self::Rate { ppb } => {
                let ppm = ppb / 1000;
                write!(f, "rate is {ppm:+} ppm off the active timecounter")
            }
            Self::Stuck => f.write_str("neither timecounter advances"),
        }
    }
}

impl core::error::Error for ChooseError {}

/// One sample of each counter, taken together.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) old: AtomicU64,
    pub(crate) new: AtomicU64,
    /// Counts of the old one that taking both took.
    pub(crate) bracket: AtomicU64,
}

/// The state of the choice.
#[derive(Debug)]
pub(crate) struct Selection {
    /// Index of the counter that shall be active.
    pub(crate) wanted: AtomicU32,
    /// Whether an operator chose it.
    pinned: AtomicBool,
    /// The samples when it was chosen.
    pub(crate) asked: Pair,
    /// The deviation for which the last change was refused, 0 if it was not.
    pub(crate) refused_ppb: AtomicI64,
    /// Index of the counter that was refused for it.
    pub(crate) refused: AtomicU32,
    /// What the active counter was convicted of, in 10^-9 too fast; 0 if nothing.
    pub(crate) convicted_ppb: AtomicI64,
}

impl Selection {
    pub(crate) const fn new() -> Self {
        Self {
            wanted: AtomicU32::new(0),
            pinned: AtomicBool::new(false),
            asked: Pair {
                old: AtomicU64::new(0),
                new: AtomicU64::new(0),
                bracket: AtomicU64::new(0),
            },
            refused_ppb: AtomicI64::new(0),
            refused: AtomicU32::new(0),
            convicted_ppb: AtomicI64::new(0),
        }
    }
}

impl Clock {
    /// Makes the counter called `name` tell the time and keeps to it whatever
    /// is registered later. Returns when it does, within two ticks. `relax` is
    /// called while waiting.
    ///
    /// An operator may choose what the clock would not choose by itself, but
    /// not a counter with fewer than two windups a wrap: its segments last for
    /// 7/8 of one, and a reader past the next wrap would go back.
    ///
    /// # Errors
    ///
    /// [`ChooseError`]; the choice is as it was, pinned or not.
    pub fn choose(&self, name: &str, relax: &mut impl FnMut()) -> Result<(), ChooseError> {
        let new = self.registry().find(name).ok_or(ChooseError::Unknown)?;
        let (wrap, tick) = (new.wrap_ns().max(1), self.tick_ns().max(1));
        if wrap / WINDUPS_A_WRAP < tick {
            return Err(ChooseError::TooNarrow {
                needs: (WINDUPS_A_WRAP * 1_000_000_000).div_ceil(wrap),
                hz: 1_000_000_000 / tick,
            });
        }
        let selection = &self.selection;
        let (wanted, pinned) = {
            let _inside = self.enter();
            let before = (self.wanted(), self.pinned());
            // Pinned from now on, so that no registration takes the choice over.
            selection.pinned.store(true, Ordering::Relaxed);
            self.want(&new);
            before
        };
        self.wait_for_change(relax).inspect_err(|_| {
            let _inside = self.enter();
            selection.pinned.store(pinned, Ordering::Relaxed);
            match wanted {
                Some(wanted) if pinned => self.want(&wanted),
                _ => self.reselect(),
            }
        })
    }

    /// Gives the choice back: the best counter tells the time, now and after
    /// each registration. Returns when it does.
    ///
    /// # Errors
    ///
    /// [`ChooseError`] where the best counter proved unfit and so did all the
    /// others.
    pub fn choose_best(&self, relax: &mut impl FnMut()) -> Result<(), ChooseError> {
        {
            let _inside = self.enter();
            self.selection.pinned.store(false, Ordering::Relaxed);
            self.reselect();
        }
        self.settle(relax)
    }

    /// Waits until the best counter, or the one chosen, tells the time. One
    /// that proves unfit is demoted and the next best takes its place.
    ///
    /// # Errors
    ///
    /// As [`choose_best`](Self::choose_best).
    pub fn settle(&self, relax: &mut impl FnMut()) -> Result<(), ChooseError> {
        loop {
            match self.wait_for_change(relax) {
                Err(ChooseError::Rate { ppb }) if !self.pinned() => {
                    self.demote_refused(ppb)?;
                }
                other => return other,
            }
        }
    }

    /// Asks the driver of `counter` for its quality anew, after it has learned more
    /// of its chip. What was demoted stays so.
    pub fn requalify(&self, counter: &Registered<'_>) {
        let _inside = self.enter();
        counter.requalify();
        self.rate_for_ticks();
        self.reselect();
    }

    /// Whether an operator chose the counter.
    #[must_use]
    pub fn pinned(&self) -> bool {
        self.selection.pinned.load(Ordering::Relaxed)
    }

    /// How long a stall of the windups the active counter bears without losing
    /// a wrap, in nanoseconds: seven eighths of one. Nothing where that does not
    /// matter: it has 64 bits, or a wider counter shows the wraps.
    #[must_use]
    pub fn bearable_stall_ns(&self) -> Option<u64> {
        self.active()
            .filter(|active| active.mask() != u64::MAX && !self.witness.is_watching())
            .map(|active| active.wrap_ns() / 8 * 7)
    }

    /// Corrects a counter's rate; the clock runs on without a step, by the new
    /// rate from the next segment on.
    ///
    /// # Errors
    ///
    /// `false`, and nothing is changed, beyond what the floor slope allows for:
    /// an active counter's rate may differ from the one it was chosen at by 476
    /// ppm, so that it stays above the floor under every adjustment. An idle
    /// one's may differ by an eighth from what its driver says.
    #[must_use]
    pub fn set_frequency(&self, counter: &Registered<'_>, hz: u64) -> bool {
        let _inside = self.enter();
        self.set_frequency_inside(counter, hz)
    }

    /// [`set_frequency`](Self::set_frequency), inside the gate.
    pub(crate) fn set_frequency_inside(&self, counter: &Registered<'_>, hz: u64) -> bool {
        let (low, high) = self.frequency_limits(counter);
        let allowed = (low..=high).contains(&hz) && Rate::check(hz).is_ok();
        if allowed {
            counter.set_frequency(hz);
        }
        allowed
    }

    /// The rates, in Hz, that `counter` may be given; inside the gate.
    pub(crate) fn frequency_limits(&self, counter: &Registered<'_>) -> (u64, u64) {
        let active = self.active().map(|active| active.index());
        let (reference, limit) = if active == Some(counter.index()) {
            (self.pace.reference(), MARGIN_PPB - ppb(MAX_ADJUSTMENT))
        } else {
            (counter.counter().frequency(), 125_000_000)
        };
        let change = u128::from(reference) * limit.unsigned_abs() / 1_000_000_000;
        let change = u64::try_from(change).unwrap_or(u64::MAX);
        (
            reference.saturating_sub(change),
            reference.saturating_add(change),
        )
    }

    /// Makes another counter tell the time, or be the witness, where `counter`
    /// did, which was convicted of being `ppb` too fast; inside the gate.
    pub(crate) fn replace(&self, counter: &Registered<'_>, ppb: i64) {
        let Some(active) = self.active() else {
            return;
        };
        let wanted = self.wanted().map(|wanted| wanted.index());
        if active.index() == counter.index() {
            self.selection.convicted_ppb.store(ppb, Ordering::Relaxed);
        }
        if wanted == Some(counter.index()) {
            self.selection.pinned.store(false, Ordering::Relaxed);
        }
        self.witness.watch(self.registry(), &active);
        self.reselect();
    }

    /// Demotes counters that need more windups a wrap than there are, and takes
    /// that back where there are enough; inside the gate. Finds the active
    /// counter's witness anew.
    pub(crate) fn rate_for_ticks(&self) {
        let hz = 1_000_000_000 / self.tick_ns().max(1);
        for counter in self.registry().iter() {
            let needs = min_windup_rate(counter.frequency(), counter.mask());
            if hz >= needs {
                counter.reinstate();
            } else if counter.quality() >= 0 {
                counter.demote(Demotion::InsufficientHz { needs, hz });
            }
        }
        if let Some(active) = self.active() {
            self.witness.watch(self.registry(), &active);
        }
    }

    /// Wants the best counter unless an operator chose; inside the gate. The
    /// dummy is the best only where it is the active one: it takes over from
    /// nothing that runs.
    pub(crate) fn reselect(&self) {
        if self.pinned() {
            return;
        }
        let best = self.registry().best().filter(|best| best.index() != DUMMY);
        if let Some(best) = best.or_else(|| self.active()) {
            self.want(&best);
        }
    }

    /// Asks for a change at one of the next windups; inside the gate.
    fn want(&self, new: &Registered<'_>) {
        let selection = &self.selection;
        if let Some(old) = self.active() {
            self.ask(&Samples::take(&old, new));
        }
        selection.refused_ppb.store(0, Ordering::Relaxed);
        selection
            .wanted
            .store(u32::from(new.index()), Ordering::Relaxed);
    }

    /// Begins the comparison with `samples`.
    pub(crate) fn ask(&self, samples: &Samples) {
        let asked = &self.selection.asked;
        asked.old.store(samples.old, Ordering::Relaxed);
        asked.new.store(samples.new, Ordering::Relaxed);
        asked.bracket.store(samples.bracket, Ordering::Relaxed);
    }

    /// Begins the comparison anew, after the active counter stepped back.
    pub(crate) fn ask_again(&self) {
        if let (Some(old), Some(new)) = (self.active(), self.wanted()) {
            self.ask(&Samples::take(&old, &new));
        }
    }

    pub(crate) fn wanted(&self) -> Option<Registered<'_>> {
        let index = self.selection.wanted.load(Ordering::Relaxed);
        self.registry().get(index as u8)
    }

    fn wait_for_change(&self, relax: &mut impl FnMut()) -> Result<(), ChooseError> {
        for _ in 0..ATTEMPTS {
            let refused = self.selection.refused_ppb.load(Ordering::Relaxed);
            if refused != 0 {
                return Err(ChooseError::Rate { ppb: refused });
            }
            let wanted = self.wanted().map(|wanted| wanted.index());
            if self.active().map(|active| active.index()) == wanted {
                return Ok(());
            }
            self.windup();
            relax();
        }
        Err(ChooseError::Stuck)
    }

    /// Demotes the counter that was refused, for its deviation, and wants the
    /// next best.
    fn demote_refused(&self, ppb: i64) -> Result<(), ChooseError> {
        let _inside = self.enter();
        let against = self.active().map_or("nothing", |active| active.name());
        let refused = self.selection.refused.load(Ordering::Relaxed);
        match self.registry().get(refused as u8) {
            Some(refused) if refused.index() != DUMMY => {
                refused.demote(Demotion::Rate { ppb, against });
                self.rate_for_ticks();
                self.reselect();
                Ok(())
            }
            _ => Err(ChooseError::Rate { ppb }),
        }
    }
}

/// Magnitude of an adjustment in 10^-9.
pub(crate) fn ppb(adjustment: i64) -> i128 {
    i128::from(adjustment.unsigned_abs() >> 32)
}
