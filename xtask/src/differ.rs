//! `cargo xtask differ`: random graphs on Polychip's CPU and in ONNX Runtime.
//!
//! Invariant: prints the output of `polychip-differ`, and fails on a difference outside the classes of
//! `device-tests/expectations/differ.toml`.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::models::python;
use crate::root::root;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of graphs
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    graphs: usize,
    /// Random seed
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Index of the first graph; the seed and the index identify a graph
    #[arg(long, default_value_t = 0, value_name = "INDEX")]
    first: usize,
    /// Use only graphs with these ops
    #[arg(long, num_args = 1.., value_name = "OP")]
    only: Vec<String>,
    /// Also change a value in every equal graph, and count the changes that a known class excuses
    #[arg(long)]
    plant: bool,
    /// Write all figures and differences to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<std::path::PathBuf>,
    /// Save differing models and inputs in this folder
    #[arg(long, value_name = "DIR")]
    save: Option<std::path::PathBuf>,
    /// Print the smallest part of each unknown difference as ONNX text
    #[arg(long)]
    verbose: bool,
    /// Use the test build in target/debug, without building
    #[arg(long)]
    built: bool,
}

/// Whether every difference is known.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let mut command = if options.built {
        Command::new(root().join("target/debug/polychip-differ"))
    } else {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["run", "--quiet", "-p", "polychip-differ", "--"]);
        cargo
    };
    command
        .current_dir(root())
        .arg("--python")
        .arg(python(false)?)
        .args(["--graphs", &options.graphs.to_string()])
        .args(["--seed", &options.seed.to_string()])
        .args(["--first", &options.first.to_string()]);
    if !options.only.is_empty() {
        command.arg("--only").args(&options.only);
    }
    if options.plant {
        command.arg("--plant");
    }
    // folders of who asks, not of the repository
    let here = std::env::current_dir().context("where this runs")?;
    if let Some(path) = &options.json {
        command.arg("--json").arg(here.join(path));
    }
    if let Some(path) = &options.save {
        command.arg("--save").arg(here.join(path));
    }
    if options.verbose {
        command.arg("--verbose");
    }
    let status = command.status().context("starting polychip-differ")?;
    ensure!(status.code().is_some(), "polychip-differ was killed by a signal");
    Ok(status.success())
}

/// Why CI cannot run it here.
pub(crate) fn missing() -> Option<String> {
    let venv = root().join("target/venv");
    (!venv.is_dir()).then(|| "target/venv is missing (create it with `cargo xtask models`)".to_owned())
}
