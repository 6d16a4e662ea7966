//! What takes too long for every day: `cargo xtask test long`.

use std::process::ExitCode;

use libtest_mimic::Arguments;
use timehands_tests::{machine, trial, typed};

mod offline;

fn main() -> ExitCode {
    let trials = vec![
        trial("whatever_is_typed_the_prompt_returns", typed_lines),
        trial(
            "without_rusts_server_core_comes_from_debian",
            offline::core_comes_from_debian,
        )
        .with_ignored_flag(!offline::is_debian()),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn typed_lines() -> anyhow::Result<()> {
    typed::generated_lines(&machine()?, 50_000)
}
