//! `help`: lists what can be typed.

use super::commands::{COMMANDS, Command, Context, Outcome, find};
use alloc::format;
use alloc::string::String;

pub(super) const COMMAND: Command = Command {
    name: "help",
    arguments: "[command ...]",
    summary: "list commands and programs",
    run,
};

fn run(context: &mut Context<'_>, names: &[String]) -> Outcome {
    if names.is_empty() {
        for command in COMMANDS {
            describe(context, command);
        }
        for program in context.machine.programs() {
            entry(
                context,
                &program,
                "program; with & behind it, in the background",
            );
        }
        return Outcome::Success;
    }
    let mut outcome = Outcome::Success;
    for name in names {
        match find(name) {
            Some(command) => describe(context, command),
            None => outcome = context.fail(COMMAND.name, format_args!("{name}: not found")),
        }
    }
    outcome
}

fn describe(context: &mut Context<'_>, command: &Command) {
    let usage = format!("{} {}", command.name, command.arguments);
    entry(context, usage.trim_ascii_end(), command.summary);
}

fn entry(context: &mut Context<'_>, usage: &str, summary: &str) {
    writeln!(context.out, "{usage:<32}  {summary}");
}
