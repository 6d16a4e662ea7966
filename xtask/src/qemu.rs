//! The machine, as QEMU's command line.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Result, bail};

use crate::medium::Medium;
use crate::opt::{Accel, Machine};
use crate::setup::QEMU;

/// Where the guest's serial ports lead.
#[derive(Clone, Copy, Debug)]
pub enum Console<'a> {
    /// COM1 is this terminal, shared with QEMU's monitor (Ctrl-A C); Ctrl-A X
    /// quits.
    Terminal,
    /// COM1 is QEMU's standard input and output, every byte of them.
    Pipes,
    /// COM1 and COM2 are files. Unlike a pipe a file is never full, so the
    /// guest's time does not depend on who reads it.
    Files {
        /// The log: what the kernel prints.
        com1: &'a Path,
        /// The output: what commands print.
        com2: &'a Path,
    },
}

/// The whole command line, the program first.
///
/// # Errors
/// KVM is asked for and cannot be used, or cannot be combined with `--icount`.
pub fn command_line(
    machine: &Machine,
    medium: &Medium,
    console: Console<'_>,
) -> Result<Vec<String>> {
    let kvm = use_kvm(
        machine,
        &fs::read_to_string("/proc/cpuinfo").unwrap_or_default(),
    )?;
    Ok(arguments(machine, kvm, medium, console))
}

/// Whether this machine runs under KVM.
fn use_kvm(machine: &Machine, cpuinfo: &str) -> Result<bool> {
    let opens = || File::options().read(true).write(true).open("/dev/kvm");
    match machine.accel {
        Accel::Tcg => Ok(false),
        // A /dev/kvm without the processor's help emulates ring 0 one
        // instruction at a time, slower than TCG: only on request.
        Accel::Auto => Ok(!machine.icount && has_virtualization(cpuinfo) && opens().is_ok()),
        Accel::Kvm if machine.icount => bail!("--icount counts emulated instructions: no KVM"),
        Accel::Kvm => match opens() {
            Ok(_) => Ok(true),
            Err(error) => bail!("--accel kvm: /dev/kvm: {error}"),
        },
    }
}

/// Whether the processor's flags name either vendor's extension.
fn has_virtualization(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|f| f == "vmx" || f == "svm"))
}

fn arguments(machine: &Machine, kvm: bool, medium: &Medium, console: Console<'_>) -> Vec<String> {
    let mut words = vec![QEMU.to_owned()];
    let mut flag = |name: &str, value: &str| {
        words.push(format!("-{name}"));
        if !value.is_empty() {
            words.push(value.to_owned());
        }
    };
    let hpet = if machine.no_hpet { "off" } else { "on" };
    flag("machine", &format!("q35,hpet={hpet}"));
    flag("accel", if kvm { "kvm" } else { "tcg" });
    // Under emulation `max` is what a present machine has (RDTSCP, SMEP and
    // SMAP; QEMU's default model lacks them). Under KVM the host's own, less
    // one MSR that hosts without hardware virtualization cannot serve.
    let cpu = if kvm {
        "host,-arch-capabilities"
    } else {
        "max"
    };
    flag("cpu", machine.cpu.as_deref().unwrap_or(cpu));
    flag("smp", &machine.smp.to_string());
    flag("m", &format!("{}M", machine.memory));
    // No devices but the chipset's own and those named here.
    flag("nodefaults", "");
    flag("no-user-config", "");
    flag("display", "none");
    // A triple fault ends the run instead of starting it again.
    flag("no-reboot", "");
    // The way out with a status: QEMU exits with twice the byte written, + 1.
    flag("device", "isa-debug-exit,iobase=0xf4,iosize=0x04");
    if machine.icount {
        // Two virtual nanoseconds an instruction; an idle guest's time jumps
        // to its next timer instead of waiting for the host's. The RTC starts
        // at a fixed date and follows virtual time too.
        flag("icount", "shift=1,sleep=off");
        flag("rtc", "base=2026-01-01T00:00:00,clock=vm");
    } else {
        flag("rtc", "base=utc");
    }
    match console {
        Console::Terminal => flag("serial", "mon:stdio"),
        Console::Pipes => flag("serial", "stdio"),
        Console::Files { com1, com2 } => {
            flag("serial", &format!("file:{}", com1.display()));
            flag("serial", &format!("file:{}", com2.display()));
        }
    }
    let mut file = |name: &str, file: &Path| flag(name, &file.display().to_string());
    match medium {
        Medium::Files { loader, archive } => {
            file("kernel", loader);
            if let Some(archive) = archive {
                file("initrd", archive);
            }
        }
        Medium::Disc { image, firmware } => {
            if let Some(firmware) = firmware {
                file("bios", firmware);
            }
            file("cdrom", image);
        }
    }
    words
}

