//! `polychip farm`, called as by a user.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use polychip_farm_record::{Record, read_lines};
use serde_json::Value;

use crate::places::Board;

/// Longest until all boards are reached: an emulated one starts in seconds, on a machine that is in use in a minute.
const BOOT: Duration = Duration::from_secs(240);

/// The command with what it needs.
#[derive(Debug)]
pub(crate) struct Farm {
    pub(crate) polychip: PathBuf,
    pub(crate) coordinator: String,
    pub(crate) key: PathBuf,
    /// File for the keys of SSH servers.
    pub(crate) hosts: PathBuf,
    pub(crate) path: OsString,
    pub(crate) runners: Vec<PathBuf>,
    pub(crate) models: Vec<PathBuf>,
    pub(crate) work: PathBuf,
}

/// What a run left.
#[derive(Debug)]
pub(crate) struct Run {
    /// What the command printed.
    pub(crate) answer: Value,
    /// All records.
    pub(crate) records: Vec<Record>,
}

impl Farm {
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.polychip);
        command
            .args(["farm", name])
            .env("PATH", &self.path)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit());
        command
    }

    /// The command with the boards of the coordinator.
    fn with_boards(&self, name: &str) -> Command {
        let mut command = self.command(name);
        command
            .args(["--labgrid", &self.coordinator, "--key"])
            .arg(&self.key)
            .args(["--ssh-option", "StrictHostKeyChecking=accept-new", "--ssh-option"])
            .arg(format!("UserKnownHostsFile={}", self.hosts.display()));
        command
    }

    /// Waits until each board is reached; names and systems.
    pub(crate) fn wait_for_boards(&self, boards: &[Board]) -> Result<Vec<(String, String)>> {
        let end = Instant::now() + BOOT;
        loop {
            let output = self
                .with_boards("boards")
                .arg("--json")
                .stderr(Stdio::piped())
                .output()?;
            let answer: Value = serde_json::from_slice(&output.stdout).with_context(|| {
                format!(
                    "polychip farm boards: {}",
                    String::from_utf8_lossy(&output.stderr)
                )
            })?;
            let found = answer["boards"].as_array().cloned().unwrap_or_default();
            let text = |board: &Value, key: &str| board[key].as_str().map(str::to_owned);
            let reached: Vec<(String, String)> = found
                .iter()
                .filter_map(|board| Some((text(board, "name")?, text(board, "system")?)))
                .collect();
            if reached.len() == boards.len() {
                return Ok(reached);
            }
            ensure!(
                Instant::now() < end,
                "not all boards are reached within {} s: {answer:#}",
                BOOT.as_secs()
            );
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// Measures all models on all boards.
    pub(crate) fn measure(&self, name: &str) -> Result<Run> {
        let folder = self.work.join("runs").join(name);
        let mut command = self.with_boards("run");
        command
            .args(&self.models)
            .arg("--out")
            .arg(&folder)
            .args(["--id", name, "--json"]);
        for runner in &self.runners {
            command.arg("--runner").arg(runner);
        }
        // all boards share this machine's processors, and none is ever alone
        command.args(["--on", "cpu", "--jobs", "profile,bench", "--ignore-state"]);
        command.args([
            "--warmup",
            "1",
            "--iters",
            "5",
            "--seconds",
            "3",
            "--time-limit",
            "300",
        ]);
        let answer = json(&mut command)?;
        let mut records = Vec::new();
        let files = fs::read_dir(folder.join("records")).with_context(|| folder.display().to_string())?;
        for file in files {
            let path = file?.path();
            let text = fs::read(&path).with_context(|| path.display().to_string())?;
            records.extend(
                read_lines(&text)
                    .with_context(|| path.display().to_string())?
                    .records,
            );
        }
        Ok(Run { answer, records })
    }

    /// Compares a run with one before.
    pub(crate) fn compare(&self, base: &str, new: &str) -> Result<Value> {
        let runs = self.work.join("runs");
        json(
            self.command("compare")
                .arg(runs.join(base))
                .arg(runs.join(new))
                .arg("--json"),
        )
    }

    /// Shows runs as a page, as JUnit's XML and as JSON, which it gives.
    pub(crate) fn report(&self, runs: &[&str]) -> Result<Value> {
        let folder = self.work.join("runs");
        let mut command = self.command("report");
        command.args(runs.iter().map(|run| folder.join(run)));
        command.arg("--html").arg(self.work.join("report.html"));
        command.arg("--junit").arg(self.work.join("report.xml"));
        json(command.arg("--json"))
    }
}

/// What a command prints as JSON.
fn json(command: &mut Command) -> Result<Value> {
    let output = command
        .output()
        .with_context(|| format!("starting {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "{command:?} ended with {}: {text}",
        output.status
    );
    serde_json::from_str(&text).with_context(|| format!("{command:?} printed {text:?}"))
}
