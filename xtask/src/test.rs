//! All tests, in the order in which a failure is cheapest to understand.

use std::io::{BufRead, BufReader};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cargo::Cargo;
use crate::opt::{self, MACHINE_ENV};
use crate::tally::Tally;
use crate::{leash, setup};

/// Longest the long tests may run; the others have a build's limit.
const LONG_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// The packages whose unit and property tests run on the host as they are.
const HOST_PACKAGES: &[&str] = &[
    "timehands-timecounter",
    "timehands-drivers",
    "timehands-vdso",
    "timehands-user",
    "xtask",
];

/// Tests of one kind.
struct Group {
    name: &'static str,
    /// Runs only when named.
    long: bool,
    steps: fn() -> Vec<Cargo>,
}

/// The groups, in the order in which they run.
const GROUPS: &[Group] = &[
    group("unit", unit),
    group("loom", loom),
    group("vectors", || vec![program("vectors")]),
    group("object", || vec![program("object")]),
    group("litmus", litmus),
    group("guest", || {
        [
            "guest",
            "processes",
            "smp_boot",
            "threads",
            "user_reads",
            "syscall_timing",
            "tunables",
            "boot_errors",
            "exec",
            "stalls",
            "watchdog",
            "holds",
            "smp",
            "accuracy",
        ]
        .map(program)
        .into()
    }),
    group("golden", || vec![program("golden")]),
    Group {
        name: "long",
        long: true,
        steps: long,
    },
];

const fn group(name: &'static str, steps: fn() -> Vec<Cargo>) -> Group {
    Group {
        name,
        long: false,
        steps,
    }
}

fn unit() -> Vec<Cargo> {
    let host = HOST_PACKAGES
        .iter()
        .fold(Cargo::new("test"), |cargo, name| cargo.package(name));
    let host = host.args(["--features", "timehands-drivers/sim"]);
    // Their programs exist for the bare-metal target alone.
    let bare = Cargo::new("test").package("boot").package("kernel").args([
        "--lib",
        "--features",
        "kernel/faults",
    ]);
    let shared = Cargo::new("test")
        .package("timehands-tests")
        .args(["--lib"]);
    vec![host, bare, shared]
}

fn loom() -> Vec<Cargo> {
    // Its own folder: the flag would otherwise rebuild everything twice.
    let dir = crate::target_dir().join("loom");
    let cargo = Cargo::new("test").package("timehands-timecounter");
    let cargo = cargo
        .args(["--release", "--test", "loom*", "--target-dir"])
        .args([dir]);
    vec![cargo.env("RUSTFLAGS", "--cfg loom")]
}

fn litmus() -> Vec<Cargo> {
    // Optimized: it looks for what only shows when stores are close together.
    vec![
        Cargo::new("test")
            .package("timehands-bench")
            .args(["--release"]),
    ]
}

fn long() -> Vec<Cargo> {
    vec![program("long").limit(LONG_LIMIT)]
}

/// A test program of the package of host-driven tests.
fn program(name: &str) -> Cargo {
    Cargo::new("test")
        .package("timehands-tests")
        .args(["--test", name])
}

/// Runs the tests that `options` asks for and prints the closing line.
///
/// # Errors
/// Something needed is missing, or cargo cannot be started. A failed test is
/// in the exit code.
pub fn run(options: &opt::Test) -> Result<ExitCode> {
    let filter = options.filter.as_deref();
    let named = GROUPS.iter().find(|group| Some(group.name) == filter);
    let chosen: Vec<&Group> = match named {
        Some(group) => vec![group],
        None => GROUPS.iter().filter(|group| !group.long).collect(),
    };
    let test_filter = filter.filter(|_| named.is_none());
    if chosen
        .iter()
        .any(|group| matches!(group.name, "guest" | "golden" | "long"))
    {
        setup::machine(&options.machine)?;
        crate::sysroot::ensure(&options.machine.toolchain)?;
    }
    let machine = opt::machine_words(&options.machine);
    let mut total = Tally::default();
    let mut broken = Vec::new();
    for group in chosen {
        let start = Instant::now();
        let mut tally = Tally::default();
        for step in (group.steps)() {
            eprintln!("== {}: {}", group.name, step.display());
            let step = step.args(["--no-fail-fast"]).env(MACHINE_ENV, &machine);
            let (counted, ended_well) = count(&step, test_filter)?;
            tally.add_run(counted, ended_well);
            if !ended_well {
                broken.push(format!("{}: {}", group.name, step.display()));
            }
        }
        eprintln!(
            "== {}: {tally} ({} s)",
            group.name,
            start.elapsed().as_secs()
        );
        total.add(tally);
    }
    for step in &broken {
        eprintln!("failed: {step}");
    }
    if total == Tally::default() {
        eprintln!("no test matches");
    }
    println!("{total}");
    Ok(if total.is_success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs one test command, its output on stdout; what it counted, and whether
/// it ended well.
fn count(step: &Cargo, filter: Option<&str>) -> Result<(Tally, bool)> {
    let mut command = step.command();
    if let Some(filter) = filter {
        command.args(["--", filter]);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut tally = Tally::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            if let Some(counted) = Tally::from_line(&line) {
                tally.add(counted);
            }
        }
    }
    let status = child.wait()?;
    if leash::timed_out(status) {
        eprintln!("{}: not done in time", step.display());
    }
    Ok((tally, status.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_told_apart_by_name() {
        for (place, group) in GROUPS.iter().enumerate() {
            let first = GROUPS.iter().position(|other| other.name == group.name);
            assert_eq!(first, Some(place), "two groups are called {}", group.name);
        }
    }
}
