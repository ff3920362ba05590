//! The ONNX backend suite on disk, judged through one device: node, simple, pytorch-converted and pytorch-operator cases.
//!
//! Invariants:
//! 1. Every case on disk is a trial and counts; what is known not to pass is listed in `expectations/PLUGIN.toml`, or
//!    for all plugins in `reading.toml`.
//! 2. A listed case that passes fails, and so does a list that names cases that are not there, and a whole run in which
//!    other counts pass than are committed.
//! 3. A panic fails, listed or not.
//!
//! Not here: which devices there are (`tests/onnx_backend.rs`, `isa/`).

use std::collections::BTreeMap;
use std::io::Write;
use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};
use polychip::{Policy, Runtime};
use polychip_graph::onnx::{read_packed, read_tensor};
use polychip_graph::{Container, Tensor, TensorId};
use polychip_ops::{DType, Packed};

use crate::compare::{Tolerance, compare};
use crate::expectations::{Differs, Expectations, Outcome};
use crate::model::Data;
use crate::{Need, model, passes, paths, skipped};

/// Whether an error reports that no device takes the model.
#[must_use]
pub fn is_refusal(error: &anyhow::Error) -> bool {
    let is_none = |error: &polychip::Error| error.kind() == polychip::ErrorKind::NoDevice;
    error.downcast_ref().is_some_and(is_none)
}

/// The tolerance of ONNX's own runner.
const TOLERANCE: Tolerance = Tolerance::Elementwise {
    relative: 1e-3,
    absolute: 1e-7,
};
/// What a device is allowed that computes in 16-bit floats (11 significant bits).
const REDUCED: Tolerance = Tolerance::OfLargest(1e-2);
const KINDS: [&str; 4] = ["node", "simple", "pytorch-converted", "pytorch-operator"];

/// Results of cases, written as they come.
pub type List = Arc<Mutex<std::fs::File>>;

/// The suite on one device.
pub struct Suite {
    runtime: Runtime,
    policy: Policy,
    expectations: Expectations,
    /// What the device is called in names and words.
    label: String,
    /// What it is called where counts are committed.
    counted: String,
    /// What stands before the names of its trials.
    prefix: String,
    /// Of how many cases of a kind one is taken: 1 is all.
    every: usize,
    tolerance: Tolerance,
    passed: [AtomicUsize; 4],
    refused: [AtomicUsize; 4],
    list: Option<List>,
}

/// Ends the process with one skipped trial where the suite is not on disk.
pub fn skip_without_data(arguments: &Arguments) {
    if !paths::suite().is_dir() {
        skip(arguments, Need::Models, paths::NO_SUITE);
    }
}

/// Ends the process with one skipped trial that says why.
pub fn skip(arguments: &Arguments, need: Need, why: &str) -> ! {
    libtest_mimic::run(arguments, vec![skipped("suite", need, why)]).exit()
}

impl Suite {
    /// The suite on `device` of a runtime, with the expectations of the device's plugin. `setting` stands before the
    /// names of its trials, where one process runs it in several settings.
    ///
    /// # Errors
    /// The expectations cannot be read.
    pub fn new(runtime: Runtime, device: &str, setting: &str) -> Result<Suite> {
        let plugin = device.split(':').next().unwrap_or_default();
        let is_named = |found: &&polychip::Device| found.name() == device;
        let emulated = runtime
            .devices()
            .iter()
            .find(is_named)
            .is_some_and(|found| found.info().emulated);
        let (label, prefix) = match setting {
            "" => (device.to_owned(), String::new()),
            setting => (format!("{device} ({setting})"), format!("{setting}/")),
        };
        Ok(Suite {
            runtime,
            policy: Policy::latency()
                .devices([device])
                .threads(1)
                .in_flight(1)
                // what a device takes it must compile: nothing moves
                .replan(false),
            expectations: Expectations::load(plugin)?.and("reading")?,
            label,
            counted: passes::counted(plugin, emulated),
            prefix,
            every: 1,
            tolerance: TOLERANCE,
            passed: Default::default(),
            refused: Default::default(),
            list: None,
        })
    }

    /// Also writes each result to a list.
    #[must_use]
    pub fn listed(mut self, list: Option<List>) -> Suite {
        self.list = list;
        self
    }

