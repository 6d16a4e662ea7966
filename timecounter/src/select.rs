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

use crate::clock::{Clock, Windup};
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

/// Windups after which a change that does not come about is given up.
const ATTEMPTS: u32 = 1 << 24;

/// Why a counter was not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChooseError {
    /// No counter of that name is registered.
    Unknown,
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
        }
    }
}

/// Old, new and old again.
struct Samples {
    old: u64,
    new: u64,
    bracket: u64,
}

impl Samples {
    fn take(old: &Registered<'_>, new: &Registered<'_>) -> Self {
        let first = old.read();
        let sample = new.read() & new.mask();
        let last = old.read() & old.mask();
        Self {
            old: last,
            new: sample,
            bracket: last.wrapping_sub(first) & old.mask(),
        }
    }
}

impl Clock {
    /// Makes the counter called `name` tell the time and keeps to it whatever
    /// is registered later. Returns when it does, within two ticks. `relax` is
    /// called while waiting.
    ///
    /// # Errors
    ///
    /// [`ChooseError`]; the choice is as it was, pinned or not.
    pub fn choose(&self, name: &str, relax: &mut impl FnMut()) -> Result<(), ChooseError> {
        let new = self.registry().find(name).ok_or(ChooseError::Unknown)?;
        {
            let _inside = self.enter();
            self.want(&new);
        }
        self.wait_for_change(relax)?;
        self.selection.pinned.store(true, Ordering::Relaxed);
        Ok(())
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

    /// Corrects a counter's rate; the clock runs on without a step, by the new
    /// rate from the next segment on.
    ///
    /// # Errors
    ///
    /// The active counter's rate may change by less than the floor slope allows
    /// for, an idle one's by an eighth; `false` beyond that.
    #[must_use]
    pub fn set_frequency(&self, counter: &Registered<'_>, hz: u64) -> bool {
        let _inside = self.enter();
        let active = self.active().map(|active| active.index());
        let now = counter.frequency();
        let limit = if active == Some(counter.index()) {
            // The new rate with its adjustment stays above the old floor if
            // adjustment and correction together stay within the margin.
            let adjustment = u128::from(self.adjustment().unsigned_abs() >> 32);
            MARGIN_PPB.unsigned_abs().saturating_sub(adjustment)
        } else {
            125_000_000
        };
        let change = u128::from(now.abs_diff(hz)) * 1_000_000_000;
        let allowed = change < u128::from(now) * limit && Rate::new(hz, 0).is_ok();
        if allowed {
            counter.set_frequency(hz);
        }
        allowed
    }

    /// Demotes counters that need more windups a wrap than there are; inside
    /// the gate.
    pub(crate) fn demote_the_too_narrow(&self) {
        let tick = self.tick_ns().max(1);
        for counter in self.registry().iter().filter(|tc| tc.quality() >= 0) {
            if counter.wrap_ns() / 3 < tick {
                let needs = 3_000_000_000_u64.div_ceil(counter.wrap_ns().max(1));
                counter.demote(Demotion::InsufficientHz {
                    needs,
                    hz: 1_000_000_000 / tick,
                });
            }
        }
    }

    /// Wants the best counter unless an operator chose; inside the gate.
    pub(crate) fn reselect(&self) {
        if self.pinned() {
            return;
        }
        if let Some(best) = self.registry().best() {
            self.want(&best);
        }
    }

    /// Asks for a change at one of the next windups; inside the gate.
    fn want(&self, new: &Registered<'_>) {
        let selection = &self.selection;
        if let Some(old) = self.active() {
            let samples = Samples::take(&old, new);
            let asked = &selection.asked;
            asked.old.store(samples.old, Ordering::Relaxed);
            asked.new.store(samples.new, Ordering::Relaxed);
            asked.bracket.store(samples.bracket, Ordering::Relaxed);
        }
        selection.refused_ppb.store(0, Ordering::Relaxed);
        selection
            .wanted
            .store(u32::from(new.index()), Ordering::Relaxed);
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

    /// Demotes the best counter for the deviation it was refused for, and wants
    /// the next best.
    fn demote_refused(&self, ppb: i64) -> Result<(), ChooseError> {
        let _inside = self.enter();
        let against = self.active().map_or("nothing", |active| active.name());
        match self.registry().best() {
            Some(best) if best.index() != DUMMY => {
                best.demote(Demotion::Rate { ppb, against });
                self.reselect();
                Ok(())
            }
            _ => Err(ChooseError::Rate { ppb }),
        }
    }

    /// Changes the counter if that was asked for and the time has come; inside
    /// the gate. Nothing is returned if there is nothing to change.
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
        let since = samples.old.wrapping_sub(now) & old.mask();
        let elapsed = elapsed.saturating_add_unsigned(since);
        let asked = &self.selection.asked;
        let new_passed = samples.new.wrapping_sub(asked.new.load(Ordering::Relaxed)) & new.mask();

        let passed_end = i128::from(elapsed) > i128::from(last.length);
        if old.index() != DUMMY {
            let patience = u128::from(self.tick_ns()) * u128::from(PATIENCE);
            let waited =
                u128::from(new_passed) * 1_000_000_000 > patience * u128::from(new.frequency());
            if passed_end && !waited {
                if let Some(ppb) = self.disagreement(old, &new, &samples, new_passed) {
                    self.selection.refused_ppb.store(ppb, Ordering::Relaxed);
                    self.selection
                        .wanted
                        .store(u32::from(old.index()), Ordering::Relaxed);
                    return None;
                }
            } else if !waited {
                return Some(Windup::Waiting);
            }
        }
        let rate = Rate::new(new.frequency(), self.adjustment()).ok()?;
        let horizon = Horizon::new(new.frequency(), new.mask(), self.tick_ns());
        windup::change_counter(
            (kind, last),
            u64::try_from(elapsed).unwrap_or(0),
            (new.kind(self.user_enabled()), samples.new),
            horizon,
            rate,
            &mut |kind, hands| self.publish(kind, hands, after),
        );
        self.forget_pace();
        self.changed_counter(&new, samples.new);
        Some(Windup::Switched)
    }

    /// By how much the rates of both counters differ since the change was asked
    /// for, in 10^-9, if that is more than the margin and than what the samples
    /// leave uncertain; never 0.
    fn disagreement(
        &self,
        old: &Registered<'_>,
        new: &Registered<'_>,
        samples: &Samples,
        new_passed: u64,
    ) -> Option<i64> {
        const ONE: i128 = 1_000_000_000;
        let asked = &self.selection.asked;
        let old_passed = samples.old.wrapping_sub(asked.old.load(Ordering::Relaxed)) & old.mask();
        let bracket = asked.bracket.load(Ordering::Relaxed) + samples.bracket;
        // Halved until ten digits more fit, which costs none of them.
        let product = |a: u64, b: u64| (i128::from(a) * i128::from(b)) >> 32;
        let (old_hz, new_hz) = (old.frequency(), new.frequency());
        let scale = |a: u64, b: u64| {
            if old_passed > u64::from(u32::MAX) {
                product(a, b)
            } else {
                i128::from(a) * i128::from(b)
            }
        };
        let expected = scale(old_passed, new_hz);
        let actual = scale(new_passed, old_hz);
        if expected <= 0 {
            return None;
        }
        let ppb = (actual - expected).saturating_mul(ONE) / expected;
        // Two counts of either may be lost, and the bracket is the old one's.
        let expected_counts = scale(old_passed, new_hz) / i128::from(old_hz.max(1));
        let counts = ONE * i128::from(bracket.saturating_add(2)) / i128::from(old_passed)
            + 2 * ONE / expected_counts.max(1);
        if ppb.abs() <= MARGIN_PPB + counts {
            return None;
        }
        i64::try_from(ppb).ok()
    }
}
