//! How reads scale from one processor to two, ours beside others.
//!
//! Two threads on two processors read one page that is wound up a thousand
//! times a second; [`bench::scale`] says how that is compared with one.
//!
//! | row | what is called |
//! |---|---|
//! | `ours` | the reader, inlined: CLOCK_MONOTONIC in nanoseconds |
//! | `host_vdso` | `__vdso_clock_gettime(CLOCK_MONOTONIC)` of the host |
//! | `ours_guarded` | as `ours`, its counter guarded by one line of the two threads |
//! | `cmpxchg` | the counter, and a last value that each read exchanges |
//!
//! The last is the least that a clock with a shared last value can do: it makes
//! no nanoseconds of the count.
//!
//! A requirement that is missed is printed as missed and is no error: the
//! figures are this machine's, at this hour.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use bench::cpu;
use bench::sample::{self, batch};
use bench::scale::{self, Row, Spread, Times};
use bench::tsc::{HostTsc, cheaper_form, form_name};
use clap::Parser;
use serde_json::json;
use timecounter::Timecounter;
use timecounter::clock::{Clock, GuardPolicy, Windup};
use timecounter::guard::GuardLine;
use timecounter::page::TimehandsPage;
use user::abi::{ClockId, Timespec};
use user::load;
use user::sys::{Function, Image};
use vdso::counter::{HpetPage, Lfence, OrderedTsc, Rdtscp, UserCounters};
use vdso::patch::Form;

/// Rate of windups.
const HZ: u32 = 1000;
/// How many times the reads of one thread two are to make of `ours`.
const LIMIT: f64 = 1.95;

std::thread_local! {
    /// The host's function. Each thread finds it by itself, for it is known by its
    /// address, which threads do not hand to each other.
    static HOST: Cell<Option<Function<Timespec>>> =
        Cell::new(load::host().and_then(Image::clock_gettime));
}

/// How reads scale from one processor to two, ours beside others
#[derive(Debug, Parser)]
struct Options {
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Rounds a row, each three measurements
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(20..=10_000))]
    rounds: u32,
    /// Milliseconds a measurement
    #[arg(long, value_name = "MS", default_value_t = 40, value_parser = clap::value_parser!(u64).range(5..=10_000))]
    window: u64,
}

/// The count last told, alone on its cache line.
#[derive(Debug)]
#[repr(align(128))]
struct LastValue(AtomicU64);

impl LastValue {
    /// A count that is not below any told before.
    #[inline(always)]
    fn read(&self, tsc: impl OrderedTsc) -> u64 {
        let mut last = self.0.load(Ordering::Relaxed);
        loop {
            tsc.order();
            let now = tsc.tsc(&()).whole();
            if now <= last {
                return last;
            }
            let swapped = self
                .0
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
            match swapped {
                Ok(_) => return now,
                Err(other) => last = other,
            }
        }
    }
}

/// What one row came to.
struct Figures {
    name: &'static str,
    /// Nanoseconds a read, of one thread alone.
    alone_ns: f64,
    /// Reads of two threads over reads of one.
    ratio: Spread,
}

struct Report {
    form: Form,
    frequency: u64,
    pair: [usize; 2],
    rounds: u32,
    window_ms: u64,
    windups_hz: f64,
    rows: Vec<Figures>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let [first, second, ..] = cpu::usable()?[..] else {
        println!("skipped: fewer than 2 processors are usable");
        return Ok(());
    };
    let pair = [first, second];
    cpu::pin(first)?;
    let report = match (cheaper_form(), Rdtscp::detect()) {
        (Form::Rdtscp, Some(rdtscp)) => measure(&options, pair, rdtscp, Form::Rdtscp)?,
        _ => measure(&options, pair, Lfence, Form::Lfence)?,
    };
    if options.json {
        println!("{:#}", report.json());
    } else {
        report.print();
    }
    Ok(())
}

