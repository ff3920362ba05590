//! Sessions as apps use them, beside ONNX Runtime: inputs of many widths, streams with a state, sessions side by side, two
//! models that read a page, three models on one thread.
//!
//! Invariants:
//! 1. Both sides get the same inputs, made by `peer.py` or read from one file, and compute by turns, each in a process of its own.
//! 2. Times are of the whole call that an app makes: filling the input, planning where the shape is new, the run.
//!
//! Not here: single runs of fixed shapes (`cargo xtask trained`), networks that are made (`cargo xtask peers`).

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
#[command(about = "Sessions as apps use them, beside ONNX Runtime")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A recogniser fed lines of text of random widths
    Widths(versus::Arguments),
    /// A voice detector fed a stream of chunks, whose state is fed back
    Stream(versus::Arguments),
    /// Two sessions of one runtime at once, each with one thread, and each alone
    Beside(beside::Arguments),
    /// Plans for devices that work at once, beside others and beside each device alone
    AtOnce(at_once::Arguments),
    /// Three models on one thread of the CPU: a camera's, one of speech, and one without end beside them
    Lanes(lanes::Arguments),
    /// The example that reads the text of a picture, two models at once
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
