//! Which counter tells the time, and the change from one to another.
//!
//! # Method
//!
//! A change waits until the active segment has passed its end, so that the old
//! line runs at its floor slope. Then the writer samples old, new, old again and
//! starts the new line, at the new sample, where the old tail is at the later old
//! one: from then on the new line is above the old tail for whoever still reads
//! that. Nothing steps; what the clock loses is a thousandth of the wait.
//!
//! Before that the two rates are compared over the wait. A counter that is
//! further off than the floor slope allows for could not keep the promise, and
//! one that stands still would stop the clock: it is refused with the figure.
//! The figure's own uncertainty, the time the samples took, is granted.
//!
//! An active counter that stands still never passes its end. When the new one
//! has counted `PATIENCE` ticks, the change goes on without waiting, and without
//! comparing: nothing above the announced end can have been read.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use crate::clock::{Clock, MAX_ADJUSTMENT, Windup};
use crate::delta::{self, min_windup_rate};
use crate::kind::Kind;
use crate::page::Timehands;
use crate::registry::{DUMMY, Demotion, Registered};
use crate::windup::{self, Horizon, Rate};

/// Ticks, by the new counter, after which an old one that has not reached its
/// end counts as stopped.
const PATIENCE: u64 = 16;

/// Largest deviation of a counter's rate that a change accepts, in 10^-9: the
/// margin of the floor slope, 1/1024.
const MARGIN_PPB: i128 = 976_562;

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
struct Pair {
    old: AtomicU64,
    new: AtomicU64,
    /// Counts of the old one that taking both took.
    bracket: AtomicU64,
}

