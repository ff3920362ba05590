//! The plugin and its devices: one per GPU that the driver layer finds.
//!
//! Invariant: the plugin loads and probes nothing before `create`.

use std::sync::Arc;
use std::time::Duration;

use polychip_sdk::{
    AlignedBytes, CompileOptions, Cost, Device, DeviceInfo, DeviceKind, Error, ErrorKind, GraphView,
    HostServices, LoadSource, LogLevel, Memory, MemoryKinds, Offers, Plugin, PluginInfo, Preemption, Result,
    Support, Telemetry,
};

use crate::buffer::GpuBuffer;
use crate::driver::adapter::{self, GpuAdapter};
use crate::driver::gpu::Commands;
use crate::exec::runner::Runner;
use crate::exec::{GpuExecutable, GpuRun, Runs};
use crate::shared::{self, Shared};
use crate::telemetry::Sensors;
use crate::{buffer, caps, lower};
use polychip_gpu_lowering::{Target, blob};

/// Part of every cache key. The driver is in the device's info, which keys them too, and in the blobs themselves.
const BUILD_ID: &str = polychip_sdk::build_id!("gpu");

/// The plugin.
pub struct GpuPlugin {
    host: HostServices,
    found: Vec<GpuAdapter>,
    settings: Settings,
}

/// After so long without the end of a run a GPU counts as hung, and one in software.
const HUNG: Duration = Duration::from_secs(30);
const SLOW: Duration = Duration::from_secs(600);

/// What the configuration says.
#[derive(Debug, Clone, Copy)]
struct Settings {
    /// After so long without the end of a run the device counts as hung; `None`: as the device is.
    hang: Option<Duration>,
    lowering: caps::Settings,
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
    fn description(&self, target: &Target, imports: MemoryKinds) -> String {
        polychip_sdk::settings([
            ("binding_bytes", target.limits.binding_bytes.to_string()),
            ("commands", format!("{:?}", self.commands).to_lowercase()),
            ("carry", on_or_off(target.discrete)),
            ("guard", on_or_off(self.lowering.guard)),
            ("imports", format!("{:x}", imports.bits())),
            ("macs_log2", target.rates.setting()),
            (
                "spin_us",
                self.spin
                    .map_or_else(|| "auto".to_owned(), |spin| spin.as_micros().to_string()),
            ),
            ("tune", on_or_off(self.lowering.tune)),
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
            lowering: caps::Settings {
                guard: switch(&host, "guard", true)?,
                tune: switch(&host, "tune", false)?,
                rates: host.rates_wanted()?,
                binding_bytes: match host.configuration("binding_bytes") {
                    Some(_) => Some(number(&host, "binding_bytes", 0)?),
                    None => None,
                },
                carry: match host.configuration("carry") {
                    Some(_) => Some(switch(&host, "carry", false)?),
                    None => None,
                },
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

/// A device.
pub struct GpuDevice {
    info: DeviceInfo,
    shared: Arc<Shared>,
    runs: Arc<Runs>,
    sensors: Sensors,
    /// Its thread ends with the device.
    runner: Option<Runner>,
}

impl GpuDevice {
    fn open(host: &HostServices, found: &GpuAdapter, settings: Settings) -> Result<GpuDevice> {
        let identity = found.identity();
        let gpu = shared::open(host, found, &identity, settings.commands)?;
        let imports = gpu.import_alignment();
        let (target, rates_measured_s) = caps::target(host, BUILD_ID, found, &gpu, settings.lowering);
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
            settings: settings.description(&target, import_kinds),
            rates_measured_s,
            link_bytes_per_s: if found.discrete() {
                target.rates.link_bytes
            } else {
                0
            },
            // with two queues an urgent run comes between two submissions of a part, after how long the driver decides
            preemption: match gpu.command_queues.len() {
                1 => Preemption::None,
                _ => Preemption::Commands { bound_ns: None },
            },
            // while one computes, the next is launched; a software GPU computes on the processor that would launch it
            queue_depth: if found.software() { 1 } else { 2 },
            ..DeviceInfo::new(DeviceKind::Gpu, found.name())
        };
        // software is slow, and slower on a busy machine, but does not hang
        let usual = if found.software() { SLOW } else { HUNG };
        let runs = Arc::new(Runs::new(settings.hang.unwrap_or(usual)));
        // a software GPU needs the processor that would spin
        let spin = Duration::from_micros(if found.software() { 0 } else { 60 });
        let spin = settings.spin.unwrap_or(spin);
        Ok(GpuDevice {
            info,
            shared: Arc::new(Shared::new(host, found, settings.commands, target, gpu, spin)),
            sensors: Sensors::find(found),
            runner: Some(Runner::start(&runs)?),
            runs,
        })
    }
}

impl Drop for GpuDevice {
    fn drop(&mut self) {
        self.runs.drain();
        self.runner = None;
        self.shared.retire(self.shared.gpu());
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

    fn estimate_parts(&self, graph: &GraphView<'_>, parts: &[&[u32]]) -> Result<Vec<Cost>> {
        polychip_gpu_lowering::estimate(graph, parts, &self.shared.target, self.info.emulated)
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<AlignedBytes> {
        lower::compile(BUILD_ID, &self.shared, graph, options)
    }

    fn load(&self, source: LoadSource<'_, AlignedBytes>) -> Result<Arc<GpuExecutable>> {
        let shared = &self.shared;
        let kinds = self.info.import_kinds;
        let executable = blob::read(BUILD_ID, &shared.identity, kinds, source, |loaded| {
            GpuExecutable::new(shared, &self.runs, loaded)
        })?;
        shared.tell(executable.names());
        Ok(Arc::new(executable))
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<GpuBuffer>> {
        buffer::create(&self.shared, wanted)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<GpuBuffer>> {
        buffer::import(&self.shared, memory)
    }

    fn telemetry(&self) -> Result<Telemetry> {
        Ok(self.sensors.read(self.shared.host.now_ns()))
    }

    fn reset(&self) -> Result<()> {
        let shared = &self.shared;
        let old = shared.gpu();
        old.lose("the device was reset".to_owned());
        self.runs.drain();
        shared.reopen(old)
    }
}
