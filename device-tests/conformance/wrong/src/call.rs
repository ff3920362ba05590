//! The faulty calls.
//!
//! Invariant: each forwards to the null plugin's call, except for its one fault.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use polychip_abi::*;

type Raw<T> = *mut T;

/// The table that is right.
fn right() -> &'static polychip_plugin_table {
    polychip_null::table()
}

macro_rules! right {
    ($name:ident ( $($argument:expr),* $(,)? )) => {
        // SAFETY: the host's own arguments, or ones that are as valid.
        unsafe { (right().$name.expect("invariant: the null plugin offers it"))($($argument),*) }
    };
}

/// Puts the call of this way into the table; an unknown way changes nothing.
pub(crate) fn make_wrong(way: &str, table: &mut polychip_plugin_table) {
    match way {
        "info-changes" => table.plugin_info = Some(info_changes),
        "opens-behind-the-last" => table.device_open = Some(opens_behind_the_last),
        "no-words" => table.query_support = Some(no_words),
        "promises-all" => table.query_support = Some(promises_all),
        "answers-differ" => table.query_support = Some(answers_differ),
        "estimates-the-first" => table.estimate = Some(estimates_the_first),
        "accepts-any-bytes" => {
            table.blob_bytes = Some(remembers_bytes);
            table.load = Some(accepts_any_bytes);
        }
        "accepts-another-part" => {
            table.compile = Some(remembers_part);
            table.load = Some(accepts_another_part);
        }
        "port-too-small" => table.port_info = Some(port_too_small),
        "wrong-on-odd" => table.execute = Some(wrong_on_odd),
        "ignores-size" => table.execute = Some(ignores_size),
        "writes-past-the-end" => table.execute = Some(writes_past_the_end),
        "forgets" => table.buffer_begin_access = Some(forgets),
        "grants-outside" => table.buffer_begin_access = Some(grants_outside),
        "signals-twice" => table.fence_on_signal = Some(signals_twice),
        "another-clock" => table.fence_timing = Some(another_clock),
        "ends-twice" => table.fence_wait = Some(ends_twice),
        "absurd-temperature" => table.telemetry = Some(absurd_temperature),
        "miscounts-points" => table.operating_points = Some(miscounts_points),
        "endless-memory" => table.buffer_create = Some(endless_memory),
        "cancel-fails" => table.cancel = Some(cancel_fails),
        "closes-null" => table.device_close = Some(closes_null),
        "fence-dies-with-executable" => {
            table.executable_destroy = Some(executable_destroyed);
            table.fence_wait = Some(fence_dies);
        }
        "leaves-threads" => table.create = Some(leaves_threads),
        "races" => table.execute = Some(races),
        "leaks-memory" => table.execute = Some(leaks_memory),
        "leaks-descriptors" => table.buffer_create = Some(leaks_descriptors),
        "follows-null" => table.compile = Some(follows_null),
        "takes-null" => table.device_info = Some(takes_null),
        "hangs" => table.fence_wait = Some(hangs),
        "prints" => table.execute = Some(prints),
        _ => {}
    }
}

unsafe extern "C" fn info_changes(out: Raw<polychip_plugin_info>) -> u32 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let status = right!(plugin_info(out));
    if status == POLYCHIP_STATUS_OK {
        // SAFETY: the call filled the record.
        let info = unsafe { &mut *out };
        info.build_id.len -= u64::from(CALLS.fetch_add(1, Ordering::Relaxed) % 2);
    }
    status
}

unsafe extern "C" fn opens_behind_the_last(
    instance: Raw<polychip_instance>,
    _index: u32,
    out: *mut Raw<polychip_device>,
    error: Raw<polychip_error>,
) -> u32 {
    right!(device_open(instance, 0, out, error))
}

/// The rows of an answer.
///
/// # Safety
/// The arguments are those of a `query_support` that succeeded.
unsafe fn rows<'a>(graph: *const polychip_graph, out: Raw<polychip_support>) -> &'a mut [polychip_support] {
    // SAFETY: by the caller's promise; the suite's rows are of this build.
    unsafe { std::slice::from_raw_parts_mut(out, (*graph).node_count as usize) }
}

