//! The nnrt plugin: NPUs of Kirin phones and others behind OpenHarmony's Neural Network Runtime.
//!
//! Invariants:
//! 1. Only `lower` decides what is offered: support is its dry run, plus the runtime's verdict on each operation.
//! 2. f32 is computed in f32 unless the host allows less.
//! 3. A tensor of a run is the host's memory behind its descriptor: the plugin copies none but new states.
//!
//! Not here: the C symbol (`cdylib`), the C contract (the SDK keeps it), the runtime's declarations (`polychip-sys`), how a part is
//! read and its layouts planned (`polychip-lowering`). Integers that stand for reals are not lowered yet: they are refused.
//! Start reading at [`NnrtPlugin`], then `caps`, then `lower`, then `exec`.

#![deny(unsafe_code)]

mod api;
mod buffer;
mod caps;
mod exec;
mod lower;
mod plugin;
mod program;
mod telemetry;

pub use buffer::NnrtBuffer;
pub use exec::{NnrtExecutable, NnrtRun};
pub use plugin::{NnrtDevice, NnrtPlugin};

/// The export of this plugin, for a host that links it statically.
pub extern "C" fn query(host_major: u32, host_minor: u32) -> *const polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_query::<NnrtPlugin>(host_major, host_minor)
}
