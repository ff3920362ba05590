//! Ports: the typed inputs and outputs of a loaded executable.
//!
//! Invariant: ports are numbered inputs first, in the graph's order, then outputs.

use crate::encoding::polychip_encoding;
use crate::sized::sized;

/// Any layout will do.
pub const POLYCHIP_LAYOUT_ANY: u32 = 0;
/// Row-major in the order of the ONNX shape (`[n, c, h, w]`).
pub const POLYCHIP_LAYOUT_ROW_MAJOR: u32 = 1;
/// Channels last (`[n, h, w, c]` in memory; the shape stays in ONNX order).
pub const POLYCHIP_LAYOUT_CHANNELS_LAST: u32 = 2;
/// By the strides of the port.
pub const POLYCHIP_LAYOUT_STRIDED: u32 = 3;
/// The vendor's own; only the same plugin reads it.
pub const POLYCHIP_LAYOUT_VENDOR: u32 = 4;

/// The port is an output.
pub const POLYCHIP_PORT_OUTPUT: u32 = 1;
/// The extents are upper bounds; `fence_output_shape` tells the actual ones. Where the graph has no bound for an extent, the
/// port may state one extent in place of all: the elements that there is room for.
pub const POLYCHIP_PORT_UPPER_BOUND: u32 = 2;
/// The port is half of an in-out pair: port `state_port` may be bound to the same memory.
pub const POLYCHIP_PORT_STATE: u32 = 4;

/// Extents that a port record holds.
pub const POLYCHIP_MAX_RANK: usize = 16;

/// What memory a port wants.
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
    /// The other port of an in-out pair that the plugin updates in place, or `POLYCHIP_NO_INDEX`.
    pub state_port: u32,
    /// Alignment of the first element, in bytes: a power of two, at most 65536, the largest page. The runtime places
    /// tensors at multiples of 256 and of this.
    pub alignment: u32,
    /// Bits `1 << POLYCHIP_MEMORY_*` of the kinds that can be bound without a copy.
    pub memory_kinds: u32,
    /// Bytes that a bound buffer must hold, at least those of the elements; 0 where an extent is 0.
    pub bytes: u64,
    /// The first `rank` are the extents, in ONNX order.
    pub dims: [i64; POLYCHIP_MAX_RANK],
    /// Strides in bytes, in ONNX order; all 0 for a dense port of a named layout.
    pub strides: [i64; POLYCHIP_MAX_RANK],
    /// Quantisation, or null; lives as long as the executable.
    pub encoding: *const polychip_encoding,
}

/// A layout that the host asks of a port at `compile`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_port_request {
    /// Size of this struct as its writer knows it, in bytes.
    pub struct_size: u32,
    /// Number of the port.
    pub port: u32,
    /// Wanted layout, `POLYCHIP_LAYOUT_*`. The plugin grants what it can; see `polychip_port::layout`.
    pub layout: u32,
    /// Zero.
    pub reserved: u32,
}

sized!(polychip_port, polychip_port_request);