unsafe extern "C" fn no_words(
    device: Raw<polychip_device>,
    graph: *const polychip_graph,
    out: Raw<polychip_support>,
    stride: u64,
    error: Raw<polychip_error>,
) -> u32 {
    let status = right!(query_support(device, graph, out, stride, error));
    if status == POLYCHIP_STATUS_OK {
        // SAFETY: the call succeeded.
        unsafe { rows(graph, out) }
            .iter_mut()
            .for_each(|row| row.detail_len = 0);
    }
    status
}

unsafe extern "C" fn estimates_the_first(
    device: Raw<polychip_device>,
    graph: *const polychip_graph,
    nodes: *const u32,
    part_ends: *const u64,
    part_count: u64,
    out: Raw<polychip_cost>,
    stride: u64,
    error: Raw<polychip_error>,
) -> u32 {
    right!(estimate(
        device,
        graph,
        nodes,
        part_ends,
        part_count.min(1),
        out,
        stride,
        error
    ))
}

unsafe extern "C" fn promises_all(
    device: Raw<polychip_device>,
    graph: *const polychip_graph,
    out: Raw<polychip_support>,
    stride: u64,
    error: Raw<polychip_error>,
) -> u32 {
    let status = right!(query_support(device, graph, out, stride, error));
    if status == POLYCHIP_STATUS_OK {
        // SAFETY: the call succeeded.
        unsafe { rows(graph, out) }
            .iter_mut()
            .for_each(|row| row.reason = POLYCHIP_SUPPORT_YES);
    }
    status
}

unsafe extern "C" fn answers_differ(
    device: Raw<polychip_device>,
    graph: *const polychip_graph,
    out: Raw<polychip_support>,
    stride: u64,
    error: Raw<polychip_error>,
) -> u32 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let status = right!(query_support(device, graph, out, stride, error));
    if status == POLYCHIP_STATUS_OK && CALLS.fetch_add(1, Ordering::Relaxed) % 3 == 2 {
        // SAFETY: the call succeeded.
        for row in unsafe { rows(graph, out) } {
            row.reason = POLYCHIP_SUPPORT_VENDOR;
            row.set_text("in a mood");
        }
    }
    status
}

/// Bytes of the last blob that was asked for.
static BYTES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

unsafe extern "C" fn remembers_bytes(
    blob: Raw<polychip_blob>,
    out: Raw<polychip_bytes>,
    error: Raw<polychip_error>,
) -> u32 {
    let status = right!(blob_bytes(blob, out, error));
    if status == POLYCHIP_STATUS_OK {
        // SAFETY: the bytes are valid as long as the blob.
        let bytes = unsafe { std::slice::from_raw_parts((*out).data, (*out).len as usize) };
        *BYTES.lock().unwrap_or_else(PoisonError::into_inner) = bytes.to_vec();
    }
    status
}

unsafe extern "C" fn accepts_any_bytes(
    device: Raw<polychip_device>,
    source: *const polychip_load_source,
    out: *mut Raw<polychip_executable>,
    error: Raw<polychip_error>,
) -> u32 {
    // SAFETY: the suite's sources are of this build.
    let mut source = unsafe { *source };
    let bytes = BYTES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if source.blob.is_null() && !bytes.is_empty() {
        let bytes: &'static [u8] = bytes.leak();
        (source.bytes.data, source.bytes.len) = (bytes.as_ptr(), bytes.len() as u64);
    }
    right!(load(device, &raw const source, out, error))
}

/// Fingerprints of the last part that was compiled: of its structure and of its content.
static PART: Mutex<([u8; 32], [u8; 32])> = Mutex::new(([0; 32], [0; 32]));

unsafe extern "C" fn remembers_part(
    device: Raw<polychip_device>,
    graph: *const polychip_graph,
    options: *const polychip_compile_options,
    out: *mut Raw<polychip_blob>,
    error: Raw<polychip_error>,
) -> u32 {
    // SAFETY: the suite's graphs are of this build.
    let seen = unsafe { &*graph };
    *PART.lock().unwrap_or_else(PoisonError::into_inner) =
        (seen.structure_fingerprint, seen.content_fingerprint);
    right!(compile(device, graph, options, out, error))
}

