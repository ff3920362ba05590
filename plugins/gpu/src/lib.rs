//! The gpu plugin: every GPU with a Vulkan, Metal or Direct3D 12 driver, by kernels that are generated per part.
//!
//! Invariants:
//! 1. Everything that depends on constants only happens in `compile` and `load`. A warm run allocates nothing.
//! 2. Nothing here reads a graph: what is supported, what it costs and how it is computed is `lowering`'s.
//!
//! Not here: the C symbol (`cdylib`), the C contract itself (the SDK keeps it), parts as launches (`lowering`).
//! Start reading at [`GpuPlugin`], then `lowering`, then `exec`. What each call must do stands in
//! `docs/adding-a-plugin.md`.

#![deny(unsafe_code)]

mod autotune;
mod buffer;
mod caps;
mod constants;
mod driver;
mod exec;
mod lower;
mod plugin;
mod probe;
mod shared;
mod stated;
mod telemetry;

pub use buffer::GpuBuffer;
pub use exec::{GpuExecutable, GpuRun};
pub use plugin::{GpuDevice, GpuPlugin};

/// The export of this plugin, for a host that links it statically instead of opening its library.
pub extern "C" fn query(host_major: u32, host_minor: u32) -> *const polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_query::<GpuPlugin>(host_major, host_minor)
}
