//! The repository's root and its tracked files.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The repository's root folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("invariant: xtask lies in the repository's root")
}

/// Files of the repository with the given extension, sorted, relative to the root.
pub(crate) fn files(extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = tracked()?;
    files.retain(|path| path.extension().is_some_and(|e| e == extension));
    Ok(files)
}

/// All files of the repository, sorted, relative to the root: those that git tracks and new ones that it does not ignore.
pub(crate) fn tracked() -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root())
        .output()
        .context("running git ls-files")?;
    ensure!(
        output.status.success(),
        "git ls-files failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut files: Vec<PathBuf> = output
        .stdout
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned()))
        .filter(|path| root().join(path).is_file())
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}
