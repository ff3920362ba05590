//! A device: its description, supported nodes, cost estimates and sensors.
//!
//! Invariants:
//! 1. The device is closed after everything made on it, because everything holds it.
//! 2. A figure is `Some` only if the plugin set its validity bit.

#![allow(unsafe_code)]

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use polychip_abi as abi;
use polychip_abi::Sized;
use polychip_isolation::{CostRecords, SupportRecords};

use crate::blob::{Blob, CompileOptions};
use crate::buffer::Buffer;
use crate::device_info::{DeviceInfo, DeviceKind, Preemption};
use crate::dma_buf_source::DmaBufSource;
use crate::error::{Error, ErrorKind, Result};
use crate::executable::Executable;
use crate::flat::FlatGraph;
use crate::instance::{Instance, PluginInfo, text};
use crate::memory::{self, Memory};
use crate::open_calls::{self, OpenCall};
use crate::open_device::Open;
use crate::page_size;

/// A device's answer to whether it can run a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Support {
    /// `POLYCHIP_SUPPORT_*`; 0: yes.
    pub reason: u32,
    /// The attribute, type or limit concerned.
    pub detail: String,
}

/// A plugin's estimate of the cost of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Time of one run without launch, in nanoseconds.
    pub time_ns: Option<u64>,
    /// Time to start one run, in nanoseconds.
    pub launch_ns: Option<u64>,
    /// Energy of one run, in microjoules.
    pub energy_uj: Option<u64>,
    /// Mean power during the run, in milliwatts.
    pub power_mw: Option<u64>,
    /// Device memory of the loaded part, in bytes.
    pub memory_bytes: Option<u64>,
    /// Expected relative error of the time, in thousandths.
    pub error_permille: Option<u32>,
    /// The figures are not those of a real chip.
    pub emulated: bool,
}

impl Cost {
    /// The figures of a record, if it has any.
    fn said(record: &abi::polychip_cost, emulated: bool) -> Option<Cost> {
        let has = |bit| record.valid & bit != 0;
        (record.valid != 0).then_some(Cost {
            time_ns: some(has(abi::POLYCHIP_COST_TIME), record.time_ns),
            launch_ns: some(has(abi::POLYCHIP_COST_LAUNCH), record.launch_ns),
            energy_uj: some(has(abi::POLYCHIP_COST_ENERGY), record.energy_uj),
            power_mw: some(has(abi::POLYCHIP_COST_POWER), record.power_mw),
            memory_bytes: some(has(abi::POLYCHIP_COST_MEMORY), record.memory_bytes),
            error_permille: has(abi::POLYCHIP_COST_ERROR).then_some(record.error_permille),
            emulated: record.flags & abi::POLYCHIP_COST_EMULATED != 0 || emulated,
        })
    }
}

/// Sensor readings of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Telemetry {
    /// Temperature, in thousandths of a degree Celsius.
    pub temperature_mc: Option<i64>,
    /// Power, in milliwatts.
    pub power_mw: Option<u64>,
    /// Energy since a fixed point in time, in microjoules.
    pub energy_uj: Option<u64>,
    /// Clock, in kilohertz.
    pub frequency_khz: Option<u64>,
    /// Share of time spent computing, in thousandths.
    pub load_permille: Option<u32>,
    /// Bits `POLYCHIP_THROTTLE_*`.
    pub throttle: Option<u32>,
    /// Memory in use, in bytes.
    pub memory_used_bytes: Option<u64>,
}

/// A clock setting that a device supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatingPoint {
    /// Name.
    pub name: String,
    /// Clock in kilohertz, if known.
    pub frequency_khz: Option<u64>,
    /// Typical power under load in milliwatts, if known.
    pub power_mw: Option<u64>,
}

/// Temperatures that a chip can have, in thousandths of a degree Celsius.
const SANE_MC: std::ops::RangeInclusive<i64> = -100_000..=250_000;
/// Most power of a chip, in milliwatts.
const MOST_MW: u64 = 1_000_000_000;

/// An open device. Clones share it. Thread-safe.
#[derive(Clone)]
pub struct Device(pub(crate) Arc<Open>);

fn some(valid: bool, value: u64) -> Option<u64> {
    valid.then_some(value)
}

