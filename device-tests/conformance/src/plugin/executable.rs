//! Blobs and executables: compile, bytes, load, ports.
//!
//! Invariant: an executable holds its graph, whose constants its blob may point to, and its bytes.

#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, PoisonError};

use polychip_abi as abi;
use polychip_abi::Sized;
use polychip_host::FlatGraph;

use super::call::{Call, breach, checked};
use super::device::Device;

/// A compiled part.
pub struct Blob {
    device: Arc<Device>,
    graph: Arc<FlatGraph>,
    raw: *mut abi::polychip_blob,
}

// SAFETY: the contract allows calls on a blob from any thread, one at a time; `bytes` takes `&mut`.
unsafe impl Send for Blob {}

impl Drop for Blob {
    fn drop(&mut self) {
        if let Some(destroy) = self.device.table().blob_destroy {
            // SAFETY: made by this table, destroyed once.
            unsafe { destroy(self.raw) };
        }
    }
}

impl Blob {
    pub(crate) fn compile(device: &Arc<Device>, graph: &Arc<FlatGraph>, reduced: bool) -> Call<Blob> {
        let mut options = abi::polychip_compile_options::sized();
        options.operating_point = abi::POLYCHIP_NO_INDEX;
        options.threads = 1;
        if reduced {
            options.precision = abi::POLYCHIP_PRECISION_REDUCED;
        }
        Blob::with(device, graph, &options)
    }

    /// Compiles with these options.
    ///
    /// # Errors
    /// The call failed.
    pub fn with(
        device: &Arc<Device>,
        graph: &Arc<FlatGraph>,
        options: &abi::polychip_compile_options,
    ) -> Call<Blob> {
        let call = device
            .table()
            .compile
            .expect("invariant: required calls are checked");
        let mut raw = std::ptr::null_mut();
        // SAFETY: graph and options are valid for the call.
        checked("compile", |record| unsafe {
            call(device.raw(), graph.raw(), options, &raw mut raw, record)
        })?;
        if raw.is_null() {
            return Err(breach("compile", "it returned no blob"));
        }
        Ok(Blob {
            device: Arc::clone(device),
            graph: Arc::clone(graph),
            raw,
        })
    }

    /// The bytes of the blob, copied.
    ///
    /// # Errors
    /// The call failed.
    pub fn bytes(&mut self) -> Call<Arc<[u8]>> {
        let call = self
            .device
            .table()
            .blob_bytes
            .expect("invariant: required calls are checked");
        let mut bytes = abi::polychip_bytes::default();
        // SAFETY: the blob is alive and the record is ours.
        checked("blob_bytes", |record| unsafe {
            call(self.raw, &raw mut bytes, record)
        })?;
        if bytes.data.is_null() || bytes.len == 0 {
            return Ok(Arc::from([]));
        }
        // SAFETY: the bytes live as long as the blob.
        let bytes =
            unsafe { std::slice::from_raw_parts(bytes.data, usize::try_from(bytes.len).unwrap_or(0)) };
        Ok(Arc::from(bytes))
    }

    /// The handle, for calls with wrong arguments.
    #[must_use]
    pub fn raw(&self) -> *mut abi::polychip_blob {
        self.raw
    }

    /// Makes an executable, after which the blob can only be destroyed.
    ///
    /// # Errors
    /// The call failed.
    pub fn load(&mut self) -> Call<Arc<Executable>> {
        let mut source = abi::polychip_load_source::sized();
        source.blob = self.raw;
        Executable::of(&self.device, &self.graph, source, None)
    }
}

/// An input or output of an executable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the fields of `polychip_port`
pub struct Port {
    pub flags: u32,
    pub dtype: u32,
    pub layout: u32,
    pub state_port: u32,
    pub alignment: u64,
    pub memory_kinds: u32,
    pub bytes: u64,
    pub dims: Vec<i64>,
    pub strides: Vec<i64>,
    pub has_encoding: bool,
}

impl Port {
    /// Whether the port is an output.
    #[must_use]
    pub fn is_output(&self) -> bool {
        self.flags & abi::POLYCHIP_PORT_OUTPUT != 0
    }

