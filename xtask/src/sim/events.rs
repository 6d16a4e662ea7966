//! What a clock's reads come to on a machine of so many CPUs.
//!
//! The [machine](super::machine) first runs until its caches and queues are as they
//! will stay, then for as long as it takes every CPU to read several times and the
//! writer to fill the ring twice; what was counted then stands for the whole.

use super::clock::Clock;
use super::costs::Costs;
use super::machine::{Counted, Machine};

/// Windups before anything is counted: a turn of the ring, and then some.
const WARM_UP: u64 = 10;
/// Windups that are counted, at least: two turns.
const COUNTED: u64 = 16;
/// Reads a CPU, before and in what is counted, at least.
const READS: u64 = 8;

/// Reads a CPU for which the wall time is told.
pub const MILLION: f64 = 1e6;

/// What a simulation came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Picoseconds that were counted.
    time: u64,
    /// CPUs that read.
    cpus: usize,
    /// What happened in that time.
    counted: Counted,
}

impl Outcome {
    /// Seconds in which each CPU makes a million reads.
    pub fn wall(&self) -> f64 {
        self.time as f64 / 1e12 * MILLION * self.cpus as f64 / self.counted.reads as f64
    }

    /// Lines transferred a read.
    pub fn transfers_a_read(&self) -> f64 {
        self.counted.transfers as f64 / self.counted.reads as f64
    }

    /// Lines transferred for each CPU at each windup, on average.
    pub fn transfers_a_windup(&self) -> f64 {
        self.counted.transfers as f64 / self.counted.windups as f64 / self.cpus as f64
    }

    /// Retries a read.
    pub fn retries_a_read(&self) -> f64 {
        self.counted.retries as f64 / self.counted.reads as f64
    }
}

/// Simulates `cpus` CPUs that read `clock`, wound up `hz` times a second.
pub fn simulate(clock: &Clock, cpus: usize, hz: u32, costs: &Costs) -> Outcome {
    let mut machine = Machine::new(clock, cpus, hz, costs);
    let reads = READS * cpus as u64;
    machine.run(WARM_UP, reads);
    let start = machine.now();
    let counted = machine.run(COUNTED, reads);
    Outcome {
        time: machine.now() - start,
        cpus,
        counted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::clock::{Act, Segment};
    use crate::sim::trace::Step;

    const COSTS: Costs = Costs {
        read_ns: 100.0,
        exchange_read_ns: 100.0,
        neighbour_ns: 50.0,
        hop_ns: 0.0,
        memory_ns: 10.0,
    };

    /// A clock on one line, from what its windup and its reads do with that.
    fn clock(windup: &[Act], read: &[Act]) -> Clock {
        Clock {
            name: "tested",
            lines: 1,
            read: 100_000,
            segments: vec![Segment {
                windup: windup.to_vec(),
                before: read.to_vec(),
                inside: read.to_vec(),
            }],
        }
    }

    const LOAD: Act = Act::Access(Step::Load(0));
    const STORE: Act = Act::Access(Step::Store(0));
    const EXCHANGE: Act = Act::Access(Step::Exchange(0));

    #[test]
    fn what_nobody_writes_moves_nowhere() {
        let outcome = simulate(&clock(&[], &[LOAD]), 64, 1000, &COSTS);
        assert_eq!(outcome.counted.transfers, 0, "after the warm-up");
        assert!((outcome.wall() - 0.1).abs() < 1e-3, "{outcome:?}");
    }

    #[test]
    fn each_windup_moves_the_line_once_to_everybody_and_back() {
        let outcome = simulate(&clock(&[STORE], &[LOAD]), 64, 1000, &COSTS);
        let moved = outcome.transfers_a_windup();
        assert!((moved - 1.0).abs() < 0.02, "lines a windup: {moved}");
        let one = simulate(&clock(&[STORE], &[LOAD]), 1, 1000, &COSTS);
        assert_eq!(one.counted.transfers, 0, "with the writer on the same CPU");
    }

    #[test]
    fn exchanges_take_turns() {
        let exchange = clock(&[], &[LOAD, EXCHANGE]);
        let alone = simulate(&exchange, 1, 1000, &COSTS);
        assert_eq!(
            (alone.counted.transfers, alone.counted.retries),
            (0, 0),
            "of one CPU"
        );
        assert!((alone.wall() - 0.1).abs() < 1e-3, "{alone:?}");
        let four = simulate(&exchange, 4, 1000, &COSTS);
        let eight = simulate(&exchange, 8, 1000, &COSTS);
        let ratio = eight.wall() / four.wall();
        assert!((1.7..2.3).contains(&ratio), "twice the CPUs: {ratio}");
        assert!(eight.retries_a_read() > 0.1, "nobody lost: {eight:?}");
    }

    #[test]
    fn readers_wait_while_a_lock_is_odd() {
        let long = vec![Act::Lock(0), Act::Sample, Act::Sample, Act::Unlock(0)];
        let locked = simulate(&clock(&long, &[Act::Await(0)]), 16, 1000, &COSTS);
        let waits = locked.counted.retries as f64 / locked.counted.windups as f64;
        assert!(waits >= 15.0, "waits a windup: {waits}");
        let moved = locked.transfers_a_windup();
        assert!((1.9..2.2).contains(&moved), "lines a windup: {moved}");
    }

    #[test]
    fn other_lines_do_not_hide_whether_an_exchange_lost() {
        let read = [LOAD, Act::Access(Step::Load(1)), EXCHANGE];
        let two_lines = Clock {
            lines: 2,
            ..clock(&[], &read)
        };
        let alone = simulate(&two_lines, 1, 1000, &COSTS);
        assert_eq!(alone.counted.retries, 0, "nobody is there to lose to");
    }

    #[test]
    fn a_simulation_repeats_itself() {
        let run = || simulate(&clock(&[STORE], &[LOAD, EXCHANGE]), 32, 1000, &COSTS);
        assert_eq!(run(), run(), "there is no chance in it");
    }
}