/// A clock on the TSC that is wound up only when somebody does it.
fn clock(tsc: &'static HostTsc) -> Result<&'static Clock> {
    let page: &'static TimehandsPage = Box::leak(Box::default());
    let clock: &'static Clock = Box::leak(Box::new(Clock::new(page)));
    clock.set_hz(HZ);
    clock.start();
    clock.register(tsc)?;
    clock.settle(&mut std::hint::spin_loop)?;
    Ok(clock)
}

/// Measures all rows, those of ours with `tsc`, whose form is `form`.
fn measure(
    options: &Options,
    pair: [usize; 2],
    tsc: impl OrderedTsc + Copy + Sync,
    form: Form,
) -> Result<Report> {
    let counter: &'static HostTsc = Box::leak(Box::new(HostTsc::measure()?));
    let frequency = counter.frequency();
    let times = Times {
        window: frequency / 1000 * options.window,
        tick: frequency / u64::from(HZ),
    };

    let plain = clock(counter)?;
    let guarded = clock(counter)?;
    guarded.set_guard(GuardPolicy::Always);
    let line: &'static GuardLine = Box::leak(Box::default());
    let last = LastValue(AtomicU64::new(0));

    let ours = || {
        let counters = UserCounters::new(tsc, HpetPage::ABSENT);
        batch(|| plain.page().monotonic_ns(&counters));
    };
    let with_guard = || {
        let counters = UserCounters::new(tsc, HpetPage::ABSENT);
        let counters = counters.with_guard(line, guarded.page());
        batch(|| guarded.page().monotonic_ns(&counters));
    };
    let theirs = || {
        if let Some(host) = HOST.get() {
            let mut result = Timespec::default();
            batch(|| {
                host.call_into(ClockId::MONOTONIC, &mut result);
            });
        }
    };
    let exchanged = || _ = batch(|| last.read(tsc));
    let windups = AtomicU64::new(0);
    let wind_plain = || {
        if matches!(plain.windup(), Windup::OnTime | Windup::Late(_)) {
            windups.fetch_add(1, Ordering::Relaxed);
        }
    };
    let wind_guarded = || _ = guarded.windup();
    let nothing = || {};

    let mut rows = vec![
        Row {
            name: "ours",
            batch: &ours,
            tick: &wind_plain,
        },
        Row {
            name: "host_vdso",
            batch: &theirs,
            tick: &nothing,
        },
        Row {
            name: "ours_guarded",
            batch: &with_guard,
            tick: &wind_guarded,
        },
        Row {
            name: "cmpxchg",
            batch: &exchanged,
            tick: &nothing,
        },
    ];
    rows.retain(|row| row.name != "host_vdso" || HOST.get().is_some());
    let measured = scale::interleave(&rows, pair, options.rounds as usize, times)?;

    let mut figures = Vec::new();
    for (row, rounds) in rows.iter().zip(&measured) {
        let ratio = Spread::of(rounds.iter().map(|round| round.ratio()));
        let alone = Spread::of(rounds.iter().map(|round| 1.0 / round.one));
        let (ratio, alone) = ratio.zip(alone).context("no round was measured")?;
        figures.push(Figures {
            name: row.name,
            alone_ns: alone.median,
            ratio,
        });
    }
    // Each row is read three windows a round.
    let read_ms = options.window * 3 * u64::from(options.rounds);
    Ok(Report {
        form,
        frequency,
        pair,
        rounds: options.rounds,
        window_ms: options.window,
        windups_hz: windups.into_inner() as f64 * 1e3 / read_ms as f64,
        rows: figures,
    })
}

impl Report {
    fn ours(&self) -> f64 {
        let row = self.rows.iter().find(|row| row.name == "ours");
        row.map_or(f64::NAN, |row| row.ratio.median)
    }

    fn met(&self) -> bool {
        self.ours() >= LIMIT
    }

    fn print(&self) {
        let [first, second] = self.pair;
        println!(
            "TSC {:.3} MHz, ordered read {}, processors {first} and {second}, {} rounds of {} ms, {:.0} windups a second",
            self.frequency as f64 / 1e6,
            form_name(self.form),
            self.rounds,
            self.window_ms,
            self.windups_hz,
        );
        println!(
            "{:14} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
            "two / one", "median", "min", "lower", "upper", "max", "ns alone"
        );
        for Figures {
            name,
            alone_ns,
            ratio,
        } in &self.rows
        {
            println!(
                "{name:14} {:8.3} {:8.3} {:8.3} {:8.3} {:8.3} {alone_ns:8.2}",
                ratio.median, ratio.min, ratio.lower, ratio.upper, ratio.max,
            );
        }
        println!(
            "ours, two threads / one = {:.3}, at least {LIMIT:.2}: {}",
            self.ours(),
            if self.met() { "met" } else { "missed" }
        );
    }

    fn json(&self) -> serde_json::Value {
        let rows: serde_json::Map<_, _> = self
            .rows
            .iter()
            .map(|row| {
                let ratio = row.ratio;
                let figures = json!({
                    "alone_ns": row.alone_ns,
                    "median": ratio.median,
                    "min": ratio.min,
                    "lower_quartile": ratio.lower,
                    "upper_quartile": ratio.upper,
                    "max": ratio.max,
                });
                (row.name.to_owned(), figures)
            })
            .collect();
        json!({
            "unit": "reads of two threads / reads of one",
            "tsc_hz": self.frequency,
            "ordered": form_name(self.form),
            "processors": self.pair,
            "rounds": self.rounds,
            "window_ms": self.window_ms,
            "calls": sample::CALLS,
            "windups_hz": self.windups_hz,
            "rows": rows,
            "requirements": [{
                "row": "ours",
                "to": "one thread",
                "ratio": self.ours(),
                "limit": LIMIT,
                "met": self.met(),
            }],
        })
    }
}
