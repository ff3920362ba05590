//! The C entries of a plugin: arguments are checked, the trait is called, unwinds and errors become
//! statuses.
//!
//! Invariants:
//! 1. Nothing unwinds out of an entry.
//! 2. An output is written only when the call succeeds.
//! 3. Handles are boxes or `Arc`s of the types named in `handle`, made and freed here only.
//!
//! # Safety
//! Each entry relies on the contract: handles are live ones of this plugin, pointers are null or
//! readable (outputs: writable) for their `struct_size` or count.

#![allow(
    unsafe_code,
    reason = "the C side of the contract is here: pointers and handles become references"
)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the duties of all entries are those of the contract, said once above"
)]

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use polychip_abi as abi;
use polychip_abi::{
    polychip_blob, polychip_buffer, polychip_bytes, polychip_compile_options, polychip_cost, polychip_device,
    polychip_device_info, polychip_error, polychip_executable, polychip_executable_info, polychip_fence,
    polychip_graph, polychip_host_services, polychip_instance, polychip_load_source, polychip_memory,
    polychip_operating_point, polychip_plugin_info, polychip_port, polychip_submit, polychip_support,
    polychip_telemetry, polychip_timing,
};

use crate::graph::nodes_in_range;
use crate::raw::{self, Rows, to_bytes, to_text};
use crate::{
    Access, Blob, Buffer, CompileOptions, Constant, Device, Error, ErrorKind, Executable, Fence, GraphView,
    HostServices, Layout, LoadSource, LoadedFrom, Memory, MemoryKind, Plugin, PortRequest, Precision, Result,
    SignalCallback, Submit,
};

/// A compiled part; `load` takes it out.
struct BlobHandle<B>(Mutex<Option<B>>);

/// A loaded part with the records of its ports.
struct ExecutableHandle<E> {
    executable: Arc<E>,
    ports: Vec<polychip_port>,
    /// What `polychip_port::encoding` points to; never changed once the ports are made.
    #[allow(dead_code, reason = "held for the ports that point here")]
    encodings: Vec<abi::polychip_encoding>,
    inputs: u32,
}

/// Runs an entry; the result as a status, with the error record filled.
unsafe fn entry(error: *mut polychip_error, call: impl FnOnce() -> Result<()>) -> u32 {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => return abi::POLYCHIP_STATUS_OK,
        Ok(Err(failure)) => failure,
        Err(payload) => panicked(payload),
    };
    if !error.is_null() {
        // A torn record cannot be filled; the status still tells.
        // SAFETY: the caller's record, as the contract has it.
        let _ = unsafe { raw::write(error, &failure.record()) };
    }
    failure.kind().status()
}

/// Runs an entry that returns nothing.
fn quietly(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        // a payload whose drop panics again must not unwind either
        std::mem::forget(payload);
    }
}

fn panicked(payload: Box<dyn Any + Send>) -> Error {
    let words = match payload.downcast::<String>() {
        Ok(words) => *words,
        Err(payload) => match payload.downcast::<&str>() {
            Ok(words) => (*words).to_owned(),
            Err(payload) => {
                // dropping something unknown may panic again
                std::mem::forget(payload);
                "without words".to_owned()
            }
        },
    };
    Error::new(ErrorKind::Persistent, format!("the plugin panicked: {words}"))
}

/// The object behind a handle.
unsafe fn of<'a, H, T>(handle: *mut H, what: &'static str) -> Result<&'a T> {
    if handle.is_null() {
        return Err(Error::bad_argument(format!("{what} is null")));
    }
    // SAFETY: a live handle made here.
    Ok(unsafe { &*handle.cast::<T>() })
}

/// Writes an output.
unsafe fn out<T>(to: *mut T, value: T) -> Result<()> {
    if to.is_null() {
        return Err(Error::bad_argument("the place for the result is null"));
    }
    // SAFETY: writable as the contract has it.
    unsafe { to.write(value) };
    Ok(())
}

fn boxed<T, H>(value: T) -> *mut H {
    Box::into_raw(Box::new(value)).cast()
}

fn shared<T, H>(value: Arc<T>) -> *mut H {
    Arc::into_raw(value).cast_mut().cast()
}

