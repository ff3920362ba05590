//! `polychip-runner`: the measuring program on a board of a device farm.
//!
//! Invariants:
//! 1. Each item runs in its own process: a crashing or hanging plugin loses only its item.
//! 2. A record is synced to the journal before it is printed; a restarted runner prints the journal's records instead
//!    of measuring again.
//! 3. Standard output holds only records; plugin output goes to standard error.
//!
//! Not here: scheduling boards (`farm`), the form of a record (`apps/farm/record`). Start reading at [`serve`].

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
    after_help = "exit codes: 0 success, 2 wrong usage, 3 another runner works here, 4 a file differs from its name, 5 \
                  the journal cannot be written, 6 any other error"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run the items from standard input, one line of JSON each, and print a record of each
    Serve(serve::Arguments),
    /// Run the single item from standard input in this process
    #[command(hide = true)]
    Item {
        /// File to write the outcome to
        #[arg(long)]
        outcome: PathBuf,
        /// Folder of the run
        #[arg(long)]
        folder: PathBuf,
        /// Folder with sensor files
        #[arg(long)]
        sensors: PathBuf,
    },
    /// Print the records of a run from this board's journal
    Journal {
        /// The runner's own folder on this board
        #[arg(long)]
        folder: PathBuf,
        /// The run
        run: String,
    },
    /// Copy the profile of a run, for the host to fetch, and print the copy's name
    Profile {
        /// The runner's own folder on this board
        #[arg(long)]
        folder: PathBuf,
        /// The run
        run: String,
    },
    /// End the runner of a run before its next item
    Stop {
        /// The runner's own folder on this board
        #[arg(long)]
        folder: PathBuf,
        /// The run
        run: String,
    },
    /// Print the BLAKE3 hash and the length of files, `none` for missing ones
    Hash {
        /// The files
        files: Vec<PathBuf>,
    },
    /// Rename a file, if its hash matches
    Keep {
        /// The file
        from: PathBuf,
        /// New name
        to: PathBuf,
        /// Expected BLAKE3 hash, 64 hex digits
        blake3: String,
    },
    /// Print the board's description and state as JSON
    Facts {
        /// Folder with sensor files
        #[arg(long, default_value = "/")]
        sensors: PathBuf,
        /// Limits to judge the state by, as JSON
        #[arg(long, value_name = "JSON")]
        limits: Option<String>,
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
    // on a board that several people use, no other user reads models and results
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let done = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Item {
            outcome,
            folder,
            sensors,
        } => item::run(&outcome, &folder, &sensors),
        Command::Journal { folder, run } => journal::print(&folder.join("runs").join(run)),
        Command::Profile { folder, run } => serve::copy_profile(&folder.join("runs").join(run)),
        Command::Stop { folder, run } => serve::stop(&folder.join("runs").join(run)),
        Command::Hash { files } => store::hash(&files),
        Command::Keep { from, to, blake3 } => store::keep(&from, &to, &blake3),
        Command::Facts { sensors, limits } => board::print(&sensors, limits.as_deref()),
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
