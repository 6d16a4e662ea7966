//! Linker arguments of the kernel image.
//!
//! The target's default is a position-independent executable at address 0.
//! The kernel wants a fixed place in the top 2 GiB instead: its code model
//! (`kernel`) promises exactly that, and the lower half then belongs to
//! programs alone. `--no-pie` after rustc's own `-pie` wins, so neither
//! RUSTFLAGS nor a target file is needed; position-independent code links
//! statically without a relocation left.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=kernel.ld");
    let bare_metal = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "none");
    if bare_metal && let Ok(root) = std::env::var("CARGO_MANIFEST_DIR") {
        println!("cargo:rustc-link-arg-bins=--no-pie");
        println!("cargo:rustc-link-arg-bins=-T{root}/kernel.ld");
    }
}
