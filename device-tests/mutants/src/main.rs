//! `polychip-mutants`: tries thousands of mutated models, or reproduces one.
#![allow(clippy::print_stdout)] // it is what this program is for

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use polychip_mutants::{Conditions, ServeArguments, drive, models, mutate, serve};

#[derive(Parser)]
#[command(
    about = "Run mutated models: each must be refused with a reason or run, in bounded time and memory"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Try mutants and report the results; fails if one panics, hangs, kills the process or uses too much memory
    Run(RunArguments),
    /// Write one mutant to a file and print the change
    One {
        model: PathBuf,
        seed: u64,
        /// File to write
        #[arg(short, long, value_name = "FILE", default_value = "mutant.onnx")]
        output: PathBuf,
    },
    /// Try mutants on request, for `run`
    #[command(hide = true)]
    Serve(ServeArguments),
}

#[derive(clap::Args)]
struct RunArguments {
    /// Folders of models to mutate, including subfolders
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    #[arg(long, default_value_t = 10_000)]
    count: u64,
    /// First seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[arg(long, default_value = "cpu:0")]
    device: String,
    /// Number of processes; 0 for one per processor
    #[arg(long, default_value_t = 0)]
    processes: usize,
    /// Maximum seconds per mutant
    #[arg(long, default_value_t = 10, value_name = "S")]
    patience: u64,
    /// Memory limit per mutant in MiB, in addition to four times its file size
    #[arg(long, default_value_t = 2048, value_name = "MIB")]
    memory: u64,
    /// Size limit of models to mutate, in MiB
    #[arg(long, default_value_t = 2, value_name = "MIB")]
    largest: u64,
    /// Write counts and findings to this file as JSON
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
