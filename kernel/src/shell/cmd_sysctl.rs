//! `sysctl`: reads and writes the tree, as sysctl(8) does.
//!
//! Each operand stands alone: one that fails is reported, the others are still
//! done, and the command fails at the end. Unlike sysctl(8) a write that fails
//! prints the error only, not the old value in front of it.

use super::commands::{Command, Context, Outcome};
use crate::sysctl::{self, Errno, Lookup, Oid, WriteError};
use alloc::string::{String, ToString};
use core::fmt;

pub(super) const COMMAND: Command = Command {
    name: "sysctl",
    arguments: USAGE,
    summary: "read and write the kernel's state",
    run,
};

/// Operands, for `help`.
const USAGE: &str = "[-adNn] name[=value] ...";

/// How leaves are shown.
#[derive(Clone, Copy, Default)]
struct Options {
    /// `-a`: all leaves.
    all: bool,
    /// `-d`: descriptions in place of values; nothing is written.
    descriptions: bool,
    /// `-N`: names alone.
    names_only: bool,
    /// `-n`: no names.
    no_names: bool,
}

/// Why an operand could not be done, shown in the words of sysctl(8).
enum Failure<'a> {
    UnknownOid(&'a str),
    ReadOnly(&'a str),
    NotALeaf(&'a str),
    Refused(&'a str, Errno),
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownOid(name) => write!(f, "unknown oid '{name}'"),
            Self::ReadOnly(name) => write!(f, "oid '{name}' is read only"),
            Self::NotALeaf(name) => write!(f, "oid '{name}' isn't a leaf node"),
            Self::Refused(operand, errno) => write!(f, "{operand}: {errno}"),
        }
    }
}

fn run(context: &mut Context<'_>, words: &[String]) -> Outcome {
    let (options, operands) = match parse_options(words) {
        Ok(parsed) => parsed,
        Err(letter) => {
            let _ = context.fail(COMMAND.name, format_args!("illegal option -- {letter}"));
            return usage(context);
        }
    };
    if options.names_only && options.no_names {
        return usage(context);
    }
    if operands.is_empty() {
        if !options.all {
            return usage(context);
        }
        let leaves = sysctl::walk(context.machine.system());
        show_all(context, options, &leaves);
        return Outcome::Success;
    }
    let mut outcome = Outcome::Success;
    for operand in operands {
        if let Err(failure) = process(context, options, operand) {
            outcome = context.fail(COMMAND.name, failure);
        }
    }
    outcome
}

fn usage(context: &mut Context<'_>) -> Outcome {
    writeln!(context.out, "usage: {} {USAGE}", COMMAND.name);
    Outcome::Failure
}

/// Takes the options off the words, as getopt(3) does: letters may be joined,
/// `--` and the first word without a dash end them. The letter that is no
/// option is the error.
fn parse_options(words: &[String]) -> Result<(Options, &[String]), char> {
    let mut options = Options::default();
    let mut rest = words;
    while let Some((word, behind)) = rest.split_first() {
        let letters = match word.strip_prefix('-') {
            None | Some("") => break,
            Some(letters) => letters,
        };
        rest = behind;
        if letters == "-" {
            break;
        }
        for letter in letters.chars() {
            match letter {
                'a' => options.all = true,
                'd' => options.descriptions = true,
                'N' => options.names_only = true,
                'n' => options.no_names = true,
                _ => return Err(letter),
            }
        }
    }
    Ok((options, rest))
}

/// One operand: a name to show, or a name and the value to write.
fn process<'a>(
    context: &mut Context<'_>,
    options: Options,
    operand: &'a str,
) -> Result<(), Failure<'a>> {
    let system = context.machine.system();
    let (name, value) = match operand.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (operand, None),
    };
    let found = sysctl::lookup(system, name).ok_or(Failure::UnknownOid(name))?;
    match (found, value) {
        (Lookup::Leaf(oid), Some(value)) if !options.descriptions => {
            write_leaf(context, options, &oid, name, value, operand)
        }
        (Lookup::Leaf(oid), _) => {
            show(context, options, &oid).map_err(|errno| Failure::Refused(name, errno))
        }
        (Lookup::Subtree(_), Some(_)) => Err(Failure::NotALeaf(name)),
        (Lookup::Subtree(leaves), None) => {
            show_all(context, options, &leaves);
            Ok(())
        }
    }
}

/// Writes a leaf and prints `NAME: old -> new`, where new is what reading it
/// gives afterwards.
fn write_leaf<'a>(
    context: &mut Context<'_>,
    options: Options,
    oid: &Oid,
    name: &'a str,
    value: &str,
    operand: &'a str,
) -> Result<(), Failure<'a>> {
    let system = context.machine.system();
    let refused = |errno| Failure::Refused(operand, errno);
    if !oid.writable() {
        return Err(Failure::ReadOnly(name));
    }
    let old = oid.read(system).map_err(refused)?;
    oid.write(system, value).map_err(|error| match error {
        WriteError::ReadOnly => Failure::ReadOnly(name),
        WriteError::Refused(errno) => refused(errno),
    })?;
    let new = oid.read(system).map_err(refused)?;
    if options.names_only {
        writeln!(context.out, "{}", oid.name());
    } else if options.no_names {
        writeln!(context.out, "{old} -> {new}");
    } else {
        writeln!(context.out, "{}: {old} -> {new}", oid.name());
    }
    Ok(())
}

/// Shows leaves; those without a value on this machine are passed over.
fn show_all(context: &mut Context<'_>, options: Options, leaves: &[Oid]) {
    for oid in leaves {
        // Nobody asked for this leaf by its name.
        let _ = show(context, options, oid);
    }
}

fn show(context: &mut Context<'_>, options: Options, oid: &Oid) -> Result<(), Errno> {
    let name = oid.name();
    if options.names_only {
        writeln!(context.out, "{name}");
        return Ok(());
    }
    let text = if options.descriptions {
        String::from(oid.description())
    } else {
        oid.read(context.machine.system())?.to_string()
    };
    if options.no_names {
        writeln!(context.out, "{text}");
    } else {
        writeln!(context.out, "{name}: {text}");
    }
    Ok(())
}

#[cfg(test)]
#[path = "cmd_sysctl_tests.rs"]
mod tests;
