//! The timecounters of a machine, and which of them is the best.
//!
//! # Method
//!
//! Counters are registered once and never leave. A counter's place, its *index*,
//! is part of every kind word, so readers find it without a lock. The rate and
//! the quality in force stand here and not in the driver: an operator may
//! correct the one, and the core may lower the other, with a reason.
//!
//! The best counter has the highest quality that is not negative; of two equal
//! ones the faster; of two equally fast ones the newer.

use core::fmt;
use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

use spin::{Mutex, Once};

use crate::counter::{Timecounter, UserCounter};
use crate::delta;
use crate::guard::{Guard, GuardLine};
use crate::kind::Kind;
use crate::quality::{self, Rank};
use crate::reader::{Counters, Halves};
use crate::scale::ScaleError;
use crate::windup::Rate;

/// Room for the dummy and fifteen others.
pub const MAX_COUNTERS: usize = 16;

/// Index of the dummy counter.
pub const DUMMY: u8 = 0;

/// Counts reads, not time: lets the clock run before any hardware does.
#[derive(Debug)]
pub struct Dummy(AtomicU32);

impl Dummy {
    const fn new() -> Self {
        Self(AtomicU32::new(0))
    }
}

impl Timecounter for Dummy {
    fn name(&self) -> &'static str {
        "dummy"
    }
    fn frequency(&self) -> u64 {
        1_000_000
    }
    fn mask(&self) -> u64 {
        u64::from(u32::MAX)
    }
    fn quality(&self) -> i32 {
        quality::DUMMY
    }
    fn read(&self) -> u64 {
        u64::from(self.0.fetch_add(1, Ordering::Relaxed))
    }
    fn explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counts reads, not time")
    }
}

static DUMMY_COUNTER: Dummy = Dummy::new();

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

/// Why a counter was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterError {
    /// No clock can be made of its frequency.
    Frequency(ScaleError),
    /// The mask is not 8 to 64 contiguous low bits.
    Mask(u64),
    /// The name is empty, too long, or would break a sysctl name.
    Name,
    /// A counter of that name is there already.
    Duplicate,
    /// There are [`MAX_COUNTERS`] already.
    Full,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frequency(error) => write!(f, "{error}"),
            Self::Mask(mask) => write!(f, "mask {mask:#x} is not 8 to 64 low bits"),
            Self::Name => f.write_str("unusable name"),
            Self::Duplicate => f.write_str("registered already"),
            Self::Full => write!(f, "more than {MAX_COUNTERS} counters"),
        }
    }
}

impl core::error::Error for RegisterError {}

/// A registered counter with what the core holds of it.
#[derive(Debug)]
pub struct Entry {
    counter: Once<&'static dyn Timecounter>,
    frequency: AtomicU64,
    quality: AtomicI32,
    demotion: Mutex<Option<Demotion>>,
    /// The measured error of its nominal rate in 10^-9, [`UNMEASURED`] if none.
    skew_ppb: AtomicI64,
    /// By how much its reads on two CPUs may disagree, in ns.
    skew_bound: AtomicU32,
}

/// No rate is so far off.
const UNMEASURED: i64 = i64::MIN;

