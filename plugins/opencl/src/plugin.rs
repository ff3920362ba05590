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
use crate::driver::discovery::{self, ClDevice};
use crate::driver::gpu::QUEUES;
use crate::driver::open;
use crate::exec::{OpenclExecutable, OpenclRun, RunQueues};
use crate::lower;
use crate::shared::Shared;

/// Part of every cache key. The driver is in the device's info, which keys them too, and in the blobs themselves.
const BUILD_ID: &str = polychip_sdk::build_id!("opencl");

/// The plugin.
pub struct OpenclPlugin {
    host: HostServices,
    cl_devices: Vec<ClDevice>,
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
        let cl_devices = discovery::find(host.configuration("adapter").as_deref())?;
        for device in &cl_devices {
            host.log(LogLevel::Info, &format!("OpenCL: {}", device.identity()));
        }
        Ok(OpenclPlugin {
            host,
            cl_devices,
            settings,
        })
    }

    fn device_count(&self) -> Result<u32> {
        u32::try_from(self.cl_devices.len())
            .map_err(|_| Error::new(ErrorKind::Persistent, "more devices than can be counted"))
    }

    fn open(&self, index: u32) -> Result<OpenclDevice> {
        let cl_device = self
            .cl_devices
            .get(index as usize)
            .ok_or_else(|| Error::bad_argument(format!("device {index} of {}", self.cl_devices.len())))?;
        OpenclDevice::open(self, cl_device)
    }
}

/// A device.
pub struct OpenclDevice {
    info: DeviceInfo,
    /// What blobs and programs are made for.
    identity: String,
    cl_device: ClDevice,
    /// Their threads end with the device.
    _runners: Vec<Runner<OpenclRun>>,
    queues: RunQueues,
    shared: Arc<Shared>,
}

impl OpenclDevice {
    fn open(plugin: &OpenclPlugin, cl_device: &ClDevice) -> Result<OpenclDevice> {
        let host = &plugin.host;
        let gpu = open::open(cl_device)?;
        let target = caps::target(host, BUILD_ID, cl_device, &gpu, plugin.settings);
        let kinds = buffer::kinds(gpu.shares);
        let info = DeviceInfo {
            emulated: cl_device.software,
            shares_host_memory: gpu.shares,
            serial: true,
            import_kinds: kinds,
            export_kinds: kinds,
            import_alignment: u32::try_from(cl_device.alignment).unwrap_or(4096),
            vendor: cl_device.vendor.clone(),
            driver: cl_device.driver.clone(),
            memory_bytes: if cl_device.software {
                0
            } else {
                cl_device.memory_bytes
            },
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
                ("ticks_per_s", cl_device.ticks_per_s.to_string()),
            ]),
            // priorities of queues are hints (cl_khr_priority_hints)
            preemption: Preemption::Unknown,
            // calls that wait: a run of a queue follows the one before
            queue_depth: 1,
            ..DeviceInfo::new(DeviceKind::Gpu, cl_device.name())
        };
        let queues: RunQueues = (0..QUEUES)
            .map(|index| Arc::new(RunQueue::with_index(host.clone(), index)))
            .collect();
        let runners = queues
            .iter()
            .enumerate()
            .map(|(index, queue)| Runner::start(queue, &format!("polychip-cl-{index}")))
            .collect::<Result<Vec<_>>>()?;
        Ok(OpenclDevice {
            info,
            identity: cl_device.identity(),
            cl_device: cl_device.clone(),
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
        let grants: Vec<_> = self.queues.iter().map(|queue| queue.acquire_all()).collect();
        shared.reopened(open::open(&self.cl_device)?);
        drop(grants);
        Ok(())
    }
}
