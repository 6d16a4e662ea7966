//! Every counter keeps the host's time.
//!
//! Under emulation all of a machine's counters follow one clock, so that they
//! agree with each other proves nothing about their frequencies. Here each is
//! compared with the host's CLOCK_MONOTONIC, over at least [`SPAN`].
//!
//! A guest's answer belongs to some moment between the question and the
//! answer's arrival, and on a busy machine these are far apart. A reading is
//! therefore the closest of many such brackets, and two readings give not one
//! rate but a range of possible ones. While the range reaches across the
//! limit, nothing has been shown either way, and the span is made longer.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Arguments;
use timehands_tests::typist::Typist;
use timehands_tests::{machine, trial};
use xtask::opt::Machine;

/// Shortest time between the first and the last reading.
const SPAN: Duration = Duration::from_secs(20);

/// Longest time until the rate must be known.
const PATIENCE: Duration = Duration::from_secs(120);

/// Largest difference in rate, in parts per million.
const LIMIT: f64 = 500.0;

/// How long the search for one close bracket goes on.
const SEARCH: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let trials = vec![
        trial("the_hpet_keeps_the_hosts_time", || keeps_time("HPET")),
        trial("the_acpi_timer_keeps_the_hosts_time", || {
            keeps_time("ACPI-fast")
        }),
        trial("the_tsc_keeps_the_hosts_time", || keeps_time("TSC")),
        trial("the_i8254_keeps_the_hosts_time", || keeps_time("i8254")),
    ];
    let mut arguments = Arguments::from_args();
    // All at once, since they do little but wait.
    arguments.test_threads.get_or_insert(trials.len());
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A guest's uptime, and the host's moments just before and after it.
struct Reading {
    before: Instant,
    uptime: Duration,
    after: Instant,
}

impl Reading {
    fn width(&self) -> Duration {
        self.after - self.before
    }
}

fn keeps_time(counter: &str) -> Result<()> {
    let machine = Machine {
        no_hpet: false,
        smp: 1,
        icount: false,
        ..machine()?
    };
    let mut guest = Typist::boot(&machine)?;
    guest.line(format!("sysctl kern.timecounter.hardware={counter}").as_bytes())?;
    let active = guest.output("sysctl -n kern.timecounter.hardware")?;
    ensure!(active.trim() == counter, "{active:?} is active");

    let first = closest(&mut guest)?;
    std::thread::sleep(SPAN);
    loop {
        let last = closest(&mut guest)?;
        let (slowest, fastest) = rates(&first, &last);
        if slowest > -LIMIT && fastest < LIMIT {
            return guest.shut_down();
        }
        let shown = format!("{counter} runs {slowest:+.0} to {fastest:+.0} ppm off the host");
        ensure!(slowest < LIMIT && fastest > -LIMIT, "{shown}");
        if first.after.elapsed() > PATIENCE {
            bail!("{shown}: this machine is too busy to tell");
        }
        std::thread::sleep(SPAN / 4);
    }
}

/// The least and the greatest rate that two readings allow, in parts per
/// million off the host's.
fn rates(first: &Reading, last: &Reading) -> (f64, f64) {
    let guest = last.uptime.saturating_sub(first.uptime).as_secs_f64();
    let longest = (last.after - first.before).as_secs_f64();
    let shortest = (last.before - first.after).as_secs_f64();
    (
        (guest / longest - 1.0) * 1e6,
        (guest / shortest - 1.0) * 1e6,
    )
}

/// The reading with the closest bracket among as many as there is time for.
fn closest(guest: &mut Typist) -> Result<Reading> {
    let start = Instant::now();
    let mut best = read(guest)?;
    while start.elapsed() < SEARCH {
        let next = read(guest)?;
        if next.width() < best.width() {
            best = next;
        }
    }
    Ok(best)
}

fn read(guest: &mut Typist) -> Result<Reading> {
    let before = Instant::now();
    let text = guest.output("uptime")?;
    let after = Instant::now();
    let uptime = parse(&text).with_context(|| format!("uptime printed {text:?}"))?;
    Ok(Reading {
        before,
        uptime,
        after,
    })
}

/// Reads `up D days, HH:MM:SS.NNNNNNNNN`.
fn parse(text: &str) -> Option<Duration> {
    let (days, time) = text.trim().strip_prefix("up ")?.split_once(" days, ")?;
    let (clock, nanoseconds) = time.split_once('.')?;
    let mut seconds = days.parse::<u64>().ok()?;
    for (part, base) in clock.split(':').zip([24, 60, 60]) {
        seconds = seconds * base + part.parse::<u64>().ok()?;
    }
    Some(Duration::new(seconds, nanoseconds.parse().ok()?))
}
