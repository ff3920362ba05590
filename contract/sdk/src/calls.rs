//! The C entries of a plugin: arguments are checked, the trait is called, unwinds and errors become
//! statuses.
//!
//! Invariants:
//! 1. Nothing unwinds out of an entry.
//! 2. An output is written only if the call succeeds.
//! 3. Handles are boxes or `Arc`s of the types named where the handle is read. They are made and
//!    freed only here.
//!
//! # Safety
//! Each entry relies on the contract: handles are live ones of this plugin, pointers are null or
//! readable (outputs: writable) for their `struct_size` or count.

#![allow(
    clippy::missing_safety_doc,
    reason = "the duties of all entries are those of the contract, said once above"
)]

mod buffer;
mod device;
mod entry;
mod part;
mod run;

pub(crate) use buffer::{
    buffer_begin_access, buffer_create, buffer_destroy, buffer_end_access, buffer_export, buffer_import,
};
pub(crate) use device::{
    create, destroy, device_close, device_count, device_info, device_open, device_reset, operating_points,
    plugin_info, set_operating_point, telemetry,
};
pub(crate) use part::{
    blob_bytes, blob_destroy, compile, estimate, executable_destroy, executable_info, load, port_info,
    query_support,
};
pub(crate) use run::{
    cancel, execute, fence_destroy, fence_export_fd, fence_import_fd, fence_on_signal, fence_output_shape,
    fence_steps, fence_timing, fence_wait,
};