impl Entry {
    const fn new() -> Self {
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
    index: u8,
    counter: &'static dyn Timecounter,
    entry: &'r Entry,
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
    fn rank(&self) -> Rank {
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

/// All the counters.
#[derive(Debug)]
pub struct Registry {
    entries: [Entry; MAX_COUNTERS],
    count: AtomicU32,
    /// Index of the counter that [`Counters::tsc`] reads, 0 for none.
    tsc: AtomicU32,
    /// The kernel's own line of the jitter guard, and its bound in ns.
    guard: GuardLine,
    guard_bound: AtomicU32,
}

impl Registry {
    pub(crate) const fn new() -> Self {
        Self {
            entries: [const { Entry::new() }; MAX_COUNTERS],
            count: AtomicU32::new(0),
            tsc: AtomicU32::new(0),
            guard: GuardLine::new(),
            guard_bound: AtomicU32::new(0),
        }
    }

    pub(crate) fn set_guard_bound_ns(&self, bound: u32) {
        self.guard_bound.store(bound, Ordering::Relaxed);
    }

    /// Enters the dummy; called once, under the gate, before anything else.
    pub(crate) fn start(&self) {
        if self.len() == 0 {
            // The dummy meets every condition of `register`.
            let _ = self.register(&DUMMY_COUNTER);
        }
    }

    fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    /// Enters `counter` behind the others; called under the gate.
    pub(crate) fn register(
        &self,
        counter: &'static dyn Timecounter,
    ) -> Result<Registered<'_>, RegisterError> {
        let mask = counter.mask();
        if mask & mask.wrapping_add(1) != 0 || mask < 0xff {
            return Err(RegisterError::Mask(mask));
        }
        Rate::check(counter.frequency()).map_err(RegisterError::Frequency)?;
        let name = counter.name();
        let usable = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.is_empty() || name.len() > 15 || !name.bytes().all(usable) {
            return Err(RegisterError::Name);
        }
        if self.find(name).is_some() {
            return Err(RegisterError::Duplicate);
        }
        let index = self.len();
        let entry = self.entries.get(index).ok_or(RegisterError::Full)?;
        entry
            .frequency
            .store(counter.frequency(), Ordering::Relaxed);
        entry.quality.store(counter.quality(), Ordering::Relaxed);
        // Who gets the counter out of the `Once` sees what was stored before it
        // was put in; the count below needs no order of its own.
        entry.counter.call_once(|| counter);
        if counter.user_counter() == UserCounter::Tsc && mask == u64::MAX {
            self.tsc.store(index as u32, Ordering::Relaxed);
        }
        self.count.store(index as u32 + 1, Ordering::Relaxed);
        Ok(Registered {
            index: index as u8,
            counter,
            entry,
        })
    }

    /// The counter at `index`.
    #[must_use]
    pub fn get(&self, index: u8) -> Option<Registered<'_>> {
        let entry = self.entries.get(usize::from(index))?;
        let counter = *entry.counter.get()?;
        Some(Registered {
            index,
            counter,
            entry,
        })
    }

    /// All counters in the order of registration, the dummy first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Registered<'_>> {
        (0..self.len()).filter_map(|index| self.get(index as u8))
    }

    /// The counter of that name; upper and lower case differ.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Registered<'_>> {
        self.iter().find(|counter| counter.name() == name)
    }

    /// The best counter; the dummy if no other has a quality of 0 or more.
    #[must_use]
    pub fn best(&self) -> Option<Registered<'_>> {
        let fit = self.iter().filter(|counter| counter.quality() >= 0);
        fit.reduce(|best, next| {
            if quality::prefers(best.rank(), next.rank()) {
                next
            } else {
                best
            }
        })
        .or_else(|| self.get(DUMMY))
    }
}

impl Counters for Registry {
    fn order(&self) {}

    fn tsc<T>(&self, _ahead: &T) -> Halves {
        let count = match self.tsc.load(Ordering::Relaxed) {
            0 => 0,
            index => self.get(index as u8).map_or(0, |tsc| tsc.read()),
        };
        count.into()
    }

    fn read(&self, kind: Kind) -> Option<u64> {
        self.get(kind.index()).map(|counter| counter.read())
    }

    fn guard(&self) -> Option<Guard<'_>> {
        let bound = self.guard_bound.load(Ordering::Relaxed);
        Some(Guard::new(&self.guard, bound))
    }
}

/// The counters as the kernel reads them when it answers a process: by the line
/// of that as well.
pub(crate) struct Answering<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) line: &'a GuardLine,
}

impl Counters for Answering<'_> {
    fn order(&self) {
        self.registry.order();
    }

    fn tsc<T>(&self, ahead: &T) -> Halves {
        self.registry.tsc(ahead)
    }

    fn read(&self, kind: Kind) -> Option<u64> {
        Counters::read(self.registry, kind)
    }

    fn guard(&self) -> Option<Guard<'_>> {
        Some(self.registry.guard()?.beside(self.line))
    }
}

/// `A(q) B(q) ... dummy(-1000000)`, newest registration first.
impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, counter) in self.iter().rev().enumerate() {
            let space = if place == 0 { "" } else { " " };
            write!(f, "{space}{counter}")?;
        }
        Ok(())
    }
}
