//! Many processors that read the clock at once: what it costs them, and that it
//! goes back for none, whatever is done to it meanwhile.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use timehands_tests::shown::values;
use timehands_tests::{built, machine, output, trial};
use xtask::opt::{Accel, Machine};

/// What `clockcheck` ends with if nothing was wrong.
const CLEAN: &str = " 0 steps back, worst 0 ns, 0 coarse ahead";

fn main() -> ExitCode {
    let trials = vec![
        trial("four_processors_read_all_clocks_and_none_goes_back", four),
        trial("two_and_eight_processors_do_too", others),
        trial("so_do_they_under_the_guard", guarded),
        trial(
            "no_clock_goes_back_while_counters_change_and_writers_are_held",
            troubled,
        ),
        trial("a_wrong_command_line_is_refused", usage),
        trial("the_programs_run_on_this_linux_host_alike", here),
    ];
    let mut arguments = Arguments::from_args();
    // Each guest keeps this machine's processors busy.
    arguments.test_threads.get_or_insert(1);
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn with_cpus(cpus: u32) -> Result<Machine> {
    Ok(Machine {
        smp: cpus,
        icount: false,
        accel: Accel::Tcg,
        ..machine()?
    })
}

/// That `clockcheck` found nothing each time.
fn clean(text: &str, runs: usize, cpus: u32) -> Result<()> {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("clockcheck: "))
        .collect();
    for line in &lines {
        println!("{line}");
    }
    let head = format!("clockcheck: {cpus} CPUs, ");
    let good = |line: &&&str| line.starts_with(&head) && line.ends_with(CLEAN);
    ensure!(
        lines.len() == runs && lines.iter().filter(good).count() == runs,
        "not {runs} clean runs on {cpus} processors:\n{text}"
    );
    Ok(())
}

fn four() -> Result<()> {
    let text = output(
        &with_cpus(4)?,
        &[
            "sysctl -n kern.smp.cpus",
            "sysctl kern.timecounter",
            "todscale -n 100000",
            "clockcheck 5",
            "tscdiff -n 2000",
            "sysctl kern.timecounter.tc.TSC.reason",
        ],
    )?;
    ensure!(text.starts_with("4\n"), "four processors:\n{text}");
    let rows = text.lines().skip_while(|line| !line.starts_with("CPUS"));
    let counts: Vec<&str> = rows
        .skip(1)
        .map_while(|line| line.split_once('\t'))
        .map(|(count, _)| count)
        .collect();
    ensure!(counts == ["1", "2", "4"], "a row for each number:\n{text}");
    ensure!(
        text.contains("\ntscdiff: worst step back 0 cycles\n"),
        "the virtual TSCs are one:\n{text}"
    );
    let row = |cpu: u32| text.contains(&format!("CPU {cpu}: "));
    ensure!((0..4).all(row), "a row of the skew for each CPU:\n{text}");
    let reason = values(&text, "kern.timecounter.tc.TSC.reason");
    ensure!(
        reason.last() == Some(&"not invariant"),
        "TCG says nothing of an invariant TSC:\n{text}"
    );
    clean(&text, 1, 4)
}

fn others() -> Result<()> {
    for cpus in [2, 8] {
        let text = output(&with_cpus(cpus)?, &["todscale -n 2000", "clockcheck 2"])?;
        clean(&text, 1, cpus)?;
    }
    Ok(())
}

fn guarded() -> Result<()> {
    let text = output(
        &with_cpus(4)?,
        &[
            "sysctl kern.timecounter.nojitter=2",
            "sysctl -n kern.timecounter.guard",
            "clockcheck 2",
            "sysctl kern.timecounter.hardware=TSC",
            "clockcheck 2",
            "todscale -j -n 2000",
            "sysctl kern.timecounter.nojitter=1",
            "sysctl -n kern.timecounter.guard",
            "clockcheck 1",
        ],
    )?;
    let bounds: Vec<&str> = text
        .lines()
        .filter(|line| line.parse::<u32>().is_ok())
        .collect();
    ensure!(bounds == ["1000", "0"], "on, then off:\n{text}");
    clean(&text, 3, 4)
}

/// Counters that wrap in more than a hold, so that no reader is lost in one.
const COUNTERS: [&str; 3] = ["ACPI-fast", "TSC", "HPET"];

fn troubled() -> Result<()> {
    const ROUNDS: usize = 4;
    const HOLD_MS: u32 = 200;
    let machine = Machine {
        faults: true,
        ..with_cpus(4)?
    };
    let mut commands = vec!["clockcheck 30 &".to_owned()];
    for round in 0..ROUNDS {
        for (index, name) in COUNTERS.iter().enumerate() {
            let store = (round * COUNTERS.len() + index) % 12;
            commands.push(format!("sysctl kern.timecounter.hardware={name}"));
            commands.push(format!("sysctl debug.windup.hold=0:{store}:{HOLD_MS}"));
            commands.push("clockloop -s 1".to_owned());
            let (off, on) = (index % 2, 1 - index % 2);
            commands.push(format!("sysctl kern.timecounter.fast_gettime={off}"));
            commands.push(format!("sysctl kern.timecounter.fast_gettime={on}"));
        }
    }
    commands.push("wait".to_owned());
    commands.push("sysctl kern.timecounter.hardware debug.windup.held".to_owned());
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let text = output(&machine, &commands)?;
    clean(&text, 1, 4)?;
    // Every change and every hold that was asked for came about.
    let hardware = values(&text, "kern.timecounter.hardware");
    ensure!(
        hardware.last() == Some(&"HPET"),
        "the last change:\n{hardware:?}\n{text}"
    );
    let held = (ROUNDS * COUNTERS.len()).to_string();
    ensure!(
        values(&text, "debug.windup.held") == [held.as_str()],
        "{held} holds:\n{text}"
    );
    let loops = text.lines().filter(|line| line.starts_with("clockloop: "));
    ensure!(
        loops.clone().all(|line| line.contains(" 0 steps back")),
        "each reader by itself:\n{text}"
    );
    Ok(())
}

fn usage() -> Result<()> {
    let machine = with_cpus(1)?;
    for command in [
        "todscale -n 0",
        "todscale -c noon",
        "clockcheck -s",
        "clockcheck 0",
    ] {
        let run = timehands_tests::boot(&machine, &[command], timehands_tests::LIMIT)?;
        let text = String::from_utf8_lossy(&run.output);
        ensure!(text.starts_with("usage: "), "{command} printed:\n{text}");
    }
    Ok(())
}

fn here() -> Result<()> {
    let built = built(&machine()?)?;
    for (name, arguments, end) in [
        ("todscale", &["-n", "1000"][..], ""),
        ("todscale", &["-j", "-n", "1000", "-w", "syscall"], ""),
        ("clockcheck", &["1"], CLEAN),
        ("tscdiff", &["-n", "1000"], ""),
    ] {
        let program = built.programs.iter().find(|program| program.name == name);
        let program = program.with_context(|| format!("no program `{name}` was built"))?;
        let run = Command::new(&program.path).args(arguments).output()?;
        let text = String::from_utf8_lossy(&run.stdout);
        ensure!(
            run.status.success() && text.trim_end().ends_with(end),
            "{name} {arguments:?}: {}:\n{text}{}",
            run.status,
            String::from_utf8_lossy(&run.stderr)
        );
    }
    Ok(())
}
