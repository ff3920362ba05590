//! `cargo xtask soc`: figures of governed sessions on the emulated SoC.
//!
//! Invariants:
//! 1. Tables and seeds stand in `device-tests/emulators/soc/tables`; the program of that package does all the work,
//!    on virtual time, so that the figures are the same on every host.
//! 2. All of them are labelled emulated.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::root::root;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Runs per table; default: the committed number
    #[arg(long)]
    seeds: Option<u64>,
    /// Use only the shipped table, without the perturbed ones
    #[arg(long)]
    shipped_only: bool,
    /// Use only these tables, by index: 0 is the shipped one, followed by the perturbed ones
    #[arg(long, value_name = "N")]
    table: Vec<usize>,
    /// Surface temperature limit instead of the tables', in thousandths of a degree Celsius
    #[arg(long, value_name = "MC")]
    skin_limit: Option<f64>,
    /// Compute only these figures: sustained, ablation, savings or losses
    #[arg(long)]
    only: Vec<String>,
    /// JSON file to write the figures to
    #[arg(long, default_value = "target/soc.json")]
    json: PathBuf,
}

/// Runs the study; its tables go to the standard output.
pub(crate) fn run(options: &Options) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(root())
        .args([
            "run",
            "--release",
            "--package",
            "polychip-soc",
            "--bin",
            "soc",
            "--",
            "--json",
        ])
        .arg(root().join(&options.json));
    if let Some(seeds) = options.seeds {
        command.args(["--seeds", &seeds.to_string()]);
    }
    if options.shipped_only {
        command.arg("--shipped-only");
    }
    for table in &options.table {
        command.args(["--table", &table.to_string()]);
    }
    if let Some(limit) = options.skin_limit {
        command.args(["--skin-limit", &limit.to_string()]);
    }
    for section in &options.only {
        command.args(["--only", section]);
    }
    let status = command.status().context("cargo run")?;
    if !status.success() {
        bail!("the emulated SoC study ended with {status}");
    }
    Ok(())
}
