//! `cargo xtask arm`: the CPU plugin and its kernels on aarch64, by qemu's emulation of its processors.
//!
//! Invariants:
//! 1. What is missing on this machine is named with how to get it; nothing is installed here.
//! 2. The processors differ in what they have: NEON alone (cortex-a53), dot products and f16 (cortex-a76), all (max).
//!
//! Not here: speed, of which an emulator says nothing.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::root::root;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64";
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Processors to emulate
    #[arg(long, value_delimiter = ',', default_value = "cortex-a53,cortex-a76,max")]
    cpu: Vec<String>,
    /// Of the ONNX backend suite, take each Nth case only
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Cases of each property test of the kernels
    #[arg(long, default_value_t = 64)]
    cases: u32,
}

/// Why this machine cannot build for aarch64 or emulate it, if so.
pub(crate) fn missing() -> Option<String> {
    let runs = |program: &str| {
        let mut command = Command::new(program);
        command
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !runs(LINKER) || !Path::new(LIBRARIES).is_dir() {
        return Some(format!(
            "{LINKER} is not there (Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross)"
        ));
    }
    if !runs(EMULATOR) {
        return Some(format!("{EMULATOR} is not there (Debian: qemu-user)"));
    }
    let library = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    if !library.is_some_and(|folder| Path::new(&folder).is_dir()) {
        return Some(format!(
            "the standard library of {TARGET} is not there (`rustup target add {TARGET}`)"
        ));
    }
    None
}

/// Builds the tests and runs them on each processor.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(why) = missing() {
        bail!("{why}");
    }
    if !root().join("device-tests/generated/onnx/node").is_dir() {
        eprintln!(
            "the ONNX backend suite is not there (`cargo xtask models` makes it): the kernels' tests run alone"
        );
    }
    let mut failed = Vec::new();
    for cpu in &options.cpu {
        eprintln!("\n== {cpu}");
        for tests in [
            &["--package", "polychip-cpu-kernels", "--lib"][..],
            &["--package", "polychip-isa-tests", "--test", "op_suite"],
        ] {
            let mut command = Command::new(env!("CARGO"));
            command
                .args(["test", "--quiet", "--target", TARGET])
                .args(tests)
                .current_dir(root())
                .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
                .env(
                    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
                    format!("{EMULATOR} -L {LIBRARIES} -cpu {cpu}"),
                )
                .env("PROPTEST_CASES", options.cases.to_string())
                .env("POLYCHIP_SUITE_EVERY", options.every.to_string());
            if !command.status()?.success() {
                failed.push(format!("{} on {cpu}", tests[1]));
            }
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}
