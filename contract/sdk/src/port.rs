//! Ports: the typed inputs and outputs of a loaded executable.

use polychip_abi as abi;
use polychip_ops::DType;

use crate::{Encoding, Error, GraphView, MemoryKind, MemoryKinds, Result};

/// Memory layout of a tensor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Layout {
    /// Any layout is acceptable.
    Any = abi::POLYCHIP_LAYOUT_ANY,
    /// Row-major in the order of the ONNX shape.
    #[default]
    RowMajor = abi::POLYCHIP_LAYOUT_ROW_MAJOR,
    /// Channels last.
    ChannelsLast = abi::POLYCHIP_LAYOUT_CHANNELS_LAST,
    /// As the port's strides state.
    Strided = abi::POLYCHIP_LAYOUT_STRIDED,
    /// The vendor's own layout.
    Vendor = abi::POLYCHIP_LAYOUT_VENDOR,
}

impl Layout {
    /// The layout with this code.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Layout> {
        Some(match code {
            abi::POLYCHIP_LAYOUT_ANY => Layout::Any,
            abi::POLYCHIP_LAYOUT_ROW_MAJOR => Layout::RowMajor,
            abi::POLYCHIP_LAYOUT_CHANNELS_LAST => Layout::ChannelsLast,
            abi::POLYCHIP_LAYOUT_STRIDED => Layout::Strided,
            abi::POLYCHIP_LAYOUT_VENDOR => Layout::Vendor,
            _ => return None,
        })
    }
}

/// Memory that a port requires.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// It is an output.
    pub output: bool,
    /// The extents are upper bounds.
    pub upper_bound: bool,
    /// The other port of an in-out pair.
    pub state_port: Option<u32>,
    /// Type of the stored elements.
    pub dtype: DType,
    /// Granted layout.
    pub layout: Layout,
    /// Extents in ONNX order.
    pub dims: Vec<usize>,
    /// Strides in bytes, in ONNX order; empty for a dense port of a named layout.
    pub strides: Vec<i64>,
    /// Alignment of the first element, in bytes.
    pub alignment: u32,
    /// Memory kinds that can be bound without a copy.
    pub memory_kinds: MemoryKinds,
    /// Bytes that a bound buffer must hold.
    pub bytes: u64,
    /// Quantisation.
    pub encoding: Option<Encoding>,
}

impl Port {
    /// A dense row-major port on host memory.
    ///
    /// # Errors
    /// The rank or size is too large, or elements have no fixed size.
    pub fn dense(output: bool, dtype: DType, dims: &[usize]) -> Result<Port> {
        let too_large = || Error::unsupported(format!("a port of shape {dims:?} is too large"));
        let elements = dims
            .iter()
            .try_fold(1usize, |product, &dim| product.checked_mul(dim))
            .ok_or_else(too_large)?;
        if dtype == DType::String {
            return Err(Error::unsupported("strings cannot be bound to a port"));
        }
        let bytes = dtype.byte_len(elements).ok_or_else(too_large)?;
        Ok(Port {
            output,
            upper_bound: false,
            state_port: None,
            dtype,
            layout: Layout::RowMajor,
            dims: dims.to_vec(),
            strides: Vec::new(),
            alignment: 64,
            memory_kinds: MemoryKinds::of(&[MemoryKind::Host, MemoryKind::Memfd]),
            bytes: bytes as u64,
            encoding: None,
        })
    }

    /// The ports of a part: inputs, then outputs, dense and row-major, of these memory kinds.
    ///
    /// # Errors
    /// A port has no known shape, or is too large.
    pub fn of_graph(graph: &GraphView<'_>, memory_kinds: MemoryKinds) -> Result<Vec<Port>> {
        let inputs = graph.inputs().len();
        let mut ports = Vec::with_capacity(inputs + graph.outputs().len());
        for (number, &tensor) in graph.inputs().iter().chain(graph.outputs()).enumerate() {
            let view = graph.tensor(tensor);
            let shape = view
                .shape()
                .ok_or_else(|| Error::unsupported("a port of unknown shape").at_tensor(tensor))?;
            let mut port = Port::dense(number >= inputs, view.dtype(), &shape)
                .map_err(|error| error.at_tensor(tensor))?;
            port.memory_kinds = memory_kinds;
            port.encoding = view.encoding().map(|encoding| encoding.to_owned());
            port.state_port = graph.states().find_map(|(input, output)| {
                let at = |ports: &[u32], tensor| ports.iter().position(|&port| port == tensor);
                match number.checked_sub(inputs) {
                    None if tensor == input => {
                        at(graph.outputs(), output).map(|place| (inputs + place) as u32)
                    }
                    Some(_) if tensor == output => at(graph.inputs(), input).map(|place| place as u32),
                    _ => None,
                }
            });
            ports.push(port);
        }
        Ok(ports)
    }

    /// The record of the contract, without its encoding.
    pub(crate) fn record(&self) -> Result<abi::polychip_port> {
        let mut record = <abi::polychip_port as abi::Sized>::sized();
        let limit = abi::POLYCHIP_MAX_RANK;
        if self.dims.len() > limit || !(self.strides.is_empty() || self.strides.len() == self.dims.len()) {
            return Err(Error::unsupported(format!(
                "a port has {} extents and {} strides; the limit is {limit}",
                self.dims.len(),
                self.strides.len(),
            )));
        }
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        record.flags = bit(self.output, abi::POLYCHIP_PORT_OUTPUT)
            | bit(self.upper_bound, abi::POLYCHIP_PORT_UPPER_BOUND)
            | bit(self.state_port.is_some(), abi::POLYCHIP_PORT_STATE);
        record.dtype = self.dtype.code();
        record.layout = self.layout as u32;
        record.rank = self.dims.len() as u32;
        record.state_port = self.state_port.unwrap_or(abi::POLYCHIP_NO_INDEX);
        record.alignment = self.alignment;
        record.memory_kinds = self.memory_kinds.bits();
        record.bytes = self.bytes;
        for (to, &from) in record.dims.iter_mut().zip(&self.dims) {
            *to = i64::try_from(from).map_err(|_| Error::unsupported("a port's extent is too large"))?;
        }
        for (to, &from) in record.strides.iter_mut().zip(&self.strides) {
            *to = from;
        }
        Ok(record)
    }
}
