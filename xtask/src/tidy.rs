//! Conventions as checks: crate edges, file headers, file sizes, safety, and where versions stand.
//!
//! Invariant: every finding names the file or crate, the rule and what to do about it; all findings are
//! listed before the check fails.

use anyhow::{Result, bail};

mod edges;
mod manifests;
mod sources;

/// Runs all checks.
pub(crate) fn run() -> Result<()> {
    let mut findings = Vec::new();
    edges::check(&mut findings)?;
    manifests::check(&mut findings)?;
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