/// A command line as a person would type it.
pub fn shown(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/+".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(machine: &Machine, kvm: bool) -> String {
        let medium = Medium::Files {
            loader: "/t/boot".into(),
            archive: Some("/t/a.tar".into()),
        };
        started_from(&medium, machine, kvm)
    }

    fn started_from(medium: &Medium, machine: &Machine, kvm: bool) -> String {
        let console = Console::Files {
            com1: Path::new("/t/1"),
            com2: Path::new("/t/2"),
        };
        shown(&arguments(machine, kvm, medium, console))
    }

    #[test]
    fn the_default_machine_is_a_q35_with_hpet() {
        let line = line(&Machine::default(), false);
        for part in [
            "-machine q35,hpet=on ",
            "-accel tcg ",
            "-smp 2 ",
            "-device isa-debug-exit,iobase=0xf4,iosize=0x04",
            "-serial file:/t/1 -serial file:/t/2",
            "-kernel /t/boot -initrd /t/a.tar",
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        assert!(
            !line.contains("icount"),
            "virtual time without being asked: {line}"
        );
    }

    #[test]
    fn a_disc_comes_with_its_firmware_and_without_a_kernel() {
        for (firmware, want) in [
            (None, "/t/2 -cdrom /t/x.iso"),
            (Some("/t/fw".into()), "/t/2 -bios /t/fw -cdrom /t/x.iso"),
        ] {
            let disc = Medium::Disc {
                image: "/t/x.iso".into(),
                firmware,
            };
            let line = started_from(&disc, &Machine::default(), false);
            assert!(line.ends_with(want), "{line}");
        }
    }

    #[test]
    fn the_hpet_can_be_left_out() {
        let machine = Machine {
            no_hpet: true,
            ..Machine::default()
        };
        assert!(
            line(&machine, false).contains("-machine q35,hpet=off"),
            "it is still there"
        );
    }

    #[test]
    fn virtual_time_fixes_the_date_too() {
        let line = line(
            &Machine {
                icount: true,
                ..Machine::default()
            },
            false,
        );
        assert!(line.contains("-icount shift=1,sleep=off"), "{line}");
        assert!(
            line.contains("-rtc base=2026-01-01T00:00:00,clock=vm"),
            "{line}"
        );
    }

    #[test]
    fn a_named_processor_replaces_both_defaults() {
        let machine = Machine {
            cpu: Some("qemu64".to_owned()),
            ..Machine::default()
        };
        for kvm in [false, true] {
            assert!(line(&machine, kvm).contains("-cpu qemu64 "), "kvm {kvm}");
        }
    }

    #[test]
    fn kvm_is_chosen_only_with_hardware_virtualization() {
        let with = "processor: 0\nflags\t\t: fpu vmx sse\n";
        let without = "processor: 0\nflags\t\t: fpu sse svm_lock\n";
        assert!(has_virtualization(with), "vmx was overlooked");
        assert!(
            !has_virtualization(without),
            "part of another flag's name counted"
        );
        let auto = use_kvm(&Machine::default(), without);
        assert!(
            matches!(auto, Ok(false)),
            "auto without virtualization: {auto:?}"
        );
    }

    #[test]
    fn icount_and_kvm_exclude_each_other() {
        let machine = Machine {
            icount: true,
            accel: Accel::Kvm,
            ..Machine::default()
        };
        assert!(use_kvm(&machine, "").is_err(), "both were accepted");
    }

    #[test]
    fn a_shown_command_line_can_be_typed() {
        let words = ["qemu", "a b", "it's", ""].map(str::to_owned);
        assert_eq!(shown(&words), r"qemu 'a b' 'it'\''s' ''", "quoting");
    }
}