unsafe extern "C" fn accepts_another_part(
    device: Raw<polychip_device>,
    source: *const polychip_load_source,
    out: *mut Raw<polychip_executable>,
    error: Raw<polychip_error>,
) -> u32 {
    // SAFETY: the suite's sources and graphs are of this build.
    let (mut source, mut graph) = unsafe { (*source, *(*source).graph) };
    (graph.structure_fingerprint, graph.content_fingerprint) =
        *PART.lock().unwrap_or_else(PoisonError::into_inner);
    source.graph = &raw const graph;
    right!(load(device, &raw const source, out, error))
}

unsafe extern "C" fn port_too_small(
    executable: Raw<polychip_executable>,
    port: u32,
    out: Raw<polychip_port>,
    error: Raw<polychip_error>,
) -> u32 {
    let status = right!(port_info(executable, port, out, error));
    if status == POLYCHIP_STATUS_OK {
        // SAFETY: the call filled the record.
        unsafe { (*out).bytes -= 1 };
    }
    status
}

/// The last binding of a run, which is an output of the suite's graphs.
///
/// # Safety
/// The run is one of the suite's, with bindings.
unsafe fn last_binding(submit: *const polychip_submit) -> Option<polychip_binding> {
    // SAFETY: by the caller's promise.
    let submit = unsafe { *submit };
    let last = usize::try_from(submit.binding_count).ok()?.checked_sub(1)?;
    // SAFETY: as above.
    Some(unsafe { *submit.bindings.add(last) })
}

/// Opens a range of a buffer to `with`.
fn touch(buffer: Raw<polychip_buffer>, offset: u64, bytes: u64, with: impl FnOnce(*mut u8)) {
    let access = POLYCHIP_ACCESS_READ | POLYCHIP_ACCESS_WRITE;
    let mut data = std::ptr::null_mut();
    let error = std::ptr::null_mut();
    if right!(buffer_begin_access(
        buffer,
        access,
        offset,
        bytes,
        &raw mut data,
        error
    )) == POLYCHIP_STATUS_OK
    {
        with(data);
        right!(buffer_end_access(buffer, error));
    }
}

/// Runs, waits for the end, and hands the output's binding to `then`.
fn run_then(
    executable: Raw<polychip_executable>,
    submit: *const polychip_submit,
    out: *mut Raw<polychip_fence>,
    error: Raw<polychip_error>,
    then: impl FnOnce(polychip_binding),
) -> u32 {
    let status = right!(execute(executable, submit, out, error));
    if status == POLYCHIP_STATUS_OK {
        // SAFETY: the call gave a fence, and had bindings to succeed.
        let (fence, binding) = unsafe { (*out, last_binding(submit)) };
        right!(fence_wait(fence, u64::MAX, std::ptr::null_mut()));
        if let Some(binding) = binding {
            then(binding);
        }
    }
    status
}

unsafe extern "C" fn wrong_on_odd(
    executable: Raw<polychip_executable>,
    submit: *const polychip_submit,
    out: *mut Raw<polychip_fence>,
    error: Raw<polychip_error>,
) -> u32 {
    run_then(executable, submit, out, error, |binding| {
        if binding.bytes / 4 % 2 == 1 {
            // SAFETY: the first byte of an opened range.
            touch(binding.buffer, binding.offset, 4, |data| unsafe {
                *data.add(3) ^= 0x40
            });
        }
    })
}

unsafe extern "C" fn ignores_size(
    executable: Raw<polychip_executable>,
    submit: *const polychip_submit,
    out: *mut Raw<polychip_fence>,
    error: Raw<polychip_error>,
) -> u32 {
    // SAFETY: the suite's runs are of this build.
    let mut submit = unsafe { *submit };
    // SAFETY: as above.
    let given = unsafe { std::slice::from_raw_parts(submit.bindings, submit.binding_count as usize) };
    let mut bindings = given.to_vec();
    for binding in &mut bindings {
        let mut port = <polychip_port as Sized>::sized();
        if right!(port_info(executable, binding.port, &raw mut port, error)) == POLYCHIP_STATUS_OK {
            binding.bytes = port.bytes;
        }
    }
    submit.bindings = bindings.as_ptr();
    right!(execute(executable, &raw const submit, out, error))
}

