//! The plugin and its devices: the Neural Engine and the GPU, if the system has them.
//!
//! Invariants:
//! 1. Nothing is loaded or probed before `create`; the table query has no side effects.
//! 2. On systems other than Apple's the library is an emulation: its figures are not reported.
//! 3. A reset invalidates loaded parts. A run that hangs in Core ML is left behind with its thread
//!    and its model.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use polychip_sdk::{
    CompileOptions, Cost, Device, DeviceInfo, DeviceKind, Error, GraphView, HostBuffer, HostServices,
    LoadSource, LogLevel, Memory, Offers, Plugin, PluginInfo, Preemption, Result, RunQueue, Runner, Support,
};
use polychip_sys::coreml::{Found, Library, Units};

use crate::buffer;
use crate::caps::Nodes;
use crate::exec::{CoremlExecutable, CoremlRun};
use crate::lower::{self, CoremlBlob, Target};
use crate::prepare::Shared;
use crate::telemetry::Chip;

/// Part of every cache key, beside the system's own version.
const BUILD_ID: &str = polychip_sdk::build_id!("coreml");

/// Core ML is Apple's own nowhere else.
const EMULATED: bool = cfg!(not(target_vendor = "apple"));

/// The plugin.
pub struct CoremlPlugin {
    host: HostServices,
    library: &'static Library,
    found: Vec<Found>,
    chip: String,
    reduced: bool,
}

impl Plugin for CoremlPlugin {
    type Device = CoremlDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "coreml",
        version: env!("CARGO_PKG_VERSION"),
        build_id: BUILD_ID,
    };

    fn create(host: HostServices) -> Result<Self> {
        let reduced = match host.configuration("precision").as_deref().map(str::trim) {
            None | Some("exact") => false,
            Some("reduced") => true,
            Some(other) => {
                let words = format!("configuration precision is '{other}', neither exact nor reduced");
                return Err(Error::bad_argument(words));
            }
        };
        let folder = host.configuration("lib_dir");
        let library = Library::open(folder.as_deref().map(Path::new))
            .map_err(|error| Error::new(polychip_sdk::ErrorKind::Persistent, error.to_string()))?;
        let named = ["machdep.cpu.brand_string", "hw.machine"];
        let chip = named
            .iter()
            .find_map(|name| library.setting(name))
            .unwrap_or_default();
        let found = library.units();
        let words = format!(
            "Core ML of {} on {chip}: {} units",
            library.path().display(),
            found.len()
        );
        host.log(LogLevel::Info, &words);
        Ok(CoremlPlugin {
            host,
            library,
            found,
            chip,
            reduced,
        })
    }

    fn device_count(&self) -> Result<u32> {
        Ok(self.found.len() as u32)
    }

    fn open(&self, index: u32) -> Result<CoremlDevice> {
        let none = || Error::bad_argument(format!("device {index} of {}", self.found.len()));
        let found = *self.found.get(index as usize).ok_or_else(none)?;
        CoremlDevice::new(self, found)
    }
}

/// A device.
pub struct CoremlDevice {
    info: DeviceInfo,
    /// Declared first, so that its thread ends before the rest is dropped.
    runner: Runner<CoremlRun>,
    queue: Arc<RunQueue<CoremlRun>>,
    shared: Arc<Shared>,
    chip: Chip,
    /// Counts resets: parts of an earlier count are void.
    resets: Arc<AtomicU64>,
}

