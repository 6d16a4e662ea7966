//! The command line of this repository: `cargo xtask VERB`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use xtask::cargo::Cargo;
use xtask::guest::{self, End, Show};
use xtask::opt::{Bench, Benchmark, Cli, Exec, Verb};
use xtask::{archive, ci, image, setup, sim, test};

/// The exit status of a wrong command line, as clap has it.
const USAGE: u8 = 2;
/// `exec`'s and `run`'s exit status when the guest never came up.
const NEVER_CAME_UP: u8 = 3;

fn main() -> ExitCode {
    let verb = Cli::parse().verb;
    let (on_error, programs) = match &verb {
        Verb::Run(machine) => (NEVER_CAME_UP, &machine.add[..]),
        Verb::Exec(options) => (NEVER_CAME_UP, &options.machine.add[..]),
        _ => (1, &[][..]),
    };
    if let Some(error) = programs
        .iter()
        .find_map(|added| archive::program(added).err())
    {
        eprintln!("xtask: --add: {error:#}");
        return ExitCode::from(USAGE);
    }
    dispatch(&verb).unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::from(on_error)
    })
}

fn dispatch(verb: &Verb) -> Result<ExitCode> {
    match verb {
        Verb::Setup(toolchain) => setup::run(toolchain).map(|()| ExitCode::SUCCESS),
        Verb::Run(machine) => {
            let status = guest::interact(machine)?;
            // 33: `shutdown`. 0: Ctrl-A X.
            match status.code() {
                Some(0 | 33) => Ok(ExitCode::SUCCESS),
                _ => bail!("the guest ended with QEMU's {status}"),
            }
        }
        Verb::Exec(options) => exec(options),
        Verb::Test(options) => test::run(options),
        Verb::Bench(options) => bench(options),
        Verb::Sim(options) => sim::run(options),
        Verb::Image(options) => image::run(options).map(|()| ExitCode::SUCCESS),
        Verb::Ci(toolchain) => ci::run(toolchain),
    }
}

fn exec(options: &Exec) -> Result<ExitCode> {
    let limit = options.limit();
    let run = guest::exec(&options.machine, &options.commands, limit, Show::Live)?;
    if !matches!(run.end, End::Success | End::CommandFailed) {
        eprintln!("--- the end of the log:\n{}\n---", run.tail());
        eprintln!("xtask: {}", run.end);
    }
    Ok(ExitCode::from(run.end.exit_status()))
}

fn bench(options: &Bench) -> Result<ExitCode> {
    let program = match options.what {
        Benchmark::Read => "read",
        Benchmark::Scale => "scale",
        Benchmark::Litmus => "litmus",
    };
    let cargo = Cargo::new("run")
        .args(["--release", "--quiet"])
        .package("timehands-bench");
    let cargo = cargo.args(["--bin", program, "--"]);
    let cargo = cargo
        .args(options.json.then_some("--json"))
        .args(&options.rest);
    let status = cargo.command().status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}
