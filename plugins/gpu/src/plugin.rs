//! The plugin and its devices: one per GPU that the driver layer finds.
//!
//! Invariant: nothing is loaded or probed before `create`; the query of the table has no effects.

use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use polychip_sdk::{
    AlignedBytes, CompileOptions, Cost, Device, DeviceInfo, DeviceKind, Error, ErrorKind, GraphView,
    HostServices, LoadSource, LogLevel, Memory, MemoryKinds, Offers, Plugin, PluginInfo, RatesWanted, Result,
    Support, Telemetry,
};

use crate::buffer::GpuBuffer;
use crate::driver::adapter::{self, Found};
use crate::driver::gpu::{Commands, Gpu};
use crate::exec::{GpuExecutable, GpuRun, Pool, Runner, Watch};
use crate::telemetry::Sensors;
use crate::{buffer, probe};
use polychip_gpu_lowering::{Guard, Target, Tuner, blob};

/// Part of every cache key. The driver is in the device's info, which keys them too, and in the blobs themselves.
const BUILD_ID: &str = polychip_sdk::build_id!("gpu");

/// The plugin.
pub struct GpuPlugin {
    host: HostServices,
    found: Vec<Found>,
    settings: Settings,
}

/// How long a GPU that was given up is waited for before what it may write to is kept for good.
const RETIRES: Duration = Duration::from_secs(5);
/// The same of one in software, which goes on, and writes to the host's memory in place.
const SLOWLY: Duration = Duration::from_secs(60);

/// After so long without the end of a run a GPU counts as hung, and one in software.
const HUNG: Duration = Duration::from_secs(30);
const SLOW: Duration = Duration::from_secs(600);

/// What the configuration says.
#[derive(Debug, Clone, Copy)]
struct Settings {
    /// After so long without the end of a run the device counts as hung; `None`: as the device is.
    hang: Option<Duration>,
    /// Whether the first use of a kernel's variant is judged.
    guard: bool,
    /// Whether kernels that compute the same are timed when a part is compiled.
    tune: bool,
    /// Whether rates are measured.
    rates: RatesWanted,
    /// Bytes that a kernel may bind of one tensor at most; `None`: as many as the device can.
    binding_bytes: Option<u64>,
    /// Memory kinds that may be imported; `None`: all that the driver imports.
    imports: Option<MemoryKinds>,
    /// How commands come to the GPU.
    commands: Commands,
    /// How long a wait looks again and again before it sleeps, and how long before the expected end it wakes;
    /// `None`: as the device is.
    spin: Option<Duration>,
}

impl Settings {
    /// Those that change how fast parts run, as they come out on a device.
    fn words(&self, limits: &polychip_gpu_kernels::Limits, imports: MemoryKinds) -> String {
        polychip_sdk::settings([
            ("binding_bytes", limits.binding_bytes.to_string()),
            ("commands", format!("{:?}", self.commands).to_lowercase()),
            ("guard", on_or_off(self.guard)),
            ("imports", format!("{:x}", imports.bits())),
            (
                "spin_us",
                self.spin
                    .map_or_else(|| "auto".to_owned(), |spin| spin.as_micros().to_string()),
            ),
            ("tune", on_or_off(self.tune)),
        ])
    }
}

fn on_or_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

