//! Under `--icount` every run is the same to the last byte.
//!
//! Virtual time then follows the executed instructions and nothing of the
//! host's. Raw counts of all counters and the uptime in nanoseconds are
//! therefore equal from run to run, and one more instruction anywhere before
//! the reading moves them. A difference means that something of the host has
//! leaked into the guest, or that the kernel reads memory it never wrote.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use libtest_mimic::Arguments;
use timehands_tests::{machine, output, trial};
use xtask::opt::{Firmware, Machine};

/// What reads clocks and counters.
const COMMANDS: &[&str] = &[
    "sysctl kern.timecounter",
    "uptime",
    "dmesg",
    "sysctl kern.timecounter",
];

fn main() -> ExitCode {
    let trials = vec![
        trial("three_runs_print_the_same_bytes", same_bytes),
        trial("a_different_tick_shows_in_the_bytes", other_bytes),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn golden() -> Result<Machine> {
    Ok(Machine {
        icount: true,
        firmware: Firmware::Pvh,
        smp: 1,
        ..machine()?
    })
}

fn same_bytes() -> Result<()> {
    let machine = golden()?;
    let first = output(&machine, COMMANDS)?;
    for run in 2..=3 {
        let again = output(&machine, COMMANDS)?;
        let (line, (was, is)) = match first
            .lines()
            .zip(again.lines())
            .enumerate()
            .find(|(_, (a, b))| a != b)
        {
            Some(difference) => difference,
            None => (
                first.lines().count().min(again.lines().count()),
                ("(end)", "(end)"),
            ),
        };
        ensure!(
            first == again,
            "run {run}, line {}: {was:?} became {is:?}",
            line + 1
        );
    }
    Ok(())
}

fn other_bytes() -> Result<()> {
    let machine = golden()?;
    let slower = Machine {
        append: format!("{} kern.hz=500", machine.append),
        ..machine.clone()
    };
    let (usual, other) = (
        output(&machine, &["uptime"])?,
        output(&slower, &["uptime"])?,
    );
    ensure!(usual != other, "half the ticks, and still: {usual}");
    Ok(())
}
