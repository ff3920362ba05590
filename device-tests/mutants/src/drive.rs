//! Processes that try mutants, with their time, memory and liveness monitored.
//!
//! Invariants:
//! 1. A process that ends, hangs or uses too much memory is a finding with model and seed; another process continues
//!    with the next mutant.
//! 2. Same models, count and seed: same mutants, however many processes there are.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use crate::report::{Finding, Report};
use crate::serve::{Answer, Ask};

/// What mutants are made of, and what they are held to.
#[derive(Debug, Clone)]
pub struct Conditions {
    /// The program whose `serve` tries mutants.
    pub program: PathBuf,
    /// Mutated in turn.
    pub models: Vec<PathBuf>,
    /// How many mutants are tried.
    pub count: u64,
    /// First seed; the others follow.
    pub seed: u64,
    /// The device that runs them.
    pub device: String,
    /// How many processes try them at a time.
    pub processes: usize,
    /// The longest that a mutant may take.
    pub patience: Duration,
    /// What a mutant may take of memory, beside four times its file.
    pub memory: u64,
}

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Every `.onnx` file below these folders, at most so large, in the order of their names.
///
/// # Errors
/// A folder cannot be read.
pub fn models(folders: &[PathBuf], largest: u64) -> Result<Vec<PathBuf>> {
    fn gather(folder: &Path, largest: u64, all: &mut Vec<PathBuf>) -> Result<()> {
        for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                gather(&path, largest, all)?;
            } else if path.extension().is_some_and(|extension| extension == "onnx")
                && path.metadata()?.len() <= largest
            {
                all.push(path);
            }
        }
        Ok(())
    }
    let mut all = Vec::new();
    for folder in folders {
        gather(folder, largest, &mut all)?;
    }
    all.sort();
    Ok(all)
}

/// Tries the mutants.
///
/// # Errors
/// There are no models, or the program cannot be started.
pub fn drive(conditions: &Conditions) -> Result<Report> {
    if conditions.models.is_empty() {
        bail!("no model to mutate");
    }
    let scratch = tempfile::tempdir()?;
    let report = Mutex::new(Report::default());
    let next = AtomicU64::new(0);
    let bar = ProgressBar::new(conditions.count).with_style(
        ProgressStyle::with_template("{pos} of {len} mutants, {per_sec}, {eta} left")
            .expect("invariant: a template"),
    );
    std::thread::scope(|scope| -> Result<()> {
        let lanes: Vec<_> = (0..conditions.processes.max(1))
            .map(|_| scope.spawn(|| lane(conditions, scratch.path(), &next, &report, &bar)))
            .collect();
        for lane in lanes {
            lane.join().map_err(|_| anyhow::anyhow!("a lane panicked"))??;
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    Ok(report
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .sorted())
}

/// The process of a lane.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(conditions: &Conditions, scratch: &Path) -> Result<Process> {
        let mut child = Command::new(&conditions.program)
            .arg("serve")
            .arg("--scratch")
            .arg(scratch)
            .args(["--device", &conditions.device])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| conditions.program.display().to_string())?;
        let output = child.stdout.take().context("the process has no output")?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Process { child, lines })
    }

    /// What came of a mutant, or what is wrong.
    fn ask(&mut self, ask: &Ask, conditions: &Conditions, limit: u64) -> Result<Answer, String> {
        let line = serde_json::to_string(ask).map_err(|error| error.to_string())?;
        let mut input = self.child.stdin.as_ref().ok_or("the process has no input")?;
        if writeln!(input, "{line}").is_err() {
            return Err(self.ended());
        }
        let start = Instant::now();
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => return serde_json::from_str(&line).map_err(|error| format!("{error}: {line}")),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let resident = resident(self.child.id());
            if resident > limit {
                return Err(format!("takes {} MiB", resident >> 20));
            }
            if start.elapsed() > conditions.patience {
                return Err(format!("takes more than {} s", conditions.patience.as_secs()));
            }
        }
    }

    fn ended(&mut self) -> String {
        match self.child.wait() {
            Ok(status) => format!("ended the process: {status}"),
            Err(error) => format!("ended the process: {error}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Resident memory of a process, where the system tells.
fn resident(id: u32) -> u64 {
    let pages = std::fs::read_to_string(format!("/proc/{id}/statm")).unwrap_or_default();
    let pages: u64 = pages
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    pages * 4096
}

fn lane(
    conditions: &Conditions,
    scratch: &Path,
    next: &AtomicU64,
    report: &Mutex<Report>,
    bar: &ProgressBar,
) -> Result<()> {
    let mut process = None;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= conditions.count {
            return Ok(());
        }
        let model = &conditions.models[(number % conditions.models.len() as u64) as usize];
        let ask = Ask {
            model: model.clone(),
            seed: conditions.seed + number,
        };
        // a mutant may be longer than its model, and says so only when it is done
        let length = model.metadata().map_or(0, |file| file.len()) + (4 << 20);
        let limit = conditions.memory + 4 * length;
        let mut running = match process.take() {
            Some(running) => running,
            None => Process::start(conditions, scratch)?,
        };
        let answer = running.ask(&ask, conditions, limit);
        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(answer) => {
                let limit = conditions.memory + 4 * answer.bytes;
                if answer.peak_bytes > limit {
                    let words = format!("takes {} MiB", answer.peak_bytes >> 20);
                    report.found(Finding::new(&ask, words));
                }
                report.add(&ask, answer);
                process = Some(running);
            }
            Err(words) => report.found(Finding::new(&ask, words)),
        }
        bar.inc(1);
    }
}
