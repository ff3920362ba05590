//! The neuron plugin: MediaTek's NPUs, driven through the NeuronAdapter library.
//!
//! Invariants:
//! 1. Only `lower` decides what is offered: support is its dry run, plus the library's verdict on each operation.
//! 2. f32 is computed in f32 unless the host allows less.
//! 3. All work that depends only on constants happens in `compile` and `load`. A warm run allocates nothing here.
//!
//! Not here: the C symbol (`cdylib`), the C contract (the SDK keeps it), the library's declarations (`polychip-sys`), how a part is
//! read and its layouts planned (`polychip-lowering`).
//! Start reading at [`NeuronPlugin`], then `caps`, then `lower`, then `exec`.

#![deny(unsafe_code)]

mod api;
mod buffer;
mod caps;
mod exec;
mod lower;
mod plugin;
mod program;
mod shared;
mod soc;
mod telemetry;

pub use buffer::NeuronBuffer;
pub use exec::{NeuronExecutable, NeuronRun};
pub use plugin::{NeuronDevice, NeuronPlugin};

/// The export of this plugin, for a host that links it statically.
pub extern "C" fn query(host_major: u32, host_minor: u32) -> *const polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_query::<NeuronPlugin>(host_major, host_minor)
}
