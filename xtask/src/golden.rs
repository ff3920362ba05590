//! Committed generated files: the C headers, and the plugin contract's layout table.
//!
//! Invariant: a check never writes; `--bless` does, and the diff is then reviewed like code.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::root::root;

/// Environment variable that makes the layout test write its table instead of comparing it.
const BLESS: &str = "POLYCHIP_BLESS";
/// A package, and the header that is made of it.
const HEADERS: [(&str, &str); 2] = [
    ("contract/abi", "contract/abi/include/polychip_plugin.h"),
    ("bindings/c", "bindings/c/include/polychip.h"),
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Write the committed file instead of comparing it
    #[arg(long)]
    bless: bool,
}

/// Compares, or writes, the C headers. Needs the program `cbindgen`.
pub(crate) fn header(options: &Options) -> Result<()> {
    HEADERS
        .iter()
        .try_for_each(|(package, file)| one_header(package, file, options))
}

fn one_header(package: &str, file: &str, options: &Options) -> Result<()> {
    let output = Command::new("cbindgen")
        .args([
            "--quiet",
            "--config",
            &format!("{package}/cbindgen.toml"),
            package,
        ])
        .current_dir(root())
        .output()
        .context("running cbindgen (cargo install --locked cbindgen)")?;
    ensure!(
        output.status.success(),
        "cbindgen failed on {package}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let path = root().join(file);
    if options.bless {
        fs::create_dir_all(path.parent().expect("invariant: the header lies in a folder"))?;
        return fs::write(&path, &output.stdout).with_context(|| format!("writing {}", path.display()));
    }
    let committed = fs::read(&path).with_context(|| format!("reading {file}"))?;
    if committed != output.stdout {
        bail!("{file} differs from the Rust source: run `cargo xtask header --bless` and review the diff");
    }
    eprintln!("header: {file} matches {package}");
    Ok(())
}

/// Compares, or writes, the table of sizes and offsets.
pub(crate) fn layout(options: &Options) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["test", "--quiet", "--package", "polychip-abi", "--test", "layout"])
        .current_dir(root());
    if options.bless {
        command.env(BLESS, "1");
    }
    ensure!(
        command.status()?.success(),
        "the layout test failed: update the table with `cargo xtask layout --bless`"
    );
    Ok(())
}
