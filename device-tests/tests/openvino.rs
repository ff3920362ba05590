//! Whole models through OpenVINO: alone, in turns with our CPU plugin, and as the planner chooses; each against
//! ONNX Runtime's outputs: max |a − b| ≤ 1e-4 × max |b| for every output.
//!
//! `light_squeezenet` is not split: all its weights are one number, so it ends in a softmax of equal sums of 6.8e9, where one
//! sum that is rounded otherwise is 512 apart and takes its share to nothing. `varied_squeezenet` is split instead.
//!
//! Skipped, with the reason, where the library or the models are not there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use polychip::{Policy, Runtime};
use polychip_device_tests::compare::{Tolerance, compare};
use polychip_device_tests::{Need, left_out, model, npy, openvino, paths, suite, turns};
use polychip_ops::Literal;
use serde::Deserialize;

const TOLERANCE: f64 = 1e-4;
const THREADS: u32 = 2;

#[derive(Deserialize)]
struct Index {
    inputs: BTreeMap<String, String>,
    outputs: BTreeMap<String, String>,
}

/// Who runs the nodes.
#[derive(Clone, Copy)]
enum Split {
    /// OpenVINO, all of them.
    Alone,
    /// Some nodes in turn, by pins.
    InTurns,
    /// Whichever device the planner finds cheaper.
    Chosen,
}

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let folder = match openvino::library() {
        Ok(folder) => folder,
        Err(why) => suite::skip(&arguments, Need::Openvino, &why),
    };
    let expected = paths::models().join("expected");
    if !expected.is_dir() {
        suite::skip(&arguments, Need::Models, paths::NO_MODELS);
    }
    let runtime = Runtime::builder()
        .link(polychip_openvino::query)
        .configure("openvino", "lib_dir", folder.display().to_string())
        .only_given_folders()
        .build()?;
    ensure!(
        runtime
            .devices()
            .iter()
            .any(|device| device.name() == "openvino:0"),
        "OpenVINO is there, its device is not: {:?}",
        runtime.refusals()
    );
    let runtime = Arc::new(runtime);
    let mut folders: Vec<PathBuf> = std::fs::read_dir(&expected)?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<std::io::Result<_>>()?;
    folders.retain(|path| path.join("index.json").is_file());
    folders.sort();
    let mut trials = Vec::new();
    for folder in folders {
        let name = folder
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
            .to_owned();
        for (title, split) in [
            ("alone", Split::Alone),
            ("in-turns", Split::InTurns),
            ("chosen", Split::Chosen),
        ] {
            if matches!(split, Split::InTurns) && name == "light_squeezenet" {
                let why = "a softmax of equal sums, of which one rounding is 512";
                trials.push(left_out(&format!("{name}/{title}"), why));
                continue;
            }
            let (runtime, folder, name) = (Arc::clone(&runtime), folder.clone(), name.clone());
            trials.push(Trial::test(format!("{name}/{title}"), move || {
                judge(&runtime, &name, &folder, split).map_err(|error| Failed::from(format!("{error:#}")))
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit()
}

fn judge(runtime: &Runtime, name: &str, folder: &Path, split: Split) -> Result<()> {
    let index: Index = serde_json::from_str(&std::fs::read_to_string(folder.join("index.json"))?)?;
    let read = |files: &BTreeMap<String, String>| -> Result<BTreeMap<String, Literal>> {
        files
            .iter()
            .map(|(name, file)| Ok((name.clone(), npy::read(&folder.join(file))?)))
            .collect()
    };
    let inputs = read(&index.inputs)?;
    let path = paths::models().join(format!("{name}.onnx"));
    let policy = Policy::latency().threads(THREADS).in_flight(1);
    let policy = match split {
        Split::Alone => policy.devices(["openvino:0"]),
        Split::Chosen => policy.devices(["cpu:0", "openvino:0"]),
        Split::InTurns => {
            let bound = model::bound(runtime, &path, &inputs)?;
            turns::policy(runtime, &bound, policy, ["cpu:0", "openvino:0"])?
        }
    };
    let outputs = model::run(runtime, &policy, &path, &inputs)?;
    let wanted = read(&index.outputs)?;
    ensure!(
        outputs.len() == wanted.len(),
        "{} outputs instead of {}",
        outputs.len(),
        wanted.len()
    );
    for (output, found) in &outputs {
        let wanted = wanted
            .get(output)
            .with_context(|| format!("ONNX Runtime has no output {output:?}"))?;
        compare(found, wanted, Tolerance::OfLargest(TOLERANCE))
            .map_err(|words| anyhow::anyhow!("output {output:?}: {words}"))?;
    }
    Ok(())
}
