//! The clock: counters, page and writer put together.
//!
//! One [`Clock`] serves a kernel. A timer interrupt calls [`Clock::windup`]
//! `hz` times a second, on one CPU or on any: whoever comes second goes away
//! again. Everything that changes the clock passes the same gate, holds it for
//! a few hundred instructions and never waits inside. Readers wait for nothing.
//!
//! The state of the writer is the published segment itself; what stands beside
//! it here are words that only a caller inside the gate stores, and whose order
//! the gate gives.
//!
//! Waiting functions ([`choose`](Clock::choose), [`setclock`](Clock::setclock))
//! wind the clock up themselves and call `relax` in between, so they also work
//! before the first tick. They must not be called from an interrupt handler.

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::bintime::Bintime;
use crate::counter::Timecounter;
use crate::gate::{Gate, Inside};
use crate::kind::Kind;
use crate::leap::Leap;
use crate::page::{Timehands, TimehandsPage};
use crate::registry::{DUMMY, RegisterError, Registered, Registry};
use crate::scale::ScaleError;
use crate::select::Selection;
use crate::settime::Step;
use crate::timespec::Timespec;
use crate::windup::{self, Extended, Horizon, Rate};
use crate::witness::Witness;

/// Bound of rate adjustments: 500 ppm, in ns per second with 32 fraction bits.
pub const MAX_ADJUSTMENT: i64 = 500_000 << 32;

/// What a windup did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windup {
    /// Somebody else is winding up.
    Busy,
    /// Enough is announced.
    Early,
    /// The next segment was published before it started.
    OnTime,
    /// The next segment was published so many counts after it should have
    /// started.
    Late(u64),
    /// The counter stepped back; the clock went on from the announced end.
    Rebased,
    /// A change of counter waits for the end of the segment.
    Waiting,
    /// Another counter tells the time now.
    Switched,
}

/// What the writer counts.
#[derive(Debug)]
pub struct Statistics {
    late: AtomicU64,
    rebased: AtomicU64,
    backward: AtomicU64,
    missed_wraps: AtomicU64,
}

impl Statistics {
    /// Segments published after they should have started.
    #[must_use]
    pub fn late_publications(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }
    /// Times that a counter stepped back so far that the clock went on without
    /// it.
    #[must_use]
    pub fn rebased(&self) -> u64 {
        self.rebased.load(Ordering::Relaxed)
    }
    /// Samples below the one before, taken for equal to it.
    #[must_use]
    pub fn backward_samples(&self) -> u64 {
        self.backward.load(Ordering::Relaxed)
    }
    /// Whole wraps of a narrow counter that went unseen and were added.
    #[must_use]
    pub fn missed_wraps(&self) -> u64 {
        self.missed_wraps.load(Ordering::Relaxed)
    }
}

/// What rate and horizon are made of: frequency, adjustment, nanoseconds a tick.
type PaceKey = (u64, i64, u64);

/// The rate and the horizon of the published segment, and what they were made
/// of.
#[derive(Debug)]
struct Pace {
    frequency: AtomicU64,
    adjustment: AtomicI64,
    tick_ns: AtomicU64,
    period: AtomicU64,
    lead: AtomicU64,
}

/// The timekeeper of a kernel. Made to be a `static`.
#[derive(Debug)]
pub struct Clock {
    page: &'static TimehandsPage,
    registry: Registry,
    gate: Gate,
    pub(crate) selection: Selection,
    pub(crate) step: Step,
    witness: Witness,
    pub(crate) leap: Leap,
    pace: Pace,
    tick_ns: AtomicU64,
    adjustment: AtomicI64,
    user_enabled: AtomicBool,
    /// Windups that published something.
    published: AtomicU64,
    statistics: Statistics,
}

