//! `cargo xtask ops`: models of one op each on the CPU, beside ONNX Runtime by turns.
//!
//! Invariant: prints what `polychip-ops-bench` prints.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::models::python;
use crate::root::root;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The profile of the build: `dev` has optimised kernels too, and builds sooner
    #[arg(long, default_value = "release")]
    profile: String,
    /// Without ONNX Runtime: what was predicted, and what we take
    #[arg(long)]
    alone: bool,
    /// What `polychip-ops-bench` takes: `--only LSTM`, `--sizes small usual large`, `--threads 1 2`, `--predict`, `--json FILE`
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Whether every case ran.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(root())
        .args(["run", "--quiet", "--profile", &options.profile])
        .args(["-p", "polychip-ops-bench", "--"])
        .args(&options.arguments);
    if !options.alone {
        command.arg("--peer").arg(python(false)?);
    }
    let status = command.status().context("cargo run")?;
    ensure!(
        status.code().is_some(),
        "polychip-ops-bench was ended by a signal"
    );
    Ok(status.success())
}
