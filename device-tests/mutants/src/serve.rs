//! The process that tries mutants: reads a model and a seed per line, and prints each result.
//!
//! Invariants:
//! 1. One line in, one line out; a process that ends or says nothing is the driver's finding.
//! 2. A mutant that loads runs on inputs of its own shapes, unless these are large.

use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use polychip::{ErrorKind, Policy, Runtime};
use serde::{Deserialize, Serialize};

use crate::mutate::mutate;

/// The longest that a run may take; a mutant may ask for more rounds of a loop than there is time for.
const PATIENCE: Duration = Duration::from_secs(3);
/// The most that inputs may hold together, in bytes.
const LARGEST_INPUTS: usize = 1 << 20;

/// What panicked, on any thread, caught or not.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// What the process is given.
#[derive(clap::Args)]
pub struct ServeArguments {
    /// Where mutants are written
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: PathBuf,
    /// The device that runs them
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: String,
}

/// A mutant to be tried.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) model: PathBuf,
    pub(crate) seed: u64,
}

/// What came of a mutant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) result: Outcome,
    /// Length of the mutant's file.
    pub(crate) bytes: u64,
    /// Peak of resident memory while it was tried, where the system tells.
    pub(crate) peak_bytes: u64,
    pub(crate) ms: u64,
}

/// How a mutant ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Ran,
    /// It loads and is planned, but its inputs are large.
    Large,
    /// The run was given up: it may take for ever.
    Long,
    /// Kind and words of the error.
    Refused(String, String),
    Panicked(String),
}

/// Tries mutants until the input ends.
///
/// # Errors
/// There is no runtime, or a model or the scratch folder cannot be read or written.
pub fn serve(arguments: &ServeArguments) -> Result<()> {
    std::panic::set_hook(Box::new(|info| {
        let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        panics.push(info.to_string().replace('\n', " "));
    }));
    let runtime = Runtime::builder().build()?;
    let policy = Policy::latency()
        .devices([arguments.device.as_str()])
        .threads(1)
        .in_flight(1);
    let mut input = std::io::stdin().lock().lines();
    let mut output = std::io::stdout().lock();
    for number in 0u64.. {
        let Some(line) = input.next().transpose()? else {
            break;
        };
        let ask: Ask = serde_json::from_str(&line)?;
        let whole = std::fs::read(&ask.model).with_context(|| ask.model.display().to_string())?;
        let (_, mutant) = mutate(&whole, ask.seed);
        // a model in use keeps the file that it was loaded from: each mutant gets a file of its own
        let file = arguments
            .scratch
            .join(format!("{}-{number}.onnx", std::process::id()));
        std::fs::write(&file, &mutant)?;
        let bytes = mutant.len() as u64;
        drop((whole, mutant));
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let start = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| attempt(&runtime, &policy, &file)));
        let ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let peak_bytes = peak();
        let _ = std::fs::remove_file(&file);
        let panics = std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner));
        let result = match (panics.into_iter().next(), result) {
            (Some(words), _) => Outcome::Panicked(words),
            (None, Ok(Ok(outcome))) => outcome,
            (None, Ok(Err(error))) => refused(&error),
            (None, Err(_)) => Outcome::Panicked("a panic without words".to_owned()),
        };
        let answer = Answer {
            result,
            bytes,
            peak_bytes,
            ms,
        };
        writeln!(output, "{}", serde_json::to_string(&answer)?)?;
        output.flush()?;
    }
    Ok(())
}

fn refused(error: &anyhow::Error) -> Outcome {
    let kind = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<polychip::Error>())
        .map(polychip::Error::kind);
    match kind {
        Some(ErrorKind::Timeout) => Outcome::Long,
        Some(kind) => Outcome::Refused(format!("{kind:?}"), format!("{error:#}")),
        None => Outcome::Refused("none".to_owned(), format!("{error:#}")),
    }
}

fn attempt(runtime: &Runtime, policy: &Policy, path: &Path) -> Result<Outcome> {
    let model = runtime.load(path)?;
    // open dims take a size that no model here expects
    let dims: Vec<(String, usize)> = model.open_dims().into_iter().map(|name| (name, 3)).collect();
    let model = model.bind(dims)?;
    let session = runtime.session(&model, policy.clone())?;
    let mut total = Some(0usize);
    for spec in session.inputs() {
        let elements = spec
            .shape
            .iter()
            .try_fold(1usize, |all, &dim| all.checked_mul(dim));
        let size = elements.and_then(|elements| spec.dtype.byte_len(elements));
        total = total.zip(size).and_then(|(all, size)| all.checked_add(size));
    }
    if total.is_none_or(|total| total > LARGEST_INPUTS) {
        return Ok(Outcome::Large);
    }
    let mut inputs = Vec::new();
    for spec in session.inputs() {
        let mut input = session.input(&spec.name)?;
        let length = input.bytes_mut()?.len();
        ensure!(
            input.write_bytes(&vec![0; length + 1]).is_err(),
            "input {:?} takes a byte too many",
            spec.name
        );
        // 0x3f is finite in every float type; a number of rounds of 0x3f3f… would never end
        let byte = if spec.dtype.is_float() { 0x3f } else { 0 };
        input.write_bytes(&vec![byte; length])?;
        inputs.push(input);
    }
    let inputs: Vec<_> = inputs.iter().collect();
    session.submit(&inputs)?.wait(PATIENCE)?;
    Ok(Outcome::Ran)
}

/// Peak of resident memory since it was last cleared.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