    /// Judges a device that may compute in 16-bit floats.
    #[must_use]
    pub fn reduced(mut self) -> Suite {
        self.tolerance = REDUCED;
        self
    }

    /// Takes one case of so many: a sample, which counts as none of the suite's figures.
    #[must_use]
    pub fn sampled(mut self, every: usize) -> Suite {
        self.every = every.max(1);
        self
    }
}

/// Of how many cases one is taken: `POLYCHIP_SUITE_EVERY`, for a processor that is emulated; else each.
///
/// # Errors
/// The variable is no number.
pub fn every() -> Result<usize> {
    match std::env::var("POLYCHIP_SUITE_EVERY") {
        Ok(text) => text
            .parse()
            .with_context(|| format!("POLYCHIP_SUITE_EVERY is {text:?}, not a number")),
        Err(_) => Ok(1),
    }
}

/// The whole model that an emulated processor runs in seconds.
const SMALLEST: &str = "kws_dscnn";

/// Whether a whole model is run: each, or the smallest alone where suites are sampled ([`every`]).
///
/// # Errors
/// The variable is no number.
pub fn runs(model: &str) -> Result<bool> {
    Ok(every()? == 1 || model == SMALLEST)
}

/// Runs the suites; without a filter, also reports how many cases of each pass.
///
/// # Errors
/// The cases cannot be read, a list names others, or other counts pass than are committed.
pub fn run(arguments: &Arguments, suites: Vec<Suite>) -> Result<Conclusion> {
    let folder = paths::suite();
    let suites: Vec<Arc<Suite>> = suites.into_iter().map(Arc::new).collect();
    let mut trials = Vec::new();
    let mut totals = [0; 4];
    let mut names = Vec::new();
    for (index, kind) in KINDS.iter().enumerate() {
        for case in cases(&folder.join(kind))? {
            totals[index] += 1;
            let name = case.file_name().and_then(|name| name.to_str());
            let name = format!("{kind}/{}", name.unwrap_or_default());
            for suite in suites.iter().filter(|suite| names.len() % suite.every == 0) {
                let (suite, name, case) = (Arc::clone(suite), name.clone(), case.clone());
                trials.push(Trial::test(format!("{}{name}", suite.prefix), move || {
                    suite.judge(index, &name, &case)
                }));
            }
            names.push(name);
        }
    }
    for suite in &suites {
        let known = suite.expectations.cases();
        let strangers: Vec<&str> = known
            .filter(|case| !names.iter().any(|name| name == case))
            .collect();
        if !strangers.is_empty() {
            bail!(
                "the expectations of {} list cases that do not exist: {}",
                suite.label,
                strangers.join(", ")
            );
        }
    }
    let whole = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list;
    let conclusion = libtest_mimic::run(arguments, trials);
    let mut differ = Vec::new();
    for suite in suites.iter().filter(|suite| whole && suite.every == 1) {
        differ.extend(suite.figures(totals).err());
    }
    if !differ.is_empty() {
        bail!(differ.join("\n"));
    }
    Ok(conclusion)
}

fn cases(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    found.retain(|path| path.join("model.onnx").is_file());
    found.sort();
    Ok(found)
}

impl Suite {
    /// Reports how many cases pass, and compares the counts with the committed ones.
    fn figures(&self, totals: [usize; 4]) -> Result<(), String> {
        let mut counts = Vec::new();
        for (index, kind) in KINDS.iter().enumerate() {
            let count = |counts: &[AtomicUsize; 4]| counts[index].load(Ordering::Relaxed);
            let (passed, refused, total) = (count(&self.passed), count(&self.refused), totals[index]);
            let share = 100.0 * passed as f64 / total.max(1) as f64;
            let label = &self.label;
            eprintln!(
                "{label}: {kind}: {passed} of {total} cases pass ({share:.1} %), {refused} are refused"
            );
            counts.push((*kind, passed));
        }
        passes::check("onnx_backend", &self.counted, &counts)
    }

