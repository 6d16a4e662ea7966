//! `ps`: the processes, and the CPU time each has used.

use super::commands::{Command, Context, Outcome};
use alloc::string::String;
use core::fmt;

pub(super) const COMMAND: Command = Command {
    name: "ps",
    arguments: "",
    summary: "show programs in the background, their threads and CPU time",
    run,
};

fn run(context: &mut Context<'_>, arguments: &[String]) -> Outcome {
    if !arguments.is_empty() {
        return context.fail(COMMAND.name, "takes no arguments");
    }
    writeln!(context.out, "  PID THREADS  CPU            TIME COMMAND");
    for process in context.machine.processes() {
        let (pid, threads) = (process.pid, process.threads);
        let (place, time) = (Place(process.cpu), Seconds(process.used_ns));
        let name = process.name.as_str();
        writeln!(
            context.out,
            "{pid:>5} {threads:>7} {place:>4} {time:>15} {name}"
        );
    }
    Outcome::Success
}

/// A processor; `-` for none.
struct Place(Option<usize>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(cpu) => cpu.fmt(f),
            None => f.pad("-"),
        }
    }
}

/// Nanoseconds, shown as seconds with all nine digits.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        f.pad(&alloc::format!("{seconds}.{rest:09}"))
    }
}
