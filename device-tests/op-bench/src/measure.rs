//! A case planned, predicted and run: from submit to outputs, after some runs that do not count.
//!
//! Invariant: a case has at least three runs that count, however slow it is.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use polychip::{Policy, Runtime};
use polychip_ops::Literal;
use serde::Serialize;

use crate::cases::{Case, Size};
use crate::model::{self, Files};
use crate::report;

/// How cases are run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conditions {
    pub(crate) threads: u32,
    /// Time of the runs of one case.
    pub(crate) patience: Duration,
    /// Judge by the processor time of the shortest run.
    pub(crate) busy: bool,
}

/// Longest that a single run may take.
const LONGEST: Duration = Duration::from_secs(120);
/// The most runs that count.
const MOST_RUNS: usize = 1000;

/// A step that the CPU computes a model with.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StepRow {
    pub(crate) name: &'static str,
    pub(crate) class: String,
    /// Units of its work: multiply-adds, elements, or inner iterations of the reference.
    pub(crate) units: u64,
    pub(crate) bytes: u64,
    pub(crate) boxed: u64,
    pub(crate) halves_given: u64,
    pub(crate) reference: bool,
}

/// Figures of a case.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    pub(crate) predicted_ns: u64,
    pub(crate) provenance: &'static str,
    pub(crate) median_ns: u64,
    /// Least processor time of a run, of all threads together.
    pub(crate) least_ns: u64,
    pub(crate) runs: usize,
    pub(crate) steps: Vec<StepRow>,
    /// Median of the peer.
    pub(crate) peer_ns: Option<u64>,
}

/// A case and what came of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) size: Size,
    /// The figures, or what went wrong.
    pub(crate) figures: Result<Figures, String>,
}

/// Runs all cases.
///
/// # Errors
/// The folder cannot be made, or there is no runtime.
pub(crate) fn all(cases: &[Case], folder: &Path, conditions: &Conditions) -> Result<Vec<Row>> {
    std::fs::create_dir_all(folder)?;
    let threads = conditions.threads.to_string();
    let runtime = Runtime::builder()
        .only_given_folders()
        // not by the policy: a device is asked for estimates before any policy is known
        .configure("cpu", "threads", threads)
        .build()?;
    let rows = cases.iter().enumerate().map(|(index, case)| {
        report::progress(index + 1, cases.len(), &case.name);
        let figures = case
            .made
            .as_ref()
            .map_err(|words| anyhow!("{words}"))
            .and_then(|(graph, inputs)| {
                let files = model::write(folder, &case.name, graph, inputs)?;
                one(&runtime, &files, inputs, conditions)
            });
        Row {
            name: case.name.clone(),
            size: case.size,
            figures: figures.map_err(|error| format!("{error:#}")),
        }
    });
    let rows = rows.collect();
    report::progress(0, 0, "");
    Ok(rows)
}

fn one(runtime: &Runtime, files: &Files, inputs: &[Literal], conditions: &Conditions) -> Result<Figures> {
    let model = runtime.load(&files.model)?;
    let policy = Policy::latency().devices(["cpu:0"]);
    let session = runtime.session(&model, policy)?;
    let predicted = session.report();
    let memory = inputs
        .iter()
        .enumerate()
        .map(|(index, value)| {
            let mut input = session.input(&format!("i{index}"))?;
            input.write_bytes(&value.bytes)?;
            Ok(input)
        })
        .collect::<Result<Vec<_>>>()?;
    let memory: Vec<&polychip::Input> = memory.iter().collect();
    let once = || -> Result<(Duration, Duration)> {
        let (start, spent) = (Instant::now(), spent());
        drop(session.submit(&memory)?.wait(LONGEST)?);
        Ok((start.elapsed(), self::spent().saturating_sub(spent)))
    };
    let begin = Instant::now();
    once()?;
    // warm: a tenth of the time, where a run leaves any
    while begin.elapsed() < conditions.patience / 10 {
        once()?;
    }
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < 3 || (begin.elapsed() < conditions.patience && times.len() < MOST_RUNS) {
        times.push(once()?);
    }
    let least = times.iter().map(|&(_, spent)| spent).min().unwrap_or_default();
    let mut times: Vec<Duration> = times.into_iter().map(|(elapsed, _)| elapsed).collect();
    times.sort_unstable();
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Ok(Figures {
        predicted_ns: predicted.predicted_ns,
        provenance: predicted.provenance,
        median_ns: ns(times[times.len() / 2]),
        least_ns: ns(least),
        runs: times.len(),
        steps: files
            .steps
            .iter()
            .map(|step| StepRow {
                name: step.name,
                class: step.class.clone(),
                units: step.units,
                bytes: step.bytes,
                boxed: step.boxed,
                halves_given: step.halves_given,
                reference: step.reference,
            })
            .collect(),
        peer_ns: None,
    })
}

/// Processor time of this process so far.
#[cfg(unix)]
fn spent() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Time so far, where the system does not tell the processor's.
#[cfg(not(unix))]
fn spent() -> Duration {
    use std::sync::LazyLock;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}
