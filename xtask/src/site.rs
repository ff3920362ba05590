//! `cargo xtask site`: the pages of the repository as a site, by mdBook, in the order of `docs/SUMMARY.md`.
//!
//! Pages lie where they are useful (beside crates, examples, bindings), mdBook reads one folder: so they are laid out below
//! `target/site` at their places in the tree, together with the files that they link to, and links stay as they are.
//!
//! Invariants:
//! 1. A page that a page links to is in the summary, or making the site fails.
//! 2. Of what mdBook made every link and picture leads to a file of the site and, where it names one, to a heading.
//! 3. Nothing of the network is needed; without mdBook this is *skipped* in CI, with the reason.
//!
//! Not here: whether all pages are in the summary (`tidy::pages`).

mod links;
mod stage;

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::root::root;

#[derive(clap::Args)]
pub(crate) struct Options {}

/// Why the site cannot be made here, if so.
pub(crate) fn missing() -> Option<&'static str> {
    let version = Command::new("mdbook").arg("--version").output();
    let there = version.is_ok_and(|output| output.status.success());
    (!there).then_some("mdbook is not installed (`cargo install mdbook --locked`)")
}

pub(crate) fn run(Options {}: &Options) -> Result<()> {
    if let Some(why) = missing() {
        anyhow::bail!("{why}");
    }
    let folder = root().join("target/site");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("clearing {}", folder.display()))?;
    }
    let pages = stage::lay_out(&folder)?;
    let output = Command::new("mdbook")
        .arg("build")
        .arg(&folder)
        .output()
        .context("starting mdbook")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "mdbook failed ({}):\n{said}",
        output.status
    );
    let troubles: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("WARN") || line.contains("ERROR"))
        .collect();
    ensure!(troubles.is_empty(), "mdbook says:\n{}", troubles.join("\n"));
    let book = folder.join("book");
    let wrong = links::broken(&book)?;
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    eprintln!("{pages} pages: {}", book.join("index.html").display());
    Ok(())
}
