//! The bootable image: one ISO 9660 file for a CD or a USB stick, for BIOS and
//! for UEFI.
//!
//! `grub-mkrescue` makes it: GRUB in a BIOS and in a UEFI build, a partition
//! table that lets either kind of firmware boot the same bytes from a stick,
//! and three files of ours.
//!
//! | file | what it is |
//! |---|---|
//! | `boot/loader` | the loader, entered through its Multiboot2 header |
//! | `boot/archive.tar` | the initial RAM disk, the one module |
//! | `boot/grub/grub.cfg` | the menu |
//!
//! **Tunables** stand on the menu's `multiboot2` line, where a person at the
//! machine can change them (`e` in GRUB's menu, which Esc shows as GRUB starts);
//! the archive's own `cmdline` is empty.
//!
//! **Terminals.** GRUB talks to the first serial port as the kernel does, and
//! to the screen. Where there is no such port its `serial` command fails, and
//! the menu leaves GRUB on the screen alone.
//!
//! Limits: GRUB's image is not signed, so Secure Boot has to be off.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::debian::quietly;
use crate::guest::scratch;
use crate::opt::{self, Firmware, Machine};
use crate::{archive, build, leash, qemu, setup};

/// Longest that making an image may take; it takes less than a second.
const LIMIT: Duration = Duration::from_secs(120);

/// Byte that a [`marked`](Menu::marked) menu sends to the second serial port:
/// ASCII's record separator, which no terminal sequence contains.
pub(crate) const MARK: u8 = 0x1e;

/// What GRUB is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Menu<'a> {
    /// Words for the loader's command line.
    pub tunables: &'a str,
    /// Send [`MARK`] to the second serial port before the loader starts, and
    /// nothing after it. UEFI firmware and GRUB's `console` under it write to
    /// every serial port they find.
    pub marked: bool,
}

/// Builds everything and writes the image that `options` describes.
///
/// # Errors
/// A tool is missing, a build fails, the tunables cannot pass through GRUB, or
/// the image cannot be written.
pub fn run(options: &opt::Image) -> Result<()> {
    let machine = Machine {
        append: options.append.clone(),
        add: options.add.clone(),
        firmware: Firmware::Bios,
        toolchain: options.toolchain.clone(),
        ..Machine::default()
    };
    let default = || crate::target_dir().join("timehands.iso");
    let out = options.out.clone().unwrap_or_else(default);
    ensure!(
        out.is_file() || !out.exists(),
        "{} is no file; write the image to one, and that to a device",
        out.display()
    );
    let menu = Menu {
        tunables: &machine.append,
        marked: false,
    };
    menu.check()?;
    setup::grub()?;
    let built = build::all(&machine.toolchain, machine.faults)?;
    let dir = scratch()?;
    let archive = dir.path().join("archive.tar");
    archive::write(fs::File::create(&archive)?, &built, &machine, None)?;
    write(&out, &built.boot, Some(&archive), menu)?;
    println!("{}", out.display());
    eprintln!(
        "To a USB stick, replacing all that is on it: \
         dd if={} of=/dev/sdX bs=4M conv=fsync\n\
         Secure Boot has to be off. The console is COM1, 115200 baud.",
        out.display()
    );
    Ok(())
}

/// Writes an image to `out`. Without an `archive` the loader gets no module.
///
/// # Errors
/// As [`run`].
pub(crate) fn write(
    out: &Path,
    loader: &Path,
    archive: Option<&Path>,
    menu: Menu<'_>,
) -> Result<()> {
    let mkrescue = setup::grub()?;
    let dir = scratch()?;
    let boot = dir.path().join("boot");
    fs::create_dir_all(boot.join("grub"))?;
    place(loader, &boot.join("loader"))?;
    if let Some(archive) = archive {
        place(archive, &boot.join("archive.tar"))?;
    }
    fs::write(boot.join("grub/grub.cfg"), menu.text(archive.is_some())?)?;
    // A writer that fails half-way leaves the image of before as it was.
    let mut part = out.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let mut tool = leash::batch(mkrescue, LIMIT);
    // Fonts, translations and themes are half of GRUB, for a menu never seen.
    tool.args(["--fonts=", "--locales=", "--themes=", "-o"])
        .args([part.as_path(), dir.path()]);
    quietly(mkrescue, &mut tool)?;
    fs::rename(&part, out).with_context(|| format!("cannot write {}", out.display()))
}