fn refuse_null<T>(place: *mut T) -> Result<()> {
    if place.is_null() {
        return Err(Error::bad_argument("the place for the result is null"));
    }
    Ok(())
}

pub(crate) unsafe extern "C" fn plugin_info<P: Plugin>(out_info: *mut polychip_plugin_info) -> u32 {
    // SAFETY: no record to fill.
    unsafe {
        entry(std::ptr::null_mut(), || {
            let info = polychip_plugin_info {
                name: to_text(P::INFO.name),
                version: to_text(P::INFO.version),
                build_id: to_text(P::INFO.build_id),
                ..<polychip_plugin_info as abi::Sized>::sized()
            };
            // SAFETY: the contract.
            raw::write(out_info, &info)
        })
    }
}

pub(crate) unsafe extern "C" fn create<P: Plugin>(
    host: *const polychip_host_services,
    out_instance: *mut *mut polychip_instance,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract; the host's services outlive the instance.
    unsafe {
        entry(error, || {
            refuse_null(out_instance)?;
            let instance = P::create(HostServices::new(host)?)?;
            out(out_instance, boxed(instance))
        })
    }
}

pub(crate) unsafe extern "C" fn destroy<P: Plugin>(instance: *mut polychip_instance) {
    if !instance.is_null() {
        // SAFETY: made by `create`, destroyed once.
        quietly(|| drop(unsafe { Box::from_raw(instance.cast::<P>()) }));
    }
}

pub(crate) unsafe extern "C" fn device_count<P: Plugin>(
    instance: *mut polychip_instance,
    out_count: *mut u32,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            out(out_count, of::<_, P>(instance, "instance")?.device_count()?)
        })
    }
}

pub(crate) unsafe extern "C" fn device_open<P: Plugin>(
    instance: *mut polychip_instance,
    index: u32,
    out_device: *mut *mut polychip_device,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_device)?;
            let device = of::<_, P>(instance, "instance")?.open(index)?;
            out(out_device, boxed(device))
        })
    }
}

pub(crate) unsafe extern "C" fn device_info<D: Device>(
    device: *mut polychip_device,
    out_info: *mut polychip_device_info,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract; `info` borrows from the device, so its texts live as long.
    unsafe {
        entry(error, || {
            let info = of::<_, D>(device, "device")?.info();
            let bit = |set: bool, bit: u32| if set { bit } else { 0 };
            let record = polychip_device_info {
                kind: info.kind as u32,
                flags: bit(info.emulated, abi::POLYCHIP_DEVICE_EMULATED)
                    | bit(info.shares_host_memory, abi::POLYCHIP_DEVICE_SHARES_HOST_MEMORY)
                    | bit(info.serial, abi::POLYCHIP_DEVICE_SERIAL),
                import_kinds: info.import_kinds.bits(),
                export_kinds: info.export_kinds.bits(),
                import_alignment: info.import_alignment,
                name: to_text(&info.name),
                vendor: to_text(&info.vendor),
                soc: to_text(&info.soc),
                driver: to_text(&info.driver),
                memory_bytes: info.memory_bytes,
                peak_macs_per_s: info.peak_macs_per_s,
                peak_bytes_per_s: info.peak_bytes_per_s,
                settings: to_text(&info.settings),
                rates_measured_s: info.rates_measured_s.unwrap_or(0),
                ..<polychip_device_info as abi::Sized>::sized()
            };
            raw::write(out_info, &record)
        })
    }
}

pub(crate) unsafe extern "C" fn device_close<D: Device>(device: *mut polychip_device) {
    if !device.is_null() {
        // SAFETY: made by `device_open`, closed once.
        quietly(|| drop(unsafe { Box::from_raw(device.cast::<D>()) }));
    }
}

pub(crate) unsafe extern "C" fn operating_points<D: Device>(
    device: *mut polychip_device,
    out_points: *mut polychip_operating_point,
    capacity: u64,
    stride: u64,
    out_count: *mut u64,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let points = of::<_, D>(device, "device")?.operating_points();
            let rows = Rows::new(out_points.cast_const(), capacity, stride)?;
            for (index, point) in points.iter().enumerate().take(rows.len()) {
                let record = polychip_operating_point {
                    name: to_text(&point.name),
                    frequency_khz: point.frequency_khz,
                    power_mw: point.power_mw,
                    ..<polychip_operating_point as abi::Sized>::sized()
                };
                raw::write(rows.at(index).cast_mut(), &record)?;
            }
            out(out_count, points.len() as u64)
        })
    }
}

