//! Test vectors: cases of formulas with their results, from files.
//!
//! # Background
//!
//! A case states a kind, inputs and the outputs to be expected. They come from
//! outside this code (reports of clocks that went wrong, sources of
//! systems that work), so they catch what a test written beside the code
//! repeats. A file is
//!
//! ```json
//! {"meta": {"format": 1},
//!  "cases": [{"id": "cd-02", "kind": "counter_delta",
//!             "inputs": {"width": 24, "last": 16777215, "now": 0},
//!             "expected": {"delta": 1},
//!             "formula": "for readers", "note": "so is this"}]}
//! ```
//!
//! # Method
//!
//! A [`Kind`] names all its fields and has one function from inputs to
//! outputs. Outputs are computed by the crates under test wherever these have
//! them; only what a *wrong* formula would give is computed here. The outputs
//! are compared with the expected ones as a whole. What is unknown or missing
//! (kind, input, expected field) is a failure that names it, so that
//! nothing passes by being overlooked.
//!
//! # Limits
//!
//! Integers are those of `u64` and `i64`, exactly; none goes through a
//! floating-point number. Kinds whose code does not exist yet are counted by
//! [`is_later`] and told apart from those that passed.

mod arithmetic;
mod case;
mod chips;
mod rules;
mod seconds;
mod watchdog;

use std::path::Path;

use serde_json::{Map, Value};

pub use case::{Case, Failure, Fields, Outputs};

/// What a kind of case looks like and how it is computed.
#[derive(Debug)]
pub struct Kind {
    /// Its name in the file.
    pub name: &'static str,
    /// Every input it can have.
    pub inputs: &'static [&'static str],
    /// Every expected field it can have.
    pub outputs: &'static [&'static str],
    /// From inputs to outputs.
    pub run: fn(&Fields<'_>) -> Result<Outputs, Failure>,
}

/// Kinds that the code under test does not do yet: paravirtual clock, RTC,
/// suspend, clock discipline.
const LATER: &[&str] = &[
    "pvclock",
    "pvclock_seq",
    "pvclock_monotonic",
    "pvclock_wallclock",
    "pvclock_freq",
    "bcd_rtc",
    "resume",
    "ntp_adj",
    "ntp_adj_raw",
    "ntp_readback",
    "ntp_offset_step",
    "adjtime_slew",
];

/// Whether cases of `kind` wait for code that does not exist yet.
#[must_use]
pub fn is_later(kind: &str) -> bool {
    LATER.contains(&kind)
}

/// The kind called `name`, if its code exists.
#[must_use]
pub fn kind(name: &str) -> Option<&'static Kind> {
    [
        arithmetic::KINDS,
        chips::KINDS,
        rules::KINDS,
        seconds::KINDS,
        watchdog::KINDS,
    ]
    .into_iter()
    .flatten()
    .find(|kind| kind.name == name)
}

/// The cases of the file at `path`, each with what is wrong with its form, if
/// anything is.
///
/// # Errors
///
/// A message when there is no such file, or it is not one of cases.
pub fn load(path: &Path) -> Result<Vec<Case>, String> {
    let named = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
    parse(&text).map_err(|error| named(&error))
}

/// The cases of a file with the contents `text`.
///
/// # Errors
///
/// A message when `text` is not a file of cases.
pub fn parse(text: &str) -> Result<Vec<Case>, String> {
    let file: Map<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if let Some(format) = file.get("meta").and_then(|meta| meta.get("format"))
        && format.as_u64() != Some(1)
    {
        return Err(format!("format {format} is unknown"));
    }
    let cases = file
        .get("cases")
        .and_then(Value::as_array)
        .ok_or("no list 'cases'")?;
    Ok(cases.iter().map(Case::new).collect())
}

/// Computes `case` and compares.
///
/// # Errors
///
/// [`Failure`] that names the field at fault, or says what was expected and
/// what came out.
pub fn run(case: &Case) -> Result<(), Failure> {
    let form = case.form()?;
    let kind = kind(&case.kind).ok_or_else(|| Failure::UnknownKind(case.kind.clone()))?;
    form.inputs.only(kind.inputs)?;
    form.expected.only(kind.outputs)?;
    let got = (kind.run)(&form.inputs)?;
    form.expected.compare(&got)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The failure of the only case, which has these inputs and expectations.
    fn failure(kind: &str, inputs: &str, expected: &str) -> String {
        let text = format!(
            r#"{{"cases": [{{"id": "x-1", "kind": "{kind}", "inputs": {inputs}, "expected": {expected}}}]}}"#
        );
        let cases = parse(&text).expect("a file of cases");
        run(&cases[0]).expect_err("a failure").to_string()
    }

    #[test]
    fn a_wrong_expectation_fails_with_both_values() {
        assert_eq!(
            failure(
                "counter_delta",
                r#"{"width": 24, "last": 16777215, "now": 0}"#,
                r#"{"delta": 0}"#
            ),
            r#"expected {"delta":0}, got {"delta":1}"#,
            "the wrap handled one count short"
        );
    }

    #[test]
    fn what_is_unknown_or_missing_is_named() {
        for (kind, inputs, expected, want) in [
            ("tide", "{}", "{}", "unknown kind 'tide'"),
            (
                "generation_next",
                r#"{"generation": 1, "ring": 4}"#,
                r#"{"next": 2}"#,
                "unknown input 'ring'",
            ),
            (
                "generation_next",
                "{}",
                r#"{"next": 2}"#,
                "missing input 'generation'",
            ),
            (
                "generation_next",
                r#"{"generation": 1}"#,
                r#"{"next": 2, "last": 0}"#,
                "unknown expected field 'last'",
            ),
            (
                "generation_next",
                r#"{"generation": 1}"#,
                "{}",
                "missing expected field 'next'",
            ),
            (
                "generation_next",
                r#"{"generation": 1.0}"#,
                r#"{"next": 2}"#,
                "input 'generation' is no u32: 1.0",
            ),
        ] {
            assert_eq!(failure(kind, inputs, expected), want, "{kind} {inputs}");
        }
    }

    #[test]
    fn an_unknown_field_of_a_case_is_named() {
        let cases = parse(
            r#"{"cases": [{"id": "x", "kind": "generation_next", "inputs": {"generation": 1},
                "expected": {"next": 2}, "weight": 3}]}"#,
        )
        .expect("a file of cases");
        assert_eq!(
            run(&cases[0]).map_err(|failure| failure.to_string()),
            Err("unknown field 'weight'".to_owned()),
            "the case is right but for it"
        );
    }

    #[test]
    fn integers_above_2_to_the_53_are_kept_exactly() {
        assert_eq!(
            failure(
                "counter_delta",
                r#"{"width": 64, "last": 1, "now": 18446744073709551615}"#,
                r#"{"delta": 18446744073709551615}"#
            ),
            r#"expected {"delta":18446744073709551615}, got {"delta":18446744073709551614}"#,
            "one apart"
        );
    }

    #[test]
    fn no_kind_is_both_covered_and_not_yet_covered() {
        for name in LATER {
            assert!(kind(name).is_none(), "{name} is computed");
        }
    }
}
