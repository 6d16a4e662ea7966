//! The program `syscall_timing`, to the letter: its rows can be fed to whatever
//! reads those of FreeBSD's.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use timehands_tests::shown::{Row, seconds};
use timehands_tests::{LIMIT, boot, machine, output, trial};
use xtask::guest::End;

/// What stands above the rows, with tabs between.
const HEADER: &str = "test\tloop\ttime\titerations\tperiteration";

fn main() -> ExitCode {
    let trials = vec![
        trial("rows_and_columns_are_those_of_freebsd", rows),
        trial("a_wrong_use_is_answered_and_fails", wrong_uses),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A use, and the rows that it should print.
struct Use {
    command: &'static str,
    tests: &'static [&'static str],
    loops: u64,
    iterations: Option<u64>,
}

const USES: [Use; 4] = [
    Use {
        command: "syscall_timing -i 100 -l 3 getuid clock_gettime gettimeofday",
        tests: &["getuid", "clock_gettime", "gettimeofday"],
        loops: 3,
        iterations: Some(100),
    },
    Use {
        command: "syscall_timing -i7 gettimeofday",
        tests: &["gettimeofday"],
        loops: 10,
        iterations: Some(7),
    },
    Use {
        command: "syscall_timing -p /dev/null -i 5 -l1 -- getuid getuid",
        tests: &["getuid", "getuid"],
        loops: 1,
        iterations: Some(5),
    },
    // Nothing but the time ends its one loop.
    Use {
        command: "syscall_timing -s 1 -l 1 clock_gettime",
        tests: &["clock_gettime"],
        loops: 1,
        iterations: None,
    },
];

fn rows() -> Result<()> {
    let commands = USES.map(|example| example.command);
    let text = output(&machine()?, &commands)?;
    let mut lines = text.lines();
    for example in USES {
        let command = example.command;
        let resolution = lines.next().unwrap_or_default();
        let step = resolution
            .strip_prefix("Clock resolution: ")
            .and_then(seconds);
        ensure!(
            step.is_some_and(|step| step > 0),
            "{command}: {resolution:?}"
        );
        let header = lines.next().unwrap_or_default();
        ensure!(header == HEADER, "{command}: {header:?}");
        for &test in example.tests {
            for number in 0..example.loops {
                let line = lines.next().unwrap_or_default();
                let row = Row::parse(line).with_context(|| format!("{command}: {line:?}"))?;
                check(&example, test, number, &row).with_context(|| format!("{line:?}"))?;
            }
        }
    }
    ensure!(lines.next().is_none(), "more than was asked for:\n{text}");
    Ok(())
}

fn check(example: &Use, test: &str, number: u64, row: &Row<'_>) -> Result<()> {
    let command = example.command;
    ensure!(
        (row.test, row.number) == (test, number),
        "{command}: not row {number} of {test}"
    );
    ensure!(
        row.each == row.time / row.iterations.max(1),
        "{command}: the last column is not time by iterations, truncated"
    );
    match example.iterations {
        Some(wanted) => ensure!(row.iterations == wanted, "{command}: too few or too many"),
        None => ensure!(
            row.time >= 1_000_000_000 && row.iterations > 1,
            "{command}: not a second of calls"
        ),
    }
    Ok(())
}

fn wrong_uses() -> Result<()> {
    const USES: [&str; 9] = [
        "syscall_timing",
        "syscall_timing nosuch",
        "syscall_timing getuid nosuch",
        "syscall_timing -x getuid",
        "syscall_timing -l 0 getuid",
        "syscall_timing -l 100001 getuid",
        "syscall_timing -s 3601 getuid",
        "syscall_timing -i x getuid",
        "syscall_timing -l",
    ];
    // In the background, since `wait` tells how each ended.
    let commands: Vec<String> = USES.map(|command| format!("{command} &")).into();
    let commands = commands.iter().flat_map(|command| [command, "wait"]);
    let commands: Vec<&str> = commands.collect();
    let run = boot(&machine()?, &commands, LIMIT)?;
    let text = String::from_utf8_lossy(&run.output);
    ensure!(run.end == End::CommandFailed, "{}", run.end);
    let ending = "wait: syscall_timing: exited with status 255\n";
    let answers: Vec<&str> = text.split_terminator(ending).collect();
    ensure!(answers.len() == USES.len(), "not all failed:\n{text}");
    for (command, answer) in USES.iter().zip(answers) {
        let usage = answer.starts_with("usage: syscall_timing [-i iterations]");
        ensure!(usage, "{command}: {answer:?}");
        ensure!(!answer.contains('\t'), "{command}: it ran: {answer:?}");
    }
    Ok(())
}
