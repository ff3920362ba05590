//! `polychip farm`: many boards, what they measured, and what changed.
//!
//! Invariant: everything that another program could want too is the library's (`farm/`); here are the command line, the
//! words and the files.

pub(crate) mod bundle;
pub(crate) mod compare;
pub(crate) mod report;

use crate::output::Output;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
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
        Command::Compare(arguments) => compare::run(arguments, out),
        Command::Report(arguments) => report::run(arguments, out),
        Command::Bundle(arguments) => bundle::run(arguments, out),
        Command::Keygen(arguments) => bundle::keygen(arguments, out),
    }
}
