//! One cargo invocation: described as a value, then run.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::leash;
use crate::sysroot::Sysroot;

/// Longest a build may take: a cold one, on a slow and busy machine.
pub const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

/// The bare-metal target of the loader and the kernel.
pub const BARE_METAL: &str = "x86_64-unknown-none";

/// The target of the vDSO object and of the programs that run in the guest.
pub const LINUX: &str = "x86_64-unknown-linux-gnu";

/// The profile of everything that runs in the guest.
pub const GUEST_PROFILE: &str = "kernel";

/// A cargo command under construction.
#[derive(Clone, Debug)]
pub struct Cargo {
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    limit: Duration,
}

/// A file that a build made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// The target's name in its manifest.
    pub name: String,
    /// The file: an executable or a shared object.
    pub path: PathBuf,
}

impl Cargo {
    /// `cargo VERB`, with messages kept to what matters.
    pub fn new(verb: &str) -> Self {
        Self {
            args: vec![verb.into()],
            env: Vec::new(),
            limit: BUILD_LIMIT,
        }
    }

    /// Adds `-p PACKAGE`.
    #[must_use]
    pub fn package(self, package: &str) -> Self {
        self.args(["-p", package])
    }

    /// Adds `--target TARGET`.
    #[must_use]
    pub fn target(self, target: &str) -> Self {
        self.args(["--target", target])
    }

    /// Builds as everything that runs in the guest is built, for `target`.
    #[must_use]
    pub fn for_guest(self, target: &str) -> Self {
        self.target(target).args(["--profile", GUEST_PROFILE])
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I, S>(mut self, args: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<OsString>,
    {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets how long it may run.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Takes the bare-metal target's `core` from `sysroot`.
    #[must_use]
    pub fn sysroot(mut self, sysroot: &Sysroot) -> Self {
        self.args.extend(sysroot.args().iter().map(Into::into));
        self.env.extend(sysroot.env());
        self
    }

    /// The command, ready to be started in the repository's top folder.
    pub fn command(&self) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = leash::batch(cargo, self.limit);
        command.current_dir(crate::root());
        command.args(&self.args);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// How a person would type it.
    pub fn display(&self) -> String {
        let words = self.args.iter().map(|word| word.to_string_lossy());
        format!("cargo {}", words.collect::<Vec<_>>().join(" "))
    }

    /// Runs it to the end, its output on stderr.
    ///
    /// # Errors
    /// It could not be started, ended badly, or took too long.
    pub fn run(&self) -> Result<()> {
        let shown = self.display();
        let mut command = self.command();
        command.stdout(std::io::stderr()).stdin(Stdio::null());
        let status = command
            .status()
            .with_context(|| format!("cannot run {shown}"))?;
        if !status.success() {
            bail!("{shown}: {status}");
        }
        Ok(())
    }

    /// Runs a build and returns the programs and shared objects it made.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn artifacts(&self) -> Result<Vec<Artifact>> {
        let shown = self.display();
        let mut command = self.command();
        command.arg("--message-format=json-render-diagnostics");
        command.stdout(Stdio::piped()).stdin(Stdio::null());
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot run {shown}"))?;
        let mut artifacts = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).lines() {
                artifacts.extend(parse_message(&line?));
            }
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("{shown}: {status}");
        }
        Ok(artifacts)
    }
}

/// The program or shared object that one of cargo's messages announces.
fn parse_message(line: &str) -> Option<Artifact> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message.get("reason")?.as_str()? != "compiler-artifact" {
        return None;
    }
    let name = message.get("target")?.get("name")?.as_str()?.to_owned();
    let path = match message.get("executable").and_then(Value::as_str) {
        Some(executable) => executable,
        None if is_kind(&message, "cdylib") => {
            let files = message.get("filenames")?.as_array()?;
            files
                .iter()
                .filter_map(Value::as_str)
                .find(|file| file.ends_with(".so"))?
        }
        None => return None,
    };
    Some(Artifact {
        name,
        path: path.into(),
    })
}

fn is_kind(message: &Value, kind: &str) -> bool {
    let kinds = message.get("target").and_then(|target| target.get("kind"));
    kinds
        .and_then(Value::as_array)
        .is_some_and(|kinds| kinds.iter().any(|k| k == kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debian::Unpacked;

    fn words(cargo: &Cargo) -> Vec<String> {
        cargo
            .args
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_guest_build_names_target_and_profile() {
        let cargo = Cargo::new("build").package("kernel").for_guest(BARE_METAL);
        let want = [
            "build",
            "-p",
            "kernel",
            "--target",
            BARE_METAL,
            "--profile",
            "kernel",
        ];
        assert_eq!(words(&cargo), want, "the kernel's build command");
    }

    #[test]
    fn an_installed_core_changes_nothing() {
        let cargo = Cargo::new("build").sysroot(&Sysroot::Installed);
        assert_eq!(words(&cargo), ["build"], "arguments");
        assert_eq!(cargo.env, [], "environment");
    }

    #[test]
    fn debians_core_is_built_from_source_with_its_own_compiler() {
        let unpacked = Unpacked {
            root: "/d".into(),
            linker: "/lld".into(),
        };
        let cargo = Cargo::new("build").sysroot(&Sysroot::Debian(unpacked));
        assert!(
            words(&cargo)
                .iter()
                .any(|word| word.starts_with("-Zbuild-std=core")),
            "core is not built: {:?}",
            words(&cargo)
        );
        let rustc = cargo.env.iter().find(|(name, _)| name == "RUSTC");
        assert_eq!(
            rustc
                .map(|(_, value)| value.to_string_lossy().into_owned())
                .as_deref(),
            Some("/d/usr/bin/rustc"),
            "the compiler and its source must be of one version"
        );
    }

    #[test]
    fn programs_and_shared_objects_are_found_among_the_messages() {
        let program = r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"boot"},
            "filenames":["/t/boot"],"executable":"/t/boot"}"#;
        let want = Artifact {
            name: "boot".into(),
            path: "/t/boot".into(),
        };
        assert_eq!(parse_message(program), Some(want), "a program");
        let object = r#"{"reason":"compiler-artifact","target":{"kind":["cdylib"],"name":"v"},
            "filenames":["/t/libv.a","/t/libv.so"],"executable":null}"#;
        let want = Artifact {
            name: "v".into(),
            path: "/t/libv.so".into(),
        };
        assert_eq!(parse_message(object), Some(want), "a shared object");
    }

    #[test]
    fn libraries_and_other_messages_are_passed_over() {
        for line in [
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"l"},
                "filenames":["/t/libl.rlib"],"executable":null}"#,
            r#"{"reason":"build-finished","success":true}"#,
            "no JSON",
        ] {
            assert_eq!(parse_message(line), None, "{line}");
        }
    }
}
