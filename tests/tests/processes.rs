//! Programs in the guest: what they may do, what ends them, what they leave.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use timehands_tests::typist::Typist;
use timehands_tests::{LIMIT, boot, built, machine, output, trial};
use xtask::opt::{Firmware, Machine};

fn main() -> ExitCode {
    let trials = vec![
        trial("system_calls_answer_as_they_should", system_calls),
        trial(
            "system_calls_of_this_linux_host_answer_the_same",
            system_calls_here,
        ),
        trial(
            "a_fault_ends_the_program_with_one_line_and_nothing_else",
            faults,
        ),
        trial("hostile_flags_reach_no_kernel_code", hostile_flags),
        trial("programs_at_once_keep_their_vector_registers", registers),
        trial("a_program_that_ended_leaves_no_memory_behind", memory),
        trial("more_programs_than_there_is_room_for_are_refused", too_many),
        trial("ctrl_c_ends_the_program_in_the_foreground", interrupt),
        trial(
            "ctrl_c_ends_a_program_in_the_middle_of_a_write",
            interrupt_write,
        ),
        trial(
            "a_program_that_writes_for_long_leaves_others_their_turn",
            share,
        ),
        trial("clocks_do_not_go_back_for_programs_at_once", clocks),
        trial(
            "a_thousand_changes_of_counter_never_step_a_program_back",
            switching,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn system_calls() -> Result<()> {
    let text = output(&machine()?, &["calls"])?;
    ensure!(text.ends_with(" 0 failed\n"), "calls printed:\n{text}");
    Ok(())
}

/// The same binary here, so that what it asks of the guest is what Linux does.
fn system_calls_here() -> Result<()> {
    let built = built(&machine()?)?;
    let mut programs = built.programs.iter();
    let calls = programs.find(|program| program.name == "calls");
    let calls = calls.context("no program `calls` was built")?;
    let run = Command::new(&calls.path).output()?;
    let text = String::from_utf8_lossy(&run.stdout);
    ensure!(
        run.status.success() && text.ends_with(" 0 failed\n"),
        "{}:\n{text}{}",
        run.status,
        String::from_utf8_lossy(&run.stderr)
    );
    Ok(())
}

/// What each fault of `faulter` is called, and the address it is for, if that
/// is the same in every build.
const FAULTS: [(&str, &str, Option<&str>); 15] = [
    ("null", "page fault", Some("0x0")),
    ("text", "page fault", None),
    ("timehands", "page fault", None),
    ("hpet", "page fault", None),
    ("vdso", "page fault", None),
    ("jump", "page fault", None),
    ("kernel", "page fault", Some("0xffff800000000000")),
    ("stack", "page fault", None),
    ("undefined", "invalid opcode", None),
    ("syscall-32", "invalid opcode", None),
    ("divide", "divide error", None),
    ("privileged", "general protection", None),
    ("port", "general protection", None),
    ("noncanonical", "general protection", None),
    ("noncanonical-jump", "general protection", None),
];

fn faults() -> Result<()> {
    let mut commands: Vec<String> = FAULTS.map(|(name, ..)| format!("faulter {name}")).into();
    commands.push("faulter none".to_owned());
    commands.push("help".to_owned());
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let run = boot(&machine()?, &commands, LIMIT)?;
    let text = String::from_utf8_lossy(&run.output);
    let mut lines = text.lines();
    for (name, exception, address) in FAULTS {
        let announced = lines.next().unwrap_or_default();
        ensure!(announced == format!("faulter: {name}"), "{announced}");
        let line = lines.next().unwrap_or_default();
        ensure!(
            line.starts_with("faulter: pid ") && line.contains(&format!(": {exception} at 0x")),
            "{name} should end with a {exception}: {line}"
        );
        ensure!(
            address.is_none_or(|address| line.ends_with(&format!("(address {address})"))),
            "{name} is about {address:?}: {line}"
        );
    }
    ensure!(
        lines.count() > 5,
        "the shell should go on and print its help:\n{text}"
    );
    Ok(())
}

fn hostile_flags() -> Result<()> {
    // Several, so that one gives up the processor to one that has not run yet.
    let text = output(
        &machine()?,
        &[
            "faulter flags &",
            "faulter flags &",
            "faulter flags",
            "wait",
        ],
    )?;
    ensure!(
        text == "faulter: flags survived\n".repeat(3),
        "printed:\n{text}"
    );
    Ok(())
}

fn registers() -> Result<()> {
    let commands = ["vectors 1 3 &", "vectors 2 3 &", "vectors 3 3", "wait"];
    let text = output(&machine()?, &commands)?;
    for seed in 1..=3 {
        let line = format!("vectors: {seed}: kept");
        ensure!(text.lines().any(|l| l == line), "no '{line}' in:\n{text}");
    }
    Ok(())
}

/// Programs started a thousand times, in every way that they can end.
fn memory() -> Result<()> {
    const ENDS: [&str; 5] = [
        "faulter none",
        "faulter null",
        "faulter stack",
        "vectors",
        "calls",
    ];
    let measure = ["sysctl -n vm.stats.vm.v_free_count"];
    // The first of each may leave a page table that all later ones use again.
    let mut commands = ENDS.to_vec();
    commands.extend(measure);
    for _ in 0..200 {
        commands.extend(ENDS);
    }
    commands.extend(measure);
    let run = boot(&machine()?, &commands, LIMIT)?;
    let text = String::from_utf8_lossy(&run.output);
    let free: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let [before, after] = free[..] else {
        anyhow::bail!("no two counts of free pages: {free:?}, {}", run.end);
    };
    ensure!(
        before == after,
        "{before} pages were free before 1,000 programs, {after} after"
    );
    Ok(())
}

fn too_many() -> Result<()> {
    let mut commands = vec!["faulter none &"; 100];
    commands.extend(["wait", "calls"]);
    let run = boot(&machine()?, &commands, LIMIT)?;
    let text = String::from_utf8_lossy(&run.output);
    let refused = text
        .lines()
        .filter(|&line| line == "faulter: too many processes");
    let refused = refused.count();
    ensure!(
        (1..100).contains(&refused),
        "{refused} of 100 were refused:\n{text}"
    );
    ensure!(
        text.ends_with(" 0 failed\n"),
        "the next program should run as ever:\n{text}"
    );
    Ok(())
}

fn interrupt() -> Result<()> {
    let mut typist = Typist::boot(&machine()?)?;
    let text = typist.interrupt("syscall_timing -l 1000 getuid", "periteration")?;
    ensure!(
        text.contains("syscall_timing: interrupted"),
        "it went on:\n{text}"
    );
    let text = typist.line(b"calls")?;
    ensure!(
        text.contains(" 0 failed"),
        "the next program should run as ever:\n{text}"
    );
    Ok(())
}

/// MiB that `flood` writes here: some ten seconds of work.
const FLOOD: usize = 32;

fn interrupt_write() -> Result<()> {
    let mut typist = Typist::boot(&machine()?)?;
    let text = typist.interrupt(&format!("flood {FLOOD}"), "~~~")?;
    ensure!(
        text.contains("flood: interrupted"),
        "it went on to its end, {} bytes",
        text.len()
    );
    let most = FLOOD << 19;
    ensure!(
        text.len() < most,
        "{} bytes were written before it ended",
        text.len()
    );
    Ok(())
}

/// The shell answers while a program in the background is in one system call.
fn share() -> Result<()> {
    let mut typist = Typist::boot(&machine()?)?;
    let mut text = typist.line(format!("flood {FLOOD} &").as_bytes())?;
    text += &typist.line(b"sysctl -n kern.hz")?;
    let end = format!("flood: {}", FLOOD << 20);
    ensure!(
        !text.contains(&end),
        "the shell answered only when the program had ended"
    );
    let text = typist.interrupt("wait", "~~~")?;
    ensure!(
        text.contains("interrupted") && !text.contains(&end),
        "Ctrl-C should end what `wait` waits for: {}",
        &text[text.len().saturating_sub(200)..]
    );
    Ok(())
}

/// How `clockloop` ends its line if it has found nothing.
const CLEAN: &str = " 0 steps back, worst 0 ns, 0 coarse ahead, 0 realtime jumps";

fn clocks() -> Result<()> {
    let commands = ["clockloop -s 3 &", "clockloop -s 3", "wait"];
    let text = output(&machine()?, &commands)?;
    let clean = text.lines().filter(|line| line.ends_with(CLEAN));
    ensure!(clean.count() == 2, "printed:\n{text}");
    Ok(())
}

/// A program reads the clocks both ways while the counter is changed a thousand
/// times, each time to another one.
///
/// Time is counted in instructions here. A busy host may stop a machine for more
/// than 48 ms, 7/8 of the time in which the i8254 wraps, and then no reader can
/// tell its wraps apart.
fn switching() -> Result<()> {
    const COUNTERS: [&str; 4] = ["TSC", "ACPI-fast", "i8254", "HPET"];
    const CHANGES: usize = 1_000;
    // A change takes two ticks; this is half as long again as all of them.
    const SECONDS: u64 = 3;

    let machine = Machine {
        no_hpet: false,
        smp: 1,
        icount: true,
        firmware: Firmware::Pvh,
        ..machine()?
    };
    let watch = format!("clockloop -s {SECONDS} &");
    let changes: Vec<String> = (COUNTERS.iter().cycle().take(CHANGES))
        .map(|counter| format!("sysctl kern.timecounter.hardware={counter}"))
        .collect();
    let mut commands = vec![watch.as_str()];
    commands.extend(changes.iter().map(String::as_str));
    // What this prints stands behind the last change.
    commands.extend(["help wait", "wait"]);
    let text = output(&machine, &commands)?;

    let changed = text.lines().filter(|line| line.contains(" -> ")).count();
    ensure!(
        changed == CHANGES,
        "{changed} changes of {CHANGES}:\n{text}"
    );
    let ending = text
        .lines()
        .position(|line| line.starts_with("clockloop: "));
    let last = text.lines().position(|line| line.starts_with("wait"));
    ensure!(
        ending > last,
        "the program ended before the last change:\n{text}"
    );
    let clean = text.lines().filter(|line| line.ends_with(CLEAN)).count();
    ensure!(clean == 1, "the program found something:\n{text}");
    Ok(())
}
