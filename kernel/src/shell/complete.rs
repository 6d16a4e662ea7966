//! What Tab offers.
//!
//! The first word is a command or a program; the words of `sysctl` are names
//! of the tree, one level at a time; those of `help` are commands. Nothing is
//! offered elsewhere, since only the program itself knows its arguments.

use super::commands::COMMANDS;
use super::editor::Completion;
use super::machine::Machine;
use crate::sysctl;
use alloc::string::String;
use alloc::vec::Vec;

/// Completes the last word of `before`, the text before the cursor.
#[must_use]
pub(super) fn complete(machine: &dyn Machine, before: &str) -> Completion {
    let mut words = before.split_ascii_whitespace();
    let first = words.next().unwrap_or("");
    let typed = before
        .rsplit(|c: char| c.is_ascii_whitespace())
        .next()
        .unwrap_or("");
    let is_first = before.trim_ascii_start() == typed;
    let mut candidates = match first {
        _ if is_first => {
            let mut names = command_names();
            names.extend(machine.programs());
            names
        }
        "sysctl" => oid_names(machine, typed),
        "help" => command_names(),
        _ => Vec::new(),
    };
    candidates.retain(|name| name.starts_with(typed));
    Completion {
        typed: typed.chars().count(),
        candidates,
    }
}

fn command_names() -> Vec<String> {
    let names = COMMANDS.iter().map(|command| command.name);
    names.map(String::from).collect()
}

/// Names that begin with `typed`, each cut behind the first dot after it, so
/// that an inner node stands for all below it.
fn oid_names(machine: &dyn Machine, typed: &str) -> Vec<String> {
    let mut names = Vec::new();
    for oid in sysctl::walk(machine.system()) {
        let Some(rest) = oid.name().strip_prefix(typed) else {
            continue;
        };
        let end = rest.find('.').map_or(rest.len(), |dot| dot + 1);
        let name = rest.get(..end).unwrap_or(rest);
        names.push(String::from(typed) + name);
    }
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::complete;
    use crate::shell::fake::FakeMachine;

    #[test]
    fn each_place_has_its_own_words() {
        let machine = FakeMachine::default();
        for (before, candidates) in [
            ("upt", &["uptime"][..]),
            ("  upt", &["uptime"]),
            ("fal", &["false"]),
            ("sysctl ke", &["kern."]),
            (
                "sysctl -d kern.",
                &["kern.boottime", "kern.hz", "kern.smp.", "kern.timecounter."],
            ),
            (
                "sysctl kern.timecounter.tc.",
                &[
                    "kern.timecounter.tc.i8254.",
                    "kern.timecounter.tc.ACPI-fast.",
                    "kern.timecounter.tc.HPET.",
                    "kern.timecounter.tc.TSC.",
                ],
            ),
            ("sysctl kern.timecounter.hardware=", &[]),
            ("help upt", &["uptime"]),
            ("false upt", &[]),
            ("xyz", &[]),
        ] {
            assert_eq!(
                complete(&machine, before).candidates,
                candidates,
                "behind {before:?}"
            );
        }
    }
}
