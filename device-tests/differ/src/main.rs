//! Compares random graphs on Polychip's CPU with ONNX Runtime: results are equal, or the difference is explained.
//!
//! Invariants:
//! 1. A graph depends only on seed and index, so each can be reproduced alone.
//! 2. A difference that no class of `expectations/differ.toml` is of makes the program fail; so does a panic, and a graph
//!    that several devices do not run. One that comes out otherwise on them is judged as on the CPU alone: by its first node
//!    that differs, or by what rounding between its nodes comes to.
//! 3. A class does not apply if ONNX's reference evaluator agrees with ONNX Runtime, unless it states why.
//!
//! The generator and ONNX Runtime are `peer.py`; `drafts.py` grows a graph, `recipes.py` and `images.py` say how a node of
//! each op is drawn; `recurrent.py` is the referee of recurrent ops, `evidence.py` computes what `evidence.rs` decides by.
//! Not here: models of people (`cargo xtask trained`), the backend suite (`onnx_backend`).
//! Start reading at [`campaign::run`].

#![forbid(unsafe_code)]

mod campaign;
mod drawn;
mod evidence;
mod known;
mod ours;
mod peer;
mod planted;
mod report;
mod shrink;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

#[derive(Parser)]
#[command(
    about = "Compare random graphs on Polychip's CPU with ONNX Runtime, with the ONNX reference as referee"
)]
struct Arguments {
    /// Python with onnx, onnxruntime and numpy
    #[arg(long, value_name = "PYTHON", default_value = "target/venv/bin/python")]
    python: PathBuf,
    /// Number of graphs
    #[arg(long, default_value_t = 500, value_name = "N")]
    graphs: usize,
    /// Index of the first graph; the seed and the index identify a graph
    #[arg(long, default_value_t = 0, value_name = "INDEX")]
    first: usize,
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Use only graphs with these ops
    #[arg(long, num_args = 1.., value_name = "OP")]
    only: Vec<String>,
    /// Also split every Nth graph over scripted devices; 0 for none
    #[arg(long, default_value_t = 4, value_name = "N")]
    split_every: usize,
    /// Also change a value in every equal graph, in a node or the whole, and count the changes that a known class
    /// excuses
    #[arg(long)]
    plant: bool,
    /// Write all figures and differences to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Save differing models and inputs in this folder
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Print the smallest part of each unknown difference as ONNX text
    #[arg(long)]
    verbose: bool,
    /// Only print the available ops
    #[arg(long)]
    list: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if arguments.list {
        for op in peer::ops(&arguments.python)? {
            report::line(&op);
        }
        return Ok(ExitCode::SUCCESS);
    }
    // a panic is told with the graph that it came of
    std::panic::set_hook(Box::new(|_| {}));
    let report = campaign::run(&arguments)?;
    report::done();
    if arguments.verbose {
        for finding in report.unknown() {
            report::line(&format!(
                "graph {}: {} ({:?}): {}\n{}",
                finding.index, finding.ops, finding.referee, finding.words, finding.text
            ));
        }
    }
    report::line(&report.to_string());
    if let Some(path) = &arguments.json {
        report.write(path)?;
    }
    Ok(if report.unknown().next().is_some() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
