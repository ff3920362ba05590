//! The place and program of a measurement.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A board of the farm, as its inventory names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct InventoryEntry {
    /// Name in the inventory (labgrid's place, or the board's name in `farm.toml`).
    pub name: String,
    /// How it is reached: `local`, `ssh`, `adb`, `simulated`.
    pub transport: String,
    /// Tags of the inventory, `key=value`, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// Description of a board, as read on the board itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Board {
    /// Name of the SoC (`/sys/devices/soc0`, `ro.soc.model`, device tree).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soc: Option<String>,
    /// Name of the board or phone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Name of the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Operating system and kernel.
    pub os: String,
    /// Instruction set (`aarch64`, `x86_64`).
    pub arch: String,
    /// Processors that the system has online.
    pub cores: u32,
    /// Main memory, in bytes.
    pub memory_bytes: u64,
    /// An emulator or a simulation: its times say nothing of a chip.
    pub emulated: bool,
}

/// The program that measured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Build {
    /// Version of Polychip.
    pub version: String,
    /// Commit of the build, with `-dirty` for changed files; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// BLAKE3 of the runner's file, 64 hex digits.
    pub runner: String,
}
