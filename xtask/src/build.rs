//! What runs in the guest, built for its targets.
//!
//! Link arguments belong to each crate's own build script, so a plain
//! `cargo build -p kernel --target x86_64-unknown-none --profile kernel` makes
//! the same files; this module only names the packages and collects the
//! results.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::cargo::{Artifact, BARE_METAL, Cargo, LINUX};
use crate::opt::Toolchain;
use crate::sysroot;

/// The package of the shared object that programs map.
pub const OBJECT: &str = "timehands-vdso-object";

/// Everything a boot needs.
#[derive(Clone, Debug)]
pub struct Built {
    /// The loader.
    pub boot: PathBuf,
    /// The kernel.
    pub kernel: PathBuf,
    /// The shared object that programs map.
    pub object: PathBuf,
    /// The programs of the RAM disk, by name.
    pub programs: Vec<Artifact>,
}

/// The kernel, as everybody boots it.
const KERNEL: &str = "kernel";

/// The kernel in which tests make counters and windups fail. It is a program of
/// its own, so that neither build ever takes the other's place.
const FAULTY_KERNEL: &str = "kernel-faults";

/// Builds everything a boot of such machines needs.
///
/// # Errors
/// The target's `core` cannot be had, or a build fails.
pub fn all(toolchain: &Toolchain, faults: bool) -> Result<Built> {
    let sysroot = sysroot::ensure(toolchain)?;
    let linux = Cargo::new("build")
        .package(OBJECT)
        .package("programs")
        .for_guest(LINUX);
    let (objects, programs): (Vec<_>, Vec<_>) = linux
        .artifacts()?
        .into_iter()
        .partition(|made| made.path.extension().is_some());
    let bare = Cargo::new("build")
        .package("boot")
        .package("kernel")
        .for_guest(BARE_METAL);
    let (kernel, bare) = match faults {
        true => (FAULTY_KERNEL, bare.args(["--features", "kernel/faults"])),
        false => (KERNEL, bare),
    };
    let bare = bare.args(["--bin", "boot", "--bin", kernel]);
    let bare = bare.sysroot(&sysroot).artifacts()?;
    let [object] = objects.as_slice() else {
        bail!("{OBJECT} made {} shared objects, not one", objects.len());
    };
    Ok(Built {
        boot: pick(&bare, "boot")?,
        kernel: pick(&bare, kernel)?,
        object: object.path.clone(),
        programs,
    })
}

/// Builds the shared object alone, as it is mapped in the guest.
///
/// # Errors
/// The build fails.
pub fn object() -> Result<PathBuf> {
    let made = Cargo::new("build")
        .package(OBJECT)
        .for_guest(LINUX)
        .artifacts()?;
    let object = made
        .into_iter()
        .find(|made| made.path.extension().is_some());
    Ok(object
        .with_context(|| format!("{OBJECT} made no shared object"))?
        .path)
}

fn pick(made: &[Artifact], name: &str) -> Result<PathBuf> {
    let found = made.iter().find(|artifact| artifact.name == name);
    Ok(found
        .with_context(|| format!("the build made no '{name}'"))?
        .path
        .clone())
}
