//! One registered counter: its driver, and what the core holds of it.
//!
//! The rate and the quality in force stand here and not in the driver: an operator
//! may correct the one, and the core may lower the other, with a reason. What
//! stands here is stored inside the clock's gate and read by anybody.

use core::fmt;
use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

use spin::{Mutex, Once};

use crate::counter::{Timecounter, UserCounter};
use crate::delta;
use crate::kind::Kind;
use crate::quality::{self, Rank};

/// Why the core lowered a quality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demotion {
    /// It wraps too fast for the ticks there are.
    InsufficientHz {
        /// Windups a second that it needs.
        needs: u64,
        /// Windups a second that there are.
        hz: u64,
    },
    /// Its rate was measured and does not fit.
    Rate {
        /// Deviation in 10^-9.
        ppb: i64,
        /// The counter it was measured against.
        against: &'static str,
    },
    /// It disagrees with another counter, and a third agrees with that.
    Convicted {
        /// Deviation in 10^-9.
        ppb: i64,
        /// The counter it was measured against.
        against: &'static str,
        /// The one that agrees with that.
        third: &'static str,
    },
}

impl fmt::Display for Demotion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InsufficientHz { needs, hz } => {
                write!(f, "needs {needs} windups a second, there are {hz}")
            }
            Self::Rate { ppb, against } => {
                let ppm = ppb / 1000;
                write!(f, "runs {ppm:+} ppm off {against}")
            }
            Self::Convicted {
                ppb,
                against,
                third,
            } => {
                // To the nearest: what hardly moves stands still.
                match (ppb + ppb.signum() * 500) / 1000 {
                    ..=-999_999 => write!(f, "stands still by {against} and {third}"),
                    ppm => write!(f, "runs {ppm:+} ppm off {against} and {third}"),
                }
            }
        }
    }
}

/// A registered counter with what the core holds of it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) counter: Once<&'static dyn Timecounter>,
    pub(crate) frequency: AtomicU64,
    pub(crate) quality: AtomicI32,
    demotion: Mutex<Option<Demotion>>,
    /// The measured error of its nominal rate in 10^-9, [`UNMEASURED`] if none.
    skew_ppb: AtomicI64,
    /// By how much its reads on two CPUs may disagree, in ns.
    skew_bound: AtomicU32,
}

/// No rate is so far off.
const UNMEASURED: i64 = i64::MIN;

impl Entry {
    pub(crate) const fn new() -> Self {
        Self {
            counter: Once::new(),
            frequency: AtomicU64::new(0),
            quality: AtomicI32::new(0),
            demotion: Mutex::new(None),
            skew_ppb: AtomicI64::new(UNMEASURED),
            skew_bound: AtomicU32::new(0),
        }
    }
}

/// A view of one registered counter.
#[derive(Clone, Copy)]
pub struct Registered<'r> {
    pub(crate) index: u8,
    pub(crate) counter: &'static dyn Timecounter,
    pub(crate) entry: &'r Entry,
}

impl fmt::Debug for Registered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// `NAME(QUALITY)`, as in `kern.timecounter.choice`.
impl fmt::Display for Registered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.quality())
    }
}

