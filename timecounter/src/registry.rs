//! The timecounters of a machine, and which of them is the best.
//!
//! # Method
//!
//! Counters are registered once and never leave. A counter's place, its *index*,
//! is part of every kind word, so readers find it without a lock.
//!
//! The best counter has the highest quality that is not negative; of two equal
//! ones the faster; of two equally fast ones the newer.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::counter::{Timecounter, UserCounter};
use crate::dummy::DUMMY_COUNTER;
use crate::guard::{Guard, GuardLine};
use crate::kind::Kind;
use crate::quality;
use crate::reader::{Counters, Halves};
use crate::registered::Entry;
use crate::scale::ScaleError;
use crate::windup::Rate;

pub use crate::registered::{Demotion, Reason, Registered};

/// Room for the dummy and fifteen others.
pub const MAX_COUNTERS: usize = 16;

/// Index of the dummy counter.
pub const DUMMY: u8 = 0;

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