fn place(file: &Path, to: &Path) -> Result<()> {
    fs::copy(file, to).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(())
}

impl Menu<'_> {
    /// Refuses tunables that GRUB would hand on changed: it puts a backslash
    /// before quotes and backslashes.
    ///
    /// # Errors
    /// Such a character, or one that is not printable ASCII.
    fn check(self) -> Result<()> {
        let changed = |c: char| !(c.is_ascii_graphic() || c == ' ') || r#"'"\"#.contains(c);
        if let Some(bad) = self.tunables.trim().chars().find(|&c| changed(c)) {
            anyhow::bail!("the tunables hold {bad:?}, which GRUB does not hand on as it is");
        }
        Ok(())
    }

    /// The menu file.
    fn text(self, archive: bool) -> Result<String> {
        self.check()?;
        let mut lines = vec![
            "set timeout=0",
            "set timeout_style=hidden",
            "if serial --unit=0 --speed=115200; then",
            "  terminal_input serial console",
            "  terminal_output serial console",
            "fi",
            "menuentry \"Timehands\" {",
        ];
        // Between single quotes GRUB takes everything as it is, as a shell does.
        let words: Vec<String> = self
            .tunables
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let loader = format!("  multiboot2 /boot/loader {}", qemu::shown(&words));
        lines.push(loader.trim_end());
        lines.extend(archive.then_some("  module2 /boot/archive.tar archive"));
        let mark = format!("  outb 0x2f8 {MARK:#x}");
        if self.marked {
            lines.extend(["  terminal_output serial", &mark]);
        }
        lines.extend(["  boot", "}", ""]);
        Ok(lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn menu(tunables: &str) -> Menu<'_> {
        Menu {
            tunables,
            marked: false,
        }
    }

    #[test]
    fn the_menu_boots_the_loader_with_the_archive_at_once() -> Result<()> {
        let want = "set timeout=0
set timeout_style=hidden
if serial --unit=0 --speed=115200; then
  terminal_input serial console
  terminal_output serial console
fi
menuentry \"Timehands\" {
  multiboot2 /boot/loader kern.hz=100 kern.smp.disabled=1
  module2 /boot/archive.tar archive
  boot
}
";
        let text = menu(" kern.hz=100  kern.smp.disabled=1\n").text(true)?;
        assert_eq!(text, want, "the whole file");
        Ok(())
    }

    #[test]
    fn without_tunables_and_archive_there_is_the_loader_alone() -> Result<()> {
        let text = menu("").text(false)?;
        assert!(
            text.contains("  multiboot2 /boot/loader\n  boot\n"),
            "{text}"
        );
        Ok(())
    }

    #[test]
    fn the_mark_comes_last_and_the_firmwares_console_is_off_by_then() -> Result<()> {
        let menu = Menu {
            marked: true,
            ..menu("")
        };
        let text = menu.text(true)?;
        let end = "archive\n  terminal_output serial\n  outb 0x2f8 0x1e\n  boot\n}\n";
        assert!(text.ends_with(end), "{text}");
        Ok(())
    }

    #[test]
    fn grubs_own_characters_reach_the_loader_as_they_are() -> Result<()> {
        let text = menu("a=$x;{b} c=#1&|<>").text(true)?;
        assert!(
            text.contains("/boot/loader 'a=$x;{b}' 'c=#1&|<>'\n"),
            "{text}"
        );
        Ok(())
    }

    #[test]
    fn tunables_that_grub_would_change_are_refused() {
        for bad in ["a=\"1\"", "a='", "a=\\", "a=1\nboot", "a=\u{e9}"] {
            assert!(menu(bad).text(true).is_err(), "{bad:?} was accepted");
        }
    }
}
