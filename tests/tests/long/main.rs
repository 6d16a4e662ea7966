//! What takes too long for every day: `cargo xtask test long`.

use std::process::ExitCode;

use libtest_mimic::Arguments;
use timehands_tests::{machine, trial, typed};

mod firmware;
mod offline;
mod processors;

fn main() -> ExitCode {
    let trials = vec![
        trial("whatever_is_typed_the_prompt_returns", typed_lines),
        trial(
            "bios_and_uefi_start_the_same_machine",
            firmware::same_machine,
        ),
        trial(
            "a_disc_without_the_archive_is_told_apart",
            firmware::no_module,
        ),
        trial("sixty_four_processors_read_all_clocks", || {
            processors::read_all_clocks(64)
        }),
        trial("two_hundred_and_fifty_five_processors_do_too", || {
            processors::read_all_clocks(255)
        }),
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
