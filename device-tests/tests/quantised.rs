//! Quantised models and ops on the CPU against ONNX Runtime's outputs of the QDQ graphs as they stand.
//!
//! - Ops: within the steps of the output's encoding that [`STEPS`] allows.
//! - Models: the answer that the QDQ graph gives, cosine at least 0.999 for every output, and all nodes but
//!   the named ones quantised after the passes.
//!
//! - With OpenVINO, where it is installed: the same, with the products that it takes on it, in integers where this
//!   CPU sums them without loss, and in floats as on a CPU that does not.
//!
//! Skipped where `cargo xtask models` has not made the models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip::{Policy, Runtime};
use polychip_device_tests::compare::{cosine, top};
use polychip_device_tests::quantised::share;
use polychip_device_tests::{Need, model, npy, openvino, paths, skipped, suite};
use polychip_ops::{Literal, Op};
use serde::Deserialize;

/// How many steps of the output's encoding a result may be off, by the first fitting prefix of the case.
const STEPS: [(&str, f64); 3] = [
    // sums over 72 products round elsewhere than ONNX Runtime's
    ("conv", 1.0),
    // of four roundings inside, which the op in one piece does not do
    ("gelu", 3.0),
    ("", 1.0),
];

/// Least cosine between an output and ONNX Runtime's.
const COSINE: f64 = 0.999;

/// Nodes of each model that read or give floats, besides its borders.
const MODELS: [(&str, usize); 4] = [
    ("mobilenet_v2_u8", 0),
    ("mobilenet_v2_u16", 0),
    // the Cast of the attention mask from its integers
    ("encoder_u16", 1),
    ("encoder_mixed", 1),
];

#[derive(Deserialize)]
struct Index {
    inputs: BTreeMap<String, String>,
    outputs: BTreeMap<String, String>,
    step: Option<f64>,
    class: Option<usize>,
}

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let folder = paths::models().join("quantised");
    let mut trials = Vec::new();
    if folder.join(".stamp").is_file() {
        for (name, floats) in MODELS {
            if !suite::runs(name)? {
                continue;
            }
            let path = folder.join(format!("{name}.onnx"));
            trials.push(Trial::test(format!("{name}/share"), {
                let path = path.clone();
                move || failed(quantised(&path, floats))
            }));
            for sample in folders(&folder.join("expected").join(name))? {
                let path = path.clone();
                let title = format!("{name}/{}", file_name(&sample));
                trials.push(Trial::test(title, move || {
                    failed(runtime().and_then(|runtime| answers(&runtime, &policy(), &path, &sample)))
                }));
            }
            let sample = folder.join("expected").join(name).join("0");
            match openvino::library() {
                Ok(library) => {
                    let floats = (library.clone(), path.clone(), sample.clone());
                    trials.push(Trial::test(format!("openvino/{name}"), move || {
                        failed(with_openvino(&library, None, &path, &sample))
                    }));
                    trials.push(Trial::test(format!("openvino_in_floats/{name}"), move || {
                        failed(with_openvino(&floats.0, Some("no"), &floats.1, &floats.2))
                    }));
                }
                Err(why) => trials.push(skipped(&format!("openvino/{name}"), Need::Openvino, &why)),
            }
        }
        for case in folders(&folder.join("ops/expected"))? {
            let title = format!("ops/{}", file_name(&case));
            let path = folder.join(format!("{title}.onnx"));
            trials.push(Trial::test(title, move || failed(op(&path, &case))));
        }
    } else {
        trials.push(skipped("quantised", Need::Models, paths::NO_MODELS));
    }
    libtest_mimic::run(&arguments, trials).exit()
}

fn failed(result: Result<()>) -> Result<(), Failed> {
    result.map_err(|error| format!("{error:#}").into())
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().and_then(|name| name.to_str());
    name.unwrap_or_default().to_owned()
}

/// Folders with an index in a folder, sorted.
fn folders(path: &Path) -> Result<Vec<PathBuf>> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(path)
        .with_context(|| path.display().to_string())?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    folders.retain(|path| path.join("index.json").is_file());
    folders.sort();
    ensure!(
        !folders.is_empty(),
        "{} holds no expected outputs",
        path.display()
    );
    Ok(folders)
}

fn index(folder: &Path) -> Result<Index> {
    Ok(serde_json::from_str(&std::fs::read_to_string(
        folder.join("index.json"),
    )?)?)
}

fn read(folder: &Path, files: &BTreeMap<String, String>) -> Result<BTreeMap<String, Literal>> {
    files
        .iter()
        .map(|(name, file)| Ok((name.clone(), npy::read(&folder.join(file))?)))
        .collect()
}

/// The CPU alone, whatever plugins lie beside the test.
fn runtime() -> Result<Runtime> {
    Ok(Runtime::builder().only_given_folders().build()?)
}

fn policy() -> Policy {
    Policy::latency().threads(1).in_flight(1).devices(["cpu:0"])
}

