//! A device that a script describes: right answers, scripted time, energy, heat and faults. The double
//! for every test above the contract.
//!
//! Devices come from a TOML script (see [`Script`]): configuration `script` holds its text, or
//! `script_file` its path, or the environment's `POLYCHIP_NULL_SCRIPT` does. Without one there are none.
//!
//! Invariants:
//! 1. Answers are those of the scalar reference (`reference`), whatever the script says; a script may leave them out.
//! 2. Time is the host's clock: on virtual time nothing waits, and same script and calls give the same
//!    figures.
//! 3. Every figure is flagged emulated.
//!
//! One thing a real plugin must do and this one does not: run without allocating. The reference kernels
//! allocate.
//!
//! Start reading at `caps` (what is supported), then `lower` (compile and load), then `exec` (runs).

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
mod telemetry;
mod work;

pub use chip::{Chip, Gone, RunWork, Spent};
pub use fence::NullFence;
pub use plugin::{NullDevice, NullPlugin};
pub use script::{DeviceScript, PartialWork, Point, Script, ScriptError, Work};

/// The table of this plugin, to link it statically.
#[must_use]
pub fn table() -> &'static polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_table::<NullPlugin>()
}
