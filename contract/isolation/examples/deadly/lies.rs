//! Wrong answers of the deadly plugin: those of the null plugin, changed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use polychip_abi::*;

use super::{Raw, faulty, right};

/// A status that the contract does not have.
pub(super) const STATUS: u32 = 4242;

/// Addresses and sizes of imported buffers, by handle.
static BUFFERS: Mutex<BTreeMap<usize, (usize, u64)>> = Mutex::new(BTreeMap::new());

const HAS: &str = "invariant: the null plugin has it";

/// A text that lives as long as the process.
fn text(words: &'static str) -> polychip_text {
    polychip_text {
        data: words.as_ptr(),
        len: words.len() as u64,
    }
}

/// Nanoseconds as a careless plugin writes them into an integer.
fn careless(how: &str) -> Option<u64> {
    Some(match how {
        "zero" => 0,
        "negative" => (-5i64).cast_unsigned(),
        "nan" => f64::NAN.to_bits(),
        // 1e30 s do not fit: the cast stops at the largest number
        "absurd" => 1e39 as u64,
        _ => return None,
    })
}

/// What a call does for the faults that all calls share; none for another one.
fn shared(how: Option<&str>) -> Option<u32> {
    match how {
        Some("null") => Some(POLYCHIP_STATUS_OK),
        Some("status") => Some(STATUS),
        _ => None,
    }
}

pub(super) unsafe extern "C" fn plugin_info(out: Raw<polychip_plugin_info>) -> u32 {
    // SAFETY: the host's own argument.
    let status = unsafe { right().plugin_info.expect(HAS)(out) };
    match faulty("plugin_info").as_deref() {
        // SAFETY: a whole record of the host.
        Some("name") => unsafe { (*out).name = text("Not A Name!") },
        // SAFETY: as above.
        Some("long") => unsafe { (*out).name.len = u64::MAX },
        _ => {}
    }
    status
}

pub(super) unsafe extern "C" fn device_count(
    instance: Raw<polychip_instance>,
    out: Raw<u32>,
    error: Raw<polychip_error>,
) -> u32 {
    let how = faulty("device_count");
    // SAFETY: the host's own arguments.
    let status = unsafe { right().device_count.expect(HAS)(instance, out, error) };
    if how.as_deref() == Some("many") {
        // SAFETY: the host's number.
        unsafe { *out = 1_000_000_000 };
    }
    shared(how.as_deref()).unwrap_or(status)
}

pub(super) unsafe extern "C" fn device_info(
    device: Raw<polychip_device>,
    out: Raw<polychip_device_info>,
    error: Raw<polychip_error>,
) -> u32 {
    let how = faulty("device_info");
    // SAFETY: the host's own arguments.
    let status = unsafe { right().device_info.expect(HAS)(device, out, error) };
    if how.as_deref() == Some("garbage") {
        // SAFETY: a whole record of the host.
        let info = unsafe { &mut *out };
        (info.kind, info.import_alignment) = (77, 3);
        (info.peak_macs_per_s, info.peak_bytes_per_s) = (u64::MAX, u64::MAX);
    }
    if how.as_deref() == Some("driver") {
        // SAFETY: a whole record of the host.
        unsafe { (*out).driver = text("another driver") };
    }
    shared(how.as_deref()).unwrap_or(status)
}