pub(crate) unsafe extern "C" fn set_operating_point<D: Device>(
    device: *mut polychip_device,
    index: u32,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe { entry(error, || of::<_, D>(device, "device")?.set_operating_point(index)) }
}

pub(crate) unsafe extern "C" fn query_support<D: Device>(
    device: *mut polychip_device,
    graph: *const polychip_graph,
    out_support: *mut polychip_support,
    stride: u64,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let device = of::<_, D>(device, "device")?;
            let graph = GraphView::new(graph)?;
            let rows = Rows::new(out_support.cast_const(), graph.node_count() as u64, stride)?;
            let answers = device.query_support(&graph)?;
            if answers.len() != rows.len() {
                return Err(Error::new(
                    ErrorKind::Persistent,
                    format!(
                        "the plugin answered for {} of {} nodes",
                        answers.len(),
                        rows.len()
                    ),
                ));
            }
            for (index, answer) in answers.iter().enumerate() {
                raw::write(rows.at(index).cast_mut(), &answer.record())?;
            }
            Ok(())
        })
    }
}

pub(crate) unsafe extern "C" fn estimate<D: Device>(
    device: *mut polychip_device,
    graph: *const polychip_graph,
    nodes: *const u32,
    part_ends: *const u64,
    part_count: u64,
    out_costs: *mut polychip_cost,
    stride: u64,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let device = of::<_, D>(device, "device")?;
            let graph = GraphView::new(graph)?;
            let ends = raw::slice(part_ends, part_count, "part ends")?;
            let nodes = raw::slice(nodes, ends.last().copied().unwrap_or(0), "nodes")?;
            nodes_in_range(&graph, nodes)?;
            let parts = parts_of(nodes, ends)?;
            let rows = Rows::new(out_costs.cast_const(), part_count, stride)?;
            let costs = device.estimate_parts(&graph, &parts)?;
            if costs.len() != rows.len() {
                return Err(Error::new(
                    ErrorKind::Persistent,
                    format!("the plugin estimated {} of {} parts", costs.len(), rows.len()),
                ));
            }
            for (index, cost) in costs.iter().enumerate() {
                raw::write(rows.at(index).cast_mut(), &cost.record())?;
            }
            Ok(())
        })
    }
}

/// The nodes of each part, of those of all parts and the places where the parts end.
fn parts_of<'a>(nodes: &'a [u32], ends: &[u64]) -> Result<Vec<&'a [u32]>> {
    let mut begin = 0;
    ends.iter()
        .map(|&end| {
            let end = usize::try_from(end).unwrap_or(usize::MAX);
            let part = nodes.get(begin..end).ok_or_else(|| {
                Error::bad_argument(format!(
                    "a part of nodes {begin} to {end} of {} that are listed",
                    nodes.len()
                ))
            })?;
            begin = end;
            Ok(part)
        })
        .collect()
}

pub(crate) unsafe extern "C" fn compile<D: Device>(
    device: *mut polychip_device,
    graph: *const polychip_graph,
    options: *const polychip_compile_options,
    out_blob: *mut *mut polychip_blob,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_blob)?;
            let device = of::<_, D>(device, "device")?;
            let graph = GraphView::new(graph)?;
            let options = compile_options(options, graph.inputs().len() + graph.outputs().len())?;
            let blob = device.compile(&graph, &options)?;
            out(out_blob, boxed(BlobHandle(Mutex::new(Some(blob)))))
        })
    }
}

unsafe fn compile_options(options: *const polychip_compile_options, ports: usize) -> Result<CompileOptions> {
    // SAFETY: the contract.
    let raw = unsafe { raw::read(options) }?;
    let rows = Rows::new(raw.ports, raw.port_count, raw.port_stride)?;
    let mut requests = Vec::with_capacity(rows.len().min(ports));
    for index in 0..rows.len() {
        // SAFETY: the contract.
        let request = unsafe { rows.read(index) }?;
        let layout = Layout::from_code(request.layout);
        let (true, Some(layout)) = ((request.port as usize) < ports, layout) else {
            return Err(Error::bad_argument(format!(
                "request of layout {} for port {} of {ports}",
                request.layout, request.port
            )));
        };
        requests.push(PortRequest {
            port: request.port,
            layout,
        });
    }
    Ok(CompileOptions {
        precision: match raw.precision {
            abi::POLYCHIP_PRECISION_REDUCED => Precision::Reduced,
            _ => Precision::Exact,
        },
        threads: raw.threads,
        operating_point: (raw.operating_point != abi::POLYCHIP_NO_INDEX).then_some(raw.operating_point),
        ports: requests,
    })
}

