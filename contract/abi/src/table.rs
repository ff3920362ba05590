//! The function table of a plugin, and the one symbol that gives it.
//!
//! The rules for every call stand at the top of the C header (`cbindgen.toml`), those of one call at its
//! field. Optional calls are null where a plugin does not offer them; required ones never are.

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

/// Major version of the contract: another one is refused.
pub const POLYCHIP_ABI_MAJOR: u32 = 1;
/// Minor version of the contract: a higher one only appends. 1 appends to `polychip_device_info` how parts share a device:
/// `preemption`, `queue_depth`, `preemption_bound_ns`, `switch_ns`.
pub const POLYCHIP_ABI_MINOR: u32 = 2;

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

    /// Required. Says what the plugin is. Pure: comes before `create`, touches nothing but static data.
    /// Does not block. Thread-safe.
    pub plugin_info: Option<unsafe extern "C" fn(out_info: *mut polychip_plugin_info) -> u32>,
    /// Required. Makes an instance and loads the vendor's library; where that is missing or too old, the
    /// words name the file and the version wanted. A process may hold several instances: they share no
    /// state that matters. `host` stays valid until `destroy` has returned. May block. Thread-safe.
    pub create: Option<
        unsafe extern "C" fn(
            host: *const polychip_host_services,
            out_instance: *mut *mut polychip_instance,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Destroys an instance; its devices are closed before. When it returns, no thread of the
    /// plugin calls the host's services any more. Accepts null. May block.
    pub destroy: Option<unsafe extern "C" fn(instance: *mut polychip_instance)>,

    /// Required. Counts the devices; the number stays the same as long as the instance. 0 is allowed. May
    /// block.
    pub device_count: Option<
        unsafe extern "C" fn(
            instance: *mut polychip_instance,
            out_count: *mut u32,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Opens device `index`, below the count; the host opens each once. May block.
    pub device_open: Option<
        unsafe extern "C" fn(
            instance: *mut polychip_instance,
            index: u32,
            out_device: *mut *mut polychip_device,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Says what the device is; the same answer every time. Does not block. Thread-safe.
    pub device_info: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            out_info: *mut polychip_device_info,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Closes a device; its executables, buffers, blobs and fences are destroyed before. Ends
    /// the plugin's threads of this device. Accepts null. May block.
    pub device_close: Option<unsafe extern "C" fn(device: *mut polychip_device)>,
    /// Optional; null: the device has none. Writes the first `capacity` operating points, `stride` bytes
    /// apart, each with its `struct_size` set by the caller, and the number that there are, which may be
    /// more. Does not block. Thread-safe.
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
    /// Optional; null: the host cannot choose. Puts the device to operating point `index`, for all
    /// sessions. May block. Thread-safe.
    pub set_operating_point: Option<
        unsafe extern "C" fn(device: *mut polychip_device, index: u32, error: *mut polychip_error) -> u32,
    >,

    /// Required. Says for each node of the whole graph whether the device runs it; `out_support` holds one
    /// record per node, `stride` bytes apart, each with its `struct_size` set by the caller. A yes is a
    /// promise: `compile` then takes any part made of such nodes. A node that the device does not run is
    /// an answer, never a failure of the call. Compiles nothing. May block. Thread-safe.
    pub query_support: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            graph: *const polychip_graph,
            out_support: *mut polychip_support,
            stride: u64,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Optional; null, `POLYCHIP_STATUS_UNSUPPORTED` for the whole call, or a record with no bit of
    /// `valid` set for one part: the host goes by the rates of `polychip_device_info`. Estimates
    /// `part_count` parts of the graph, each run by itself: `nodes` lists their nodes, one part behind
    /// the other, each part in ascending order, and `part_ends` where in `nodes` each part ends.
    /// `out_costs` holds one record per part, `stride` bytes apart, each with its `struct_size` set by
    /// the caller. One call may ask for every node of a graph as a part of its own, so what depends on
    /// the graph alone is done once per call. Does not measure and does not block. Thread-safe.
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
    /// Required. Compiles a part: a graph of its own with its own numbering, made of nodes that
    /// `query_support` said yes to. Nothing of `graph` but its constants' data outlives the call, and a
    /// blob points not even to those. A part that turns out not to fit is refused with
    /// `POLYCHIP_STATUS_UNSUPPORTED`. May block for long. Thread-safe.
    pub compile: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            graph: *const polychip_graph,
            options: *const polychip_compile_options,
            out_blob: *mut *mut polychip_blob,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. The bytes of a blob, for a cache; they live as long as the blob and may be made on the
    /// first call. They hold no address: another process may load them. Not called after `load` took the
    /// blob.
    pub blob_bytes: Option<
        unsafe extern "C" fn(
            blob: *mut polychip_blob,
            out_bytes: *mut polychip_bytes,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Destroys a blob, loaded or not. Accepts null.
    pub blob_destroy: Option<unsafe extern "C" fn(blob: *mut polychip_blob)>,
    /// Required. Makes an executable of a blob, or of the bytes of one. Believes neither: bytes that are
    /// torn, of another build, of another device or of another part (`content_fingerprint`) are refused
    /// with `POLYCHIP_STATUS_BAD_BLOB`, and the host compiles anew. All memory that runs need is made
    /// here. May block. Thread-safe.
    pub load: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            source: *const polychip_load_source,
            out_executable: *mut *mut polychip_executable,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Says what an executable is; the same answer every time. Does not block. Thread-safe.
    pub executable_info: Option<
        unsafe extern "C" fn(
            executable: *mut polychip_executable,
            out_info: *mut polychip_executable_info,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Says what memory port `port` wants. Ports are numbered: the graph's inputs in their
    /// order, then its outputs in theirs. A constant has no port. The same answer every time. Does not
    /// block. Thread-safe.
    pub port_info: Option<
        unsafe extern "C" fn(
            executable: *mut polychip_executable,
            port: u32,
            out_port: *mut polychip_port,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Destroys an executable. Its fences have signalled before, and may be destroyed later.
    /// Accepts null.
    pub executable_destroy: Option<unsafe extern "C" fn(executable: *mut polychip_executable)>,

    /// Required. Makes a buffer of `wanted.bytes` bytes (0 is allowed) in memory of `wanted.kind`, aligned
    /// to `wanted.alignment` (0: any); `wanted.data`, `fd` and `handle` say nothing.
    /// `POLYCHIP_MEMORY_HOST` must be offered: memory that the host can address. Another kind may be
    /// refused with `POLYCHIP_STATUS_UNSUPPORTED`. The contents are undefined. May block. Thread-safe.
    pub buffer_create: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            wanted: *const polychip_memory,
            out_buffer: *mut *mut polychip_buffer,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Makes a buffer over memory of the host without a copy, or refuses with
    /// `POLYCHIP_STATUS_UNSUPPORTED`: a kind outside `import_kinds`, an address off `import_alignment`.
    /// The memory stays the host's and valid until `buffer_destroy`; a descriptor is duplicated where it
    /// is needed after the call. Several buffers may lie over one memory, of several devices too. May
    /// block. Thread-safe.
    pub buffer_import: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            memory: *const polychip_memory,
            out_buffer: *mut *mut polychip_buffer,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Optional; null: other devices get a copy. Gives a buffer's memory as kind `kind` for another device
    /// to import; the memory lives as long as the buffer, and a file descriptor in it stays the plugin's.
    /// May block.
    pub buffer_export: Option<
        unsafe extern "C" fn(
            buffer: *mut polychip_buffer,
            kind: u32,
            out_memory: *mut polychip_memory,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Required. Makes a range inside the buffer readable or writable by the host (`POLYCHIP_ACCESS_*`, at
    /// least one) and gives the address of its first byte, which is valid until `buffer_end_access`; for 0
    /// bytes any address will do. What the host does not write keeps its value only where reading was
    /// asked for too. The host opens one range of a buffer at a time, and none while a run uses the
    /// buffer; it starts no such run before `buffer_end_access`. A plugin may refuse a breach with
    /// `POLYCHIP_STATUS_BAD_ARGUMENT`. Cache maintenance for reading is here. May block.
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
    /// Required. Ends the access, so that runs started from now on see what the host wrote: cache
    /// maintenance for writing is here. May block.
    pub buffer_end_access:
        Option<unsafe extern "C" fn(buffer: *mut polychip_buffer, error: *mut polychip_error) -> u32>,
    /// Required. Destroys a buffer that no run uses; imported memory is left as it is. Accepts null.
    pub buffer_destroy: Option<unsafe extern "C" fn(buffer: *mut polychip_buffer)>,

    /// Required. Starts a run and gives its fence: takes it into the device's queue and returns. Does not
    /// wait for the device, nor for `waits`. Does not allocate on the heap when warm, which is after a run
    /// of the executable with as many runs in flight. A failure starts nothing and gives no fence. Several
    /// runs of one executable may be in flight; runs with no fence between them may end in any order.
    /// Thread-safe.
    pub execute: Option<
        unsafe extern "C" fn(
            executable: *mut polychip_executable,
            submit: *const polychip_submit,
            out_fence: *mut *mut polychip_fence,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Optional; null, or `POLYCHIP_STATUS_UNSUPPORTED`: runs end in their own time. Asks a run to end
    /// early; its fence then signals `POLYCHIP_STATUS_CANCELLED`, or the run's own status where it was
    /// done. Does not block. Thread-safe.
    pub cancel: Option<unsafe extern "C" fn(fence: *mut polychip_fence, error: *mut polychip_error) -> u32>,
    /// Optional; null: a lost or hung device is out of use as long as the instance. Resets the device: all
    /// its runs end, with `POLYCHIP_STATUS_DEVICE_LOST` unless they were done; its executables are void
    /// and can only be destroyed; its buffers stay. Comes while other threads wait for fences. May block.
    pub device_reset:
        Option<unsafe extern "C" fn(device: *mut polychip_device, error: *mut polychip_error) -> u32>,

    /// Required. Waits at most `timeout_ns` for the run and returns its status, with the words in `error`;
    /// again and again the same. `POLYCHIP_STATUS_TIMEOUT` where the run goes on, and so never the status
    /// of a run. 0 asks without waiting, `UINT64_MAX` waits without limit. Counts on the machine's clock,
    /// or on `now_ns` where the device itself lives on it. What the run wrote is visible to a thread that
    /// has seen it end. Thread-safe.
    pub fence_wait: Option<
        unsafe extern "C" fn(fence: *mut polychip_fence, timeout_ns: u64, error: *mut polychip_error) -> u32,
    >,
    /// Optional; null: the host waits. Calls `signalled(user, status)` exactly once when the run ends, at
    /// once where it has, even where the fence is destroyed before; a fence takes any number of calls. The
    /// call comes from any thread, while the plugin holds no lock: it must not block, and may call the
    /// plugin. Where this call fails, `signalled` is never called. Thread-safe.
    pub fence_on_signal: Option<
        unsafe extern "C" fn(
            fence: *mut polychip_fence,
            signalled: Option<unsafe extern "C" fn(user: *mut core::ffi::c_void, status: u32)>,
            user: *mut core::ffi::c_void,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Optional; null: the host waits in the device's stead. Makes a fence of a sync file; the plugin
    /// duplicates the descriptor. Thread-safe.
    pub fence_import_fd: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            fd: i64,
            out_fence: *mut *mut polychip_fence,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Optional; null: as above. Gives a sync file that the caller closes. Thread-safe.
    pub fence_export_fd: Option<
        unsafe extern "C" fn(fence: *mut polychip_fence, out_fd: *mut i64, error: *mut polychip_error) -> u32,
    >,
    /// Optional; null: the host learns nothing of the device's speed, and plans stay on estimates. What
    /// the device measured of a run that has ended; `POLYCHIP_STATUS_TIMEOUT` where it goes on. A run that
    /// was not measured has no bit set, or gives `POLYCHIP_STATUS_UNSUPPORTED`. Does not block.
    /// Thread-safe.
    pub fence_timing: Option<
        unsafe extern "C" fn(
            fence: *mut polychip_fence,
            out_timing: *mut polychip_timing,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Optional; required of a plugin whose ports state upper bounds. Writes the first `capacity` actual
    /// extents of an output port of a run that has ended, and the rank; `POLYCHIP_STATUS_TIMEOUT` where it
    /// goes on. Does not block. Thread-safe.
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
    /// Required. Destroys a fence; the run, where it goes on, is not stopped, and runs that wait for it go
    /// on waiting. Accepts null. Does not block.
    pub fence_destroy: Option<unsafe extern "C" fn(fence: *mut polychip_fence)>,

    /// Optional; null: no sensors. Reads the device's sensors: one that is missing has no bit set. May
    /// block for a sensor's time, not for a run. Thread-safe.
    pub telemetry: Option<
        unsafe extern "C" fn(
            device: *mut polychip_device,
            out_telemetry: *mut polychip_telemetry,
            error: *mut polychip_error,
        ) -> u32,
    >,
    /// Since 1.2. Optional; null: steps are not measured. Two calls give the same ones. Writes the first `capacity` steps of a run that was started with
    /// `POLYCHIP_SUBMIT_STEPS` and has ended, in their order, `stride` bytes apart, each with its `struct_size` set by the
    /// caller, and the number that there are; `POLYCHIP_STATUS_TIMEOUT` where the run goes on, and
    /// `POLYCHIP_STATUS_UNSUPPORTED` where nothing was measured. Does not block. Thread-safe.
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