pub(super) unsafe extern "C" fn query_support(
    device: Raw<polychip_device>,
    graph: *const polychip_graph,
    out: Raw<polychip_support>,
    stride: u64,
    error: Raw<polychip_error>,
) -> u32 {
    let how = faulty("query_support");
    // SAFETY: the graph of the host.
    let count = unsafe { (*graph).node_count } as usize;
    let at = |index: usize| out.wrapping_byte_add(index * stride as usize);
    match how.as_deref() {
        Some("short") => {
            // one answer alone
            // SAFETY: a record per node.
            unsafe { (*at(0)).reason = POLYCHIP_SUPPORT_YES };
            return POLYCHIP_STATUS_OK;
        }
        Some("long") => {
            for index in 0..=count {
                // SAFETY: none for the last one; this is the fault.
                unsafe { (*at(index)).reason = POLYCHIP_SUPPORT_YES };
            }
            return POLYCHIP_STATUS_OK;
        }
        Some("garbage") => {
            for index in 0..count {
                // SAFETY: a record per node.
                let answer = unsafe { &mut *at(index) };
                (answer.reason, answer.detail_len) = (77, u32::MAX);
            }
            return POLYCHIP_STATUS_OK;
        }
        _ => {}
    }
    // SAFETY: the host's own arguments.
    let status = unsafe { right().query_support.expect(HAS)(device, graph, out, stride, error) };
    shared(how.as_deref()).unwrap_or(status)
}

pub(super) unsafe extern "C" fn estimate(
    device: Raw<polychip_device>,
    graph: *const polychip_graph,
    nodes: *const u32,
    part_ends: *const u64,
    part_count: u64,
    out: Raw<polychip_cost>,
    stride: u64,
    error: Raw<polychip_error>,
) -> u32 {
    let how = faulty("estimate");
    let call = right().estimate.expect(HAS);
    // SAFETY: the host's own arguments.
    let status = unsafe { call(device, graph, nodes, part_ends, part_count, out, stride, error) };
    if let Some(time_ns) = how.as_deref().and_then(careless) {
        for index in 0..part_count as usize {
            // SAFETY: a record per part.
            let cost = unsafe { &mut *out.wrapping_byte_add(index * stride as usize) };
            cost.valid |= POLYCHIP_COST_TIME | POLYCHIP_COST_LAUNCH;
            (cost.time_ns, cost.launch_ns) = (time_ns, time_ns);
        }
    }
    if how.as_deref() == Some("long") {
        // SAFETY: none; this is the fault.
        unsafe { (*out.wrapping_byte_add(part_count as usize * stride as usize)).valid = 1 };
    }
    shared(how.as_deref()).unwrap_or(status)
}

pub(super) unsafe extern "C" fn telemetry(
    device: Raw<polychip_device>,
    out: Raw<polychip_telemetry>,
    error: Raw<polychip_error>,
) -> u32 {
    let how = faulty("telemetry");
    // SAFETY: the host's own arguments.
    let status = unsafe { right().telemetry.expect(HAS)(device, out, error) };
    if how.as_deref() == Some("hot") {
        // SAFETY: a whole record of the host.
        let found = unsafe { &mut *out };
        found.valid |= POLYCHIP_TELEMETRY_TEMPERATURE | POLYCHIP_TELEMETRY_LOAD;
        (found.temperature_mc, found.load_permille) = (9_000_000, 70_000);
    }
    shared(how.as_deref()).unwrap_or(status)
}

pub(super) unsafe extern "C" fn blob_bytes(
    blob: Raw<polychip_blob>,
    out: Raw<polychip_bytes>,
    error: Raw<polychip_error>,
) -> u32 {
    let how = faulty("blob_bytes");
    // SAFETY: the host's own arguments.
    let status = unsafe { right().blob_bytes.expect(HAS)(blob, out, error) };
    if how.as_deref() == Some("long") {
        // SAFETY: the host's record.
        unsafe { (*out).len = 1 << 60 };
    }
    shared(how.as_deref()).unwrap_or(status)
}

pub(super) unsafe extern "C" fn executable_info(
    executable: Raw<polychip_executable>,
    out: Raw<polychip_executable_info>,
    error: Raw<polychip_error>,
) -> u32 {
    let how = faulty("executable_info");
    // SAFETY: the host's own arguments.
    let status = unsafe { right().executable_info.expect(HAS)(executable, out, error) };
    if how.as_deref() == Some("garbage") {
        // SAFETY: a whole record of the host.
        unsafe { (*out).output_count = 77 };
    }
    shared(how.as_deref()).unwrap_or(status)
}

