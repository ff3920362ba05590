//! Whole models through the GPU plugin, on whatever GPU or driver in software there is, against ONNX Runtime's
//! outputs:
//!
//! - alone, and in turns with our CPU plugin without a copy: max |a − b| ≤ 1e-4 × max |b| for every output;
//! - alone in reduced precision, where f16 is stored and the sums are f32: ≤ 2e-2 × max |b|, the same answer of
//!   classifiers; where values exceed the range of f16, as soon as the session has reported it and has changed its plan
//!   (drivers convert such values to infinity or to the largest f16);
//! - quantised models, with the products that the GPU takes on it: cosine at least 0.999.
//!
//! `expectations/gpu-models.toml` lists models that it refuses or answers otherwise, with the reason; one that passes
//! fails here. Skipped, with the reason, where there is no driver or no model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::{Arguments, Trial};
use polychip::{EventKind, Learn, Policy, Precision, Runtime, Session};
use polychip_device_tests::compare::{Tolerance, compare, cosine, deviation, top};
use polychip_device_tests::expectations::{Differs, Expectations, Outcome};
use polychip_device_tests::{Need, gpu, model, npy, paths, suite, turns};
use polychip_ops::{Literal, Op};
use serde::Deserialize;

const TOLERANCE: f64 = 1e-4;
/// 16-bit floats have 11 bits; what dozens of layers make of their roundings stays below.
const REDUCED_TOLERANCE: f64 = 2e-2;
const COSINE: f64 = 0.999;
const THREADS: u32 = 2;
/// The longest time until a session has acted on an overflow: it runs the model on the CPU, and compiles it again.
const OVERFLOW_PATIENCE: Duration = Duration::from_secs(300);

#[derive(Deserialize)]
struct Index {
    inputs: BTreeMap<String, String>,
    outputs: BTreeMap<String, String>,
}

/// Who runs the nodes, and how.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// The GPU, all of them.
    Alone,
    /// Some nodes in turn, by pins.
    InTurns,
    /// The GPU, all of them, with reduced precision.
    Reduced,
}

/// A model with the outputs that it should give.
#[derive(Clone)]
struct Case {
    runtime: Arc<Runtime>,
    path: PathBuf,
    /// The folder with inputs and outputs.
    sample: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let runtime = Runtime::builder()
        .link(polychip_gpu::query)
        .only_given_folders()
        .build()?;
    if let Some(why) = gpu::missing(&runtime) {
        suite::skip(&arguments, Need::Vulkan, &why);
    }
    let models = paths::models();
    if !models.join("expected").is_dir() {
        suite::skip(&arguments, Need::Models, paths::NO_MODELS);
    }
    let runtime = Arc::new(runtime);
    let known = Arc::new(Expectations::load("gpu-models")?);
    let mut trials = Vec::new();
    let mut names = Vec::new();
    let mut add = |name: String, judge: Box<dyn FnOnce() -> Result<()> + Send>| {
        names.push(name.clone());
        let known = Arc::clone(&known);
        trials.push(Trial::test(name.clone(), move || {
            Ok(known.judge(
                &name,
                &Outcome::of(judge(), polychip_device_tests::suite::is_refusal),
            )?)
        }));
    };
    for sample in samples(&models.join("expected"))? {
        let name = file_name(&sample);
        let path = models.join(format!("{name}.onnx"));
        let runtime = Arc::clone(&runtime);
        let case = Case {
            runtime,
            path,
            sample,
        };
        for (title, way) in [
            ("alone", Way::Alone),
            ("in-turns", Way::InTurns),
            ("reduced", Way::Reduced),
        ] {
            let case = case.clone();
            add(format!("{name}/{title}"), Box::new(move || case.judge(way)));
        }
    }
    let quantised = models.join("quantised");
    for folder in subfolders(&quantised.join("expected"))? {
        let name = file_name(&folder);
        let Some(sample) = samples(&folder)?.into_iter().next() else {
            continue;
        };
        let path = quantised.join(format!("{name}.onnx"));
        let runtime = Arc::clone(&runtime);
        let case = Case {
            runtime,
            path,
            sample,
        };
        add(
            format!("quantised/{name}"),
            Box::new(move || case.judge_quantised()),
        );
    }
    let strangers: Vec<&str> = known
        .cases()
        .filter(|case| !names.iter().any(|name| name == case))
        .collect();
    ensure!(
        strangers.is_empty(),
        "expectations/gpu-models.toml lists cases that do not exist: {strangers:?}"
    );
    libtest_mimic::run(&arguments, trials).exit()
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().and_then(|name| name.to_str());
    name.unwrap_or_default().to_owned()
}

/// Folders of a folder, sorted; none where it is not there.
fn subfolders(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let mut folders: Vec<PathBuf> = std::fs::read_dir(path)
        .with_context(|| path.display().to_string())?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    folders.retain(|path| path.is_dir());
    folders.sort();
    Ok(folders)
}

/// Folders with inputs and outputs.
fn samples(path: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = subfolders(path)?;
    folders.retain(|path| path.join("index.json").is_file());
    Ok(folders)
}

fn are_finite(outputs: &[(String, Literal)]) -> bool {
    let mut values = outputs
        .iter()
        .filter_map(|(_, output)| output.as_f64s())
        .flatten();
    values.all(f64::is_finite)
}

