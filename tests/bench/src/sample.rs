//! Interleaved timings.
//!
//! On a shared machine only ratios taken in the same run mean anything: the
//! processor changes its frequency between runs, and the host takes it away in
//! the middle of one. So every row is measured once in a round, a *batch* of
//! calls at a time, the round starts at another row each time, and of each row's
//! batches the median counts.

use std::hint::black_box;

use crate::tsc::fenced;

/// Calls in a batch: short against the time between two interrupts, long against
/// the two fenced reads around it.
pub const CALLS: u32 = 256;

/// One thing to be measured: its name, and a batch of it in ticks.
#[derive(Debug)]
pub struct Row<B> {
    /// The row's name.
    pub name: &'static str,
    /// Makes [`CALLS`] calls and returns how many ticks they took.
    pub batch: B,
}

/// What the batches of one row come to, in TSC ticks a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The shortest.
    pub min: f64,
    /// The middle one.
    pub median: f64,
    /// The one that a hundredth are above.
    pub p99: f64,
}

impl Summary {
    /// Sums up ticks a batch.
    #[must_use]
    pub fn of(batches: &mut [u64]) -> Self {
        batches.sort_unstable();
        let at = |hundredth: usize| {
            let place = batches.len().saturating_sub(1) * hundredth / 100;
            let ticks = batches.get(place).copied().unwrap_or_default();
            ticks as f64 / f64::from(CALLS)
        };
        Self {
            min: at(0),
            median: at(50),
            p99: at(99),
        }
    }
}

/// Ticks that [`CALLS`] calls of `call` take; what it returns is made, and
/// thrown away.
#[inline(always)]
pub fn batch<T>(mut call: impl FnMut() -> T) -> u64 {
    let start = fenced();
    for _ in 0..CALLS {
        black_box(call());
    }
    fenced().wrapping_sub(start)
}

/// Measures all `rows`, `rounds` batches each, interleaved.
pub fn interleave(rows: &mut [Row<&mut dyn FnMut() -> u64>], rounds: usize) -> Vec<Summary> {
    let mut ticks = vec![Vec::with_capacity(rounds); rows.len()];
    for round in 0..rounds {
        for place in 0..rows.len() {
            let index = (place + round) % rows.len();
            if let (Some(row), Some(ticks)) = (rows.get_mut(index), ticks.get_mut(index)) {
                ticks.push((row.batch)());
            }
        }
    }
    ticks.iter_mut().map(|ticks| Summary::of(ticks)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_in_ticks_a_call() {
        let mut ticks: Vec<u64> = (0..=100).rev().map(|k| k * u64::from(CALLS)).collect();
        let expected = Summary {
            min: 0.0,
            median: 50.0,
            p99: 99.0,
        };
        assert_eq!(Summary::of(&mut ticks), expected, "0 to 100 ticks a call");
        assert_eq!(Summary::of(&mut []).median, 0.0, "no batch at all");
    }

    #[test]
    fn every_row_is_measured_once_a_round() {
        let (mut first, mut second) = (0_u64, 0_u64);
        let mut one = || {
            first += 1;
            u64::from(CALLS)
        };
        let mut two = || {
            second += 1;
            u64::from(CALLS) * 2
        };
        let mut rows: [Row<&mut dyn FnMut() -> u64>; 2] = [
            Row {
                name: "one",
                batch: &mut one,
            },
            Row {
                name: "two",
                batch: &mut two,
            },
        ];
        let summaries = interleave(&mut rows, 7);
        let medians: Vec<f64> = summaries.iter().map(|summary| summary.median).collect();
        assert_eq!(medians, [1.0, 2.0], "each row has its own batches");
        assert_eq!((first, second), (7, 7), "batches of each");
    }
}