fn quantised(path: &Path, floats: usize) -> Result<()> {
    let runtime = runtime()?;
    let model = runtime.load(path)?;
    let planned = runtime.plan(&model, &policy())?;
    let share = share(planned.graph());
    eprintln!(
        "{}: {} of {} nodes, {} of {} MACs are quantised; {} borders",
        file_name(path),
        share.quantised,
        share.nodes,
        share.quantised_macs,
        share.macs,
        share.borders
    );
    ensure!(
        share.rest.len() <= floats,
        "not quantised: {}",
        share.rest.join("; ")
    );
    ensure!(
        share.macs > 0 && share.quantised_macs == share.macs,
        "products of floats are left: {}",
        share.rest.join("; ")
    );
    let ports = planned.graph().inputs.len() + planned.graph().outputs.len();
    ensure!(
        share.borders <= ports,
        "{} borders at {ports} inputs and outputs",
        share.borders
    );
    Ok(())
}

/// The same where OpenVINO computes the products and whatever else is cheaper there.
fn with_openvino(library: &Path, integers: Option<&str>, path: &Path, sample: &Path) -> Result<()> {
    let mut runtime = Runtime::builder().link(polychip_openvino::query).configure(
        "openvino",
        "lib_dir",
        library.display().to_string(),
    );
    if let Some(integers) = integers {
        runtime = runtime.configure("openvino", "integers", integers);
    }
    let runtime = runtime.only_given_folders().build()?;
    let both = policy().devices(["openvino:0", "cpu:0"]);
    let model = runtime.load(path)?;
    let planned = runtime.plan(&model, &both)?;
    let (mut policy, mut products, mut taken) = (both, 0, 0);
    for (row, (_, node)) in planned.graph().nodes().enumerate() {
        if matches!(node.op, Op::Conv | Op::MatMul | Op::Gemm) {
            products += 1;
            if planned.targets()[0].supports(row) && !node.name.is_empty() {
                taken += 1;
                policy = policy.pin(&node.name, "openvino:0");
            }
        }
    }
    eprintln!(
        "{}: OpenVINO takes {taken} of {products} products",
        file_name(path)
    );
    // tensors of 16 bits are not its
    let wide = file_name(path).ends_with("_u16.onnx");
    ensure!(wide || taken > 0, "OpenVINO takes no product");
    answers(&runtime, &policy, path, sample)
}

fn answers(runtime: &Runtime, policy: &Policy, path: &Path, sample: &Path) -> Result<()> {
    let index = index(sample)?;
    let found = model::run(runtime, policy, path, &read(sample, &index.inputs)?)?;
    let wanted = read(sample, &index.outputs)?;
    ensure!(
        found.len() == wanted.len(),
        "{} outputs instead of {}",
        found.len(),
        wanted.len()
    );
    for (name, found) in &found {
        let wanted = wanted
            .get(name)
            .with_context(|| format!("ONNX Runtime has no output {name:?}"))?;
        let cosine = cosine(found, wanted);
        eprintln!(
            "{}: {name}: cosine {cosine:.6}, answer {:?}",
            path.display(),
            top(found)
        );
        ensure!(
            cosine >= COSINE,
            "output {name:?}: cosine {cosine} instead of {COSINE}"
        );
    }
    let (last, found) = found.last().context("no output")?;
    ensure!(
        top(found) == top(&wanted[last]) && top(found) == index.class,
        "the answer is {:?} instead of {:?}, of class {:?}",
        top(found),
        top(&wanted[last]),
        index.class
    );
    Ok(())
}

fn op(path: &Path, case: &Path) -> Result<()> {
    let index = index(case)?;
    let step = index.step.context("the index has no step")?;
    let (_, allowed) = STEPS
        .iter()
        .find(|(prefix, _)| file_name(path).starts_with(prefix))
        .context("invariant: the last prefix is empty")?;
    let found = model::run(&runtime()?, &policy(), path, &read(case, &index.inputs)?)?;
    for (name, wanted) in read(case, &index.outputs)? {
        let (_, found) = found
            .iter()
            .find(|(found, _)| *found == name)
            .context("an output is missing")?;
        ensure!(
            found.shape == wanted.shape,
            "shape {:?} instead of {:?}",
            found.shape,
            wanted.shape
        );
        let (found, wanted) = (
            found.as_f64s().context("not float")?,
            wanted.as_f64s().context("not float")?,
        );
        let apart = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs() / step);
        let differ = apart.clone().filter(|steps| *steps > 0.5).count();
        let most = apart.fold(0.0f64, f64::max);
        eprintln!(
            "{}: {differ} of {} elements differ, by at most {most:.2} steps",
            file_name(path),
            wanted.len()
        );
        // values are whole steps apart, but for the last bits of the product with the scale
        ensure!(most <= allowed + 0.01, "{most:.2} steps apart, {allowed} allowed");
    }
    Ok(())
}
