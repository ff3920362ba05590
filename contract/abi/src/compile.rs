//! Compiling a part to a blob, and loading a blob as an executable.
//!
//! Invariants:
//! 1. `compile` does all work that depends on constants only (packing, folding, code generation).
//! 2. A blob protects itself: `load` of torn bytes or of another build's blob returns
//!    `POLYCHIP_STATUS_BAD_BLOB`.

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

/// Compute in the precision that the model states.
pub const POLYCHIP_PRECISION_EXACT: u32 = 0;
/// The device may compute f32 in a 16-bit float type.
pub const POLYCHIP_PRECISION_REDUCED: u32 = 1;

/// The bytes of the blob may omit data that `load` can compute from the part's constants, such as
/// packed weights. The host stores the constants and passes the part to `load`. A plugin may ignore
/// this flag.
pub const POLYCHIP_COMPILE_LEAN_BLOB: u32 = 1;

/// Options of `compile`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_compile_options {
    /// Size of this struct as the host knows it, in bytes.
    pub struct_size: u32,
    /// `POLYCHIP_PRECISION_*`: what the device may do, never what it must do.
    pub precision: u32,
    /// Threads that the part may use on a CPU; 0: the plugin chooses.
    pub threads: u32,
    /// Index of the operating point to compile for, or `POLYCHIP_NO_INDEX`.
    pub operating_point: u32,
    /// Layouts requested at ports. A port that is not listed is `POLYCHIP_LAYOUT_ROW_MAJOR`. The
    /// plugin may always grant row-major instead.
    pub ports: *const polychip_port_request,
    /// Number of requests.
    pub port_count: u64,
    /// Bytes from one request to the next.
    pub port_stride: u64,
    /// `POLYCHIP_COMPILE_*`. Since 1.4.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

/// Source of a blob for `load`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_load_source {
    /// Size of this struct as the host knows it, in bytes.
    pub struct_size: u32,
    /// Threads that the part may use on a CPU; 0: the plugin chooses.
    pub threads: u32,
    /// A blob just compiled by this instance, or null if `bytes` is used. `load` may take the
    /// blob's memory. After `load`, even after a failed one, the host only destroys the blob.
    pub blob: *mut polychip_blob,
    /// Bytes of a cached blob, at an address of any alignment. They are valid until the executable
    /// is destroyed.
    pub bytes: polychip_bytes,
    /// The part that the blob was compiled from, or null if the host does not have it. The
    /// executable may point into its constants. A blob that needs no constants from the part loads
    /// without it.
    pub graph: *const polychip_graph,
}

/// Description of a loaded executable.
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
    /// Device memory for constants and code, in bytes.
    pub constant_bytes: u64,
    /// Device memory for intermediate tensors, in bytes.
    pub arena_bytes: u64,
}

sized!(
    polychip_compile_options,
    polychip_load_source,
    polychip_executable_info
);
