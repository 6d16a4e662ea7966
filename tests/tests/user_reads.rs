//! Which way a program's clock reads go: through the object in its own address
//! space, or into the kernel.
//!
//! The kernel counts the clock calls that reach it, in
//! `kern.timecounter.syscalls`. A program that reads the clock in between
//! either moves that count with each read or does not move it at all.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use timehands_tests::shown::{Row, values};
use timehands_tests::{machine, output, trial};
use xtask::opt::{Firmware, Machine};

/// Shows how many clock calls reached the kernel.
const SYSCALLS: &str = "sysctl kern.timecounter.syscalls";

fn main() -> ExitCode {
    let trials = vec![
        trial(
            "only_counters_that_programs_can_read_are_read_without_the_kernel",
            by_counter,
        ),
        trial(
            "a_running_program_changes_its_way_at_the_next_read",
            while_it_runs,
        ),
        trial(
            "a_read_without_the_kernel_takes_a_fifth_of_the_instructions",
            instructions,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// By how much the count moved between each two times that it was shown.
fn moves(text: &str) -> Result<Vec<u64>> {
    let counts = values(text, "kern.timecounter.syscalls").into_iter();
    let counts: Vec<u64> = counts.map(str::parse).collect::<Result<_, _>>()?;
    let pairs = counts.chunks_exact(2);
    ensure!(pairs.remainder().is_empty(), "an odd count in:\n{text}");
    let moves = pairs.map(|pair| match pair {
        [before, after] => after.checked_sub(*before),
        _ => None,
    });
    moves
        .collect::<Option<_>>()
        .context("the count of system calls went back")
}

/// One processor and an HPET.
fn usual() -> Result<Machine> {
    Ok(Machine {
        no_hpet: false,
        smp: 1,
        ..machine()?
    })
}

/// A machine on which time is counted in instructions.
fn counting() -> Result<Machine> {
    Ok(Machine {
        icount: true,
        firmware: Firmware::Pvh,
        ..usual()?
    })
}

fn by_counter() -> Result<()> {
    const CALLS: u64 = 1_000;
    // Two tests, each with a round that warms up before the one that counts.
    const READS: u64 = 4 * CALLS;

    let mut commands = Vec::new();
    let mut steps = Vec::new();
    for (counter, readable) in [
        ("TSC", true),
        ("HPET", true),
        ("ACPI-fast", false),
        ("i8254", false),
    ] {
        commands.push(format!("sysctl kern.timecounter.hardware={counter}"));
        for fast in [1, 0, 1] {
            commands.push(format!("sysctl kern.timecounter.fast_gettime={fast}"));
            commands.push(SYSCALLS.to_owned());
            commands.push(format!(
                "syscall_timing -l 1 -i {CALLS} clock_gettime gettimeofday"
            ));
            commands.push(SYSCALLS.to_owned());
            steps.push((counter, fast, readable && fast == 1));
        }
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let text = output(&usual()?, &commands)?;

    let moves = moves(&text)?;
    ensure!(moves.len() == steps.len(), "{} moves:\n{text}", moves.len());
    for (moved, (counter, fast, alone)) in moves.into_iter().zip(steps) {
        let right = if alone { moved == 0 } else { moved >= READS };
        ensure!(
            right,
            "{counter}, fast_gettime={fast}: {READS} reads made {moved} system calls"
        );
    }
    Ok(())
}

/// Counted in instructions, so that it always gets as far as here.
fn while_it_runs() -> Result<()> {
    // Gives the processor to the program in the background for some ticks. Its
    // own calls ask for no time, but for those around its loops.
    const PAUSE: &str = "syscall_timing -l 1 -i 20000 getuid";
    const AROUND_LOOPS: u64 = 1_000;

    for counter in ["TSC", "HPET"] {
        let select = format!("sysctl kern.timecounter.hardware={counter}");
        let program = "syscall_timing -l 1 -i 200000 gettimeofday &";
        let mut commands = vec![select.as_str(), program, PAUSE];
        for fast in [
            "sysctl kern.timecounter.fast_gettime=0",
            "sysctl kern.timecounter.fast_gettime=1",
            "sysctl kern.timecounter.fast_gettime=0",
            "sysctl kern.timecounter.fast_gettime=1",
        ] {
            commands.extend([fast, SYSCALLS, PAUSE, SYSCALLS]);
        }
        // What this prints stands behind all that.
        commands.extend(["help wait", "wait"]);
        let text = output(&counting()?, &commands)?;

        let ending = text.lines().position(|l| l.starts_with("gettimeofday\t"));
        let last = text.lines().position(|line| line.starts_with("wait"));
        ensure!(ending > last, "{counter}: it ended too early:\n{text}");
        let moves = moves(&text)?;
        let [off, on, off_again, on_again] = moves[..] else {
            anyhow::bail!("{counter}: {} moves:\n{text}", moves.len());
        };
        ensure!(
            off > AROUND_LOOPS && off_again > AROUND_LOOPS,
            "{counter}: sent to the system call, it made {off} and {off_again}"
        );
        // A read may have been on its way into the kernel already.
        ensure!(
            on <= 1 && on_again <= 1,
            "{counter}: allowed again, it still made {on} and {on_again}"
        );
    }
    Ok(())
}

/// The times of a machine that counts instructions are counts of instructions.
/// Of ten rows the middle ones hold no tick, which takes as much as many calls.
fn instructions() -> Result<()> {
    const ROWS: usize = 10;
    let read = "syscall_timing -i 1000 gettimeofday";
    let commands = [
        "sysctl kern.timecounter.hardware=TSC",
        read,
        "sysctl kern.timecounter.fast_gettime=0",
        read,
    ];
    let text = output(&counting()?, &commands)?;
    let mut each: Vec<u64> = Row::all(&text).iter().map(|row| row.each).collect();
    ensure!(each.len() == 2 * ROWS, "{} rows:\n{text}", each.len());
    let (alone, kernel) = each.split_at_mut(ROWS);
    let (_, alone, _) = alone.select_nth_unstable(ROWS / 2);
    let (_, kernel, _) = kernel.select_nth_unstable(ROWS / 2);
    ensure!(
        *kernel >= 5 * *alone,
        "a read takes {alone} ns, a system call {kernel} ns"
    );
    Ok(())
}
