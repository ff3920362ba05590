//! `cargo xtask vendor coreml`: Python with Apple's coremltools, whose readers judge the packages that our writer writes.
//!
//! Invariant: the environment is whole or absent: it is made under another name and its stamp is written last.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::models::system_python;

/// What is installed; its licence is BSD-3.
const PACKAGE: &str = "coremltools==9.0";

/// Makes the environment where it is not there, and gives the line that names it.
pub(super) fn install(vendor: &Path) -> Result<String> {
    let folder = vendor.join("coreml");
    let python = folder.join("bin/python");
    let stamp = folder.join(".stamp");
    if fs::read_to_string(&stamp).is_ok_and(|old| old == PACKAGE) && python.is_file() {
        eprintln!("vendor: {} is up to date", folder.display());
    } else {
        let system = system_python()?;
        let made = Command::new(&system)
            .args(["-m", "venv", "--clear"])
            .arg(&folder)
            .status()
            .with_context(|| format!("starting {system}"))?;
        ensure!(made.success(), "`{system} -m venv {}` failed", folder.display());
        let installed = Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                PACKAGE,
            ])
            .status()
            .with_context(|| format!("starting {}", python.display()))?;
        ensure!(
            installed.success(),
            "pip could not install {PACKAGE} ({installed}): it needs a package index"
        );
        fs::write(&stamp, PACKAGE).with_context(|| format!("writing {}", stamp.display()))?;
    }
    Ok(format!("export COREMLTOOLS_PYTHON={}", python.display()))
}
