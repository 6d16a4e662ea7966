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

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use crate::bintime::Bintime;
use crate::counter::Timecounter;
use crate::gate::{Gate, Inside};
use crate::kind::Kind;
use crate::leap::Leap;
use crate::pace::{Key, Pace};
use crate::page::{Timehands, TimehandsPage};
use crate::registry::{DUMMY, RegisterError, Registered, Registry};
use crate::scale::ScaleError;
use crate::select::Selection;
use crate::settime::Step;
use crate::statistics::Statistics;
use crate::timespec::Timespec;
use crate::watch::Watch;
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
    /// The counter stepped back, or leapt by more than a century; the clock went
    /// on from the announced end.
    Rebased,
    /// A change of counter waits for the end of the segment.
    Waiting,
    /// Another counter tells the time now.
    Switched,
}

/// When reads go by the jitter guard, see [`crate::guard`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardPolicy {
    /// Where a counter's CPUs were found to disagree.
    Measured = 0,
    /// Never.
    Never = 1,
    /// Always.
    Always = 2,
}

const NEVER: u32 = GuardPolicy::Never as u32;
const ALWAYS: u32 = GuardPolicy::Always as u32;

/// The bound of a guard that nobody measured the need of, in nanoseconds: more
/// than two CPUs that are in step disagree.
const GUARD_NS: u32 = 1_000;

/// The timekeeper of a kernel. Made to be a `static`.
#[derive(Debug)]
pub struct Clock {
    pub(crate) page: &'static TimehandsPage,
    pub(crate) registry: Registry,
    gate: Gate,
    pub(crate) selection: Selection,
    pub(crate) step: Step,
    pub(crate) witness: Witness,
    pub(crate) leap: Leap,
    pub(crate) pace: Pace,
    pub(crate) watch: Watch,
    tick_ns: AtomicU64,
    adjustment: AtomicI64,
    user_enabled: AtomicBool,
    /// A [`GuardPolicy`].
    guard_policy: AtomicU32,
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
            pace: Pace::new(),
            watch: Watch::new(),
            tick_ns: AtomicU64::new(1_000_000),
            adjustment: AtomicI64::new(0),
            user_enabled: AtomicBool::new(true),
            guard_policy: AtomicU32::new(GuardPolicy::Measured as u32),
            published: AtomicU64::new(0),
            statistics: Statistics::new(),
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
        let Ok(rate) = Rate::new(dummy.frequency(), 0, dummy.frequency()) else {
            return;
        };
        self.pace.restart(dummy.frequency());
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

    /// Goes through the gate unless somebody is inside.
    pub(crate) fn try_enter(&self) -> Option<Inside<'_>> {
        self.gate.try_enter()
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
    /// one of the next windups if it is the best. Starts the clock if nobody did.
    ///
    /// # Errors
    ///
    /// [`RegisterError`]; the clock is as it was.
    pub fn register(&self, counter: &'static dyn Timecounter) -> Result<(), RegisterError> {
        self.start();
        let _inside = self.enter();
        self.registry.register(counter)?;
        self.rate_for_ticks();
        self.reselect();
        Ok(())
    }

    /// Nanoseconds between two windups.
    #[must_use]
    pub fn tick_ns(&self) -> u64 {
        self.tick_ns.load(Ordering::Relaxed)
    }