    /// Whether the extents are upper bounds.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.flags & abi::POLYCHIP_PORT_UPPER_BOUND != 0
    }
}

/// A loaded part.
pub struct Executable {
    device: Arc<Device>,
    raw: *mut abi::polychip_executable,
    inputs: usize,
    ports: Vec<Port>,
    graph: Mutex<Option<Arc<FlatGraph>>>,
    _bytes: Option<Arc<[u8]>>,
}

// SAFETY: the contract states `execute`, `executable_info` and `port_info` thread-safe.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

impl Drop for Executable {
    fn drop(&mut self) {
        if let Some(destroy) = self.device.table().executable_destroy {
            // SAFETY: made by this table, destroyed once; fences, which hold it, have signalled.
            unsafe { destroy(self.raw) };
        }
    }
}

impl Executable {
    pub(crate) fn of_bytes(
        device: &Arc<Device>,
        graph: &Arc<FlatGraph>,
        bytes: Arc<[u8]>,
        skip: usize,
    ) -> Call<Arc<Executable>> {
        let mut source = abi::polychip_load_source::sized();
        let span = &bytes[skip..];
        source.bytes = abi::polychip_bytes {
            data: if span.is_empty() {
                std::ptr::null()
            } else {
                span.as_ptr()
            },
            len: span.len() as u64,
        };
        Executable::of(device, graph, source, Some(bytes))
    }

    /// Compiles and loads a graph that may be gone after the call; `flat` tells what its ports are.
    pub(crate) fn of_graph(
        device: &Arc<Device>,
        graph: *const abi::polychip_graph,
        flat: &Arc<FlatGraph>,
    ) -> Call<Arc<Executable>> {
        let counts = (flat.input_count(), flat.output_count());
        Executable::of_graph_as_it_is(device, graph, flat, counts)
    }

    /// As [`Executable::of_graph`], of a graph with these counts of inputs and outputs.
    pub(crate) fn of_graph_as_it_is(
        device: &Arc<Device>,
        graph: *const abi::polychip_graph,
        flat: &Arc<FlatGraph>,
        counts: (usize, usize),
    ) -> Call<Arc<Executable>> {
        let mut options = abi::polychip_compile_options::sized();
        options.operating_point = abi::POLYCHIP_NO_INDEX;
        let call = device
            .table()
            .compile
            .expect("invariant: required calls are checked");
        let mut raw = std::ptr::null_mut();
        // SAFETY: graph and options are valid for the call.
        checked("compile", |record| unsafe {
            call(device.raw(), graph, &raw const options, &raw mut raw, record)
        })?;
        let blob = Blob {
            device: Arc::clone(device),
            graph: Arc::clone(flat),
            raw,
        };
        let mut source = abi::polychip_load_source::sized();
        source.blob = blob.raw;
        source.graph = graph;
        let executable = Executable::made(device, flat, source, None, counts)?;
        executable.forget_graph();
        Ok(executable)
    }

    /// Makes an executable of bytes as a host that has no graph does.
    ///
    /// # Errors
    /// The call failed.
    pub fn without_graph(
        device: &Arc<Device>,
        graph: &Arc<FlatGraph>,
        bytes: Arc<[u8]>,
    ) -> Call<Arc<Executable>> {
        let mut source = abi::polychip_load_source::sized();
        source.bytes = abi::polychip_bytes {
            data: bytes.as_ptr(),
            len: bytes.len() as u64,
        };
        let counts = (graph.input_count(), graph.output_count());
        Executable::made(device, graph, source, Some(bytes), counts)
    }

    fn of(
        device: &Arc<Device>,
        graph: &Arc<FlatGraph>,
        mut source: abi::polychip_load_source,
        bytes: Option<Arc<[u8]>>,
    ) -> Call<Arc<Executable>> {
        source.graph = graph.raw();
        let counts = (graph.input_count(), graph.output_count());
        Executable::made(device, graph, source, bytes, counts)
    }

