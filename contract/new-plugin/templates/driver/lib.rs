//! The xyz plugin: drives the chips of the xyz driver, a shared library with the interface of
//! `driver/xyz_driver.h`. It computes Identity, Relu, Add and MaxPool on f32.
//!
//! Invariants:
//! 1. Only `caps` decides what is supported. `lower` derives support, estimates and blobs from it.
//! 2. `compile` and `load` do all work that depends only on constants. A warm run allocates nothing.
//! 3. A blob contains everything that the part needs, so a cached blob loads without the model.
//! 4. Unsafe code is in `driver` alone, whose types are safe to use.
//!
//! Not here: the C export (`cdylib`), and the C contract, which the SDK implements.
//! Start reading at [`XyzPlugin`], then `shared`, then `driver`. To drive your chip, replace the folder
//! `driver`, then `src/driver`, then `caps`. `docs/adding-a-plugin.md` states what each call must do.

#![deny(unsafe_code)]

mod buffer;
mod caps;
mod driver;
mod exec;
mod lower;
mod part;
mod plugin;
mod shared;
mod telemetry;

pub use buffer::{XyzBuffer, XyzSide};
pub use exec::{XyzExecutable, XyzRun};
pub use plugin::{XyzDevice, XyzPlugin};

/// The query function of this plugin, for a program that links it instead of loading its library.
pub extern "C" fn query(host_major: u32, host_minor: u32) -> *const polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_query::<XyzPlugin>(host_major, host_minor)
}
