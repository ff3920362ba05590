//! The rknn plugin: Rockchip's NPUs, driven through the vendor's runtime, with parts compiled by
//! the vendor's toolkit.
//!
//! Invariants:
//! 1. Only `caps` decides what is supported; `lower` compiles nothing else, and nothing that the
//!    toolkit puts on a CPU.
//! 2. The chip computes in 16-bit floats: nothing is compiled for it if the session requires f32.
//! 3. Output of the toolkit, a third-party program, is checked for every part.
//! 4. Cache maintenance happens in `begin_access` and `end_access`; if other devices share memory,
//!    also in the runtime.
//!
//! Not here: the C symbol (`cdylib`), the C contract itself (the SDK keeps it), the runtime's
//! declarations (`polychip-sys`), the ONNX model of a part (`polychip_sdk::onnx`). Start reading at
//! [`RknnPlugin`], then `caps`, then `lower` with `toolkit`, then `exec` with `driver`.

#![deny(unsafe_code)]

mod buffer;
mod caps;
mod chip;
mod convert;
mod driver;
mod exec;
mod lower;
mod plugin;
mod settings;
mod shared;
mod telemetry;
mod toolkit;

pub use buffer::RknnBuffer;
pub use exec::{RknnExecutable, RknnRun};
pub use plugin::{RknnDevice, RknnPlugin};

/// The export of this plugin, for a host that links it statically.
pub extern "C" fn query(host_major: u32, host_minor: u32) -> *const polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_query::<RknnPlugin>(host_major, host_minor)
}
