//! The systems: a chip of each vendor, as its emulator knows it.

use polychip::Query;

/// A system: this machine's CPU, and a chip.
pub(crate) struct System {
    /// Its page's name.
    pub(crate) file: &'static str,
    /// What people call it.
    pub(crate) title: &'static str,
    pub(crate) plugin: &'static str,
    pub(crate) query: Query,
    /// Whether the chip computes in the host's memory.
    pub(crate) shares_memory: bool,
}

/// All of them.
pub(crate) const SYSTEMS: [System; 6] = [
    System {
        file: "snapdragon",
        title: "Snapdragon 8 Gen 3",
        plugin: "qnn",
        query: polychip_qnn::query,
        shares_memory: true,
    },
    System {
        file: "dimensity",
        title: "Dimensity 9300",
        plugin: "neuron",
        query: polychip_neuron::query,
        shares_memory: true,
    },
    System {
        file: "rk3588",
        title: "RK3588",
        plugin: "rknn",
        query: polychip_rknn::query,
        shares_memory: true,
    },
    System {
        file: "kirin-9010",
        title: "Kirin 9010",
        plugin: "nnrt",
        query: polychip_nnrt::query,
        shares_memory: true,
    },
    System {
        file: "a17-pro",
        title: "Apple A17 Pro",
        plugin: "coreml",
        query: polychip_coreml::query,
        shares_memory: true,
    },
    System {
        file: "atlas-300i-pro",
        title: "Atlas 300I Pro (Ascend 310P3)",
        plugin: "ascend",
        query: polychip_ascend::query,
        shares_memory: false,
    },
];
