//! The coreml plugin: Apple's Neural Engine and GPU, driven through Core ML.
//!
//! Invariants:
//! 1. A node is supported if our own package writer writes it, and `lower` writes nothing else.
//! 2. A device computes f32 in f32 unless the host allows less; the Neural Engine computes in 16
//!    bits and reports it.
//! 3. Nothing of Apple is linked: the plugin is built and tested on every system.
//!
//! Not here: the C symbol (`cdylib`), the C contract itself (the SDK keeps it), Objective-C
//! (`polychip-sys`). Start reading at [`CoremlPlugin`], then `lower`, then `package`, then `exec`.

#![deny(unsafe_code)]

mod blob;
mod buffer;
mod caps;
mod exec;
mod lower;
mod package;
mod plugin;
mod prepare;
mod program;
mod telemetry;
mod widen;

pub use exec::{CoremlExecutable, CoremlRun};
pub use lower::CoremlBlob;
pub use plugin::{CoremlDevice, CoremlPlugin};

/// The export of this plugin, for a host that links it statically.
pub extern "C" fn query(host_major: u32, host_minor: u32) -> *const polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_query::<CoremlPlugin>(host_major, host_minor)
}