pub(crate) unsafe extern "C" fn blob_bytes<D: Device>(
    blob: *mut polychip_blob,
    out_bytes: *mut polychip_bytes,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let handle = of::<_, BlobHandle<D::Blob>>(blob, "blob")?;
            let held = handle.0.lock().unwrap_or_else(PoisonError::into_inner);
            let blob = held
                .as_ref()
                .ok_or_else(|| Error::bad_argument("the blob was loaded and can only be destroyed"))?;
            out(out_bytes, to_bytes(blob.bytes()?))
        })
    }
}

pub(crate) unsafe extern "C" fn blob_destroy<D: Device>(blob: *mut polychip_blob) {
    if !blob.is_null() {
        // SAFETY: made by `compile`, destroyed once.
        quietly(|| drop(unsafe { Box::from_raw(blob.cast::<BlobHandle<D::Blob>>()) }));
    }
}

pub(crate) unsafe extern "C" fn load<D: Device>(
    device: *mut polychip_device,
    source: *const polychip_load_source,
    out_executable: *mut *mut polychip_executable,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_executable)?;
            let device = of::<_, D>(device, "device")?;
            let source = raw::read(source)?;
            let graph = if source.graph.is_null() {
                None
            } else {
                Some(GraphView::new(source.graph)?)
            };
            let from = if source.blob.is_null() {
                LoadedFrom::Bytes(Constant::new(source.bytes)?)
            } else {
                let handle = of::<_, BlobHandle<D::Blob>>(source.blob, "blob")?;
                let blob = handle.0.lock().unwrap_or_else(PoisonError::into_inner).take();
                LoadedFrom::Blob(blob.ok_or_else(|| {
                    Error::bad_argument("the blob was loaded before and can only be destroyed")
                })?)
            };
            let executable = device.load(LoadSource {
                from,
                graph,
                threads: source.threads,
            })?;
            out(out_executable, boxed(executable_handle(executable)?))
        })
    }
}

fn executable_handle<E: Executable>(executable: Arc<E>) -> Result<ExecutableHandle<E>> {
    let encodings: Vec<_> = executable
        .ports()
        .iter()
        .filter_map(|port| Some(port.encoding.as_ref()?.record()))
        .collect();
    let mut next_encoding = encodings.iter();
    let mut ports = Vec::new();
    let mut inputs = 0;
    for port in executable.ports() {
        let mut record = port.record()?;
        if port.encoding.is_some() {
            record.encoding = next_encoding.next().expect("invariant: collected above");
        }
        if !port.output {
            if inputs as usize != ports.len() {
                return Err(Error::new(
                    ErrorKind::Persistent,
                    "the plugin lists an input port behind an output port",
                ));
            }
            inputs += 1;
        }
        ports.push(record);
    }
    Ok(ExecutableHandle {
        executable,
        ports,
        encodings,
        inputs,
    })
}

pub(crate) unsafe extern "C" fn executable_info<D: Device>(
    executable: *mut polychip_executable,
    out_info: *mut polychip_executable_info,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let handle = of::<_, ExecutableHandle<D::Executable>>(executable, "executable")?;
            let info = handle.executable.info();
            let record = polychip_executable_info {
                input_count: handle.inputs,
                output_count: handle.ports.len() as u32 - handle.inputs,
                constant_bytes: info.constant_bytes,
                arena_bytes: info.arena_bytes,
                ..<polychip_executable_info as abi::Sized>::sized()
            };
            raw::write(out_info, &record)
        })
    }
}

