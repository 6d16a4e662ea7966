//! The change from one counter to another.
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
//! A counter that was convicted of running too fast is left all the same. Its tail
//! is above the new line by what it gains until that is published; so the new line
//! starts higher by what it gains in a *limit*, a tick. A publication that was held
//! for longer than that is dropped, right before the store that would make it
//! current, and the change is made anew from fresh samples.
//!
//! An active counter that stands still never passes its end. When the new one
//! has counted `PATIENCE` ticks, the change goes on without waiting, and without
//! comparing: nothing above the announced end can have been read.
//!
//! # Limits
//!
//! Two cases of a step back remain. Between the look at the limit and the store
//! behind it are a few instructions: a CPU that is stopped just there for longer
//! than the limit, in the change away from a counter convicted of running fast,
//! publishes too late. And what the samples leave uncertain of two rates is granted
//! to a counter that is just beyond the margin: one that is, and is held in that
//! windup, may step back by that part of a tick.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::clock::{Clock, Windup};
use crate::delta;
use crate::kind::Kind;
use crate::page::Timehands;
use crate::registry::{DUMMY, Registered};
use crate::select::{MARGIN_PPB, Pair, ppb};
use crate::windup::{self, Horizon, Rate};

/// Ticks, by the new counter, after which an old one that has not reached its
/// end counts as stopped.
const PATIENCE: u64 = 16;

/// The least time, in nanoseconds, that may pass between the samples and the
/// publication of what was made of them: many times what that takes undisturbed,
/// on an emulated machine too. With more ticks than a thousand a second, a tick
/// would be too short.
const SHORTEST_LIMIT_NS: u64 = 1_000_000;

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
pub(crate) struct Samples {
    pub(crate) old: u64,
    pub(crate) new: u64,
    pub(crate) bracket: u64,
}

impl Samples {
    pub(crate) fn take(old: &Registered<'_>, new: &Registered<'_>) -> Self {
        let first = old.read() & old.mask();
        let sample = new.read() & new.mask();
        let last = old.read() & old.mask();
        Self {
            old: last,
            new: sample,
            bracket: delta::forwards(last, first, old.mask()).unwrap_or(0),
        }
    }

    /// Counts of either since the change was asked for; 0 of one that stepped back.
    fn passed(&self, old: &Registered<'_>, new: &Registered<'_>, asked: &Pair) -> (u64, u64) {
        let passed = |counter: &Registered<'_>, now, asked: &AtomicU64| {
            delta::forwards(now, asked.load(Ordering::Relaxed), counter.mask()).unwrap_or(0)
        };
        (
            passed(old, self.old, &asked.old),
            passed(new, self.new, &asked.new),
        )
    }

    /// Whether they are older than `limit_ns` by either counter.
    fn are_older(&self, old: &Registered<'_>, new: &Registered<'_>, limit_ns: u64) -> bool {
        let age = |counter: &Registered<'_>, sample| {
            let passed = delta::forwards(counter.read(), sample, counter.mask());
            counter.ns(passed.unwrap_or(0).into())
        };
        age(old, self.old).max(age(new, self.new)) > limit_ns
    }
}

impl Clock {
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
        let limit = self.tick_ns().max(SHORTEST_LIMIT_NS);
        let margin = u128::from(self.excess_ppb(old, &new, &samples)) * u128::from(limit)
            / 1_000_000_000
            * u128::from(old.frequency())
            / 1_000_000_000;
        let elapsed = u64::try_from(elapsed)
            .unwrap_or(0)
            .saturating_add(u64::try_from(margin).unwrap_or(u64::MAX));
        let ring = self.page.ring();
        let before = ring.current();
        let leap = self.leap.saved();
        let mut dropped = false;
        windup::change_counter(
            (kind, last),
            elapsed,
            (self.kind_of(&new), samples.new),
            horizon,
            rate,
            &mut self.leap.session(),
            &mut |kind, hands| {
                // A second that begins in between makes two segments; either the
                // new counter tells the time from the first on, or not at all.
                if dropped {
                    return;
                }
                let mut ready = || {
                    dropped = ring.current() == before && samples.are_older(old, &new, limit);
                    !dropped
                };
                let _ = ring.publish_if(kind.word(), hands, after, &mut ready);
            },
        );
        if ring.current() == before {
            self.leap.restore(leap);
            return Some(Windup::Waiting);
        }
        self.selection.convicted_ppb.store(0, Ordering::Relaxed);
        self.changed_counter(&new, samples.new);
        Some(Windup::Switched)
    }

    /// By how much a convicted counter is too fast, in 10^-9: as the watchdog found,
    /// or as it is now, if that is more. 0 of one that nobody convicted.
    fn excess_ppb(&self, old: &Registered<'_>, new: &Registered<'_>, samples: &Samples) -> u64 {
        let convicted = self.selection.convicted_ppb.load(Ordering::Relaxed);
        if convicted == 0 {
            return 0;
        }
        let asked = &self.selection.asked;
        let (old_passed, new_passed) = samples.passed(old, new, asked);
        let (deviation, _) = deviation((old, old_passed), (new, new_passed), 0);
        let now = i64::try_from(-deviation).unwrap_or(0);
        u64::try_from(convicted.max(now)).unwrap_or(0)
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
        let (old_passed, new_passed) = samples.passed(old, new, asked);
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