fn number(host: &HostServices, key: &str, usual: u64) -> Result<u64> {
    match host.configuration(key) {
        None => Ok(usual),
        Some(text) => text
            .trim()
            .parse()
            .map_err(|_| Error::bad_argument(format!("configuration {key} is '{text}', not a number"))),
    }
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

impl Plugin for GpuPlugin {
    type Device = GpuDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "gpu",
        version: env!("CARGO_PKG_VERSION"),
        build_id: BUILD_ID,
    };

    fn create(host: HostServices) -> Result<Self> {
        let settings = Settings {
            hang: match host.configuration("hang_ms") {
                Some(_) => Some(Duration::from_millis(
                    number(&host, "hang_ms", 0)?.clamp(1, 3_600_000),
                )),
                None => None,
            },
            guard: switch(&host, "guard", true)?,
            tune: switch(&host, "tune", false)?,
            rates: host.rates_wanted()?,
            binding_bytes: match host.configuration("binding_bytes") {
                Some(_) => Some(number(&host, "binding_bytes", 0)?),
                None => None,
            },
            imports: match host.configuration("imports") {
                Some(text) => Some(buffer::named(&text)?),
                None => None,
            },
            commands: if switch(&host, "record", true)? {
                Commands::Recorded
            } else {
                Commands::Encoded
            },
            spin: match host.configuration("spin_us") {
                Some(_) => Some(Duration::from_micros(number(&host, "spin_us", 0)?.min(10_000))),
                None => None,
            },
        };
        let found = adapter::find(host.configuration("adapter").as_deref())?;
        for adapter in &found {
            host.log(LogLevel::Info, &format!("GPU: {}", adapter.identity()));
        }
        Ok(GpuPlugin {
            host,
            found,
            settings,
        })
    }

    fn device_count(&self) -> Result<u32> {
        u32::try_from(self.found.len())
            .map_err(|_| Error::new(ErrorKind::Persistent, "more GPUs than can be counted"))
    }

    fn open(&self, index: u32) -> Result<GpuDevice> {
        let found = self
            .found
            .get(index as usize)
            .ok_or_else(|| Error::bad_argument(format!("device {index} of {}", self.found.len())))?;
        GpuDevice::open(&self.host, found, self.settings)
    }
}

/// What the executables, buffers and runs of a device share with it.
pub(crate) struct Shared {
    pub(crate) host: HostServices,
    found: Found,
    commands: Commands,
    /// What blobs and pipelines are made for.
    pub(crate) identity: String,
    pub(crate) target: Target,
    gpu: RwLock<Arc<Gpu>>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) watch: Arc<Watch>,
    /// How long a wait looks again and again before it sleeps.
    pub(crate) spin: Duration,
    executables: Mutex<Vec<Weak<GpuExecutable>>>,
}

/// Key of the driver's pipelines in the host's store.
fn pipelines_key(identity: &str) -> String {
    format!("pipelines {identity}")
}

