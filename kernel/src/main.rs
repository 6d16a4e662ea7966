//! The kernel image. Everything is in the library; here is only the entry
//! point, and with it what the kernel asks of its loader.

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
bootloader_api::entry_point!(kernel::start::start, config = &kernel::start::LOADER);

#[cfg(not(target_os = "none"))]
fn main() {
    println!("This is a kernel; `cargo xtask run` boots it.");
}
