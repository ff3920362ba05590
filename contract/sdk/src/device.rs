//! A device: what it is, what it runs, what that costs, and how parts get there.

use std::num::NonZeroU64;
use std::sync::Arc;

use polychip_abi as abi;

use crate::{
    Blob, Buffer, CompileOptions, Cost, Error, Executable, Fence, GraphView, LoadSource, Memory, MemoryKind,
    MemoryKinds, Result, Support, Telemetry,
};

/// What sort of chip a device is.
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

/// When a part that a device has begun gives way to one of a higher priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preemption {
    /// It is not known.
    Unknown,
    /// Never: it runs to its end.
    None,
    /// Between two of its commands.
    Commands {
        /// Longest time until it has given way, in nanoseconds, where there is such a bound for all parts.
        bound_ns: Option<NonZeroU64>,
    },
    /// At any time.
    AnyTime {
        /// As that of `Commands`.
        bound_ns: Option<NonZeroU64>,
    },
}

impl Preemption {
    /// The code of the contract, and the bound in nanoseconds; 0 where there is none.
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

/// What a device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Sort of chip.
    pub kind: DeviceKind,
    /// Its figures are not a real chip's.
    pub emulated: bool,
    /// It computes on host memory without a copy.
    pub shares_host_memory: bool,
    /// Its runs end one after the other, in the order of their `execute`. It says nothing of plans, in which the parts of
    /// a device take turns anyway.
    pub serial: bool,
    /// Memory kinds that [`Device::buffer_import`] takes.
    pub import_kinds: MemoryKinds,
    /// Memory kinds that [`Buffer::export`] gives.
    pub export_kinds: MemoryKinds,
    /// Alignment that host memory needs to be imported, in bytes.
    pub import_alignment: u32,
    /// Name for people.
    pub name: String,
    /// Maker.
    pub vendor: String,
    /// System on chip, or empty.
    pub soc: String,
    /// Version of the driver or the vendor's library.
    pub driver: String,
    /// Memory that parts may use, in bytes; 0 where the device sets no limit.
    pub memory_bytes: u64,
    /// Peak arithmetic rate for f32, in multiply-adds per second; 0 where not known.
    pub peak_macs_per_s: u64,
    /// Peak memory rate, in bytes per second; 0 where not known.
    pub peak_bytes_per_s: u64,
    /// Everything else that changes how fast its parts run or what its blobs hold: cores and threads, instruction set,
    /// clock, configuration; as [`settings`] writes it. Two devices or configurations of different speed differ in it.
    pub settings: String,
    /// When the peak rates were measured, in seconds since 1970; none where they are stated.
    pub rates_measured_s: Option<u64>,
    /// Rate of the bus between memory of the host and the device's own, in bytes per second; 0 where there is none.
    pub link_bytes_per_s: u64,
    /// When a part that it has begun gives way to a more urgent one.
    pub preemption: Preemption,
    /// Parts that it gains from having at once; 0 where not known.
    pub queue_depth: u32,
    /// Time that it loses where it goes from a part of one plan to one of another, in nanoseconds; 0 where not known.
    pub switch_ns: u64,
}

/// The text of what changes a device's speed: words `key=value` in the order of their keys. Blanks in values become `_`.
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
    /// Clock, in kilohertz; 0 where not known.
    pub frequency_khz: u64,
    /// Typical power under load, in milliwatts; 0 where not known.
    pub power_mw: u64,
}

/// Optional calls that a plugin offers; the others are null in its table.
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
    /// None of them.
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

/// An open device.
pub trait Device: Send + Sync + Sized + 'static {
    /// What [`Device::compile`] gives.
    type Blob: Blob;
    /// What [`Device::load`] gives.
    type Executable: Executable<Buffer = Self::Buffer, Fence = Self::Fence>;
    /// Memory that ports are bound to.
    type Buffer: Buffer;
    /// The end of a run.
    type Fence: Fence;
    /// Optional calls that this plugin implements, here and in [`Buffer`] and [`Fence`].
    const OFFERS: Offers;

    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// Settings it can be put to.
    fn operating_points(&self) -> &[OperatingPoint] {
        &[]
    }

    /// Puts it to operating point `index`, for all sessions. May block.
    ///
    /// # Errors
    /// Where there is no such point or the driver refuses.
    fn set_operating_point(&self, _index: u32) -> Result<()> {
        Err(Error::unsupported("operating points cannot be set"))
    }

    /// Says for each node of the whole graph whether this device runs it.
    ///
    /// # Errors
    /// Where the question itself fails; a node that is not supported is an answer.
    fn query_support(&self, graph: &GraphView<'_>) -> Result<Vec<Support>>;

    /// Estimates the cost of the listed nodes run as one part. Does not measure.
    ///
    /// # Errors
    /// Where nothing can be said.
    fn estimate(&self, _graph: &GraphView<'_>, _nodes: &[u32]) -> Result<Cost> {
        Err(Error::unsupported("this device estimates nothing"))
    }

    /// Estimates each of several parts of one graph, as [`Device::estimate`] does; a part of which nothing can be said
    /// has a cost without figures. The host asks so for all nodes of a model, each as a part of its own: a plugin that
    /// reads the whole graph before it can say anything implements this, so that it does so once.
    ///
    /// # Errors
    /// Where the question itself fails.
    fn estimate_parts(&self, graph: &GraphView<'_>, parts: &[&[u32]]) -> Result<Vec<Cost>> {
        let estimate = |nodes: &&[u32]| self.estimate(graph, nodes).or_else(Cost::unknown);
        parts.iter().map(estimate).collect()
    }

    /// Compiles a part: everything that depends on constants only. May block for long.
    ///
    /// # Errors
    /// Where a node is not supported after all, or the compiler fails.
    fn compile(&self, graph: &GraphView<'_>, options: &CompileOptions) -> Result<Self::Blob>;

    /// Makes an executable of a blob. May block.
    ///
    /// # Errors
    /// `BadBlob` where the bytes are torn, stale or foreign.
    fn load(&self, source: LoadSource<'_, Self::Blob>) -> Result<Arc<Self::Executable>>;

    /// Makes a buffer of `wanted.bytes` bytes.
    ///
    /// # Errors
    /// Where memory runs out or the kind is not offered.
    fn buffer_create(&self, wanted: &Memory) -> Result<Arc<Self::Buffer>>;

    /// Makes a buffer over memory of the host without a copy. The host keeps it valid until the
    /// buffer is destroyed; a file descriptor is the host's: duplicate or map it.
    ///
    /// # Errors
    /// `Unsupported` where this memory cannot be used without a copy.
    fn buffer_import(&self, memory: &Memory) -> Result<Arc<Self::Buffer>>;

    /// Resets a lost or hung device: all its runs end and its executables are void. May block.
    ///
    /// # Errors
    /// Where the device does not come back.
    fn reset(&self) -> Result<()> {
        Err(Error::unsupported("this device cannot be reset"))
    }

    /// Makes a fence of a sync file; the descriptor stays the host's.
    ///
    /// # Errors
    /// Where the file is no sync file.
    fn fence_import(&self, _fd: i64) -> Result<Arc<Self::Fence>> {
        Err(Error::unsupported("sync files are not offered"))
    }

    /// Reads the sensors.
    ///
    /// # Errors
    /// Where a sensor does not answer.
    fn telemetry(&self) -> Result<Telemetry> {
        Err(Error::unsupported("this device has no sensors"))
    }
}

impl DeviceInfo {
    /// A device of this kind and name that imports host memory and nothing else, with no limits known.
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
