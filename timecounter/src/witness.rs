//! Counts passed between two windups, even if a narrow counter wrapped unseen.
//!
//! A masked difference tells the counts passed modulo the range. If the tick
//! stalls for longer than a wrap (a debugger, firmware, a paused machine), whole
//! wraps are lost, and nothing in the counter shows it. A second counter that
//! wraps later does: it says roughly how much time went by, and the number of
//! wraps that makes both agree is added, forwards.
//!
//! A 64-bit counter needs no witness; instead its difference is signed, which
//! shows a counter that stepped back.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::registry::{DUMMY, Registered, Registry};

/// What the counter did since the last windup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Counts forwards, or nothing if the sample lies before the last one.
    pub(crate) counts: Option<u64>,
    /// Whole wraps among them that only the witness saw.
    pub(crate) missed_wraps: u64,
}

/// The last samples of the active counter and of its witness.
#[derive(Debug)]
pub(crate) struct Witness {
    last: AtomicU64,
    /// Index of the witness, 0 (the dummy, never one) for none.
    index: AtomicU32,
    /// The witness's sample that belongs to `last`, and the one taken since.
    witness_last: AtomicU64,
    witness_now: AtomicU64,
}

impl Witness {
    pub(crate) const fn new() -> Self {
        Self {
            last: AtomicU64::new(0),
            index: AtomicU32::new(0),
            witness_last: AtomicU64::new(0),
            witness_now: AtomicU64::new(0),
        }
    }

    /// Notes the sample of a windup that counted everything up to it.
    pub(crate) fn sampled(&self, now: u64) {
        self.last.store(now, Ordering::Relaxed);
        let witness = self.witness_now.load(Ordering::Relaxed);
        self.witness_last.store(witness, Ordering::Relaxed);
    }

    /// The last sample's place behind `start`, negative before it.
    pub(crate) fn behind(&self, start: u64, mask: u64) -> i64 {
        let last = self.last.load(Ordering::Relaxed);
        let delta = last.wrapping_sub(start) & mask;
        if crate::reader::is_before(delta, mask) {
            let before = start.wrapping_sub(last) & mask;
            i64::try_from(before).map_or(i64::MIN, |before| -before)
        } else {
            i64::try_from(delta).unwrap_or(i64::MAX)
        }
    }

    /// How far `now` of a 64-bit counter lies before the last sample.
    pub(crate) fn before_by(&self, now: u64) -> u64 {
        self.last.load(Ordering::Relaxed).wrapping_sub(now)
    }

    /// Chooses the witness of `active`: of the counters that wrap at least four
    /// times later, the one that wraps last.
    pub(crate) fn watch(&self, registry: &Registry, active: &Registered<'_>) {
        let later = active.wrap_ns().saturating_mul(4);
        let witness = registry
            .iter()
            .filter(|other| other.index() != DUMMY && other.index() != active.index())
            .filter(|other| other.quality() >= 0 && other.wrap_ns() > later)
            .max_by_key(Registered::wrap_ns)
            .filter(|_| active.mask() != u64::MAX);
        match witness {
            Some(witness) => {
                self.index
                    .store(u32::from(witness.index()), Ordering::Relaxed);
                self.witness_now
                    .store(witness.read() & witness.mask(), Ordering::Relaxed);
            }
            None => self.index.store(0, Ordering::Relaxed),
        }
    }

    /// Counts of `active` from the last sample to `now`.
    pub(crate) fn passed(&self, registry: &Registry, active: &Registered<'_>, now: u64) -> Passed {
        let mask = active.mask();
        let delta = now.wrapping_sub(self.last.load(Ordering::Relaxed)) & mask;
        if mask == u64::MAX {
            return Passed {
                counts: (delta <= u64::MAX / 2).then_some(delta),
                missed_wraps: 0,
            };
        }
        let missed_wraps = self.missed_wraps(registry, active, delta);
        Passed {
            counts: Some(delta.saturating_add(missed_wraps.saturating_mul(mask + 1))),
            missed_wraps,
        }
    }

    fn missed_wraps(&self, registry: &Registry, active: &Registered<'_>, delta: u64) -> u64 {
        let index = self.index.load(Ordering::Relaxed) as u8;
        let Some(witness) = registry.get(index).filter(|_| index != DUMMY) else {
            return 0;
        };
        let sample = witness.read() & witness.mask();
        self.witness_now.store(sample, Ordering::Relaxed);
        let last = self.witness_last.load(Ordering::Relaxed);
        let passed = sample.wrapping_sub(last) & witness.mask();

        let range = u128::from(active.mask()) + 1;
        // passed / witness.frequency() seconds are this many counts times the
        // witness's frequency.
        let counts = u128::from(passed).saturating_mul(u128::from(active.frequency()));
        let frequency = u128::from(witness.frequency().max(1));
        if counts < range / 2 * frequency {
            return 0;
        }
        let unseen = (counts / frequency).saturating_sub(u128::from(delta));
        u64::try_from((unseen + range / 2) / range).unwrap_or(0)
    }
}
