//! Counts passed between two windups, even if a narrow counter wrapped unseen.
//!
//! A masked difference tells the counts passed modulo the range. If the tick
//! stalls for longer than a wrap (a debugger, firmware, a paused machine), whole
//! wraps are lost, and nothing in the counter shows it. A second counter that
//! wraps later does: it says roughly how much time went by, and the number of
//! wraps that makes both agree is added, forwards.
//!
//! A 64-bit counter needs no witness; instead its difference is signed, which
//! shows a counter that stepped back. A narrow one is taken to have stepped back
//! if it is within 1/32 of a wrap behind and its witness, if there is one, did
//! not see most of a wrap pass.
//!
//! # Limits
//!
//! A witness is believed: one that leaps takes the clock along. One whose rate is
//! wrong is found out only within the first wraps, by the part of a wrap that
//! then is left over.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::delta;
use crate::registry::{DUMMY, Registered, Registry};

/// Longest time that is believed to have passed between two samples, in seconds:
/// 136 years.
const MAX_SECONDS: u64 = 1 << 32;

/// What the counter did since the last windup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Counts forwards, or nothing if the sample lies before the last one or is
    /// further ahead than a clock runs.
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

    /// How far `now` lies before the last sample.
    pub(crate) fn before_by(&self, now: u64, mask: u64) -> u64 {
        delta::masked(self.last.load(Ordering::Relaxed), now, mask)
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
        let index = witness.map_or(DUMMY, |witness| witness.index());
        if self.index.swap(u32::from(index), Ordering::Relaxed) != u32::from(index)
            && let Some(witness) = witness
        {
            // From now on only; what passed before it was watched is at most a
            // tick and leaves the number of whole wraps as it is.
            let sample = witness.read() & witness.mask();
            self.witness_now.store(sample, Ordering::Relaxed);
            self.witness_last.store(sample, Ordering::Relaxed);
        }
    }

    /// Whether there is a witness.
    pub(crate) fn is_watching(&self) -> bool {
        self.index.load(Ordering::Relaxed) != u32::from(DUMMY)
    }

    /// Counts of `active` from the last sample to `now`.
    pub(crate) fn passed(&self, registry: &Registry, active: &Registered<'_>, now: u64) -> Passed {
        let mask = active.mask();
        let last = self.last.load(Ordering::Relaxed);
        if mask == u64::MAX {
            let limit = active.frequency().saturating_mul(MAX_SECONDS);
            return Passed {
                counts: delta::forwards(now, last, mask).filter(|&counts| counts <= limit),
                missed_wraps: 0,
            };
        }
        match self.missed_wraps(registry, active, delta::masked(now, last, mask)) {
            Some(missed_wraps) => Passed {
                counts: Some(
                    delta::masked(now, last, mask)
                        .saturating_add(missed_wraps.saturating_mul(mask + 1)),
                ),
                missed_wraps,
            },
            None => Passed {
                counts: delta::forwards(now, last, mask),
                missed_wraps: 0,
            },
        }
    }

    /// Whole wraps that the witness saw, or nothing if there is none, or it saw
    /// less than half a wrap pass, or its view does not fit `delta`.
    fn missed_wraps(
        &self,
        registry: &Registry,
        active: &Registered<'_>,
        delta: u64,
    ) -> Option<u64> {
        let index = self.index.load(Ordering::Relaxed) as u8;
        let witness = registry.get(index).filter(|_| index != DUMMY)?;
        let sample = witness.read() & witness.mask();
        self.witness_now.store(sample, Ordering::Relaxed);
        let last = self.witness_last.load(Ordering::Relaxed);
        let passed = delta::forwards(sample, last, witness.mask())?;
        if passed > witness.frequency().saturating_mul(MAX_SECONDS) {
            return None;
        }

        let range = u128::from(active.mask()) + 1;
        let counts = u128::from(passed) * u128::from(active.frequency())
            / u128::from(witness.frequency().max(1));
        if counts < range / 2 {
            return None;
        }
        let unseen = counts.saturating_sub(u128::from(delta));
        let wraps = (unseen + range / 2) / range;
        // What is left over is the disagreement of the two: an eighth of a wrap
        // for the samples, and twice the rates' tolerance of 1/1024.
        let left_over = unseen.abs_diff(wraps * range);
        if left_over > range / 8 + counts / 512 {
            return None;
        }
        u64::try_from(wraps).ok()
    }
}
