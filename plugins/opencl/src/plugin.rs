//! The plugin and its devices: one per device that the drivers of OpenCL offer.
//!
//! Invariant: nothing is loaded or probed before `create`; the query of the table has no effects.

use std::sync::Arc;

use polychip_gpu_lowering::blob;
use polychip_sdk::{
    AlignedBytes, CompileOptions, Cost, Device, DeviceInfo, DeviceKind, Error, ErrorKind, GraphView,
    HostServices, LoadSource, LogLevel, Memory, Offers, Plugin, PluginInfo, Preemption, Result, RunQueue,
    Runner, Support,
};

use crate::buffer::{self, OpenclBuffer};
use crate::caps::{self, Settings};
use crate::driver::found::{self, Found};
use crate::driver::gpu::LANES;
use crate::driver::open;
use crate::exec::{Lanes, OpenclExecutable, OpenclRun};
use crate::lower;
use crate::shared::Shared;

/// Part of every cache key. The driver is in the device's info, which keys them too, and in the blobs themselves.
const BUILD_ID: &str = polychip_sdk::build_id!("opencl");

/// The plugin.
pub struct OpenclPlugin {
    host: HostServices,
    found: Vec<Found>,
    settings: Settings,
}

fn switch(host: &HostServices, key: &str, usual: bool) -> Result<bool> {
    match host.configuration(key).as_deref().map(str::trim) {
        None => Ok(usual),
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(other) => {
            let what = format!("configuration {key} is '{other}', not on or off");
            Err(Error::bad_argument(what))
        }
    }
}

fn on_or_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

impl Plugin for OpenclPlugin {
    type Device = OpenclDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "opencl",
        version: env!("CARGO_PKG_VERSION"),
        build_id: BUILD_ID,
    };

    fn create(host: HostServices) -> Result<Self> {
        let settings = Settings {
            guard: switch(&host, "guard", true)?,
            tune: switch(&host, "tune", false)?,
        };
        let found = found::find(host.configuration("adapter").as_deref())?;
        for device in &found {
            host.log(LogLevel::Info, &format!("OpenCL: {}", device.identity()));
        }
        Ok(OpenclPlugin {
            host,
            found,
            settings,
        })
    }

    fn device_count(&self) -> Result<u32> {
        u32::try_from(self.found.len())
            .map_err(|_| Error::new(ErrorKind::Persistent, "more devices than can be counted"))
    }

    fn open(&self, index: u32) -> Result<OpenclDevice> {
        let found = self
            .found
            .get(index as usize)
            .ok_or_else(|| Error::bad_argument(format!("device {index} of {}", self.found.len())))?;
        OpenclDevice::open(self, found)
    }
}

/// A device.
pub struct OpenclDevice {
    info: DeviceInfo,
    /// What blobs and programs are made for.
    identity: String,
    found: Found,
    /// Their threads end with the device.
    _runners: Vec<Runner<OpenclRun>>,
    queues: Lanes,
    shared: Arc<Shared>,
}

impl OpenclDevice {
    fn open(plugin: &OpenclPlugin, found: &Found) -> Result<OpenclDevice> {
        let host = &plugin.host;
        let gpu = open::open(found)?;
        let target = caps::target(host, BUILD_ID, found, &gpu, plugin.settings);
        let kinds = buffer::kinds(gpu.shares);
        let info = DeviceInfo {
            emulated: found.software,
            shares_host_memory: gpu.shares,
            serial: true,
            import_kinds: kinds,
            export_kinds: kinds,
            import_alignment: u32::try_from(found.alignment).unwrap_or(4096),
            vendor: found.vendor.clone(),
            driver: found.driver.clone(),
            memory_bytes: if found.software { 0 } else { found.memory_bytes },
            peak_macs_per_s: target.rates.f32_macs,
            peak_bytes_per_s: target.rates.memory_bytes,
            link_bytes_per_s: if target.discrete {
                target.rates.link_bytes
            } else {
                0
            },
            settings: polychip_sdk::settings([
                ("guard", on_or_off(plugin.settings.guard)),
                ("macs_log2", target.rates.setting()),
                ("tune", on_or_off(plugin.settings.tune)),
                ("ticks_per_s", found.ticks_per_s.to_string()),
            ]),
            // priorities of queues are hints (cl_khr_priority_hints)
            preemption: Preemption::Unknown,
            // calls that wait: a run of a queue follows the one before
            queue_depth: 1,
            ..DeviceInfo::new(DeviceKind::Gpu, found.name())
        };
        let queues: Lanes = (0..LANES)
            .map(|lane| Arc::new(RunQueue::of_lane(host.clone(), lane)))
            .collect();
        let runners = queues
            .iter()
            .enumerate()
            .map(|(lane, queue)| Runner::start(queue, &format!("polychip-cl-{lane}")))
            .collect::<Result<Vec<_>>>()?;
        Ok(OpenclDevice {
            info,
            identity: found.identity(),
            found: found.clone(),
            _runners: runners,
            queues,
            shared: Arc::new(Shared::new(target, gpu)),
        })
    }
}

impl Device for OpenclDevice {
    type Blob = AlignedBytes;
    type Executable = OpenclExecutable;
    type Buffer = OpenclBuffer;
    type Fence = OpenclRun;
    const OFFERS: Offers = Offers {
        buffer_export: true,
        cancel: true,
        device_reset: true,
        estimate: true,
        fence_on_signal: true,
        fence_timing: true,
        ..Offers::NONE
    };

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        Ok(polychip_gpu_lowering::supports(graph, &self.shared.target))
    }

    fn estimate_parts(&self, graph: &GraphView<'_>, parts: &[&[u32]]) -> Result<Vec<Cost>> {
        polychip_gpu_lowering::estimate(graph, parts, &self.shared.target, self.info.emulated)
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<AlignedBytes> {
        lower::compile(BUILD_ID, &self.identity, &self.shared, graph, options)
    }

    fn load(&self, source: LoadSource<'_, AlignedBytes>) -> Result<Arc<OpenclExecutable>> {
        let kinds = self.info.import_kinds;
        blob::read(BUILD_ID, &self.identity, kinds, source, |loaded| {
            OpenclExecutable::new(&self.shared, &self.queues, loaded)
        })
        .map(Arc::new)
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<OpenclBuffer>> {
        buffer::create(&self.shared, wanted)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<OpenclBuffer>> {
        buffer::import(&self.shared, memory)
    }

    fn reset(&self) -> Result<()> {
        let shared = &self.shared;
        shared.gpu().lose("the device was reset".to_owned());
        // runs that the driver has end first; those behind them fail
        let turns: Vec<_> = self.queues.iter().map(|queue| queue.acquire_all()).collect();
        shared.reopened(open::open(&self.found)?);
        drop(turns);
        Ok(())
    }
}
