//! The ascend plugin: Huawei's Ascend boards, driven through AscendCL, with parts compiled by the vendor's `atc`.
//!
//! Invariants:
//! 1. `caps` alone says what is supported; `lower` compiles nothing else.
//! 2. The cores compute in 16-bit floats: nothing is compiled for them where the session wants f32 to stay f32.
//! 3. What `atc`, a program of others, writes is believed in no part unchecked.
//! 4. A board's memory is its own: bytes cross the link in accesses of the host's alone, and each crossing is counted.
//!
//! Not here: the C symbol (`cdylib`), the C contract itself (the SDK keeps it), the library's words (`polychip-sys`),
//! the ONNX model that a part is handed over as and the compiler's process (`polychip_lowering::handed`).
//! Start reading at [`AscendPlugin`], then `caps`, then `lower` with `atc`, then `exec` with `driver`.

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

/// The export of this plugin, for a host that links it statically instead of opening its library.
pub extern "C" fn query(host_major: u32, host_minor: u32) -> *const polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_query::<AscendPlugin>(host_major, host_minor)
}
