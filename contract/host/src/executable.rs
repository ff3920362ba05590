//! Executables: loaded parts and their ports.
//!
//! Invariant: an executable holds the constants that its blob may point to. Not here: starting a
//! run (`submission`).

#![allow(unsafe_code)]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use polychip_abi as abi;
use polychip_abi::Sized;
use polychip_graph::{Encoding, EncodingAxis};
use polychip_ops::DType;

use crate::blob::Blob;
use crate::error::{Error, ErrorKind, Result};
use crate::flat::FlatGraph;
use crate::open_calls::OpenCall;
use crate::open_device::Open;
use crate::port::{Layout, Port};

/// Largest alignment of a port, in bytes: the largest page size.
const MOST_ALIGNMENT: u32 = 65536;
/// How many times more bytes a tensor takes with padding: in rows, and in a layout of the device.
const MOST_PADDING: [u64; 2] = [16, 4096];
/// Bytes that even a small tensor may take.
const LEAST_ROOM: u64 = 16 << 20;

/// Description of an executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecutableInfo {
    /// Number of input ports.
    pub inputs: u32,
    /// Number of output ports.
    pub outputs: u32,
    /// Device memory for constants and code, in bytes.
    pub constant_bytes: u64,
    /// Device memory for intermediate tensors, in bytes.
    pub arena_bytes: u64,
}

/// A part loaded on one device. Clones share it. Thread-safe.
#[derive(Clone)]
pub struct Executable(pub(crate) Arc<Loaded>);

pub(crate) struct Loaded {
    pub(crate) device: Arc<Open>,
    pub(crate) raw: *mut abi::polychip_executable,
    info: ExecutableInfo,
    pub(crate) ports: Vec<Port>,
    /// Names of the ports' tensors.
    pub(crate) port_names: Vec<String>,
    /// Number of resets of the device when this was loaded; a later reset makes it invalid.
    pub(crate) resets: u64,
    /// Constants that the blob may point to.
    _constants: Vec<Bytes>,
    _blob: Option<Bytes>,
}

// SAFETY: the contract states `execute`, `executable_info` and `port_info` thread-safe; nothing else
// is called but `executable_destroy`, once.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Some(destroy) = self.device.table().executable_destroy {
            // SAFETY: the executable came from this table; a fence in flight holds it, so none is.
            unsafe { destroy(self.raw) };
        }
    }
}

/// A reference to an executable that does not keep it alive.
#[derive(Clone)]
pub struct WeakExecutable(Weak<Loaded>);

impl WeakExecutable {
    /// The executable, if anything still holds it.
    #[must_use]
    pub fn upgrade(&self) -> Option<Executable> {
        self.0.upgrade().map(Executable)
    }
}

impl std::fmt::Debug for WeakExecutable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WeakExecutable").finish_non_exhaustive()
    }
}

impl Executable {
    /// A reference that does not keep the executable alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakExecutable {
        WeakExecutable(Arc::downgrade(&self.0))
    }

    pub(crate) fn load(device: Arc<Open>, blob: Blob, graph: &FlatGraph, threads: u32) -> Result<Executable> {
        let mut source = abi::polychip_load_source::sized();
        source.blob = blob.raw;
        // the blob is destroyed at the end of this call, after its memory has moved
        Executable::load_source(device, source, None, graph, threads)
    }

    pub(crate) fn load_bytes(
        device: Arc<Open>,
        bytes: Bytes,
        graph: &FlatGraph,
        threads: u32,
    ) -> Result<Executable> {
        let mut source = abi::polychip_load_source::sized();
        source.bytes = abi::polychip_bytes {
            data: bytes.as_ptr(),
            len: bytes.len() as u64,
        };
        Executable::load_source(device, source, Some(bytes), graph, threads)
    }

    fn load_source(
        device: Arc<Open>,
        mut source: abi::polychip_load_source,
        bytes: Option<Bytes>,
        graph: &FlatGraph,
        threads: u32,
    ) -> Result<Executable> {
        source.threads = threads;
        source.graph = graph.raw();
        let call = device
            .table()
            .load
            .expect("invariant: required calls are checked");
        let mut raw = std::ptr::null_mut();
        let mut record = abi::polychip_error::sized();
        // read before: what is loaded while the device is reset is void
        let resets = device.resets.load(Ordering::Acquire);
        let open = OpenCall::begin(&device.name, "load", graph.name());
        // SAFETY: blob, bytes and graph are valid for the call; bytes and constants are kept below.
        let status = unsafe { call(device.raw, &raw const source, &raw mut raw, &raw mut record) };
        drop(open);
        device.check("load", status, &record)?;
        if raw.is_null() {
            return Err(Error::new(
                ErrorKind::BadPlugin,
                &device.name,
                "load returned no executable",
            ));
        }
        let info = ExecutableInfo {
            inputs: 0,
            outputs: 0,
            constant_bytes: 0,
            arena_bytes: 0,
        };
        // owned first, so that it is destroyed where its ports cannot be read
        let mut loaded = Loaded {
            resets,
            device,
            raw,
            info,
            ports: Vec::new(),
            port_names: graph.port_names().to_vec(),
            _constants: graph.constants().to_vec(),
            _blob: bytes,
        };
        loaded.describe(graph)?;
        Ok(Executable(Arc::new(loaded)))
    }

    /// Description of the executable.
    #[must_use]
    pub fn info(&self) -> ExecutableInfo {
        self.0.info
    }

    /// The ports: inputs first, then outputs.
    #[must_use]
    pub fn ports(&self) -> &[Port] {
        &self.0.ports
    }

    /// Whether the device was reset after the part was loaded, so that it must be loaded again.
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.0.device.resets.load(Ordering::Acquire) != self.0.resets
    }
}

