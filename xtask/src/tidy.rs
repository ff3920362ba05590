//! Conventions as checks: crate edges, circles of imports, files of plugins, file
//! headers, file sizes, safety, and where versions stand.
//!
//! Invariant: every finding names the file or crate, the rule and what to do about it; all findings are
//! listed before the check fails.

use anyhow::{Result, bail};

mod circles;
mod edges;
mod imports;
mod manifests;
mod plugins;
mod sources;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print every circle of imports that breaks the rule, also those that are known
    #[arg(long)]
    circles: bool,
}

/// Runs all checks.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.circles {
        return circles::print();
    }
    let mut findings = Vec::new();
    circles::check(&mut findings)?;
    edges::check(&mut findings)?;
    manifests::check(&mut findings)?;
    plugins::check(&mut findings)?;
    sources::check(&mut findings)?;
    if findings.is_empty() {
        eprintln!("tidy: all conventions hold");
        return Ok(());
    }
    for finding in &findings {
        eprintln!("tidy: {finding}");
    }
    bail!("{} findings", findings.len())
}
