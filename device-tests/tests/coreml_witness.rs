//! Apple's coremltools judge the packages that the coreml plugin writes: every class of op, and whole models.
//!
//! The emulated Core ML keeps what the plugin hands it to compile: the conformance suite's cases of ops, and models that
//! `cargo xtask models` makes. The packages are then read by Apple's validator, its reader of weight files, and its front
//! end, which infers every type anew; broken variants must be refused.
//!
//! Skipped where `cargo xtask vendor coreml` has not been run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip::{Policy, Runtime};
use polychip_device_tests::{Need, libraries, model, npy, paths, skipped, suite};
use polychip_ops::Literal;
use serde::Deserialize;

/// Set for the child that compiles models: `PRECISION:MODEL`.
const CHILD: &str = "POLYCHIP_TEST_COREML_MODEL";
const KEEP: &str = "POLYCHIP_COREML_KEEP";
const MODELS: [&str; 5] = [
    "mobilenet_v2",
    "squeezenet1_1",
    "light_resnet50",
    "light_shufflenet",
    "kws_dscnn",
];

/// Of whole models against ONNX Runtime's outputs, in the largest value of an output.
const TOLERANCE: f64 = 1e-4;
/// 16-bit floats have 11 bits; what dozens of layers make of their roundings stays below.
const REDUCED_TOLERANCE: f64 = 2e-2;

/// What the witness reports.
#[derive(Deserialize)]
struct Report {
    packages: usize,
    weights: usize,
    operations: usize,
    refused: Vec<(String, Vec<String>, String)>,
    broken: BTreeMap<String, usize>,
    accepted: Vec<(String, String, Vec<String>)>,
    ops: Vec<String>,
}

