//! What must be on the machine before anything boots.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::debian::{is_root, quietly};
use crate::leash;
use crate::opt::{Firmware, Machine, Toolchain};
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

/// Provides all that `machine` needs to boot.
///
/// # Errors
/// Something is missing, and this machine does not let us install it.
pub fn machine(machine: &Machine) -> Result<()> {
    qemu()?;
    match machine.firmware {
        Firmware::Pvh => Ok(()),
        Firmware::Bios => grub().map(drop),
        Firmware::Uefi => grub().and_then(|_| ovmf()).map(drop),
    }
}

/// Makes sure that QEMU is there.
///
/// # Errors
/// It is missing, and this machine does not let us install it.
pub fn qemu() -> Result<()> {
    let emulator = Need {
        what: QEMU,
        debian: &["qemu-system-x86"],
        elsewhere: "qemu-system-x86-core (Fedora) or qemu-system-x86 (Arch)",
    };
    emulator.provide(|| leash::find(QEMU).then_some(()))
}

/// Makes sure that bootable images can be made; the program that makes them.
///
/// # Errors
/// As [`qemu`].
pub fn grub() -> Result<&'static str> {
    let tools = Need {
        what: "GRUB's image maker, for BIOS and for UEFI,",
        debian: &[
            "grub-common",
            "grub-pc-bin",
            "grub-efi-amd64-bin",
            "xorriso",
            "mtools",
        ],
        elsewhere: "grub2-tools-extra, grub2-pc-modules, grub2-efi-x64-modules, xorriso \
                    and mtools (Fedora) or grub, libisoburn and mtools (Arch)",
    };
    tools.provide(|| {
        // Without one of the builds grub-mkrescue makes an image that boots
        // under the other alone, and says nothing.
        let built = |platform: &&str| {
            let module = format!("/usr/lib/grub/{platform}/multiboot2.mod");
            Path::new(&module).is_file()
        };
        let complete = ["i386-pc", "x86_64-efi"].iter().all(built)
            && leash::find("xorriso")
            && leash::find("mformat");
        let maker = ["grub-mkrescue", "grub2-mkrescue"];
        maker.into_iter().find(|name| complete && leash::find(name))
    })
}

/// Makes sure that UEFI firmware for QEMU is there; its file.
///
/// # Errors
/// As [`qemu`].
pub fn ovmf() -> Result<PathBuf> {
    let firmware = Need {
        what: "OVMF in one file",
        debian: &["ovmf"],
        elsewhere: "edk2-ovmf (Arch)",
    };
    firmware.provide(|| {
        let places = ["/usr/share/ovmf/OVMF.fd", "/usr/share/edk2/x64/OVMF.4m.fd"];
        places.map(PathBuf::from).into_iter().find(|p| p.is_file())
    })
}

/// Something from the distribution's packages.
struct Need {
    what: &'static str,
    /// Its packages in Debian and Ubuntu.
    debian: &'static [&'static str],
    /// Its packages in other distributions, in words.
    elsewhere: &'static str,
}

impl Need {
    /// Returns what `find` finds, at once or after an installation.
    fn provide<T>(&self, find: impl Fn() -> Option<T>) -> Result<T> {
        if let Some(found) = find() {
            return Ok(found);
        }
        let packages = self.debian.join(" ");
        if !is_root() || !leash::find("apt-get") {
            let Self {
                what, elsewhere, ..
            } = self;
            bail!("{what} is not installed. Packages: {packages} (Debian, Ubuntu), {elsewhere}.");
        }
        eprintln!("setup: apt-get install {packages}");
        if install(self.debian).is_err() {
            // The usual reason is a package list that is missing or too old.
            quietly(
                "apt-get update",
                leash::batch("apt-get", APT_LIMIT).args(["-q", "update"]),
            )?;
            install(self.debian)?;
        }
        find().with_context(|| format!("{packages} did not bring {}", self.what))
    }
}

fn install(packages: &[&str]) -> Result<()> {
    let mut apt = leash::batch("apt-get", APT_LIMIT);
    apt.args(["-q", "-y", "--no-install-recommends", "install"])
        .args(packages);
    quietly(
        "apt-get install",
        apt.env("DEBIAN_FRONTEND", "noninteractive"),
    )
}
