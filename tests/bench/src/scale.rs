//! How many more reads two processors make than one.
//!
//! # Method
//!
//! In a *round* each row is measured alone on the first processor, on both at
//! once, and alone on the second, each for a short *window*; every other round
//! goes backwards, and begins at another row than the one before. The round's
//! ratio is the reads of both over the mean of the two alone, so that neither a
//! drift of the processor's speed nor a difference between the two processors
//! is taken for scaling. Of the rounds' ratios the median counts; the spread is
//! shown beside it.
//!
//! A thread counts its own reads over the time that it was given on its
//! processor: what another program takes away in the middle of a window is
//! neither a cost of reading nor one of sharing. A reader waits for nobody but in
//! the hardware, which is time on the processor.
//!
//! That is also the method's limit: on a busy machine the two threads seldom run
//! at the same moment, and rows that fight for a line look better than they are.
//!
//! # Who winds up
//!
//! The reading threads, between two batches when a tick is due, as a timer
//! interrupt does on a kernel's processors. A thread of its own would need a
//! processor of its own, or would cost a reader two switches a tick, a hundred
//! times what the windup does. The second thread ticks half a tick after the
//! first, which is too early to publish anything unless the first was put aside:
//! then it takes over as a deputy, and the page is never left to itself.
//!
//! So one processor alone has the page's lines in its own cache and pays for the
//! windup, and of two the second pays for the lines that the first has written:
//! what is measured is what sharing costs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use rustix::time::{ClockId, clock_gettime};

use crate::cpu;
use crate::sample::CALLS;
use crate::tsc::{fenced, ordered};

/// A clock to be measured.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// The row's name.
    pub name: &'static str,
    /// Makes [`CALLS`] reads.
    pub batch: &'a (dyn Fn() + Sync),
    /// What each processor does at its tick.
    pub tick: &'a (dyn Fn() + Sync),
}

impl std::fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row").field("name", &self.name).finish()
    }
}

/// How long things take, in counts of the TSC.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// How long one measurement is.
    pub window: u64,
    /// From one windup to the next.
    pub tick: u64,
}

/// Reads a nanosecond, measured close together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// By one thread, the mean of both processors.
    pub one: f64,
    /// By two threads together.
    pub two: f64,
}

impl Round {
    /// How many times the reads of one thread two make.
    #[must_use]
    pub fn ratio(self) -> f64 {
        self.two / self.one
    }
}

/// What some figures come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The lowest.
    pub min: f64,
    /// A quarter is below it.
    pub lower: f64,
    /// The middle one, of an even number the mean of the two.
    pub median: f64,
    /// A quarter is above it.
    pub upper: f64,
    /// The highest.
    pub max: f64,
}

impl Spread {
    /// Sums up `figures`; nothing of none.
    #[must_use]
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let last = figures.len().checked_sub(1)?;
        // Between two figures, in proportion.
        let at = |quarters: usize| {
            let (below, rest) = (last * quarters / 4, last * quarters % 4);
            let low = figures.get(below)?;
            let high = figures.get(below + 1).unwrap_or(low);
            Some(low + (high - low) * rest as f64 / 4.0)
        };
        Some(Self {
            min: at(0)?,
            lower: at(1)?,
            median: at(2)?,
            upper: at(3)?,
            max: at(4)?,
        })
    }
}

