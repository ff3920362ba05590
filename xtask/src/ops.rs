//! `cargo xtask ops`: single-op models on the CPU, interleaved with ONNX Runtime.
//!
//! Invariant: prints the output of `polychip-ops-bench`.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::models::python;
use crate::root::root;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Build profile: `dev` also has optimised kernels, and builds faster
    #[arg(long, default_value = "release")]
    profile: String,
    /// Compare predictions with our own times, without ONNX Runtime
    #[arg(long)]
    alone: bool,
    /// Options of `polychip-ops-bench`, such as `--only LSTM`, `--sizes small usual large`, `--threads 1 2`,
    /// `--random 1000`, `--predict`, `--json FILE`
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
        "polychip-ops-bench was killed by a signal"
    );
    Ok(status.success())
}
