//! The QNN plugin: Qualcomm's neural processors through the vendor's own libQnnHtp.so and
//! libQnnSystem.so, opened at run time.
//!
//! Configuration of the plugin: `lib_dir`, the folder of both libraries (else `QNN_LIB_DIR`, then
//! `QNN_SDK_ROOT`); `soc`, the id or part number of the chip; `precision`, `reduced` if f32 tensors
//! may be computed in 16 bits; `memory` (`session::memory`) and `performance` (`telemetry`).
//!
//! Invariants:
//! 1. A node is supported if `lower` makes operations of it and the library accepts each of them.
//! 2. Ports are in ONNX order; inside a part, axis orders are planned once.
//! 3. A blob is loaded only by the build, library and chip that it was made by and for.
//! 4. Results of a library that declares that it emulates, or that is built for x86, are labelled
//!    emulated, and nothing is measured.
//!
//! Not here: the C symbol (`cdylib`), the C contract (the SDK keeps it), the vendor's declarations
//! (`sys`). Start reading at [`QnnPlugin`], then `caps`, `lower`, `session`, `exec`.

#![deny(unsafe_code)]

mod blob;
mod buffer;
mod caps;
mod exec;
mod lower;
mod plugin;
mod program;
mod session;
mod soc;
mod telemetry;

pub use exec::{QnnExecutable, QnnRun};
pub use plugin::{QnnDevice, QnnPlugin};

/// The export of this plugin, for a host that links it statically.
pub extern "C" fn query(host_major: u32, host_minor: u32) -> *const polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_query::<QnnPlugin>(host_major, host_minor)
}
