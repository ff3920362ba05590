//! The plugin and its devices: one per device that the drivers of OpenCL offer.
//!
//! Invariant: nothing is loaded or probed before `create`; the query of the table has no effects.

use std::sync::{Arc, PoisonError, RwLock};

use polychip_gpu_lowering::{Guard, Rates, Target, Tuner, blob};
use polychip_sdk::{
    AlignedBytes, CompileOptions, Cost, Device, DeviceInfo, DeviceKind, Error, ErrorKind, GraphView,
    HostServices, LoadSource, LogLevel, Memory, Offers, Plugin, PluginInfo, Result, RunQueue, Runner,
    Support,
};

use crate::buffer::{self, OpenclBuffer};
use crate::driver::found::{self, Found};
use crate::driver::gpu::{Gpu, LANES};
use crate::driver::program::Program;
use crate::exec::{OpenclExecutable, OpenclRun};

/// Part of every cache key. The driver is in the device's info, which keys them too, and in the blobs themselves.
const BUILD_ID: &str = polychip_sdk::build_id!("opencl");

/// The plugin.
pub struct OpenclPlugin {
    host: HostServices,
    found: Vec<Found>,
    guard: bool,
    tune: bool,
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
        let guard = switch(&host, "guard", true)?;
        let tune = switch(&host, "tune", false)?;
        let found = found::find(host.configuration("adapter").as_deref())?;
        for device in &found {
            host.log(LogLevel::Info, &format!("OpenCL: {}", device.identity()));
        }
        Ok(OpenclPlugin {
            host,
            found,
            guard,
            tune,
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

/// Rates of a device: orders of magnitude, from what the driver tells of its units and clock.
fn rates(found: &Found) -> Rates {
    let (f32_macs, memory_bytes) = if found.software {
        (4_000_000_000, 8_000_000_000)
    } else {
        // Adreno and Mali compute 64 to 128 multiply-adds per unit and tick, and share the memory of their chip
        (
            found.ticks_per_s.saturating_mul(64).max(1_000_000_000),
            30_000_000_000,
        )
    };
    Rates {
        f32_macs,
        f16_macs: f32_macs,
        i8_macs: f32_macs,
        memory_bytes,
        link_bytes: if found.unified {
            memory_bytes
        } else {
            8_000_000_000
        },
        launch_ns: if found.software { 20_000 } else { 10_000 },
        submit_ns: 80_000,
    }
}

/// What the executables, buffers and runs of a device share with it.
pub(crate) struct Shared {
    pub(crate) target: Target,
    gpu: RwLock<Arc<Gpu>>,
    /// Queue of runs of each lane.
    pub(crate) lanes: Vec<Arc<RunQueue<OpenclRun>>>,
}

impl Shared {
    /// The device as it is open now.
    pub(crate) fn gpu(&self) -> Arc<Gpu> {
        Arc::clone(&self.gpu.read().unwrap_or_else(PoisonError::into_inner))
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
    shared: Arc<Shared>,
}

impl OpenclDevice {
    fn open(plugin: &OpenclPlugin, found: &Found) -> Result<OpenclDevice> {
        let host = &plugin.host;
        let identity = found.identity();
        let gpu = Gpu::open(found)?;
        let limits = found.limits;
        let trials = Arc::clone(&gpu);
        let guard = plugin
            .guard
            .then(|| Arc::new(Guard::new(host.clone(), BUILD_ID, &identity, limits, trials)));
        let trials = Arc::clone(&gpu);
        let tuner = plugin
            .tune
            .then(|| Arc::new(Tuner::new(host.clone(), BUILD_ID, &identity, trials)));
        let target = Target {
            limits,
            guard,
            tuner,
            discrete: !found.unified,
            rates: rates(found),
        };
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
            settings: polychip_sdk::settings([
                ("guard", on_or_off(plugin.guard)),
                ("tune", on_or_off(plugin.tune)),
                ("ticks_per_s", found.ticks_per_s.to_string()),
            ]),
            ..DeviceInfo::new(DeviceKind::Gpu, found.name())
        };
        let lanes: Vec<_> = (0..LANES)
            .map(|_| Arc::new(RunQueue::new(host.clone())))
            .collect();
        let runners = lanes
            .iter()
            .enumerate()
            .map(|(lane, queue)| Runner::start(queue, &format!("polychip-cl-{lane}")))
            .collect::<Result<Vec<_>>>()?;
        Ok(OpenclDevice {
            info,
            identity,
            found: found.clone(),
            _runners: runners,
            shared: Arc::new(Shared {
                target,
                gpu: RwLock::new(gpu),
                lanes,
            }),
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

    fn estimate(&self, graph: &GraphView<'_>, nodes: &[u32]) -> Result<Cost> {
        let target = &self.shared.target;
        let lowered = polychip_gpu_lowering::lower_dry(graph, nodes, target)?;
        Ok(polychip_gpu_lowering::cost(&lowered, target, self.info.emulated))
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<AlignedBytes> {
        if let Some(point) = options.operating_point {
            return Err(Error::bad_argument(format!("operating point {point} of 0")));
        }
        let lowered = polychip_gpu_lowering::lower(graph, options, &self.shared.target)?;
        let gpu = self.shared.gpu();
        gpu.alive()?;
        let binaries = lowered
            .program
            .kernels
            .iter()
            .map(|kernel| Ok(Program::get(&gpu, kernel, None)?.binary()))
            .collect::<Result<Vec<_>>>()?;
        let binaries = postcard::to_stdvec(&binaries)
            .map_err(|_| Error::new(ErrorKind::OutOfMemory, "no memory for the blob"))?;
        blob::write(BUILD_ID, &self.identity, graph, &lowered, &binaries)
    }

    fn load(&self, source: LoadSource<'_, AlignedBytes>) -> Result<Arc<OpenclExecutable>> {
        let kinds = self.info.import_kinds;
        blob::read(BUILD_ID, &self.identity, kinds, source, |loaded| {
            OpenclExecutable::new(&self.shared, loaded)
        })
        .map(Arc::new)
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<OpenclBuffer>> {
        OpenclBuffer::create(&self.shared, wanted).map(Arc::new)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<OpenclBuffer>> {
        OpenclBuffer::import(&self.shared, memory).map(Arc::new)
    }

    fn reset(&self) -> Result<()> {
        let shared = &self.shared;
        shared.gpu().lose("the device was reset".to_owned());
        // runs that the driver has end first; those behind them fail
        let turns: Vec<_> = shared.lanes.iter().map(|lane| lane.turn()).collect();
        let new = Gpu::open(&self.found)?;
        if let Some(guard) = &shared.target.guard {
            guard.reopened(Arc::<Gpu>::clone(&new));
        }
        if let Some(tuner) = &shared.target.tuner {
            tuner.reopened(Arc::<Gpu>::clone(&new));
        }
        *shared.gpu.write().unwrap_or_else(PoisonError::into_inner) = new;
        drop(turns);
        Ok(())
    }
}
