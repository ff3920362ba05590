//! Witness of the rknn plugin: Rockchip's own toolkit compiles what our writer writes, its simulator computes it as ONNX
//! Runtime does, its table of layers becomes estimates, and its library for connected boards reports that no board is there.
//!
//! Skipped, with the reason, where the toolkit is not there: `RKNN_PYTHON` names a Python that has it, or
//! `cargo xtask vendor rknn` has made one, once a person has accepted the licence.
//!
//! Invariants:
//! 1. The toolkit is started by the plugin's own program, `compile.py`.
//! 2. What is compared are the toolkit's numbers and ONNX Runtime's; ours are in neither.

#![allow(unsafe_code, reason = "a graph is viewed as a plugin views it")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip_device_tests::{Need, libraries, paths, skipped};
use polychip_graph::Graph;
use polychip_host::{CompileOptions, Device, FlatGraph, Host};
use polychip_sdk::GraphView;
use polychip_sdk::onnx::{self, Options, Release};

mod nets;

/// What the plugin writes for the toolkit.
const READ: Release = Release {
    opset: 19,
    ir_version: 9,
};
/// The least cosine between the simulator's outputs and ONNX Runtime's, in 16-bit floats and in bytes, of which a step more or
/// less is right.
const COSINE: [f64; 2] = [0.9999, 0.999];
/// Chips that each net is compiled for.
const TARGETS: [&str; 3] = ["rk3588", "rk3576", "rk3566"];

/// Makes inputs, runs ONNX Runtime, and compares: arguments are the model, a folder, and a word.
const RUNTIME: &str = "
import sys, numpy, onnxruntime
model, folder, what = sys.argv[1:]
session = onnxruntime.InferenceSession(model, providers=['CPUExecutionProvider'])
if what == 'inputs':
    for place, port in enumerate(session.get_inputs()):
        values = numpy.random.default_rng(place).normal(size=port.shape).astype(numpy.float32)
        numpy.save('%s/in%d.npy' % (folder, place), values)
    print(len(session.get_inputs()), len(session.get_outputs()))
else:
    feeds = {port.name: numpy.load('%s/in%d.npy' % (folder, place)) for place, port in enumerate(session.get_inputs())}
    for place, wanted in enumerate(session.run(None, feeds)):
        found = numpy.load('%s/out%d.npy' % (folder, place)).reshape(wanted.shape).astype(numpy.float64)
        wanted = wanted.astype(numpy.float64)
        norm = numpy.linalg.norm(found) * numpy.linalg.norm(wanted)
        print((found * wanted).sum() / norm, numpy.abs(found - wanted).max(), numpy.abs(wanted).max())
";

/// The Python that has the toolkit.
fn python() -> Result<PathBuf, String> {
    if let Some(python) = std::env::var_os("RKNN_PYTHON").filter(|python| !python.is_empty()) {
        return Ok(PathBuf::from(python));
    }
    let vendored = paths::root().join("target/vendor/rknn/2.5.0/bin/python");
    if vendored.is_file() {
        return Ok(vendored);
    }
    Err(
        "RKNN_PYTHON is not set, and `cargo xtask vendor rknn --accept-licence` has not been run: a person reads the licence first"
            .to_owned(),
    )
}

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    let nets = nets::all();
    match python() {
        Err(why) => {
            for (name, _) in &nets {
                trials.push(skipped(name, Need::RknnToolkit, &why));
            }
            trials.push(skipped("no-board", Need::RknnToolkit, &why));
        }
        Ok(python) => {
            let python = Arc::new(python);
            for (name, net) in nets {
                let (net, python) = (Arc::new(net), Arc::clone(&python));
                for target in TARGETS {
                    let (net, python) = (Arc::clone(&net), Arc::clone(&python));
                    let trial = move || failed(compiles(&python, &net, target));
                    trials.push(Trial::test(format!("{name}/{target}"), trial));
                }
                let trial = move || failed(estimates(&python, &net));
                trials.push(Trial::test(format!("{name}/table"), trial));
            }
            trials.push(Trial::test("no-board", move || failed(no_board(&python))));
        }
    }
    libtest_mimic::run(&arguments, trials).exit()
}

fn failed(result: Result<()>) -> Result<(), Failed> {
    result.map_err(|error| format!("{error:#}").into())
}

