//! Published pretrained models, through the crate that apps use and through ONNX Runtime: outputs, time, memory.
//!
//! Invariants:
//! 1. A refused model, or one without its package, is a row with the reason; none is omitted silently.
//! 2. Both sides get the same realistic inputs from `inputs.py`; nothing is judged only on noise.
//!
//! `models.toml` is the table of models, `peer.py` ONNX Runtime's side. Packages are downloaded by `cargo xtask
//! trained`. Not here: untrained networks (`cargo xtask peers`), single ops (`cargo xtask ops`).

mod list;
mod ours;
mod report;
mod steps;
mod versus;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use report::{Report, Row};
use versus::Conditions;

#[derive(Parser)]
#[command(about = "Compare pretrained models of public packages with ONNX Runtime")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the models and print the table
    Compare(CompareArguments),
    /// Run one model in this process, for `compare`
    #[command(hide = true)]
    Serve(ours::Arguments),
}

#[derive(clap::Args)]
struct CompareArguments {
    /// Python with ONNX Runtime, numpy and pillow
    #[arg(long, value_name = "PYTHON")]
    python: PathBuf,
    /// Folder with the unpacked packages
    #[arg(long, value_name = "DIR")]
    packages: PathBuf,
    /// Run only models whose names contain one of these texts, such as `silero-vad`
    #[arg(long, num_args = 1.., value_name = "TEXT")]
    only: Vec<String>,
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Devices to use
    #[arg(long, num_args = 1.., value_name = "DEVICE", default_values_t = ["cpu:0".to_owned()])]
    devices: Vec<String>,
    /// Rounds of each runtime
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Milliseconds per round
    #[arg(long, default_value_t = 100, value_name = "MS")]
    turn: u64,
    /// Write all figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Heading of the table in the `--page` file
    #[arg(long, value_name = "TEXT", default_value = "Trained models")]
    title: String,
    /// Also write the table to this file, as Markdown
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    match Arguments::parse().command {
        Command::Compare(arguments) => compare(arguments),
        Command::Serve(arguments) => {
            ours::serve(&arguments)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn compare(arguments: CompareArguments) -> Result<ExitCode> {
    let conditions = Conditions {
        scratch: arguments.packages.join("inputs"),
        python: arguments.python,
        packages: arguments.packages,
        threads: arguments.threads,
        devices: arguments.devices,
        rounds: arguments.rounds,
        turn_ns: arguments.turn * 1_000_000,
    };
    let models = list::models(&arguments.only)?;
    let mut rows = Vec::new();
    for (index, entry) in models.iter().enumerate() {
        report::progress(index + 1, models.len(), &entry.name);
        rows.push(Row {
            name: entry.name.clone(),
            outcome: versus::run(entry, &conditions)?,
        });
    }
    report::progress(0, 0, "");
    let report = Report::new(&conditions, rows);
    report::line(&report.to_string());
    if let Some(path) = &arguments.json {
        report.write(path)?;
    }
    if let Some(path) = &arguments.page {
        std::fs::write(path, format!("# {}\n\n{report}\n", arguments.title))?;
    }
    Ok(if report.failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
