//! The plugin and its one device: the NPU that the library drives.
//!
//! Invariants:
//! 1. Nothing is loaded or probed before `create`; the table query has no side effects.
//! 2. A library that declares that it emulates, or that is built for x86, drives no chip: its figures are not reported.
//! 3. A reset ends all runs and voids loaded parts. A run that hangs in the library is left behind with its thread and its
//!    part: nothing can end it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use polychip_sdk::{
    AlignedBytes, BlobReader, BlobWriter, CompileOptions, Device, DeviceInfo, DeviceKind, Error, ErrorKind,
    GraphView, HostServices, LoadSource, LogLevel, Memory, Offers, OperatingPoint, Plugin, PluginInfo, Port,
    Precision, Preemption, Result, RunQueue, Runner, Support,
};
use polychip_sys::neuron::Library;
use polychip_sys::neuron::bindings as sys;

use crate::api::{Api, Settings};
use crate::buffer::{self, NeuronBuffer};
use crate::caps::SupportCache;
use crate::exec::{NeuronExecutable, NeuronRun};
use crate::lower;
use crate::shared::{NO_BOOST, Shared};
use crate::soc::{SOCS, Soc};
use crate::telemetry;

/// Part of every cache key, beside the library's version and settings.
const BUILD_ID: &str = polychip_sdk::build_id!("neuron");

const NETWORK: u32 = 1;
const CONTENT: u32 = 2;
const PORTS: u32 = 3;

/// Description of a part's ports, for a host without fingerprints.
fn told(ports: &[Port]) -> [u8; 32] {
    *blake3::hash(format!("{ports:?}").as_bytes()).as_bytes()
}

/// The plugin.
pub struct NeuronPlugin {
    host: HostServices,
    api: Api,
    version: String,
    soc: Soc,
    reduced: bool,
}

/// A setting of the host's that is one of some words.
fn word(host: &HostServices, key: &str, words: &[(&str, u32)], default: u32) -> Result<u32> {
    let Some(text) = host.configuration(key) else {
        return Ok(default);
    };
    let known = words.iter().find(|(word, _)| *word == text.trim());
    known.map(|(_, code)| *code).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Error::bad_argument(format!("{key} {text:?} is not one of {}", words.join(", ")))
    })
}

impl Plugin for NeuronPlugin {
    type Device = NeuronDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "neuron",
        version: env!("CARGO_PKG_VERSION"),
        build_id: BUILD_ID,
    };

    fn create(host: HostServices) -> Result<Self> {
        let soc = match host.configuration("soc") {
            Some(text) => Soc::find(&text).map_err(Error::bad_argument)?,
            None => SOCS[0],
        };
        let reduced = word(&host, "precision", &[("exact", 0), ("reduced", 1)], 0)? == 1;
        let preferences = [
            ("low-power", sys::NEURON_PREFER_LOW_POWER),
            ("single", sys::NEURON_PREFER_FAST_SINGLE_ANSWER),
            ("sustained", sys::NEURON_PREFER_SUSTAINED_SPEED),
            ("turbo", sys::NEURON_PREFER_TURBO_BOOST),
        ];
        let priorities = [
            ("low", sys::NEURON_PRIORITY_LOW),
            ("medium", sys::NEURON_PRIORITY_MEDIUM),
            ("high", sys::NEURON_PRIORITY_HIGH),
        ];
        let hints = [
            ("normal", sys::NEURON_OPTIMIZATION_NORMAL),
            ("latency", sys::NEURON_OPTIMIZATION_LOW_LATENCY),
            ("deep-fusion", sys::NEURON_OPTIMIZATION_DEEP_FUSION),
            ("batch", sys::NEURON_OPTIMIZATION_BATCH_PROCESSING),
        ];
        let settings = Settings {
            preference: word(
                &host,
                "preference",
                &preferences,
                sys::NEURON_PREFER_SUSTAINED_SPEED,
            )?,
            priority: word(&host, "priority", &priorities, sys::NEURON_PRIORITY_HIGH)?,
            hint: word(&host, "hint", &hints, sys::NEURON_OPTIMIZATION_NORMAL)?,
            options: host.configuration("options").unwrap_or_default(),
        };
        let folder = host.configuration("lib_dir");
        let library = Library::open(folder.as_deref().map(Path::new))
            .map_err(|error| Error::new(ErrorKind::Persistent, error.to_string()))?;
        let version = format!("NeuronAdapter {}", library.version());
        host.log(
            LogLevel::Info,
            &format!("{version} of {}", library.path().display()),
        );
        Ok(NeuronPlugin {
            host,
            api: Api::new(library, settings),
            version,
            soc,
            reduced,
        })
    }

    fn device_count(&self) -> Result<u32> {
        Ok(1)
    }

    fn open(&self, index: u32) -> Result<NeuronDevice> {
        match index {
            0 => NeuronDevice::new(self),
            _ => Err(Error::bad_argument(format!("device {index} of 1"))),
        }
    }
}

