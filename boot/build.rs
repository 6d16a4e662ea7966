//! Links the loader at a fixed address with its own script.
//!
//! Only for the bare target: host builds of the library and its tests link as
//! usual. The target's default is a position-independent executable; a boot
//! protocol jumps to a fixed address, so that is switched off here rather than
//! in flags that every caller would have to repeat.

fn main() {
    println!("cargo:rerun-if-changed=linker.ld");
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "none") {
        let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rustc-link-arg-bins=-T{folder}/linker.ld");
        println!("cargo:rustc-link-arg-bins=--no-pie");
    }
}