impl Device {
    pub(crate) fn new(
        instance: Arc<Instance>,
        name: String,
        raw: *mut abi::polychip_device,
    ) -> Result<Device> {
        let info = DeviceInfo {
            kind: DeviceKind::Other,
            name: String::new(),
            vendor: String::new(),
            soc: String::new(),
            driver: String::new(),
            memory_bytes: None,
            peak_macs_per_s: None,
            peak_bytes_per_s: None,
            rates_measured_s: None,
            link_bytes_per_s: None,
            preemption: Preemption::Unknown,
            preemption_bound_ns: None,
            queue_depth: None,
            switch_ns: None,
            settings: String::new(),
            shares_host_memory: false,
            imports_host_memory: false,
            imports_memory_files: false,
            imports_dma_bufs: false,
            emulated: false,
        };
        let executing = open_calls::mark_of(&name);
        // owned first, so that the device is closed if its information cannot be read
        let mut open = Open {
            instance,
            raw,
            name,
            info,
            resets: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            words: Mutex::default(),
            resetting: Mutex::default(),
            executing,
            doubted: AtomicU32::new(0),
        };
        let mut found = abi::polychip_device_info::sized();
        let mut record = abi::polychip_error::sized();
        let call = open
            .table()
            .device_info
            .expect("invariant: required calls are checked");
        // SAFETY: the device is open and the out pointers are ours.
        let status = unsafe { call(open.raw, &raw mut found, &raw mut record) };
        open.check("device_info", status, &record)?;
        // SAFETY: the texts live as long as the device is open.
        let (name, vendor, soc, driver, settings) = unsafe {
            (
                text(found.name),
                text(found.vendor),
                text(found.soc),
                text(found.driver),
                text(found.settings),
            )
        };
        let known = |value: u64| (value != 0).then_some(value);
        let preemption = Preemption::of(found.preemption);
        let takes = |kind: u32| found.import_kinds & (1 << kind) != 0;
        let imports_host_memory =
            takes(abi::POLYCHIP_MEMORY_HOST) && u64::from(found.import_alignment) <= page_size::page_bytes();
        let imports_memory_files = memory::HAS_FILES && takes(abi::POLYCHIP_MEMORY_MEMFD);
        let imports_dma_bufs = takes(abi::POLYCHIP_MEMORY_DMA_BUF) && !DmaBufSource::available().is_empty();
        open.info = DeviceInfo {
            kind: match found.kind {
                abi::POLYCHIP_DEVICE_CPU => DeviceKind::Cpu,
                abi::POLYCHIP_DEVICE_GPU => DeviceKind::Gpu,
                abi::POLYCHIP_DEVICE_NPU => DeviceKind::Npu,
                abi::POLYCHIP_DEVICE_DSP => DeviceKind::Dsp,
                _ => DeviceKind::Other,
            },
            name,
            vendor,
            soc,
            driver,
            memory_bytes: known(found.memory_bytes),
            peak_macs_per_s: known(found.peak_macs_per_s),
            peak_bytes_per_s: known(found.peak_bytes_per_s),
            rates_measured_s: known(found.rates_measured_s),
            link_bytes_per_s: known(found.link_bytes_per_s),
            preemption,
            preemption_bound_ns: known(found.preemption_bound_ns).filter(|_| preemption.is_possible()),
            queue_depth: NonZeroU32::new(found.queue_depth),
            switch_ns: known(found.switch_ns),
            settings,
            shares_host_memory: (imports_host_memory || imports_memory_files || imports_dma_bufs)
                && found.flags & abi::POLYCHIP_DEVICE_SHARES_HOST_MEMORY != 0,
            imports_host_memory,
            imports_memory_files,
            imports_dma_bufs,
            emulated: found.flags & abi::POLYCHIP_DEVICE_EMULATED != 0,
        };
        Ok(Device(Arc::new(open)))
    }

    /// Name, `plugin:index`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Description of the device.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// The plugin that offers the device.
    #[must_use]
    pub fn plugin(&self) -> &PluginInfo {
        &self.0.instance.info
    }

