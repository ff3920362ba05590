//! `cargo xtask placement-bench`: plans beside other rules, the time of planning, fronts, schedules, reasons, and
//! proved optima, on an open corpus.
//!
//! Invariants:
//! 1. Graphs, device tables, seeds and optima stand in `partitioner/benches`; the program there does all the work.
//! 2. A mean gain over ONNX Runtime's rule below 1.3 in `quality`, or a plan that contradicts a proved optimum, fails
//!    the chore; times never do: they stand beside a calibration loop.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::root::root;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only these sections
    #[arg(value_parser = ["speed", "front", "makespan", "explain", "quality", "public", "throughput"])]
    sections: Vec<String>,
    /// Run only families of growing graphs whose name contains this text
    #[arg(long)]
    only: Option<String>,
    /// Number of corpus seeds; default: all
    #[arg(long)]
    seeds: Option<usize>,
    /// JSON file to write the figures to
    #[arg(long, default_value = "target/placement-bench.json")]
    json: PathBuf,
    /// Folder for the instances, which `device-tests/witness/placement.py` and `throughput.py` solve with HiGHS
    #[arg(long)]
    dump: Option<PathBuf>,
    /// Folder of public device-placement inputs, such as `latency-inputs` of a checkout of
    /// msr-fiddle/dnn-partitioning; default: `partitioner/benches/corpus/public`
    #[arg(long)]
    inputs: Option<PathBuf>,
}

/// Runs the benchmark; its tables go to the standard output.
pub(crate) fn run(options: &Options) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(root())
        .args([
            "bench",
            "--package",
            "polychip-partitioner",
            "--bench",
            "placement",
            "--",
        ])
        .args(&options.sections)
        .arg("--json")
        .arg(root().join(&options.json));
    if let Some(only) = &options.only {
        command.args(["--only", only]);
    }
    if let Some(seeds) = options.seeds {
        command.args(["--seeds", &seeds.to_string()]);
    }
    if let Some(folder) = &options.dump {
        std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        command.arg("--dump").arg(root().join(folder));
    }
    if let Some(folder) = &options.inputs {
        command.arg("--inputs").arg(root().join(folder));
    }
    let status = command.status().context("starting cargo")?;
    if !status.success() {
        bail!("the benchmark failed ({status})");
    }
    Ok(())
}
