//! The shell: lines in, commands run, their text out.
//!
//! ```text
//! bytes -> keys -> editor -> words -> command or program -> Outcome
//! ```
//!
//! [`Session`] does all of it for a person at a terminal; [`run_rc`] takes the
//! lines from a file. The shell knows the kernel only as a [`Machine`], so all
//! of it runs on the host as well. Whatever is typed, it ends in an
//! [`Outcome`]: every error is one line, `NAME: reason`.

mod cmd_dmesg;
mod cmd_help;
mod cmd_ps;
mod cmd_shutdown;
mod cmd_sysctl;
mod cmd_uptime;
mod cmd_wait;
pub mod commands;
mod complete;
pub mod editor;
pub mod history;
pub mod keys;
#[cfg(target_os = "none")]
pub mod live;
mod machine;
mod output;
mod rc;
mod session;
pub mod words;

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod fuzz_tests;

pub use commands::{Context, Outcome};
pub use machine::{Ended, Machine, Process, StartError};
pub use output::Output;
pub use rc::run_rc;
pub use session::Session;

use alloc::string::String;

/// The name under which the shell itself reports.
const NAME: &str = "shell";

/// Runs one line.
pub fn execute(line: &str, machine: &dyn Machine, out: &mut dyn Output) -> Outcome {
    let mut context = Context { machine, out };
    let parsed = match words::parse(line) {
        Ok(parsed) => parsed,
        Err(error) => return context.fail(NAME, error),
    };
    let Some((name, arguments)) = parsed.words.split_first() else {
        return Outcome::Success;
    };
    match commands::find(name) {
        Some(command) if !parsed.background => (command.run)(&mut context, arguments),
        Some(_) => context.fail(name, "only a program can run in the background"),
        None => run_program(&mut context, name, arguments, parsed.background),
    }
}

/// Runs a program from the RAM disk. One that fails by itself has said why;
/// for one that was killed the shell does.
fn run_program(
    context: &mut Context<'_>,
    name: &str,
    arguments: &[String],
    background: bool,
) -> Outcome {
    if background {
        return match context.machine.start(name, arguments) {
            Ok(()) => Outcome::Success,
            Err(error) => context.fail(name, error),
        };
    }
    match context.machine.run(name, arguments) {
        Ok(Ended::Exited(0)) => Outcome::Success,
        Ok(Ended::Exited(_)) => Outcome::Failure,
        Ok(Ended::Killed(reason)) => context.fail(name, reason),
        Err(error) => context.fail(name, error),
    }
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