impl Clock {
    /// A clock that will publish on `page`, wound up 1000 times a second until
    /// [`set_hz`](Self::set_hz) says otherwise. Readers find time 0 until
    /// [`start`](Self::start).
    #[must_use]
    pub const fn new(page: &'static TimehandsPage) -> Self {
        Self {
            page,
            registry: Registry::new(),
            gate: Gate::new(),
            selection: Selection::new(),
            step: Step::new(),
            witness: Witness::new(),
            leap: Leap::new(),
            pace: Pace {
                frequency: AtomicU64::new(0),
                adjustment: AtomicI64::new(0),
                tick_ns: AtomicU64::new(0),
                period: AtomicU64::new(0),
                lead: AtomicU64::new(0),
            },
            tick_ns: AtomicU64::new(1_000_000),
            adjustment: AtomicI64::new(0),
            user_enabled: AtomicBool::new(true),
            published: AtomicU64::new(0),
            statistics: Statistics {
                late: AtomicU64::new(0),
                rebased: AtomicU64::new(0),
                backward: AtomicU64::new(0),
                missed_wraps: AtomicU64::new(0),
            },
        }
    }

    /// Starts the clock on the dummy counter, at one second of uptime and one
    /// second past 1970, as FreeBSD does. Further calls do nothing.
    pub fn start(&self) {
        let _inside = self.enter();
        if self.page.ring().current() != 0 {
            return;
        }
        self.registry.start();
        let Some(dummy) = self.registry.get(DUMMY) else {
            return;
        };
        let Ok(rate) = Rate::new(dummy.frequency(), 0) else {
            return;
        };
        let second = Bintime::new(1, 0);
        let horizon = Horizon::new(dummy.frequency(), dummy.mask(), self.tick_ns());
        let hands = Timehands {
            start: dummy.read() & dummy.mask(),
            length: horizon.period,
            multiplier: rate.multiplier.mult,
            monotonic: second,
            realtime: second,
            scale: rate.scale.units(),
            floor: rate.floor,
            coarse_monotonic_ns: 1_000_000_000,
            coarse_realtime: Timespec { sec: 1, nsec: 0 },
            tai: 0,
            leap: 0,
        };
        let kind = dummy.kind(true).with_shift(rate.multiplier.shift);
        self.publish(kind, &hands, &mut || true);
        self.witness.sampled(hands.start);
    }

