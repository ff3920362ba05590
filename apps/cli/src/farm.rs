//! `polychip farm`: measures on all boards of a device farm; what they measured, and what changed.
//!
//! Invariant: everything that a program could want too is of the packages of the farm (`apps/farm/`); here are the command line,
//! the words and the files.

pub(crate) mod boards;
pub(crate) mod bundle;
pub(crate) mod compare;
mod desk;
mod programs;
pub(crate) mod report;
pub(crate) mod run;

use crate::output::Output;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the boards, and whether they are reached
    Boards(boards::Arguments),
    /// Measure models on all boards, and keep a record of each item in a folder
    Run(Box<run::Arguments>),
    /// Say what became slower, refused or broken from one run of a farm to another
    Compare(compare::Arguments),
    /// Show what was measured: a page, JUnit's XML, JSON
    Report(report::Arguments),
    /// Make a signed file of what was measured on one SoC, for apps to load
    Bundle(bundle::Arguments),
    /// Make a key that signs bundles, and print the public key that apps trust
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
        Command::Keygen(arguments) => bundle::keygen(arguments, out),
    }
}