impl Shared {
    /// The GPU as it is open now.
    pub(crate) fn gpu(&self) -> Arc<Gpu> {
        Arc::clone(&self.gpu.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How long a GPU that was given up is waited for.
    fn patience(&self) -> Duration {
        if self.found.software() { SLOWLY } else { RETIRES }
    }

    /// Keeps the driver's pipelines for the next process.
    pub(crate) fn keep_pipelines(&self, gpu: &Gpu) {
        if let Some(bytes) = gpu.pipelines.bytes() {
            // a host without a store makes them again next time
            let _ = self.host.store_write(&pipelines_key(&self.identity), &bytes);
        }
    }

    /// Lets go of what names a buffer that is destroyed.
    pub(crate) fn forget(&self, buffer: u64) {
        let alive: Vec<Arc<GpuExecutable>> = {
            let mut list = self.executables.lock().unwrap_or_else(PoisonError::into_inner);
            list.retain(|known| known.strong_count() > 0);
            list.iter().filter_map(Weak::upgrade).collect()
        };
        // the last hold of a part may be one of these, and its own buffers come here again
        for executable in &alive {
            executable.forget(buffer);
        }
    }
}

/// A device.
pub struct GpuDevice {
    info: DeviceInfo,
    shared: Arc<Shared>,
    sensors: Sensors,
    /// Its thread ends with the device.
    runner: Option<Runner>,
}

impl GpuDevice {
    fn open(host: &HostServices, found: &Found, settings: Settings) -> Result<GpuDevice> {
        let identity = found.identity();
        let cache = host.store_read(&pipelines_key(&identity)).unwrap_or(None);
        let gpu = Gpu::open(found, cache.as_deref(), settings.commands)?;
        let imports = gpu.import_alignment();
        let mut limits = found.limits();
        limits.binding_bytes = limits
            .binding_bytes
            .min(settings.binding_bytes.unwrap_or(u64::MAX));
        let guard = Guard::new(host.clone(), BUILD_ID, &identity, limits, gpu.clone());
        let tuner = Tuner::new(host.clone(), BUILD_ID, &identity, gpu.clone());
        let (rates, rates_measured_s) = probe::rates(host, settings.rates, BUILD_ID, found, &gpu, &limits);
        let target = Target {
            limits,
            guard: settings.guard.then(|| Arc::new(guard)),
            tuner: settings.tune.then(|| Arc::new(tuner)),
            discrete: found.discrete(),
            rates,
        };
        let import_kinds = buffer::kinds(&gpu, settings.imports);
        let info = DeviceInfo {
            emulated: found.software(),
            shares_host_memory: import_kinds != MemoryKinds::default() && !found.discrete(),
            serial: true,
            import_kinds,
            export_kinds: if imports.is_some() {
                buffer::EXPORTS
            } else {
                MemoryKinds::default()
            },
            import_alignment: imports.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(1),
            vendor: found.vendor(),
            driver: found.driver(),
            memory_bytes: if found.software() { 0 } else { gpu.local_bytes() },
            peak_macs_per_s: target.rates.f32_macs,
            peak_bytes_per_s: target.rates.memory_bytes,
            settings: settings.words(&limits, import_kinds),
            rates_measured_s,
            ..DeviceInfo::new(DeviceKind::Gpu, found.name())
        };
        let pool = Arc::new(Pool::default());
        // software is slow, and slower on a busy machine, but does not hang
        let usual = if found.software() { SLOW } else { HUNG };
        let watch = Arc::new(Watch::new(settings.hang.unwrap_or(usual)));
        let runner = Runner::start(&watch, &pool)?;
        Ok(GpuDevice {
            info,
            shared: Arc::new(Shared {
                host: host.clone(),
                found: found.clone(),
                commands: settings.commands,
                identity,
                target,
                gpu: RwLock::new(gpu),
                pool,
                watch,
                // a software GPU needs the processor that would spin
                spin: settings
                    .spin
                    .unwrap_or(Duration::from_micros(if found.software() { 0 } else { 60 })),
                executables: Mutex::default(),
            }),
            sensors: Sensors::find(found),
            runner: Some(runner),
        })
    }
}

impl Drop for GpuDevice {
    fn drop(&mut self) {
        self.shared.watch.drain(&self.shared.pool);
        self.runner = None;
        self.shared.gpu().retire(self.shared.patience());
    }
}

impl Device for GpuDevice {
    type Blob = AlignedBytes;
    type Executable = GpuExecutable;
    type Buffer = GpuBuffer;
    type Fence = GpuRun;
    const OFFERS: Offers = Offers {
        buffer_export: true,
        cancel: true,
        device_reset: true,
        estimate: true,
        fence_on_signal: true,
        fence_timing: true,
        telemetry: true,
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
        blob::write(BUILD_ID, &self.shared.identity, graph, &lowered, &[])
    }

    fn load(&self, source: LoadSource<'_, AlignedBytes>) -> Result<Arc<GpuExecutable>> {
        let shared = &self.shared;
        let kinds = self.info.import_kinds;
        let executable = blob::read(BUILD_ID, &shared.identity, kinds, source, |loaded| {
            GpuExecutable::new(shared, loaded)
        })?;
        let executable = Arc::new(executable);
        let mut list = shared.executables.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|known| known.strong_count() > 0);
        list.push(Arc::downgrade(&executable));
        Ok(executable)
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<GpuBuffer>> {
        GpuBuffer::create(&self.shared, wanted).map(Arc::new)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<GpuBuffer>> {
        GpuBuffer::import(&self.shared, memory).map(Arc::new)
    }

    fn telemetry(&self) -> Result<Telemetry> {
        Ok(self.sensors.read(self.shared.host.now_ns()))
    }

    fn reset(&self) -> Result<()> {
        let shared = &self.shared;
        let old = shared.gpu();
        old.lose("the device was reset".to_owned());
        shared.watch.drain(&shared.pool);
        let cache = shared
            .host
            .store_read(&pipelines_key(&shared.identity))
            .unwrap_or(None);
        let new = Gpu::open(&shared.found, cache.as_deref(), shared.commands)?;
        if let Some(guard) = &shared.target.guard {
            guard.reopened(new.clone());
        }
        if let Some(tuner) = &shared.target.tuner {
            tuner.reopened(new.clone());
        }
        *shared.gpu.write().unwrap_or_else(PoisonError::into_inner) = new;
        old.retire(shared.patience());
        Ok(())
    }
}
