//! The CPU plugin: every op that Polychip knows, on the cores of this machine.
//!
//! Invariants:
//! 1. `compile` decides everything: kernels, layouts, memory, packed weights. A run of known shapes makes no
//!    decision, allocates nothing and holds no lock while it computes.
//! 2. What a fast kernel does not cover runs on the reference evaluator: slow and right, never wrong.
//! 3. The device has as many places as threads, and a run computes on as many as its part was compiled for, with a
//!    pool of its own: runs execute concurrently as long as places are free. Within a run all threads of its pool
//!    work on one step.
//!
//! Not here: kernels (`cpu-kernels`), the meaning of ops (`reference`), the C symbol (`cdylib`).
//! Start reading at [`CpuPlugin`], then `lower`, then `exec`.

#![deny(unsafe_code)]

mod arena;
mod arenas;
mod blob;
mod buffer;
mod caps;
mod cores;
mod estimate;
mod exec;
mod lower;
mod part;
mod plugin;
mod pools;
mod processor;
mod rates;
mod step;
mod telemetry;
mod tune;
mod weights;
mod work;

pub use blob::CpuBlob;
pub use estimate::{StepWork, work};
pub use exec::{CpuExecutable, CpuRun};
pub use plugin::{CpuDevice, CpuPlugin};

/// The export of this plugin, for a host that links it statically instead of opening its library.
pub extern "C" fn query(host_major: u32, host_minor: u32) -> *const polychip_sdk::abi::polychip_plugin_table {
    polychip_sdk::plugin_query::<CpuPlugin>(host_major, host_minor)
}