/// The device.
pub struct NeuronDevice {
    info: DeviceInfo,
    /// Declared first, so that its thread ends before the rest is dropped.
    runner: Runner<NeuronRun>,
    queue: Arc<RunQueue<NeuronRun>>,
    shared: Arc<Shared>,
    answers: SupportCache,
    reduced: bool,
    made_by: String,
    points: Vec<OperatingPoint>,
}

impl NeuronDevice {
    fn new(plugin: &NeuronPlugin) -> Result<NeuronDevice> {
        let Soc { name, trade, .. } = plugin.soc;
        let settings = plugin.api.settings();
        let precision = if plugin.reduced { "reduced" } else { "exact" };
        let said = polychip_sdk::settings([
            ("hint", settings.hint.to_string()),
            ("options", settings.options.clone()),
            ("precision", precision.to_owned()),
            ("preference", settings.preference.to_string()),
            ("priority", settings.priority.to_string()),
            ("soc", name.to_owned()),
        ]);
        let made_by = format!("{BUILD_ID} {} {said}", plugin.version);
        let emulated = plugin.api.is_emulated();
        let title = if emulated {
            format!("{trade} NPU, emulated")
        } else {
            format!("{trade} NPU")
        };
        let shared = Arc::new(Shared {
            api: plugin.api.clone(),
            epoch: AtomicU64::new(0),
            boost: AtomicU8::new(NO_BOOST),
        });
        let queue = Arc::new(RunQueue::new(plugin.host.clone()));
        Ok(NeuronDevice {
            info: DeviceInfo {
                emulated,
                // an emulator computes in place; a chip reaches what its driver maps
                shares_host_memory: emulated,
                serial: true,
                import_kinds: buffer::imports(emulated),
                export_kinds: polychip_sdk::HostBuffer::KINDS,
                import_alignment: 1,
                vendor: "MediaTek".to_owned(),
                soc: name.to_owned(),
                driver: plugin.version.clone(),
                peak_macs_per_s: plugin.soc.macs_per_s,
                peak_bytes_per_s: plugin.soc.bytes_per_s,
                settings: said,
                // a priority belongs to a compilation; all of ours are equal, and runs execute one at a time
                preemption: Preemption::None,
                queue_depth: 1,
                ..DeviceInfo::new(DeviceKind::Npu, title)
            },
            runner: Runner::start(&queue, "polychip-neuron-runs")?,
            queue,
            answers: SupportCache::new(Arc::clone(&shared), plugin.host.clone(), &made_by, plugin.reduced),
            points: telemetry::operating_points(plugin.api.boosts()),
            shared,
            reduced: plugin.reduced,
            made_by,
        })
    }
}

impl Device for NeuronDevice {
    type Blob = AlignedBytes;
    type Executable = NeuronExecutable;
    type Buffer = NeuronBuffer;
    type Fence = NeuronRun;
    const OFFERS: Offers = Offers {
        operating_points: true,
        set_operating_point: true,
        buffer_export: true,
        cancel: true,
        device_reset: true,
        fence_on_signal: true,
        fence_timing: true,
        ..Offers::NONE
    };

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn operating_points(&self) -> &[OperatingPoint] {
        &self.points
    }

    fn set_operating_point(&self, index: u32) -> Result<()> {
        let boost = telemetry::boost(&self.points, index)?;
        self.shared.boost.store(boost, Ordering::Release);
        Ok(())
    }

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        Ok(self.answers.support(&lower::read(graph), graph.nodes().count()))
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<AlignedBytes> {
        if let Some(point) = options.operating_point {
            telemetry::boost(&self.points, point)?;
        }
        let relaxed = self.reduced || options.precision == Precision::Reduced;
        let program = lower::whole(&lower::read(graph), relaxed)?;
        let network = self.shared.api.compile(&program)?;
        let ports = Port::of_graph(graph, buffer::PORTS)?;
        BlobWriter::new(&self.made_by)
            .section(CONTENT, &graph.content_fingerprint())
            .section(PORTS, &told(&ports))
            .section(NETWORK, &network)
            .finish()
    }

    fn load(&self, source: LoadSource<'_, AlignedBytes>) -> Result<Arc<NeuronExecutable>> {
        let (graph, bytes) = source.with_part()?;
        let blob = BlobReader::open(bytes, &self.made_by)?;
        let ports = Port::of_graph(graph, buffer::PORTS)?;
        if blob.section(CONTENT)? != graph.content_fingerprint() || blob.section(PORTS)? != told(&ports) {
            return Err(Error::bad_blob("the blob was made of another part"));
        }
        let loaded = NeuronExecutable::new(&self.shared, &self.queue, ports, blob.section(NETWORK)?)?;
        Ok(Arc::new(loaded))
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<NeuronBuffer>> {
        NeuronBuffer::create(&self.shared, wanted)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<NeuronBuffer>> {
        NeuronBuffer::import(&self.shared, memory)
    }

    fn reset(&self) -> Result<()> {
        self.shared.epoch.fetch_add(1, Ordering::AcqRel);
        self.queue.abandon();
        self.runner.keep_serving()
    }
}
