//! The checks that are not tests: format, lints, documentation, `unsafe`.
//!
//! Each crate is linted for the target it runs on, since much of the kernel
//! and the loader is compiled nowhere else.

use std::process::ExitCode;

use anyhow::Result;

use crate::build::OBJECT;
use crate::cargo::{BARE_METAL, Cargo, LINUX};
use crate::opt::Toolchain;
use crate::sysroot::{self, Sysroot};
use crate::tidy;

/// A check that cargo makes.
struct Check {
    name: &'static str,
    cargo: Cargo,
    /// Needs the bare-metal target's `core` as the toolchain's own linter and
    /// documentation tool know it; one compiled by another compiler is no use
    /// to them.
    bare: bool,
}

fn checks() -> Vec<Check> {
    let host = |name, cargo| Check {
        name,
        cargo,
        bare: false,
    };
    let bare = |name, cargo| Check {
        name,
        cargo,
        bare: true,
    };
    let clippy = || Cargo::new("clippy");
    let deny = |cargo: Cargo| cargo.args(["--", "-D", "warnings"]);
    let sim = ["--all-targets", "--features", "timehands-drivers/sim"];
    let doc = || {
        Cargo::new("doc")
            .args(["--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings")
    };
    let loader_and_kernel = |cargo: Cargo| cargo.package("boot").package("kernel");
    let guest = clippy()
        .package(OBJECT)
        .package("programs")
        .for_guest(LINUX);
    vec![
        host("format", Cargo::new("fmt").args(["--all", "--check"])),
        host("lints, host", deny(clippy().args(sim))),
        host(
            "lints, benchmarks",
            deny(clippy().package("timehands-bench").args(["--all-targets"])),
        ),
        host(
            "lints, access trace",
            deny(clippy().package("timehands-timecounter").args([
                "--features",
                "trace",
                "--lib",
                "--example",
                "trace",
            ])),
        ),
        host(
            "lints, kernel on the host",
            deny(loader_and_kernel(clippy()).args(["--lib"])),
        ),
        host("lints, programs", deny(guest)),
        bare(
            "lints, kernel",
            deny(loader_and_kernel(clippy()).for_guest(BARE_METAL)),
        ),
        bare(
            "lints, kernel with faults",
            deny(
                clippy()
                    .package("kernel")
                    .args(["--features", "faults"])
                    .for_guest(BARE_METAL),
            ),
        ),
        host("documentation, host", doc()),
        bare(
            "documentation, kernel",
            loader_and_kernel(doc()).target(BARE_METAL),
        ),
    ]
}

/// Runs every check, even after one has failed.
///
/// # Errors
/// A tool cannot be started. A failed check is in the exit code.
pub fn run(toolchain: &Toolchain) -> Result<ExitCode> {
    let sysroot = sysroot::ensure(toolchain)?;
    let mut failed = Vec::new();
    for check in checks() {
        if check.bare && matches!(sysroot, Sysroot::Debian(_)) {
            eprintln!("== {}: skipped, needs rustup's core", check.name);
            continue;
        }
        eprintln!("== {}: {}", check.name, check.cargo.display());
        if let Err(error) = check.cargo.run() {
            eprintln!("{error:#}");
            failed.push(check.name);
        }
    }
    eprintln!("== unsafe and file headers");
    let findings = tidy::findings()?;
    if !findings.is_empty() {
        eprintln!("{}", findings.join("\n"));
        failed.push("unsafe and file headers");
    }
    if failed.is_empty() {
        println!("all checks passed");
        return Ok(ExitCode::SUCCESS);
    }
    println!("checks failed: {}", failed.join("; "));
    Ok(ExitCode::FAILURE)
}
