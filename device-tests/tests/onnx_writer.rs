//! Graphs written as ONNX models and read back: the same canonical graph, on every model of the ONNX backend suite
//! and on whole models; and ONNX's own checker takes what was written. Quantised models written with fake quantisation give
//! what the models themselves give, in ONNX Runtime.
//!
//! Skipped, with the reason, where the suite or Python is not there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip::{Policy, Runtime};
use polychip_device_tests::{Need, paths, skipped};
use polychip_graph::{Graph, TensorId, fingerprint, text};
use polychip_host::FlatGraph;
use polychip_ops::{AttrDefault, AttrKey, AttrValue, Dim, Op};
use polychip_sdk::onnx::{self, Options, Release};
use polychip_sdk::{ErrorKind, GraphView};

/// Written models that are checked by ONNX's own checker in one process.
const CHECKER: &str = "
import pathlib, sys, onnx
bad = 0
for path in sorted(pathlib.Path(sys.argv[1]).glob('*.onnx')):
    try:
        onnx.checker.check_model(str(path))
    except Exception as error:
        bad += 1
        print(path.name, str(error).replace(chr(10), ' ')[:300])
sys.exit(1 if bad else 0)
";

/// Runs pairs `N.onnx` and `N.fake.onnx` in ONNX Runtime, unoptimised, on the same noise.
const FAKE_QUANTISATION: &str = "
import pathlib, sys, numpy, onnxruntime
bad = 0
def session(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=['CPUExecutionProvider'])
for fake in sorted(pathlib.Path(sys.argv[1]).glob('*.fake.onnx')):
    model = fake.with_name(fake.name.replace('.fake', ''))
    one, two = session(model), session(fake)
    noise = numpy.random.default_rng(7)
    feeds = ({}, {})
    for plain, faked in zip(one.get_inputs(), two.get_inputs()):
        value = noise.standard_normal(faked.shape, dtype=numpy.float32)
        feeds[0][plain.name] = feeds[1][faked.name] = value
    for wanted, found in zip(one.run(None, feeds[0]), two.run(None, feeds[1])):
        if not numpy.array_equal(wanted, found):
            bad += 1
            print(model.name, abs(wanted - found).max(), 'of', abs(wanted).max())
sys.exit(1 if bad else 0)
";

/// A release that vendors' compilers read, and ONNX Runtime too.
const READ: Release = Release {
    opset: 19,
    ir_version: 9,
};

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let mut trials = vec![Trial::test("shapes", || {
        failed(read_back(&[
            paths::root().join("examples/shapes/shapes.onnx"),
            paths::root().join("examples/shapes/shapes-int8.onnx"),
        ]))
    })];
    let suite = paths::suite();
    if suite.is_dir() {
        for kind in ["node", "simple", "pytorch-converted", "pytorch-operator"] {
            let cases = models(&suite.join(kind), "model.onnx")?;
            trials.push(Trial::test(kind, move || failed(read_back(&cases))));
        }
        if !python().is_file() {
            let why = format!("{} is not there", python().display());
            trials.push(skipped("ONNX's checker", Need::Python, &why));
        }
    } else {
        trials.push(skipped("suite", Need::Models, paths::NO_SUITE));
    }
    if python().is_file() {
        trials.push(Trial::test("fake quantisation", || failed(fake_quantisation())))
    } else {
        trials.push(skipped(
            "fake quantisation",
            Need::Python,
            &format!("{} is not there", python().display()),
        ))
    }
    libtest_mimic::run(&arguments, trials).exit()
}

/// Quantised models with f32 at all ports, and the same with fake quantisation.
fn fake_quantisation() -> Result<()> {
    let runtime = Runtime::builder().only_given_folders().build()?;
    let folder = tempfile::tempdir()?;
    let mut models = vec![paths::root().join("examples/shapes/shapes-int8.onnx")];
    let generated = paths::models().join("quantised/mobilenet_v2_u8.onnx");
    models.extend(generated.is_file().then_some(generated));
    for (index, path) in models.iter().enumerate() {
        let model = runtime.load(path)?;
        let sizes = model
            .graph()
            .inputs
            .iter()
            .flat_map(|&id| &model.graph().tensor(id).ty.shape);
        let sizes = sizes.flatten().filter_map(|dim| match dim {
            Dim::Symbol(name) => Some((name.to_string(), 1)),
            _ => None,
        });
        let model = model.bind(sizes.collect::<BTreeMap<_, _>>())?;
        let options = Options {
            quantised: onnx::Quantised::Fake,
            ..Options::default()
        };
        let planned = runtime.plan(&model, &Policy::default())?;
        let fake = write_with(planned.graph(), &options, READ)?;
        std::fs::write(folder.path().join(format!("{index}.fake.onnx")), fake)?;
        std::fs::copy(path, folder.path().join(format!("{index}.onnx")))?;
    }
    script(&python(), FAKE_QUANTISATION, folder.path()).context("the models with fake quantisation differ")
}

fn failed(result: Result<()>) -> Result<(), Failed> {
    result.map_err(|error| format!("{error:#}").into())
}

/// The model of each case of a folder.
fn models(folder: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .map(|entry| entry.map(|entry| entry.path().join(name)))
        .collect::<std::io::Result<_>>()?;
    found.retain(|path| path.is_file());
    found.sort();
    Ok(found)
}

