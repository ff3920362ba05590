//! The opencl plugin: GPUs of phones (Adreno, Mali) by OpenCL, with the same generated kernels as the gpu plugin.
//!
//! Invariants:
//! 1. What is supported and how a part is lowered is `polychip_gpu_lowering`'s: a kernel is never written twice. Its
//!    WGSL is translated to OpenCL C ([`translate`]).
//! 2. OpenCL's library is opened in `create`; where there is none, `create` refuses and says so.
//! 3. A blob holds all that the part needs, the driver's binaries too.
//!
//! Not here: the C symbol (`cdylib`), the C contract itself (the SDK keeps it), sensors (OpenCL has none).
//! Start reading at [`OpenclPlugin`], then `source`, then `exec`.

#![deny(unsafe_code)]

mod autotune;
mod buffer;
mod caps;
mod driver;
mod exec;
mod lower;
mod plugin;
mod shared;
mod source;
mod telemetry;

pub use buffer::OpenclBuffer;
pub use exec::{OpenclExecutable, OpenclRun};
pub use plugin::{OpenclDevice, OpenclPlugin};
pub use source::{ENTRY, Half, translate};

/// The export of this plugin, for a host that links it statically instead of opening its library.
pub extern "C" fn query(host_major: u32, host_minor: u32) -> *const polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_query::<OpenclPlugin>(host_major, host_minor)
}
