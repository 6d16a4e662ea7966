//! `uptime`: how long the machine has been up, to the nanosecond.
//!
//! FreeBSD's `uptime` rounds to minutes; a clock's own kernel shows what the
//! clock shows.

use super::commands::{Command, Context, Outcome};
use alloc::string::String;
use core::fmt;

pub(super) const COMMAND: Command = Command {
    name: "uptime",
    arguments: "",
    summary: "show the time since boot",
    run,
};

fn run(context: &mut Context<'_>, arguments: &[String]) -> Outcome {
    if !arguments.is_empty() {
        return context.fail(COMMAND.name, "takes no arguments");
    }
    let uptime = Uptime(context.machine.uptime_ns());
    writeln!(context.out, "{uptime}");
    Outcome::Success
}

/// Nanoseconds, shown as `up D days, HH:MM:SS.nnnnnnnnn`.
struct Uptime(u64);

impl fmt::Display for Uptime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanoseconds) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let (minutes, second) = (seconds / 60, seconds % 60);
        let (hours, minute) = (minutes / 60, minutes % 60);
        let (days, hour) = (hours / 24, hours % 24);
        let plural = if days == 1 { "" } else { "s" };
        write!(
            f,
            "up {days} day{plural}, {hour:02}:{minute:02}:{second:02}.{nanoseconds:09}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Uptime;
    use alloc::string::ToString;

    #[test]
    fn every_part_carries_into_the_next() {
        const DAY: u64 = 86_400_000_000_000;
        for (ns, text) in [
            (0, "up 0 days, 00:00:00.000000000"),
            (999_999_999, "up 0 days, 00:00:00.999999999"),
            (59_999_999_999, "up 0 days, 00:00:59.999999999"),
            (60_000_000_000, "up 0 days, 00:01:00.000000000"),
            (DAY - 1, "up 0 days, 23:59:59.999999999"),
            (DAY, "up 1 day, 00:00:00.000000000"),
            (u64::MAX, "up 213503 days, 23:34:33.709551615"),
        ] {
            assert_eq!(Uptime(ns).to_string(), text, "{ns} ns");
        }
    }
}