    /// Whether both devices come from the same plugin instance, so that one can wait for the other's fences.
    #[must_use]
    pub fn shares_fences_with(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0.instance, &other.0.instance)
    }

    /// Text that distinguishes this device's figures from any other's: plugin, build, device, chip,
    /// driver and settings.
    #[must_use]
    pub fn identity(&self) -> String {
        let (info, plugin) = (&self.0.info, self.plugin());
        format!(
            "{}|{}|{}|{}|{}|{}|{}|{}",
            self.0.name,
            plugin.version,
            plugin.build_id,
            info.vendor,
            info.name,
            info.soc,
            info.driver,
            info.settings
        )
    }

    /// Whether the device was lost or hung and has not been reset.
    #[must_use]
    pub fn is_quarantined(&self) -> bool {
        self.0.is_lost()
    }

    /// The device's message when it was last lost or hung; empty if it never was.
    #[must_use]
    pub fn last_loss(&self) -> String {
        self.0
            .words
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes the device out of use until it is reset, after a hang that the plugin did not notice.
    pub fn quarantine(&self) {
        self.0.quarantine_after_hang();
    }

    /// Whether the plugin can reset the device.
    #[must_use]
    pub fn offers_reset(&self) -> bool {
        self.0.offers().device_reset.is_some()
    }

    /// Resets the device if it is lost or hung, and returns whether it was. Of several concurrent
    /// callers, one resets. May block.
    ///
    /// # Errors
    /// The plugin offers no reset, or it failed.
    pub fn reset_if_quarantined(&self) -> Result<bool> {
        let _one = self.0.resetting.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_quarantined() {
            return Ok(false);
        }
        self.reset_now()?;
        Ok(true)
    }

    /// Resets a lost or hung device. Executables loaded before become invalid. Memory of runs that
    /// only the reset ended is not reused. May block.
    ///
    /// # Errors
    /// The plugin offers no reset, or it failed.
    pub fn reset(&self) -> Result<()> {
        let _one = self.0.resetting.lock().unwrap_or_else(PoisonError::into_inner);
        self.reset_now()
    }

    fn reset_now(&self) -> Result<()> {
        let Some(call) = self.0.table().device_reset else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                &self.0.name,
                "its plugin offers no reset",
            ));
        };
        let mut record = abi::polychip_error::sized();
        // runs end during the call, and their observers must know why
        let resets = self.0.resets.load(Ordering::Acquire);
        self.0.begun.store(resets + 1, Ordering::Release);
        // SAFETY: the device is open.
        let status = unsafe { call(self.0.raw, &raw mut record) };
        self.0.check("device_reset", status, &record)?;
        self.0.resets.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Reports for each node of the graph whether the device runs it. May block.
    ///
    /// # Errors
    /// The plugin refused the graph as a whole.
    pub fn query_support(&self, graph: &FlatGraph) -> Result<Vec<Support>> {
        self.0.usable()?;
        let (known, needed) = (self.0.offers().abi_minor, graph.least_minor());
        if known < needed {
            let refused = Support {
                reason: abi::POLYCHIP_SUPPORT_ENCODING,
                detail: format!(
                    "weights in blocks, which came with contract {}.{needed}; the plugin was built for {}.{known}",
                    abi::POLYCHIP_ABI_MAJOR,
                    abi::POLYCHIP_ABI_MAJOR
                ),
            };
            return Ok(vec![refused; graph.node_count()]);
        }
        if let Some(trial) = &self.0.instance.trial {
            trial.query_support(&self.0.name, graph)?;
        }
        let mut records = SupportRecords::new(graph.node_count());
        let mut record = abi::polychip_error::sized();
        let call = self
            .0
            .table()
            .query_support
            .expect("invariant: required calls are checked");
        let stride = size_of::<abi::polychip_support>() as u64;
        let listed = OpenCall::begin(&self.0.name, "query_support", graph.name());
        // SAFETY: the graph is valid for the call, and there is one record per node.
        let status = unsafe {
            call(
                self.0.raw,
                graph.raw(),
                records.as_mut_ptr(),
                stride,
                &raw mut record,
            )
        };
        drop(listed);
        self.0.check("query_support", status, &record)?;
        let answers = records.answers().map_err(|words| self.broken(words))?;
        Ok(answers
            .iter()
            .map(|r| Support {
                reason: r.reason,
                detail: r.text(),
            })
            .collect())
    }

    /// The bits of the readings that can be true. Warns once for each quantity that cannot.
    fn believable(&self, found: &abi::polychip_telemetry) -> u32 {
        let temperature = found.temperature_mc;
        let (load, power) = (found.load_permille, found.power_mw);
        let impossible = [
            (
                abi::POLYCHIP_TELEMETRY_TEMPERATURE,
                !SANE_MC.contains(&temperature),
            ),
            (abi::POLYCHIP_TELEMETRY_LOAD, load > 1000),
            (abi::POLYCHIP_TELEMETRY_POWER, power > MOST_MW),
        ];
        let mut valid = found.valid;
        for (bit, is_so) in impossible {
            if !is_so || valid & bit == 0 {
                continue;
            }
            valid &= !bit;
            if self.0.doubted.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
                continue;
            }
            let reading = match bit {
                abi::POLYCHIP_TELEMETRY_TEMPERATURE => {
                    format!("a temperature of {:.1} °C", temperature as f64 / 1e3)
                }
                abi::POLYCHIP_TELEMETRY_LOAD => format!("a load of {:.1} %", f64::from(load) / 10.0),
                _ => format!("a power of {power} mW"),
            };
            tracing::warn!(
                "{}: the plugin reports {reading}, which no chip has; it counts as unknown",
                self.0.name
            );
        }
        valid
    }

    fn broken(&self, words: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::BadPlugin, &self.0.name, words)
    }

    /// Estimates the cost of some nodes of a graph as one part; `None` if the plugin gives no
    /// estimate.
    ///
    /// # Errors
    /// The call failed.
    pub fn estimate(&self, graph: &FlatGraph, nodes: &[u32]) -> Result<Option<Cost>> {
        let costs = self.estimate_parts(graph, [nodes])?;
        Ok(costs.into_iter().next().flatten())
    }

    /// Estimates the cost of each of several parts of a graph, run by itself; `None` for a part
    /// without an estimate. Calls the plugin once, however many parts there are.
    ///
    /// # Errors
    /// The call failed.
    pub fn estimate_parts<'a>(
        &self,
        graph: &FlatGraph,
        parts: impl IntoIterator<Item = &'a [u32]>,
    ) -> Result<Vec<Option<Cost>>> {
        let (mut nodes, mut ends) = (Vec::new(), Vec::new());
        for part in parts {
            nodes.extend_from_slice(part);
            ends.push(nodes.len() as u64);
        }
        // an old plugin runs no node of a graph that it cannot read
        let readable = self.0.offers().abi_minor >= graph.least_minor();
        let Some(call) = self.0.table().estimate.filter(|_| readable && !ends.is_empty()) else {
            return Ok(vec![None; ends.len()]);
        };
        let mut costs = CostRecords::new(ends.len());
        let mut record = abi::polychip_error::sized();
        let stride = size_of::<abi::polychip_cost>() as u64;
        let listed = OpenCall::begin(&self.0.name, "estimate", graph.name());
        // SAFETY: the graph is valid for the call, nodes and ends are slices and the last end is the length of the
        // nodes, and there is one record per part.
        let status = unsafe {
            call(
                self.0.raw,
                graph.raw(),
                nodes.as_ptr(),
                ends.as_ptr(),
                ends.len() as u64,
                costs.as_mut_ptr(),
                stride,
                &raw mut record,
            )
        };
        drop(listed);
        if status == abi::POLYCHIP_STATUS_UNSUPPORTED {
            return Ok(vec![None; ends.len()]);
        }
        self.0.check("estimate", status, &record)?;
        let costs = costs.costs().map_err(|words| self.broken(words))?;
        Ok(costs
            .iter()
            .map(|cost| Cost::said(cost, self.0.info.emulated))
            .collect())
    }

    /// Compiles a part. May block for a long time.
    ///
    /// # Errors
    /// The device refused the part; the message is the plugin's.
    pub fn compile(&self, graph: &FlatGraph, options: &CompileOptions) -> Result<Blob> {
        self.0.usable()?;
        Blob::compile(Arc::clone(&self.0), graph, options)
    }

    /// Makes an executable from a blob just compiled on this device; its memory moves without a
    /// copy. May block.
    ///
    /// # Errors
    /// The device refused the blob.
    pub fn load(&self, blob: Blob, graph: &FlatGraph, threads: u32) -> Result<Executable> {
        self.0.usable()?;
        Executable::load(Arc::clone(&self.0), blob, graph, threads)
    }

    /// Makes an executable from the bytes of a cached blob. May block.
    ///
    /// # Errors
    /// [`ErrorKind::BadBlob`] if the bytes are torn or from another build.
    pub fn load_bytes(&self, bytes: bytes::Bytes, graph: &FlatGraph, threads: u32) -> Result<Executable> {
        self.0.usable()?;
        Executable::load_bytes(Arc::clone(&self.0), bytes, graph, threads)
    }

    /// Makes a buffer in memory that the device chooses. May block.
    ///
    /// # Errors
    /// The device has no memory left.
    pub fn create_buffer(&self, bytes: u64, alignment: u64) -> Result<Buffer> {
        self.0.usable()?;
        Buffer::create(Arc::clone(&self.0), bytes, alignment)
    }

    /// Makes a buffer over shared memory, without a copy. May block.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the device cannot import such memory.
    pub fn import_buffer(&self, memory: &Memory) -> Result<Buffer> {
        self.0.usable()?;
        Buffer::import(Arc::clone(&self.0), memory)
    }

    /// Operating points of the device; empty if it offers none.
    ///
    /// # Errors
    /// The call failed.
    pub fn operating_points(&self) -> Result<Vec<OperatingPoint>> {
        let Some(call) = self.0.table().operating_points else {
            return Ok(Vec::new());
        };
        let mut points = vec![abi::polychip_operating_point::sized(); 64];
        let mut count = 0;
        let mut record = abi::polychip_error::sized();
        let stride = size_of::<abi::polychip_operating_point>() as u64;
        // SAFETY: there is room for the stated capacity, and the out pointers are ours.
        let status = unsafe {
            call(
                self.0.raw,
                points.as_mut_ptr(),
                points.len() as u64,
                stride,
                &raw mut count,
                &raw mut record,
            )
        };
        self.0.check("operating_points", status, &record)?;
        let known = |value: u64| (value != 0).then_some(value);
        Ok(points
            .iter()
            .take(usize::try_from(count).unwrap_or(usize::MAX))
            .map(|point| OperatingPoint {
                // SAFETY: the name lives as long as the device is open.
                name: unsafe { text(point.name) },
                frequency_khz: known(point.frequency_khz),
                power_mw: known(point.power_mw),
            })
            .collect())
    }

    /// Sets the device to an operating point, for all sessions. May block.
    ///
    /// # Errors
    /// The plugin offers none, or refused.
    pub fn set_operating_point(&self, index: u32) -> Result<()> {
        let Some(call) = self.0.table().set_operating_point else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                &self.0.name,
                "it has no operating points",
            ));
        };
        let mut record = abi::polychip_error::sized();
        // SAFETY: the device is open.
        let status = unsafe { call(self.0.raw, index, &raw mut record) };
        self.0.check("set_operating_point", status, &record)
    }

    /// Reads the sensors; all `None` if the device has none. May block briefly.
    ///
    /// # Errors
    /// The call failed.
    pub fn telemetry(&self) -> Result<Telemetry> {
        let Some(call) = self.0.table().telemetry else {
            return Ok(Telemetry::default());
        };
        let mut found = abi::polychip_telemetry::sized();
        let mut record = abi::polychip_error::sized();
        // SAFETY: the device is open and the out pointers are ours.
        let status = unsafe { call(self.0.raw, &raw mut found, &raw mut record) };
        self.0.check("telemetry", status, &record)?;
        let valid = self.believable(&found);
        let has = |bit| valid & bit != 0;
        Ok(Telemetry {
            temperature_mc: has(abi::POLYCHIP_TELEMETRY_TEMPERATURE).then_some(found.temperature_mc),
            power_mw: some(has(abi::POLYCHIP_TELEMETRY_POWER), found.power_mw),
            energy_uj: some(has(abi::POLYCHIP_TELEMETRY_ENERGY), found.energy_uj),
            frequency_khz: some(has(abi::POLYCHIP_TELEMETRY_FREQUENCY), found.frequency_khz),
            load_permille: has(abi::POLYCHIP_TELEMETRY_LOAD).then_some(found.load_permille),
            throttle: has(abi::POLYCHIP_TELEMETRY_THROTTLE).then_some(found.throttle),
            memory_used_bytes: some(has(abi::POLYCHIP_TELEMETRY_MEMORY), found.memory_used_bytes),
        })
    }
}

impl Executable {
    /// Whether the executable was loaded by this device.
    #[must_use]
    pub fn is_of(&self, device: &Device) -> bool {
        Arc::ptr_eq(&self.0.device, &device.0)
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Device").field(&self.0.name).finish()
    }
}
