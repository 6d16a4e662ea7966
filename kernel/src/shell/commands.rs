//! The table of commands.

use super::machine::Machine;
use super::output::Output;
use super::{cmd_dmesg, cmd_help, cmd_ps, cmd_shutdown, cmd_sysctl, cmd_uptime, cmd_wait};
use alloc::string::String;
use core::fmt;

/// How a command, or a list of them, came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// It did what was asked.
    Success,
    /// It did not, and has said why.
    Failure,
    /// It asks to power the machine off.
    PowerOff,
}

/// What a command works with.
#[expect(
    missing_debug_implementations,
    reason = "it only borrows, for one call"
)]
pub struct Context<'a> {
    /// The kernel.
    pub machine: &'a dyn Machine,
    /// Where all its text goes.
    pub out: &'a mut dyn Output,
}

impl Context<'_> {
    /// Prints `NAME: reason` and fails.
    pub fn fail(&mut self, name: &str, reason: impl fmt::Display) -> Outcome {
        writeln!(self.out, "{name}: {reason}");
        Outcome::Failure
    }
}

/// A command that the shell has itself.
#[derive(Debug)]
pub struct Command {
    /// What is typed.
    pub name: &'static str,
    /// Its arguments, as `help` shows them; empty when it takes none.
    pub arguments: &'static str,
    /// One line that says what it does.
    pub summary: &'static str,
    /// Does it. The words are those behind the name.
    pub run: fn(&mut Context<'_>, &[String]) -> Outcome,
}

/// All of them, in the order of `help`.
pub const COMMANDS: &[&Command] = &[
    &cmd_help::COMMAND,
    &cmd_sysctl::COMMAND,
    &cmd_uptime::COMMAND,
    &cmd_dmesg::COMMAND,
    &cmd_ps::COMMAND,
    &cmd_wait::COMMAND,
    &cmd_shutdown::COMMAND,
];

/// The command of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS
        .iter()
        .copied()
        .find(|command| command.name == name)
}