    fn judge(&self, kind: usize, name: &str, folder: &Path) -> Result<(), Failed> {
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.run(folder)));
        let outcome = Outcome::of(
            unwound.unwrap_or_else(|_| Err(anyhow::anyhow!("PANIC"))),
            is_refusal,
        );
        match outcome {
            Outcome::Passed if self.expectations.varies(name) => 0,
            Outcome::Passed => self.passed[kind].fetch_add(1, Ordering::Relaxed),
            Outcome::Refused(_) => self.refused[kind].fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        if let Some(list) = &self.list {
            let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = writeln!(list, "{name}\t{outcome}");
        }
        if outcome.to_string().contains("PANIC") {
            return Err("it panicked".into());
        }
        Ok(self.expectations.judge(name, &outcome)?)
    }

    fn run(&self, folder: &Path) -> Result<()> {
        let path = folder.join("model.onnx");
        let (names, kinds, results) = {
            let model = self.runtime.load(&path)?;
            let graph = model.graph();
            let tensors = |ids: &[TensorId]| -> Vec<Tensor> {
                ids.iter().map(|id| graph.tensor(*id).clone()).collect()
            };
            let inputs = tensors(&graph.inputs);
            let names: Vec<String> = inputs.iter().map(|tensor| tensor.name.clone()).collect();
            (names, inputs, tensors(&graph.outputs))
        };
        let mut sets = 0;
        loop {
            let set = folder.join(format!("test_data_set_{sets}"));
            if !set.is_dir() {
                break;
            }
            sets += 1;
            let inputs = data(&set, "input", &kinds)?;
            if inputs.len() > names.len() {
                bail!("{} inputs given, the model has {}", inputs.len(), names.len());
            }
            let inputs: BTreeMap<String, Data> = names.iter().cloned().zip(inputs).collect();
            let outputs = model::run_on(&self.runtime, &self.policy, &path, &inputs)?;
            let wanted = data(&set, "output", &results)?;
            if outputs.len() != wanted.len() {
                let words = format!("{} outputs instead of {}", outputs.len(), wanted.len());
                return Err(Differs(words).into());
            }
            for ((name, found), wanted) in outputs.iter().zip(&wanted) {
                judge(found, wanted, self.tolerance)
                    .map_err(|words| Differs(format!("output {name:?}: {words}")))?;
            }
        }
        if sets == 0 {
            bail!("the case has no data");
        }
        Ok(())
    }
}

/// Compares what came out with what should.
fn judge(found: &Data, wanted: &Data, tolerance: Tolerance) -> std::result::Result<(), String> {
    match (found, wanted) {
        (Data::Tensor(found), Data::Tensor(wanted)) => compare(found, wanted, tolerance),
        (Data::Packed(found), Data::Packed(wanted)) => {
            let (ours, theirs) = (found.tensors(), wanted.tensors());
            if discriminant(found) != discriminant(wanted) || ours.len() != theirs.len() {
                return Err(format!("{found:?} instead of {wanted:?}"));
            }
            for (index, (found, wanted)) in ours.iter().zip(theirs).enumerate() {
                if wanted.dtype != DType::String {
                    compare(found, wanted, tolerance).map_err(|words| format!("tensor {index}: {words}"))?;
                } else if found != wanted {
                    return Err(format!("{:?} instead of {:?}", found.strings(), wanted.strings()));
                }
            }
            Ok(())
        }
        _ => Err("it is another kind of value".to_owned()),
    }
}

/// The values of a data set, each of the kind that the model says.
fn data(set: &Path, what: &str, kinds: &[Tensor]) -> Result<Vec<Data>> {
    let mut values = Vec::new();
    loop {
        let path = set.join(format!("{what}_{}.pb", values.len()));
        if !path.is_file() {
            return Ok(values);
        }
        let place = || format!("{what}_{}.pb", values.len());
        let bytes = std::fs::read(&path)?;
        let container = kinds
            .get(values.len())
            .map_or(Container::Tensor, |kind| kind.container);
        let value = if container.is_packed() {
            Data::Packed(read_packed(&bytes, container).with_context(place)?)
        } else {
            let (_, literal) = read_tensor(&bytes).with_context(place)?;
            if literal.dtype == DType::String {
                Data::Packed(Packed::Tensor(literal))
            } else {
                Data::Tensor(literal)
            }
        };
        values.push(value);
    }
}