pub(super) unsafe extern "C" fn port_info(
    executable: Raw<polychip_executable>,
    port: u32,
    out: Raw<polychip_port>,
    error: Raw<polychip_error>,
) -> u32 {
    let how = faulty("port_info");
    // SAFETY: the host's own arguments.
    let status = unsafe { right().port_info.expect(HAS)(executable, port, out, error) };
    // SAFETY: a whole record of the host.
    let found = unsafe { &mut *out };
    match how.as_deref() {
        Some("small") => found.bytes = 1,
        Some("huge") => found.bytes = 1 << 60,
        Some("rank") => found.rank = 99,
        Some("alignment") => found.alignment = 3 << 20,
        _ => {}
    }
    shared(how.as_deref()).unwrap_or(status)
}

pub(super) unsafe extern "C" fn buffer_import(
    device: Raw<polychip_device>,
    memory: *const polychip_memory,
    out: Raw<Raw<polychip_buffer>>,
    error: Raw<polychip_error>,
) -> u32 {
    if let Some(status) = shared(faulty("buffer_import").as_deref()) {
        return status;
    }
    // SAFETY: the host's own arguments.
    let status = unsafe { right().buffer_import.expect(HAS)(device, memory, out, error) };
    if status == POLYCHIP_STATUS_OK {
        // SAFETY: the call has succeeded, so both are valid.
        let (buffer, memory) = unsafe { (*out, &*memory) };
        let mut buffers = BUFFERS.lock().unwrap_or_else(PoisonError::into_inner);
        buffers.insert(buffer as usize, (memory.data as usize, memory.bytes));
    }
    status
}

pub(super) unsafe extern "C" fn execute(
    executable: Raw<polychip_executable>,
    submit: *const polychip_submit,
    out: Raw<Raw<polychip_fence>>,
    error: Raw<polychip_error>,
) -> u32 {
    let how = faulty("execute");
    if let Some(status) = shared(how.as_deref()) {
        return status;
    }
    // SAFETY: the host's own arguments.
    let status = unsafe { right().execute.expect(HAS)(executable, submit, out, error) };
    match how.as_deref() {
        // SAFETY: the host's own argument.
        Some("past4") => unsafe { write_past(submit, 4) },
        // SAFETY: as above.
        Some("past1m") => unsafe { write_past(submit, 1 << 20) },
        _ => {}
    }
    status
}

/// Writes behind the last port, which is an output.
///
/// # Safety
/// The record is the host's.
unsafe fn write_past(submit: *const polychip_submit, count: usize) {
    // SAFETY: the host's record, and a binding per port.
    let last = unsafe {
        let submit = &*submit;
        let at = |index: u64| {
            submit
                .bindings
                .wrapping_byte_add((index * submit.binding_stride) as usize)
        };
        let bindings = (0..submit.binding_count).map(|index| *at(index));
        bindings.max_by_key(|binding| binding.port)
    };
    let Some(last) = last else { return };
    let buffers = BUFFERS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(&(data, _)) = buffers.get(&(last.buffer as usize)) else {
        return;
    };
    if data == 0 {
        return;
    }
    let end = data + (last.offset + last.bytes) as usize;
    for byte in end..end + count {
        // SAFETY: none; this is the fault.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(byte).write_volatile(0x5A) };
    }
}

pub(super) unsafe extern "C" fn fence_timing(
    fence: Raw<polychip_fence>,
    out: Raw<polychip_timing>,
    error: Raw<polychip_error>,
) -> u32 {
    let how = faulty("fence_timing");
    // SAFETY: the host's own arguments.
    let status = unsafe { right().fence_timing.expect(HAS)(fence, out, error) };
    if how.as_deref() == Some("garbage") {
        // SAFETY: a whole record of the host.
        let found = unsafe { &mut *out };
        found.valid |= POLYCHIP_TIMING_SPAN | POLYCHIP_TIMING_COPIED;
        (found.start_ns, found.end_ns) = (u64::MAX, 1);
        found.copied_bytes = u64::MAX;
    }
    shared(how.as_deref()).unwrap_or(status)
}
