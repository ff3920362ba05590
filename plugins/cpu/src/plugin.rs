//! The plugin and its one device: this machine's CPU.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use polychip_cpu_kernels::{Isa, ThreadPool};
use polychip_sdk::{
    CompileOptions, Constant, Cost, Device, DeviceInfo, DeviceKind, Error, ErrorKind, GraphView, HostBuffer,
    HostServices, LoadSource, LoadedFrom, LogLevel, Memory, Offers, Plugin, PluginInfo, Precision,
    Preemption, RatesWanted, Result, RunQueue, Runner, Support, Telemetry,
};

use crate::blob::{self, BUILD_ID, CpuBlob, Guard};
use crate::estimate::dry_run;
use crate::exec::{self, Common, CpuExecutable, CpuRun};
use crate::lower::{self, Options};
use crate::part::{self, Part, Programs};
use crate::pools::Pools;
use crate::processor::Processor;
use crate::rates::Rates;
use crate::telemetry::Sensors;
use crate::tune::Choices;
use crate::weights::{WeightFiles, Weights};
use crate::{buffer, caps, cores};

/// Weights with fewer bytes are not worth a file, unless they are configured to be.
const MIN_FILE_BYTES: u64 = 1 << 20;

/// The plugin.
pub struct CpuPlugin {
    host: HostServices,
    threads: usize,
    /// Processors that runs keep to; empty for any.
    cores: Vec<usize>,
    isa: Isa,
    tune: bool,
    rates: RatesWanted,
    /// Packed weights in files.
    weight_files: Option<WeightFiles>,
}

impl Plugin for CpuPlugin {
    type Device = CpuDevice;

    const INFO: PluginInfo = PluginInfo {
        name: "cpu",
        version: env!("CARGO_PKG_VERSION"),
        build_id: BUILD_ID,
    };

    fn create(host: HostServices) -> Result<Self> {
        let threads = match host
            .configuration("cpu.threads")
            .or_else(|| host.configuration("threads"))
        {
            None => 0,
            Some(text) => text.trim().parse().map_err(|_| {
                Error::bad_argument(format!("configuration cpu.threads is '{text}', not a number"))
            })?,
        };
        let isa = match host.configuration("isa") {
            None => Isa::detect(),
            Some(text) => wanted(text.trim())?,
        };
        let cores = match host.configuration("cores") {
            None => Vec::new(),
            Some(text) => cores::chosen(text.trim())?,
        };
        let tune = match host.configuration("tune").as_deref().map(str::trim) {
            None | Some("off") => false,
            Some("on") => true,
            Some(other) => {
                return Err(Error::bad_argument(format!(
                    "configuration cpu.tune is '{other}', neither on nor off"
                )));
            }
        };
        let rates = host.rates_wanted()?;
        let weight_files = weight_files(&host)?;
        Ok(Self {
            weight_files,
            host,
            threads,
            cores,
            isa,
            tune,
            rates,
        })
    }

    fn device_count(&self) -> Result<u32> {
        Ok(1)
    }

    fn open(&self, index: u32) -> Result<CpuDevice> {
        if index != 0 {
            return Err(Error::bad_argument(format!(
                "there is one CPU, not {}",
                index.saturating_add(1)
            )));
        }
        CpuDevice::open(self)
    }
}

/// Whether and where packed weights lie in files.
fn weight_files(host: &HostServices) -> Result<Option<WeightFiles>> {
    let folder = host.configuration("weights-folder");
    let Some(folder) = folder.filter(|folder| !folder.is_empty()) else {
        return Ok(None);
    };
    let min_bytes = match host.configuration("weights-file-bytes") {
        None => MIN_FILE_BYTES,
        Some(text) => text.trim().parse().map_err(|_| {
            Error::bad_argument(format!(
                "configuration cpu.weights-file-bytes is '{text}', not a number of bytes"
            ))
        })?,
    };
    Ok(Some(WeightFiles {
        folder: PathBuf::from(folder),
        min_bytes,
    }))
}

/// The instruction set of this name, `auto` being the widest.
fn wanted(name: &str) -> Result<Isa> {
    if name == "auto" {
        return Ok(Isa::detect());
    }
    let available = Isa::available();
    available
        .iter()
        .copied()
        .find(|isa| isa.name() == name)
        .ok_or_else(|| {
            let names: Vec<&str> = available.iter().map(|isa| isa.name()).collect();
            Error::bad_argument(format!(
                "configuration cpu.isa is '{name}', this machine has {} (and auto, the first of them)",
                names.join(", ")
            ))
        })
}

