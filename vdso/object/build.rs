//! Link arguments of the object; the scripts beside this file say what they do.

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let scripts = ["object.ld", "versions.ld"].map(|name| format!("{here}/{name}"));
    for script in &scripts {
        println!("cargo::rerun-if-changed={script}");
    }
    let [layout, versions] = scripts;
    let arguments = [
        "-nostdlib".into(),
        format!("-Wl,-T,{layout}"),
        format!("-Wl,--version-script={versions}"),
        "-Wl,-soname,linux-vdso.so.1".into(),
        // Calls between the functions of the object bind at link time.
        "-Wl,-Bsymbolic".into(),
        // musl and the kernel's own tests look in the old table, glibc in the new.
        "-Wl,--hash-style=both".into(),
        // The same source gives the same bytes.
        "-Wl,--build-id=none".into(),
        // One segment that starts with the file, and none to be made read-only
        // later.
        "-Wl,-z,norelro".into(),
        "-Wl,-z,noseparate-code".into(),
        "-Wl,-z,max-page-size=4096".into(),
        "-Wl,--no-undefined".into(),
        "-Wl,--strip-all".into(),
    ];
    for argument in arguments {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}
