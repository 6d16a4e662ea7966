//! `etc/rc`: commands from a file.

use super::commands::Outcome;
use super::machine::Machine;
use super::output::Output;
use super::{NAME, execute};

/// Runs the lines of `text` in their order, all of them, whether or not one
/// fails. Blank lines and comments do nothing.
///
/// Returns [`Outcome::Success`] when every command succeeded. `shutdown` ends
/// the file there and counts as a success. A line that is not UTF-8 is an
/// error, since no name in this system can contain what it says.
pub fn run_rc(text: &[u8], machine: &dyn Machine, out: &mut dyn Output) -> Outcome {
    let mut outcome = Outcome::Success;
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let result = match str::from_utf8(line) {
            Ok(line) => execute(line, machine, out),
            Err(_) => {
                writeln!(out, "{NAME}: {}: not UTF-8", line.escape_ascii());
                Outcome::Failure
            }
        };
        match result {
            Outcome::Success => {}
            Outcome::Failure => outcome = Outcome::Failure,
            Outcome::PowerOff => break,
        }
    }
    outcome
}
