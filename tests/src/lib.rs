//! What the guest tests share: a booted machine as a value.
//!
//! A scenario boots one guest with a fixed list of shell commands, waits for
//! its orderly end, and looks at what the commands printed. Everything is
//! built once a test program, whatever the number of scenarios.
#![forbid(unsafe_code)]

pub mod lines;
pub mod shown;
pub mod typed;
pub mod typist;
pub mod vectors;

use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use libtest_mimic::{Failed, Trial};
use xtask::build::{self, Built};
use xtask::guest::{self, End, Outcome, Show};
use xtask::opt::{self, Machine};
use xtask::setup;

/// Longest an ordinary scenario may take, on a machine that is busy with
/// other scenarios.
pub const LIMIT: Duration = Duration::from_secs(120);

/// The machine that the person who runs the tests asked for.
///
/// # Errors
/// The environment describes no machine.
pub fn machine() -> Result<Machine> {
    opt::machine_from_env()
}

/// What every guest is made of, built at the first call for its kernel.
///
/// # Errors
/// Something needed is missing, or a build failed.
pub fn built(machine: &Machine) -> Result<&'static Built> {
    type Once = OnceLock<std::result::Result<Built, String>>;
    static ORDINARY: Once = OnceLock::new();
    static FAULTY: Once = OnceLock::new();
    let cell = if machine.faults { &FAULTY } else { &ORDINARY };
    let built = cell.get_or_init(|| {
        let made = setup::qemu().and_then(|()| build::all(&machine.toolchain, machine.faults));
        made.map_err(|error| format!("{error:#}"))
    });
    built.as_ref().map_err(|error| anyhow!("{error}"))
}

/// Boots `machine` and runs `commands`, however it ends.
///
/// # Errors
/// Nothing could be booted.
pub fn boot(machine: &Machine, commands: &[&str], limit: Duration) -> Result<Outcome> {
    let built = built(machine)?;
    let commands: Vec<String> = commands.iter().map(|&command| command.to_owned()).collect();
    guest::boot(built, machine, &commands, limit, Show::Nothing)
}

/// Boots `machine`, runs `commands`, and returns what they printed.
///
/// # Errors
/// A command failed, or the guest did: the message has the end of its log.
pub fn output(machine: &Machine, commands: &[&str]) -> Result<String> {
    let run = boot(machine, commands, LIMIT)?;
    let output = String::from_utf8_lossy(&run.output).into_owned();
    if run.end != End::Success {
        bail!(
            "{}\n--- output:\n{output}\n--- log:\n{}",
            run.end,
            run.tail()
        );
    }
    Ok(output)
}

/// A scenario as a test that reports its error in one paragraph.
pub fn trial(name: &str, scenario: fn() -> Result<()>) -> Trial {
    Trial::test(name, move || {
        scenario().map_err(|error| Failed::from(format!("{error:#}")))
    })
}
