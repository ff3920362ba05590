//! A device: its description, supported nodes, costs, compilation and memory.

use std::num::NonZeroU64;
use std::sync::Arc;

use polychip_abi as abi;

use crate::{
    Blob, Buffer, CompileOptions, Cost, Error, Executable, Fence, GraphView, LoadSource, Memory, MemoryKind,
    MemoryKinds, Result, Support, Telemetry,
};

/// Kind of chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum DeviceKind {
    /// A general-purpose processor.
    Cpu = abi::POLYCHIP_DEVICE_CPU,
    /// A graphics processor.
    Gpu = abi::POLYCHIP_DEVICE_GPU,
    /// A processor for neural networks.
    Npu = abi::POLYCHIP_DEVICE_NPU,
    /// A digital signal processor.
    Dsp = abi::POLYCHIP_DEVICE_DSP,
}

/// When a running part yields to one of a higher priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preemption {
    /// Unknown.
    Unknown,
    /// Never: a part runs to its end.
    None,
    /// Between two of its commands.
    Commands {
        /// Longest time until the part has yielded, in nanoseconds; `None` if no bound holds for
        /// all parts.
        bound_ns: Option<NonZeroU64>,
    },
    /// At any time.
    AnyTime {
        /// The same as for `Commands`.
        bound_ns: Option<NonZeroU64>,
    },
}

impl Preemption {
    /// The code of the contract, and the bound in nanoseconds; 0 if unbounded.
    pub(crate) fn record(self) -> (u32, u64) {
        let bound = |bound: Option<NonZeroU64>| bound.map_or(0, NonZeroU64::get);
        match self {
            Preemption::Unknown => (abi::POLYCHIP_PREEMPTION_UNKNOWN, 0),
            Preemption::None => (abi::POLYCHIP_PREEMPTION_NONE, 0),
            Preemption::Commands { bound_ns } => (abi::POLYCHIP_PREEMPTION_COMMANDS, bound(bound_ns)),
            Preemption::AnyTime { bound_ns } => (abi::POLYCHIP_PREEMPTION_ANY_TIME, bound(bound_ns)),
        }
    }
}

/// Description of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Kind of chip.
    pub kind: DeviceKind,
    /// Its figures are not those of a real chip.
    pub emulated: bool,
    /// Runs use imported host memory without a copy.
    pub shares_host_memory: bool,
    /// Its runs end one after the other, in the order of their `execute` calls. This does not
    /// affect plans, in which the parts of a device run one at a time anyway.
    pub serial: bool,
    /// Memory kinds that [`Device::buffer_import`] accepts.
    pub import_kinds: MemoryKinds,
    /// Memory kinds that [`Buffer::export`] offers.
    pub export_kinds: MemoryKinds,
    /// Alignment required of imported host memory, in bytes.
    pub import_alignment: u32,
    /// Human-readable name.
    pub name: String,
    /// Manufacturer.
    pub vendor: String,
    /// System on chip, or empty.
    pub soc: String,
    /// Version of the driver or the vendor's library.
    pub driver: String,
    /// Memory available to parts, in bytes; 0 if the device sets no limit.
    pub memory_bytes: u64,
    /// Peak arithmetic rate for f32, in multiply-adds per second; 0 if unknown.
    pub peak_macs_per_s: u64,
    /// Peak memory rate, in bytes per second; 0 if unknown.
    pub peak_bytes_per_s: u64,
    /// Everything else that affects the speed of its parts or the contents of its blobs: cores and
    /// threads, instruction set, clock, configuration; in the form that [`settings`] writes.
    /// Devices or configurations of different speed must differ here.
    pub settings: String,
    /// Time at which the peak rates were measured, in seconds since 1970; `None` if they are stated
    /// figures.
    pub rates_measured_s: Option<u64>,
    /// Rate of the bus between host memory and the device's own memory, in bytes per second; 0 if
    /// there is no bus.
    pub link_bytes_per_s: u64,
    /// When a running part yields to a more urgent one.
    pub preemption: Preemption,
    /// Number of parts that the device benefits from having at once; 0 if unknown.
    pub queue_depth: u32,
    /// Time lost when the device switches from a part of one plan to a part of another, in
    /// nanoseconds; 0 if unknown.
    pub switch_ns: u64,
}

/// Formats [`DeviceInfo::settings`]: entries `key=value`, sorted by key. Spaces in values become
/// `_`.
///
/// ```
/// assert_eq!(polychip_sdk::settings([("tune", "off".into()), ("cores", "0 1".into())]), "cores=0_1 tune=off");
/// ```
#[must_use]
pub fn settings<const N: usize>(mut named: [(&str, String); N]) -> String {
    named.sort_unstable();
    let words = named.map(|(key, value)| format!("{key}={}", value.replace(char::is_whitespace, "_")));
    words.join(" ")
}

/// A setting of clocks and voltage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatingPoint {
    /// Name.
    pub name: String,
    /// Clock, in kilohertz; 0 if unknown.
    pub frequency_khz: u64,
    /// Typical power under load, in milliwatts; 0 if unknown.
    pub power_mw: u64,
}

/// Optional calls that a plugin offers. The fields are named after the calls; a call whose field is
/// `false` is null in the plugin's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each field is the call of that name
pub struct Offers {
    pub operating_points: bool,
    pub set_operating_point: bool,
    pub estimate: bool,
    pub buffer_export: bool,
    pub cancel: bool,
    pub device_reset: bool,
    pub fence_on_signal: bool,
    pub fence_import_fd: bool,
    pub fence_export_fd: bool,
    pub fence_timing: bool,
    pub fence_output_shape: bool,
    pub fence_steps: bool,
    pub telemetry: bool,
}