impl Loaded {
    fn describe(&mut self, graph: &FlatGraph) -> Result<()> {
        let mut found = abi::polychip_executable_info::sized();
        let mut record = abi::polychip_error::sized();
        let call = self
            .device
            .table()
            .executable_info
            .expect("invariant: required calls are checked");
        // SAFETY: the executable is alive and the out pointers are ours.
        let status = unsafe { call(self.raw, &raw mut found, &raw mut record) };
        self.device.check("executable_info", status, &record)?;
        let wanted = (graph.input_count(), graph.output_count());
        if (found.input_count as usize, found.output_count as usize) != wanted {
            let words = format!(
                "the executable has {} inputs and {} outputs, the part {} and {}",
                found.input_count, found.output_count, wanted.0, wanted.1
            );
            return Err(Error::new(ErrorKind::BadPlugin, &self.device.name, words));
        }
        self.info = ExecutableInfo {
            inputs: found.input_count,
            outputs: found.output_count,
            constant_bytes: found.constant_bytes,
            arena_bytes: found.arena_bytes,
        };
        self.ports = (0..found.input_count + found.output_count)
            .map(|port| self.port(port, graph))
            .collect::<Result<_>>()?;
        Ok(())
    }

    fn port(&self, index: u32, graph: &FlatGraph) -> Result<Port> {
        let mut found = abi::polychip_port::sized();
        found.state_port = abi::POLYCHIP_NO_INDEX;
        let mut record = abi::polychip_error::sized();
        let call = self
            .device
            .table()
            .port_info
            .expect("invariant: required calls are checked");
        // SAFETY: the executable is alive and the out pointers are ours.
        let status = unsafe { call(self.raw, index, &raw mut found, &raw mut record) };
        self.device.check("port_info", status, &record)?;
        let broken = |words: String| {
            Error::new(
                ErrorKind::BadPlugin,
                &self.device.name,
                format!("port {index}: {words}"),
            )
        };
        let rank = found.rank as usize;
        if rank > abi::POLYCHIP_MAX_RANK {
            return Err(broken(format!("rank {rank} is above {}", abi::POLYCHIP_MAX_RANK)));
        }
        let dtype = DType::from_code(found.dtype)
            .ok_or_else(|| broken(format!("data type {} is unknown", found.dtype)))?;
        let output = found.flags & abi::POLYCHIP_PORT_OUTPUT != 0;
        if output != (index >= self.info.inputs) {
            return Err(broken(
                "it is an input where the graph has an output, or the reverse".into(),
            ));
        }
        let strides = &found.strides[..rank];
        let dims = &found.dims[..rank];
        if let Some((code, wanted)) = graph.port(index) {
            let same = |wanted: &Vec<i64>| {
                wanted.len() == rank
                    && wanted
                        .iter()
                        .zip(dims)
                        .all(|(want, have)| *want < 0 || want == have)
            };
            let room = found.flags & abi::POLYCHIP_PORT_UPPER_BOUND != 0
                && rank == 1
                && wanted
                    .as_ref()
                    .is_some_and(|wanted| wanted.iter().any(|&dim| dim < 0));
            if *code != found.dtype || !(room || wanted.as_ref().is_none_or(same)) {
                let wanted_dtype = DType::from_code(*code).map_or("an unknown type", DType::name);
                return Err(broken(format!(
                    "it is {dtype} of shape {dims:?}, the graph says {wanted_dtype} of shape {:?}",
                    wanted.as_deref().unwrap_or_default()
                )));
            }
        }
        let dense =
            strides.iter().all(|stride| *stride == 0) && found.layout == abi::POLYCHIP_LAYOUT_ROW_MAJOR;
        let needed = dims
            .iter()
            .try_fold(1usize, |product, dim| {
                product.checked_mul(usize::try_from(*dim).ok()?)
            })
            .and_then(|elements| dtype.byte_len(elements))
            .ok_or_else(|| broken(format!("{dtype} of shape {dims:?} has no size")))?;
        if dense && found.bytes < needed as u64 {
            return Err(broken(format!(
                "{dtype} of shape {dims:?} needs {needed} bytes, it states {}",
                found.bytes
            )));
        }
        if found.alignment > MOST_ALIGNMENT || !(found.alignment == 0 || found.alignment.is_power_of_two()) {
            return Err(broken(format!(
                "its alignment {} is not a power of two up to {MOST_ALIGNMENT}",
                found.alignment
            )));
        }
        let padded = (needed as u64).saturating_mul(MOST_PADDING[usize::from(!dense)]);
        let most = padded.saturating_add(LEAST_ROOM);
        if found.bytes > most {
            return Err(broken(format!(
                "{dtype} of shape {dims:?} needs {needed} bytes, it states {}, more than any padding explains",
                found.bytes
            )));
        }
        Ok(Port {
            dtype,
            layout: Layout::of_code(found.layout),
            dims: dims.to_vec(),
            strides: if strides.iter().all(|s| *s == 0) {
                Vec::new()
            } else {
                strides.to_vec()
            },
            bytes: found.bytes,
            alignment: u64::from(found.alignment.max(1)),
            output,
            upper_bound: found.flags & abi::POLYCHIP_PORT_UPPER_BOUND != 0,
            state_port: (found.state_port != abi::POLYCHIP_NO_INDEX).then_some(found.state_port),
            // SAFETY: the encoding lives as long as the executable.
            encoding: unsafe { encoding(found.encoding) }.map_err(broken)?,
        })
    }
}

