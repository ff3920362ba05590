//! Runs each case on both sides, in alternating rounds of about the same length.
//!
//! Invariants:
//! 1. The first runs of a turn do not count: they find threads parked and caches cold, on both sides alike.
//! 2. Where a case has a channels-last variant, each side gets the layout in which it is faster.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use polychip::Runtime;
use polychip_profile::median;
use serde::Serialize;

use crate::cases::{Case, Size};
use crate::model::{self, Files};
use crate::ours::{Ours, Run, runtime};
use crate::peer::Peer;

/// How cases are run.
#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    pub(crate) threads: Vec<u32>,
    /// Rounds of each runtime.
    pub(crate) rounds: usize,
    pub(crate) turn: Duration,
    pub(crate) python: Option<PathBuf>,
}

/// The most runs of a turn.
const MOST_RUNS: u64 = 500;
/// The least duration of a turn's first runs, which do not count.
const WARM: Duration = Duration::from_millis(2);
/// A rest before each turn: threads that wait for work of the turn before look for it a while, on processors that this
/// turn needs.
const REST: Duration = Duration::from_millis(20);

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

/// Times of one side.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Times {
    pub(crate) median_ns: u64,
    pub(crate) least_ns: u64,
    /// With the image's channels last.
    pub(crate) channels_last: bool,
}

/// A case with so many threads.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    pub(crate) threads: u32,
    pub(crate) predicted_ns: u64,
    pub(crate) provenance: &'static str,
    pub(crate) ours: Times,
    /// Median of the layout that was predicted: the model's own.
    pub(crate) own_median_ns: u64,
    /// Least processor time of a run, of all threads together, in the model's own layout.
    pub(crate) least_spent_ns: u64,
    pub(crate) peer: Option<Times>,
}

/// A case and what came of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) size: Size,
    pub(crate) steps: Vec<StepRow>,
    /// Why ONNX Runtime does not run it.
    pub(crate) refused: Option<String>,
    /// The figures, or what went wrong.
    pub(crate) figures: Result<Vec<Figures>, String>,
}

/// Runs all cases.
///
/// # Errors
/// The folder cannot be made, there is no runtime, or ONNX Runtime's process does not start or ends.
pub(crate) fn all(cases: &[Case], folder: &Path, conditions: &Conditions) -> Result<Vec<Row>> {
    std::fs::create_dir_all(folder)?;
    let start = |python: &PathBuf| Peer::start(python);
    let mut peer = conditions.python.as_ref().map(start).transpose()?;
    let runtimes = conditions
        .threads
        .iter()
        .map(|&threads| Ok((threads, runtime(threads)?)));
    let runtimes = runtimes.collect::<Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        progress(index + 1, cases.len(), &case.name);
        let mut row = Row {
            name: case.name.clone(),
            size: case.size,
            steps: Vec::new(),
            refused: None,
            figures: Ok(Vec::new()),
        };
        match written(case, folder) {
            Ok(files) => {
                row.steps = steps(&files[0]);
                let mut figures = Vec::new();
                for (threads, runtime) in &runtimes {
                    match one(case, &files, runtime, *threads, peer.as_mut(), conditions) {
                        Ok((found, refused)) => {
                            figures.push(found);
                            row.refused = refused;
                        }
                        Err(error) => row.figures = Err(format!("{error:#}")),
                    }
                }
                row.figures = row.figures.map(|_| figures);
            }
            Err(error) => row.figures = Err(format!("{error:#}")),
        }
        if let Some(python) = conditions
            .python
            .as_ref()
            .filter(|_| row.refused.as_deref() == Some(ENDED))
        {
            // a model that ends it takes the process with it, not the models behind
            peer = Some(Peer::start(python)?);
        }
        rows.push(row);
    }
    progress(0, 0, "");
    Ok(rows)
}

/// Says on a terminal which case is running; nothing where it was the last.
#[expect(clippy::print_stderr, reason = "a line of progress on a terminal")]
fn progress(index: usize, all: usize, name: &str) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    if all == 0 {
        eprint!("\r\x1b[K");
    } else {
        eprint!("\r\x1b[K{index} of {all}: {name}");
    }
}

/// The error of a model that ends ONNX Runtime's process.
const ENDED: &str = "its process has ended";

