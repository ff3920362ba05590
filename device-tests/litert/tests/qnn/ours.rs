//! Our plugin, on models of one op: in a process of its own, whose emulator writes the calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use polychip::{Device, Policy, Runtime};
use polychip_device_tests::part;
use polychip_host::{CompileOptions, FlatGraph};

use crate::client::Client;
use crate::trace;

/// Set for the child: the folder of the models.
pub(crate) const CHILD: &str = "POLYCHIP_TEST_LITERT_QNN";
/// Set for the child: the folder of the libraries.
const LIBRARIES: &str = "POLYCHIP_TEST_LITERT_QNN_LIBRARIES";
const TRACE: &str = "POLYCHIP_QNN_TRACE";
/// What came of each case, in the folder of the models.
const RESULTS: &str = "ours.json";
/// As LiteRT is asked for in `calls`.
pub(crate) const SOC: &str = "SM8650";

/// The calls of each case as a text, or why there are none.
pub(crate) fn calls(client: &Client) -> Result<BTreeMap<String, Result<String, String>>> {
    let folder = client.ops();
    let output = Command::new(std::env::current_exe()?)
        .env(CHILD, &folder)
        .env(LIBRARIES, client.libraries())
        .env(TRACE, folder.join("ours.trace"))
        .output()?;
    ensure!(
        output.status.success(),
        "{}:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let results = std::fs::read(folder.join(RESULTS)).context(RESULTS)?;
    Ok(serde_json::from_slice(&results)?)
}

/// Compiles every case, and writes what was called for it.
pub(crate) fn child(folder: &Path) -> Result<()> {
    let variable = |name: &str| std::env::var_os(name).with_context(|| format!("{name} is not set"));
    let (libraries, trace) = (variable(LIBRARIES)?, variable(TRACE)?);
    let runtime = runtime(Path::new(&libraries))?;
    let npu = device(&runtime)?;
    let names: Vec<String> = serde_json::from_slice(&std::fs::read(folder.join("cases.json"))?)?;
    let mut results = BTreeMap::new();
    let mut before = 0;
    for name in names {
        let result = compile(&runtime, npu, &folder.join(format!("{name}.onnx")));
        // each compilation adds to the file, which is written as calls are made
        let text = std::fs::read_to_string(&trace).unwrap_or_default();
        let added = trace::parse(&text[before..])?.added;
        before = text.len();
        let result = result.map_err(|error| format!("{error:#}"));
        results.insert(name, result.map(|()| trace::text(&added)));
    }
    std::fs::write(folder.join(RESULTS), serde_json::to_vec(&results)?)?;
    Ok(())
}

/// The runtime with the emulated chip; floats may be computed in 16 bits, as LiteRT has them.
pub(crate) fn runtime(libraries: &Path) -> Result<Runtime> {
    Ok(Runtime::builder()
        .only_given_folders()
        .link(polychip_qnn::query)
        .configure("qnn", "soc", SOC)
        .configure("qnn", "precision", "reduced")
        .configure("qnn", "lib_dir", libraries.display().to_string())
        .build()?)
}

/// The NPU of a runtime.
pub(crate) fn device(runtime: &Runtime) -> Result<&Device> {
    let npu = runtime.devices().iter().find(|device| device.name() == "qnn:0");
    npu.with_context(|| {
        let why: Vec<String> = runtime.refusals().iter().map(ToString::to_string).collect();
        format!("no device qnn:0: {}", why.join("; "))
    })
}

/// Compiles a model whole.
fn compile(runtime: &Runtime, npu: &Device, path: &Path) -> Result<()> {
    let model = runtime.load(path)?;
    let policy = Policy::latency().threads(1).in_flight(1).devices(["qnn:0"]);
    let planned = runtime.plan(&model, &policy)?;
    let graph = planned.graph();
    let whole = part::cut(graph, &graph.node_ids(), &graph.inputs, &graph.outputs)?;
    let options = CompileOptions {
        threads: 1,
        reduced_precision: true,
        ..CompileOptions::default()
    };
    npu.compile(&FlatGraph::new(&whole, &[])?, &options)?;
    Ok(())
}
