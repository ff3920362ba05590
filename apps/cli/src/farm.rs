//! `polychip farm`: measures on all boards of a device farm, and reports results and changes.
//!
//! Invariant: functionality that other programs may need is in the farm packages (`farm/`). Here are only the command
//! line, texts and files.

pub(crate) mod boards;
pub(crate) mod bundle;
pub(crate) mod clean;
pub(crate) mod compare;
mod desk;
pub(crate) mod dry_run;
mod models;
mod nightly;
mod programs;
pub(crate) mod report;
pub(crate) mod run;
mod suspects;
mod transfers;

use crate::output::Output;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the boards, whether each can be reached, and whether it is ready to be measured on
    Boards(boards::Arguments),
    /// Measure models on all boards, and record each item in a folder
    Run(Box<run::Arguments>),
    /// Compare two farm runs: which items became slower, unsupported or broken
    Compare(compare::Arguments),
    /// Report the measurements as an HTML page, JUnit XML or JSON
    Report(report::Arguments),
    /// Write a signed bundle of one SoC's measurements, for apps to load
    Bundle(bundle::Arguments),
    /// Delete the runner, models and results that the farm keeps on boards
    Clean(clean::Arguments),
    /// Create a key that signs bundles, and print the public key for apps to trust
    Keygen(bundle::KeygenArguments),
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    match &arguments.command {
        Command::Boards(arguments) => boards::run(arguments, out),
        Command::Run(arguments) => run::run(arguments, out),
        Command::Compare(arguments) => compare::run(arguments, out),
        Command::Report(arguments) => report::run(arguments, out),
        Command::Bundle(arguments) => bundle::run(arguments, out),
        Command::Clean(arguments) => clean::run(arguments, out),
        Command::Keygen(arguments) => bundle::keygen(arguments, out),
    }
}
