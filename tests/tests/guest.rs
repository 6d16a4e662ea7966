//! Scenarios in a booted guest, one boot each.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use libtest_mimic::Arguments;
use timehands_tests::{LIMIT, boot, machine, output, trial, typed};
use xtask::guest::End;
use xtask::opt::Machine;

fn main() -> ExitCode {
    let trials = vec![
        trial("help_has_one_line_for_every_command", help),
        trial("the_hpet_is_chosen_where_there_is_one", hpet_is_chosen),
        trial("without_an_hpet_the_acpi_timer_is_chosen", no_hpet),
        trial(
            "a_failed_command_is_reported_and_the_rest_still_run",
            failed_command,
        ),
        trial("whatever_is_typed_the_prompt_returns", typed_lines),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The long tests type ten times as many.
fn typed_lines() -> Result<()> {
    typed::generated_lines(&machine()?, 10_000)
}

fn help() -> Result<()> {
    let text = output(&machine()?, &["help"])?;
    for command in [
        "help",
        "sysctl",
        "uptime",
        "dmesg",
        "shutdown",
        "syscall_timing",
    ] {
        let lines = text
            .lines()
            .filter(|line| line.split_whitespace().next() == Some(command));
        ensure!(
            lines.count() == 1,
            "'{command}' should have one line in:\n{text}"
        );
    }
    Ok(())
}

/// The counters that `kern.timecounter.choice` lists.
fn choices(machine: &Machine) -> Result<(String, Vec<String>)> {
    let hardware = "sysctl -n kern.timecounter.hardware";
    let text = output(machine, &[hardware, "sysctl -n kern.timecounter.choice"])?;
    let mut lines = text.lines();
    let active = lines.next().unwrap_or_default().to_owned();
    let choice = lines.next().unwrap_or_default();
    Ok((
        active,
        choice.split_whitespace().map(str::to_owned).collect(),
    ))
}

fn hpet_is_chosen() -> Result<()> {
    let machine = Machine {
        no_hpet: false,
        smp: 1,
        ..machine()?
    };
    let (active, choices) = choices(&machine)?;
    ensure!(active == "HPET", "{active} is active among {choices:?}");
    for counter in ["i8254(0)", "ACPI-fast(900)", "HPET(950)", "TSC(800)"] {
        ensure!(
            choices.iter().any(|c| c == counter),
            "{counter} is not among {choices:?}"
        );
    }
    Ok(())
}

fn no_hpet() -> Result<()> {
    let machine = Machine {
        no_hpet: true,
        smp: 1,
        ..machine()?
    };
    let (active, choices) = choices(&machine)?;
    ensure!(
        active == "ACPI-fast",
        "{active} is active among {choices:?}"
    );
    ensure!(
        !choices.iter().any(|c| c.starts_with("HPET")),
        "an absent HPET: {choices:?}"
    );
    Ok(())
}

fn failed_command() -> Result<()> {
    let commands = ["sysctl no.such.node", "sysctl -n kern.hz"];
    let run = boot(&machine()?, &commands, LIMIT)?;
    let text = String::from_utf8_lossy(&run.output);
    ensure!(run.end == End::CommandFailed, "{}", run.end);
    ensure!(
        text.contains("sysctl: unknown oid 'no.such.node'"),
        "no error in:\n{text}"
    );
    let last = text.lines().last().unwrap_or_default();
    ensure!(
        last.parse::<u32>().is_ok(),
        "the second command printed {last:?}"
    );
    Ok(())
}