/// Measures all `rows` on the two processors of `pair`, `rounds` times,
/// interleaved: the rounds of each row.
///
/// # Errors
///
/// No thread may be started, or not on one of those processors.
pub fn interleave(
    rows: &[Row<'_>],
    pair: [usize; 2],
    rounds: usize,
    times: Times,
) -> Result<Vec<Vec<Round>>> {
    let mut measured = vec![Vec::with_capacity(rounds); rows.len()];
    for round in 0..rounds {
        for place in 0..rows.len() {
            let index = (place + round) % rows.len();
            if let (Some(row), Some(measured)) = (rows.get(index), measured.get_mut(index)) {
                measured.push(one_round(row, pair, round % 2 == 1, times)?);
            }
        }
    }
    Ok(measured)
}

fn one_round(row: &Row<'_>, pair: [usize; 2], backwards: bool, times: Times) -> Result<Round> {
    let [mut before, mut after] = pair;
    if backwards {
        std::mem::swap(&mut before, &mut after);
    }
    let first = rate(row, &[before], times)?;
    let two = rate(row, &pair, times)?;
    let second = rate(row, &[after], times)?;
    Ok(Round {
        one: f64::midpoint(first, second),
        two,
    })
}

/// Reads a nanosecond by a thread on each of `cpus`, together.
fn rate(row: &Row<'_>, cpus: &[usize], times: Times) -> Result<f64> {
    let there = AtomicUsize::new(0);
    let begin = |cpu: usize| {
        let pinned = cpu::pin(cpu);
        // What a thread does only once is done before the window.
        (row.batch)();
        // Also without success: the others wait for this thread.
        there.fetch_add(1, Ordering::Relaxed);
        while there.load(Ordering::Relaxed) < cpus.len() {
            std::hint::spin_loop();
        }
        pinned
    };
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (place, &cpu) in cpus.iter().enumerate() {
            let begin = &begin;
            threads.push(scope.spawn(move || {
                begin(cpu)?;
                let since = time_given();
                let reads = read_for(row, place as u64 * times.tick / 2, times);
                let given = time_given().saturating_sub(since);
                ensure!(given > 0, "a thread's time stands still");
                Ok(reads as f64 / given as f64)
            }));
        }
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .map_err(|_| anyhow!("a reading thread panicked"))?
            })
            .sum()
    })
}

/// Nanoseconds that this thread ran on a processor.
fn time_given() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(Duration::try_from(time).map_or(0, |time| time.as_nanos())).unwrap_or(0)
}

/// Reads for one window, with a tick after `first` counts and then regularly; the
/// reads that were made.
fn read_for(row: &Row<'_>, first: u64, times: Times) -> u64 {
    let start = fenced();
    let (mut reads, mut due) = (0_u64, start.wrapping_add(first));
    loop {
        let now = ordered();
        if now.wrapping_sub(start) >= times.window {
            return reads;
        }
        if now >= due {
            (row.tick)();
            // Ticks keep to their grid; those that were missed are lost.
            due += times.tick.max(1) * ((now - due) / times.tick.max(1) + 1);
        }
        (row.batch)();
        reads += u64::from(CALLS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_in_quarters() {
        let spread = Spread {
            min: 0.0,
            lower: 1.0,
            median: 2.0,
            upper: 3.0,
            max: 4.0,
        };
        let figures = [4.0, 0.0, 3.0, 1.0, 2.0];
        assert_eq!(Spread::of(figures), Some(spread), "0 to 4 in any order");
        let middle = Spread::of([1.0, 2.0]).map(|spread| spread.median);
        assert_eq!(middle, Some(1.5), "between two");
        assert_eq!(Spread::of([]), None, "of nothing");
    }

    #[test]
    fn each_row_is_read_and_wound_up_every_round() -> Result<()> {
        let Some(&cpu) = cpu::usable()?.first() else {
            return Ok(());
        };
        let (batches, ticks) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let batch = || _ = batches.fetch_add(1, Ordering::Relaxed);
        let tick = || _ = ticks.fetch_add(1, Ordering::Relaxed);
        let row = Row {
            name: "counted",
            batch: &batch,
            tick: &tick,
        };
        let times = Times {
            window: 1_000_000,
            tick: 10_000_000_000,
        };
        // Both threads on one processor: this is not about speed.
        let rounds = interleave(&[row, row], [cpu, cpu], 3, times)?;
        let counted: Vec<usize> = rounds.iter().map(Vec::len).collect();
        assert_eq!(counted, [3, 3], "rounds of each row");
        assert!(
            rounds.iter().flatten().all(|round| round.ratio() > 0.0),
            "somebody made no read: {rounds:?}"
        );
        assert_eq!(
            ticks.load(Ordering::Relaxed),
            18,
            "the first thread's tick in each window, no deputy's yet"
        );
        assert!(
            batches.load(Ordering::Relaxed) >= 48,
            "one before each window and one in it"
        );
        Ok(())
    }
}
