//! The gpu plugin: every GPU with a Vulkan, Metal or Direct3D 12 driver, by kernels that are generated per part.
//!
//! Invariants:
//! 1. `caps` says what is supported by lowering each node alone; `lower` compiles nothing else.
//! 2. Everything that depends on constants only happens in `compile` and `load`. A warm run allocates nothing.
//! 3. A blob holds all that the part needs, so that a cached one loads without the model.
//!
//! Not here: the C symbol (`cdylib`), the C contract itself (the SDK keeps it).
//! Start reading at [`GpuPlugin`], then `caps`, then `lower`, then `exec`. What each call must do stands in
//! `docs/adding-a-plugin.md`.

#![deny(unsafe_code)]

mod blob;
mod buffer;
mod caps;
mod driver;
mod estimate;
mod exec;
mod guard;
mod lower;
mod part;
mod plugin;
mod probe;
mod program;
mod target;
mod telemetry;
mod tune;

pub use buffer::GpuBuffer;
pub use exec::{GpuExecutable, GpuRun};
pub use plugin::{GpuDevice, GpuPlugin};

/// The export of this plugin, for a host that links it statically instead of opening its library.
pub extern "C" fn query(host_major: u32, host_minor: u32) -> *const polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_query::<GpuPlugin>(host_major, host_minor)
}