    /// The page that programs map.
    #[must_use]
    pub fn page(&self) -> &'static TimehandsPage {
        self.page
    }

    /// All the counters.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What the writer counted.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Goes through the gate, waiting for whoever is inside.
    pub(crate) fn enter(&self) -> Inside<'_> {
        loop {
            if let Some(inside) = self.gate.try_enter() {
                return inside;
            }
            core::hint::spin_loop();
        }
    }

    /// The counter that tells the time.
    #[must_use]
    pub fn active(&self) -> Option<Registered<'_>> {
        let ring = self.page.ring();
        let kind = Kind::from_word(ring.slot(ring.current()).kind());
        self.registry.get(kind.index())
    }

    /// Enters a counter and, unless an operator has chosen, changes to it at
    /// one of the next windups if it is the best.
    ///
    /// # Errors
    ///
    /// [`RegisterError`]; the clock is as it was.
    pub fn register(&self, counter: &'static dyn Timecounter) -> Result<(), RegisterError> {
        let _inside = self.enter();
        self.registry.register(counter)?;
        self.demote_the_too_narrow();
        self.reselect();
        Ok(())
    }

    /// Nanoseconds between two windups.
    #[must_use]
    pub fn tick_ns(&self) -> u64 {
        self.tick_ns.load(Ordering::Relaxed)
    }

    /// Says that there will be `hz` windups a second, 1 to 1,000,000. Counters
    /// that wrap too fast for that are demoted.
    pub fn set_hz(&self, hz: u32) {
        let _inside = self.enter();
        let tick_ns = 1_000_000_000 / u64::from(hz.clamp(1, 1_000_000));
        self.tick_ns.store(tick_ns, Ordering::Relaxed);
        self.demote_the_too_narrow();
        self.reselect();
    }

    /// Sets how much faster the clock runs than its counter's nominal rate, in
    /// ns per second with 32 fraction bits, from the next segment on.
    ///
    /// # Errors
    ///
    /// [`ScaleError::AdjustmentOutOfRange`] beyond [`MAX_ADJUSTMENT`].
    pub fn set_adjustment(&self, adjustment: i64) -> Result<(), ScaleError> {
        if adjustment.unsigned_abs() > MAX_ADJUSTMENT.unsigned_abs() {
            return Err(ScaleError::AdjustmentOutOfRange);
        }
        self.adjustment.store(adjustment, Ordering::Relaxed);
        Ok(())
    }

    /// The adjustment in force.
    #[must_use]
    pub fn adjustment(&self) -> i64 {
        self.adjustment.load(Ordering::Relaxed)
    }

    /// Whether programs may read the counter themselves.
    #[must_use]
    pub fn user_enabled(&self) -> bool {
        self.user_enabled.load(Ordering::Relaxed)
    }

    /// Lets programs read the counter themselves, or sends them to the system
    /// call, from their next read on.
    pub fn set_user_enabled(&self, enabled: bool) {
        let _inside = self.enter();
        self.user_enabled.store(enabled, Ordering::Relaxed);
        self.page.ring().rewrite_kinds(|word| {
            let kind = Kind::from_word(word);
            self.registry.get(kind.index()).map_or(word, |counter| {
                kind.with_user(counter.kind(enabled).user()).word()
            })
        });
    }

    /// Windups that have published since the start.
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    /// Announces the next segment if it is time to. To be called `hz` times a
    /// second; more often does no harm, less often costs accuracy until it is
    /// called again.
    pub fn windup(&self) -> Windup {
        self.windup_until(&mut || true)
    }

    /// [`windup`](Self::windup), calling `after` behind the sample and behind
    /// every store; `false` from it abandons the windup there, as if its CPU had
    /// stopped for ever but for the gate. For measuring and testing what a
    /// stopped writer does to readers.
    pub fn windup_until(&self, after: &mut impl FnMut() -> bool) -> Windup {
        let Some(_inside) = self.gate.try_enter() else {
            return Windup::Busy;
        };
        self.windup_inside(after)
    }

    fn windup_inside(&self, after: &mut impl FnMut() -> bool) -> Windup {
        let (_, word, last) = self.page.ring().latest();
        let kind = Kind::from_word(word);
        let Some(active) = self.registry.get(kind.index()) else {
            return Windup::Early;
        };
        let now = active.read() & kind.mask();
        if !after() {
            return Windup::Early;
        }
        let (key, rate, horizon) = self.pace(&active, kind, &last);
        let passed = self.witness.passed(&self.registry, &active, now);
        self.statistics
            .missed_wraps
            .fetch_add(passed.missed_wraps, Ordering::Relaxed);
        let elapsed = match passed.counts {
            Some(counts) => self
                .witness
                .behind(last.start, kind.mask())
                .saturating_add_unsigned(counts),
            None => {
                self.statistics.backward.fetch_add(1, Ordering::Relaxed);
                if self.witness.before_by(now) > horizon.period {
                    self.statistics.rebased.fetch_add(1, Ordering::Relaxed);
                    windup::rebase((kind, &last), now, horizon, rate, &mut |kind, hands| {
                        self.publish(kind, hands, after);
                    });
                    self.witness.sampled(now);
                    self.paced(key, horizon);
                    self.published.fetch_add(1, Ordering::Relaxed);
                    return Windup::Rebased;
                }
                self.witness.behind(last.start, kind.mask())
            }
        };
        if let Some(done) = self.switch(&active, (kind, &last), elapsed, now, after) {
            return done;
        }
        let extended = windup::extend(
            (kind, &last),
            elapsed,
            horizon,
            rate,
            self.step.pending(),
            &mut self.leap.session(),
            &mut |kind, hands| self.publish(kind, hands, after),
        );
        if passed.counts.is_some() {
            self.witness.sampled(now);
        }
        match extended {
            Extended::Early => return Windup::Early,
            Extended::OnTime => {}
            Extended::Late(_) => {
                self.statistics.late.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.paced(key, horizon);
        self.published.fetch_add(1, Ordering::Relaxed);
        self.step.applied(self.published());
        match extended {
            Extended::Late(counts) => Windup::Late(counts),
            _ => Windup::OnTime,
        }
    }

    pub(crate) fn publish(&self, kind: Kind, hands: &Timehands, after: &mut impl FnMut() -> bool) {
        let _ = self.page.ring().publish_until(kind.word(), hands, after);
    }

    /// Makes the samples of the next windup count from `now` of the counter
    /// that is active from now on.
    pub(crate) fn changed_counter(&self, active: &Registered<'_>, now: u64) {
        self.witness.watch(&self.registry, active);
        self.witness.sampled(now);
        self.published.fetch_add(1, Ordering::Relaxed);
    }

    /// Rate and horizon for the next segment; computed anew only when one of the
    /// things they depend on changed, for it takes divisions.
    fn pace(
        &self,
        active: &Registered<'_>,
        kind: Kind,
        last: &Timehands,
    ) -> (PaceKey, Rate, Horizon) {
        let key = (active.frequency(), self.adjustment(), self.tick_ns());
        let known = (
            self.pace.frequency.load(Ordering::Relaxed),
            self.pace.adjustment.load(Ordering::Relaxed),
            self.pace.tick_ns.load(Ordering::Relaxed),
        );
        let unchanged = Rate::of(last, kind);
        if key == known {
            let horizon = Horizon {
                period: self.pace.period.load(Ordering::Relaxed),
                lead: self.pace.lead.load(Ordering::Relaxed),
            };
            return (key, unchanged, horizon);
        }
        // Frequency and adjustment were checked when they were set.
        let rate = Rate::new(key.0, key.1).unwrap_or(unchanged);
        (key, rate, Horizon::new(key.0, active.mask(), key.2))
    }

    /// Notes that a segment of this pace was published.
    fn paced(&self, key: PaceKey, horizon: Horizon) {
        self.pace.frequency.store(key.0, Ordering::Relaxed);
        self.pace.adjustment.store(key.1, Ordering::Relaxed);
        self.pace.tick_ns.store(key.2, Ordering::Relaxed);
        self.pace.period.store(horizon.period, Ordering::Relaxed);
        self.pace.lead.store(horizon.lead, Ordering::Relaxed);
    }

    /// Forgets the rate in force, for another counter is active.
    pub(crate) fn forget_pace(&self) {
        self.pace.frequency.store(0, Ordering::Relaxed);
    }

    /// CLOCK_MONOTONIC.
    #[must_use]
    pub fn monotonic(&self) -> Timespec {
        self.page
            .monotonic(&self.registry)
            .unwrap_or_else(|| self.page.monotonic_coarse())
    }

    /// CLOCK_MONOTONIC in nanoseconds.
    #[must_use]
    pub fn monotonic_ns(&self) -> u64 {
        self.page.monotonic_ns(&self.registry).unwrap_or_default()
    }

    /// CLOCK_REALTIME.
    #[must_use]
    pub fn realtime(&self) -> Timespec {
        self.page
            .realtime(&self.registry)
            .unwrap_or_else(|| self.page.realtime_coarse())
    }

    /// Uptime for arithmetic inside the kernel.
    #[must_use]
    pub fn binuptime(&self) -> Bintime {
        self.page.binuptime(&self.registry).unwrap_or_default()
    }

    /// Time of day for arithmetic inside the kernel.
    #[must_use]
    pub fn bintime(&self) -> Bintime {
        self.page.bintime(&self.registry).unwrap_or_default()
    }

    /// CLOCK_MONOTONIC at the latest windup.
    #[must_use]
    pub fn getmonotonic(&self) -> Timespec {
        self.page.monotonic_coarse()
    }

    /// CLOCK_REALTIME at the latest windup.
    #[must_use]
    pub fn getrealtime(&self) -> Timespec {
        self.page.realtime_coarse()
    }

    /// The time of day at which uptime was 0.
    #[must_use]
    pub fn boottime(&self) -> Bintime {
        self.page.boottime()
    }
}

impl Rate {
    /// The rate of a published segment.
    fn of(hands: &Timehands, kind: Kind) -> Self {
        Self {
            scale: crate::scale::Scale::from_units(hands.scale),
            multiplier: crate::scale::Multiplier {
                mult: hands.multiplier,
                shift: kind.shift(),
            },
            floor: hands.floor,
        }
    }
}
