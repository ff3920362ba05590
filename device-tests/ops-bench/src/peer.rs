//! The same models in ONNX Runtime, in a Python process that computes only when it is asked to.
//!
//! Invariant: a model that the peer does not run has no peer figure; it never counts as slower.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

const SCRIPT: &str = include_str!("../peer.py");

/// A process that answers lines.
pub(crate) struct Peer {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// Version of ONNX Runtime.
    pub(crate) version: String,
}

#[derive(Deserialize)]
struct Loaded {
    /// Why the model is not run.
    refused: Option<String>,
}

impl Peer {
    /// Starts the process.
    ///
    /// # Errors
    /// The Python does not run, or has no ONNX Runtime.
    pub(crate) fn start(python: &Path) -> Result<Peer> {
        let mut child = Command::new(python)
            .args(["-B", "-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| python.display().to_string())?;
        let to = child.stdin.take().context("no standard input")?;
        let from = BufReader::new(child.stdout.take().context("no standard output")?);
        let mut peer = Peer {
            child,
            to,
            from,
            version: String::new(),
        };
        peer.version = peer
            .line()
            .with_context(|| format!("{} has no ONNX Runtime that works", python.display()))?;
        Ok(peer)
    }

    /// Loads these models in the places 0, 1 and so on of the models before; the reason where it runs none of them.
    ///
    /// # Errors
    /// The process has ended.
    pub(crate) fn load(&mut self, models: &[&Path], threads: u32) -> Result<Option<String>> {
        let mut refused = None;
        for (index, model) in models.iter().enumerate() {
            let loaded: Loaded = self.ask(&format!("load\t{index}\t{threads}\t{}", model.display()))?;
            refused = refused.or(loaded.refused);
        }
        Ok(refused)
    }

    /// Nanoseconds of each of so many runs.
    ///
    /// # Errors
    /// The process has ended.
    pub(crate) fn turn(&mut self, place: usize, runs: u64) -> Result<Vec<u64>> {
        self.ask(&format!("run\t{place}\t{runs}"))
    }

    fn ask<T: DeserializeOwned>(&mut self, what: &str) -> Result<T> {
        writeln!(self.to, "{what}").and_then(|()| self.to.flush())?;
        self.line()
    }

    fn line<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        ensure!(
            self.from.read_line(&mut line)? > 0,
            "ONNX Runtime's process has ended"
        );
        serde_json::from_str(&line).with_context(|| line)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // it may have ended already
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
