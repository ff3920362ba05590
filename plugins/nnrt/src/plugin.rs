//! The plugin and its devices: the NPUs that the runtime names.
//!
//! Invariants:
//! 1. Nothing is loaded or probed before `create`; the table query has no side effects.
//! 2. The runtime's CPUs and GPUs are not offered: they have plugins of their own.
//! 3. A reset ends all runs and voids loaded parts. A run that hangs in the runtime is left behind with its thread and its
//!    part: nothing can end it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use polychip_sdk::{
    AlignedBytes, BlobReader, BlobWriter, CompileOptions, Device, DeviceInfo, DeviceKind, Error, ErrorKind,
    GraphView, HostBuffer, HostServices, LoadSource, LogLevel, Memory, Offers, Plugin, PluginInfo, Port,
    Precision, Preemption, Result, RunQueue, Runner, Support,
};
use polychip_sys::nnrt::Library;
use polychip_sys::nnrt::bindings as sys;

use crate::api::{self, Api, Found, Settings};
use crate::buffer::{self, NnrtBuffer};
use crate::caps::SupportCache;
use crate::exec::{NnrtExecutable, NnrtRun};
use crate::lower;
use crate::program::{Program, Tensor};
use crate::telemetry::{self, SOCS, Soc};

/// Part of every cache key, beside the device's name and settings.
const BUILD_ID: &str = polychip_sdk::build_id!("nnrt");

/// Sections of a blob: what it was made of, the ports as the runtime has them, and what was compiled, or the program where
/// the runtime exports nothing.
const CONTENT: u32 = 1;
const PORTS: u32 = 2;
const COMPILED: u32 = 3;
const PROGRAM: u32 = 4;
const REDUCED: u32 = 5;

/// The plugin.
pub struct NnrtPlugin {
    host: HostServices,
    library: &'static Library,
    devices: Vec<Found>,
    settings: Settings,
    soc: Soc,
    reduced: bool,
}

/// Which of some words a setting of the host's is; the first where it is left out.
fn word(host: &HostServices, key: &str, words: &[&str]) -> Result<usize> {
    let Some(text) = host.configuration(key) else {
        return Ok(0);
    };
    let place = words.iter().position(|word| *word == text.trim());
    place.ok_or_else(|| Error::bad_argument(format!("{key} {text:?} is not one of {}", words.join(", "))))
}

impl Plugin for NnrtPlugin {
    type Device = NnrtDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "nnrt",
        version: env!("CARGO_PKG_VERSION"),
        build_id: BUILD_ID,
    };

    fn create(host: HostServices) -> Result<Self> {
        let soc = match host.configuration("soc") {
            Some(text) => telemetry::find(&text).map_err(Error::bad_argument)?,
            None => SOCS[0],
        };
        let reduced = word(&host, "precision", &["exact", "reduced"])? == 1;
        // the runtime's codes are places in these lists, of which the first leaves the choice to the driver
        let chosen = |key, words: &[&str]| -> Result<Option<u32>> {
            let place = word(&host, key, words)? as u32;
            Ok((place > 0).then_some(place))
        };
        let settings = Settings {
            performance: chosen("performance", &["driver", "low", "medium", "high", "extreme"])?,
            priority: chosen("priority", &["driver", "low", "medium", "high"])?,
        };
        let folder = host.configuration("lib_dir");
        let library = Library::open(folder.as_deref().map(Path::new))
            .map_err(|error| Error::new(ErrorKind::Persistent, error.to_string()))?;
        let is_npu = |found: &Found| !matches!(found.kind, sys::OH_NN_CPU | sys::OH_NN_GPU);
        let mut devices = api::devices(library)?;
        let all = devices.len();
        devices.retain(is_npu);
        if devices.is_empty() {
            let what = format!(
                "the Neural Network Runtime ({}) knows {all} devices, none of them an NPU",
                library.path().display()
            );
            return Err(Error::new(ErrorKind::Persistent, what));
        }
        host.log(
            LogLevel::Info,
            &format!("{} knows {} NPUs", library.path().display(), devices.len()),
        );
        Ok(NnrtPlugin {
            host,
            library,
            devices,
            settings,
            soc,
            reduced,
        })
    }

    fn device_count(&self) -> Result<u32> {
        Ok(self.devices.len() as u32)
    }

    fn open(&self, index: u32) -> Result<NnrtDevice> {
        match self.devices.get(index as usize) {
            Some(found) => NnrtDevice::new(self, found),
            None => Err(Error::bad_argument(format!(
                "device {index} of {}",
                self.devices.len()
            ))),
        }
    }
}

/// A device.
pub struct NnrtDevice {
    info: DeviceInfo,
    /// Declared first, so that its thread ends before the rest is dropped.
    runner: Runner<NnrtRun>,
    queue: Arc<RunQueue<NnrtRun>>,
    api: Api,
    resets: Arc<AtomicU64>,
    answers: SupportCache,
    reduced: bool,
    made_by: String,
}

