//! The figures of all clocks for all numbers of CPUs, as a table and as JSON.

use serde_json::{Value, json};

use super::clock::{self, NAMES};
use super::costs::Costs;
use super::events::{Outcome, simulate};
use super::published;
use super::trace::Trace;

/// One number of CPUs.
#[derive(Clone, Debug)]
pub struct Row {
    /// CPUs that read.
    pub cpus: usize,
    /// By clock, in the order of [`NAMES`].
    pub outcomes: Vec<Outcome>,
}

/// All of them.
#[derive(Clone, Debug)]
pub struct Report {
    /// Windups a second.
    pub hz: u32,
    /// The machine.
    pub costs: Costs,
    /// From 1 CPU on, each twice as many.
    pub rows: Vec<Row>,
}

impl Report {
    /// Simulates 1, 2, 4 and so on up to `max_cpus`.
    pub fn of(trace: &Trace, max_cpus: usize, hz: u32, costs: &Costs) -> Self {
        let clocks = clock::all(trace, costs);
        let numbers = (0..usize::BITS)
            .map(|power| 1 << power)
            .take_while(|cpus| *cpus <= max_cpus);
        let rows = numbers.map(|cpus| Row {
            cpus,
            outcomes: clocks
                .iter()
                .map(|clock| simulate(clock, cpus, hz, costs))
                .collect(),
        });
        Self {
            hz,
            costs: costs.clone(),
            rows: rows.collect(),
        }
    }

    /// Prints the table.
    pub fn print(&self) {
        println!(
            "Seconds in which each CPU makes a million reads, and cache lines moved for a read;"
        );
        println!(
            "{} windups a second. Published: Linux, ia64, 2004.",
            self.hz
        );
        println!();
        print!("{:>5}", "");
        for name in NAMES {
            print!(" {name:>21}");
        }
        println!(" {:>21}", "published seconds");
        print!("{:>5}", "CPUs");
        for _ in NAMES {
            print!(" {:>12} {:>8}", "seconds", "lines");
        }
        println!(" {:>10} {:>10}", "unshared", "cmpxchg");
        for row in &self.rows {
            print!("{:5}", row.cpus);
            for outcome in &row.outcomes {
                print!(
                    " {:12.3} {:8.4}",
                    outcome.wall(),
                    outcome.transfers_a_read()
                );
            }
            let published = published::of(row.cpus);
            let seconds = |seconds: Option<f64>| {
                seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.3}"))
            };
            println!(
                " {:>10} {:>10}",
                seconds(published.map(|row| row.unshared)),
                seconds(published.and_then(|row| row.exchanged)),
            );
        }
        // Beyond, reads may be so slow that windups outnumber them.
        let row = self.rows.iter().rfind(|row| row.cpus <= 256);
        if let Some((cpus, [ours, seqlock, ..])) =
            row.map(|row| (row.cpus, row.outcomes.as_slice()))
        {
            println!();
            println!(
                "With {cpus} CPUs, for each CPU and windup {:.2} lines move with ours, {:.2} with a sequence lock.",
                ours.transfers_a_windup(),
                seqlock.transfers_a_windup(),
            );
        }
    }

    /// The figures as JSON.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(row_json).collect();
        json!({
            "unit": "seconds in which each CPU makes a million reads",
            "windups_hz": self.hz,
            "costs_ns": {
                "read": self.costs.read_ns,
                "exchange_read": self.costs.exchange_read_ns,
                "neighbour": self.costs.neighbour_ns,
                "hop": self.costs.hop_ns,
                "memory": self.costs.memory_ns,
            },
            "rows": rows,
        })
    }
}

fn row_json(row: &Row) -> Value {
    let clocks: serde_json::Map<_, _> = NAMES
        .iter()
        .zip(&row.outcomes)
        .map(|(name, outcome)| {
            let figures = json!({
                "seconds": outcome.wall(),
                "transfers_per_read": outcome.transfers_a_read(),
                "transfers_per_cpu_and_windup": outcome.transfers_a_windup(),
                "retries_per_read": outcome.retries_a_read(),
            });
            ((*name).to_owned(), figures)
        })
        .collect();
    let published = published::of(row.cpus);
    json!({
        "cpus": row.cpus,
        "clocks": clocks,
        "published": {
            "unshared_seconds": published.map(|row| row.unshared),
            "cmpxchg_seconds": published.and_then(|row| row.exchanged),
        },
    })
}
