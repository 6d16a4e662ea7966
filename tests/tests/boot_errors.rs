//! What the loader does with something other than the archive it expects: one
//! line that says what is wrong, and a stop.
//!
//! That QEMU ends with the exit device's status shows that there was no triple
//! fault, which would end it with status 0 and without the device.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use timehands_tests::{built, machine, trial};
use xtask::guest::{self, End};
use xtask::opt::{Accel, Firmware, Machine};

/// Longest that the loader may take, on a machine that is busy with others.
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let trials = vec![
        trial("without_a_module_nothing_is_started", || {
            refuses(None, "no module: ")
        }),
        trial("what_is_no_archive_is_refused", || {
            let text = b"no archive at all, but long enough for a block\n".repeat(100);
            refuses(Some(text), "the module is not a tar archive: ")
        }),
        trial("a_module_of_one_byte_is_refused", || {
            refuses(Some(vec![0]), "the module is not a tar archive: ")
        }),
        trial("an_archive_without_a_kernel_is_refused", || {
            let archive = archive("etc/rc", b"help\n")?;
            refuses(Some(archive), "the archive has no entry named kernel")
        }),
        trial("a_kernel_that_is_no_elf_file_is_refused", || {
            let archive = archive("kernel", b"#!/bin/sh\necho no kernel\n")?;
            refuses(Some(archive), "the kernel is not an ELF file")
        }),
        trial("a_kernel_that_is_cut_short_is_refused", || {
            let kernel = kernel()?;
            let half = kernel.get(..kernel.len() / 2).unwrap_or_default();
            let said = "the kernel's ELF file is truncated";
            refuses(Some(archive("kernel", half)?), said)
        }),
        trial("an_archive_that_is_cut_short_is_refused", || {
            let mut archive = archive("kernel", &kernel()?)?;
            archive.truncate(archive.len() / 2);
            refuses(Some(archive), "the module is not a tar archive: ")
        }),
        trial("a_program_for_linux_is_no_kernel", || {
            let built = built(&machine()?)?;
            let program = built.programs.first().context("no programs")?;
            let archive = archive("kernel", &fs::read(&program.path)?)?;
            refuses(Some(archive), "the kernel has no .bootloader-config")
        }),
        trial(
            "a_processor_without_64_bit_mode_is_told_apart",
            no_long_mode,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The kernel's ELF file.
fn kernel() -> Result<Vec<u8>> {
    Ok(fs::read(&built(&machine()?)?.kernel)?)
}

/// An archive with one entry.
fn archive(name: &str, contents: &[u8]) -> Result<Vec<u8>> {
    let mut header = tar::Header::new_ustar();
    header.set_size(contents.len() as u64);
    header.set_mode(0o644);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, name, contents)?;
    Ok(archive.into_inner()?)
}

/// Boots with `module` and expects a line that starts with `said`.
fn refuses(module: Option<Vec<u8>>, said: &str) -> Result<()> {
    stops(&machine()?, module, said)
}

fn no_long_mode() -> Result<()> {
    let machine = Machine {
        cpu: Some("qemu32".to_owned()),
        accel: Accel::Tcg,
        // UEFI firmware needs the 64-bit mode itself.
        firmware: Firmware::Pvh,
        ..machine()?
    };
    let archive = archive("kernel", &kernel()?)?;
    stops(&machine, Some(archive), "this CPU has no 64-bit mode")
}

fn stops(machine: &Machine, module: Option<Vec<u8>>, said: &str) -> Result<()> {
    let built = built(machine)?;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("module");
    if let Some(bytes) = &module {
        fs::write(&file, bytes)?;
    }
    let module = module.is_some().then_some(file.as_path());
    let run = guest::boot_module(&built.boot, machine, module, LIMIT)?;
    let End::Refused(message) = &run.end else {
        anyhow::bail!("{}\n--- log:\n{}", run.end, run.log);
    };
    ensure!(message.starts_with(said), "it said {message:?}");
    let lines = run.log.lines().filter(|line| !line.trim().is_empty());
    // Firmware and GRUB have lines of their own.
    let alone = machine.firmware == Firmware::Pvh;
    ensure!(
        !alone || lines.count() == 1,
        "more than one line:\n{}",
        run.log
    );
    Ok(())
}