fn main() -> Result<()> {
    if let Ok(text) = std::env::var(CHILD) {
        let (precision, model) = text.split_once(':').context("the child's variable is torn")?;
        return child(precision, model);
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    let python = python();
    match &python {
        Err(why) => {
            for name in ["ops", "packages of models"] {
                trials.push(skipped(name, Need::Coremltools, why));
            }
        }
        Ok(python) => {
            let python = python.clone();
            trials.push(Trial::test("ops", move || failed(ops(&python))));
        }
    }
    if paths::models().join("models.json").is_file() {
        trials.push(Trial::test("models", move || {
            failed(models(python.ok().as_deref()))
        }));
    } else {
        trials.push(skipped("models", Need::Models, paths::NO_MODELS));
    }
    libtest_mimic::run(&arguments, trials).exit()
}

fn failed(result: Result<()>) -> Result<(), Failed> {
    result.map_err(|error| format!("{error:#}").into())
}

/// The Python that has coremltools, or the reason for its absence.
fn python() -> Result<PathBuf, String> {
    let named = std::env::var_os("COREMLTOOLS_PYTHON").filter(|python| !python.is_empty());
    let python = named.map_or_else(
        || paths::root().join("target/vendor/coreml/bin/python"),
        PathBuf::from,
    );
    if python.is_file() {
        return Ok(python);
    }
    Err("COREMLTOOLS_PYTHON is not set, and `cargo xtask vendor coreml` has not been run".to_owned())
}

fn emulator() -> Result<PathBuf> {
    let library = libraries::library("polychip-emulator-coreml", "CoreML")?;
    Ok(library.parent().context("a library lies in a folder")?.to_owned())
}

/// The witness's report on a folder of packages; nothing may be refused, and nothing broken accepted.
fn judge(python: &Path, folder: &Path) -> Result<Report> {
    let output = Command::new(python)
        .arg(paths::root().join("device-tests/witness/coreml_packages.py"))
        .arg(folder)
        .output()
        .with_context(|| format!("starting {}", python.display()))?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the witness fails: {words}");
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last().context("the witness says nothing")?;
    let report: Report = serde_json::from_str(line)?;
    eprintln!(
        "{} packages, {} operations, {} weights; broken variants refused: {:?}",
        report.packages, report.operations, report.weights, report.broken
    );
    ensure!(
        report.refused.is_empty(),
        "coremltools refuse: {:#?}",
        report.refused
    );
    ensure!(
        report.accepted.is_empty(),
        "coremltools accept what is broken: {:#?}",
        report.accepted
    );
    Ok(report)
}

/// Packages of the conformance suite's cases of ops, in both widths.
fn ops(python: &Path) -> Result<()> {
    let kept = tempfile::tempdir()?;
    let conform = libraries::program("polychip-conformance", "polychip-conform")?;
    let plugin = libraries::plugin("coreml")?;
    let emulator = emulator()?;
    for (device, precision) in [("0", "reduced"), ("1", "exact")] {
        let mut command = Command::new(&conform);
        command
            .arg(&plugin)
            .args(["--device", device, "--tags", "ops", "--config"]);
        command.arg(format!("lib_dir={}", emulator.display()));
        command.args(["--config", &format!("precision={precision}")]);
        if precision == "reduced" {
            command.args(["--precision", "reduced"]);
        }
        let output = command.env(KEEP, kept.path()).output()?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(0),
            "the suite fails: {words}{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    let report = judge(python, kept.path())?;
    ensure!(report.packages > 200, "{} packages", report.packages);
    for op in [
        "conv",
        "conv_transpose",
        "linear",
        "matmul",
        "max_pool",
        "avg_pool",
        "softmax",
        "layer_norm",
        "instance_norm",
        "batch_norm",
        "reduce_mean",
        "concat",
        "split",
        "slice_by_index",
        "pad",
        "gather",
        "tile",
        "transpose",
        "cast",
        "quantize",
        "dequantize",
        "constexpr_affine_dequantize",
        "clip",
        "gelu",
        "silu",
        "prelu",
        "upsample_nearest_neighbor",
        "depth_to_space",
        "pixel_shuffle",
        "space_to_depth",
    ] {
        ensure!(
            report.ops.iter().any(|found| found == op),
            "no package has {op}: {:?}",
            report.ops
        );
    }
    ensure!(
        report.broken.values().all(|&tried| tried >= 10),
        "{:?}",
        report.broken
    );
    Ok(())
}

/// Whole models in both widths: their answers, and their packages where there is a witness.
fn models(python: Option<&Path>) -> Result<()> {
    let kept = tempfile::tempdir()?;
    let mut run = 0;
    for model in MODELS {
        if !suite::runs(model)? {
            continue;
        }
        run += 1;
        for precision in ["exact", "reduced"] {
            let output = Command::new(std::env::current_exe()?)
                .env(CHILD, format!("{precision}:{model}"))
                .env(KEEP, kept.path())
                .output()?;
            let words = String::from_utf8_lossy(&output.stderr);
            eprint!("{words}");
            ensure!(output.status.success(), "{model}, {precision}: {words}");
        }
    }
    let Some(python) = python else {
        return Ok(());
    };
    let report = judge(python, kept.path())?;
    ensure!(report.packages >= 2 * run, "{} packages", report.packages);
    Ok(())
}

#[derive(Deserialize)]
struct Index {
    inputs: BTreeMap<String, String>,
    outputs: BTreeMap<String, String>,
}

/// Runs a model with all that a unit takes on that unit, and compares with ONNX Runtime's outputs.
fn child(precision: &str, name: &str) -> Result<()> {
    let emulator = emulator()?;
    let runtime = Runtime::builder()
        .only_given_folders()
        .link(polychip_coreml::query)
        .configure("coreml", "lib_dir", emulator.display().to_string())
        .configure("coreml", "precision", precision)
        .build()?;
    let (unit, tolerance) = match precision {
        "reduced" => ("coreml:0", REDUCED_TOLERANCE),
        _ => ("coreml:1", TOLERANCE),
    };
    let sample = paths::models().join("expected").join(name);
    let index: Index = serde_json::from_str(&std::fs::read_to_string(sample.join("index.json"))?)?;
    let read = |files: &BTreeMap<String, String>| -> Result<BTreeMap<String, Literal>> {
        let file = |(name, file): (&String, &String)| Ok((name.clone(), npy::read(&sample.join(file))?));
        files.iter().map(file).collect()
    };
    let (inputs, expected) = (read(&index.inputs)?, read(&index.outputs)?);
    let path = paths::models().join(format!("{name}.onnx"));
    let bound = model::bound(&runtime, &path, &inputs)?;
    let mut policy = Policy::latency().threads(1).in_flight(1).devices(["cpu:0", unit]);
    let planned = runtime.plan(&bound, &policy)?;
    let place = planned.devices().iter().position(|device| device.name() == unit);
    let place = place.with_context(|| format!("the plan knows no {unit}"))?;
    let (mut taken, mut refused) = (0, BTreeMap::<String, usize>::new());
    for (row, (_, node)) in planned.graph().nodes().enumerate() {
        if planned.targets()[place].supports(row) && !node.name.is_empty() {
            policy = policy.pin(node.name.clone(), unit);
            taken += 1;
        } else {
            *refused.entry(node.op.name().to_owned()).or_default() += 1;
        }
    }
    let session = runtime.session(&bound, policy)?;
    let outputs = model::run_session(&session, &inputs)?;
    let mut worst = 0.0f64;
    for (output, found) in &outputs {
        let wanted = expected
            .get(output)
            .with_context(|| format!("no expected output {output}"))?;
        let (found, wanted) = (numbers(found)?, numbers(wanted)?);
        let most = wanted.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        let off = found
            .iter()
            .zip(&wanted)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max);
        worst = worst.max(off / most.max(1e-30));
        ensure!(
            found.len() == wanted.len() && off.is_finite(),
            "output {output} has another size"
        );
    }
    eprintln!(
        "{name}, {precision}: {taken} nodes on {unit} (emulated), others {refused:?}, off by {worst:.2e}"
    );
    ensure!(worst <= tolerance, "off by {worst:.2e}, at most {tolerance:.0e}");
    Ok(())
}

fn numbers(literal: &Literal) -> Result<Vec<f64>> {
    literal.as_f64s().context("an output of other than numbers")
}
