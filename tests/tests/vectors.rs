//! Runs every case of `tests/vectors/*.json`, and of the file that the
//! environment variable `TIMEHANDS_VECTORS` names, as one test each.
//!
//! A failing case prints one line: its id, what was expected, what came out.
//! Cases whose code does not exist yet are listed by kind, as ignored.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use timehands_tests::vectors;

/// Names one more file of cases.
const EXTRA_FILE: &str = "TIMEHANDS_VECTORS";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    let mut later = BTreeMap::new();
    match files() {
        Ok(files) => {
            for file in files {
                collect(&file, &mut trials, &mut later);
            }
        }
        Err(message) => trials.push(failing("vectors", message)),
    }
    trials.extend(later.into_iter().map(|(kind, count)| {
        let name = format!("not yet covered: {kind} ({count} cases)");
        Trial::test(name, || Err("no code computes this kind".into())).with_ignored_flag(true)
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The project's files in the order of their names, then the extra one.
fn files() -> Result<Vec<PathBuf>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let describe = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(describe)? {
        let path = entry.map_err(describe)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(format!("{}: no vectors", folder.display()));
    }
    files.sort();
    files.extend(std::env::var_os(EXTRA_FILE).map(PathBuf::from));
    Ok(files)
}

/// Adds a test for each case of `file` that can be computed, and counts the
/// others by kind.
fn collect(file: &Path, trials: &mut Vec<Trial>, later: &mut BTreeMap<String, usize>) {
    let cases = match vectors::load(file) {
        Ok(cases) => cases,
        Err(message) => return trials.push(failing(&file.display().to_string(), message)),
    };
    for case in cases {
        if vectors::is_later(&case.kind) {
            *later.entry(case.kind).or_default() += 1;
            continue;
        }
        let name = format!("{}::{}", case.kind, case.id);
        trials.push(Trial::test(name, move || {
            vectors::run(&case).map_err(|failure| format!("{}: {failure}", case.id).into())
        }));
    }
}

/// A test that stands for what could not be read.
fn failing(name: &str, message: String) -> Trial {
    Trial::test(name, || Err(message.into()))
}
