//! Where the bare-metal target's `core` comes from.
//!
//! The compiler that is installed knows the target, but needs `core` and
//! `alloc` compiled for it. Three places are tried, the cheapest first:
//!
//! 1. the toolchain already has them;
//! 2. `rustup target add` fetches them;
//! 3. on Debian, they are compiled from the source that Debian ships, with the
//!    compiler that Debian ships for it (see [`debian`]).
//!
//! The third serves machines that reach a package mirror but not Rust's
//! distribution server.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cargo::BARE_METAL;
use crate::debian::{self, Unpacked};
use crate::leash;
use crate::opt::{Core, Toolchain};

/// Longest `rustup target add` may take. The component has about 10 MB; an
/// unreachable server is given up on well before.
const RUSTUP_LIMIT: Duration = Duration::from_secs(300);

/// A usable `core` for the bare-metal target.
#[derive(Clone, Debug)]
pub enum Sysroot {
    /// In the toolchain itself.
    Installed,
    /// To be compiled from Debian's packages.
    Debian(Unpacked),
}

impl Sysroot {
    /// What to add to a cargo command's arguments.
    pub fn args(&self) -> &'static [&'static str] {
        match self {
            Self::Installed => &[],
            Self::Debian(_) => debian::BUILD_ARGS,
        }
    }

    /// What to add to its environment.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        match self {
            Self::Installed => Vec::new(),
            Self::Debian(unpacked) => unpacked.env(),
        }
    }
}

/// Finds `core` for the target, and fetches it if it must.
///
/// # Errors
/// None of the allowed places has it; the message says what to install.
pub fn ensure(toolchain: &Toolchain) -> Result<Sysroot> {
    match toolchain.core {
        Some(Core::Rustup) => rustup().map(|()| Sysroot::Installed),
        Some(Core::Debian) => Ok(Sysroot::Debian(debian::ensure()?)),
        None => first_that_works(),
    }
}

fn first_that_works() -> Result<Sysroot> {
    if installed()? {
        return Ok(Sysroot::Installed);
    }
    if let Some(unpacked) = debian::present()? {
        return Ok(Sysroot::Debian(unpacked));
    }
    let by_rustup = match rustup() {
        Ok(()) => return Ok(Sysroot::Installed),
        Err(error) => error,
    };
    eprintln!("setup: {by_rustup:#}; trying Debian's packages");
    match debian::ensure() {
        Ok(unpacked) => Ok(Sysroot::Debian(unpacked)),
        Err(by_debian) => bail!(
            "no core library for {BARE_METAL}. Either of these provides it:\n  \
             rustup target add {BARE_METAL}   ({by_rustup:#})\n  \
             a Debian with the packages {}   ({by_debian:#})",
            debian::PACKAGES.join(", "),
        ),
    }
}

/// Whether the toolchain in use has `core` for the target.
fn installed() -> Result<bool> {
    let dir = rustc(&["--print", "target-libdir", "--target", BARE_METAL])?;
    let Ok(entries) = std::fs::read_dir(&dir) else {
        return Ok(false);
    };
    let mut names = entries.flatten().map(|entry| entry.file_name());
    Ok(names.any(|name| name.to_string_lossy().starts_with("libcore-")))
}

fn rustup() -> Result<()> {
    if installed()? {
        return Ok(());
    }
    if !leash::find("rustup") {
        bail!("rustup is not installed");
    }
    eprintln!("setup: rustup target add {BARE_METAL}");
    let mut command = leash::batch("rustup", RUSTUP_LIMIT);
    command
        .args(["target", "add", BARE_METAL])
        .current_dir(crate::root());
    let status = command.stdout(std::io::stderr()).status()?;
    if !status.success() || !installed()? {
        bail!("rustup could not add the target");
    }
    Ok(())
}

/// What the compiler in use prints for `args`.
///
/// # Errors
/// There is no compiler, or it refuses.
pub(crate) fn rustc(args: &[&str]) -> Result<String> {
    let rustc = std::env::var_os("RUSTC").map_or_else(|| "rustc".into(), PathBuf::from);
    let output = Command::new(&rustc)
        .args(args)
        .current_dir(crate::root())
        .output()
        .with_context(|| format!("cannot run {}", rustc.display()))?;
    if !output.status.success() {
        bail!("rustc: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
