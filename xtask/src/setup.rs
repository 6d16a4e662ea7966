//! What must be on the machine before anything boots.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::debian::{is_root, quietly};
use crate::leash;
use crate::opt::Toolchain;
use crate::sysroot::{self, Sysroot};

/// The emulator's program.
pub const QEMU: &str = "qemu-system-x86_64";

/// Longest one call of apt may take.
const APT_LIMIT: Duration = Duration::from_secs(900);

/// Provides QEMU and the target's core library, and says what it found.
///
/// # Errors
/// Something is missing and cannot be fetched here; the message says what to
/// install.
pub fn run(toolchain: &Toolchain) -> Result<()> {
    qemu()?;
    let version = Command::new(QEMU).arg("--version").output()?.stdout;
    let version = String::from_utf8_lossy(&version);
    println!("emulator: {}", version.lines().next().unwrap_or(QEMU));
    match sysroot::ensure(toolchain)? {
        Sysroot::Installed => println!("core: the toolchain's own"),
        Sysroot::Debian(unpacked) => println!("core: {}", unpacked.root.display()),
    }
    Ok(())
}

/// Makes sure that QEMU is there.
///
/// # Errors
/// It is missing, and this machine does not let us install it.
pub fn qemu() -> Result<()> {
    if leash::find(QEMU) {
        return Ok(());
    }
    if !is_root() || !leash::find("apt-get") {
        bail!(
            "{QEMU} is not installed. It is in the package qemu-system-x86 (Debian, Ubuntu), \
             qemu-system-x86-core (Fedora) or qemu-system-x86 (Arch)."
        );
    }
    eprintln!("setup: apt-get install qemu-system-x86");
    if install().is_err() {
        // The usual reason is a package list that is missing or too old.
        quietly(
            "apt-get update",
            leash::batch("apt-get", APT_LIMIT).args(["-q", "update"]),
        )?;
        install()?;
    }
    if !leash::find(QEMU) {
        bail!("the package qemu-system-x86 did not bring {QEMU}");
    }
    Ok(())
}

fn install() -> Result<()> {
    let mut apt = leash::batch("apt-get", APT_LIMIT);
    apt.args([
        "-q",
        "-y",
        "--no-install-recommends",
        "install",
        "qemu-system-x86",
    ]);
    quietly(
        "apt-get install",
        apt.env("DEBIAN_FRONTEND", "noninteractive"),
    )
}
