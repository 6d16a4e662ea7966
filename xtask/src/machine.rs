//! The machine to boot: its flags, and their way to the test programs.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};

use crate::opt::Toolchain;

/// Environment variable that carries the machine's flags from `test` to the
/// test programs it starts, as one line of words.
pub const MACHINE_ENV: &str = "TIMEHANDS_MACHINE";

/// The machine to boot.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Number of processors
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=255))]
    pub smp: u32,
    /// Memory, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(32..=1_048_576))]
    pub memory: u32,
    /// How the guest's processor is made
    #[arg(long, value_enum, default_value_t = Accel::Auto)]
    pub accel: Accel,
    /// QEMU's processor model [default: max, or host under KVM]
    #[arg(long, value_name = "MODEL")]
    pub cpu: Option<String>,
    /// Leave the HPET out of the machine
    #[arg(long)]
    pub no_hpet: bool,
    /// Tunables for the kernel, for example "kern.hz=100"
    #[arg(
        long,
        value_name = "TUNABLES",
        default_value = "",
        hide_default_value = true
    )]
    pub append: String,
    /// Put a static ELF program into the RAM disk as /bin/NAME
    #[arg(long, value_name = "HOSTFILE[=NAME]", value_parser = parse_added)]
    pub add: Vec<Added>,
    /// Let virtual time follow executed instructions, so that every run is
    /// the same to the last count
    #[arg(long)]
    pub icount: bool,
    /// What starts the loader
    #[arg(long, value_enum, default_value_t = Firmware::Pvh)]
    pub firmware: Firmware,
    /// Boot the kernel in which tests make counters and windups fail
    #[arg(long, hide = true)]
    pub faults: bool,
    /// How the code for this machine is built.
    #[command(flatten)]
    pub toolchain: Toolchain,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            smp: 2,
            memory: 256,
            accel: Accel::Auto,
            cpu: None,
            no_hpet: false,
            append: String::new(),
            add: Vec::new(),
            icount: false,
            firmware: Firmware::Pvh,
            faults: false,
            toolchain: Toolchain::default(),
        }
    }
}

/// How the guest's processor is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Accel {
    /// KVM where this processor has hardware virtualization, else emulation
    Auto,
    /// Emulation
    Tcg,
    /// KVM wherever `/dev/kvm` opens
    Kvm,
}

/// What starts the loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Firmware {
    /// QEMU itself, with the archive beside it
    Pvh,
    /// A PC BIOS, from the image of `cargo xtask image`
    Bios,
    /// UEFI, from the same image
    Uefi,
}

/// A program to add to the RAM disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// The file on the host.
    pub file: PathBuf,
    /// Its name under `/bin`.
    pub name: String,
}

/// Splits `HOSTFILE[=NAME]`; NAME is the file's own name by default.
pub(crate) fn parse_added(text: &str) -> Result<Added, String> {
    let (file, name) = match text.rsplit_once('=') {
        Some((file, name)) => (PathBuf::from(file), name.to_owned()),
        None => {
            let file = PathBuf::from(text);
            let name = file.file_name().map(|n| n.to_string_lossy().into_owned());
            (file, name.unwrap_or_default())
        }
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(format!("'{name}' is no name for a program"));
    }
    Ok(Added { file, name })
}

/// The flags of `machine` as words that [`machine_from_env`] reads back.
///
/// One a line, since a value may hold spaces.
pub fn machine_words(machine: &Machine) -> String {
    let mut words = vec![
        format!("--smp={}", machine.smp),
        format!("--memory={}", machine.memory),
    ];
    let accel = machine.accel.to_possible_value();
    words.extend(accel.map(|value| format!("--accel={}", value.get_name())));
    words.extend(machine.cpu.iter().map(|cpu| format!("--cpu={cpu}")));
    words.extend(machine.no_hpet.then(|| "--no-hpet".to_owned()));
    if !machine.append.is_empty() {
        words.push(format!("--append={}", machine.append));
    }
    for added in &machine.add {
        words.push(format!("--add={}={}", added.file.display(), added.name));
    }
    words.extend(machine.icount.then(|| "--icount".to_owned()));
    let firmware = machine.firmware.to_possible_value();
    words.extend(firmware.map(|value| format!("--firmware={}", value.get_name())));
    words.extend(machine.faults.then(|| "--faults".to_owned()));
    let core = machine
        .toolchain
        .core
        .and_then(|core| core.to_possible_value());
    words.extend(core.map(|value| format!("--core={}", value.get_name())));
    words.join("\n")
}

/// The machine that [`MACHINE_ENV`] describes, or the default one.
///
/// # Errors
/// The variable holds something that is no machine.
pub fn machine_from_env() -> anyhow::Result<Machine> {
    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct Words {
        #[command(flatten)]
        machine: Machine,
    }
    let text = std::env::var(MACHINE_ENV).unwrap_or_default();
    Ok(Words::try_parse_from(text.lines())?.machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opt::Core;

    #[test]
    fn an_added_program_takes_its_files_name() {
        let added = parse_added("/usr/bin/busybox").map(|a| a.name);
        assert_eq!(added.as_deref(), Ok("busybox"), "the default name");
        let added = parse_added("a=b/prog=tool").map(|a| (a.file, a.name));
        let want = (PathBuf::from("a=b/prog"), "tool".to_owned());
        assert_eq!(added, Ok(want), "the last '=' separates");
    }

    #[test]
    fn a_program_name_cannot_leave_its_folder() {
        for bad in ["x=", "x=..", "x=a/b", "/", "x=a b"] {
            assert!(parse_added(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn flags_survive_the_way_to_the_test_programs() {
        #[derive(Parser)]
        #[command(no_binary_name = true)]
        struct Words {
            #[command(flatten)]
            machine: Machine,
        }
        let machine = Machine {
            smp: 4,
            cpu: Some("qemu64,+rdtscp".to_owned()),
            no_hpet: true,
            append: "kern.hz=100 kern.smp.disabled=1".to_owned(),
            add: vec![Added {
                file: "some dir/prog".into(),
                name: "p".to_owned(),
            }],
            icount: true,
            firmware: Firmware::Uefi,
            faults: true,
            toolchain: Toolchain {
                core: Some(Core::Debian),
            },
            ..Machine::default()
        };
        let back = Words::try_parse_from(machine_words(&machine).lines());
        assert_eq!(
            back.map(|w| w.machine).ok(),
            Some(machine),
            "a flag was lost"
        );
    }
}
