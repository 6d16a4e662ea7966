//! The command line: all verbs and flags, and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Environment variable that carries the machine's flags from `test` to the
/// test programs it starts, as one line of words.
pub const MACHINE_ENV: &str = "TIMEHANDS_MACHINE";

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

/// The machine to boot.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Number of processors
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=255))]
    pub smp: u32,
    /// Memory, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(32..=1_048_576))]
    pub memory: u32,
    /// How the guest's processor is made
    #[arg(long, value_enum, default_value_t = Accel::Auto)]
    pub accel: Accel,
    /// QEMU's processor model [default: max, or host under KVM]
    #[arg(long, value_name = "MODEL")]
    pub cpu: Option<String>,
    /// Leave the HPET out of the machine
    #[arg(long)]
    pub no_hpet: bool,
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
    /// Let virtual time follow executed instructions, so that every run is
    /// the same to the last count
    #[arg(long)]
    pub icount: bool,
    /// How the code for this machine is built.
    #[command(flatten)]
    pub toolchain: Toolchain,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            smp: 1,
            memory: 256,
            accel: Accel::Auto,
            cpu: None,
            no_hpet: false,
            append: String::new(),
            add: Vec::new(),
            icount: false,
            toolchain: Toolchain::default(),
        }
    }
}

/// How the guest's processor is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Accel {
    /// KVM where this processor has hardware virtualization, else emulation
    Auto,
    /// Emulation
    Tcg,
    /// KVM wherever `/dev/kvm` opens
    Kvm,
}

/// A program to add to the RAM disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// The file on the host.
    pub file: PathBuf,
    /// Its name under `/bin`.
    pub name: String,
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
    /// `read`: ticks of one clock read, ours beside others. `litmus`: real
    /// threads that look for a step back
    #[arg(value_name = "WHAT")]
    pub what: Benchmark,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
    /// Arguments for the benchmark itself
    #[arg(last = true, value_name = "ARGS")]
    pub rest: Vec<String>,
}

/// The benchmarks on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Benchmark {
    /// What a clock read costs
    Read,
    /// Whether a reader on another processor ever sees time go back
    Litmus,
}

/// Splits `HOSTFILE[=NAME]`; NAME is the file's own name by default.
fn parse_added(text: &str) -> Result<Added, String> {
    let (file, name) = match text.rsplit_once('=') {
        Some((file, name)) => (PathBuf::from(file), name.to_owned()),
        None => {
            let file = PathBuf::from(text);
            let name = file.file_name().map(|n| n.to_string_lossy().into_owned());
            (file, name.unwrap_or_default())
        }
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(format!("'{name}' is no name for a program"));
    }
    Ok(Added { file, name })
}

/// Refuses what would not stay one line of the command file.
fn parse_command(text: &str) -> Result<String, String> {
    if text.contains(['\n', '\r', '\0']) {
        return Err("a command is one line".to_owned());
    }
    Ok(text.to_owned())
}

/// The flags of `machine` as words that [`machine_from_env`] reads back.
///
/// One a line, since a value may hold spaces.
pub fn machine_words(machine: &Machine) -> String {
    let mut words = vec![
        format!("--smp={}", machine.smp),
        format!("--memory={}", machine.memory),
    ];
    let accel = machine.accel.to_possible_value();
    words.extend(accel.map(|value| format!("--accel={}", value.get_name())));
    words.extend(machine.cpu.iter().map(|cpu| format!("--cpu={cpu}")));
    words.extend(machine.no_hpet.then(|| "--no-hpet".to_owned()));
    if !machine.append.is_empty() {
        words.push(format!("--append={}", machine.append));
    }
    for added in &machine.add {
        words.push(format!("--add={}={}", added.file.display(), added.name));
    }
    words.extend(machine.icount.then(|| "--icount".to_owned()));
    let core = machine
        .toolchain
        .core
        .and_then(|core| core.to_possible_value());
    words.extend(core.map(|value| format!("--core={}", value.get_name())));
    words.join("\n")
}

/// The machine that [`MACHINE_ENV`] describes, or the default one.
///
/// # Errors
/// The variable holds something that is no machine.
pub fn machine_from_env() -> anyhow::Result<Machine> {
    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct Words {
        #[command(flatten)]
        machine: Machine,
    }
    let text = std::env::var(MACHINE_ENV).unwrap_or_default();
    Ok(Words::try_parse_from(text.lines())?.machine)
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
    fn an_added_program_takes_its_files_name() {
        let added = parse_added("/usr/bin/busybox").map(|a| a.name);
        assert_eq!(added.as_deref(), Ok("busybox"), "the default name");
        let added = parse_added("a=b/prog=tool").map(|a| (a.file, a.name));
        let want = (PathBuf::from("a=b/prog"), "tool".to_owned());
        assert_eq!(added, Ok(want), "the last '=' separates");
    }

    #[test]
    fn a_program_name_cannot_leave_its_folder() {
        for bad in ["x=", "x=..", "x=a/b", "/", "x=a b"] {
            assert!(parse_added(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn a_command_with_a_line_break_is_a_usage_error() {
        assert!(parse_command("a\nb").is_err(), "two lines in one command");
        assert!(parse_command("sysctl -a").is_ok(), "an ordinary command");
    }

    #[test]
    fn flags_survive_the_way_to_the_test_programs() {
        #[derive(Parser)]
        #[command(no_binary_name = true)]
        struct Words {
            #[command(flatten)]
            machine: Machine,
        }
        let machine = Machine {
            smp: 4,
            cpu: Some("qemu64,+rdtscp".to_owned()),
            no_hpet: true,
            append: "kern.hz=100 kern.smp.disabled=1".to_owned(),
            add: vec![Added {
                file: "some dir/prog".into(),
                name: "p".to_owned(),
            }],
            icount: true,
            toolchain: Toolchain {
                core: Some(Core::Debian),
            },
            ..Machine::default()
        };
        let back = Words::try_parse_from(machine_words(&machine).lines());
        assert_eq!(
            back.map(|w| w.machine).ok(),
            Some(machine),
            "a flag was lost"
        );
    }
}
