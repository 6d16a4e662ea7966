//! The command line: all verbs and flags, and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::machine::parse_added;
pub use crate::machine::{Accel, Added, Firmware, MACHINE_ENV, Machine};
pub use crate::machine::{machine_from_env, machine_words};
use crate::sim::costs::Costs;

/// Builds, boots, tests and measures Timehands.
#[derive(Debug, Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Provide QEMU and the bare-metal target's core library
    ///
    /// The other verbs do this by themselves when something is missing.
    Setup(Toolchain),
    /// Build, boot, and give the guest's shell on this terminal
    ///
    /// `shutdown` leaves, and so does Ctrl-A X.
    Run(Machine),
    /// Boot, run each shell command, print their output, power off
    ///
    /// Only what the commands print goes to stdout; logs go to stderr.
    /// Exit status: 0 all commands succeeded, 1 a command failed, 2 usage,
    /// 3 the guest panicked, hung or never came up.
    Exec(Exec),
    /// Run every test and print one closing line, "N passed, N failed"
    Test(Test),
    /// Measure on this host
    Bench(Bench),
    /// Simulate machines larger than this host
    Sim(Sim),
    /// Build an image that PCs boot from a CD or a USB stick, under BIOS and UEFI
    ///
    /// Prints the image's path. GRUB starts the loader from it; the console is
    /// the first serial port, at 115200 baud.
    Image(Image),
    /// Check formatting, lints, documentation and where `unsafe` stands
    Ci(Toolchain),
}

/// Where the bare-metal target's `core` library comes from.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolchain {
    /// Take the target's core library from here alone, not from the first
    /// place that has it
    #[arg(long, value_enum, value_name = "SOURCE")]
    pub core: Option<Core>,
}

/// A place that has `core` for `x86_64-unknown-none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Core {
    /// The toolchain's own component, added by `rustup target add`
    Rustup,
    /// Debian's compiler packages, unpacked under `target/`, and their
    /// library source
    Debian,
}

/// `exec`'s arguments.
#[derive(Args, Debug)]
pub struct Exec {
    /// The machine to boot.
    #[command(flatten)]
    pub machine: Machine,
    /// Give up after this many seconds
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    /// Shell commands, each one argument
    #[arg(value_name = "CMD", required = true, value_parser = parse_command)]
    pub commands: Vec<String>,
}

impl Exec {
    /// How long the guest may run.
    pub fn limit(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

/// `test`'s arguments.
#[derive(Args, Debug)]
pub struct Test {
    /// A group, or part of a test's name [groups: unit, loom, vectors,
    /// object, litmus, guest, golden; `long` holds what takes too long for
    /// every day]
    #[arg(value_name = "FILTER")]
    pub filter: Option<String>,
    /// The machine of the guest tests, where a test does not need its own.
    #[command(flatten)]
    pub machine: Machine,
}

/// `bench`'s arguments.
#[derive(Args, Debug)]
pub struct Bench {
    /// `read`: ticks of one clock read, ours beside others. `scale`: reads of
    /// two processors against one's. `litmus`: real threads that look for a
    /// step back
    #[arg(value_name = "WHAT")]
    pub what: Benchmark,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
    /// Arguments for the benchmark itself, behind `--`: `--batches N` for
    /// `read`, `--rounds N` for `scale`, `--millions N` for `litmus`
    #[arg(last = true, value_name = "ARGS")]
    pub rest: Vec<String>,
}

/// `sim`'s arguments.
#[derive(Args, Debug)]
pub struct Sim {
    /// `scale`: cache lines that move when 1 to 4096 CPUs read a clock, and what
    /// that costs, for ours, a sequence lock and a compare-and-exchange clock
    #[arg(value_name = "WHAT")]
    pub what: Simulation,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
    /// Write a plot of them to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Powers of two up to this many CPUs
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = parse_cpus)]
    pub max_cpus: usize,
    /// Windups a second
    #[arg(long, value_name = "HZ", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub hz: u32,
    /// The machine.
    #[command(flatten, next_help_heading = "The machine, in nanoseconds")]
    pub costs: Costs,
}

/// The simulations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Simulation {
    /// How reads scale to thousands of CPUs
    Scale,
}

/// More CPUs than there are machines for would only take long.
fn parse_cpus(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(cpus @ 1..=65_536) => Ok(cpus),
        _ => Err("1 to 65536 CPUs".to_owned()),
    }
}

/// `image`'s arguments.
#[derive(Args, Debug)]
pub struct Image {
    /// Where to write it [default: timehands.iso in the build's folder]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Tunables for the kernel, for example "kern.hz=100"
    #[arg(
        long,
        value_name = "TUNABLES",
        default_value = "",
        hide_default_value = true
    )]
    pub append: String,
    /// Put a static ELF program into the RAM disk as /bin/NAME
    #[arg(long, value_name = "HOSTFILE[=NAME]", value_parser = parse_added)]
    pub add: Vec<Added>,
    /// How the code is built.
    #[command(flatten)]
    pub toolchain: Toolchain,
}

/// The benchmarks on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Benchmark {
    /// What a clock read costs
    Read,
    /// How reads scale from one processor to two
    Scale,
    /// Whether a reader on another processor ever sees time go back
    Litmus,
}

/// Refuses what would not stay one line of the command file.
fn parse_command(text: &str) -> Result<String, String> {
    if text.contains(['\n', '\r', '\0']) {
        return Err("a command is one line".to_owned());
    }
    if text.trim().is_empty() {
        return Err("there is no command in it".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_machine_without_flags_is_the_default_machine() {
        let cli = Cli::try_parse_from(["xtask", "run"]).map(|cli| cli.verb);
        let Ok(Verb::Run(machine)) = cli else {
            panic!("`run` alone was not accepted: {cli:?}");
        };
        assert_eq!(machine, Machine::default(), "flags and Default disagree");
    }

    #[test]
    fn a_command_with_a_line_break_is_a_usage_error() {
        assert!(parse_command("a\nb").is_err(), "two lines in one command");
        assert!(parse_command("sysctl -a").is_ok(), "an ordinary command");
    }
}
