//! `core` for the bare-metal target, from Debian's compiler packages.
//!
//! Debian keeps a current compiler for its browsers (`rustc-web`), with the
//! library's source beside it. Its packages are downloaded and unpacked under
//! `target/`, never installed, so this needs no root and changes nothing on
//! the machine. Cargo then compiles `core`, `alloc` and `compiler_builtins`
//! along with the kernel (`-Zbuild-std`), which takes about 20 s once.
//!
//! The library's source only compiles with the compiler of the same version,
//! hence Debian's own. `RUSTC_BOOTSTRAP=1` admits the unstable features that
//! the library, by its nature, uses; the crates of this repository use none.
//! Debian's compiler has no linker for the target, so the toolchain in use
//! lends its `rust-lld`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{leash, sysroot};

/// The packages that were asked for by name; what they depend on and the
/// machine lacks comes along.
pub const PACKAGES: &[&str] = &["rustc-web", "libstd-rust-web-dev", "rust-web-src"];

/// What makes cargo compile the library.
pub const BUILD_ARGS: &[&str] = &[
    "-Zbuild-std=core,alloc,compiler_builtins",
    "-Zbuild-std-features=compiler-builtins-mem",
];

/// Longest one step (a download of about 150 MB, an unpacking) may take.
const STEP_LIMIT: Duration = Duration::from_secs(900);

/// The file that is written last.
const COMPLETE: &str = "complete";

/// An unpacked set of packages.
#[derive(Clone, Debug)]
pub struct Unpacked {
    /// The folder that stands for `/`.
    pub root: PathBuf,
    /// The linker to use.
    pub linker: PathBuf,
}

impl Unpacked {
    /// The environment in which cargo uses them.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        let usr = self.root.join("usr");
        let set = |name: &str, value: PathBuf| (name.into(), value.into());
        vec![
            set("RUSTC", usr.join("bin/rustc")),
            set("LD_LIBRARY_PATH", usr.join("lib/x86_64-linux-gnu")),
            set(
                "CARGO_TARGET_X86_64_UNKNOWN_NONE_LINKER",
                self.linker.clone(),
            ),
            ("RUSTC_BOOTSTRAP".into(), "1".into()),
        ]
    }
}

/// The packages, if they have been unpacked before.
///
/// # Errors
/// The toolchain in use has no `rust-lld`.
pub fn present() -> Result<Option<Unpacked>> {
    let root = folder();
    if !root.join(COMPLETE).is_file() {
        return Ok(None);
    }
    Ok(Some(Unpacked {
        root,
        linker: linker()?,
    }))
}

/// The packages, fetched if they are not there yet.
///
/// # Errors
/// This is no Debian, its compiler is too old, or a download fails.
pub fn ensure() -> Result<Unpacked> {
    if let Some(unpacked) = present()? {
        return Ok(unpacked);
    }
    for tool in ["apt-get", "apt-cache", "dpkg-deb", "dpkg-query"] {
        ensure!(leash::find(tool), "{tool} is not installed: no Debian");
    }
    check_version()?;
    let linker = linker()?;
    let root = folder();
    let part = root.with_extension("part");
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    let debs = part.join("debs");
    fs::create_dir_all(&debs)?;
    let packages = wanted()?;
    eprintln!("setup: downloading {}", packages.join(" "));
    // apt drops its rights for a download unless told not to, and could then
    // not write here.
    let mut apt = leash::batch("apt-get", STEP_LIMIT);
    apt.args(["-q", "-o", "APT::Sandbox::User=root", "download"])
        .args(&packages);
    quietly("apt-get download", apt.current_dir(&debs))?;
    for entry in fs::read_dir(&debs)? {
        unpack(&entry?.path(), &part)?;
    }
    fs::remove_dir_all(&debs)?;
    fs::write(part.join(COMPLETE), packages.join("\n"))?;
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    fs::rename(&part, &root)?;
    Ok(Unpacked { root, linker })
}

fn folder() -> PathBuf {
    crate::target_dir().join("debian-core")
}

/// The toolchain's own `rust-lld`.
fn linker() -> Result<PathBuf> {
    let sysroot = PathBuf::from(sysroot::rustc(&["--print", "sysroot"])?);
    let host = sysroot::rustc(&["--print", "host-tuple"])?;
    let linker = sysroot.join("lib/rustlib").join(host).join("bin/rust-lld");
    ensure!(linker.is_file(), "{} is missing", linker.display());
    Ok(linker)
}