/// The state of the choice.
#[derive(Debug)]
pub(crate) struct Selection {
    /// Index of the counter that shall be active.
    wanted: AtomicU32,
    /// Whether an operator chose it.
    pinned: AtomicBool,
    /// The samples when it was chosen.
    asked: Pair,
    /// The deviation for which the last change was refused, 0 if it was not.
    refused_ppb: AtomicI64,
    /// Index of the counter that was refused for it.
    refused: AtomicU32,
    /// What the active counter was convicted of, in 10^-9 too fast; 0 if nothing.
    convicted_ppb: AtomicI64,
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

/// What is to become of a change that was asked for.
enum Verdict {
    /// It is made.
    Change,
    /// The time has not come.
    Wait,
    /// The samples tell nothing; the comparison begins anew.
    Again,
    /// The new counter is this much off, in 10^-9.
    Refuse(i64),
}

/// Old, new and old again.
struct Samples {
    old: u64,
    new: u64,
    bracket: u64,
}

impl Samples {
    fn take(old: &Registered<'_>, new: &Registered<'_>) -> Self {
        let first = old.read() & old.mask();
        let sample = new.read() & new.mask();
        let last = old.read() & old.mask();
        Self {
            old: last,
            new: sample,
            bracket: delta::forwards(last, first, old.mask()).unwrap_or(0),
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
    fn ask(&self, samples: &Samples) {
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

    fn wanted(&self) -> Option<Registered<'_>> {
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

    /// Changes the counter if that was asked for and the time has come; inside
    /// the gate. Nothing is returned if the active one goes on.
    pub(crate) fn switch(
        &self,
        old: &Registered<'_>,
        (kind, last): (Kind, &Timehands),
        elapsed: i64,
        now: u64,
        after: &mut impl FnMut() -> bool,
    ) -> Option<Windup> {
        let new = self.wanted().filter(|new| new.index() != old.index())?;
        let samples = Samples::take(old, &new);
        let since = delta::forwards(samples.old, now, old.mask()).unwrap_or(0);
        let elapsed = elapsed.saturating_add_unsigned(since);
        let passed_end = i128::from(elapsed) > i128::from(last.length);
        match self.verdict(old, &new, &samples, passed_end) {
            Verdict::Change => {}
            Verdict::Wait => return Some(Windup::Waiting),
            Verdict::Again => {
                self.ask(&samples);
                return None;
            }
            Verdict::Refuse(ppb) => {
                let selection = &self.selection;
                selection
                    .refused
                    .store(u32::from(new.index()), Ordering::Relaxed);
                selection
                    .wanted
                    .store(u32::from(old.index()), Ordering::Relaxed);
                selection.refused_ppb.store(ppb, Ordering::Relaxed);
                return None;
            }
        }
        let frequency = new.frequency();
        let rate = Rate::new(frequency, self.adjustment(), frequency).ok()?;
        let horizon = Horizon::new(frequency, new.mask(), self.tick_ns());
        // A line that runs too fast is above the new one by the time that it takes
        // to publish that: a tick, to be safe.
        let convicted = self
            .selection
            .convicted_ppb
            .swap(0, Ordering::Relaxed)
            .max(0);
        let margin =
            u128::from(convicted.unsigned_abs()) * u128::from(self.tick_ns()) / 1_000_000_000;
        let margin = margin * u128::from(old.frequency()) / 1_000_000_000;
        let elapsed = u64::try_from(elapsed)
            .unwrap_or(0)
            .saturating_add(u64::try_from(margin).unwrap_or(0));
        windup::change_counter(
            (kind, last),
            elapsed,
            (self.kind_of(&new), samples.new),
            horizon,
            rate,
            &mut self.leap.session(),
            &mut |kind, hands| self.publish(kind, hands, after),
        );
        self.changed_counter(&new, samples.new);
        Some(Windup::Switched)
    }

    fn verdict(
        &self,
        old: &Registered<'_>,
        new: &Registered<'_>,
        samples: &Samples,
        passed_end: bool,
    ) -> Verdict {
        if old.index() == DUMMY {
            return Verdict::Change;
        }
        let asked = &self.selection.asked;
        let passed = |counter: &Registered<'_>, now, asked: &AtomicU64| {
            delta::forwards(now, asked.load(Ordering::Relaxed), counter.mask()).unwrap_or(0)
        };
        let old_passed = passed(old, samples.old, &asked.old);
        let new_passed = passed(new, samples.new, &asked.new);
        let old_ns = old.ns(old_passed.into());
        let new_ns = new.ns(new_passed.into());
        let tick = self.tick_ns();
        if !passed_end || old_ns < tick {
            let wrap = old.wrap_ns().min(new.wrap_ns());
            let patience = tick.saturating_mul(PATIENCE).min(wrap / 4 * 3);
            return if new_ns > patience {
                Verdict::Change
            } else {
                Verdict::Wait
            };
        }
        // Two ticks at the least number of them a wrap are well below this.
        let wrap = old.wrap_ns().min(new.wrap_ns());
        if old_ns.max(new_ns) > wrap / 8 * 7 {
            return Verdict::Again;
        }
        if self.selection.convicted_ppb.load(Ordering::Relaxed) != 0 {
            // Comparing the two once more would blame the other.
            return Verdict::Change;
        }
        let bracket = asked.bracket.load(Ordering::Relaxed);
        let bracket = bracket.saturating_add(samples.bracket);
        match deviation((old, old_passed), (new, new_passed), bracket) {
            (deviation, uncertain)
                if deviation.abs() > MARGIN_PPB - ppb(self.adjustment()) + uncertain =>
            {
                Verdict::Refuse(i64::try_from(deviation).unwrap_or(i64::MAX))
            }
            _ => Verdict::Change,
        }
    }
}

/// Magnitude of an adjustment in 10^-9.
fn ppb(adjustment: i64) -> i128 {
    i128::from(adjustment.unsigned_abs() >> 32)
}

/// By how much the new counter is too fast for the old one, and what the samples
/// leave uncertain of that, both in 10^-9. `bracket` is what taking them took, in
/// counts of the old one.
fn deviation(
    (old, old_passed): (&Registered<'_>, u64),
    (new, new_passed): (&Registered<'_>, u64),
    bracket: u64,
) -> (i128, i128) {
    const ONE: i128 = 1_000_000_000;
    let expected = u128::from(old_passed) * u128::from(new.frequency());
    let actual = u128::from(new_passed) * u128::from(old.frequency());
    // 2^30 times what 96 bits hold fits; what is cut off is below any figure.
    let excess = 32_u32.saturating_sub((expected | actual).leading_zeros());
    let (expected, actual) = ((expected >> excess) as i128, (actual >> excess) as i128);
    let deviation = (actual - expected) * ONE / expected.max(1);
    // A count of either may be lost at both ends.
    let old_counts = i128::from(old_passed.max(1));
    let new_counts =
        (old_counts * i128::from(new.frequency()) / i128::from(old.frequency().max(1))).max(1);
    let uncertain = ONE * i128::from(bracket.saturating_add(2)) / old_counts + 2 * ONE / new_counts;
    (deviation, uncertain)
}
