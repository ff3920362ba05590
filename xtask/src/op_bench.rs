//! `cargo xtask op-bench`: models of one op each on the CPU, predicted without a profile and measured.
//!
//! Invariant: prints what `polychip-op-bench` prints; the peer's times stand beside ours only where the environment of
//! `cargo xtask peers` has been made.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::root::root;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The profile of the build: `dev` has optimised kernels too, and builds sooner
    #[arg(long, default_value = "release")]
    profile: String,
    /// Without the peer's times, also where its environment is there
    #[arg(long)]
    alone: bool,
    /// What `polychip-op-bench` takes: `--only LSTM`, `--sizes small usual large`, `--threads 2`, `--busy`, `--json FILE`
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// The environment that `cargo xtask peers` makes.
const PYTHON: &str = "target/peers/venv/bin/python";

/// Whether every case ran.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(root())
        .args(["run", "--quiet", "--profile", &options.profile])
        .args(["-p", "polychip-op-bench", "--"])
        .args(&options.arguments);
    let python: PathBuf = root().join(PYTHON);
    if !options.alone && python.is_file() {
        command.arg("--peer").arg(&python);
    } else if !options.alone {
        eprintln!("op-bench: no peer's times: {PYTHON} is not there (`cargo xtask peers` makes it)");
    }
    let status = command.status().context("cargo run")?;
    ensure!(status.code().is_some(), "polychip-op-bench was ended by a signal");
    Ok(status.success())
}
