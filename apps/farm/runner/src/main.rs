//! `polychip-runner`: the program on a board of a device farm that measures.
//!
//! Invariants:
//! 1. Each item runs in a process of its own: a plugin that crashes or hangs costs its item, and nothing else.
//! 2. A record is in the journal, synced, before it is printed; a runner that is started again prints what the journal
//!    holds in place of measuring it again.
//! 3. Standard output holds records and nothing else: what a plugin prints goes to standard error.
//!
//! Not here: which board does what (`farm`), what a record is (`apps/farm/record`).
//! Start reading at [`serve`].

#![forbid(unsafe_code)]

mod board;
mod conditions;
mod inputs;
mod item;
mod journal;
mod measuring;
mod output;
mod serve;
mod store;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Measures on a board of a device farm.
#[derive(Debug, Parser)]
#[command(
    name = "polychip-runner",
    version,
    arg_required_else_help = true,
    after_help = "exit codes: 0 ok, 2 bad usage, 3 another runner works here, 4 a file differs from its name, 5 the journal cannot be \
                  written, 6 anything else"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Do the items that standard input holds, a line of JSON each, and print a record of each
    Serve(serve::Arguments),
    /// Do the one item that standard input holds, in this process
    #[command(hide = true)]
    Item {
        /// Where its outcome is written
        #[arg(long)]
        outcome: PathBuf,
        /// The folder of the run
        #[arg(long)]
        folder: PathBuf,
        /// Where files of sensors lie
        #[arg(long)]
        sensors: PathBuf,
    },
    /// Print the records of a run that this board has written down
    Journal {
        /// The folder that is the runner's own on this board
        #[arg(long)]
        folder: PathBuf,
        /// The run
        run: String,
    },
    /// Print BLAKE3 and length of files
    Hash {
        /// The files
        files: Vec<PathBuf>,
    },
    /// Give a file its name, if its bytes are what they should be
    Keep {
        /// The file
        from: PathBuf,
        /// Its name
        to: PathBuf,
        /// BLAKE3 of what it should hold, 64 hex digits
        blake3: String,
    },
    /// Print what the board says of itself and its state, as JSON
    Facts {
        /// Where files of sensors lie
        #[arg(long, default_value = "/")]
        sensors: PathBuf,
    },
}

/// A failure with an exit code of its own.
#[derive(Debug)]
struct Failure {
    code: u8,
    message: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Another runner works here.
const BUSY: u8 = 3;
/// A file differs from its name.
const DIFFERS: u8 = 4;
/// The journal cannot be written.
const NO_JOURNAL: u8 = 5;
/// Anything else.
const OTHER: u8 = 6;

fn failure(code: u8, message: impl std::fmt::Display) -> anyhow::Error {
    Failure {
        code,
        message: message.to_string(),
    }
    .into()
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Item {
            outcome,
            folder,
            sensors,
        } => item::run(&outcome, &folder, &sensors),
        Command::Journal { folder, run } => journal::print(&folder.join("runs").join(run)),
        Command::Hash { files } => store::hash(&files),
        Command::Keep { from, to, blake3 } => store::keep(&from, &to, &blake3),
        Command::Facts { sensors } => board::print(&sensors),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            let code = error
                .downcast_ref::<Failure>()
                .map_or(OTHER, |failure| failure.code);
            ExitCode::from(code)
        }
    }
}
