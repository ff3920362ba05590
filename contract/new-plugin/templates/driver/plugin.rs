//! The plugin and its devices, one for each chip of the driver.
//!
//! Invariant: the plugin loads and probes nothing before `create`.

use std::sync::Arc;

use polychip_sdk::{
    AlignedBytes, CompileOptions, Cost, Device, DeviceInfo, DeviceKind, GraphView, HostServices, LoadSource, Memory,
    Offers, Plugin, PluginInfo, Preemption, Result, RunQueue, Runner, Support, Telemetry,
};

use crate::buffer::{self, XyzBuffer};
use crate::driver::Driver;
use crate::exec::{XyzExecutable, XyzRun};
use crate::shared::{Settings, Shared};
use crate::{lower, telemetry};

/// Part of every cache key, derived from the sources.
const BUILD_ID: &str = polychip_sdk::build_id!("xyz");

/// The plugin.
pub struct XyzPlugin {
    host: HostServices,
    driver: Driver,
    settings: Settings,
}

impl Plugin for XyzPlugin {
    type Device = XyzDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "xyz",
        version: env!("CARGO_PKG_VERSION"),
        build_id: BUILD_ID,
    };

    fn create(host: HostServices) -> Result<Self> {
        let settings = Settings::of(&host)?;
        let driver = Driver::open(settings.lib_dir.as_deref())?;
        Ok(XyzPlugin { host, driver, settings })
    }

    fn device_count(&self) -> Result<u32> {
        // 0 on a machine with the driver and without a chip
        self.driver.device_count()
    }

    fn open(&self, index: u32) -> Result<XyzDevice> {
        let shared = Shared::open(self.host.clone(), self.driver, &self.settings, index, BUILD_ID)?;
        let chip = &shared.info;
        let info = DeviceInfo {
            emulated: chip.is_simulated,
            shares_host_memory: shared.shares_memory,
            serial: true,
            import_kinds: buffer::imports(&shared),
            import_alignment: chip.import_alignment,
            vendor: "the vendor of xyz".to_owned(),
            driver: format!("{}, firmware {}", self.driver.version(), chip.firmware),
            memory_bytes: chip.memory_bytes,
            peak_macs_per_s: chip.macs_per_s,
            peak_bytes_per_s: chip.bytes_per_s,
            // every setting that changes the speed or the blobs
            settings: polychip_sdk::settings([(
                "memory",
                if shared.shares_memory { "shared" } else { "device" }.to_owned(),
            )]),
            // one run at a time, to its end
            preemption: Preemption::None,
            queue_depth: 1,
            ..DeviceInfo::new(DeviceKind::Npu, chip.name.clone())
        };
        let queue = Arc::new(RunQueue::new(self.host.clone()));
        Ok(XyzDevice {
            info,
            runner: Runner::start(&queue, "polychip-xyz-runs")?,
            queue,
            shared: Arc::new(shared),
        })
    }
}

/// A device.
pub struct XyzDevice {
    info: DeviceInfo,
    queue: Arc<RunQueue<XyzRun>>,
    /// Its thread ends when the device is dropped.
    runner: Runner<XyzRun>,
    shared: Arc<Shared>,
}

impl Device for XyzDevice {
    type Blob = AlignedBytes;
    type Executable = XyzExecutable;
    type Buffer = XyzBuffer;
    type Fence = XyzRun;
    // implement each call that is true here; for all others the host gets null
    const OFFERS: Offers = Offers {
        cancel: true,
        device_reset: true,
        estimate: true,
        fence_on_signal: true,
        fence_steps: true,
        fence_timing: true,
        telemetry: true,
        ..Offers::NONE
    };

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        lower::supports(&self.shared, graph)
    }

    fn estimate_parts(&self, graph: &GraphView<'_>, parts: &[&[u32]]) -> Result<Vec<Cost>> {
        lower::estimate(&self.shared, graph, parts)
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<AlignedBytes> {
        lower::compile(&self.shared, graph, options)
    }

    fn load(&self, source: LoadSource<'_, AlignedBytes>) -> Result<Arc<XyzExecutable>> {
        lower::load(&self.shared, source, |layout, program| {
            XyzExecutable::new(&self.shared, &self.queue, layout, program).map(Arc::new)
        })
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<XyzBuffer>> {
        buffer::create(&self.shared, wanted)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<XyzBuffer>> {
        buffer::import(&self.shared, memory)
    }

    fn reset(&self) -> Result<()> {
        self.queue.abandon();
        self.shared.reopen()?;
        self.runner.keep_serving()
    }

    fn telemetry(&self) -> Result<Telemetry> {
        telemetry::read(&self.shared)
    }
}
