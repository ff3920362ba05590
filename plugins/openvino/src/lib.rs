//! The openvino plugin: the devices that Intel's OpenVINO finds, driven through its C library.
//!
//! Invariants:
//! 1. Only `caps` decides what is supported; `lower` compiles nothing else.
//! 2. A device computes f32 in f32 unless the host allows less.
//! 3. All work that depends only on constants happens in `compile` and `load`. A warm run allocates
//!    nothing here.
//!
//! Not here: the C symbol (`cdylib`), the C contract itself (the SDK keeps it), the library's
//! declarations (`polychip-sys`), the ONNX model of a part (`polychip_sdk::onnx`). Start reading at
//! [`OpenvinoPlugin`], then `caps`, then `lower`, then `exec`.

#![deny(unsafe_code)]

mod api;
mod buffer;
mod caps;
mod cores;
mod exec;
mod lower;
mod model;
mod plugin;
mod probe;
mod shared;
mod telemetry;

pub use exec::{OpenvinoExecutable, OpenvinoRun};
pub use lower::OpenvinoBlob;
pub use plugin::{OpenvinoDevice, OpenvinoPlugin};

/// The export of this plugin, for a host that links it statically.
pub extern "C" fn query(host_major: u32, host_minor: u32) -> *const polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_query::<OpenvinoPlugin>(host_major, host_minor)
}
