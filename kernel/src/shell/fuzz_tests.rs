//! The shell and the tree under lines that nobody would type.
//!
//! The lines are those that are typed at the real shell in the guest; here,
//! against a fake system, there is time for more of them, and it can be seen
//! that a write that failed has changed nothing.

use super::fake::FakeMachine;
use super::{Outcome, Session, execute};
use alloc::string::String;
use lines::{Catalogue, Kind, Lines};

#[expect(unreachable_pub, reason = "a library's module, compiled in place")]
#[path = "../../../tests/src/lines.rs"]
mod lines;

/// Enough to meet every base line with every mutation several times.
const COUNT: usize = 100_000;

/// Any fixed number; a failure names it and the line.
const SEED: u64 = 0x7131_e4a4_d500_0002;

fn catalogue(machine: &FakeMachine) -> Catalogue {
    let output = |line| {
        let mut out = String::new();
        let outcome = execute(line, machine, &mut out);
        assert_eq!(outcome, Outcome::Success, "{line} works");
        out
    };
    Catalogue::new(&output("help"), &output("sysctl -a"))
}

#[test]
fn a_write_that_fails_changes_nothing_and_a_valid_one_succeeds() {
    let machine = FakeMachine::default();
    let lines = Lines::new(SEED, catalogue(&machine));
    std::println!("seed {SEED:#x}");
    for (number, (kind, line)) in lines.take(COUNT).enumerate() {
        let Ok(text) = str::from_utf8(&line) else {
            continue;
        };
        let before = machine.system.state();
        let mut out = String::new();
        let outcome = execute(text, &machine, &mut out);
        let shown = line.escape_ascii();
        assert_ne!(outcome, Outcome::PowerOff, "line {number}: {shown}");
        if kind == Kind::ValidWrite {
            assert_eq!(outcome, Outcome::Success, "line {number}: {shown}: {out}");
        }
        if outcome == Outcome::Failure {
            // Of several operands some may have been written; they are shown.
            let written = out.contains(" -> ");
            let unchanged = machine.system.state() == before;
            assert!(
                written || unchanged,
                "line {number} changed: {shown}: {out}"
            );
        }
    }
}

#[test]
fn the_prompt_always_returns() {
    let machine = FakeMachine::default();
    let lines = Lines::new(SEED, catalogue(&machine));
    let mut out = String::new();
    let mut session = Session::new(&mut out);
    for (number, (_, line)) in lines.take(COUNT).enumerate() {
        out.clear();
        // A key without meaning first: it ends a sequence left open, which
        // would otherwise take the Enter for its own.
        for byte in line.iter().chain(b"\x18\r") {
            let going_on = session.byte(*byte, &machine, &mut out);
            assert!(going_on, "line {number}: {}", line.escape_ascii());
        }
        assert!(
            out.ends_with("timehands> "),
            "line {number}: {}: {out:?}",
            line.escape_ascii()
        );
    }
}
