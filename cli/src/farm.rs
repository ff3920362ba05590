//! `polychip farm`: measures on all boards of a device farm.
//!
//! Invariant: everything that a program could want too is of the packages of the farm (`polychip-farm`); here are the command
//! line and the words.

pub(crate) mod boards;
mod desk;
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
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> anyhow::Result<()> {
    match &arguments.command {
        Command::Boards(arguments) => boards::run(arguments, out),
        Command::Run(arguments) => run::run(arguments, out),
    }
}
