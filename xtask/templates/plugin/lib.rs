//! The xyz plugin: one device that computes Identity, Relu and Add on f32.
//!
//! Invariants:
//! 1. `caps` alone decides what is supported; `lower` asks it for support, estimates and blobs alike.
//! 2. Everything that depends on constants only happens in `compile` and `load`. A warm run allocates nothing.
//! 3. A blob holds all that the part needs, so that a cached one loads without the model.
//!
//! Not here: the C symbol (`cdylib`), the C contract itself (the SDK keeps it).
//! Start reading at [`XyzPlugin`], then `caps`, then `lower`, then `exec`. `docs/adding-a-plugin.md` states what each
//! call must do.

#![forbid(unsafe_code)]

mod buffer;
mod caps;
mod exec;
mod lower;
mod plugin;
mod telemetry;

pub use exec::{XyzExecutable, XyzRun};
pub use plugin::{XyzDevice, XyzPlugin};

/// The export of this plugin, for a host that links it statically instead of opening its library.
pub extern "C" fn query(host_major: u32, host_minor: u32) -> *const polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_query::<XyzPlugin>(host_major, host_minor)
}
