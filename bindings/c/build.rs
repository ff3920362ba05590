//! The name by which programs find the library again, that it stays where it is once it is loaded, and that it exports what
//! is its own alone.
//!
//! Invariant: while the version is 0.x, a library of another x is another library: `libpolychip.so.0.x`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let (major, minor) = (of("CARGO_PKG_VERSION_MAJOR"), of("CARGO_PKG_VERSION_MINOR"));
    let version = if major == "0" { format!("0.{minor}") } else { major };
    let name = match of("CARGO_CFG_TARGET_OS").as_str() {
        "linux" => format!("libpolychip.so.{version}"),
        // a package of Android holds no files of other endings
        "android" => "libpolychip.so".to_owned(),
        _ => return,
    };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{name}");
    // its threads run in it: `dlclose` must not unmap it
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // nothing of the crates below: on aarch64 blake3 has a function that its C code calls, and another blake3 of the program
    // would take its place
    println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
