//! A CPU that is held for a second, inside a windup or in front of one.
//!
//! While it stands, with interrupts off, programs on the other CPUs read the
//! clock through the vDSO and through the system call by turns. Nobody may see
//! time go back; the clock may fall behind by a thousandth, which the held CPU
//! itself measures against a counter that does not tell the time; and the hold
//! must be counted. A counter that wraps in less time than the hold takes cannot
//! be read rightly behind it, by anybody: such are left out, by name.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use timehands_tests::shown::values;
use timehands_tests::{machine, output, trial};
use xtask::opt::{Accel, Machine};

/// How long a CPU is held.
const HOLD_MS: u64 = 1_000;

/// Furthest that the clock may be from the truth meanwhile, in ns. The floor
/// slope is 1/1024 below the nominal one, which is 1 ms in a second.
const LIMIT_NS: u64 = 2_000_000;

/// Behind which stores: the sample of the counter, the first, some in the middle
/// of the slot, one of those that make it current, and any.
const STORES: [&str; 6] = ["0", "1", "7", "14", "19", "random"];

/// What a program prints that found nothing.
const CLEAN: &str = " 0 steps back, worst 0 ns, 0 coarse ahead, 0 realtime jumps";

/// What gives a tick the time to come. It ends by itself.
const PAUSE: &str = "clockloop -n 20000";

/// Programs that read meanwhile.
const READERS: usize = 3;

fn main() -> ExitCode {
    let trials = vec![
        trial(
            "a_cpu_held_behind_any_store_of_a_windup_sets_nobody_back",
            behind_stores,
        ),
        trial(
            "windups_go_on_while_the_cpu_that_made_them_is_held",
            take_over,
        ),
    ];
    let mut arguments = Arguments::from_args();
    // Each of them keeps both processors of a small host busy.
    arguments.test_threads.get_or_insert(1);
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn faulty() -> Result<Machine> {
    Ok(Machine {
        faults: true,
        no_hpet: false,
        smp: 4,
        icount: false,
        accel: Accel::Tcg,
        ..machine()?
    })
}

/// The counters that bear a hold. The others are named.
fn counters(machine: &Machine) -> Result<Vec<&'static str>> {
    let shown = output(machine, &["sysctl kern.timecounter.tc"])?;
    let mut fit = Vec::new();
    for name in ["HPET", "ACPI-fast", "TSC", "i8254"] {
        let number = |field: &str| -> Result<u128> {
            let node = format!("kern.timecounter.tc.{name}.{field}");
            let value = values(&shown, &node).first().copied();
            Ok(value.with_context(|| format!("no {node}"))?.parse()?)
        };
        let wrap_ms = (number("mask")? + 1) * 1_000 / number("frequency")?;
        if wrap_ms > u128::from(HOLD_MS) {
            fit.push(name);
        } else {
            println!("{name} is left out: it wraps in {wrap_ms} ms, a hold takes {HOLD_MS}");
        }
    }
    Ok(fit)
}

/// What `debug.windup.latest` says of a hold.
struct Seen {
    behind: u64,
    ahead: u64,
    back: u64,
}

impl Seen {
    /// Reads `...: -B to +A ns off NAME, N steps back in M reads`.
    fn parse(text: &str) -> Option<Self> {
        let (_, seen) = text.split_once(": -")?;
        let (behind, rest) = seen.split_once(" to +")?;
        let (ahead, rest) = rest.split_once(" ns off ")?;
        let (back, _) = rest.split_once(", ")?.1.split_once(" steps back")?;
        Some(Self {
            behind: behind.parse().ok()?,
            ahead: ahead.parse().ok()?,
            back: back.parse().ok()?,
        })
    }
}

fn behind_stores() -> Result<()> {
    let machine = faulty()?;
    let fit = counters(&machine)?;
    ensure!(fit.len() >= 3, "only {fit:?} bear a hold");
    for name in fit {
        held(&machine, name)?;
    }
    Ok(())
}

