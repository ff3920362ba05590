//! Plugins in a process of their own: a proxy with the plugin contract on the host's side, and a
//! server on the other side that calls the plugin.
//!
//! The proxy is a plugin like any other: it is written with the SDK, so the host calls it through
//! the same table and is unaware of the process. The program `polychip-plugin-host` loads one
//! library and serves it.
//!
//! Invariants:
//! 1. The death, a hang or a malformed record of the plugin's process ends every open call and run
//!    as `DEVICE_LOST`, never this process.
//! 2. Every record of the other process is copied, then decoded with its lengths checked, then
//!    compared with the request. No index, size or address in it is used unchecked.
//! 3. Memory that both processes map is sealed against shrinking, so that neither can end the other
//!    by truncating it.
//! 4. What a run wrote lies in shared memory when the run ends, so that it can be read after the process has
//!    died. Copies between the plugin's own memory and shared memory are parts of runs, and counted as theirs.
//!
//! Not here: opening libraries (`contract/host`). Linux only; elsewhere [`Isolated::query`] states
//! that it is not supported. Start reading at [`Isolated`], then `proxy/process.rs` and
//! `server.rs`.

#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod fence_slots;
#[cfg(target_os = "linux")]
mod fenced_mapping;
#[cfg(target_os = "linux")]
mod frame;
#[cfg(target_os = "linux")]
mod graph_record;
#[cfg(target_os = "linux")]
mod message;
#[cfg(target_os = "linux")]
mod proxy;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod shared_file;

mod call_limit;
mod confinement;
mod environment;
mod isolated;
mod records;

pub use call_limit::CallLimit;
pub use confinement::{Confinement, NO_SANDBOX};
pub use environment::trusted_variable;
pub use isolated::{Isolated, Limits, OnQuarantine};
pub use records::{CostRecords, SupportRecords};
#[cfg(target_os = "linux")]
pub use server::{greet_failure, restrict, serve};

/// Name of the program that loads a plugin for another process.
pub const PROGRAM: &str = "polychip-plugin-host";

/// Reads bytes as each record that a plugin's process may send, for the fuzz target `record`.
#[cfg(all(feature = "fuzzing", target_os = "linux"))]
#[doc(hidden)]
pub fn read_records(bytes: &[u8]) {
    message::read_each(bytes);
}
