//! The plugin and its devices.
//!
//! Invariant: the timer's thread ends before the device is dropped.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use polychip_sdk::{
    AlignedBytes, CompileOptions, Cost, Device, DeviceInfo, Error, ErrorKind, GraphView, HostBuffer,
    HostServices, LoadSource, Memory, MemoryKind, MemoryKinds, Offers, OperatingPoint, Plugin, PluginInfo,
    Result, Support, Telemetry,
};

use crate::chip::Chip;
use crate::exec::NullExecutable;
use crate::fence::NullFence;
use crate::record::Record;
use crate::script::{DeviceScript, FaultKind, Script};
use crate::shared::{Shared, State};
use crate::telemetry::Meter;
use crate::work::Price;
use crate::{buffer, caps, lower, pattern};

const BUILD_ID: &str = polychip_sdk::build_id!("null");

/// The plugin of scripted devices.
pub struct NullPlugin {
    host: HostServices,
    script: Script,
}

impl Plugin for NullPlugin {
    type Device = NullDevice;
    const INFO: PluginInfo = PluginInfo {
        name: "null",
        version: env!("CARGO_PKG_VERSION"),
        build_id: BUILD_ID,
    };

    fn create(host: HostServices) -> Result<Self> {
        let file = || {
            host.configuration("script_file")
                .or_else(|| std::env::var("POLYCHIP_NULL_SCRIPT").ok())
        };
        let text = match host.configuration("script") {
            Some(text) => text,
            None => match file() {
                Some(path) => std::fs::read_to_string(&path)
                    .map_err(|error| Error::bad_argument(format!("script {path}: {error}")))?,
                None => String::new(),
            },
        };
        let script = Script::parse(&text).map_err(|error| Error::bad_argument(error.to_string()))?;
        Ok(NullPlugin { host, script })
    }

    fn device_count(&self) -> Result<u32> {
        Ok(self.script.devices.len() as u32)
    }

    fn open(&self, index: u32) -> Result<NullDevice> {
        let script =
            self.script.devices.get(index as usize).ok_or_else(|| {
                Error::bad_argument(format!("device {index} of {}", self.script.devices.len()))
            })?;
        NullDevice::new(self.host.clone(), script.clone(), None)
    }
}

/// A scripted device.
pub struct NullDevice {
    shared: Arc<Shared>,
    info: DeviceInfo,
    points: Vec<OperatingPoint>,
    timer: Option<JoinHandle<()>>,
}

impl NullDevice {
    /// A device that is a unit of a chip.
    ///
    /// # Errors
    /// A script that is out of range, or no thread for the timer.
    pub fn on_chip(
        host: HostServices,
        script: DeviceScript,
        chip: Arc<dyn Chip>,
        unit: usize,
    ) -> Result<NullDevice> {
        Self::new(host, script, Some((chip, unit)))
    }

    fn new(
        host: HostServices,
        script: DeviceScript,
        chip: Option<(Arc<dyn Chip>, usize)>,
    ) -> Result<NullDevice> {
        let kind = script.device_kind().map_err(Error::bad_argument)?;
        let imports = script.import_kinds().map_err(Error::bad_argument)?;
        let info = DeviceInfo {
            emulated: true,
            shares_host_memory: imports.contains(&MemoryKind::Host),
            serial: script.serial,
            import_kinds: MemoryKinds::of(&imports),
            export_kinds: buffer::EXPORTS,
            import_alignment: script.import_alignment,
            vendor: "Polychip".into(),
            soc: "emulated".into(),
            driver: env!("CARGO_PKG_VERSION").into(),
            memory_bytes: script.memory_bytes,
            peak_macs_per_s: rate(script.cost.ps_per_mac),
            peak_bytes_per_s: rate(script.cost.ps_per_byte),
            preemption: script.preemption(),
            queue_depth: script.queue_depth,
            switch_ns: script.switch_ns,
            ..DeviceInfo::new(kind, script.name.clone())
        };
        let points = script
            .operating_point
            .iter()
            .map(|point| OperatingPoint {
                name: point.name.clone(),
                frequency_khz: point.frequency_khz,
                power_mw: point.power_mw,
            })
            .collect();
        let record = script
            .record
            .as_deref()
            .map(Record::open)
            .transpose()?
            .map(Arc::new);
        let shared = Arc::new(Shared {
            record,
            state: Mutex::new(State {
                meter: Meter::new(&script),
                runs: 0,
                compilations: 0,
                loads: 0,
                resets: 0,
                lost: false,
                generation: 0,
                in_flight: Vec::new(),
                closing: false,
            }),
            host,
            script,
            chip,
            woken: Condvar::new(),
        });
        shared.note("device_open");
        let of_timer = Arc::clone(&shared);
        let timer = std::thread::Builder::new()
            .name("polychip-null-timer".into())
            .spawn(move || of_timer.run_timer())
            .map_err(|error| Error::new(ErrorKind::Transient, format!("no thread for the timer: {error}")))?;
        Ok(NullDevice {
            shared,
            info,
            points,
            timer: Some(timer),
        })
    }
}

