//! Wheels of Python's package index: downloaded through pip, unpacked without it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::models::system_python;

/// All files of a wheel into a folder.
pub(crate) fn unpack(wheel: &Path, to: &Path) -> Result<()> {
    let python = system_python()?;
    let unpacked = Command::new(&python)
        .args(["-m", "zipfile", "--extract"])
        .arg(wheel)
        .arg(to)
        .output()
        .with_context(|| format!("starting {python}"))?;
    ensure!(
        unpacked.status.success(),
        "{} cannot be unpacked: {}",
        wheel.display(),
        String::from_utf8_lossy(&unpacked.stderr)
            .lines()
            .last()
            .unwrap_or_default()
    );
    Ok(())
}

/// The wheel of this version for this machine, through pip; `more` are words for pip.
pub(crate) fn download(
    package: &str,
    version: &str,
    more: &[&str],
    vendor: &Path,
    to: &Path,
) -> Result<PathBuf> {
    let python = python_with_pip(vendor)?;
    let status = Command::new(&python)
        .args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary=:all:",
        ])
        .args(more)
        .arg("--dest")
        .arg(to)
        .arg(format!("{package}=={version}"))
        .status()
        .with_context(|| format!("starting {}", python.display()))?;
    ensure!(
        status.success(),
        "pip could not download {package} {version} ({status}): it needs a package index and a wheel for this \
         machine; where a library comes of one wheel, --wheel FILE takes one that is here"
    );
    let wheels: Vec<PathBuf> = fs::read_dir(to)
        .with_context(|| format!("reading {}", to.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .collect();
    match <[PathBuf; 1]>::try_from(wheels) {
        Ok([wheel]) => Ok(wheel),
        Err(wheels) => bail!("pip left {} wheels in {}", wheels.len(), to.display()),
    }
}

/// The system's Python where it has pip, else an environment of our own, which always has.
fn python_with_pip(vendor: &Path) -> Result<PathBuf> {
    let system = system_python()?;
    let has_pip = Command::new(&system).args(["-m", "pip", "--version"]).output();
    if has_pip.is_ok_and(|output| output.status.success()) {
        return Ok(PathBuf::from(system));
    }
    let own = vendor.join("python");
    let python = own.join("bin/python");
    if !python.is_file() {
        let status = Command::new(&system)
            .args(["-m", "venv", "--clear"])
            .arg(&own)
            .status()?;
        ensure!(status.success(), "`{system} -m venv {}` failed", own.display());
    }
    Ok(python)
}

/// Removes a folder, where it is there.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}
