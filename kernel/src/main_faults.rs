//! The kernel image for tests that hold windups and make counters fail: that
//! of `main.rs`, of a library that was built for it.

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
bootloader_api::entry_point!(kernel::start::start, config = &kernel::start::LOADER);

#[cfg(not(target_os = "none"))]
fn main() {
    println!("This is a kernel for tests; `cargo xtask test guest` boots it.");
}
