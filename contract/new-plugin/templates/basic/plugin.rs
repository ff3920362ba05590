//! The plugin and its one device.
//!
//! Invariant: the plugin loads and probes nothing before `create`.

use std::sync::Arc;

use polychip_sdk::{
    AlignedBytes, CompileOptions, Cost, Device, DeviceInfo, DeviceKind, Error, GraphView, HostBuffer,
    HostServices, LoadSource, Memory, Offers, Plugin, PluginInfo, Preemption, Result, RunQueue, Runner, Support,
};

use crate::exec::{XyzExecutable, XyzRun};
use crate::{buffer, lower, telemetry};

/// Part of every cache key, derived from the sources. Put the version of the vendor's compiler into
/// blobs and into the device's `driver`.
const BUILD_ID: &str = polychip_sdk::build_id!("xyz");

/// The plugin.
pub struct XyzPlugin {
    host: HostServices,
}

impl Plugin for XyzPlugin {
    type Device = XyzDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "xyz",
        version: env!("CARGO_PKG_VERSION"),
        build_id: BUILD_ID,
    };

    fn create(host: HostServices) -> Result<Self> {
        // open the vendor's library here; if it is missing or too old, return an error that names the
        // file and the required version
        Ok(XyzPlugin { host })
    }

    fn device_count(&self) -> Result<u32> {
        Ok(1)
    }

    fn open(&self, index: u32) -> Result<XyzDevice> {
        if index != 0 {
            return Err(Error::bad_argument(format!("device {index} of 1")));
        }
        let info = DeviceInfo {
            // true until the plugin drives a real chip: its figures are invented
            emulated: true,
            serial: true,
            import_kinds: buffer::KINDS,
            export_kinds: buffer::KINDS,
            import_alignment: 1,
            peak_macs_per_s: telemetry::PEAK_MACS_PER_S,
            peak_bytes_per_s: telemetry::PEAK_BYTES_PER_S,
            // one run at a time, to its end
            preemption: Preemption::None,
            queue_depth: 1,
            ..DeviceInfo::new(DeviceKind::Npu, "xyz")
        };
        let queue = Arc::new(RunQueue::new(self.host.clone()));
        Ok(XyzDevice {
            info,
            runner: Runner::start(&queue, "polychip-xyz-runs")?,
            queue,
        })
    }
}

/// The device.
pub struct XyzDevice {
    info: DeviceInfo,
    queue: Arc<RunQueue<XyzRun>>,
    /// Its thread ends when the device is dropped.
    runner: Runner<XyzRun>,
}

impl Device for XyzDevice {
    type Blob = AlignedBytes;
    type Executable = XyzExecutable;
    type Buffer = HostBuffer;
    type Fence = XyzRun;
    // implement each call that is true here; for all others the host gets null
    const OFFERS: Offers = Offers {
        buffer_export: true,
        cancel: true,
        device_reset: true,
        estimate: true,
        fence_on_signal: true,
        fence_steps: true,
        fence_timing: true,
        ..Offers::NONE
    };

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        Ok(lower::supports(graph))
    }

    fn estimate_parts(&self, graph: &GraphView<'_>, parts: &[&[u32]]) -> Result<Vec<Cost>> {
        lower::estimate(graph, parts)
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<AlignedBytes> {
        lower::compile(BUILD_ID, graph, options)
    }

    fn load(&self, source: LoadSource<'_, AlignedBytes>) -> Result<Arc<XyzExecutable>> {
        let program = lower::load(BUILD_ID, source)?;
        XyzExecutable::new(Arc::clone(&self.queue), program).map(Arc::new)
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<HostBuffer>> {
        buffer::create(wanted)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<HostBuffer>> {
        buffer::import(memory)
    }

    fn reset(&self) -> Result<()> {
        // bring the driver back here: end its session, and open it again
        self.queue.abandon();
        self.runner.keep_serving()
    }
}
