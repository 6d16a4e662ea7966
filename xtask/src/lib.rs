//! Every action a person takes on this repository.
//!
//! The binary is the command line (`cargo xtask VERB`); this library is what
//! the verbs are made of, so that the tests in `tests/` boot the same machine
//! the same way.
//!
//! | module | its job |
//! |---|---|
//! | [`opt`], [`machine`] | the command line |
//! | [`cargo`] | one cargo invocation, described and run |
//! | [`build`] | the loader, the kernel, the vDSO object and the programs |
//! | [`sysroot`], [`debian`] | the bare-metal target's `core` library |
//! | [`setup`] | what must be on the machine first |
//! | [`archive`] | the initial RAM disk |
//! | [`image`] | the image that PCs boot |
//! | [`medium`] | what a machine starts from: files in memory, or that image |
//! | [`qemu`] | the machine, as QEMU's command line |
//! | [`guest`], [`end`] | one boot: run commands, collect their output, judge the end |
//! | `tail` | a serial port's file, read as it grows |
//! | [`leash`] | child processes that outlive neither a deadline nor us |
//! | [`mod@test`], [`tally`] | all tests, and the one closing line |
//! | [`sim`] | machines larger than the host, simulated |
//! | [`ci`], [`tidy`] | the checks that are not tests |
#![forbid(unsafe_code)]

pub mod archive;
pub mod build;
pub mod cargo;
pub mod ci;
pub mod debian;
pub mod end;
pub mod guest;
pub mod image;
pub mod leash;
pub mod machine;
pub mod medium;
pub mod opt;
pub mod qemu;
pub mod setup;
pub mod sim;
pub mod sysroot;
mod tail;
pub mod tally;
pub mod test;
pub mod tidy;

use std::path::{Path, PathBuf};

/// The repository's top folder.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where builds and everything fetched for them go: `CARGO_TARGET_DIR`, or
/// `target` in [`root`].
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) if !dir.is_empty() => root().join(dir),
        _ => root().join("target"),
    }
}
