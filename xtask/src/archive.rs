//! The initial RAM disk: one ustar archive.
//!
//! | entry | what it is |
//! |---|---|
//! | `kernel` | the kernel's ELF file, which the loader takes out |
//! | `cmdline` | the tunables, one line; empty where GRUB passes them |
//! | `etc/rc` | shell commands to run after boot, one a line; absent: the shell is interactive |
//! | `bin/NAME` | programs |
//! | `lib/linux-vdso.so.1` | the shared object that the kernel maps into programs |
//!
//! The bytes depend on the contents alone (fixed owner, mode and time), since
//! runs under `--icount` must not differ by when the archive was made.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, elf};

use crate::build::Built;
use crate::opt::{Added, Firmware, Machine};

/// Writes the archive for `machine`, with `commands` as `etc/rc` if given.
///
/// # Errors
/// A file cannot be read, the archive cannot be written, or an added file is
/// no static x86-64 program.
pub fn write(
    out: impl Write,
    built: &Built,
    machine: &Machine,
    commands: Option<&[String]>,
) -> Result<()> {
    let mut archive = tar::Builder::new(out);
    add_file(&mut archive, "kernel", &built.kernel)?;
    let tunables = match machine.firmware {
        Firmware::Pvh => machine.append.trim(),
        Firmware::Bios | Firmware::Uefi => "",
    };
    add(&mut archive, "cmdline", format!("{tunables}\n").as_bytes())?;
    if let Some(commands) = commands {
        let mut rc = commands.join("\n");
        rc.push('\n');
        add(&mut archive, "etc/rc", rc.as_bytes())?;
    }
    for program in &built.programs {
        add_file(
            &mut archive,
            &format!("bin/{}", program.name),
            &program.path,
        )?;
    }
    for added in &machine.add {
        add(
            &mut archive,
            &format!("bin/{}", added.name),
            &program(added)?,
        )?;
    }
    add_file(&mut archive, "lib/linux-vdso.so.1", &built.object)?;
    archive.finish()?;
    Ok(())
}

/// The bytes of a program to be added.
///
/// # Errors
/// It cannot be read, or the guest's program loader would refuse it.
pub fn program(Added { file, .. }: &Added) -> Result<Vec<u8>> {
    let data = read(file)?;
    check_static(&data).with_context(|| format!("{} cannot run there", file.display()))?;
    Ok(data)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

fn add_file<W: Write>(archive: &mut tar::Builder<W>, name: &str, file: &Path) -> Result<()> {
    add(archive, name, &read(file)?)
}

fn add<W: Write>(archive: &mut tar::Builder<W>, name: &str, data: &[u8]) -> Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(data.len() as u64);
    header.set_mode(0o755);
    header.set_mtime(0);
    archive.append_data(&mut header, name, data)?;
    Ok(())
}

/// Refuses what the guest's program loader would refuse after a whole boot.
fn check_static(data: &[u8]) -> Result<()> {
    let file = ElfFile64::<Endianness>::parse(data).context("no 64-bit ELF file")?;
    let endian = file.endian();
    let header = file.elf_header();
    ensure!(header.e_machine(endian) == elf::EM_X86_64, "not for x86-64");
    let interpreter = |segment: &&elf::ProgramHeader64<_>| segment.p_type(endian) == elf::PT_INTERP;
    if file
        .elf_program_headers()
        .iter()
        .any(|segment| interpreter(&segment))
    {
        bail!("it needs shared libraries: link it statically");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::Artifact;
    use std::collections::BTreeMap;
    use std::io::Read;

    /// An archive of small files with recognizable contents, read back.
    fn entries(
        machine: &Machine,
        commands: Option<&[String]>,
    ) -> Result<BTreeMap<String, Vec<u8>>> {
        let dir = tempfile::tempdir()?;
        let file = |name: &str| -> Result<std::path::PathBuf> {
            let path = dir.path().join(name);
            fs::write(&path, name)?;
            Ok(path)
        };
        let built = Built {
            boot: file("boot")?,
            kernel: file("kernel")?,
            object: file("object")?,
            programs: vec![Artifact {
                name: "prog".to_owned(),
                path: file("prog")?,
            }],
        };
        let mut bytes = Vec::new();
        write(&mut bytes, &built, machine, commands)?;
        let mut found = BTreeMap::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries()? {
            let mut entry = entry?;
            let name = entry.path()?.display().to_string();
            let mut data = Vec::new();
            entry.read_to_end(&mut data)?;
            found.insert(name, data);
        }
        Ok(found)
    }

    #[test]
    fn the_archive_has_what_the_loader_and_the_kernel_look_for() -> Result<()> {
        let machine = Machine {
            append: "kern.hz=100".to_owned(),
            ..Machine::default()
        };
        let commands = ["help".to_owned(), "sysctl -a".to_owned()];
        let found = entries(&machine, Some(&commands))?;
        let want: [(&str, &[u8]); 5] = [
            ("bin/prog", b"prog"),
            ("cmdline", b"kern.hz=100\n"),
            ("etc/rc", b"help\nsysctl -a\n"),
            ("kernel", b"kernel"),
            ("lib/linux-vdso.so.1", b"object"),
        ];
        let want = want.map(|(name, data)| (name.to_owned(), data.to_vec()));
        assert_eq!(found, BTreeMap::from(want), "entries");
        Ok(())
    }

    #[test]
    fn an_interactive_boot_has_no_command_file() -> Result<()> {
        let found = entries(&Machine::default(), None)?;
        assert!(!found.contains_key("etc/rc"), "etc/rc is there");
        Ok(())
    }

    #[test]
    fn tunables_that_grub_passes_are_not_in_the_archive_too() -> Result<()> {
        let machine = Machine {
            append: "kern.hz=100".to_owned(),
            firmware: Firmware::Bios,
            ..Machine::default()
        };
        let found = entries(&machine, None)?;
        assert_eq!(found.get("cmdline"), Some(&b"\n".to_vec()), "cmdline");
        Ok(())
    }

    #[test]
    fn what_cannot_run_in_the_guest_is_refused_before_it_boots() {
        assert!(
            check_static(b"#!/bin/sh\n").is_err(),
            "a script was accepted"
        );
        let own = std::env::current_exe()
            .and_then(fs::read)
            .unwrap_or_default();
        let refusal = check_static(&own).map_err(|error| error.to_string());
        assert!(
            refusal
                .as_ref()
                .is_err_and(|text| text.contains("statically")),
            "this test program is dynamic, but: {refusal:?}"
        );
    }
}
