//! `shutdown`: powers the machine off.

use super::commands::{Command, Context, Outcome};
use alloc::string::String;

pub(super) const COMMAND: Command = Command {
    name: "shutdown",
    arguments: "",
    summary: "power the machine off",
    run,
};

fn run(context: &mut Context<'_>, arguments: &[String]) -> Outcome {
    if !arguments.is_empty() {
        return context.fail(COMMAND.name, "takes no arguments");
    }
    Outcome::PowerOff
}