impl Offers {
    /// No optional call.
    pub const NONE: Offers = Offers {
        operating_points: false,
        set_operating_point: false,
        estimate: false,
        buffer_export: false,
        cancel: false,
        device_reset: false,
        fence_on_signal: false,
        fence_import_fd: false,
        fence_export_fd: false,
        fence_timing: false,
        fence_output_shape: false,
        fence_steps: false,
        telemetry: false,
    };
}

/// An open device. Methods are called from several threads at once.
pub trait Device: Send + Sync + Sized + 'static {
    /// Result of [`Device::compile`].
    type Blob: Blob;
    /// Result of [`Device::load`].
    type Executable: Executable<Buffer = Self::Buffer, Fence = Self::Fence>;
    /// Memory bound to ports.
    type Buffer: Buffer;
    /// The end of a run.
    type Fence: Fence;
    /// Optional calls that this plugin implements, here and in [`Buffer`] and [`Fence`].
    const OFFERS: Offers;

    /// Description of the device. Does not block.
    fn info(&self) -> &DeviceInfo;

    /// Operating points that the device supports.
    fn operating_points(&self) -> &[OperatingPoint] {
        &[]
    }

    /// Sets the device to operating point `index`, for all sessions. May block.
    ///
    /// # Errors
    /// There is no such point, or the driver refuses.
    fn set_operating_point(&self, _index: u32) -> Result<()> {
        Err(Error::unsupported("operating points cannot be set"))
    }

    /// Reports for each node of the whole graph whether this device runs it. May block.
    ///
    /// # Errors
    /// The query itself fails; a node that is not supported is an answer.
    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>>;

    /// Estimates the cost of the listed nodes run as one part. Does not measure or block.
    ///
    /// # Errors
    /// There is no estimate.
    fn estimate(&self, _graph: &GraphView<'_>, _nodes: &[u32]) -> Result<Cost> {
        Err(Error::unsupported("this device estimates nothing"))
    }

    /// Estimates each of several parts of one graph, as [`Device::estimate`] does; a part without
    /// an estimate has a cost without figures. The host passes all nodes of a model, each as a part
    /// of its own. A plugin that must read the whole graph first implements this method, so that it
    /// does so once.
    ///
    /// # Errors
    /// The query itself fails.
    fn estimate_parts(&self, graph: &GraphView<'_>, parts: &[&[u32]]) -> Result<Vec<Cost>> {
        let estimate = |nodes: &&[u32]| self.estimate(graph, nodes).or_else(Cost::unknown);
        parts.iter().map(estimate).collect()
    }

    /// Compiles a part: all work that depends on constants only. May block for a long time.
    ///
    /// # Errors
    /// A node turns out not to be supported, or the compiler fails.
    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<Self::Blob>;

    /// Makes an executable from a blob. May block.
    ///
    /// # Errors
    /// `BadBlob` if the bytes are torn, stale or foreign.
    fn load(&self, source: LoadSource<'_, Self::Blob>) -> Result<Arc<Self::Executable>>;

    /// Makes a buffer of `wanted.bytes` bytes. May block.
    ///
    /// # Errors
    /// Memory runs out, or the kind is not offered.
    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<Self::Buffer>>;

    /// Makes a buffer over the host's memory without a copy. May block. The host keeps the memory
    /// valid until the buffer is destroyed. A file descriptor belongs to the host: duplicate or map
    /// it.
    ///
    /// # Errors
    /// `Unsupported` if this memory cannot be used without a copy.
    fn buffer_import(&self, memory: &Memory) -> Result<Arc<Self::Buffer>>;

    /// Resets a lost or hung device: all its runs end and its executables become invalid. May
    /// block.
    ///
    /// # Errors
    /// The device does not recover.
    fn reset(&self) -> Result<()> {
        Err(Error::unsupported("this device cannot be reset"))
    }

    /// Makes a fence from a sync file. The descriptor belongs to the host.
    ///
    /// # Errors
    /// The file is not a sync file.
    fn fence_import(&self, _fd: i64) -> Result<Arc<Self::Fence>> {
        Err(Error::unsupported("sync files are not offered"))
    }

    /// Reads the sensors. May block briefly.
    ///
    /// # Errors
    /// A sensor does not respond.
    fn telemetry(&self) -> Result<Telemetry> {
        Err(Error::unsupported("this device has no sensors"))
    }
}

impl DeviceInfo {
    /// The description of a device of this kind and name that imports only host memory and has no
    /// known limits.
    #[must_use]
    pub fn new(kind: DeviceKind, name: impl Into<String>) -> DeviceInfo {
        DeviceInfo {
            kind,
            emulated: false,
            shares_host_memory: false,
            serial: false,
            import_kinds: MemoryKinds::of(&[MemoryKind::Host]),
            export_kinds: MemoryKinds::of(&[]),
            import_alignment: 64,
            name: name.into(),
            vendor: String::new(),
            soc: String::new(),
            driver: String::new(),
            memory_bytes: 0,
            peak_macs_per_s: 0,
            peak_bytes_per_s: 0,
            settings: String::new(),
            rates_measured_s: None,
            link_bytes_per_s: 0,
            preemption: Preemption::Unknown,
            queue_depth: 0,
            switch_ns: 0,
        }
    }
}
