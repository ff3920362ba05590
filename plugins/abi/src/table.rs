//! The function table of a plugin, and the one symbol that gives it.
//!
//! Unless a call says otherwise it may be made from any thread, on one object from one thread at a
//! time; it returns a `POLYCHIP_STATUS_*` and fills `error`, which may be null. Optional calls are null
//! where a plugin does not offer them; required ones never are.

use crate::buffer::{polychip_buffer, polychip_memory};
use crate::compile::{
    polychip_blob, polychip_compile_options, polychip_executable, polychip_executable_info,
    polychip_load_source,
};
use crate::cost::polychip_cost;
use crate::device::{
    polychip_device, polychip_device_info, polychip_instance, polychip_operating_point, polychip_plugin_info,
};
use crate::error::polychip_error;
use crate::execute::polychip_submit;
use crate::fence::{polychip_fence, polychip_timing};
use crate::graph::polychip_graph;
use crate::host::polychip_host_services;
use crate::port::polychip_port;
use crate::sized::sized;
use crate::span::polychip_bytes;
use crate::support::polychip_support;
use crate::telemetry::polychip_telemetry;

/// Major version of the contract: another one is refused.
pub const POLYCHIP_ABI_MAJOR: u32 = 1;
/// Minor version of the contract: a higher one only appends.
pub const POLYCHIP_ABI_MINOR: u32 = 0;

/// Name of the one export of a plugin library, a [`polychip_plugin_query_fn`].
pub const QUERY_SYMBOL: &str = "polychip_plugin_query";

/// Type of the export: pure, called before anything else with the host's version. Returns a static
/// table, or null where the plugin cannot serve that version.
pub type polychip_plugin_query_fn =
    unsafe extern "C" fn(host_major: u32, host_minor: u32) -> *const polychip_plugin_table;

