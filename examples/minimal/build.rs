//! Linker options of the program if Rust links with LLD: identical functions are merged, and the profile `small` has
//! no unwind tables, because a panic aborts the process there.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=no-unwind-tables.ld");
    if std::env::var("TARGET").is_ok_and(|target| target == "x86_64-unknown-linux-gnu") {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
        if is_small() {
            let here = std::env::var("CARGO_MANIFEST_DIR")
                .map(PathBuf::from)
                .unwrap_or_default();
            let script = here.join("no-unwind-tables.ld");
            println!("cargo:rustc-link-arg-bins=-Wl,-T,{}", script.display());
            println!("cargo:rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
        }
    }
}

/// Whether the profile is `small`. Only the folder that this script writes to tells: `target/small/build/package/out`.
fn is_small() -> bool {
    std::env::var("OUT_DIR").is_ok_and(|out| {
        let profile = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
        profile.is_some_and(|name| name == "small")
    })
}
