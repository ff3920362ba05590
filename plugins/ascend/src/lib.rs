//! The ascend plugin: Huawei's Ascend boards, driven through AscendCL, with parts compiled by the
//! vendor's `atc`.
//!
//! Invariants:
//! 1. Only `caps` decides what is supported; `lower` compiles nothing else.
//! 2. The cores compute in 16-bit floats: nothing is compiled for them if the session requires f32.
//! 3. Output of `atc`, a third-party program, is checked for every part.
//! 4. A board has its own memory: bytes cross the link only in host accesses, and each transfer is
//!    counted.
//!
//! Not here: the C symbol (`cdylib`), the C contract itself (the SDK keeps it), the library's
//! declarations (`polychip-sys`), the ONNX model of a part and the compiler's process
//! (`polychip_lowering::vendor_compiler`). Start reading at [`AscendPlugin`], then `caps`, then `lower` with
//! `atc`, then `exec` with `driver`.

#![deny(unsafe_code)]

mod atc;
mod buffer;
mod caps;
mod driver;
mod exec;
mod lower;
mod plugin;
mod settings;
mod shared;
mod soc;
mod telemetry;

pub use buffer::{AscendBuffer, AscendSide};
pub use exec::{AscendExecutable, AscendRun};
pub use plugin::{AscendDevice, AscendPlugin};

/// The export of this plugin, for a host that links it statically.
pub extern "C" fn query(host_major: u32, host_minor: u32) -> *const polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_query::<AscendPlugin>(host_major, host_minor)
}