/// The calls of a plugin.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_plugin_table {
    /// Size of this struct as the plugin knows it, in bytes.
    pub struct_size: u32,
    /// `POLYCHIP_ABI_MAJOR` that the plugin was built for.
    pub abi_major: u32,
    /// `POLYCHIP_ABI_MINOR` that the plugin was built for.
    pub abi_minor: u32,
    /// Zero.
    pub flags: u32,

    /// Required. Says what the plugin is; pure, before `create`. Does not block.
    pub plugin_info: Option<unsafe extern "C" fn(out_info: *mut polychip_plugin_info) -> u32>,
    /// Required. Makes an instance; loads the vendor's library. May block. `host` outlives the instance.
    pub create: Option<
        unsafe extern "C" fn(
            host: *const polychip_host_services,
            out_instance: *mut *mut polychip_instance,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Destroys an instance; its devices are closed before.
    pub destroy: Option<unsafe extern "C" fn(instance: *mut polychip_instance)>,

    /// Required. Counts the devices. May block.
    pub device_count: Option<
        unsafe extern "C" fn(
            instance: *mut polychip_instance,
            out_count: *mut u32,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Opens device `index`. May block.
    pub device_open: Option<
        unsafe extern "C" fn(
            instance: *mut polychip_instance,
            index: u32,
            out_device: *mut *mut polychip_device,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Says what the device is. Does not block. Thread-safe.
    pub device_info: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            out_info: *mut polychip_device_info,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Closes a device; its executables, buffers and fences are destroyed before.
    pub device_close: Option<unsafe extern "C" fn(device: *mut polychip_device)>,
    /// Optional. Writes at most `capacity` operating points, `stride` bytes apart, each with its
    /// `struct_size` set by the caller, and the number there are. Does not block.
    pub operating_points: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            out_points: *mut polychip_operating_point,
            capacity: u64,
            stride: u64,
            out_count: *mut u64,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Optional. Puts the device to operating point `index`, for all sessions. May block.
    pub set_operating_point: Option<
        unsafe extern "C" fn(device: *mut polychip_device, index: u32, error: *mut polychip_error) -> u32,
    >,

    /// Required. Says for each node of the whole graph whether the device runs it; `out_support` holds
    /// one record per node, `stride` bytes apart, each with its `struct_size` set by the caller.
    /// May block. Thread-safe.
    pub query_support: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            graph: *const polychip_graph,
            out_support: *mut polychip_support,
            stride: u64,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Optional. Estimates the cost of the listed nodes run as one part. Does not measure. Thread-safe.
    pub estimate: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            graph: *const polychip_graph,
            nodes: *const u32,
            node_count: u64,
            out_cost: *mut polychip_cost,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Compiles a part. May block for long. Thread-safe.
    pub compile: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            graph: *const polychip_graph,
            options: *const polychip_compile_options,
            out_blob: *mut *mut polychip_blob,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. The bytes of a blob, for a cache; they live as long as the blob and may be made on
    /// the first call.
    pub blob_bytes: Option<
        unsafe extern "C" fn(
            blob: *mut polychip_blob,
            out_bytes: *mut polychip_bytes,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Destroys a blob.
    pub blob_destroy: Option<unsafe extern "C" fn(blob: *mut polychip_blob)>,
    /// Required. Makes an executable of a blob. May block.
    pub load: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            source: *const polychip_load_source,
            out_executable: *mut *mut polychip_executable,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Says what an executable is. Thread-safe.
    pub executable_info: Option<
        unsafe extern "C" fn(
            executable: *mut polychip_executable,
            out_info: *mut polychip_executable_info,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Says what memory a port wants. Thread-safe.
    pub port_info: Option<
        unsafe extern "C" fn(
            executable: *mut polychip_executable,
            port: u32,
            out_port: *mut polychip_port,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Destroys an executable; its fences have signalled before.
    pub executable_destroy: Option<unsafe extern "C" fn(executable: *mut polychip_executable)>,

    /// Required. Makes a buffer of `wanted.bytes` bytes in memory of `wanted.kind`.
    pub buffer_create: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            wanted: *const polychip_memory,
            out_buffer: *mut *mut polychip_buffer,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Makes a buffer over memory of the host without a copy, or refuses with
    /// `POLYCHIP_STATUS_UNSUPPORTED`.
    pub buffer_import: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            memory: *const polychip_memory,
            out_buffer: *mut *mut polychip_buffer,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Optional. Gives a buffer's memory as kind `kind` for another device to import; the memory lives
    /// as long as the buffer, and a file descriptor in it stays the plugin's.
    pub buffer_export: Option<
        unsafe extern "C" fn(
            buffer: *mut polychip_buffer,
            kind: u32,
            out_memory: *mut polychip_memory,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Makes the range readable or writable (`POLYCHIP_ACCESS_*`) by the host and gives its
    /// address. No run may use the buffer until `buffer_end_access`. Thread-safe for several buffers.
    pub buffer_begin_access: Option<
        unsafe extern "C" fn(
            buffer: *mut polychip_buffer,
            access: u32,
            offset: u64,
            bytes: u64,
            out_data: *mut *mut u8,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Ends an access, so that the device sees what the host wrote.
    pub buffer_end_access:
        Option<unsafe extern "C" fn(buffer: *mut polychip_buffer, error: *mut polychip_error) -> u32>,
    /// Required. Destroys a buffer that no run uses.
    pub buffer_destroy: Option<unsafe extern "C" fn(buffer: *mut polychip_buffer)>,

    /// Required. Starts a run and gives its fence. Does not wait for it, and does not allocate on the
    /// heap when warm. Thread-safe: several runs of one executable may be in flight.
    pub execute: Option<
        unsafe extern "C" fn(
            executable: *mut polychip_executable,
            submit: *const polychip_submit,
            out_fence: *mut *mut polychip_fence,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Optional. Asks a run to end early; its fence then signals `POLYCHIP_STATUS_CANCELLED`, or the
    /// run's own status where it was done. Thread-safe.
    pub cancel: Option<unsafe extern "C" fn(fence: *mut polychip_fence, error: *mut polychip_error) -> u32>,
    /// Optional. Resets a lost or hung device; all its runs end and its executables are void. May block.
    pub device_reset:
        Option<unsafe extern "C" fn(device: *mut polychip_device, error: *mut polychip_error) -> u32>,

    /// Required. Waits at most `timeout_ns` for the run and returns its status;
    /// `POLYCHIP_STATUS_TIMEOUT` where the run goes on. Thread-safe.
    pub fence_wait: Option<
        unsafe extern "C" fn(fence: *mut polychip_fence, timeout_ns: u64, error: *mut polychip_error) -> u32,
    >,
    /// Optional. Calls `signalled(user, status)` once when the run ends, at once where it has; the
    /// call comes from any thread and must not block. Thread-safe.
    pub fence_on_signal: Option<
        unsafe extern "C" fn(
            fence: *mut polychip_fence,
            signalled: Option<unsafe extern "C" fn(user: *mut core::ffi::c_void, status: u32)>,
            user: *mut core::ffi::c_void,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Optional. Makes a fence of a sync file; the plugin duplicates the descriptor.
    pub fence_import_fd: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            fd: i64,
            out_fence: *mut *mut polychip_fence,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Optional. Gives a sync file that the caller closes.
    pub fence_export_fd: Option<
        unsafe extern "C" fn(fence: *mut polychip_fence, out_fd: *mut i64, error: *mut polychip_error) -> u32,
    >,
    /// Optional. What the device measured of a run that has ended.
    pub fence_timing: Option<
        unsafe extern "C" fn(
            fence: *mut polychip_fence,
            out_timing: *mut polychip_timing,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Optional; required of a plugin whose ports state upper bounds. Writes at most `capacity` actual
    /// extents of an output port of a run that has ended, and the rank.
    pub fence_output_shape: Option<
        unsafe extern "C" fn(
            fence: *mut polychip_fence,
            port: u32,
            out_dims: *mut i64,
            capacity: u64,
            out_rank: *mut u64,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Destroys a fence; the run, where it goes on, is not stopped.
    pub fence_destroy: Option<unsafe extern "C" fn(fence: *mut polychip_fence)>,

    /// Optional. Reads the device's sensors. Thread-safe.
    pub telemetry: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            out_telemetry: *mut polychip_telemetry,
            error: *mut polychip_error,
        ) -> u32,
    >,
}

sized!(polychip_plugin_table);