unsafe extern "C" fn writes_past_the_end(
    executable: Raw<polychip_executable>,
    submit: *const polychip_submit,
    out: *mut Raw<polychip_fence>,
    error: Raw<polychip_error>,
) -> u32 {
    run_then(executable, submit, out, error, |binding| {
        let (offset, bytes) = (binding.offset, binding.bytes);
        // SAFETY: it is not: one byte behind the range, where the suite keeps a guard.
        touch(binding.buffer, offset, bytes, |data| unsafe {
            *data.add(bytes as usize) = 1
        });
    })
}

unsafe extern "C" fn forgets(
    buffer: Raw<polychip_buffer>,
    access: u32,
    offset: u64,
    bytes: u64,
    out: *mut *mut u8,
    error: Raw<polychip_error>,
) -> u32 {
    let status = right!(buffer_begin_access(buffer, access, offset, bytes, out, error));
    if status == POLYCHIP_STATUS_OK && bytes > 0 && access == POLYCHIP_ACCESS_READ {
        // SAFETY: the first byte of an opened range.
        unsafe { **out = !**out };
    }
    status
}

unsafe extern "C" fn grants_outside(
    buffer: Raw<polychip_buffer>,
    access: u32,
    offset: u64,
    bytes: u64,
    out: *mut *mut u8,
    error: Raw<polychip_error>,
) -> u32 {
    let status = right!(buffer_begin_access(buffer, access, offset, bytes, out, error));
    if status == POLYCHIP_STATUS_BAD_ARGUMENT && access != 0 {
        return right!(buffer_begin_access(buffer, access, 0, 1, out, error));
    }
    status
}

unsafe extern "C" fn signals_twice(
    fence: Raw<polychip_fence>,
    signalled: Option<unsafe extern "C" fn(user: *mut c_void, status: u32)>,
    user: *mut c_void,
    error: Raw<polychip_error>,
) -> u32 {
    right!(fence_on_signal(fence, signalled, user, error));
    right!(fence_on_signal(fence, signalled, user, error))
}

unsafe extern "C" fn another_clock(
    fence: Raw<polychip_fence>,
    out: Raw<polychip_timing>,
    error: Raw<polychip_error>,
) -> u32 {
    let status = right!(fence_timing(fence, out, error));
    if status == POLYCHIP_STATUS_OK {
        // SAFETY: the call filled the record.
        let timing = unsafe { &mut *out };
        // as if counted from the year 1970
        timing.start_ns += 1 << 60;
        timing.end_ns += 1 << 60;
    }
    status
}

unsafe extern "C" fn ends_twice(
    fence: Raw<polychip_fence>,
    timeout_ns: u64,
    error: Raw<polychip_error>,
) -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let status = right!(fence_wait(fence, timeout_ns, error));
    if status == POLYCHIP_STATUS_OK && LAST.fetch_add(1, Ordering::Relaxed) % 4 == 3 {
        return POLYCHIP_STATUS_PERSISTENT;
    }
    status
}

unsafe extern "C" fn absurd_temperature(
    device: Raw<polychip_device>,
    out: Raw<polychip_telemetry>,
    error: Raw<polychip_error>,
) -> u32 {
    let status = right!(telemetry(device, out, error));
    if status == POLYCHIP_STATUS_OK {
        // SAFETY: the call filled the record.
        let found = unsafe { &mut *out };
        found.valid |= POLYCHIP_TELEMETRY_TEMPERATURE;
        found.temperature_mc = 1_000_000_000;
    }
    status
}

unsafe extern "C" fn miscounts_points(
    device: Raw<polychip_device>,
    out: Raw<polychip_operating_point>,
    capacity: u64,
    stride: u64,
    out_count: *mut u64,
    error: Raw<polychip_error>,
) -> u32 {
    let status = right!(operating_points(device, out, capacity, stride, out_count, error));
    if status == POLYCHIP_STATUS_OK {
        // SAFETY: the call wrote the count.
        unsafe { *out_count = (*out_count).min(capacity) };
    }
    status
}

unsafe extern "C" fn endless_memory(
    device: Raw<polychip_device>,
    wanted: *const polychip_memory,
    out: *mut Raw<polychip_buffer>,
    error: Raw<polychip_error>,
) -> u32 {
    // SAFETY: the suite's records are of this build.
    let mut wanted = unsafe { *wanted };
    wanted.bytes = wanted.bytes.min(1 << 30);
    right!(buffer_create(device, &raw const wanted, out, error))
}

