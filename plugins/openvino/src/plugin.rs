//! The plugin and the devices that the library finds.
//!
//! Invariant: nothing is loaded or probed before `create`; the table query has no side effects.

use std::path::Path;
use std::sync::{Arc, Mutex};

use polychip_sdk::{
    CompileOptions, Device, DeviceInfo, DeviceKind, Error, ErrorKind, GraphView, HostBuffer, HostServices,
    LoadSource, LogLevel, Memory, Offers, Plugin, PluginInfo, Preemption, Result, RunQueue, Runner, Support,
};
use polychip_sys::openvino::Library;

use crate::api::Core;
use crate::caps::SupportCache;
use crate::cores::Cores;
use crate::exec::{OpenvinoExecutable, OpenvinoRun};
use crate::lower::{self, OpenvinoBlob};
use crate::shared::{Shared, Vendor};
use crate::telemetry::Peaks;
use crate::{buffer, caps, model};

/// Part of every cache key. The library's version is in the device's driver, which keys them too, and in the blobs themselves.
const BUILD_ID: &str = polychip_sdk::build_id!("openvino");

/// The plugin.
pub struct OpenvinoPlugin {
    host: HostServices,
    vendor: Arc<Vendor>,
    devices: Vec<String>,
    settings: Settings,
}

/// The host's configuration for every device.
#[derive(Clone)]
struct Settings {
    threads: u32,
    cores: Cores,
    /// Whether quantised parts may be computed in integers; `None` where the chip decides.
    integers: Option<bool>,
}

impl Plugin for OpenvinoPlugin {
    type Device = OpenvinoDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "openvino",
        version: env!("CARGO_PKG_VERSION"),
        build_id: BUILD_ID,
    };

    fn create(host: HostServices) -> Result<Self> {
        let folder = host.configuration("lib_dir");
        let library = Library::open(folder.as_deref().map(Path::new))
            .map_err(|error| Error::new(ErrorKind::Persistent, error.to_string()))?;
        let threads = match host.configuration("threads") {
            None => 0,
            Some(text) => text.trim().parse().map_err(|_| {
                Error::bad_argument(format!("configuration threads is '{text}', not a number"))
            })?,
        };
        let integers = match host.configuration("integers").as_deref().map(str::trim) {
            None => None,
            Some("yes") => Some(true),
            Some("no") => Some(false),
            Some(text) => {
                let what = format!("configuration integers is '{text}', neither yes nor no");
                return Err(Error::bad_argument(what));
            }
        };
        let cores = match host.configuration("cores") {
            None => Cores::default(),
            Some(text) => Cores::read(text.trim())?.tried()?,
        };
        let core = Core::new(library)?;
        let by_address = model::reads_by_address(&core).then_some(model::LARGE);
        let devices = core.devices()?;
        let words = format!("OpenVINO {} of {}", library.version(), library.path().display());
        host.log(LogLevel::Info, &words);
        Ok(OpenvinoPlugin {
            host,
            vendor: Arc::new(Vendor {
                library,
                core,
                by_address,
            }),
            devices,
            settings: Settings {
                threads,
                cores,
                integers,
            },
        })
    }

    fn device_count(&self) -> Result<u32> {
        u32::try_from(self.devices.len())
            .map_err(|_| Error::new(ErrorKind::Persistent, "more devices than can be counted"))
    }

    fn open(&self, index: u32) -> Result<OpenvinoDevice> {
        let name = self
            .devices
            .get(index as usize)
            .ok_or_else(|| Error::bad_argument(format!("device {index} of {}", self.devices.len())))?;
        OpenvinoDevice::open(&self.host, &self.vendor, name, self.settings.clone())
    }
}

const WHY_FLOATS: &str = "the setting integers, or a CPU without VNNI, whose sums of bytes saturate";

/// Whether this CPU sums products of bytes without loss. Without the instructions of VNNI the library multiplies
/// unsigned by signed bytes into pairs of 16 bits that saturate: 2 x 255 x 127 is cut to 32767, and MobileNetV2 in
/// eight bits loses its answer (cosine 0.992 to ONNX Runtime's, 0.9998 in floats).
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn sums_bytes_exactly() -> bool {
    std::arch::is_x86_feature_detected!("avx512vnni") || std::arch::is_x86_feature_detected!("avxvnni")
}

/// Other CPUs sum products of bytes in 32 bits.
#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
fn sums_bytes_exactly() -> bool {
    true
}

