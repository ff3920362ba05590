//! `cargo xtask mutants`: mutated models by the thousand.
//!
//! Invariant: prints the output of `polychip-mutants run` for the models of the repository and of `cargo xtask
//! models`, and reports if the latter are missing.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::root::root;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Options of `polychip-mutants run`, such as `--count 100000`, `--seed 7`, `--device null:0`, `--json FILE`
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Where models are.
const FOLDERS: [&str; 3] = [
    "examples/shapes",
    "device-tests/generated/models",
    "device-tests/generated/onnx",
];

/// Whether every mutant was refused or ran.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let (there, missing): (Vec<_>, Vec<_>) = FOLDERS
        .into_iter()
        .partition(|folder| root().join(folder).is_dir());
    for folder in missing {
        eprintln!("mutants: no models of {folder}, which is missing (create it with `cargo xtask models`)");
    }
    let status = Command::new(cargo)
        .current_dir(root())
        .args([
            "run",
            "--quiet",
            "--release",
            "-p",
            "polychip-mutants",
            "--",
            "run",
        ])
        .args(there)
        .args(&options.arguments)
        .status()
        .context("cargo run")?;
    ensure!(status.code().is_some(), "polychip-mutants was killed by a signal");
    Ok(status.success())
}
