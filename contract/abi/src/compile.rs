//! Compiling a part to a blob, and loading a blob as an executable.
//!
//! Invariants:
//! 1. `compile` does everything that depends on constants only (packing, folding, code generation).
//! 2. A blob guards itself: `load` of torn bytes or of another build's returns `POLYCHIP_STATUS_BAD_BLOB`.

use crate::graph::polychip_graph;
use crate::port::polychip_port_request;
use crate::sized::sized;
use crate::span::polychip_bytes;

/// A compiled part.
pub struct polychip_blob {
    _private: [u8; 0],
}

/// A loaded part, ready to run.
pub struct polychip_executable {
    _private: [u8; 0],
}

/// Compute as the model says.
pub const POLYCHIP_PRECISION_EXACT: u32 = 0;
/// The device may compute f32 in a 16-bit float type.
pub const POLYCHIP_PRECISION_REDUCED: u32 = 1;

/// What `compile` should aim at.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_compile_options {
    /// Size of this struct as the host knows it, in bytes.
    pub struct_size: u32,
    /// `POLYCHIP_PRECISION_*`: what the device may do, never what it must.
    pub precision: u32,
    /// Threads that the part may use on a CPU; 0 leaves it to the plugin.
    pub threads: u32,
    /// Index of the operating point to compile for, or `POLYCHIP_NO_INDEX`.
    pub operating_point: u32,
    /// Layouts wanted at ports; a port not listed is `POLYCHIP_LAYOUT_ROW_MAJOR`. Row-major may always be
    /// granted instead.
    pub ports: *const polychip_port_request,
    /// Number of requests.
    pub port_count: u64,
    /// Bytes from one request to the next.
    pub port_stride: u64,
}

/// Where `load` takes its blob from.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_load_source {
    /// Size of this struct as the host knows it, in bytes.
    pub struct_size: u32,
    /// Threads that the part may use on a CPU; 0 leaves it to the plugin.
    pub threads: u32,
    /// A blob just compiled by this instance; `load` may take over its memory without a copy, and the blob
    /// can then only be destroyed, whatever `load` returned. Null when `bytes` is used.
    pub blob: *mut polychip_blob,
    /// Bytes of a cached blob, valid as long as the executable, at an address of any alignment.
    pub bytes: polychip_bytes,
    /// The part that the blob was compiled from: its constants are where an executable may point to. Null
    /// from a host that has no graph; a blob that holds all it needs loads without.
    pub graph: *const polychip_graph,
}

/// What a loaded executable is.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_executable_info {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// Zero.
    pub flags: u32,
    /// Number of input ports.
    pub input_count: u32,
    /// Number of output ports.
    pub output_count: u32,
    /// Device memory of constants and code, in bytes.
    pub constant_bytes: u64,
    /// Device memory of intermediate tensors, in bytes.
    pub arena_bytes: u64,
}

sized!(
    polychip_compile_options,
    polychip_load_source,
    polychip_executable_info
);