fn held(machine: &Machine, name: &str) -> Result<()> {
    let mut commands = vec![
        format!("sysctl kern.timecounter.hardware={name}"),
        "sysctl kern.timecounter.late_publications".to_owned(),
    ];
    commands.extend((0..READERS).map(|_| "clockloop -s 10 &".to_owned()));
    for store in STORES {
        commands.push(format!("sysctl debug.windup.hold=0:{store}:{HOLD_MS}"));
        commands.push(PAUSE.to_owned());
        commands.push("sysctl debug.windup.latest".to_owned());
    }
    commands.push("wait".to_owned());
    commands.push(
        "sysctl debug.windup.held kern.timecounter.held_windups \
         kern.timecounter.late_publications"
            .to_owned(),
    );
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let text = output(machine, &commands)?;

    let clean = text.lines().filter(|line| line.ends_with(CLEAN)).count();
    let programs = STORES.len() + READERS;
    ensure!(
        clean == programs,
        "{name}: {clean} of {programs} programs found nothing:\n{text}"
    );
    let holds = values(&text, "debug.windup.held");
    ensure!(
        holds == [STORES.len().to_string()],
        "{name}: {holds:?} holds:\n{text}"
    );
    for (store, seen) in STORES.iter().zip(values(&text, "debug.windup.latest")) {
        let Seen {
            behind,
            ahead,
            back,
        } = Seen::parse(seen).with_context(|| format!("{name}: no hold in '{seen}'"))?;
        ensure!(
            back == 0 && behind <= LIMIT_NS && ahead <= LIMIT_NS,
            "{name}, store {store}: {seen}"
        );
    }
    let noticed = values(&text, "kern.timecounter.held_windups");
    let noticed: u64 = noticed.first().context("no held_windups")?.parse()?;
    ensure!(
        noticed >= STORES.len() as u64,
        "{name}: the others noticed {noticed} holds:\n{text}"
    );
    let late = values(&text, "kern.timecounter.late_publications");
    let late: Vec<u64> = late.iter().filter_map(|count| count.parse().ok()).collect();
    let [before, after] = late[..] else {
        anyhow::bail!("{name}: no two counts of late windups:\n{text}");
    };
    ensure!(
        after - before >= STORES.len() as u64,
        "{name}: {before} late windups before, {after} behind:\n{text}"
    );
    Ok(())
}

/// The CPU is held in front of the gate, where others can get past it.
fn take_over() -> Result<()> {
    let commands = [
        "sysctl kern.smp.cpus kern.timecounter.take_overs",
        "clockloop -s 4 &",
        "clockloop -s 4 &",
        "sysctl debug.windup.hold_before=0:1000",
        PAUSE,
        "sysctl debug.windup.latest debug.windup.held",
        "wait",
        "sysctl kern.timecounter.take_overs",
    ];
    let text = output(&faulty()?, &commands)?;
    ensure!(
        values(&text, "debug.windup.held") == ["1"],
        "nothing was held:\n{text}"
    );
    let clean = text.lines().filter(|line| line.ends_with(CLEAN)).count();
    ensure!(clean == 3, "{clean} of 3 programs found nothing:\n{text}");
    let seen = values(&text, "debug.windup.latest");
    let seen = seen.first().and_then(|seen| Seen::parse(seen));
    let seen = seen.with_context(|| format!("no hold:\n{text}"))?;
    ensure!(
        seen.back == 0 && seen.behind <= LIMIT_NS && seen.ahead <= LIMIT_NS,
        "{text}"
    );
    let counts = values(&text, "kern.timecounter.take_overs");
    let counts: Vec<u64> = counts
        .iter()
        .filter_map(|count| count.parse().ok())
        .collect();
    ensure!(
        matches!(counts[..], [before, after] if after > before),
        "nobody took the windups over:\n{text}"
    );
    Ok(())
}