/// The encoding behind a port's pointer, copied.
///
/// # Safety
/// `at` is null or points to an encoding that is valid now.
unsafe fn encoding(at: *const abi::polychip_encoding) -> std::result::Result<Option<Encoding>, String> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: an encoding begins with its size, by the caller's promise.
    let size = unsafe { at.cast::<u32>().read() } as usize;
    if !abi::layout::is_whole::<abi::polychip_encoding>(size) {
        return Err(format!("its encoding of {size} bytes ends inside a field"));
    }
    let mut found = abi::polychip_encoding::sized();
    let count = size.min(size_of::<abi::polychip_encoding>());
    // SAFETY: both have that many bytes, and every bit pattern there is a number or an address.
    unsafe { std::ptr::copy_nonoverlapping(at.cast::<u8>(), (&raw mut found).cast::<u8>(), count) };
    let axis = match found.kind {
        abi::POLYCHIP_ENCODING_PER_TENSOR => EncodingAxis::PerTensor,
        abi::POLYCHIP_ENCODING_PER_AXIS => EncodingAxis::PerAxis(found.axis as usize),
        abi::POLYCHIP_ENCODING_PER_BLOCK => EncodingAxis::PerBlock {
            axis: found.axis as usize,
            block: found.block_size as usize,
        },
        kind => return Err(format!("its encoding is of unknown kind {kind}")),
    };
    let real = DType::from_code(found.real_dtype)
        .ok_or_else(|| format!("its encoding is of unknown type {}", found.real_dtype))?;
    Ok(Some(Encoding {
        axis,
        // SAFETY: the arrays live as long as the encoding.
        scales: unsafe { copied(found.scales, found.scale_count) }.into(),
        // SAFETY: as above.
        zero_points: unsafe { copied(found.zero_points, found.zero_point_count) }.into(),
        real,
    }))
}

/// # Safety
/// `at` is null or readable for `count` values.
unsafe fn copied<T: Copy>(at: *const T, count: u64) -> Vec<T> {
    if at.is_null() {
        return Vec::new();
    }
    // SAFETY: by the caller's promise.
    unsafe { std::slice::from_raw_parts(at, usize::try_from(count).unwrap_or(0)) }.to_vec()
}

impl std::fmt::Debug for Executable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executable")
            .field("device", &self.0.device.name)
            .field("info", &self.0.info)
            .finish()
    }
}
