//! Models of one op each, through the door that an app uses: what a run is predicted to take without any profile, and what
//! it takes.
//!
//! Invariants:
//! 1. A prediction is of a session that was never measured: no profile, no cache.
//! 2. A model that cannot be built, planned or run is a row with the reason, and makes the program fail; it is never
//!    left out of the figures silently.
//!
//! Not here: right answers (the conformance suite judges them), whole models (`cargo xtask peers`).
//! Start reading at [`main`]; `ops.txt` is the table of cases. Ops that take text, sequences or optional values have none.

mod cases;
mod measure;
mod model;
mod peer;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;

use cases::Size;
use measure::Conditions;
use report::Report;

#[derive(Parser)]
#[command(about = "Predicted and measured times of models of one op each, on the CPU")]
struct Arguments {
    /// Only cases whose names contain one of these, such as `LSTM` or `Conv/depthwise`
    #[arg(long, num_args = 1.., value_name = "TEXT")]
    only: Vec<String>,
    /// Sizes of the tensors
    #[arg(long, value_enum, num_args = 1.., default_values_t = [Size::Usual])]
    sizes: Vec<Size>,
    /// Threads of the CPU; 0 for as many as it has cores
    #[arg(long, default_value_t = 0)]
    threads: u32,
    /// Milliseconds of runs per case
    #[arg(long, default_value_t = 200, value_name = "MS")]
    patience: u64,
    /// Judge by the least processor time of a run and not by the median run: for one thread on a machine that others use
    #[arg(long)]
    busy: bool,
    /// Python with ONNX Runtime, whose time is then printed beside ours
    #[arg(long, value_name = "PYTHON")]
    peer: Option<PathBuf>,
    /// Where models and inputs are written
    #[arg(long, value_name = "DIR", default_value = "target/op-bench")]
    folder: PathBuf,
    /// Write every figure to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only list the cases
    #[arg(long)]
    list: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let cases = cases::all(&arguments.sizes, &arguments.only).map_err(anyhow::Error::msg)?;
    if arguments.list {
        for case in &cases {
            report::line(&case.name);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let conditions = Conditions {
        threads: arguments.threads,
        patience: Duration::from_millis(arguments.patience),
        busy: arguments.busy,
    };
    let mut rows = measure::all(&cases, &arguments.folder, &conditions)?;
    if let Some(python) = &arguments.peer {
        peer::times(python, &arguments.folder, arguments.threads, &mut rows)?;
    }
    let report = Report::new(&conditions, rows);
    report::line(&report.to_string());
    if let Some(path) = &arguments.json {
        report.write(path)?;
    }
    Ok(if report.failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
