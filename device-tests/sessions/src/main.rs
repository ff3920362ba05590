//! Compare typical app sessions with ONNX Runtime: inputs of many widths, streams with a state, sessions side by
//! side, two models that read a page, three models on one thread.
//!
//! Invariants:
//! 1. Both sides get the same inputs, made by `peer.py` or read from one file, and compute by turns, each in a process of its own.
//! 2. Times cover the app's whole call: filling the input, planning for a new shape, the run.
//!
//! Not here: single runs of fixed shapes (`cargo xtask trained`), untrained networks (`cargo xtask peers`).

mod at_once;
mod beside;
mod lanes;
mod ocr;
mod ours;
mod versus;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Compare typical app sessions with ONNX Runtime")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A text recogniser with lines of random widths
    Widths(versus::Arguments),
    /// A voice detector on a stream of chunks, with its state fed back
    Stream(versus::Arguments),
    /// Two concurrent sessions of one runtime with one thread each, and each session alone
    Beside(beside::Arguments),
    /// Plans for concurrent devices, against other plans and each device alone
    AtOnce(at_once::Arguments),
    /// Three models on one CPU thread: a camera model, a speech model and an endless background model
    Lanes(lanes::Arguments),
    /// The OCR example, which runs two models concurrently
    Ocr(ocr::Arguments),
    /// One side, for the others
    #[command(hide = true)]
    Serve {
        kind: ours::Kind,
        model: PathBuf,
        folder: PathBuf,
        threads: u32,
        count: usize,
    },
    /// One side of `ocr`
    #[command(hide = true)]
    ServeOcr(ocr::Side),
}

fn main() -> Result<()> {
    let text = match Arguments::parse().command {
        Command::Widths(arguments) => versus::run(ours::Kind::Widths, &arguments)?,
        Command::Stream(arguments) => versus::run(ours::Kind::Stream, &arguments)?,
        Command::Beside(arguments) => beside::run(&arguments)?,
        Command::AtOnce(arguments) => at_once::run(&arguments)?,
        Command::Lanes(arguments) => lanes::run(&arguments)?,
        Command::Ocr(arguments) => ocr::run(&arguments)?,
        Command::ServeOcr(side) => return ocr::serve(&side),
        Command::Serve {
            kind,
            model,
            folder,
            threads,
            count,
        } => return ours::serve(kind, &model, &folder, threads, count),
    };
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}