/// The scripted refusal of a part, where it holds what the script refuses.
fn refused(script: &DeviceScript, graph: &GraphView<'_>) -> Result<()> {
    for refuse in &script.refuse_compile {
        let find = |pattern: &str| {
            graph
                .nodes()
                .position(|node| pattern::matches(pattern, node.name()))
        };
        let Some(node) = find(&refuse.node) else { continue };
        if refuse.with.as_ref().is_some_and(|with| find(with).is_none()) {
            continue;
        }
        let error = Error::new(refuse.class.kind(), refuse.detail.clone()).with_vendor_code(refuse.code);
        return Err(if refuse.names_node {
            error.at_node(node as u32)
        } else {
            error
        });
    }
    Ok(())
}

/// Things per second at so many picoseconds each; 0 where it takes none.
fn rate(ps: f64) -> u64 {
    if ps > 0.0 { (1e12 / ps) as u64 } else { 0 }
}

impl Drop for NullDevice {
    fn drop(&mut self) {
        self.shared.note("device_close");
        self.shared.state().closing = true;
        self.shared.wake_timer();
        if let Some(timer) = self.timer.take() {
            // a panic of the timer was reported when it happened
            let _ = timer.join();
        }
    }
}

impl Device for NullDevice {
    type Blob = AlignedBytes;
    type Executable = NullExecutable;
    type Buffer = HostBuffer;
    type Fence = NullFence;
    const OFFERS: Offers = Offers {
        operating_points: true,
        set_operating_point: true,
        estimate: true,
        buffer_export: true,
        cancel: true,
        device_reset: true,
        fence_on_signal: true,
        fence_timing: true,
        fence_output_shape: true,
        telemetry: true,
        ..Offers::NONE
    };

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn operating_points(&self) -> &[OperatingPoint] {
        &self.points
    }

    fn set_operating_point(&self, index: u32) -> Result<()> {
        self.shared.note("set_operating_point");
        if index as usize >= self.points.len() {
            return Err(Error::bad_argument(format!(
                "operating point {index} of {}",
                self.points.len()
            )));
        }
        self.shared.state().meter.point = index as usize;
        if let Some((chip, unit)) = &self.shared.chip {
            chip.set_operating_point(*unit, index);
        }
        Ok(())
    }

    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>> {
        self.shared.note("query_support");
        Ok(graph
            .nodes()
            .map(|node| caps::support(&self.shared.script, graph, &node))
            .collect())
    }

    fn estimate(&self, graph: &GraphView<'_>, nodes: &[u32]) -> Result<Cost> {
        let script = &self.shared.script;
        let price = Price::of(script, graph, nodes.iter().map(|&node| node as usize));
        let energy_nj = price.nj + script.launch_nj;
        Ok(Cost {
            time_ns: Some(price.ns.round() as u64),
            launch_ns: Some(script.launch_ns),
            energy_uj: script.states_energy.then(|| (energy_nj / 1e3).round() as u64),
            power_mw: (script.states_energy && price.ns > 0.0)
                .then(|| (energy_nj / price.ns * 1e3).round() as u64),
            memory_bytes: None,
            error_permille: Some(script.noise_permille),
            emulated: true,
        })
    }

