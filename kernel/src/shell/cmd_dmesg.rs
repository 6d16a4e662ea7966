//! `dmesg`: the kernel's log.

use super::commands::{Command, Context, Outcome};
use alloc::string::String;

pub(super) const COMMAND: Command = Command {
    name: "dmesg",
    arguments: "",
    summary: "show the kernel's log",
    run,
};

fn run(context: &mut Context<'_>, arguments: &[String]) -> Outcome {
    if !arguments.is_empty() {
        return context.fail(COMMAND.name, "takes no arguments");
    }
    context.machine.log(context.out);
    Outcome::Success
}
