//! What a machine starts from: the loader itself, or a disc that leads to it.
//!
//! Under `--firmware pvh` QEMU puts loader and archive into memory. Under
//! `bios` and `uefi` they are on an image of [`crate::image`], in the CD drive,
//! and firmware and GRUB do what they do on a PC: the loader's other door.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::image::{self, MARK, Menu};
use crate::opt::{Firmware, Machine};
use crate::setup;

/// Least memory, in MiB, with which OVMF starts: with 32 it hangs.
const UEFI_MEMORY: u32 = 64;

/// What a machine starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Files that QEMU puts into memory.
    Files {
        /// The loader.
        loader: PathBuf,
        /// The archive; without it the loader gets no module.
        archive: Option<PathBuf>,
    },
    /// A disc in the CD drive.
    Disc {
        /// The image.
        image: PathBuf,
        /// Firmware in the place of QEMU's own BIOS.
        firmware: Option<PathBuf>,
    },
}

impl Medium {
    /// Makes what `machine` starts from; a disc's image goes into `dir`.
    ///
    /// # Errors
    /// The firmware excludes another flag, its files or GRUB are missing and
    /// cannot be installed, or the image cannot be made.
    pub fn prepare(
        machine: &Machine,
        loader: &Path,
        archive: Option<&Path>,
        dir: &Path,
    ) -> Result<Self> {
        check(machine)?;
        let firmware = match machine.firmware {
            Firmware::Pvh => {
                return Ok(Self::Files {
                    loader: loader.to_owned(),
                    archive: archive.map(Path::to_owned),
                });
            }
            Firmware::Bios => None,
            Firmware::Uefi => Some(setup::ovmf()?),
        };
        let image = dir.join("timehands.iso");
        let menu = Menu {
            tunables: &machine.append,
            marked: true,
        };
        image::write(&image, loader, archive, menu)?;
        Ok(Self::Disc { image, firmware })
    }

    /// The byte on COM2 behind which output begins; `None`: at the first.
    pub(crate) fn mark(&self) -> Option<u8> {
        matches!(self, Self::Disc { .. }).then_some(MARK)
    }
}

/// Refuses flags that the firmware would make meaningless.
fn check(machine: &Machine) -> Result<()> {
    match machine.firmware {
        Firmware::Pvh => Ok(()),
        // The host decides when a read from the disc is done, and so how many
        // instructions firmware spends waiting for it.
        _ if machine.icount => {
            bail!("--icount makes every run the same, a disc does not: leave out --firmware")
        }
        Firmware::Uefi if machine.memory < UEFI_MEMORY => {
            bail!("--firmware uefi needs --memory {UEFI_MEMORY} or more")
        }
        Firmware::Bios | Firmware::Uefi => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(firmware: Firmware) -> Machine {
        Machine {
            firmware,
            ..Machine::default()
        }
    }

    #[test]
    fn qemu_takes_the_files_as_they_are() -> Result<()> {
        let nowhere = Path::new("/nonexistent");
        let loader = Path::new("/t/boot");
        let medium = Medium::prepare(&machine(Firmware::Pvh), loader, None, nowhere)?;
        let want = Medium::Files {
            loader: loader.to_owned(),
            archive: None,
        };
        assert_eq!(medium, want, "no image is made");
        assert_eq!(medium.mark(), None, "nothing writes before the kernel");
        Ok(())
    }

    #[test]
    fn counted_time_and_a_disc_exclude_each_other() {
        for firmware in [Firmware::Bios, Firmware::Uefi] {
            let machine = Machine {
                icount: true,
                ..machine(firmware)
            };
            assert!(check(&machine).is_err(), "{firmware:?} was accepted");
        }
        let machine = Machine {
            icount: true,
            ..machine(Firmware::Pvh)
        };
        assert!(check(&machine).is_ok(), "without a disc it is fine");
    }

    #[test]
    fn uefi_does_not_start_in_the_least_memory() {
        for (firmware, works) in [(Firmware::Bios, true), (Firmware::Uefi, false)] {
            let machine = Machine {
                memory: 32,
                ..machine(firmware)
            };
            assert_eq!(check(&machine).is_ok(), works, "{firmware:?} with 32 MiB");
        }
    }
}
