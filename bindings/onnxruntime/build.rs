//! The library stays in memory once it is loaded: ONNX Runtime unloads providers that are given back, while threads of devices may
//! still be ending.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if matches!(system.as_str(), "linux" | "android") {
        println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    }
}
