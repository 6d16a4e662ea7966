//! Setup on a machine that reaches Debian's mirror but not Rust's server.
//!
//! Such a machine is made from this one without touching it: a rustup home of
//! its own, in a temporary folder, whose toolchain has everything of the real
//! one but the bare-metal target. Files are linked, not copied, unless rustup
//! might rewrite them. Nothing is ever removed from the copy, so that no link
//! in it can lead a removal to the original.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use xtask::cargo::BARE_METAL;
use xtask::leash;

/// Larger files are compilers and libraries, which rustup only replaces.
const REWRITABLE: u64 = 1 << 20;

/// Nothing listens at the discard port.
const UNREACHABLE: &str = "http://127.0.0.1:9";

/// Whether this machine has apt, and rustup to be kept from its server.
pub(crate) fn is_debian() -> bool {
    ["apt-get", "dpkg-deb", "rustup"]
        .iter()
        .all(|tool| leash::find(tool))
}

/// `setup` falls back to Debian's packages, and what it sets up boots.
pub(crate) fn core_comes_from_debian() -> Result<()> {
    let dir = tempfile::tempdir_in(xtask::target_dir())?;
    let toolchain = active_toolchain()?;
    let home = dir.path().join("rustup");
    copy(&real_sysroot()?, &home.join("toolchains").join(&toolchain))?;
    fs::write(
        home.join("settings.toml"),
        "version = \"12\"\nprofile = \"minimal\"\n",
    )?;

    let xtask = |arguments: &[&str]| -> Result<(bool, String, String)> {
        // The proxies, not the toolchain that runs this test.
        let output = Command::new("cargo")
            .args(["xtask"])
            .args(arguments)
            .current_dir(xtask::root())
            .env("RUSTUP_HOME", &home)
            .env("RUSTUP_DIST_SERVER", UNREACHABLE)
            .env("RUSTUP_TOOLCHAIN", &toolchain)
            .env("CARGO_TARGET_DIR", dir.path().join("target"))
            .env("PATH", proxies_first())
            .env_remove("RUSTUP_AUTO_INSTALL")
            .env_remove("CARGO")
            .env_remove("RUSTC")
            .output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((
            output.status.success(),
            text(&output.stdout),
            text(&output.stderr),
        ))
    };

    let (ended_well, stdout, stderr) = xtask(&["setup"])?;
    ensure!(ended_well, "setup failed:\n{stderr}");
    ensure!(
        stderr.contains("rustup could not add the target"),
        "rustup added it:\n{stderr}"
    );
    ensure!(
        stdout.contains("debian-core"),
        "core is from elsewhere:\n{stdout}"
    );

    let (ended_well, stdout, stderr) = xtask(&["exec", "--timeout", "120", "sysctl -n kern.hz"])?;
    ensure!(
        ended_well,
        "the kernel built with it does not run:\n{stderr}"
    );
    ensure!(
        stdout.trim().parse::<u32>().is_ok(),
        "kern.hz is {stdout:?}"
    );
    Ok(())
}

fn active_toolchain() -> Result<String> {
    let output = Command::new("rustup")
        .args(["show", "active-toolchain"])
        .current_dir(xtask::root())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = text
        .split_whitespace()
        .next()
        .context("rustup names no toolchain")?;
    Ok(name.to_owned())
}

/// The toolchain's real folder: the one rustup knows may be a link.
fn real_sysroot() -> Result<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .current_dir(xtask::root())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(fs::canonicalize(text.trim())?)
}

/// `PATH` with cargo's folder in front, where rustup keeps its proxies.
fn proxies_first() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let dirs = std::iter::once(cargo.join("bin")).chain(std::env::split_paths(&path));
    std::env::join_paths(dirs).unwrap_or_default()
}

/// Links a toolchain's folder, but for the bare-metal target and the manuals.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name();
        if name == "share" || name.to_string_lossy().contains(BARE_METAL) {
            continue;
        }
        let (source, target) = (entry.path(), to.join(&name));
        let metadata = fs::metadata(&source)?;
        if metadata.is_dir() {
            copy(&source, &target)?;
        } else if metadata.len() < REWRITABLE {
            fs::write(
                &target,
                without_target(&fs::read(&source)?, &name.to_string_lossy()),
            )?;
            fs::set_permissions(&target, metadata.permissions())?;
        } else if fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

/// Rustup's own records, less the bare-metal target; other files as they are.
fn without_target(data: &[u8], name: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(data);
    match name {
        "components" => {
            let lines = text.lines().filter(|line| !line.contains(BARE_METAL));
            lines
                .map(|line| format!("{line}\n"))
                .collect::<String>()
                .into_bytes()
        }
        "multirust-config.toml" => {
            let parts = text.split("\n[[").filter(|part| !part.contains(BARE_METAL));
            parts.collect::<Vec<_>>().join("\n[[").into_bytes()
        }
        _ => data.to_vec(),
    }
}
