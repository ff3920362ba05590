//! `cargo xtask onnxruntime`: the provider of ONNX Runtime, tested in ONNX Runtime as it is published, of several releases.
//!
//! Invariants:
//! 1. ONNX Runtime is never changed: the library is registered as users do.
//! 2. A release that cannot be fetched is reported.
//!
//! Not here: the tests (`bindings/onnxruntime/tests`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::models;
use crate::python::{Wheel, call, copied, pytest};
use crate::root::root;

/// The package of the library.
const PACKAGE: &str = "polychip-onnxruntime";
/// Its files.
const FOLDER: &str = "bindings/onnxruntime";
/// Releases that are tested beside that of the witness data: the first that takes such providers, one between, the newest.
const RELEASES: [&str; 3] = ["1.23.2", "1.26.0", "1.32.0"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Use the test build in target/debug, without building
    #[arg(long, conflicts_with = "wheel")]
    built: bool,
    /// Build an optimised wheel with maturin in target/wheels, and test that
    #[arg(long)]
    wheel: bool,
    /// Also fetch other ONNX Runtime releases and test with them
    #[arg(long)]
    releases: bool,
    /// Run only the tests whose names match this, as with the same option of pytest
    #[arg(short = 'k', value_name = "EXPRESSION")]
    named: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let (python, package) = if options.wheel {
        let wheel = Wheel {
            folder: FOLDER,
            environment: "target/onnxruntime-wheel",
        };
        (wheel.installed(&models::python(false)?)?, None)
    } else {
        if !options.built {
            let mut build = Command::new(env!("CARGO"));
            call(build.args(["build", "--package", PACKAGE]))?;
        }
        (models::python(false)?, Some(assembled()?))
    };
    let paths =
        |release: Option<PathBuf>| -> Vec<PathBuf> { release.into_iter().chain(package.clone()).collect() };
    test(&python, &paths(None), options)?;
    for release in RELEASES.iter().filter(|_| options.releases) {
        match fetched(&python, release) {
            Ok(folder) => test(&python, &paths(Some(folder)), options)?,
            Err(error) => {
                eprintln!("onnxruntime: SKIPPED release {release}: cannot be fetched: {error:#}")
            }
        }
    }
    Ok(())
}

/// The package as a wheel lays it out, of the library in target/debug.
pub(crate) fn assembled() -> Result<PathBuf> {
    let root = root();
    let library = root.join("target/debug/libpolychip_ort.so");
    ensure!(
        library.is_file(),
        "{} is missing; omit `--built` to build it",
        library.display()
    );
    let folder = root.join("target/onnxruntime/package");
    let package = folder.join("polychip_ort");
    if package.exists() {
        fs::remove_dir_all(&package).with_context(|| format!("clearing {}", package.display()))?;
    }
    fs::create_dir_all(&package).with_context(|| format!("making {}", package.display()))?;
    let sources = root.join(FOLDER).join("python/polychip_ort");
    for entry in fs::read_dir(&sources).with_context(|| format!("reading {}", sources.display()))? {
        let file = entry?.path();
        if let (true, Some(name)) = (file.is_file(), file.file_name()) {
            copied(&file, &package.join(name))?;
        }
    }
    copied(&library, &package.join("_polychip_ort.abi3.so"))?;
    Ok(folder)
}

/// A release of ONNX Runtime, unpacked aside.
fn fetched(python: &Path, release: &str) -> Result<PathBuf> {
    let folder = root().join("target/onnxruntime").join(release);
    if folder.join("onnxruntime").is_dir() {
        return Ok(folder);
    }
    let mut pip = Command::new(python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]);
    pip.arg("--target")
        .arg(&folder)
        .arg(format!("onnxruntime=={release}"));
    call(&mut pip)?;
    Ok(folder)
}

/// Runs the tests in Python, with these folders before its own packages.
fn test(python: &Path, folders: &[PathBuf], options: &Options) -> Result<()> {
    let mut tests = pytest(python);
    tests.args(["-W", "ignore", "--tb=short", "tests"]);
    if let Some(named) = &options.named {
        tests.args(["-k", named]);
    }
    let path = std::env::join_paths(folders).context("folders of packages")?;
    tests.env("PYTHONPATH", path).env("ORT_DISABLE_TELEMETRY", "1");
    call(tests.current_dir(root().join(FOLDER)))
}
