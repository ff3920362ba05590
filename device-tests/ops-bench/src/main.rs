//! Single-op models through the API that apps use, interleaved with ONNX Runtime, with predictions made without a
//! profile.
//!
//! Invariants:
//! 1. Only one of the two computes at a time, and both get the same models and inputs.
//! 2. A prediction comes from a session without measurements: no profile, no cache.
//! 3. A model that cannot be built, planned or run is a row with the reason, and makes the program fail; it is never
//!    left out of the figures silently. One that ONNX Runtime does not run has no ratio.
//!
//! Not here: correct results (see the conformance suite), whole models (`cargo xtask trained`, `cargo xtask peers`).
//! Start reading at [`main`]; `ops.txt` is the table of cases, [`cases::without`] lists the ops without a case.

mod cases;
mod model;
mod ours;
mod peer;
mod report;
mod turns;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;

use cases::Size;
use report::Report;
use turns::Conditions;

#[derive(Parser)]
#[command(about = "Compare single-op models on the CPU with ONNX Runtime")]
struct Arguments {
    /// Run only cases whose names contain one of these texts, such as `LSTM` or `Conv/depthwise`
    #[arg(long, num_args = 1.., value_name = "TEXT")]
    only: Vec<String>,
    /// Tensor sizes
    #[arg(long, value_enum, num_args = 1.., default_values_t = [Size::Usual])]
    sizes: Vec<Size>,
    /// Instead of the table's sizes, draw so many cases with random sizes
    #[arg(long, value_name = "COUNT", conflicts_with = "sizes")]
    random: Option<usize>,
    /// Seed of the random sizes
    #[arg(long, default_value_t = 0, requires = "random")]
    seed: u64,
    /// CPU thread counts, measured one after another
    #[arg(long, num_args = 1.., default_values_t = [1, 2])]
    threads: Vec<u32>,
    /// Rounds of each runtime
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Milliseconds per round
    #[arg(long, default_value_t = 20, value_name = "MS")]
    turn: u64,
    /// Show predictions, sorted by their error
    #[arg(long)]
    predict: bool,
    /// Compare predictions with a run's minimum processor time instead of the median run; for one thread on a shared
    /// machine
    #[arg(long)]
    busy: bool,
    /// Python with ONNX Runtime; without it, only Polychip is measured
    #[arg(long, value_name = "PYTHON")]
    peer: Option<PathBuf>,
    /// Folder to write models and inputs to
    #[arg(long, value_name = "DIR", default_value = "target/ops-bench")]
    folder: PathBuf,
    /// Write all figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Text above the table in the `--page` file: the machine and its other load
    #[arg(long, value_name = "TEXT", default_value = "")]
    remark: String,
    /// Also write the table to this file, as Markdown
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// List the cases without running them
    #[arg(long)]
    list: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let cases = match arguments.random {
        Some(count) => cases::random::cases(count, arguments.seed, &arguments.only),
        None => cases::all(&arguments.sizes, &arguments.only),
    };
    let cases = cases.map_err(anyhow::Error::msg)?;
    if arguments.list {
        for case in &cases {
            report::line(&case.name);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let conditions = Conditions {
        threads: arguments.threads,
        rounds: arguments.rounds,
        turn: Duration::from_millis(arguments.turn),
        python: arguments.peer,
    };
    let rows = turns::all(&cases, &arguments.folder, &conditions)?;
    let report = Report::new(&conditions, (arguments.predict, arguments.busy), rows);
    report::line(&report.to_string());
    if let Some(path) = &arguments.json {
        report.write(path)?;
    }
    if let Some(path) = &arguments.page {
        report.page(path, &arguments.remark)?;
    }
    Ok(if report.failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
