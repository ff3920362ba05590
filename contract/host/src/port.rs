//! The ports of an executable: element type, shape and memory layout.
//!
//! Not here: bindings of ports (`submission`).

use polychip_abi as abi;
use polychip_graph::Encoding;
use polychip_ops::DType;

/// Memory layout of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// Any layout is acceptable.
    Any,
    /// Row-major in the order of the ONNX shape.
    RowMajor,
    /// Channels last.
    ChannelsLast,
    /// As the port's strides state.
    Strided,
    /// The vendor's own layout.
    Vendor,
}

impl Layout {
    pub(crate) fn code(self) -> u32 {
        match self {
            Layout::Any => abi::POLYCHIP_LAYOUT_ANY,
            Layout::RowMajor => abi::POLYCHIP_LAYOUT_ROW_MAJOR,
            Layout::ChannelsLast => abi::POLYCHIP_LAYOUT_CHANNELS_LAST,
            Layout::Strided => abi::POLYCHIP_LAYOUT_STRIDED,
            Layout::Vendor => abi::POLYCHIP_LAYOUT_VENDOR,
        }
    }

    pub(crate) fn of_code(code: u32) -> Layout {
        match code {
            abi::POLYCHIP_LAYOUT_ANY => Layout::Any,
            abi::POLYCHIP_LAYOUT_ROW_MAJOR => Layout::RowMajor,
            abi::POLYCHIP_LAYOUT_CHANNELS_LAST => Layout::ChannelsLast,
            abi::POLYCHIP_LAYOUT_STRIDED => Layout::Strided,
            _ => Layout::Vendor,
        }
    }
}

/// An input or output of an executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Element type.
    pub dtype: DType,
    /// Granted layout.
    pub layout: Layout,
    /// Extents in ONNX order. Upper bounds if `upper_bound`; a single extent, the number of
    /// elements that there is room for, if the graph has no bound.
    pub dims: Vec<i64>,
    /// Strides in bytes in ONNX order; empty for a dense port.
    pub strides: Vec<i64>,
    /// Bytes that a bound buffer must hold.
    pub bytes: u64,
    /// Alignment of the first element, in bytes.
    pub alignment: u64,
    /// The port is an output.
    pub output: bool,
    /// The extents are upper bounds; the actual ones are known after the run.
    pub upper_bound: bool,
    /// The other port of an in-out pair.
    pub state_port: Option<u32>,
    /// Mapping of its integers to real values.
    pub encoding: Option<Encoding>,
}