impl NnrtDevice {
    fn new(plugin: &NnrtPlugin, found: &Found) -> Result<NnrtDevice> {
        let Settings {
            performance,
            priority,
        } = plugin.settings;
        let Soc { name, trade, .. } = plugin.soc;
        let said = polychip_sdk::settings([
            ("performance", performance.unwrap_or(0).to_string()),
            (
                "precision",
                if plugin.reduced { "reduced" } else { "exact" }.to_owned(),
            ),
            ("priority", priority.unwrap_or(0).to_string()),
            ("soc", name.to_owned()),
        ]);
        let emulated = plugin.library.is_emulated();
        let kinds = buffer::kinds(emulated);
        let title = if emulated {
            format!("{trade} NPU, emulated")
        } else {
            format!("{trade} NPU")
        };
        let queue = Arc::new(RunQueue::new(plugin.host.clone()));
        Ok(NnrtDevice {
            info: DeviceInfo {
                emulated,
                // files that host and chip map, not the host's memory as such
                shares_host_memory: true,
                serial: true,
                import_kinds: kinds,
                export_kinds: HostBuffer::KINDS,
                import_alignment: buffer::PAGE as u32,
                vendor: "Huawei".to_owned(),
                soc: name.to_owned(),
                driver: found.name.clone(),
                peak_macs_per_s: plugin.soc.macs_per_s,
                peak_bytes_per_s: plugin.soc.bytes_per_s,
                settings: said.clone(),
                // a priority belongs to a compilation; all of ours are equal, and runs execute one at a time
                preemption: Preemption::None,
                queue_depth: 1,
                ..DeviceInfo::new(DeviceKind::Npu, title)
            },
            runner: Runner::start(&queue, "polychip-nnrt-runs")?,
            queue,
            api: Api::new(plugin.library, found.id, plugin.settings),
            resets: Arc::new(AtomicU64::new(0)),
            answers: SupportCache::default(),
            reduced: plugin.reduced,
            made_by: format!("{BUILD_ID} {} {said}", found.name),
        })
    }
}

/// A program's ports as stored in a blob.
fn ports_of(program: &Program) -> Vec<Tensor> {
    let ports = program.inputs.iter().chain(&program.outputs);
    ports.map(|&id| program.tensors[id].clone()).collect()
}

/// Something as a blob's section.
fn packed(value: &impl serde::Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(|error| Error::new(ErrorKind::Persistent, error.to_string()))
}

/// What [`packed`] gave.
fn unpacked<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|error| Error::bad_blob(error.to_string()))
}

impl Device for NnrtDevice {
    type Blob = AlignedBytes;
    type Executable = NnrtExecutable;
    type Buffer = NnrtBuffer;
    type Fence = NnrtRun;
    const OFFERS: Offers = Offers {
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

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        let part = lower::read(graph);
        Ok(self
            .answers
            .support(&self.api, &part, graph.nodes().count(), self.reduced))
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<AlignedBytes> {
        let mut program = lower::whole(&lower::read(graph))?;
        program.reduced = self.reduced || options.precision == Precision::Reduced;
        let compilation = self.api.compile(&program)?;
        let constants = program.tensors.iter().flat_map(|tensor| &tensor.value);
        let constants: usize = constants.map(Vec::len).sum();
        let exported = self.api.export(&compilation, constants)?;
        let kept = match &exported {
            Some(_) => Vec::new(),
            None => packed(&program)?,
        };
        BlobWriter::new(&self.made_by)
            .section(CONTENT, &graph.content_fingerprint())
            .section(PORTS, &packed(&ports_of(&program))?)
            .section(REDUCED, &[u8::from(program.reduced)])
            .section(COMPILED, &exported.unwrap_or_default())
            .section(PROGRAM, &kept)
            .finish()
    }

    fn load(&self, source: LoadSource<'_, AlignedBytes>) -> Result<Arc<NnrtExecutable>> {
        let (graph, bytes) = source.with_part()?;
        let blob = BlobReader::open(bytes, &self.made_by)?;
        let mut ports = Port::of_graph(graph, buffer::kinds(self.info.emulated))?;
        for port in &mut ports {
            // the runtime maps a tensor's file from where it begins
            port.alignment = buffer::PAGE as u32;
        }
        let tensors: Vec<Tensor> = unpacked(blob.section(PORTS)?)?;
        if blob.section(CONTENT)? != graph.content_fingerprint() || tensors.len() != ports.len() {
            return Err(Error::bad_blob("the blob was made of another part"));
        }
        let compiled = blob.section(COMPILED)?;
        let compilation = if compiled.is_empty() {
            self.api.compile(&unpacked(blob.section(PROGRAM)?)?)?
        } else {
            self.api.import(compiled, blob.section(REDUCED)? == [1])?
        };
        let bytes = compiled.len() as u64;
        let loaded = NnrtExecutable::new(
            self.api,
            &self.queue,
            &self.resets,
            ports,
            tensors,
            compilation,
            bytes,
        )?;
        Ok(Arc::new(loaded))
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<NnrtBuffer>> {
        NnrtBuffer::create(self.info.emulated, wanted)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<NnrtBuffer>> {
        NnrtBuffer::import(self.info.emulated, memory)
    }

    fn reset(&self) -> Result<()> {
        self.resets.fetch_add(1, Ordering::AcqRel);
        self.queue.abandon();
        self.runner.keep_serving()
    }
}