/// A device.
pub struct OpenvinoDevice {
    info: DeviceInfo,
    shared: Arc<Shared>,
    host: HostServices,
    answers: Mutex<SupportCache>,
    queue: Arc<RunQueue<OpenvinoRun>>,
    /// Held so that its thread ends with the device.
    _runner: Runner<OpenvinoRun>,
}

impl OpenvinoDevice {
    fn open(host: &HostServices, vendor: &Arc<Vendor>, name: &str, settings: Settings) -> Result<Self> {
        let kind = match name.split('.').next() {
            Some("GPU") => DeviceKind::Gpu,
            Some("NPU") => DeviceKind::Npu,
            _ => DeviceKind::Cpu,
        };
        let is_cpu = kind == DeviceKind::Cpu;
        let chip = vendor
            .core
            .property(name, "FULL_DEVICE_NAME")
            .unwrap_or_else(|| name.to_owned());
        let driver = match vendor.core.property(name, "NPU_DRIVER_VERSION") {
            Some(driver) => format!("OpenVINO {}, driver {driver}", vendor.library.version()),
            None => format!("OpenVINO {}", vendor.library.version()),
        };
        let memory_bytes = vendor
            .core
            .property(name, "GPU_DEVICE_TOTAL_MEM_SIZE")
            .and_then(|bytes| bytes.trim().parse().ok())
            .unwrap_or(0);
        let integers = settings.integers.unwrap_or(!is_cpu || sums_bytes_exactly());
        if !integers {
            let words = format!("OpenVINO's {name} computes quantised parts in floats ({WHY_FLOATS})");
            host.log(LogLevel::Info, &words);
        }
        let arithmetic = if integers { "integers" } else { "floats" };
        let shared = Arc::new(Shared {
            vendor: Arc::clone(vendor),
            name: name.to_owned(),
            is_cpu,
            threads: settings.threads,
            cores: if is_cpu { settings.cores } else { Cores::default() },
            integers,
            made_by: format!("{BUILD_ID} {driver} {name} {chip} {arithmetic}"),
        });
        let wanted = host.rates_wanted()?;
        let peaks = Peaks::of(host, wanted, &shared);
        let info = DeviceInfo {
            // a GPU or NPU gets host memory by a copy of the library's
            shares_host_memory: is_cpu,
            serial: true,
            import_kinds: buffer::KINDS,
            export_kinds: buffer::KINDS,
            vendor: "Intel OpenVINO".to_owned(),
            driver,
            memory_bytes,
            peak_macs_per_s: peaks.macs_per_s,
            peak_bytes_per_s: peaks.bytes_per_s,
            settings: polychip_sdk::settings([
                ("arithmetic", arithmetic.to_owned()),
                ("cores", shared.cores.described(crate::telemetry::cores())),
                ("threads", settings.threads.to_string()),
            ]),
            rates_measured_s: peaks.measured_s,
            // one stream, and calls that wait: its requests take turns, as those of an Intel NPU do in the order of coming
            preemption: Preemption::None,
            queue_depth: 1,
            ..DeviceInfo::new(
                kind,
                if is_cpu {
                    // its time and energy are those of the same cores
                    format!("{} by OpenVINO (same cores as cpu:0)", chip.trim())
                } else {
                    chip.trim().to_owned()
                },
            )
        };
        let queue = Arc::new(RunQueue::new(host.clone()));
        Ok(OpenvinoDevice {
            info,
            shared,
            host: host.clone(),
            answers: Mutex::new(SupportCache::default()),
            _runner: Runner::start(&queue, "polychip-openvino-runs")?,
            queue,
        })
    }
}

impl Device for OpenvinoDevice {
    type Blob = OpenvinoBlob;
    type Executable = OpenvinoExecutable;
    type Buffer = HostBuffer;
    type Fence = OpenvinoRun;
    const OFFERS: Offers = Offers {
        buffer_export: true,
        cancel: true,
        fence_on_signal: true,
        fence_timing: true,
        ..Offers::NONE
    };

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        caps::support(&self.shared, &self.host, &self.answers, graph)
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<OpenvinoBlob> {
        lower::compile(&self.shared, graph, options)
    }

    fn load(&self, source: LoadSource<'_, OpenvinoBlob>) -> Result<Arc<OpenvinoExecutable>> {
        let (part, graph) = lower::load(&self.shared, source)?;
        OpenvinoExecutable::new(&self.shared, &self.queue, part, &graph).map(Arc::new)
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<HostBuffer>> {
        buffer::create(wanted)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<HostBuffer>> {
        buffer::import(memory)
    }
}
