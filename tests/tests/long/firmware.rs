//! The image that PCs boot, under QEMU's BIOS and under UEFI.
//!
//! Firmware and GRUB find the loader on a disc and enter it through its other
//! door. What the kernel then makes of the machine must not depend on the way.

use anyhow::{Context, Result, ensure};
use timehands_tests::{LIMIT, built, machine, output};
use xtask::guest::{self, End};
use xtask::opt::{Firmware, Machine};

const FIRMWARE: [Firmware; 2] = [Firmware::Bios, Firmware::Uefi];

fn started_by(firmware: Firmware) -> Result<Machine> {
    Ok(Machine {
        firmware,
        icount: false,
        ..machine()?
    })
}

/// The counters are found and judged alike, and the tunables arrive.
pub(crate) fn same_machine() -> Result<()> {
    let commands = ["sysctl kern.timecounter.choice", "sysctl kern.hz"];
    let print = |firmware| -> Result<String> {
        let mut machine = started_by(firmware)?;
        // A rate that no default is.
        machine.append.push_str(" kern.hz=437");
        output(&machine, &commands).with_context(|| format!("{firmware:?}"))
    };
    let direct = print(Firmware::Pvh)?;
    ensure!(direct.ends_with("\nkern.hz: 437\n"), "pvh:\n{direct}");
    for firmware in FIRMWARE {
        let printed = print(firmware)?;
        ensure!(printed == direct, "{firmware:?}:\n{printed}pvh:\n{direct}");
    }
    Ok(())
}

/// A disc without the archive ends in the loader's line, which the lines of
/// firmware and GRUB before it do not hide.
pub(crate) fn no_module() -> Result<()> {
    for firmware in FIRMWARE {
        let machine = started_by(firmware)?;
        let loader = &built(&machine)?.boot;
        let run = guest::boot_module(loader, &machine, None, LIMIT)?;
        let End::Refused(message) = &run.end else {
            anyhow::bail!("{firmware:?}: {}\n--- log:\n{}", run.end, run.log);
        };
        let said = "no module: ";
        ensure!(message.starts_with(said), "{firmware:?}: {message:?}");
    }
    Ok(())
}