    fn made(
        device: &Arc<Device>,
        graph: &Arc<FlatGraph>,
        mut source: abi::polychip_load_source,
        bytes: Option<Arc<[u8]>>,
        counts: (usize, usize),
    ) -> Call<Arc<Executable>> {
        source.threads = 1;
        let call = device
            .table()
            .load
            .expect("invariant: required calls are checked");
        let mut raw = std::ptr::null_mut();
        // SAFETY: blob, bytes and graph are valid for the call; bytes and graph are kept below.
        checked("load", |record| unsafe {
            call(device.raw(), &raw const source, &raw mut raw, record)
        })?;
        if raw.is_null() {
            return Err(breach("load", "it returned no executable"));
        }
        let mut loaded = Executable {
            device: Arc::clone(device),
            raw,
            inputs: 0,
            ports: Vec::new(),
            graph: Mutex::new(Some(Arc::clone(graph))),
            _bytes: bytes,
        };
        let (inputs, outputs) = loaded.counts()?;
        if (inputs as usize, outputs as usize) != counts {
            return Err(breach(
                "executable_info",
                format!(
                    "{inputs} inputs and {outputs} outputs, but the graph has {} and {}",
                    counts.0, counts.1
                ),
            ));
        }
        loaded.inputs = inputs as usize;
        loaded.ports = (0..inputs + outputs)
            .map(|port| loaded.port(port))
            .collect::<Call<_>>()?;
        Ok(Arc::new(loaded))
    }

    fn counts(&self) -> Call<(u32, u32)> {
        let mut found = abi::polychip_executable_info::sized();
        let call = self
            .device
            .table()
            .executable_info
            .expect("invariant: required calls are checked");
        // SAFETY: the executable is alive and the record is ours.
        checked("executable_info", |record| unsafe {
            call(self.raw, &raw mut found, record)
        })?;
        Ok((found.input_count, found.output_count))
    }

    fn port(&self, index: u32) -> Call<Port> {
        let mut found = abi::polychip_port::sized();
        found.state_port = abi::POLYCHIP_NO_INDEX;
        let call = self
            .device
            .table()
            .port_info
            .expect("invariant: required calls are checked");
        // SAFETY: the executable is alive and the record is ours.
        checked("port_info", |record| unsafe {
            call(self.raw, index, &raw mut found, record)
        })?;
        let rank = found.rank as usize;
        if rank > abi::POLYCHIP_MAX_RANK {
            return Err(breach("port_info", format!("port {index} has rank {rank}")));
        }
        Ok(Port {
            flags: found.flags,
            dtype: found.dtype,
            layout: found.layout,
            state_port: found.state_port,
            alignment: u64::from(found.alignment),
            memory_kinds: found.memory_kinds,
            bytes: found.bytes,
            dims: found.dims[..rank].to_vec(),
            strides: found.strides[..rank].to_vec(),
            has_encoding: !found.encoding.is_null(),
        })
    }

    /// The device it was loaded on.
    #[must_use]
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Lets go of the graph, of which nothing but constants' data outlives `load`. For graphs without constants.
    pub fn forget_graph(&self) {
        *self.graph.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The handle, for calls with wrong arguments.
    #[must_use]
    pub fn raw(&self) -> *mut abi::polychip_executable {
        self.raw
    }

    /// The ports: inputs first, then outputs.
    #[must_use]
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Number of input ports.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs
    }
}

impl Device {
    /// Compiles a part.
    ///
    /// # Errors
    /// The call failed.
    pub fn compile(self: &Arc<Self>, graph: &Arc<FlatGraph>, reduced: bool) -> Call<Blob> {
        Blob::compile(self, graph, reduced)
    }

    /// Makes an executable of the bytes of a blob.
    ///
    /// # Errors
    /// The call failed.
    pub fn load_bytes(self: &Arc<Self>, graph: &Arc<FlatGraph>, bytes: Arc<[u8]>) -> Call<Arc<Executable>> {
        Executable::of_bytes(self, graph, bytes, 0)
    }

    /// As [`Device::load_bytes`], from byte `skip` on.
    ///
    /// # Errors
    /// The call failed.
    pub fn load_bytes_at(
        self: &Arc<Self>,
        graph: &Arc<FlatGraph>,
        bytes: Arc<[u8]>,
        skip: usize,
    ) -> Call<Arc<Executable>> {
        Executable::of_bytes(self, graph, bytes, skip)
    }
}
