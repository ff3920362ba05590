//! One model in ONNX Runtime and in Polychip, each in a process of its own, by turns.
//!
//! Invariant: only one of the two computes at a time, and both get the same inputs.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::list::Entry;
use crate::ours::{Checked, Loaded};

/// How models are run.
#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    pub(crate) python: PathBuf,
    /// Folder of the unpacked packages.
    pub(crate) packages: PathBuf,
    /// Folder for inputs and outputs.
    pub(crate) scratch: PathBuf,
    pub(crate) threads: u32,
    pub(crate) devices: Vec<String>,
    /// Turns of each of the two.
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

/// A process that answers lines.
struct Runner {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Runner {
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        let to = child.stdin.take().context("no standard input")?;
        let from = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Runner { child, to, from })
    }

    /// The next line, or the process's last words.
    fn line<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            let mut words = String::new();
            if let Some(errors) = &mut self.child.stderr {
                errors.read_to_string(&mut words)?;
            }
            let lines = words.lines().filter(|line| !line.trim().is_empty());
            let last: Vec<&str> = lines.collect();
            return Err(anyhow!("{}", last[last.len().saturating_sub(6)..].join(" ")));
        }
        serde_json::from_str(&line).with_context(|| line)
    }

    fn ask<T: DeserializeOwned>(&mut self, what: &str) -> Result<T> {
        // where the process is gone, its last words say more than the broken pipe
        let _ = writeln!(self.to, "{what}").and_then(|()| self.to.flush());
        self.line()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // it may have ended already
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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

/// Both by turns, each turn of about the same length.
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
    let mine = Side {
        load_ns: loaded.load_ns,
        median_ns: median(mine),
        peak_bytes: ours.ask("peak")?,
    };
    let theirs = Side {
        load_ns: peer_loaded.load_ns,
        median_ns: median(theirs),
        peak_bytes: peer.ask("peak")?,
    };
    Ok(Pair {
        ours: mine,
        peer: theirs,
        outputs: ours.ask("check")?,
    })
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}