pub(crate) unsafe extern "C" fn port_info<D: Device>(
    executable: *mut polychip_executable,
    port: u32,
    out_port: *mut polychip_port,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let handle = of::<_, ExecutableHandle<D::Executable>>(executable, "executable")?;
            let record = handle.ports.get(port as usize).ok_or_else(|| {
                Error::bad_argument(format!("port {port} of {}", handle.ports.len())).at_tensor(port)
            })?;
            raw::write(out_port, record)
        })
    }
}

pub(crate) unsafe extern "C" fn executable_destroy<D: Device>(executable: *mut polychip_executable) {
    if !executable.is_null() {
        let handle = executable.cast::<ExecutableHandle<D::Executable>>();
        // SAFETY: made by `load`, destroyed once.
        quietly(|| drop(unsafe { Box::from_raw(handle) }));
    }
}

pub(crate) unsafe extern "C" fn buffer_create<D: Device>(
    device: *mut polychip_device,
    wanted: *const polychip_memory,
    out_buffer: *mut *mut polychip_buffer,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_buffer)?;
            let device = of::<_, D>(device, "device")?;
            let wanted = Memory::from_record(&raw::read(wanted)?)?;
            out(out_buffer, shared(device.buffer_create(&wanted)?))
        })
    }
}

pub(crate) unsafe extern "C" fn buffer_import<D: Device>(
    device: *mut polychip_device,
    memory: *const polychip_memory,
    out_buffer: *mut *mut polychip_buffer,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract; imported memory is valid until the buffer is destroyed.
    unsafe {
        entry(error, || {
            refuse_null(out_buffer)?;
            let device = of::<_, D>(device, "device")?;
            let memory = Memory::from_record(&raw::read(memory)?)?;
            let info = device.info();
            if !info.import_kinds.contains(memory.kind()) {
                return Err(Error::unsupported(format!(
                    "memory of kind {:?} cannot be imported",
                    memory.kind()
                )));
            }
            let alignment = info.import_alignment.max(1) as usize;
            if memory.kind() == MemoryKind::Host && !(memory.data() as usize).is_multiple_of(alignment) {
                return Err(Error::unsupported(format!(
                    "host memory to import must be aligned to {alignment} bytes"
                )));
            }
            out(out_buffer, shared(device.buffer_import(&memory)?))
        })
    }
}

pub(crate) unsafe extern "C" fn buffer_export<D: Device>(
    buffer: *mut polychip_buffer,
    kind: u32,
    out_memory: *mut polychip_memory,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let buffer = of::<_, D::Buffer>(buffer, "buffer")?;
            let kind = MemoryKind::from_code(kind)
                .ok_or_else(|| Error::unsupported(format!("memory kind {kind} is not known")))?;
            raw::write(out_memory, &buffer.export(kind)?.record())
        })
    }
}

pub(crate) unsafe extern "C" fn buffer_begin_access<D: Device>(
    buffer: *mut polychip_buffer,
    access: u32,
    offset: u64,
    bytes: u64,
    out_data: *mut *mut u8,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_data)?;
            let buffer = of::<_, D::Buffer>(buffer, "buffer")?;
            let known = abi::POLYCHIP_ACCESS_READ | abi::POLYCHIP_ACCESS_WRITE;
            if access == 0 || access & !known != 0 {
                return Err(Error::bad_argument(format!("access {access} is not known")));
            }
            let size = buffer.bytes();
            if offset.checked_add(bytes).is_none_or(|end| end > size as u64) {
                return Err(Error::bad_argument(format!(
                    "access to {bytes} bytes at {offset} of a buffer of {size}"
                )));
            }
            let access = Access {
                read: access & abi::POLYCHIP_ACCESS_READ != 0,
                write: access & abi::POLYCHIP_ACCESS_WRITE != 0,
            };
            out(
                out_data,
                buffer.begin_access(access, offset as usize, bytes as usize)?,
            )
        })
    }
}

pub(crate) unsafe extern "C" fn buffer_end_access<D: Device>(
    buffer: *mut polychip_buffer,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe { entry(error, || of::<_, D::Buffer>(buffer, "buffer")?.end_access()) }
}

pub(crate) unsafe extern "C" fn buffer_destroy<D: Device>(buffer: *mut polychip_buffer) {
    if !buffer.is_null() {
        // SAFETY: made by `Arc::into_raw`, destroyed once.
        quietly(|| drop(unsafe { Arc::from_raw(buffer.cast_const().cast::<D::Buffer>()) }));
    }
}

