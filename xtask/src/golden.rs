//! Committed files that are made from the plugin contract: the C header and the layout table.
//!
//! Invariant: a check never writes; `--bless` does, and the diff is then reviewed like code.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::root::root;

/// Environment variable that makes the layout test write its table instead of comparing it.
const BLESS: &str = "POLYCHIP_BLESS";
const HEADER: &str = "contract/abi/include/polychip_plugin.h";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Write the committed file anew instead of comparing it
    #[arg(long)]
    bless: bool,
}

/// Compares, or writes, the C header. Needs the program `cbindgen`.
pub(crate) fn header(options: &Options) -> Result<()> {
    let output = Command::new("cbindgen")
        .args([
            "--quiet",
            "--config",
            "contract/abi/cbindgen.toml",
            "contract/abi",
        ])
        .current_dir(root())
        .output()
        .context("running cbindgen (cargo install --locked cbindgen)")?;
    ensure!(
        output.status.success(),
        "cbindgen failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let path = root().join(HEADER);
    if options.bless {
        fs::create_dir_all(path.parent().expect("invariant: the header lies in a folder"))?;
        return fs::write(&path, &output.stdout).with_context(|| format!("writing {}", path.display()));
    }
    let committed = fs::read(&path).with_context(|| format!("reading {HEADER}"))?;
    if committed != output.stdout {
        bail!("{HEADER} differs from the Rust source: run `cargo xtask header --bless` and review the diff");
    }
    eprintln!("header: {HEADER} is what cbindgen makes of contract/abi");
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
        "the layout test failed: `cargo xtask layout --bless` writes the table anew"
    );
    Ok(())
}
