//! What a device is: kind, names, limits, and which memory of the host it takes.
//!
//! Invariant: a figure is `Some` only where the plugin stated it.

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