impl CoremlDevice {
    fn new(plugin: &CoremlPlugin, found: Found) -> Result<CoremlDevice> {
        let ane = found.units == Units::Ane;
        let chip = Chip::named(&plugin.chip);
        let driver = plugin.library.system();
        let unit = match (found.units, found.cores) {
            (Units::Gpu, _) => "GPU".to_owned(),
            (Units::Ane, 0) => "Neural Engine".to_owned(),
            (Units::Ane, cores) => format!("Neural Engine of {cores} cores"),
        };
        let emulated = if EMULATED { ", emulated" } else { "" };
        let kind = if ane { DeviceKind::Npu } else { DeviceKind::Gpu };
        let precision = if plugin.reduced { "reduced" } else { "exact" };
        let info = DeviceInfo {
            emulated: EMULATED,
            // all units of Apple's chips are on one memory, and Core ML takes arrays where they lie
            shares_host_memory: true,
            serial: true,
            import_kinds: buffer::KINDS,
            export_kinds: buffer::KINDS,
            vendor: "Apple".to_owned(),
            soc: plugin.chip.clone(),
            driver: driver.clone(),
            peak_macs_per_s: chip.macs_per_s(ane),
            peak_bytes_per_s: chip.bytes_per_s(),
            settings: polychip_sdk::settings([("precision", precision.to_owned()), ("unit", unit.clone())]),
            // a Neural Engine runs whole models in the order of coming, and runs take turns here
            preemption: Preemption::None,
            queue_depth: 1,
            ..DeviceInfo::new(
                kind,
                format!("{} {unit}{emulated}", plugin.chip).trim().to_owned(),
            )
        };
        let shared = Shared {
            library: plugin.library,
            host: plugin.host.clone(),
            units: found.units,
            target: Target {
                ane,
                reduced: plugin.reduced,
            },
            made_by: format!("{BUILD_ID} {driver} {} {unit}", plugin.chip),
        };
        let queue = Arc::new(RunQueue::new(plugin.host.clone()));
        Ok(CoremlDevice {
            info,
            runner: Runner::start(&queue, "polychip-coreml-runs")?,
            queue,
            shared: Arc::new(shared),
            chip,
            resets: Arc::new(AtomicU64::new(0)),
        })
    }
}

impl Device for CoremlDevice {
    type Blob = CoremlBlob;
    type Executable = CoremlExecutable;
    type Buffer = HostBuffer;
    type Fence = CoremlRun;
    const OFFERS: Offers = Offers {
        estimate: true,
        buffer_export: true,
        cancel: true,
        device_reset: true,
        fence_on_signal: true,
        fence_timing: !EMULATED,
        ..Offers::NONE
    };

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        let part = lower::read(graph);
        Ok(Nodes::of(&part, graph.node_count(), self.shared.target).support())
    }

    /// A roofline over the operations that the nodes become.
    fn estimate_parts(&self, graph: &GraphView<'_>, parts: &[&[u32]]) -> Result<Vec<Cost>> {
        let part = lower::read(graph);
        let mut nodes = Nodes::of(&part, graph.node_count(), self.shared.target);
        let ane = self.shared.target.ane;
        let mut costs = Vec::with_capacity(parts.len());
        for &part in parts {
            let mut time = 0u64;
            for &node in part {
                match nodes.program(node as usize) {
                    Ok(program) => time = time.saturating_add(self.chip.time_ns(ane, program.work())),
                    Err(_) => time = u64::MAX,
                }
            }
            costs.push(Cost {
                time_ns: (time != u64::MAX).then_some(time),
                emulated: EMULATED,
                ..Cost::default()
            });
        }
        Ok(costs)
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<CoremlBlob> {
        lower::compile(&self.shared, graph, options)
    }

    fn load(&self, source: LoadSource<'_, CoremlBlob>) -> Result<Arc<CoremlExecutable>> {
        let (stored, ready) = lower::load(&self.shared, source)?;
        CoremlExecutable::new(&self.shared, &self.queue, stored, ready, &self.resets).map(Arc::new)
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<HostBuffer>> {
        buffer::create(wanted)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<HostBuffer>> {
        buffer::import(memory)
    }

    fn reset(&self) -> Result<()> {
        self.resets.fetch_add(1, Ordering::AcqRel);
        self.queue.abandon();
        self.runner.keep_serving()
    }
}
