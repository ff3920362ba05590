//! Planning asks a device a fixed number of times, however many nodes the model has.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[allow(dead_code, reason = "not every test crate writes every kind of model")]
#[path = "../../apps/cli/tests/command/model.rs"]
mod model;

use model::{F32, node, port};
use polychip::{Policy, Runtime};
use polychip_null::{NullDevice, NullPlugin};
use polychip_sdk::{
    CompileOptions, Cost, Device, DeviceInfo, GraphView, HostServices, LoadSource, Memory, Offers, Plugin,
    PluginInfo, Result, Support,
};

/// Calls that brought the whole graph over, and parts that were estimated.
static CROSSINGS: AtomicUsize = AtomicUsize::new(0);
static ESTIMATED: AtomicUsize = AtomicUsize::new(0);

/// The scripted plugin, counting.
struct Counting(NullPlugin);

impl Plugin for Counting {
    type Device = CountingDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "null",
        ..NullPlugin::INFO
    };

    fn create(host: HostServices) -> Result<Self> {
        NullPlugin::create(host).map(Counting)
    }

    fn device_count(&self) -> Result<u32> {
        self.0.device_count()
    }

    fn open(&self, index: u32) -> Result<CountingDevice> {
        self.0.open(index).map(CountingDevice)
    }
}

struct CountingDevice(NullDevice);

impl Device for CountingDevice {
    type Blob = <NullDevice as Device>::Blob;
    type Executable = <NullDevice as Device>::Executable;
    type Buffer = <NullDevice as Device>::Buffer;
    type Fence = <NullDevice as Device>::Fence;
    const OFFERS: Offers = NullDevice::OFFERS;

    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        CROSSINGS.fetch_add(1, Ordering::Relaxed);
        self.0.query_support(graph)
    }

    fn estimate_parts(&self, graph: &GraphView<'_>, parts: &[&[u32]]) -> Result<Vec<Cost>> {
        CROSSINGS.fetch_add(1, Ordering::Relaxed);
        ESTIMATED.fetch_add(parts.len(), Ordering::Relaxed);
        self.0.estimate_parts(graph, parts)
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<Self::Blob> {
        self.0.compile(graph, options)
    }

    fn load(&self, source: LoadSource<'_, Self::Blob>) -> Result<Arc<Self::Executable>> {
        self.0.load(source)
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<Self::Buffer>> {
        self.0.buffer_create(wanted)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<Self::Buffer>> {
        self.0.buffer_import(memory)
    }
}

/// A chain of so many nodes.
fn chain(folder: &Path, nodes: usize) -> String {
    let name = |index: usize| format!("t{index}");
    let made = model::Model {
        nodes: (0..nodes)
            .map(|index| {
                let op = ["Neg", "Tanh", "Sigmoid"][index % 3];
                node(op, &format!("n{index}"), &[&name(index)], &[&name(index + 1)])
            })
            .collect(),
        inputs: vec![port("t0", F32, &["4"])],
        outputs: vec![port(&name(nodes), F32, &["4"])],
        ..model::Model::default()
    };
    made.write(folder, &format!("chain{nodes}.onnx"))
}

#[test]
fn planning_calls_do_not_grow_with_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::builder()
        .link(polychip_sdk::plugin_query::<Counting>)
        .configure("null", "script", "[[device]]\n[[device]]\n")
        .only_given_folders()
        .build()
        .unwrap();
    for nodes in [6, 60, 600] {
        let model = runtime.load(chain(folder.path(), nodes)).unwrap();
        CROSSINGS.store(0, Ordering::Relaxed);
        ESTIMATED.store(0, Ordering::Relaxed);
        let planned = runtime
            .plan(&model, &Policy::latency().devices(["null"]))
            .unwrap();
        assert_eq!(planned.graph().node_count(), nodes);
        assert!(planned.plan().certificate.is_optimal());
        let crossings = CROSSINGS.load(Ordering::Relaxed);
        assert_eq!(
            crossings, 4,
            "{nodes} nodes on two devices: support and estimates of each"
        );
        assert_eq!(ESTIMATED.load(Ordering::Relaxed), 2 * nodes);
    }
}