unsafe extern "C" fn cancel_fails(_: Raw<polychip_fence>, _: Raw<polychip_error>) -> u32 {
    POLYCHIP_STATUS_PERSISTENT
}

unsafe extern "C" fn closes_null(device: Raw<polychip_device>) {
    // SAFETY: it is not, for null, which every destroy must accept.
    unsafe { device.cast::<u8>().read_volatile() };
    right!(device_close(device));
}

/// An executable was destroyed.
static GONE: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn executable_destroyed(executable: Raw<polychip_executable>) {
    GONE.store(true, Ordering::Release);
    right!(executable_destroy(executable));
}

unsafe extern "C" fn fence_dies(
    fence: Raw<polychip_fence>,
    timeout_ns: u64,
    error: Raw<polychip_error>,
) -> u32 {
    let status = right!(fence_wait(fence, timeout_ns, error));
    if GONE.load(Ordering::Acquire) {
        POLYCHIP_STATUS_DEVICE_LOST
    } else {
        status
    }
}

unsafe extern "C" fn leaves_threads(
    host: *const polychip_host_services,
    out: *mut Raw<polychip_instance>,
    error: Raw<polychip_error>,
) -> u32 {
    std::thread::spawn(|| std::thread::sleep(Duration::from_secs(3600)));
    right!(create(host, out, error))
}

unsafe extern "C" fn races(
    executable: Raw<polychip_executable>,
    submit: *const polychip_submit,
    out: *mut Raw<polychip_fence>,
    error: Raw<polychip_error>,
) -> u32 {
    static INSIDE: AtomicU32 = AtomicU32::new(0);
    let others = INSIDE.fetch_add(1, Ordering::AcqRel);
    let status = run_then(executable, submit, out, error, |binding| {
        std::thread::sleep(Duration::from_millis(1));
        if others > 0 {
            // SAFETY: the first bytes of an opened range.
            touch(binding.buffer, binding.offset, 4, |data| unsafe {
                *data.add(3) ^= 0x40
            });
        }
    });
    INSIDE.fetch_sub(1, Ordering::AcqRel);
    status
}

unsafe extern "C" fn leaks_memory(
    executable: Raw<polychip_executable>,
    submit: *const polychip_submit,
    out: *mut Raw<polychip_fence>,
    error: Raw<polychip_error>,
) -> u32 {
    std::mem::forget(vec![1u8; 8192]);
    right!(execute(executable, submit, out, error))
}

unsafe extern "C" fn leaks_descriptors(
    device: Raw<polychip_device>,
    wanted: *const polychip_memory,
    out: *mut Raw<polychip_buffer>,
    error: Raw<polychip_error>,
) -> u32 {
    std::mem::forget(std::fs::File::open("/dev/null"));
    right!(buffer_create(device, wanted, out, error))
}

unsafe extern "C" fn follows_null(
    device: Raw<polychip_device>,
    graph: *const polychip_graph,
    options: *const polychip_compile_options,
    out: *mut Raw<polychip_blob>,
    error: Raw<polychip_error>,
) -> u32 {
    if !graph.is_null() {
        // SAFETY: it is not, where there are no nodes.
        unsafe { (*graph).nodes.cast::<u8>().read_volatile() };
    }
    right!(compile(device, graph, options, out, error))
}

unsafe extern "C" fn takes_null(
    device: Raw<polychip_device>,
    out: Raw<polychip_device_info>,
    error: Raw<polychip_error>,
) -> u32 {
    if out.is_null() {
        return POLYCHIP_STATUS_OK;
    }
    right!(device_info(device, out, error))
}

unsafe extern "C" fn hangs(fence: Raw<polychip_fence>, timeout_ns: u64, error: Raw<polychip_error>) -> u32 {
    if timeout_ns == u64::MAX {
        std::thread::sleep(Duration::from_secs(3600));
    }
    right!(fence_wait(fence, timeout_ns, error))
}

unsafe extern "C" fn prints(
    executable: Raw<polychip_executable>,
    submit: *const polychip_submit,
    out: *mut Raw<polychip_fence>,
    error: Raw<polychip_error>,
) -> u32 {
    #[allow(clippy::print_stdout, reason = "what a vendor's library does")]
    {
        println!("{{\"end\":\"I am a vendor\"}}");
    }
    right!(execute(executable, submit, out, error))
}
