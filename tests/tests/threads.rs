//! Threads in the guest, on one processor and on four.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use timehands_tests::typist::Typist;
use timehands_tests::{LIMIT, boot, built, machine, output, trial};
use xtask::opt::Machine;

fn main() -> ExitCode {
    let trials = vec![
        trial("threads_do_what_they_should_on_one_processor", || check(1)),
        trial("threads_do_what_they_should_on_four_processors", || {
            check(4)
        }),
        trial("threads_of_this_linux_host_do_the_same", here),
        trial("five_hundred_threads_at_once_on_one_processor", || many(1)),
        trial("five_hundred_threads_at_once_on_four_processors", || {
            many(4)
        }),
        trial("the_end_of_a_process_ends_all_its_threads", ends),
        trial("a_page_that_is_taken_away_is_gone_on_all_processors", pages),
        trial("ctrl_c_ends_threads_on_all_processors", interrupt),
        trial("threads_that_ended_leave_no_memory_behind", memory),
        trial("programs_of_many_threads_share_the_processors", share),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn with_cpus(cpus: u32) -> Result<Machine> {
    Ok(Machine {
        smp: cpus,
        ..machine()?
    })
}

fn check(cpus: u32) -> Result<()> {
    let text = output(&with_cpus(cpus)?, &["threads"])?;
    ensure!(text.ends_with(" 0 failed\n"), "threads printed:\n{text}");
    Ok(())
}

/// The same binary here, so that what it asks of the guest is what Linux does.
fn here() -> Result<()> {
    let built = built(&machine()?)?;
    let mut programs = built.programs.iter();
    let threads = programs.find(|program| program.name == "threads");
    let threads = threads.context("no program `threads` was built")?;
    let run = Command::new(&threads.path).output()?;
    let text = String::from_utf8_lossy(&run.stdout);
    ensure!(
        run.status.success() && text.ends_with(" 0 failed\n"),
        "{}:\n{text}{}",
        run.status,
        String::from_utf8_lossy(&run.stderr)
    );
    Ok(())
}

fn many(cpus: u32) -> Result<()> {
    let text = output(&with_cpus(cpus)?, &["threads many 500", "threads many 500"])?;
    let line = "threads: 500 of 500 came through\n";
    ensure!(text == line.repeat(2), "threads printed:\n{text}");
    Ok(())
}

/// Some of the threads spin and some wait, on one processor and on four.
fn ends() -> Result<()> {
    for cpus in [1, 4] {
        let commands = ["threads exit", "threads fault", "threads many 20"];
        let run = boot(&with_cpus(cpus)?, &commands, LIMIT)?;
        let text = String::from_utf8_lossy(&run.output);
        let lines: Vec<&str> = text.lines().collect();
        let [exit, fault, reason, after] = lines[..] else {
            anyhow::bail!("with {cpus} CPUs:\n{text}\n{}", run.end);
        };
        ensure!(
            exit == "threads: all are there" && fault == exit,
            "both should have started with {cpus} CPUs:\n{text}"
        );
        ensure!(
            reason.starts_with("threads: pid ") && reason.contains(": invalid opcode at 0x"),
            "a fault should end all with one line: {reason}"
        );
        ensure!(
            after == "threads: 20 of 20 came through",
            "the next program should run as ever:\n{text}"
        );
    }
    Ok(())
}

fn pages() -> Result<()> {
    let commands = ["threads unmap", "threads protect"].repeat(5);
    for cpus in [1, 4] {
        let run = boot(&with_cpus(cpus)?, &commands, LIMIT)?;
        let text = String::from_utf8_lossy(&run.output);
        let ends = text
            .lines()
            .filter(|line| line.starts_with("threads: pid ") && line.contains(": page fault at"))
            .count();
        ensure!(
            ends == commands.len() && !text.contains("still writing"),
            "each should end with a fault, on {cpus} CPUs:\n{text}"
        );
    }
    Ok(())
}

fn interrupt() -> Result<()> {
    let mut typist = Typist::boot(&with_cpus(4)?)?;
    let text = typist.interrupt("threads spin", "spinning")?;
    ensure!(text.contains("threads: interrupted"), "it went on:\n{text}");
    let text = typist.line(b"threads many 20")?;
    ensure!(
        text.contains("20 of 20 came through"),
        "the next program should run as ever:\n{text}"
    );
    Ok(())
}

/// Each of the programs makes threads that end before it does.
fn memory() -> Result<()> {
    let measure = ["sysctl -n vm.stats.vm.v_free_count"];
    // The first ones leave stacks and page tables that all later ones use.
    let mut commands = vec!["threads many 60"; 3];
    commands.extend(measure);
    commands.extend(["threads many 60"; 30]);
    commands.extend(measure);
    let text = output(&with_cpus(4)?, &commands)?;
    let free: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let [before, after] = free[..] else {
        anyhow::bail!("no two counts of free pages in:\n{text}");
    };
    ensure!(before == after, "{before} free pages before, {after} after");
    Ok(())
}

fn share() -> Result<()> {
    let commands = ["threads many 40 &", "threads many 50 &", "threads", "wait"];
    let text = output(&with_cpus(4)?, &commands)?;
    for line in [
        "threads: 40 of 40 came through",
        "threads: 50 of 50 came through",
    ] {
        ensure!(text.lines().any(|l| l == line), "no '{line}' in:\n{text}");
    }
    ensure!(text.contains(" 0 failed\n"), "threads printed:\n{text}");
    Ok(())
}