/// A case on disk, with its channels-last variant where it has one.
fn written(case: &Case, folder: &Path) -> Result<Vec<Files>> {
    let (graph, inputs) = case.made.as_ref().map_err(|words| anyhow!("{words}"))?;
    let mut files = vec![model::write(folder, &case.name, graph, inputs)?];
    if let Some((graph, inputs)) = &case.channels_last {
        files.push(model::write(
            folder,
            &format!("{} channels-last", case.name),
            graph,
            inputs,
        )?);
    }
    Ok(files)
}

fn steps(files: &Files) -> Vec<StepRow> {
    let row = |step: &polychip_cpu::StepWork| StepRow {
        name: step.name,
        class: step.class.clone(),
        units: step.units,
        bytes: step.bytes,
        boxed: step.boxed,
        halves_given: step.halves_given,
        reference: step.reference,
    };
    files.steps.iter().map(row).collect()
}

/// Runs of each place on one side.
struct Side {
    counts: Vec<u64>,
    times: Vec<Vec<u64>>,
}

impl Side {
    fn new(places: usize) -> Side {
        Side {
            counts: vec![1; places],
            times: vec![Vec::new(); places],
        }
    }

    /// A turn of one place: what warms, then what counts from the second round on.
    fn turn(
        &mut self,
        place: usize,
        round: usize,
        turn: Duration,
        mut run: impl FnMut(u64) -> Result<Vec<u64>>,
    ) -> Result<()> {
        std::thread::sleep(REST);
        let begin = Instant::now();
        let mut runs = 1;
        let mut last = run(runs)?;
        while begin.elapsed() < WARM {
            runs = (runs * 2).min(MOST_RUNS);
            last = run(runs)?;
        }
        if round == 0 {
            let least = last.iter().min().copied().unwrap_or(1).max(1);
            self.counts[place] = (turn.as_nanos() as u64 / least).clamp(1, MOST_RUNS);
        } else {
            self.times[place].extend(run(self.counts[place])?);
        }
        Ok(())
    }

    /// The faster place.
    fn best(self) -> Times {
        let all = self.times.into_iter().enumerate().map(|(place, times)| Times {
            least_ns: times.iter().min().copied().unwrap_or(0),
            median_ns: median_ns(times),
            channels_last: place == 1,
        });
        all.min_by_key(|times| times.median_ns)
            .expect("invariant: a case has at least one model")
    }
}

fn median_ns(mut times: Vec<u64>) -> u64 {
    median(&mut times, u64::cmp).unwrap_or(0)
}

/// A case with so many threads, and why ONNX Runtime does not run it.
fn one(
    case: &Case,
    files: &[Files],
    runtime: &Runtime,
    threads: u32,
    mut peer: Option<&mut Peer>,
    conditions: &Conditions,
) -> Result<(Figures, Option<String>)> {
    let (_, inputs) = case.made.as_ref().map_err(|words| anyhow!("{words}"))?;
    let ours = files
        .iter()
        .map(|files| Ours::new(runtime, files, inputs))
        .collect::<Result<Vec<_>>>()?;
    let models: Vec<&Path> = files.iter().map(|files| files.model.as_path()).collect();
    let refused = match peer.as_mut() {
        Some(peer) => peer
            .load(&models, threads)
            .unwrap_or_else(|_| Some(ENDED.to_owned())),
        None => None,
    };
    let mut peer = peer.filter(|_| refused.is_none());
    let (mut mine, mut theirs) = (Side::new(files.len()), Side::new(files.len()));
    let mut least_spent = u64::MAX;
    for round in 0..=conditions.rounds {
        for (place, ours) in ours.iter().enumerate() {
            mine.turn(place, round, conditions.turn, |runs| {
                let runs = ours.turn(runs)?;
                if place == 0 {
                    let spent = runs.iter().map(|run: &Run| run.spent_ns).min();
                    least_spent = least_spent.min(spent.unwrap_or(u64::MAX));
                }
                Ok(runs.iter().map(|run| run.elapsed_ns).collect())
            })?;
            if let Some(peer) = &mut peer {
                theirs.turn(place, round, conditions.turn, |runs| peer.turn(place, runs))?;
            }
        }
    }
    let figures = Figures {
        threads,
        predicted_ns: ours[0].predicted_ns,
        provenance: ours[0].provenance,
        own_median_ns: median_ns(mine.times[0].clone()),
        least_spent_ns: least_spent,
        ours: mine.best(),
        peer: peer.map(|_| theirs.best()),
    };
    Ok((figures, refused))
}
