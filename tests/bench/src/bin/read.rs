//! What one clock read costs, ours beside others, in TSC ticks.
//!
//! The very object that programs have mapped in the guest is loaded into this
//! process and fitted to the processor as the kernel does it; the page below it
//! is kept by a [`Clock`] that a thread on another processor winds up a thousand
//! times a second. All rows are measured in one interleaved run
//! ([`bench::sample`]).
//!
//! | row | what is called |
//! |---|---|
//! | `rdtsc` | the counter, unordered |
//! | `ordered` | the counter, ordered: the cheaper of `lfence; rdtsc` and `rdtscp` |
//! | `ours_timespec` | `__vdso_clock_gettime(CLOCK_MONOTONIC)` of the object |
//! | `ours_ns` | the reader, inlined |
//! | `ours_coarse` | `__vdso_clock_gettime(CLOCK_MONOTONIC_COARSE)` of the object |
//! | `host_vdso` | `__vdso_clock_gettime(CLOCK_MONOTONIC)` of the host |
//! | `quanta`, `minstant`, `std_instant` | `now()` of those |
//!
//! A requirement that is missed is printed as missed and is no error: the
//! figures are this machine's, at this hour.

#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use bench::cpu;
use bench::sample::{self, Row, Summary, batch};
use bench::ticker::Ticker;
use bench::tsc::{HostTsc, cheaper_form, form_name, ordered_batch};
use clap::Parser;
use serde_json::json;
use timecounter::clock::Clock;
use user::abi::{ClockId, Timespec};
use user::load::{self, Object};
use user::sys::{Function, Image};
use vdso::counter::{HpetPage, Lfence, OrderedTsc, Rdtscp, UserCounters};
use vdso::patch::{self, Form};

/// Rate of windups.
const HZ: u32 = 1000;

/// Ticks of one clock read, ours beside others
#[derive(Debug, Parser)]
struct Options {
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Batches a row
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(4000..))]
    batches: u32,
    /// The shared object to load [default: it is built]
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
}

/// A ratio that is asked for.
struct Requirement {
    row: &'static str,
    to: &'static str,
    limit: f64,
}

const REQUIREMENTS: [Requirement; 3] = [
    Requirement {
        row: "ours_timespec",
        to: "ordered",
        limit: 1.17,
    },
    Requirement {
        row: "ours_timespec",
        to: "host_vdso",
        limit: 0.87,
    },
    Requirement {
        row: "ours_ns",
        to: "ordered",
        limit: 1.12,
    },
];

