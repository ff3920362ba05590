//! Entries that turn a part into an executable: support, estimates, blobs, loading, ports.
//!
//! # Safety
//! As `calls`.

#![allow(
    unsafe_code,
    reason = "pointers and handles of the contract become references"
)]

use std::sync::{Arc, Mutex, PoisonError};

use polychip_abi as abi;
use polychip_abi::{
    polychip_blob, polychip_bytes, polychip_compile_options, polychip_cost, polychip_device, polychip_error,
    polychip_executable, polychip_executable_info, polychip_graph, polychip_load_source, polychip_port,
    polychip_support,
};

use super::entry::{boxed, entry, of, out, quietly, refuse_null};
use crate::graph::nodes_in_range;
use crate::raw::{self, Rows, to_bytes};
use crate::{
    Blob, CompileOptions, Constant, Device, Error, ErrorKind, Executable, GraphView, Layout, LoadSource,
    LoadedFrom, PortRequest, Precision, Result,
};

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

/// Splits `nodes`, the nodes of all parts, into those of each part.
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

/// A compiled part; `load` takes it out.
struct BlobHandle<B>(Mutex<Option<B>>);

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
        lean_blob: raw.flags & abi::POLYCHIP_COMPILE_LEAN_BLOB != 0,
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

/// A loaded part with the records of its ports.
pub(super) struct ExecutableHandle<E> {
    pub(super) executable: Arc<E>,
    pub(super) ports: Vec<polychip_port>,
    /// What `polychip_port::encoding` points to; never changed once the ports are made.
    #[allow(dead_code, reason = "held for the ports that point here")]
    encodings: Vec<abi::polychip_encoding>,
    inputs: u32,
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
                    "the plugin lists an input port after an output port",
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