/// Refuses a compiler older than the crates ask for.
fn check_version() -> Result<()> {
    let mut shown = show("rustc-web")?;
    if shown.is_empty() && is_root() {
        eprintln!("setup: apt-get update");
        quietly(
            "apt-get update",
            leash::batch("apt-get", STEP_LIMIT).args(["-q", "update"]),
        )?;
        shown = show("rustc-web")?;
    }
    let version = shown
        .lines()
        .find_map(|line| line.strip_prefix("Version: "));
    let version = version.context("apt knows no package rustc-web (apt-get update?)")?;
    let least = env!("CARGO_PKG_RUST_VERSION");
    ensure!(
        release(version) >= release(least),
        "Debian's rustc-web is {version}, older than {least}"
    );
    Ok(())
}

/// What apt says about the version of `package` that it would take.
fn show(package: &str) -> Result<String> {
    let output = Command::new("apt-cache")
        .args(["show", "--no-all-versions", package])
        .stderr(Stdio::null())
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Major and minor number of a version such as `1.96.0+dfsg1-1`.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// [`PACKAGES`] and the libraries they need that the machine lacks.
fn wanted() -> Result<Vec<String>> {
    let output = Command::new("apt-cache")
        .args(["depends", "--recurse", "--no-recommends", "--no-suggests"])
        .args([
            "--no-conflicts",
            "--no-breaks",
            "--no-replaces",
            "--no-enhances",
        ])
        .arg("libstd-rust-web-dev")
        .output()?;
    ensure!(output.status.success(), "apt-cache depends failed");
    let tree = String::from_utf8_lossy(&output.stdout);
    // Packages start their line; virtual ones stand in angle brackets.
    let named = tree
        .lines()
        .filter(|line| !line.starts_with([' ', '<', '|']));
    let mut packages: Vec<String> = PACKAGES.iter().map(|name| (*name).to_owned()).collect();
    for name in named {
        if !PACKAGES.contains(&name) && !is_installed(name)? {
            packages.push(name.to_owned());
        }
    }
    Ok(packages)
}

fn is_installed(package: &str) -> Result<bool> {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f=${db:Status-Status}", package])
        .output()?;
    Ok(output.stdout.starts_with(b"installed"))
}

/// Unpacks one package, of the compiler's source only the library: the rest
/// is 600 MB.
fn unpack(deb: &Path, root: &Path) -> Result<()> {
    let mut child = leash::batch("dpkg-deb", STEP_LIMIT)
        .arg("--fsys-tarfile")
        .arg(deb)
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(stdout) = child.stdout.take() {
        let mut archive = tar::Archive::new(stdout);
        archive.set_preserve_mtime(false);
        for entry in archive.entries()? {
            let mut entry = entry?;
            if is_needed(&entry.path()?) {
                entry.unpack_in(root)?;
            }
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "dpkg-deb {}: {status}", deb.display());
    Ok(())
}

/// Whether a package's file is of use: everything but the source beside the
/// library's.
fn is_needed(path: &Path) -> bool {
    let path = path.strip_prefix(".").unwrap_or(path);
    match path.strip_prefix("usr/src") {
        Ok(source) => source
            .components()
            .nth(1)
            .is_none_or(|top| top.as_os_str() == "library"),
        Err(_) => !path.starts_with("usr/share"),
    }
}

pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// Runs a step whose output matters only when it fails.
pub(crate) fn quietly(step: &str, command: &mut Command) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| step.to_owned())?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{step}: {}\n{}",
        output.status,
        complaint.trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debian_version_is_compared_by_its_release() {
        assert_eq!(
            release("1.96.0+dfsg1-1~deb12u2"),
            Some((1, 96)),
            "Debian's form"
        );
        assert_eq!(release("1.95"), Some((1, 95)), "cargo's form");
        assert!(release("1.9.0") < release("1.85.0"), "numbers, not text");
        assert_eq!(release("new"), None, "no version at all");
    }

    #[test]
    fn of_the_source_only_the_library_is_unpacked() {
        for needed in [
            "./usr/src/rustc-1.96.0/",
            "./usr/src/rustc-1.96.0/library/core/src/lib.rs",
            "./usr/bin/rustc",
            "./usr/lib/rustlib/src/rust",
        ] {
            assert!(is_needed(Path::new(needed)), "{needed} was left out");
        }
        for useless in [
            "./usr/src/rustc-1.96.0/compiler/x.rs",
            "./usr/share/doc/rustc-web",
        ] {
            assert!(!is_needed(Path::new(useless)), "{useless} was unpacked");
        }
    }
}