/// Waits until the session has changed its plan because values exceed the range of reduced precision.
fn until_overflow_is_reported(session: &Session) -> Result<()> {
    let end = Instant::now() + OVERFLOW_PATIENCE;
    loop {
        let report = session.report();
        if report
            .events
            .iter()
            .any(|event| event.kind == EventKind::Overflowed)
        {
            return Ok(());
        }
        ensure!(
            Instant::now() < end,
            "outputs are not finite, and the session reports no overflow"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Case {
    fn read(&self) -> Result<[BTreeMap<String, Literal>; 2]> {
        let index: Index = serde_json::from_str(&std::fs::read_to_string(self.sample.join("index.json"))?)?;
        let read = |files: &BTreeMap<String, String>| -> Result<BTreeMap<String, Literal>> {
            files
                .iter()
                .map(|(name, file)| Ok((name.clone(), npy::read(&self.sample.join(file))?)))
                .collect()
        };
        Ok([read(&index.inputs)?, read(&index.outputs)?])
    }

    fn judge(&self, way: Way) -> Result<()> {
        let [inputs, wanted] = self.read()?;
        let bound = model::bound(&self.runtime, &self.path, &inputs)?;
        let policy = Policy::latency().threads(THREADS).in_flight(1).replan(false);
        let policy = match way {
            Way::Alone => policy.devices([gpu::DEVICE]),
            Way::Reduced => policy
                .devices([gpu::DEVICE])
                .precision(Precision::Reduced)
                .learn(Learn::No)
                .replan(true),
            Way::InTurns => turns::policy(&self.runtime, &bound, policy, ["cpu:0", gpu::DEVICE])?,
        };
        let session = self.runtime.session(&bound, policy)?;
        // a second run finds everything warm, and memory used before; not of models whose weights are one number each,
        // for they would not show what is stale
        let light = file_name(&self.path).starts_with("light_");
        let runs = if light { 1 } else { 2 };
        for _ in 0..runs {
            let mut found = model::run_session(&session, &inputs)?;
            if way == Way::Reduced && !are_finite(&found) {
                until_overflow_is_reported(&session)?;
                found = model::run_session(&session, &inputs)?;
            }
            self.agree(way, &found, &wanted)?;
        }
        let report = session.report();
        let copied: Vec<&str> = report
            .crossings
            .iter()
            .filter(|crossing| crossing.mode == "copy")
            .map(|crossing| crossing.tensor.as_str())
            .collect();
        let (imports, host) = self.imports();
        ensure!(
            !imports || !host || (report.copies == 0 && copied.is_empty()),
            "{} copies between devices that share memory: {copied:?}",
            report.copies
        );
        Ok(())
    }

    /// Whether the GPU and the CPU take memory of the host.
    fn imports(&self) -> (bool, bool) {
        let takes = |name: &str| {
            let mut devices = self.runtime.devices().iter();
            devices.any(|device| device.name() == name && device.info().imports_memory())
        };
        (takes(gpu::DEVICE), takes("cpu:0"))
    }

    fn agree(&self, way: Way, found: &[(String, Literal)], wanted: &BTreeMap<String, Literal>) -> Result<()> {
        ensure!(
            found.len() == wanted.len(),
            "{} outputs instead of {}",
            found.len(),
            wanted.len()
        );
        let allowed = if way == Way::Reduced {
            REDUCED_TOLERANCE
        } else {
            TOLERANCE
        };
        for (output, found) in found {
            let wanted = wanted
                .get(output)
                .with_context(|| format!("ONNX Runtime has no output {output:?}"))?;
            let apart = deviation(found, wanted);
            eprintln!("{}: {output}: deviation {apart:.1e}", file_name(&self.path));
            compare(found, wanted, Tolerance::OfLargest(allowed))
                .map_err(|words| Differs(format!("output {output:?}: deviation {apart:.1e}: {words}")))?;
            let classes = wanted.shape.len() == 2 && wanted.shape[0] == 1;
            let (answer, right) = (top(found), top(wanted));
            if classes && answer != right {
                let words = format!("output {output:?}: the answer is {answer:?} instead of {right:?}");
                return Err(Differs(words).into());
            }
        }
        Ok(())
    }

    fn judge_quantised(&self) -> Result<()> {
        let [inputs, wanted] = self.read()?;
        let mut policy = Policy::latency()
            .threads(THREADS)
            .in_flight(1)
            .replan(false)
            .devices([gpu::DEVICE, "cpu:0"]);
        let bound = model::bound(&self.runtime, &self.path, &inputs)?;
        let planned = self.runtime.plan(&bound, &policy)?;
        let Some(gpu) = planned
            .devices()
            .iter()
            .position(|device| device.name() == gpu::DEVICE)
        else {
            bail!("the plan knows no {}", gpu::DEVICE)
        };
        let (mut products, mut taken) = (0, 0);
        for (row, (_, node)) in planned.graph().nodes().enumerate() {
            if matches!(node.op, Op::Conv | Op::MatMul | Op::Gemm) {
                products += 1;
                if planned.targets()[gpu].supports(row) && !node.name.is_empty() {
                    taken += 1;
                    policy = policy.pin(&node.name, gpu::DEVICE);
                }
            }
        }
        let name = file_name(&self.path);
        eprintln!("{name}: the GPU takes {taken} of {products} products");
        ensure!(taken > 0, "the GPU takes none of {products} products");
        let session = self.runtime.session(&bound, policy)?;
        for (output, found) in model::run_session(&session, &inputs)? {
            let wanted = wanted
                .get(&output)
                .with_context(|| format!("ONNX Runtime has no output {output:?}"))?;
            let cosine = cosine(&found, wanted);
            eprintln!("{name}: {output}: cosine {cosine:.6}");
            if cosine < COSINE {
                let words = format!("output {output:?}: cosine {cosine} instead of {COSINE}");
                return Err(Differs(words).into());
            }
            if top(&found) != top(wanted) {
                return Err(Differs(format!("output {output:?}: another answer")).into());
            }
        }
        Ok(())
    }
}