fn read_back(models: &[PathBuf]) -> Result<()> {
    let runtime = Runtime::builder().only_given_folders().build()?;
    let folder = tempfile::tempdir()?;
    let (mut same, mut refused) = (0, BTreeMap::<String, usize>::new());
    let mut different = Vec::new();
    for (index, path) in models.iter().enumerate() {
        // what our importer does not read is its own suite's concern
        let Ok(model) = runtime.load(path) else { continue };
        let copy = folder.path().join(format!("{index}.onnx"));
        let mut original = model.graph().clone();
        match write(&original) {
            Ok(bytes) => std::fs::write(&copy, bytes)?,
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                let words = error.to_string();
                let kind = words.split_whitespace().rev().take(3).collect::<Vec<_>>();
                *refused
                    .entry(kind.into_iter().rev().collect::<Vec<_>>().join(" "))
                    .or_default() += 1;
                continue;
            }
            Err(error) => bail!("{}: {error}", path.display()),
        }
        let back = runtime
            .load(&copy)
            .with_context(|| format!("what was written of {} is not read", path.display()))?;
        let mut back = back.graph().clone();
        for graph in [&mut original, &mut back] {
            plain(graph);
        }
        if fingerprint::content(&original) == fingerprint::content(&back) {
            same += 1;
        } else {
            different.push(format!(
                "{}:\n{}\ninstead of\n{}",
                path.display(),
                text::print(&back),
                text::print(&original)
            ));
        }
    }
    eprintln!("{same} graphs read back equal; not written: {refused:?}");
    ensure!(
        different.is_empty(),
        "{} graphs differ; the first is {}",
        different.len(),
        different[0]
    );
    ensure!(same > 0, "nothing was written");
    let python = python();
    if python.is_file() {
        check(&python, folder.path())?;
    }
    Ok(())
}

/// The Python that has ONNX's checker, where it is.
fn python() -> PathBuf {
    std::env::var_os("POLYCHIP_PYTHON")
        .map_or_else(|| paths::root().join("target/venv/bin/python"), PathBuf::from)
}

fn write(graph: &Graph) -> polychip_sdk::Result<Vec<u8>> {
    write_with(graph, &Options::default(), Release::NEWEST)
}

fn write_with(graph: &Graph, options: &Options<'_>, release: Release) -> polychip_sdk::Result<Vec<u8>> {
    let flat = FlatGraph::new(graph, &[])
        .map_err(|error| polychip_sdk::Error::unsupported(format!("not flat: {error}")))?;
    // SAFETY: the flat graph outlives the view, and is never written to.
    let view = unsafe { GraphView::new(flat.raw()) }?;
    onnx::write_as(&view, options, release)
}

/// The graph without what a model does not state (groups, names of sizes, the sources of recomposed nodes), and with what a
/// writer adds (attributes at their defaults).
fn plain(graph: &mut Graph) {
    graph.groups.clear();
    let ids: Vec<TensorId> = graph.tensors().map(|(id, _)| id).collect();
    for id in ids {
        // a flat graph does not name sizes
        for dim in graph.tensor_mut(id).ty.shape.iter_mut().flatten() {
            if matches!(dim, Dim::Symbol(_)) {
                *dim = Dim::Unknown;
            }
        }
    }
    // an output of a model is made by a node, even where it is a constant
    for place in 0..graph.outputs.len() {
        let output = graph.outputs[place];
        let copied = graph.producer(output).filter(|&id| {
            let node = graph.node(id);
            node.op == Op::Identity && node.input(0).is_some_and(|from| graph.tensor(from).is_constant())
        });
        if let Some(from) = copied.and_then(|id| graph.node(id).input(0)) {
            graph.outputs[place] = from;
        }
    }
    graph.remove_dead();
    for id in graph.node_ids() {
        graph.edit_node(id, |node| {
            node.decomposition = None;
            for body in &mut node.bodies {
                plain(&mut body.graph);
            }
            if node.op == Op::Custom {
                return;
            }
            for spec in node.op.spec().attributes {
                let value = match spec.default {
                    Some(AttrDefault::Int(value)) => AttrValue::Int(value),
                    Some(AttrDefault::Float(value)) => AttrValue::Float(value),
                    Some(AttrDefault::String(text)) => AttrValue::String(text.into()),
                    Some(AttrDefault::Ints(values)) => AttrValue::Ints(values.to_vec()),
                    Some(AttrDefault::Strings(texts)) => {
                        AttrValue::Strings(texts.iter().map(|&text| text.into()).collect())
                    }
                    None => continue,
                };
                if node.attributes.get(spec.attr).is_none() {
                    node.attributes.set(AttrKey::Known(spec.attr), value);
                }
            }
        });
    }
}

/// Asks ONNX's own checker.
fn check(python: &Path, folder: &Path) -> Result<()> {
    script(python, CHECKER, folder).context("ONNX's checker refuses")
}

/// Runs a script on a folder; what it prints is the error where it fails.
fn script(python: &Path, script: &str, folder: &Path) -> Result<()> {
    let output = Command::new(python)
        .args(["-c", script])
        .arg(folder)
        .output()
        .context("Python")?;
    ensure!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
