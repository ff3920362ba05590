//! Builds this repository's plugin libraries and programs for tests.
//!
//! Invariants:
//! 1. Results are built from the current sources, in the profile of the calling test.
//! 2. A package is built once per process, and not at all where `POLYCHIP_BUILT` states that the caller has built the
//!    whole workspace: built alone, a package's dependencies have other features and are all built a second time.
//!
//! Not here: vendor libraries, which users install.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

/// Set by `cargo xtask ci`, which builds all packages together before any test.
pub const BUILT: &str = "POLYCHIP_BUILT";

/// The library of plugin `name`: `plugin("cpu")` is `target/PROFILE/libpolychip_plugin_cpu.so`.
///
/// # Errors
/// Cargo cannot build it; its words are in the error.
pub fn plugin(name: &str) -> Result<PathBuf> {
    library(
        &format!("polychip-plugin-{name}"),
        &format!("polychip_plugin_{name}"),
    )
}

/// The shared library `lib<stem>.so` that `package` builds.
///
/// # Errors
/// Cargo cannot build the package, or the package builds no such library.
pub fn library(package: &str, stem: &str) -> Result<PathBuf> {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    file(package, &format!("{prefix}{stem}{suffix}"))
}

/// The program `name` that `package` builds.
///
/// # Errors
/// Cargo cannot build the package, or the package builds no such program.
pub fn program(package: &str, name: &str) -> Result<PathBuf> {
    file(package, &format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// The shared library that example `name` of `package` is.
///
/// # Errors
/// Cargo cannot build the package, or the package has no such example.
pub fn example(package: &str, name: &str) -> Result<PathBuf> {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    file_of(package, Some(name), &format!("examples/{prefix}{name}{suffix}"))
}

fn file(package: &str, name: &str) -> Result<PathBuf> {
    file_of(package, None, name)
}

fn file_of(package: &str, example: Option<&str>, name: &str) -> Result<PathBuf> {
    let path = build(package, example)?.join(name);
    ensure!(
        path.is_file(),
        "package {package} builds no {name} (looked for {})",
        path.display()
    );
    Ok(path)
}

/// Builds a package, or one of its examples, and gives the folder that its files lie in.
fn build(package: &str, example: Option<&str>) -> Result<PathBuf> {
    static MADE: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let key = format!("{package} {}", example.unwrap_or_default());
    let mut built = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(folder) = built.get(&key) {
        return Ok(folder.clone());
    }
    let folder = profile_folder()?;
    if std::env::var_os(BUILT).is_some() {
        return Ok(folder);
    }
    let target = folder.parent().context("the profile's folder lies in no other")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--package", package, "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if let Some(example) = example {
        command.args(["--example", example]);
    }
    if folder.ends_with("release") {
        command.arg("--release");
    }
    let output = command.output().context("cargo")?;
    ensure!(
        output.status.success(),
        "cargo build --package {package} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    built.insert(key, folder.clone());
    Ok(folder)
}

/// `target/PROFILE` of this process: a test lies in its `deps`, a program in the folder itself.
fn profile_folder() -> Result<PathBuf> {
    let program = std::env::current_exe().context("this program's path")?;
    let folder = program.parent().context("this program lies in no folder")?;
    let folder = if folder.ends_with("deps") || folder.ends_with("examples") {
        folder.parent().unwrap_or(Path::new("."))
    } else {
        folder
    };
    Ok(folder.to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_plugin_is_built_and_a_missing_one_is_an_error() {
        let path = super::plugin("null").unwrap();
        assert!(path.is_file() && path.to_string_lossy().contains("polychip_plugin_null"));
        let error = super::plugin("no_such_thing").unwrap_err().to_string();
        assert!(error.contains("polychip-plugin-no_such_thing"), "{error}");
        let error = super::library("polychip-plugin-null", "other")
            .unwrap_err()
            .to_string();
        assert!(error.contains("builds no"), "{error}");
    }
}