pub(crate) unsafe extern "C" fn execute<D: Device>(
    executable: *mut polychip_executable,
    submit: *const polychip_submit,
    out_fence: *mut *mut polychip_fence,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_fence)?;
            let handle = of::<_, ExecutableHandle<D::Executable>>(executable, "executable")?;
            let submit = Submit::new(submit, &handle.ports)?;
            out(out_fence, shared(handle.executable.execute(&submit)?))
        })
    }
}

pub(crate) unsafe extern "C" fn cancel<D: Device>(
    fence: *mut polychip_fence,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe { entry(error, || of::<_, D::Fence>(fence, "fence")?.cancel()) }
}

pub(crate) unsafe extern "C" fn device_reset<D: Device>(
    device: *mut polychip_device,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe { entry(error, || of::<_, D>(device, "device")?.reset()) }
}

pub(crate) unsafe extern "C" fn fence_wait<D: Device>(
    fence: *mut polychip_fence,
    timeout_ns: u64,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe { entry(error, || of::<_, D::Fence>(fence, "fence")?.wait(timeout_ns)) }
}

pub(crate) unsafe extern "C" fn fence_on_signal<D: Device>(
    fence: *mut polychip_fence,
    signalled: Option<unsafe extern "C" fn(user: *mut c_void, status: u32)>,
    user: *mut c_void,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract; the callback may be made once from any thread.
    unsafe {
        entry(error, || {
            let fence = of::<_, D::Fence>(fence, "fence")?;
            let signalled = signalled.ok_or_else(|| Error::bad_argument("the callback is null"))?;
            fence.on_signal(SignalCallback::new(signalled, user))
        })
    }
}

pub(crate) unsafe extern "C" fn fence_import_fd<D: Device>(
    device: *mut polychip_device,
    fd: i64,
    out_fence: *mut *mut polychip_fence,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_fence)?;
            let fence = of::<_, D>(device, "device")?.fence_import(fd)?;
            out(out_fence, shared(fence))
        })
    }
}

pub(crate) unsafe extern "C" fn fence_export_fd<D: Device>(
    fence: *mut polychip_fence,
    out_fd: *mut i64,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            refuse_null(out_fd)?;
            out(out_fd, of::<_, D::Fence>(fence, "fence")?.export_fd()?)
        })
    }
}

pub(crate) unsafe extern "C" fn fence_timing<D: Device>(
    fence: *mut polychip_fence,
    out_timing: *mut polychip_timing,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let timing = of::<_, D::Fence>(fence, "fence")?.timing()?;
            raw::write(out_timing, &timing.record())
        })
    }
}

pub(crate) unsafe extern "C" fn fence_output_shape<D: Device>(
    fence: *mut polychip_fence,
    port: u32,
    out_dims: *mut i64,
    capacity: u64,
    out_rank: *mut u64,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let fence = of::<_, D::Fence>(fence, "fence")?;
            let mut dims = [0i64; abi::POLYCHIP_MAX_RANK];
            let rank = fence.output_shape(port, &mut dims)?;
            let count = rank
                .min(dims.len())
                .min(usize::try_from(capacity).unwrap_or(usize::MAX));
            if count > 0 {
                refuse_null(out_dims)?;
                std::ptr::copy_nonoverlapping(dims.as_ptr(), out_dims, count);
            }
            out(out_rank, rank as u64)
        })
    }
}

pub(crate) unsafe extern "C" fn fence_destroy<D: Device>(fence: *mut polychip_fence) {
    if !fence.is_null() {
        // SAFETY: made by `Arc::into_raw`, destroyed once.
        quietly(|| drop(unsafe { Arc::from_raw(fence.cast_const().cast::<D::Fence>()) }));
    }
}

pub(crate) unsafe extern "C" fn telemetry<D: Device>(
    device: *mut polychip_device,
    out_telemetry: *mut polychip_telemetry,
    error: *mut polychip_error,
) -> u32 {
    // SAFETY: the contract.
    unsafe {
        entry(error, || {
            let telemetry = of::<_, D>(device, "device")?.telemetry()?;
            raw::write(out_telemetry, &telemetry.record())
        })
    }
}
