//! Our plugin, on models of one op: in a process of its own, whose emulator writes the calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use polychip::{Device, Policy, Runtime};
use polychip_device_tests::part;
use polychip_host::{CompileOptions, FlatGraph};

use crate::Vendor;
use crate::client::Client;

/// Set for the child: the folder of the models.
pub const CHILD: &str = "POLYCHIP_TEST_LITERT";
/// Set for the child: the folder of the libraries.
const LIBRARIES: &str = "POLYCHIP_TEST_LITERT_LIBRARIES";
/// What came of each case, in the folder of the models.
const RESULTS: &str = "ours.json";
/// The calls of each case as text, or the reason for their absence.
///
/// # Errors
/// The process fails.
pub fn calls(client: &Client) -> Result<BTreeMap<String, Result<String, String>>> {
    let folder = client.ops();
    let output = Command::new(std::env::current_exe()?)
        .env(CHILD, &folder)
        .env(LIBRARIES, client.libraries())
        .env(client.vendor.trace, folder.join("ours.trace"))
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
///
/// # Errors
/// A file cannot be read or written.
pub fn child(vendor: &Vendor, folder: &Path) -> Result<()> {
    let variable = |name: &str| std::env::var_os(name).with_context(|| format!("{name} is not set"));
    let (libraries, trace) = (variable(LIBRARIES)?, variable(vendor.trace)?);
    let runtime = (vendor.runtime)(Path::new(&libraries))?;
    let npu = device(vendor, &runtime)?;
    let names: Vec<String> = serde_json::from_slice(&std::fs::read(folder.join("cases.json"))?)?;
    let mut results = BTreeMap::new();
    let mut before = 0;
    for name in names {
        let result = compile(&runtime, npu, &folder.join(format!("{name}.onnx")));
        // each compilation adds to the file, which is written as calls are made
        let text = std::fs::read_to_string(&trace).unwrap_or_default();
        let operations = (vendor.operations)(&text[before..])?;
        before = text.len();
        let result = result.map_err(|error| format!("{error:#}"));
        results.insert(name, result.map(|()| operations));
    }
    std::fs::write(folder.join(RESULTS), serde_json::to_vec(&results)?)?;
    Ok(())
}

/// The NPU of a runtime.
///
/// # Errors
/// It has none, with the plugin's words.
pub fn device<'a>(vendor: &Vendor, runtime: &'a Runtime) -> Result<&'a Device> {
    let npu = runtime
        .devices()
        .iter()
        .find(|device| device.name() == vendor.device);
    npu.with_context(|| {
        let why: Vec<String> = runtime.refusals().iter().map(ToString::to_string).collect();
        format!("no device {}: {}", vendor.device, why.join("; "))
    })
}

/// Compiles a model whole.
fn compile(runtime: &Runtime, npu: &Device, path: &Path) -> Result<()> {
    let model = runtime.load(path)?;
    let policy = Policy::latency().threads(1).in_flight(1).devices([npu.name()]);
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
