//! This machine's programs.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Debian's C compiler for arm64, which links, too.
pub(super) const LINKER: &str = "aarch64-linux-gnu-gcc";

/// Runs a program, whose words are for whoever started the chore.
pub(super) fn call(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("starting {command:?}"))?;
    ensure!(
        status.success(),
        "{} failed ({status})",
        command.get_program().to_string_lossy()
    );
    Ok(())
}
