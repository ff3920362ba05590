//! `polychip-mutants`: mutated models by the thousand, and one of them again.
#![allow(clippy::print_stdout)] // it is what this program is for

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use polychip_mutants::{Conditions, ServeArguments, drive, models, mutate, serve};

#[derive(Parser)]
#[command(about = "Mutated models: each is refused by name or runs, in bounded time and memory")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Tries mutants and says what came of them; fails where one panics, hangs, ends the process or takes too much memory
    Run(RunArguments),
    /// Writes one mutant to a file and says what was changed
    One {
        model: PathBuf,
        seed: u64,
        /// Where it is written
        #[arg(short, long, value_name = "FILE", default_value = "mutant.onnx")]
        output: PathBuf,
    },
    /// Tries mutants as it is told, for `run`
    #[command(hide = true)]
    Serve(ServeArguments),
}

#[derive(clap::Args)]
struct RunArguments {
    /// Folders whose models are mutated, with all below
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    #[arg(long, default_value_t = 10_000)]
    count: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[arg(long, default_value = "cpu:0")]
    device: String,
    /// Processes at a time; 0 for as many as there are processors
    #[arg(long, default_value_t = 0)]
    processes: usize,
    /// The longest that a mutant may take, in seconds
    #[arg(long, default_value_t = 10, value_name = "S")]
    patience: u64,
    /// What a mutant may take of memory beside four times its file, in MiB
    #[arg(long, default_value_t = 2048, value_name = "MIB")]
    memory: u64,
    /// The largest model that is mutated, in MiB
    #[arg(long, default_value_t = 2, value_name = "MIB")]
    largest: u64,
    /// Write counts and findings to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    match Arguments::parse().command {
        Command::Run(arguments) => run(&arguments),
        Command::One { model, seed, output } => {
            let (what, mutant) = mutate(
                &std::fs::read(&model).with_context(|| model.display().to_string())?,
                seed,
            );
            std::fs::write(&output, mutant).with_context(|| output.display().to_string())?;
            println!("{}: {what}", output.display());
            Ok(ExitCode::SUCCESS)
        }
        Command::Serve(arguments) => {
            serve(&arguments)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run(arguments: &RunArguments) -> Result<ExitCode> {
    let processes = match arguments.processes {
        0 => std::thread::available_parallelism()?.get(),
        processes => processes,
    };
    let report = drive(&Conditions {
        program: std::env::current_exe()?,
        models: models(&arguments.folders, arguments.largest << 20)?,
        count: arguments.count,
        seed: arguments.seed,
        device: arguments.device.clone(),
        processes,
        patience: Duration::from_secs(arguments.patience),
        memory: arguments.memory << 20,
    })?;
    println!("{report}");
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)
            .with_context(|| path.display().to_string())?;
    }
    Ok(if report.clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
