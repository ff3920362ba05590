//! What a device is: kind, names, limits, and which memory of the host it takes.
//!
//! Invariant: a figure is `Some` only where the plugin stated it.

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
    /// The word for people and JSON.
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

/// When a part that a device has begun gives way to one of a higher priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Preemption {
    /// It is not known: the plugin does not say, or is older than the question.
    Unknown,
    /// Never: it runs to its end.
    None,
    /// Between two of its commands.
    Commands,
    /// At any time.
    AnyTime,
}

impl Preemption {
    /// The word for people and JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Preemption::Unknown => "unknown",
            Preemption::None => "none",
            Preemption::Commands => "commands",
            Preemption::AnyTime => "any_time",
        }
    }

    /// What a code of the contract means; a later code is not known.
    pub(crate) fn of(code: u32) -> Preemption {
        match code {
            abi::POLYCHIP_PREEMPTION_NONE => Preemption::None,
            abi::POLYCHIP_PREEMPTION_COMMANDS => Preemption::Commands,
            abi::POLYCHIP_PREEMPTION_ANY_TIME => Preemption::AnyTime,
            _ => Preemption::Unknown,
        }
    }

    /// A part that was begun gives way.
    #[must_use]
    pub fn is_possible(self) -> bool {
        matches!(self, Preemption::Commands | Preemption::AnyTime)
    }
}

/// What a device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Kind of chip.
    pub kind: DeviceKind,
    /// Name for people.
    pub name: String,
    /// Maker.
    pub vendor: String,
    /// System on chip, or empty.
    pub soc: String,
    /// Version of the driver or the vendor's library.
    pub driver: String,
    /// Memory that parts may use, in bytes, where limited.
    pub memory_bytes: Option<u64>,
    /// Peak arithmetic rate for f32, in multiply-adds per second, where known.
    pub peak_macs_per_s: Option<u64>,
    /// Peak memory rate, in bytes per second, where known.
    pub peak_bytes_per_s: Option<u64>,
    /// When the peak rates were measured, in seconds since 1970; none where they are stated.
    pub rates_measured_s: Option<u64>,
    /// Rate of the bus between memory of the host and the device's own, in bytes per second, where there is one.
    pub link_bytes_per_s: Option<u64>,
    /// When a part that it has begun gives way to a more urgent one.
    pub preemption: Preemption,
    /// Longest time until it has given way, in nanoseconds, where it does and there is a bound.
    pub preemption_bound_ns: Option<u64>,
    /// Parts that the device gains from having at once, where known.
    pub queue_depth: Option<NonZeroU32>,
    /// Time that the device loses where it goes from a part of one plan to one of another, in nanoseconds, where known.
    pub switch_ns: Option<u64>,
    /// Everything else that changes the device's speed or its blobs: cores, threads, instruction set, configuration.
    pub settings: String,
    /// Computes on host memory without a copy.
    pub shares_host_memory: bool,
    /// Takes host memory as the host has it, on a page, by `buffer_import`.
    pub imports_host_memory: bool,
    /// Anonymous memory files can be imported without a copy.
    pub imports_memory_files: bool,
    /// Linux dma-bufs can be imported without a copy, and the host can make them.
    pub imports_dma_bufs: bool,
    /// The figures are not a real chip's.
    pub emulated: bool,
}

impl DeviceInfo {
    /// Uses memory of the host in place: by its address, as an anonymous file or as a dma-buf.
    #[must_use]
    pub fn imports_memory(&self) -> bool {
        self.imports_host_memory || self.imports_memory_files || self.imports_dma_bufs
    }

    /// The kinds of host memory that it uses in place, for people.
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

    /// Takes dma-bufs and nothing else of the host.
    #[must_use]
    pub fn wants_dma_bufs(&self) -> bool {
        self.imports_dma_bufs && !self.imports_host_memory && !self.imports_memory_files
    }

    /// Is better off with an anonymous file: the device takes nothing else, or is no CPU, whose driver may hand
    /// a file on to where an address means nothing.
    #[must_use]
    pub fn wants_memory_files(&self) -> bool {
        self.imports_memory_files && (!self.imports_host_memory || self.kind != DeviceKind::Cpu)
    }
}
