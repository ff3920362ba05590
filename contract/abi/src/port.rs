//! Ports: the typed inputs and outputs of a loaded executable.
//!
//! Invariant: ports are numbered inputs first, in the graph's order, then outputs.

use crate::encoding::polychip_encoding;
use crate::sized::sized;

/// Any layout is acceptable.
pub const POLYCHIP_LAYOUT_ANY: u32 = 0;
/// Row-major in the order of the ONNX shape (`[n, c, h, w]`).
pub const POLYCHIP_LAYOUT_ROW_MAJOR: u32 = 1;
/// Channels last (`[n, h, w, c]` in memory; the shape stays in ONNX order).
pub const POLYCHIP_LAYOUT_CHANNELS_LAST: u32 = 2;
/// As the port's strides state.
pub const POLYCHIP_LAYOUT_STRIDED: u32 = 3;
/// The vendor's own layout; only the same plugin can read it.
pub const POLYCHIP_LAYOUT_VENDOR: u32 = 4;

/// The port is an output.
pub const POLYCHIP_PORT_OUTPUT: u32 = 1;
/// The extents are upper bounds; `fence_output_shape` reports the actual ones. If the graph has no
/// bound for some extent, the port may instead have rank 1 and one extent: the largest number of
/// elements.
pub const POLYCHIP_PORT_UPPER_BOUND: u32 = 2;
/// The port is the input or output of a state. The host may bind the same memory to port
/// `state_port`, the other port of the state.
pub const POLYCHIP_PORT_STATE: u32 = 4;

/// Largest rank that a port record holds.
pub const POLYCHIP_MAX_RANK: usize = 16;

/// Memory that a port requires.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_port {
    /// Size of this struct as the caller knows it, in bytes.
    pub struct_size: u32,
    /// Bits `POLYCHIP_PORT_*`.
    pub flags: u32,
    /// `POLYCHIP_DTYPE_*`.
    pub dtype: u32,
    /// Granted layout, `POLYCHIP_LAYOUT_*`.
    pub layout: u32,
    /// Number of extents.
    pub rank: u32,
    /// For the input or output of a state that the plugin updates in place: the state's other port.
    /// Otherwise `POLYCHIP_NO_INDEX`.
    pub state_port: u32,
    /// Alignment of the first element, in bytes: a power of two, at most 65536, the largest page
    /// size. In a buffer, the host places tensors at multiples of 256 and of this value.
    pub alignment: u32,
    /// Memory kinds that can be bound without a copy, as bits `1 << POLYCHIP_MEMORY_*`.
    pub memory_kinds: u32,
    /// Bytes that a bound buffer must hold, at least those of the elements; 0 if an extent is 0.
    pub bytes: u64,
    /// Extents, in ONNX order; the first `rank` count.
    pub dims: [i64; POLYCHIP_MAX_RANK],
    /// Strides in bytes, in ONNX order; all 0 for a dense port of a named layout.
    pub strides: [i64; POLYCHIP_MAX_RANK],
    /// Quantisation, or null; lives as long as the executable.
    pub encoding: *const polychip_encoding,
}

/// A layout that the host requests for a port at `compile`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_port_request {
    /// Size of this struct as its writer knows it, in bytes.
    pub struct_size: u32,
    /// Port number.
    pub port: u32,
    /// Requested layout, `POLYCHIP_LAYOUT_*`. The plugin grants what it can; see
    /// `polychip_port::layout`.
    pub layout: u32,
    /// Zero.
    pub reserved: u32,
}

sized!(polychip_port, polychip_port_request);
