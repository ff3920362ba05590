//! Description of a device: kind, names, limits, and the host memory that it can import.
//!
//! Invariant: a figure is `Some` only if the plugin stated it.

use std::num::NonZeroU32;

use polychip_abi as abi;

/// Kind of chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A general-purpose processor.
    Cpu,
    /// A graphics processor.
    Gpu,
    /// A processor for neural networks.
    Npu,
    /// A digital signal processor.
    Dsp,
    /// A kind that this build does not know.
    Other,
}

impl DeviceKind {
    /// Name for messages and JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Gpu => "gpu",
            DeviceKind::Npu => "npu",
            DeviceKind::Dsp => "dsp",
            DeviceKind::Other => "other",
        }
    }
}

/// When a running part yields to one of a higher priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Preemption {
    /// Unknown: the plugin does not report it, or predates the field.
    Unknown,
    /// Never: a part runs to its end.
    None,
    /// Between two of its commands.
    Commands,
    /// At any time.
    AnyTime,
}

impl Preemption {
    /// Name for messages and JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Preemption::Unknown => "unknown",
            Preemption::None => "none",
            Preemption::Commands => "commands",
            Preemption::AnyTime => "any_time",
        }
    }

    /// The preemption for a code of the contract; unknown for a later code.
    pub(crate) fn of(code: u32) -> Preemption {
        match code {
            abi::POLYCHIP_PREEMPTION_NONE => Preemption::None,
            abi::POLYCHIP_PREEMPTION_COMMANDS => Preemption::Commands,
            abi::POLYCHIP_PREEMPTION_ANY_TIME => Preemption::AnyTime,
            _ => Preemption::Unknown,
        }
    }

    /// Whether a running part yields.
    #[must_use]
    pub fn is_possible(self) -> bool {
        matches!(self, Preemption::Commands | Preemption::AnyTime)
    }
}

/// Description of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Kind of chip.
    pub kind: DeviceKind,
    /// Human-readable name.
    pub name: String,
    /// Manufacturer.
    pub vendor: String,
    /// System on chip, or empty.
    pub soc: String,
    /// Version of the driver or of the vendor's library.
    pub driver: String,
    /// Memory available to parts, in bytes, if limited.
    pub memory_bytes: Option<u64>,
    /// Peak arithmetic rate for f32, in multiply-adds per second, if known.
    pub peak_macs_per_s: Option<u64>,
    /// Peak memory rate, in bytes per second, if known.
    pub peak_bytes_per_s: Option<u64>,
    /// Time at which the peak rates were measured, in seconds since 1970; `None` if they are stated
    /// figures.
    pub rates_measured_s: Option<u64>,
    /// Rate of the bus between host memory and the device's own memory, in bytes per second, if
    /// there is one.
    pub link_bytes_per_s: Option<u64>,
    /// When a running part yields to a more urgent one.
    pub preemption: Preemption,
    /// Longest time until it has yielded, in nanoseconds, if it yields and there is a bound.
    pub preemption_bound_ns: Option<u64>,
    /// Number of parts that the device benefits from having at once, if known.
    pub queue_depth: Option<NonZeroU32>,
    /// Time lost when the device switches from a part of one plan to a part of another, in
    /// nanoseconds, if known.
    pub switch_ns: Option<u64>,
    /// Everything else that affects the device's speed or its blobs: cores, threads, instruction
    /// set, configuration.
    pub settings: String,
    /// Runs use imported host memory without a copy.
    pub shares_host_memory: bool,
    /// `buffer_import` accepts page-aligned host memory.
    pub imports_host_memory: bool,
    /// Anonymous memory files can be imported without a copy.
    pub imports_memory_files: bool,
    /// Linux dma-bufs can be imported without a copy, and the host can make them.
    pub imports_dma_bufs: bool,
    /// The figures are not those of a real chip.
    pub emulated: bool,
}

impl DeviceInfo {
    /// Whether the device uses host memory in place: by its address, as an anonymous file or as a
    /// dma-buf.
    #[must_use]
    pub fn imports_memory(&self) -> bool {
        self.imports_host_memory || self.imports_memory_files || self.imports_dma_bufs
    }

    /// The kinds of host memory that the device uses in place, for messages.
    #[must_use]
    pub fn imports(&self) -> String {
        let kinds = [
            (self.imports_host_memory, "addresses"),
            (self.imports_memory_files, "memory files"),
            (self.imports_dma_bufs, "dma-bufs"),
        ];
        let kinds: Vec<&str> = kinds
            .iter()
            .filter(|(has, _)| *has)
            .map(|(_, word)| *word)
            .collect();
        match &kinds[..] {
            [] => "none".to_owned(),
            kinds => kinds.join(" or "),
        }
    }

    /// Whether dma-bufs are the only host memory that the device imports.
    #[must_use]
    pub fn wants_dma_bufs(&self) -> bool {
        self.imports_dma_bufs && !self.imports_host_memory && !self.imports_memory_files
    }

    /// Whether an anonymous file suits the device best. It does if the device imports nothing else.
    /// It also does if the device is not a CPU: its driver may need the memory in a process or chip
    /// where an address of this process has no meaning.
    #[must_use]
    pub fn wants_memory_files(&self) -> bool {
        self.imports_memory_files && (!self.imports_host_memory || self.kind != DeviceKind::Cpu)
    }
}