/// What a run came to.
struct Report {
    form: Form,
    frequency: u64,
    writer: Option<usize>,
    batches: u32,
    rows: Vec<(&'static str, Summary)>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let cpus = cpu::usable()?;
    let reader = *cpus.first().context("no processor to run on")?;
    let writer = cpus.get(1).copied();

    let path = match &options.object {
        Some(path) => path.clone(),
        None => xtask::build::object()?,
    };
    let mut file = fs::read(&path).with_context(|| format!("read {}", path.display()))?;

    let tsc: &'static HostTsc = Box::leak(Box::new(HostTsc::measure()?));
    cpu::pin(reader)?;
    let form = cheaper_form();
    patch::apply(&mut file, form)?;
    let object = Object::load(&file)?;
    let clock: &'static Clock = Box::leak(Box::new(Clock::new(object.page())));
    clock.start();
    clock.register(tsc)?;
    // Without a second processor the tick interrupts the reader, as it does in
    // a kernel on one processor.
    let ticker = Ticker::start(clock, HZ, writer.or(Some(reader)))?;
    let object_time = object.image().clock_gettime();
    let time = object_time.context("the object has no clock_gettime")?;
    wait_for_tsc(object, time)?;

    let rows = match (form, Rdtscp::detect()) {
        (Form::Rdtscp, Some(rdtscp)) => measure(rdtscp, object, time, options.batches),
        _ => measure(Lfence, object, time, options.batches),
    };
    drop(ticker);
    let report = Report {
        form,
        frequency: timecounter::Timecounter::frequency(tsc),
        writer,
        batches: options.batches,
        rows,
    };
    if options.json {
        println!("{:#}", report.json());
    } else {
        report.print();
    }
    Ok(())
}

/// The function stores its result itself; the status is not looked at.
fn call_batch(time: Function<Timespec>, clock: ClockId) -> u64 {
    let mut result = Timespec::default();
    batch(|| {
        time.call_into(clock, &mut result);
    })
}

/// Waits until the clock has changed over to the TSC, so that every read is an
/// ordinary one.
fn wait_for_tsc(object: Object, time: Function<Timespec>) -> Result<()> {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let counters = UserCounters::new(Lfence, HpetPage::ABSENT);
    while object.page().monotonic_ns(&counters).is_none() {
        ensure!(
            std::time::Instant::now() < deadline,
            "the clock did not change over to the TSC"
        );
        std::thread::yield_now();
    }
    // A first call, by which the object shows that it reads this page.
    let (before, read) = (object.page().monotonic_ns(&counters), call(time)?);
    let after = object.page().monotonic_ns(&counters);
    ensure!(
        before.map(i128::from) <= Some(read) && Some(read) <= after.map(i128::from),
        "the object told {read} ns, the page {before:?} before and {after:?} after"
    );
    Ok(())
}

fn call(time: Function<Timespec>) -> Result<i128> {
    match time.call(ClockId::MONOTONIC) {
        Ok(time) => Ok(time.nanoseconds()),
        Err(error) => bail!("clock_gettime: {error}"),
    }
}

/// Measures all rows, those of ours with `tsc`.
fn measure(
    tsc: impl OrderedTsc + Copy,
    object: Object,
    ours: Function<Timespec>,
    batches: u32,
) -> Vec<(&'static str, Summary)> {
    let page = object.page();
    let counters = UserCounters::new(tsc, HpetPage::ABSENT);
    let host = load::host().and_then(Image::clock_gettime);
    let quanta = quanta::Clock::new();
    // Both calibrate themselves at the first call.
    let (_, _) = (quanta.now(), minstant::Instant::now());

    let mut rdtsc = || batch(|| Lfence.tsc(&()).whole());
    let mut ordered = || ordered_batch(tsc);
    let mut timespec = || call_batch(ours, ClockId::MONOTONIC);
    let mut ns = || batch(|| page.monotonic_ns(&counters));
    let mut coarse = || call_batch(ours, ClockId::MONOTONIC_COARSE);
    let mut theirs = || host.map_or(0, |host| call_batch(host, ClockId::MONOTONIC));
    let mut quanta_now = || batch(|| quanta.now());
    let mut minstant_now = || batch(minstant::Instant::now);
    let mut std_now = || batch(std::time::Instant::now);

    let all: [(&'static str, &mut dyn FnMut() -> u64); 9] = [
        ("rdtsc", &mut rdtsc),
        ("ordered", &mut ordered),
        ("ours_timespec", &mut timespec),
        ("ours_ns", &mut ns),
        ("ours_coarse", &mut coarse),
        ("host_vdso", &mut theirs),
        ("quanta", &mut quanta_now),
        ("minstant", &mut minstant_now),
        ("std_instant", &mut std_now),
    ];
    let mut rows: Vec<_> = all
        .into_iter()
        .filter(|(name, _)| host.is_some() || *name != "host_vdso")
        .map(|(name, batch)| Row { name, batch })
        .collect();
    let summaries = sample::interleave(&mut rows, batches as usize);
    rows.iter().map(|row| row.name).zip(summaries).collect()
}

impl Report {
    fn median(&self, name: &str) -> Option<f64> {
        let row = self.rows.iter().find(|(row, _)| *row == name);
        row.map(|(_, summary)| summary.median)
    }

    fn ratio(&self, row: &str, to: &str) -> Option<f64> {
        let ratio = self.median(row)? / self.median(to)?;
        ratio.is_finite().then_some(ratio)
    }

    fn print(&self) {
        println!(
            "TSC {:.3} MHz, ordered read {}, {} batches of {} calls, {HZ} windups a second on {}",
            self.frequency as f64 / 1e6,
            form_name(self.form),
            self.batches,
            sample::CALLS,
            match self.writer {
                Some(cpu) => format!("processor {cpu}"),
                None => "the reader's processor".into(),
            },
        );
        println!(
            "{:14} {:>8} {:>8} {:>8} {:>8} {:>9}",
            "ticks a call", "median", "min", "p99", "ns", "/ordered"
        );
        for (name, summary) in &self.rows {
            println!(
                "{name:14} {:8.2} {:8.2} {:8.2} {:8.2} {:9.3}",
                summary.median,
                summary.min,
                summary.p99,
                summary.median * 1e9 / self.frequency as f64,
                self.ratio(name, "ordered").unwrap_or(f64::NAN),
            );
        }
        for requirement in &REQUIREMENTS {
            let Requirement { row, to, limit } = requirement;
            match self.ratio(row, to) {
                Some(ratio) => println!(
                    "{row} / {to} = {ratio:.3}, at most {limit:.2}: {}",
                    if ratio <= *limit { "met" } else { "missed" }
                ),
                None => println!("{row} / {to}: the host has none"),
            }
        }
    }

    fn json(&self) -> serde_json::Value {
        let rows: serde_json::Map<_, _> = self
            .rows
            .iter()
            .map(|(name, row)| {
                let figures = json!({ "median": row.median, "min": row.min, "p99": row.p99 });
                ((*name).to_owned(), figures)
            })
            .collect();
        let requirements: Vec<_> = REQUIREMENTS
            .iter()
            .map(|requirement| {
                let ratio = self.ratio(requirement.row, requirement.to);
                json!({
                    "row": requirement.row,
                    "to": requirement.to,
                    "ratio": ratio,
                    "limit": requirement.limit,
                    "met": ratio.map(|ratio| ratio <= requirement.limit),
                })
            })
            .collect();
        json!({
            "unit": "TSC ticks per call",
            "tsc_hz": self.frequency,
            "ordered": form_name(self.form),
            "batches": self.batches,
            "calls": sample::CALLS,
            "windups_hz": HZ,
            "rows": rows,
            "requirements": requirements,
        })
    }
}