fn words(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn model(graph: &Graph) -> Result<Vec<u8>> {
    let flat = FlatGraph::new(graph, &[])?;
    // SAFETY: the flat graph outlives the view, and is never written to.
    let view = unsafe { GraphView::new(flat.raw()) }?;
    let options = Options {
        quantised: onnx::Quantised::Fake,
        ..Options::default()
    };
    Ok(onnx::write_as(&view, &options, READ)?)
}

/// The toolkit compiles the net, and its simulator gives ONNX Runtime's numbers.
fn compiles(python: &Path, net: &Graph, target: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("part.onnx"), model(net)?)?;
    let runtime = |what: &str| {
        let mut command = Command::new(python);
        command
            .args(["-c", RUNTIME])
            .arg(at("part.onnx"))
            .arg(folder.path())
            .arg(what);
        words(&mut command)
    };
    let ports = runtime("inputs")?;
    let mut counts = ports.split_whitespace().map(str::parse::<usize>);
    let mut count = || counts.next().context("two counts");
    let (inputs, outputs) = (count()??, count()??);
    let files = |stem: &str, count: usize| -> Vec<PathBuf> {
        (0..count)
            .map(|place| at(&format!("{stem}{place}.npy")))
            .collect()
    };
    let request = serde_json::json!({
        "ask": "compile",
        "model": at("part.onnx"),
        "blob": at("part.rknn"),
        "result": at("result.json"),
        "target_platform": target,
        "quantized_dtype": null,
        "quantized_algorithm": null,
        "dataset": null,
        "optimization_level": 3,
        "single_core_mode": false,
        "custom_string": "polychip witness",
        "simulate": { "inputs": files("in", inputs), "outputs": files("out", outputs) },
    });
    std::fs::write(at("request.json"), request.to_string())?;
    let script = paths::root().join("plugins/rknn/src/toolkit/compile.py");
    words(
        Command::new(python)
            .arg(script)
            .arg(at("request.json"))
            .current_dir(folder.path()),
    )?;
    let answer = std::fs::read_to_string(at("result.json")).context("the program left no answer")?;
    let answer: serde_json::Value = serde_json::from_str(&answer)?;
    ensure!(answer["ok"] == true, "the toolkit refuses: {answer}");
    let blob = std::fs::read(at("part.rknn"))?;
    ensure!(
        blob.starts_with(b"RKNN"),
        "{} bytes that are no .rknn file",
        blob.len()
    );
    for line in runtime("compare")?.lines() {
        let figures: Vec<f64> = line
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let [cosine, largest, scale] = figures[..] else {
            anyhow::bail!("{line}");
        };
        eprintln!("{target}: cosine {cosine:.7}, max |a - b| {largest:.2e} of {scale:.2e}");
        let bytes = net.tensors().any(|(_, tensor)| tensor.encoding.is_some());
        ensure!(cosine >= COSINE[usize::from(bytes)], "cosine {cosine}");
    }
    Ok(())
}

/// The plugin's device on the emulated runtime, with the vendor's compiler.
fn device(python: &Path) -> Result<Device> {
    let library = libraries::library("polychip-emulator-rknnrt", "rknnrt")?;
    let folder = library.parent().context("a library lies in a folder")?;
    let host = Host::builder()
        .configure("rknn", "lib_dir", folder.display().to_string())
        .configure("rknn", "target_platform", "rk3588")
        .configure("rknn", "precision", "reduced")
        .configure("rknn", "python", python.display().to_string())
        .linked(polychip_rknn::query)
        .build();
    let device = host.devices().first().cloned();
    device.with_context(|| format!("{:?}", host.refusals()))
}

/// The vendor's table is read: nodes whose cycles it counts are estimated by them, near what the chip can do.
fn estimates(python: &Path, net: &Graph) -> Result<()> {
    let device = device(python)?;
    let flat = FlatGraph::new(net, &[])?;
    let support = device.query_support(&flat)?;
    for answer in &support {
        ensure!(answer.reason == 0, "our table refuses: {}", answer.detail);
    }
    let nodes: Vec<u32> = (0..support.len() as u32).collect();
    let before = device.estimate(&flat, &nodes)?.context("no estimate")?;
    device.compile(&flat, &CompileOptions::default())?;
    let after = device.estimate(&flat, &nodes)?.context("no estimate")?;
    let (before_ns, after_ns) = (
        before.time_ns.context("no time")?,
        after.time_ns.context("no time")?,
    );
    eprintln!("roofline {before_ns} ns, by the vendor's table {after_ns} ns");
    ensure!(
        after.error_permille < before.error_permille,
        "the table told nothing"
    );
    let ratio = after_ns as f64 / before_ns as f64;
    ensure!(
        (0.1..100.0).contains(&ratio),
        "the table is {ratio} times the roofline"
    );
    Ok(())
}

/// The wheel's own library finds no board, and the plugin reports that.
fn no_board(python: &Path) -> Result<()> {
    let place =
        words(Command::new(python).args(["-c", "import rknn, os; print(os.path.dirname(rknn.__file__))"]))?;
    let mut open = vec![PathBuf::from(place.trim())];
    let mut found = None;
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder)?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.file_name().is_some_and(|name| name == "librknn_api.so") {
                let of_here = path.to_string_lossy().contains(std::env::consts::ARCH);
                found = found.or(of_here.then_some(path));
            }
        }
    }
    let library = found.context("the package holds no librknn_api.so for this machine")?;
    let folder = library.parent().context("a library lies in a folder")?;
    let host = Host::builder()
        .configure("rknn", "lib_dir", folder.display().to_string())
        .configure("rknn", "target_platform", "rk3588")
        .linked(polychip_rknn::query)
        .build();
    let refusals: Vec<String> = host.refusals().iter().map(ToString::to_string).collect();
    let refusals = refusals.join("; ");
    ensure!(host.devices().is_empty(), "a device without a board");
    ensure!(
        refusals.contains("no board") && refusals.contains("-3"),
        "{refusals}"
    );
    Ok(())
}
