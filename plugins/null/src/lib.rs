//! Devices described by a script: correct outputs; scripted time, energy, heat and faults. The test
//! double for everything above the contract.
//!
//! Devices come from a TOML script (see [`Script`]): configuration `script` holds its text,
//! `script_file` its path, or the environment variable `POLYCHIP_NULL_SCRIPT` its path. Without a
//! script there are no devices.
//!
//! Invariants:
//! 1. Outputs are those of the scalar reference (`reference`), whatever the script states. A script
//!    may disable them.
//! 2. Time is the host's clock. On virtual time nothing waits, and the same script and calls yield
//!    the same figures.
//! 3. Every figure is flagged emulated.
//!
//! Unlike a real plugin, this one allocates during runs, because the reference kernels do.
//!
//! Start reading at `caps` (support), then `lower` (compile and load), then `exec` (runs).

#![forbid(unsafe_code)]

mod buffer;
mod caps;
mod chip;
mod exec;
mod fence;
mod lower;
mod pattern;
mod plugin;
mod record;
mod script;
mod shared;
mod telemetry;
mod work;

pub use chip::{Chip, Gone, RunWork, Spent};
pub use fence::NullFence;
pub use plugin::{NullDevice, NullPlugin};
pub use script::{DeviceScript, PartialWork, Point, Script, ScriptError, Work};
pub use telemetry::unit_noise;

/// The table of this plugin, to link it statically.
#[must_use]
pub fn table() -> &'static polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_table::<NullPlugin>()
}
