//! The function table of a plugin, and the one symbol that returns it.
//!
//! The rules for every call are at the top of the C header (`cbindgen.toml`). The comment of a
//! field states what its call does, its thread-safety, whether it may block, and exceptions to
//! those rules. A required call is never null. An optional call is null if the plugin does not
//! offer it.

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
use crate::step::polychip_step;
use crate::support::polychip_support;
use crate::telemetry::polychip_telemetry;

/// Major version of the contract. Host and plugin refuse each other if their major versions differ.
pub const POLYCHIP_ABI_MAJOR: u32 = 1;
/// Minor version of the contract. A higher minor version only appends.
///
/// - 1.1 appends four fields of `polychip_device_info` about sharing a device: `preemption`,
///   `queue_depth`, `preemption_bound_ns`, `switch_ns`.
/// - 1.2 appends constants in blocks (`POLYCHIP_ENCODING_BLOCKS`, `block_layout`) and the times of
///   a run's steps (`POLYCHIP_SUBMIT_STEPS`, `fence_steps`).
/// - 1.3 appends layouts of such blocks (`POLYCHIP_BLOCKS_Q5_0` and those after it).
/// - 1.4 appends `flags` to `polychip_compile_options` (`POLYCHIP_COMPILE_LEAN_BLOB`).
pub const POLYCHIP_ABI_MINOR: u32 = 4;

/// Name of the one export of a plugin library, a [`polychip_plugin_query_fn`].
pub const QUERY_SYMBOL: &str = "polychip_plugin_query";

