//! Blobs: compiled parts, their bytes for a cache, and the options of compilation.

#![allow(unsafe_code)]

use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::Sized;

use crate::error::{Error, ErrorKind, Result};
use crate::flat::FlatGraph;
use crate::open_calls::OpenCall;
use crate::open_device::Open;
use crate::port::Layout;

/// Largest blob that is read, in bytes.
const MOST_BYTES: u64 = 1 << 40;

/// Options of compilation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompileOptions {
    /// The device may compute f32 in a 16-bit float type.
    pub reduced_precision: bool,
    /// Threads that the part may use on a CPU; 0: the plugin chooses.
    pub threads: u32,
    /// Operating point to compile for.
    pub operating_point: Option<u32>,
    /// Layouts requested at ports; all others are row-major.
    pub layouts: Vec<(u32, Layout)>,
    /// The blob's bytes may omit what the device makes again from the part's constants, such as packed
    /// weights. Set it if the caller stores the part with its constants. Devices may ignore it.
    pub lean_blob: bool,
}

/// A part compiled for one device.
pub struct Blob {
    pub(crate) device: Arc<Open>,
    pub(crate) raw: *mut abi::polychip_blob,
}

// SAFETY: the contract allows calls on a blob from any thread, one at a time; `bytes` takes `&mut`.
unsafe impl Send for Blob {}

impl Blob {
    pub(crate) fn compile(device: Arc<Open>, graph: &FlatGraph, options: &CompileOptions) -> Result<Blob> {
        let ports: Vec<abi::polychip_port_request> = options
            .layouts
            .iter()
            .map(|&(port, layout)| abi::polychip_port_request {
                port,
                layout: layout.code(),
                ..Sized::sized()
            })
            .collect();
        let mut wanted = abi::polychip_compile_options::sized();
        wanted.precision = if options.reduced_precision {
            abi::POLYCHIP_PRECISION_REDUCED
        } else {
            abi::POLYCHIP_PRECISION_EXACT
        };
        wanted.threads = options.threads;
        wanted.operating_point = options.operating_point.unwrap_or(abi::POLYCHIP_NO_INDEX);
        wanted.ports = ports.as_ptr();
        wanted.port_count = ports.len() as u64;
        wanted.port_stride = size_of::<abi::polychip_port_request>() as u64;
        if options.lean_blob {
            wanted.flags |= abi::POLYCHIP_COMPILE_LEAN_BLOB;
        }
        let call = device
            .table()
            .compile
            .expect("invariant: required calls are checked");
        let mut raw = std::ptr::null_mut();
        let mut record = abi::polychip_error::sized();
        let _open = OpenCall::begin(&device.name, "compile", graph.name());
        // SAFETY: graph and options are valid for the call.
        let status = unsafe {
            call(
                device.raw,
                graph.raw(),
                &raw const wanted,
                &raw mut raw,
                &raw mut record,
            )
        };
        device.check("compile", status, &record)?;
        if raw.is_null() {
            return Err(Error::new(
                ErrorKind::BadPlugin,
                &device.name,
                "compile returned no blob",
            ));
        }
        Ok(Blob { device, raw })
    }

    /// Returns the bytes of the blob, for a cache.
    ///
    /// # Errors
    /// The plugin cannot serialise it.
    pub fn bytes(&mut self) -> Result<&[u8]> {
        let call = self
            .device
            .table()
            .blob_bytes
            .expect("invariant: required calls are checked");
        let mut bytes = abi::polychip_bytes::default();
        let mut record = abi::polychip_error::sized();
        // SAFETY: the blob is alive and the out pointers are ours.
        let status = unsafe { call(self.raw, &raw mut bytes, &raw mut record) };
        self.device.check("blob_bytes", status, &record)?;
        if bytes.data.is_null() {
            return Ok(&[]);
        }
        let len = usize::try_from(bytes.len)
            .ok()
            .filter(|_| bytes.len <= MOST_BYTES);
        let Some(len) = len else {
            return Err(Error::new(
                ErrorKind::BadPlugin,
                &self.device.name,
                format!(
                    "blob_bytes reports {} bytes; at most {MOST_BYTES} are read",
                    bytes.len
                ),
            ));
        };
        // SAFETY: the bytes live as long as the blob, which is borrowed.
        Ok(unsafe { std::slice::from_raw_parts(bytes.data, len) })
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        if let Some(destroy) = self.device.table().blob_destroy {
            // SAFETY: the blob came from this table and is destroyed once.
            unsafe { destroy(self.raw) };
        }
    }
}
