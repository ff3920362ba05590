//! Proof that a missing guard is caught: a program with an unguarded `sdot` dies on a processor without it.
//!
//! Not here: the program (`device-tests/isa/unguarded/sdot.rs`), which is in no package, so that nothing else builds it.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::build::{LINKER, TARGET, compiler};
use super::emulator::{Emulator, signal_name};
use crate::root::root;

const SOURCE: &str = "device-tests/isa/unguarded/sdot.rs";
/// The extension whose instruction the program runs.
const EXTENSION: &str = "dotprod";
const SIGILL: i32 = 4;

/// Builds the program.
pub(super) fn build(target: &Path) -> Result<PathBuf> {
    let program = target.join("unguarded-sdot");
    let compiler = compiler().context("invariant: `missing` has found a compiler")?;
    let mut command = Command::new(compiler);
    command
        .args(["--edition=2024", "--target", TARGET, "-C"])
        .arg(format!("linker={LINKER}"))
        .arg("-o")
        .arg(&program)
        .arg(root().join(SOURCE));
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{SOURCE} does not build");
    Ok(program)
}

/// The extensions of the processor that kernels may ask for, as a program on it detects them.
pub(super) fn features(emulator: &Emulator, program: &Path) -> Result<String> {
    let output = emulator.command(program).arg("features").output()?;
    ensure!(
        output.status.success(),
        "qemu here does not emulate the processor {}: {}",
        emulator.cpu,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs the program, and says what that shows: it dies where the processor lacks the extension, and gives right sums
/// where it has it.
pub(super) fn prove(emulator: &Emulator, program: &Path, features: &str) -> Result<String> {
    let output = emulator.command(program).output()?;
    let status = output.status;
    let has = features.split(' ').any(|name| name == EXTENSION);
    match (has, status.signal()) {
        (false, Some(SIGILL)) => Ok("an unguarded sdot is caught: SIGILL".to_owned()),
        (true, None) if status.success() => Ok("an unguarded sdot runs with correct sums".to_owned()),
        (false, None) if status.success() => bail!(
            "an unguarded sdot ran on {}, which has no {EXTENSION}: a missing guard would not be caught",
            emulator.cpu
        ),
        (_, Some(signal)) => bail!("{SOURCE} was killed by {}", signal_name(signal)),
        _ => bail!(
            "{SOURCE} failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ),
    }
}