/// Type of the export. Returns a static table, or null if the plugin cannot serve the host's
/// version. Pure: the host calls it with its own version before anything else.
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

    /// Describes the plugin. The host calls it before `create`.
    ///
    /// Required. Thread-safe. Does not block. Reads only static data, and has no effect.
    pub plugin_info: Option<unsafe extern "C" fn(out_info: *mut polychip_plugin_info) -> u32>,
    /// Makes an instance and loads the vendor's library. If that library is missing or too old, the
    /// error message names the file and the required version.
    ///
    /// Required. Thread-safe. May block. A process may have several instances; none affects the
    /// results of another. `host` stays valid until `destroy` has returned.
    pub create: Option<
        unsafe extern "C" fn(
            host: *const polychip_host_services,
            out_instance: *mut *mut polychip_instance,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Destroys an instance. Once it returns, no thread of the plugin calls the host's services.
    ///
    /// Required. May block. The host closes the instance's devices first. Accepts null.
    pub destroy: Option<unsafe extern "C" fn(instance: *mut polychip_instance)>,

    /// Counts the devices. The number is constant for the life of the instance; 0 is allowed.
    ///
    /// Required. May block.
    pub device_count: Option<
        unsafe extern "C" fn(
            instance: *mut polychip_instance,
            out_count: *mut u32,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Opens device `index`, which is below the count.
    ///
    /// Required. May block. The host opens each device once.
    pub device_open: Option<
        unsafe extern "C" fn(
            instance: *mut polychip_instance,
            index: u32,
            out_device: *mut *mut polychip_device,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Describes the device. Every call returns the same answer.
    ///
    /// Required. Thread-safe. Does not block.
    pub device_info: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            out_info: *mut polychip_device_info,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Closes a device and ends the plugin's threads for it.
    ///
    /// Required. May block. The host destroys the device's executables, buffers, blobs and fences
    /// first. Accepts null.
    pub device_close: Option<unsafe extern "C" fn(device: *mut polychip_device)>,
    /// Lists the operating points. Writes at most `capacity` of them to `out_points`, and their
    /// total number to `out_count`.
    ///
    /// Optional; null: the device has none. Thread-safe. Does not block. Records lie `stride` bytes
    /// apart; the caller sets the `struct_size` of each.
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
    /// Sets the device to operating point `index`, for all sessions.
    ///
    /// Optional; null: the host cannot choose. Thread-safe. May block.
    pub set_operating_point: Option<
        unsafe extern "C" fn(device: *mut polychip_device, index: u32, error: *mut polychip_error) -> u32,
    >,

    /// Reports for each node of the whole graph whether the device runs it. A yes is a promise:
    /// `compile` accepts any part made of such nodes. For a node that the device does not run, the
    /// record states the reason; the call itself succeeds. Compiles nothing.
    ///
    /// The plugin sets `reason` in every record, also for a yes. On entry, each
    /// `reason` holds a value that is not a `POLYCHIP_SUPPORT_*`. The host fails the call if a record
    /// still holds it, or if a record past the last node was written.
    ///
    /// Required. Thread-safe. May block. `out_support` holds one record per node, `stride` bytes
    /// apart; the caller sets the `struct_size` of each.
    pub query_support: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            graph: *const polychip_graph,
            out_support: *mut polychip_support,
            stride: u64,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Estimates the cost of `part_count` parts of the graph, each run by itself. Does not measure.
    ///
    /// `nodes` lists the nodes of all parts, one part after the other, each part in ascending
    /// order. `part_ends` holds for each part the index in `nodes` at which it ends. `out_costs`
    /// holds one record per part, `stride` bytes apart; the caller sets the `struct_size` of each.
    /// A call may have a part for every node of the graph, so the plugin should read the graph only
    /// once per call.
    ///
    /// Optional. Thread-safe. Does not block. The host falls back to the rates in
    /// `polychip_device_info` if the call is null, if it returns `POLYCHIP_STATUS_UNSUPPORTED`, or,
    /// for one part, if its record has no bit of `valid` set.
    pub estimate: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            graph: *const polychip_graph,
            nodes: *const u32,
            part_ends: *const u64,
            part_count: u64,
            out_costs: *mut polychip_cost,
            stride: u64,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Compiles a part to a blob. The part is a graph with its own numbering, made of nodes that
    /// `query_support` accepted.
    ///
    /// Required. Thread-safe. May block for a long time. Only the data of the constants outlive the
    /// call; an executable may point to them, a blob must not. Returns
    /// `POLYCHIP_STATUS_UNSUPPORTED` for a part that the device cannot run.
    pub compile: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            graph: *const polychip_graph,
            options: *const polychip_compile_options,
            out_blob: *mut *mut polychip_blob,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Returns the bytes of a blob, for a cache. They contain no addresses, so that another process
    /// can load them.
    ///
    /// Required. The bytes live as long as the blob; the plugin may make them in the first call.
    /// The host does not make this call after it passed the blob to `load`.
    pub blob_bytes: Option<
        unsafe extern "C" fn(
            blob: *mut polychip_blob,
            out_bytes: *mut polychip_bytes,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Destroys a blob, loaded or not.
    ///
    /// Required. Accepts null.
    pub blob_destroy: Option<unsafe extern "C" fn(blob: *mut polychip_blob)>,
    /// Makes an executable from a blob or from the bytes of one. Allocates all memory that runs
    /// need.
    ///
    /// Required. Thread-safe. May block. Trusts neither source: returns `POLYCHIP_STATUS_BAD_BLOB`
    /// for bytes that are torn or that belong to another build, device or part
    /// (`content_fingerprint`). The host then compiles again.
    pub load: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            source: *const polychip_load_source,
            out_executable: *mut *mut polychip_executable,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Describes an executable. Every call returns the same answer.
    ///
    /// Required. Thread-safe. Does not block.
    pub executable_info: Option<
        unsafe extern "C" fn(
            executable: *mut polychip_executable,
            out_info: *mut polychip_executable_info,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Describes the memory that port `port` requires. Ports are numbered: the graph's inputs in
    /// order, then its outputs in order. A constant has no port. Every call returns the same
    /// answer.
    ///
    /// Required. Thread-safe. Does not block.
    pub port_info: Option<
        unsafe extern "C" fn(
            executable: *mut polychip_executable,
            port: u32,
            out_port: *mut polychip_port,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Destroys an executable.
    ///
    /// Required. All fences of its runs have signalled. The host may destroy those fences later.
    /// Accepts null.
    pub executable_destroy: Option<unsafe extern "C" fn(executable: *mut polychip_executable)>,

    /// Makes a buffer of `wanted.bytes` bytes (0 is allowed) in memory of kind `wanted.kind`,
    /// aligned to `wanted.alignment` (0: any). Its contents are undefined.
    ///
    /// Required. Thread-safe. May block. Ignores `wanted.data`, `fd` and `handle`. A plugin must
    /// offer `POLYCHIP_MEMORY_HOST`, which is memory that the host can address. It may refuse any
    /// other kind with `POLYCHIP_STATUS_UNSUPPORTED`.
    pub buffer_create: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            wanted: *const polychip_memory,
            out_buffer: *mut *mut polychip_buffer,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Makes a buffer over the host's memory without a copy.
    ///
    /// Required. Thread-safe. May block. The memory still belongs to the host and stays valid until
    /// `buffer_destroy`. A plugin that needs the file descriptor after the call duplicates it.
    /// Several buffers, also of several devices, may cover the same memory. Returns
    /// `POLYCHIP_STATUS_UNSUPPORTED` for a kind outside `import_kinds` or an address that is not a
    /// multiple of `import_alignment`.
    pub buffer_import: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            memory: *const polychip_memory,
            out_buffer: *mut *mut polychip_buffer,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Exports a buffer's memory as kind `kind`, for another device to import.
    ///
    /// Optional; null: other devices receive a copy. May block. The memory lives as long as the
    /// buffer. A file descriptor in `out_memory` belongs to the plugin.
    pub buffer_export: Option<
        unsafe extern "C" fn(
            buffer: *mut polychip_buffer,
            kind: u32,
            out_memory: *mut polychip_memory,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Makes a range of the buffer readable, writable or both for the host (`POLYCHIP_ACCESS_*`),
    /// and returns the address of its first byte. Does the cache maintenance that the host's reads
    /// need.
    ///
    /// Required. May block. The address is valid until `buffer_end_access`; for 0 bytes, any
    /// address is valid. If the access does not include reading, bytes that the host does not write
    /// become undefined. The host opens one range of a buffer at a time, and none while a run uses
    /// the buffer. It starts no run that uses the buffer before `buffer_end_access`. If the host
    /// breaks these rules, a plugin may return `POLYCHIP_STATUS_BAD_ARGUMENT`.
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
    /// Ends the access. Does the cache maintenance that the host's writes need, so that later runs
    /// see them.
    ///
    /// Required. May block.
    pub buffer_end_access:
        Option<unsafe extern "C" fn(buffer: *mut polychip_buffer, error: *mut polychip_error) -> u32>,
    /// Destroys a buffer that no run uses. Leaves imported memory as it is.
    ///
    /// Required. Accepts null.
    pub buffer_destroy: Option<unsafe extern "C" fn(buffer: *mut polychip_buffer)>,

    /// Queues a run and returns its fence. Waits neither for the device nor for the fences in
    /// `waits`.
    ///
    /// Required. Thread-safe. Does not block. Several runs of one executable may be in flight.
    /// Unless one run waits for the fence of another, they may end in any order. Allocates on the
    /// heap only if more runs are in flight than ever before. If the call fails, it starts no run
    /// and returns no fence.
    pub execute: Option<
        unsafe extern "C" fn(
            executable: *mut polychip_executable,
            submit: *const polychip_submit,
            out_fence: *mut *mut polychip_fence,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Asks a run to end early. Its fence then signals `POLYCHIP_STATUS_CANCELLED`, or the run's
    /// own status if the run had already ended.
    ///
    /// Optional; null, or `POLYCHIP_STATUS_UNSUPPORTED`: runs cannot be cancelled. Thread-safe.
    /// Does not block.
    pub cancel: Option<unsafe extern "C" fn(fence: *mut polychip_fence, error: *mut polychip_error) -> u32>,
    /// Resets the device. All of its unfinished runs end with `POLYCHIP_STATUS_DEVICE_LOST`. Its
    /// executables become invalid and can only be destroyed. Its buffers remain.
    ///
    /// Optional; null: a lost or hung device stays unusable for the life of the instance. May
    /// block. The host calls it while other threads wait for fences.
    pub device_reset:
        Option<unsafe extern "C" fn(device: *mut polychip_device, error: *mut polychip_error) -> u32>,

    /// Waits at most `timeout_ns` for the run and returns the run's status, with its message in
    /// `error`. Repeated calls return the same status.
    ///
    /// Required. Thread-safe. May block; 0 polls, and `UINT64_MAX` waits without limit. Returns
    /// `POLYCHIP_STATUS_TIMEOUT` if the run has not ended, so a run itself never ends with that
    /// status. The timeout counts on the machine's clock; for a device on virtual time, it counts
    /// on `now_ns`. A thread that has seen the end of the run also sees everything that the run
    /// wrote.
    pub fence_wait: Option<
        unsafe extern "C" fn(fence: *mut polychip_fence, timeout_ns: u64, error: *mut polychip_error) -> u32,
    >,
    /// Calls `signalled(user, status)` exactly once when the run ends, or immediately if it has
    /// ended. The call happens even if the fence is destroyed first. Any number of callbacks may be
    /// registered on a fence.
    ///
    /// Optional; null: the host waits instead. Thread-safe. The plugin calls `signalled` from any
    /// thread while it holds no lock. `signalled` must not block; it may call the plugin. If this
    /// call fails, `signalled` is never called.
    pub fence_on_signal: Option<
        unsafe extern "C" fn(
            fence: *mut polychip_fence,
            signalled: Option<unsafe extern "C" fn(user: *mut core::ffi::c_void, status: u32)>,
            user: *mut core::ffi::c_void,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Makes a fence from a sync file.
    ///
    /// Optional; null: the host waits on behalf of the device. Thread-safe. The plugin duplicates
    /// the descriptor.
    pub fence_import_fd: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            fd: i64,
            out_fence: *mut *mut polychip_fence,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Returns a sync file for the fence. The caller closes it.
    ///
    /// Optional; null: the host waits on behalf of the device. Thread-safe.
    pub fence_export_fd: Option<
        unsafe extern "C" fn(fence: *mut polychip_fence, out_fd: *mut i64, error: *mut polychip_error) -> u32,
    >,
    /// Reports what the device measured of a run that has ended.
    ///
    /// Optional; null: the host cannot measure the device, and its plans rely on estimates.
    /// Thread-safe. Does not block. Returns `POLYCHIP_STATUS_TIMEOUT` if the run has not ended. If
    /// the run was not measured, sets no bit of `valid`, or returns `POLYCHIP_STATUS_UNSUPPORTED`.
    pub fence_timing: Option<
        unsafe extern "C" fn(
            fence: *mut polychip_fence,
            out_timing: *mut polychip_timing,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Writes the actual extents of an output port of a run that has ended, at most `capacity` of
    /// them, and its rank.
    ///
    /// Optional; required of a plugin whose ports state upper bounds. Thread-safe. Does not block.
    /// Returns `POLYCHIP_STATUS_TIMEOUT` if the run has not ended.
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
    /// Destroys a fence. A run in flight continues, and runs that wait for it keep waiting.
    ///
    /// Required. Does not block. Accepts null.
    pub fence_destroy: Option<unsafe extern "C" fn(fence: *mut polychip_fence)>,

    /// Reads the device's sensors. A missing sensor has no bit set.
    ///
    /// Optional; null: no sensors. Thread-safe. May block for as long as reading a sensor takes,
    /// but not for a run.
    pub telemetry: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            out_telemetry: *mut polychip_telemetry,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Lists the steps of a run that was started with `POLYCHIP_SUBMIT_STEPS` and has ended. Writes
    /// at most `capacity` of them, in order, to `out_steps`, and their total number to `out_count`.
    /// Repeated calls return the same steps.
    ///
    /// Since 1.2. Optional; null: steps are not measured. Thread-safe. Does not block. Records lie
    /// `stride` bytes apart; the caller sets the `struct_size` of each. Returns
    /// `POLYCHIP_STATUS_TIMEOUT` if the run has not ended, and `POLYCHIP_STATUS_UNSUPPORTED` if
    /// nothing was measured.
    pub fence_steps: Option<
        unsafe extern "C" fn(
            fence: *mut polychip_fence,
            out_steps: *mut polychip_step,
            capacity: u64,
            stride: u64,
            out_count: *mut u64,
            error: *mut polychip_error,
        ) -> u32,
    >,
}

sized!(polychip_plugin_table);

impl polychip_plugin_table {
    /// The required calls that are null, by name.
    #[must_use]
    pub fn missing_calls(&self) -> Vec<&'static str> {
        macro_rules! missing {
            ($table:expr; $($call:ident),+ $(,)?) => {
                [$((stringify!($call), $table.$call.is_none())),+]
                    .into_iter()
                    .filter_map(|(name, absent)| absent.then_some(name))
                    .collect()
            };
        }
        missing!(
            self;
            plugin_info,
            create,
            destroy,
            device_count,
            device_open,
            device_info,
            device_close,
            query_support,
            compile,
            blob_bytes,
            blob_destroy,
            load,
            executable_info,
            port_info,
            executable_destroy,
            buffer_create,
            buffer_import,
            buffer_begin_access,
            buffer_end_access,
            buffer_destroy,
            execute,
            fence_wait,
            fence_destroy,
        )
    }
}