/// What this machine's cores are, and what the configuration makes of them.
fn settings(plugin: &CpuPlugin, processor: &Processor, threads: usize) -> String {
    let isa = plugin.isa;
    let bf16 = if isa.has_bf16() { "+bf16" } else { "" };
    polychip_sdk::settings([
        ("cores", cores::described(&plugin.cores)),
        ("isa", format!("{}+{}{bf16}", isa.name(), isa.bytes_name())),
        ("khz", processor.nominal_khz.to_string()),
        ("revision", processor.revision.clone()),
        ("threads", threads.to_string()),
        ("tune", if plugin.tune { "on" } else { "off" }.to_owned()),
    ])
}

/// All constants of a graph, those of graphs inside its nodes among them.
fn constants(graph: &GraphView<'_>) -> Vec<Constant> {
    let mut all: Vec<Constant> = graph.tensors().filter_map(|tensor| tensor.constant()).collect();
    for node in graph.nodes() {
        let bodies = node.bodies().map(|body| body.graph);
        for inner in bodies.chain(node.decomposition()) {
            all.extend(constants(&inner));
        }
    }
    all
}

/// The CPU.
pub struct CpuDevice {
    info: DeviceInfo,
    isa: Isa,
    host: HostServices,
    threads: usize,
    /// Algorithms are chosen by measurement.
    tune: bool,
    rates: Rates,
    sensors: Sensors,
    common: Arc<Common>,
    /// Held so that its threads end with the device.
    _runner: Runner<CpuRun>,
}

impl CpuDevice {
    fn open(plugin: &CpuPlugin) -> Result<Self> {
        let (host, isa) = (&plugin.host, plugin.isa);
        let threads = match plugin.threads {
            0 if !plugin.cores.is_empty() => plugin.cores.len(),
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let processor = Processor::find();
        let rates = Rates::of(host, plugin.rates, isa, &processor, &plugin.cores);
        let queue = Arc::new(RunQueue::with_slots(host.clone(), threads));
        let info = DeviceInfo {
            shares_host_memory: true,
            serial: threads == 1,
            import_kinds: buffer::KINDS,
            // a port looks at the alignment of its own elements
            import_alignment: 1,
            export_kinds: buffer::KINDS,
            vendor: processor.vendor.clone(),
            driver: format!("{} {}", env!("CARGO_PKG_NAME"), isa.name()),
            peak_macs_per_s: rates.peaks.macs_per_s.saturating_mul(threads as u64),
            peak_bytes_per_s: rates.peaks.bytes_per_s,
            rates_measured_s: rates.measured_s,
            settings: settings(plugin, &processor, threads),
            // who has a place keeps it to the end of the run
            preemption: Preemption::None,
            queue_depth: u32::try_from(threads).unwrap_or(u32::MAX),
            ..DeviceInfo::new(DeviceKind::Cpu, processor.name)
        };
        Ok(Self {
            info,
            isa,
            host: host.clone(),
            threads,
            tune: plugin.tune,
            rates,
            sensors: Sensors::find(),
            _runner: Runner::start(&queue, "polychip-cpu-runs")?,
            common: Arc::new(Common {
                queue,
                pools: Pools::new(plugin.cores.clone()),
                arenas: Arc::default(),
                weights: Weights::over(plugin.weight_files.clone()),
            }),
        })
    }

    fn pool(&self, threads: u32) -> Arc<ThreadPool> {
        let threads = if threads == 0 {
            self.threads
        } else {
            threads as usize
        };
        self.common.pools.shared(threads)
    }

    fn lower(
        &self,
        (part, programs): (&Part, &Programs),
        layouts: &[polychip_sdk::Layout],
        reduced: bool,
        pool: &ThreadPool,
        choices: Choices<'_>,
    ) -> Result<crate::step::Program> {
        lower::lower(
            part,
            &Options {
                programs,
                isa: self.isa,
                pool,
                layouts,
                reduced,
                choices,
            },
        )
    }
}

impl CpuDevice {
    /// As [`lower`](Self::lower), where the weights are packed already.
    fn lowered_again(
        &self,
        part: (&Part, &Programs),
        layouts: &[polychip_sdk::Layout],
        reduced: bool,
        pool: &ThreadPool,
        choices: Choices<'_>,
    ) -> Result<crate::step::Program> {
        let mut program = self.lower(part, layouts, reduced, pool, choices)?;
        program.packers = Vec::new();
        Ok(program)
    }
}

impl Device for CpuDevice {
    type Blob = CpuBlob;
    type Executable = CpuExecutable;
    type Buffer = HostBuffer;
    type Fence = CpuRun;

    const OFFERS: Offers = Offers {
        estimate: true,
        buffer_export: true,
        cancel: true,
        fence_on_signal: true,
        fence_timing: true,
        fence_output_shape: true,
        fence_steps: true,
        telemetry: true,
        ..Offers::NONE
    };

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        let (part, programs) = part::read(graph)?;
        Ok(caps::support(&part, &programs, self.isa))
    }

