//! The runner for arm64: by rustup's compiler where it has the target's standard library, else by Debian's.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::program::{LINKER, call};
use crate::root::root;
use crate::vendor::debian::install_compiler;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const STRIP: &str = "aarch64-linux-gnu-strip";

/// Builds it; its file, without what only a debugger reads.
pub(super) fn runner(folder: &Path) -> Result<PathBuf> {
    // a folder of its own: another compiler would have all that is in the usual one built anew
    let target = folder.join("cargo");
    let mut command = Command::new(env!("CARGO"));
    command
        .args([
            "build",
            "--quiet",
            "--package",
            "polychip-runner",
            "--target",
            TARGET,
            "--target-dir",
        ])
        .arg(&target)
        .current_dir(root())
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    if !has_target() {
        command.env("RUSTC", install_compiler()?.join("rustc"));
    }
    eprintln!("farm-desk: building the runner for {TARGET}");
    call(&mut command)?;
    let stripped = folder.join("polychip-runner-arm64");
    call(
        Command::new(STRIP)
            .arg("-o")
            .arg(&stripped)
            .arg(target.join(TARGET).join("debug/polychip-runner")),
    )?;
    Ok(stripped)
}

/// Whether rustup's compiler has the target's standard library.
fn has_target() -> bool {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    output.is_ok_and(|output| {
        output.status.success() && Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir()
    })
}
