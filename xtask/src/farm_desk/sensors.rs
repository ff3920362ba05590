//! A kernel module that gives an emulated board sensors (`device-tests/farm-desk/sensors`), built for its kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::packages::{Packages, VERSION};
use super::program::{LINKER, call};
use crate::root::root;
use crate::vendor::wheel::remove;

/// Builds it; its file.
pub(super) fn module(folder: &Path, packages: &Packages) -> Result<PathBuf> {
    let kernel = folder.join("kernel");
    remove(&kernel)?;
    fs::create_dir_all(&kernel)?;
    let source = packages.headers.join("usr/src");
    let flavour = source.join(format!("linux-headers-{VERSION}-arm64"));
    let common = source.join(format!("linux-headers-{VERSION}-common"));
    let tools = packages.headers.join("usr/lib/linux-kbuild-6.1");
    // Debian's makefile includes another by its place in an installed system
    copy(&flavour, &kernel)?;
    let makefile = kernel.join("Makefile");
    fs::write(&makefile, format!("include {}/Makefile\n", common.display()))?;
    for name in ["scripts", "tools"] {
        let link = kernel.join(name);
        fs::remove_file(&link).with_context(|| link.display().to_string())?;
        std::os::unix::fs::symlink(tools.join(name), &link).with_context(|| link.display().to_string())?;
    }
    let module = folder.join("sensors");
    remove(&module)?;
    fs::create_dir_all(&module)?;
    copy(&root().join("device-tests/farm-desk/sensors"), &module)?;
    let output = Command::new("make")
        .arg("-C")
        .arg(&kernel)
        .args(["ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-", "modules"])
        .arg(format!("CC={LINKER}"))
        .arg(format!("M={}", module.display()))
        .output()
        .context("starting make")?;
    ensure!(
        output.status.success(),
        "the sensor module does not build: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(module.join("farmsim.ko"))
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut from = from.as_os_str().to_owned();
    from.push("/.");
    call(Command::new("cp").arg("-a").arg(from).arg(to))
}
