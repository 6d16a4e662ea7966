//! Links the programs as static executables without the host's C library:
//! the `user` crate brings the entry point.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for argument in [
        "-nostdlib",
        "-nostartfiles",
        "-static",
        // Fixed addresses: the kernel loads what the headers say.
        "-no-pie",
        // One page is what the processor protects by; the default of 2 MiB on
        // some linkers only makes the files larger.
        "-Wl,-z,max-page-size=4096",
        "-Wl,-z,noexecstack",
        "-Wl,--build-id=none",
    ] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}
