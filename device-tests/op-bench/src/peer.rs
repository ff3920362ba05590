//! The same models in ONNX Runtime, where there is a Python that has it.
//!
//! Invariant: a model that the peer does not run has no figure of it; it is never counted as slower.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::measure::Row;

/// Times the models of a folder, one after the other in one process.
const SCRIPT: &str = include_str!("../peer.py");

/// Adds the peer's times to the rows.
///
/// # Errors
/// The Python does not run, or has no ONNX Runtime.
pub(crate) fn times(python: &Path, folder: &Path, threads: u32, rows: &mut [Row]) -> Result<()> {
    let output = Command::new(python)
        .args(["-B", "-c", SCRIPT])
        .arg(folder)
        .arg(threads.to_string())
        .output()
        .with_context(|| python.display().to_string())?;
    ensure!(
        output.status.success(),
        "{} has no ONNX Runtime that works: {}",
        python.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let times: BTreeMap<String, u64> = serde_json::from_slice(&output.stdout)?;
    for row in rows {
        if let Ok(figures) = &mut row.figures {
            figures.peer_ns = times.get(&row.name.replace(['/', ' '], "_")).copied();
        }
    }
    Ok(())
}