    /// Says that there will be `hz` windups a second, 1 to 1,000,000. Counters
    /// that wrap too fast for that are demoted, and those no longer too fast get
    /// their quality back.
    pub fn set_hz(&self, hz: u32) {
        let _inside = self.enter();
        let tick_ns = 1_000_000_000 / u64::from(hz.clamp(1, 1_000_000));
        self.tick_ns.store(tick_ns, Ordering::Relaxed);
        self.rate_for_ticks();
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

    /// The bound of the jitter guard in nanoseconds, if reads go by it.
    #[must_use]
    pub fn guard(&self) -> Option<u32> {
        self.active().and_then(|active| self.guard_of(&active))
    }

    /// Says when reads are guarded, from the next read on.
    pub fn set_guard(&self, policy: GuardPolicy) {
        let _inside = self.enter();
        self.guard_policy.store(policy as u32, Ordering::Relaxed);
        self.guard_active();
    }

    /// Says by how many nanoseconds `counter`'s reads on one CPU may be ahead of
    /// those on another, from the next read on; 0 for not at all.
    pub fn set_skew_bound(&self, counter: &Registered<'_>, bound_ns: u32) {
        let _inside = self.enter();
        counter.set_skew_bound_ns(bound_ns);
        self.guard_active();
    }

    /// The bound under which reads of `counter` are guarded, if they are.
    pub(crate) fn guard_of(&self, counter: &Registered<'_>) -> Option<u32> {
        let measured = counter.skew_bound_ns();
        match self.guard_policy.load(Ordering::Relaxed) {
            NEVER => None,
            ALWAYS => Some(measured.max(GUARD_NS)),
            _ => Some(measured).filter(|&bound| bound != 0),
        }
    }

    /// The kind of a segment of `counter` that is published now, and the bound of
    /// its guard where readers look for it; inside the gate.
    pub(crate) fn kind_of(&self, counter: &Registered<'_>) -> Kind {
        let guard = self.guard_of(counter);
        if let Some(bound) = guard {
            self.registry.set_guard_bound_ns(bound);
            self.page.set_guard_bound_ns(bound);
        }
        counter
            .kind(self.user_enabled())
            .with_guard(guard.is_some())
    }

    /// Applies the guard to the counter that tells the time; inside the gate.
    fn guard_active(&self) {
        let active = self.active();
        let Some(kind) = active.map(|active| self.kind_of(&active)) else {
            return;
        };
        self.page.ring().rewrite_kinds(|word| {
            let it = Kind::from_word(word);
            // Segments of another counter are past; what is left of their readers
            // goes on as it began.
            if it.index() == kind.index() {
                it.with_guard(kind.is_guarded()).word()
            } else {
                word
            }
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
        let (generation, word, last) = self.page.ring().latest();
        let kind = Kind::from_word(word);
        let started = generation != 0;
        let Some(active) = self.registry.get(kind.index()).filter(|_| started) else {
            return Windup::Early;
        };
        let mut now = active.read() & kind.mask();
        if !after() {
            return Windup::Early;
        }
        let key = Key {
            frequency: active.frequency(),
            adjustment: self.adjustment(),
            tick_ns: self.tick_ns(),
        };
        let published = Rate::of(&last, kind);
        let (rate, horizon) = self.pace.next(key, kind.mask(), published);
        let mut passed = self.witness.passed(&self.registry, &active, now);
        if passed.counts.is_none() {
            self.statistics.backward.fetch_add(1, Ordering::Relaxed);
            // One bad read is not yet a counter that stepped back.
            now = active.read() & kind.mask();
            passed = self.witness.passed(&self.registry, &active, now);
        }
        self.statistics
            .missed_wraps
            .fetch_add(passed.missed_wraps, Ordering::Relaxed);
        let elapsed = match passed.counts {
            Some(counts) => self
                .witness
                .behind(last.start, kind.mask())
                .saturating_add_unsigned(counts),
            None if self.witness.before_by(now, kind.mask()) > horizon.period => {
                windup::rebase(
                    (kind, &last),
                    now,
                    horizon,
                    rate,
                    &mut self.leap.session(),
                    &mut |kind, hands| self.publish(kind, hands, after),
                );
                self.statistics.rebased.fetch_add(1, Ordering::Relaxed);
                self.witness.sampled(now);
                self.pace.published(key, horizon);
                self.published.fetch_add(1, Ordering::Relaxed);
                self.ask_again();
                return Windup::Rebased;
            }
            None => self.witness.behind(last.start, kind.mask()),
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
        self.pace.published(key, horizon);
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
        self.pace.restart(active.frequency());
        self.witness.watch(&self.registry, active);
        self.witness.sampled(now);
        self.published.fetch_add(1, Ordering::Relaxed);
    }
}