    fn estimate_parts(&self, graph: &GraphView<'_>, parts: &[&[u32]]) -> Result<Vec<Cost>> {
        let (part, programs) = part::read(graph)?;
        let dry = dry_run(&part, &programs, self.isa);
        let priced = self.rates.peaks.priced(&part, &dry, self.threads);
        Ok(parts.iter().map(|nodes| priced.estimate(nodes)).collect())
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<CpuBlob> {
        let (part, programs) = part::read(graph)?;
        let layouts = exec::grant(&part, &options.ports);
        let ports = exec::ports(&part, &layouts)?;
        let inputs = part.inputs.len();
        let pool = self.pool(options.threads);
        // without an instruction for it, f32 is as exact and no slower
        let reduced = options.precision == Precision::Reduced && self.isa.has_bf16();
        let choices = if self.tune {
            Choices::Measured(&self.host)
        } else {
            Choices::Rule
        };
        let mut program = self.lower((&part, &programs), &layouts, reduced, &pool, choices)?;
        let packers = std::mem::take(&mut program.packers);
        // of weights in blocks the part has scales and zero points, too: gone before the packed ones come
        drop((part, programs));
        let packed = self.common.weights.pack(&packers, &pool)?;
        Ok(CpuBlob {
            guard: Guard::new(self.isa, reduced, graph, &layouts, &program),
            program: Arc::new(program),
            packed: Arc::new(packed),
            threads: pool.threads(),
            ports,
            inputs,
            lean: options.lean_blob,
            bytes: OnceLock::new(),
        })
    }

    fn load(&self, source: LoadSource<'_, CpuBlob>) -> Result<Arc<CpuExecutable>> {
        let graph = source.graph.ok_or_else(|| {
            Error::bad_argument("a blob of the CPU is loaded beside the part it was compiled from")
        })?;
        let pool = self.pool(source.threads);
        let (program, packed, ports, inputs) = match source.from {
            LoadedFrom::Blob(blob) => {
                let layouts = blob.guard.layouts.clone();
                let reduced = blob.guard.reduced;
                let guard = Guard::new(self.isa, reduced, &graph, &layouts, &blob.program);
                if blob.guard != guard {
                    return Err(Error::bad_blob("the blob was compiled from another part"));
                }
                let program = if blob.threads == pool.threads() {
                    blob.program
                } else {
                    let (part, programs) = part::read(&graph)?;
                    let choices = Choices::Given(&blob.guard.algorithms);
                    Arc::new(self.lowered_again((&part, &programs), &layouts, reduced, &pool, choices)?)
                };
                if program.packed_len != blob.guard.packed_len
                    || program.sections.len() != blob.packed.table().len()
                {
                    return Err(Error::new(
                        ErrorKind::Persistent,
                        "lowering again packs other weights",
                    ));
                }
                (program, blob.packed, blob.ports, blob.inputs)
            }
            LoadedFrom::Bytes(bytes) => {
                let (part, programs) = part::read(&graph)?;
                let count = part.inputs.len() + part.outputs.len();
                // hashed once: the blob may be as large as the model
                let reader = blob::checked(&bytes)?;
                let (reduced, layouts, algorithms) = blob::made_for(&reader, count)?;
                let choices = Choices::Given(&algorithms);
                let mut program = self.lower((&part, &programs), &layouts, reduced, &pool, choices)?;
                let packers = std::mem::take(&mut program.packers);
                let guard = Guard::new(self.isa, reduced, &graph, &layouts, &program);
                let ports = exec::ports(&part, &layouts)?;
                let inputs = part.inputs.len();
                let packed = match blob::open(bytes, &reader, &guard, &program.sections)? {
                    Some(packed) => packed,
                    None => {
                        drop((part, programs));
                        self.common.weights.pack(&packers, &pool)?
                    }
                };
                (Arc::new(program), Arc::new(packed), ports, inputs)
            }
        };
        self.host.log(
            LogLevel::Debug,
            &format!(
                "{} steps, arena of {} bytes, of which {} are alive at once, {} floats of packed weights",
                program.steps.len(),
                program.arena_bytes,
                program.arena_bound,
                program.packed_len
            ),
        );
        let contents = self.common.weights.hold(&packed, constants(&graph));
        Ok(Arc::new(CpuExecutable::new(
            Arc::clone(&self.common),
            program,
            (packed, contents),
            ports,
            inputs,
            pool.threads(),
        )?))
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<HostBuffer>> {
        buffer::create(wanted)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<HostBuffer>> {
        buffer::import(memory)
    }

    fn telemetry(&self) -> Result<Telemetry> {
        Ok(self.sensors.read(self.host.now_ns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_set_is_found_by_its_name() {
        assert_eq!(wanted("auto").unwrap(), Isa::detect());
        for isa in Isa::available() {
            assert_eq!(wanted(isa.name()).unwrap(), isa);
        }
        let error = wanted("avx1024").unwrap_err().to_string();
        assert!(error.contains("'avx1024'") && error.contains("scalar"), "{error}");
    }
}
