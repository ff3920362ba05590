//! One model in ONNX Runtime and in Polychip, each in its own process, alternating.
//!
//! Invariant: only one of the two computes at a time, and both get the same inputs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use polychip_device_tests::process::Runner;
use polychip_profile::median;
use serde::Serialize;

use crate::list::Entry;
use crate::ours::{Checked, Loaded};

/// How models are run.
#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    pub(crate) python: PathBuf,
    /// Folder with the unpacked packages.
    pub(crate) packages: PathBuf,
    /// Folder for inputs and outputs.
    pub(crate) scratch: PathBuf,
    pub(crate) threads: u32,
    pub(crate) devices: Vec<String>,
    /// Rounds of each runtime.
    pub(crate) rounds: usize,
    /// Nanoseconds of a turn.
    pub(crate) turn_ns: u64,
}

/// What one of the two came to.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Side {
    pub(crate) load_ns: u64,
    pub(crate) median_ns: u64,
    pub(crate) peak_bytes: u64,
}

/// A model in both.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Pair {
    pub(crate) ours: Side,
    pub(crate) peer: Side,
    pub(crate) outputs: Vec<Checked>,
    /// What the CPU leaves to the scalar reference evaluator.
    pub(crate) reference: Vec<String>,
}

/// What came of a model.
#[derive(Debug, Clone, Serialize)]
pub(crate) enum Outcome {
    Ran(Pair),
    /// The package is not there.
    Missing,
    /// ONNX Runtime does not run it, in its words.
    PeerRefuses(String),
    /// Polychip does not run it, in its words.
    WeRefuse(String),
}

/// Runs a model in both.
///
/// # Errors
/// A process cannot be started, or the peer fails between runs.
pub(crate) fn run(entry: &Entry, conditions: &Conditions) -> Result<Outcome> {
    let model = conditions.packages.join(&entry.file);
    if !model.is_file() {
        return Ok(Outcome::Missing);
    }
    let folder = conditions.scratch.join(entry.name.replace('/', "_"));
    let threads = conditions.threads.to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peer.py");
    let mut peer = Runner::start(
        Command::new(&conditions.python)
            .arg("-B")
            .arg(script)
            .arg(&model)
            .arg(&entry.inputs)
            .arg(&folder)
            .arg(&threads),
    )?;
    let peer_loaded: Loaded = match peer.line() {
        Ok(loaded) => loaded,
        Err(words) => return Ok(Outcome::PeerRefuses(words.to_string())),
    };
    let mut ours = Runner::start(
        Command::new(std::env::current_exe()?)
            .env("RUST_BACKTRACE", "0")
            .arg("serve")
            .arg(&model)
            .arg(&folder)
            .arg(&threads)
            .args(&conditions.devices),
    )?;
    Ok(match turns(&mut ours, &mut peer, peer_loaded, conditions) {
        Ok(pair) => Outcome::Ran(pair),
        Err(words) => Outcome::WeRefuse(words.to_string()),
    })
}

/// Both alternately, each turn of about the same length.
fn turns(ours: &mut Runner, peer: &mut Runner, peer_loaded: Loaded, conditions: &Conditions) -> Result<Pair> {
    let loaded: Loaded = ours.line()?;
    let mut counts = [1, 1];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=conditions.rounds {
        for (which, runner) in [&mut *ours, &mut *peer].into_iter().enumerate() {
            let found: Vec<u64> = runner.ask(&counts[which].to_string())?;
            if round == 0 {
                // the first turn warms, and tells how many runs a turn holds
                let warm: Vec<u64> = runner.ask("3")?;
                let least = warm.iter().min().copied().unwrap_or(1).max(1);
                counts[which] = (conditions.turn_ns / least).clamp(1, 10_000);
            } else {
                times[which].extend(found);
            }
        }
    }
    let [mine, theirs] = times;
    let middle = |mut times: Vec<u64>| median(&mut times, u64::cmp).unwrap_or(0);
    let mine = Side {
        load_ns: loaded.load_ns,
        median_ns: middle(mine),
        peak_bytes: ours.ask("peak")?,
    };
    let theirs = Side {
        load_ns: peer_loaded.load_ns,
        median_ns: middle(theirs),
        peak_bytes: peer.ask("peak")?,
    };
    Ok(Pair {
        ours: mine,
        peer: theirs,
        outputs: ours.ask("check")?,
        reference: ours.ask("reference")?,
    })
}
