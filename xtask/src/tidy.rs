//! Conventions as checks: crate edges, import cycles, the statements of ARCHITECTURE.md, the contract's calls, words,
//! retired phrases, dependencies, pages, files of plugins, file headers, file sizes, safety, and the place of versions.
//!
//! Invariant: every finding names the file or crate, the rule and what to do about it; all findings are
//! listed before the check fails.

use anyhow::{Result, bail};
use cargo_metadata::MetadataCommand;

use crate::root::root;

mod architecture;
mod calls;
mod circles;
mod dependencies;
mod edges;
mod imports;
mod manifests;
mod packages;
pub(crate) mod pages;
mod phrases;
mod plugins;
mod sources;
mod unsafe_code;
mod words;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print every name that contains a ruled-out word, including known ones
    #[arg(long)]
    words: bool,
}

/// Runs all checks; `chores` are the commands that `cargo xtask` has.
pub(crate) fn run(options: &Options, chores: &[String]) -> Result<()> {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()?;
    if options.words {
        return words::print();
    }
    let mut findings = Vec::new();
    architecture::check(&metadata, chores, &mut findings)?;
    calls::check(&mut findings)?;
    circles::check(&metadata, &mut findings)?;
    dependencies::check(&metadata, &mut findings)?;
    edges::check(&metadata, &mut findings)?;
    manifests::check(&mut findings)?;
    packages::check(&metadata, &mut findings)?;
    pages::check(&metadata, &mut findings)?;
    phrases::check(&mut findings)?;
    plugins::check(&mut findings)?;
    sources::check(&mut findings)?;
    unsafe_code::check(&metadata, &mut findings)?;
    words::check(&mut findings)?;
    if findings.is_empty() {
        eprintln!("tidy: all conventions hold");
        return Ok(());
    }
    for finding in &findings {
        eprintln!("tidy: {finding}");
    }
    bail!("{} findings", findings.len())
}
