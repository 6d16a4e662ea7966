//! The rate and the horizon in force, and what they were made of.
//!
//! Both take divisions, so they are computed anew only when frequency,
//! adjustment or tick have changed since the published segment.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::windup::{Horizon, Rate};

/// What rate and horizon are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The active counter's frequency in Hz.
    pub(crate) frequency: u64,
    /// The adjustment, in ns per second with 32 fraction bits.
    pub(crate) adjustment: i64,
    /// Nanoseconds a tick.
    pub(crate) tick_ns: u64,
}

/// The state between two windups; stored only inside the gate.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The active counter's frequency when it became that: the floor slope's.
    reference: AtomicU64,
    frequency: AtomicU64,
    adjustment: AtomicI64,
    tick_ns: AtomicU64,
    period: AtomicU64,
    lead: AtomicU64,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self {
            reference: AtomicU64::new(0),
            frequency: AtomicU64::new(0),
            adjustment: AtomicI64::new(0),
            tick_ns: AtomicU64::new(0),
            period: AtomicU64::new(0),
            lead: AtomicU64::new(0),
        }
    }

    /// The frequency that the floor slope belongs to.
    pub(crate) fn reference(&self) -> u64 {
        self.reference.load(Ordering::Relaxed)
    }

    /// Starts on another counter, of `frequency` Hz; nothing known holds.
    pub(crate) fn restart(&self, frequency: u64) {
        self.reference.store(frequency, Ordering::Relaxed);
        self.frequency.store(0, Ordering::Relaxed);
    }

    /// Rate and horizon for the next segment of a counter of `mask`, where
    /// `published` is the rate of the last one.
    pub(crate) fn next(&self, key: Key, mask: u64, published: Rate) -> (Rate, Horizon) {
        let known = Key {
            frequency: self.frequency.load(Ordering::Relaxed),
            adjustment: self.adjustment.load(Ordering::Relaxed),
            tick_ns: self.tick_ns.load(Ordering::Relaxed),
        };
        if key == known {
            let horizon = Horizon {
                period: self.period.load(Ordering::Relaxed),
                lead: self.lead.load(Ordering::Relaxed),
            };
            return (published, horizon);
        }
        // Frequency and adjustment were checked when they were set.
        let rate = Rate::new(key.frequency, key.adjustment, self.reference()).unwrap_or(published);
        (rate, Horizon::new(key.frequency, mask, key.tick_ns))
    }

    /// Notes that a segment made of `key` was published.
    pub(crate) fn published(&self, key: Key, horizon: Horizon) {
        self.frequency.store(key.frequency, Ordering::Relaxed);
        self.adjustment.store(key.adjustment, Ordering::Relaxed);
        self.tick_ns.store(key.tick_ns, Ordering::Relaxed);
        self.period.store(horizon.period, Ordering::Relaxed);
        self.lead.store(horizon.lead, Ordering::Relaxed);
    }
}