impl<'r> Registered<'r> {
    /// Its place in the registry.
    #[must_use]
    pub fn index(&self) -> u8 {
        self.index
    }
    /// The driver.
    #[must_use]
    pub fn counter(&self) -> &'static dyn Timecounter {
        self.counter
    }
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.counter.name()
    }
    /// The rate in force, in Hz.
    #[must_use]
    pub fn frequency(&self) -> u64 {
        self.entry.frequency.load(Ordering::Relaxed)
    }
    /// The quality in force.
    #[must_use]
    pub fn quality(&self) -> i32 {
        self.entry.quality.load(Ordering::Relaxed)
    }
    /// 2^width - 1.
    #[must_use]
    pub fn mask(&self) -> u64 {
        self.counter.mask()
    }
    /// A sample, not masked.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.counter.read()
    }
    /// Its kind word for a multiplier of `shift`.
    #[must_use]
    pub fn kind(&self, user_enabled: bool) -> Kind {
        let user = if user_enabled {
            self.counter.user_counter()
        } else {
            UserCounter::None
        };
        let width = 64 - self.mask().leading_zeros();
        Kind::new(user, 0, width as u8, self.index)
    }
    /// Why it has its quality: the core's reason if it lowered it, else the
    /// driver's.
    #[must_use]
    pub fn reason(&self) -> Reason<'r> {
        Reason(*self)
    }
    /// Sets the rate in force.
    pub(crate) fn set_frequency(&self, hz: u64) {
        self.entry.frequency.store(hz, Ordering::Relaxed);
    }
    /// By how much its nominal rate is off, in 10^-9, as the watchdog measured it
    /// last: the active counter's against the best other one, another's against
    /// the clock. Nothing before that.
    #[must_use]
    pub fn skew_ppb(&self) -> Option<i64> {
        Some(self.entry.skew_ppb.load(Ordering::Relaxed)).filter(|&ppb| ppb != UNMEASURED)
    }
    /// By how much its reads on one CPU may be ahead of those on another, in
    /// nanoseconds: 0 for one chip that all of them read, and for a counter of
    /// which nobody said otherwise.
    #[must_use]
    pub fn skew_bound_ns(&self) -> u32 {
        self.entry.skew_bound.load(Ordering::Relaxed)
    }
    pub(crate) fn set_skew_bound_ns(&self, bound: u32) {
        self.entry.skew_bound.store(bound, Ordering::Relaxed);
    }
    pub(crate) fn set_skew(&self, ppb: i64) {
        let measured = ppb.max(UNMEASURED + 1);
        self.entry.skew_ppb.store(measured, Ordering::Relaxed);
    }
    /// Lowers the quality to [`quality::DEMOTED`] unless somebody is reading the
    /// reason: an interrupt must not wait for what it interrupted.
    pub(crate) fn try_demote(&self, demotion: Demotion) -> bool {
        let Some(mut place) = self.entry.demotion.try_lock() else {
            return false;
        };
        *place = Some(demotion);
        self.entry
            .quality
            .store(quality::DEMOTED, Ordering::Relaxed);
        true
    }
    /// Lowers the quality to [`quality::DEMOTED`].
    pub(crate) fn demote(&self, demotion: Demotion) {
        *self.entry.demotion.lock() = Some(demotion);
        self.entry
            .quality
            .store(quality::DEMOTED, Ordering::Relaxed);
    }
    /// Takes the driver's quality over, unless the core has lowered it.
    pub(crate) fn requalify(&self) {
        if self.entry.demotion.lock().is_none() {
            self.entry
                .quality
                .store(self.counter.quality(), Ordering::Relaxed);
        }
    }
    /// Gives it the driver's quality back if it was too narrow for the ticks.
    pub(crate) fn reinstate(&self) {
        let mut demotion = self.entry.demotion.lock();
        if matches!(*demotion, Some(Demotion::InsufficientHz { .. })) {
            *demotion = None;
            self.entry
                .quality
                .store(self.counter.quality(), Ordering::Relaxed);
        }
    }
    /// How long `counts` of it last, in nanoseconds, rounded down, at most
    /// 2^64 - 1.
    pub(crate) fn ns(&self, counts: u128) -> u64 {
        let ns = counts * 1_000_000_000 / u128::from(self.frequency().max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
    /// Nanoseconds until it wraps, rounded down, at most 2^64 - 1.
    #[must_use]
    pub fn wrap_ns(&self) -> u64 {
        delta::wrap_ns(self.frequency(), self.mask())
            .and_then(|ns| u64::try_from(ns).ok())
            .unwrap_or(u64::MAX)
    }
    pub(crate) fn rank(&self) -> Rank {
        Rank {
            quality: self.quality(),
            frequency: self.frequency(),
        }
    }
}

/// Displays why a counter has its quality.
#[derive(Debug)]
pub struct Reason<'r>(Registered<'r>);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Copied out, so that no lock is held while the sink writes.
        let demotion = *self.0.entry.demotion.lock();
        match demotion {
            Some(demotion) => write!(f, "{demotion}"),
            None => self.0.counter.explain(f),
        }
    }
}