    fn estimate_parts(&self, graph: &GraphView<'_>, parts: &[&[u32]]) -> Result<Vec<Cost>> {
        self.shared.note("estimate");
        parts.iter().map(|nodes| self.estimate(graph, nodes)).collect()
    }

    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<AlignedBytes> {
        self.shared.note("compile");
        let mut state = self.shared.state();
        let number = state.compilations;
        state.compilations += 1;
        drop(state);
        let script = &self.shared.script;
        while script
            .compile_waits_for
            .as_ref()
            .is_some_and(|file| !file.exists())
        {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let fault = script
            .fault
            .iter()
            .find(|fault| fault.kind == FaultKind::Compile && fault.strikes(number));
        if let Some(fault) = fault {
            return Err(Error::new(
                fault.class.kind(),
                format!("scripted refusal of compilation {number}"),
            ));
        }
        refused(script, graph)?;
        lower::compile(script, BUILD_ID, graph, options)
    }

    fn load(&self, source: LoadSource<'_, AlignedBytes>) -> Result<Arc<NullExecutable>> {
        self.shared.note("load");
        let script = &self.shared.script;
        let mut part = lower::load(script, BUILD_ID, source)?;
        let mut state = self.shared.state();
        let number = state.loads;
        state.loads += 1;
        let lies =
            |fault: &&crate::script::Fault| fault.kind == FaultKind::WrongSize && fault.strikes(number);
        if script.fault.iter().any(|fault| lies(&fault)) {
            lower::lie(&mut part.ports)?;
        }
        let bytes = part.constant_bytes + part.arena_bytes;
        let used = state.meter.memory_used_bytes.saturating_add(bytes);
        if script.memory_bytes > 0 && used > script.memory_bytes {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!(
                    "the part needs {bytes} bytes; {} of {} are in use",
                    state.meter.memory_used_bytes, script.memory_bytes
                ),
            ));
        }
        state.meter.memory_used_bytes = used;
        let generation = state.generation;
        drop(state);
        Ok(Arc::new(NullExecutable {
            device: Arc::clone(&self.shared),
            part,
            number,
            generation,
        }))
    }

    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<HostBuffer>> {
        self.shared.note("buffer_create");
        buffer::create(wanted)
    }

    fn buffer_import(&self, memory: &Memory) -> Result<Arc<HostBuffer>> {
        self.shared.note("buffer_import");
        buffer::import(memory)
    }

    fn reset(&self) -> Result<()> {
        self.shared.note("device_reset");
        let mut state = self.shared.state();
        let number = state.resets;
        state.resets += 1;
        let fails = |fault: &crate::script::Fault| fault.kind == FaultKind::Reset && fault.strikes(number);
        let chip = self.shared.chip.as_ref();
        let gone = chip.and_then(|(chip, unit)| chip.gone(*unit, self.shared.host.now_ns()));
        if gone.is_some() || self.shared.script.fault.iter().any(fails) {
            let what = format!("scripted refusal of reset {number}");
            return Err(Error::new(ErrorKind::Persistent, what));
        }
        state.lost = false;
        state.generation += 1;
        let ended = std::mem::take(&mut state.in_flight);
        state.meter.busy_until_ns = self.shared.host.now_ns();
        drop(state);
        for fence in ended {
            fence.end_early(Error::new(ErrorKind::DeviceLost, "the device was reset"));
        }
        Ok(())
    }

    fn telemetry(&self) -> Result<Telemetry> {
        self.shared.note("telemetry");
        let now_ns = self.shared.host.now_ns();
        if let Some((chip, unit)) = &self.shared.chip {
            return Ok(chip.telemetry(*unit, now_ns));
        }
        Ok(self.shared.state().meter.read(&self.shared.script, now_ns))
    }
}
