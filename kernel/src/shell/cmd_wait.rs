//! `wait`: waits for the programs in the background.

use super::commands::{Command, Context, Outcome};
use super::machine::Ended;
use alloc::string::String;

pub(super) const COMMAND: Command = Command {
    name: "wait",
    arguments: "",
    summary: "wait for all programs in the background; fails if one failed",
    run,
};

fn run(context: &mut Context<'_>, arguments: &[String]) -> Outcome {
    if !arguments.is_empty() {
        return context.fail(COMMAND.name, "takes no arguments");
    }
    let mut outcome = Outcome::Success;
    for (name, ended) in context.machine.wait() {
        let name = name.as_str();
        match ended {
            Ended::Exited(0) => {}
            Ended::Exited(status) => {
                let reason = format_args!("{name}: exited with status {status}");
                outcome = context.fail(COMMAND.name, reason);
            }
            Ended::Killed(reason) => {
                outcome = context.fail(COMMAND.name, format_args!("{name}: {reason}"));
            }
        }
    }
    outcome
}
