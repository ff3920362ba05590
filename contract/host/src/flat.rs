//! A graph as the flat arrays of the plugin contract.
//!
//! Invariants:
//! 1. Every pointer in the arrays points to memory that the [`FlatGraph`] holds, at a fixed address.
//! 2. Nodes keep the graph's order; tensor and node indices are dense, in the graph's order.
//! 3. Constant data are not copied.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::Arc;

use bytes::Bytes;
use polychip_abi as abi;
use polychip_abi::Sized;
use polychip_graph::{Container, Encoding, EncodingAxis, Graph, GroupKind, Node, NodeId, Tensor, TensorId};
use polychip_ops::{AttrKey, AttrValue, DType, Dim, Literal, PACKED_BYTES};

use crate::error::{Error, ErrorKind, Result};
use chunks::Chunks;

mod chunks;

/// A graph in the form that plugins read.
pub struct FlatGraph {
    /// One element. A vector and not a box, because moving a box would invalidate the pointers into
    /// it.
    raw: Vec<abi::polychip_graph>,
    keep: Keep,
    /// Name of the graph, and names of its inputs, then outputs.
    name: String,
    port_names: Vec<String>,
    /// Element type and extents (-1 for unknown, nothing for an unknown rank) of inputs, then outputs.
    ports: Vec<(u32, Option<Vec<i64>>)>,
}

/// Storage of everything that the arrays point to. A vector's elements do not move when this moves.
#[derive(Default)]
struct Keep {
    texts: Chunks<u8>,
    dims: Chunks<i64>,
    indices: Chunks<u32>,
    floats: Vec<Arc<[f32]>>,
    zero_points: Vec<Arc<[i32]>>,
    spans: Vec<Vec<abi::polychip_text>>,
    literals: Vec<Literal>,
    encodings: Vec<Vec<abi::polychip_encoding>>,
    attribute_tensors: Vec<Vec<abi::polychip_tensor>>,
    attributes: Vec<Vec<abi::polychip_attribute>>,
    captures: Vec<Vec<abi::polychip_capture>>,
    bodies: Vec<Vec<abi::polychip_body>>,
    graphs: Vec<FlatGraph>,
    nodes: Vec<abi::polychip_node>,
    tensors: Vec<abi::polychip_tensor>,
    groups: Vec<abi::polychip_group>,
    states: Vec<abi::polychip_state>,
    constants: Vec<Bytes>,
}

// SAFETY: the pointers point to memory that the graph holds and nothing changes after it is made.
unsafe impl Send for FlatGraph {}
// SAFETY: as above.
unsafe impl Sync for FlatGraph {}

impl FlatGraph {
    /// Flattens a graph. `descriptors` holds the open file for each of the graph's file indices, -1
    /// for none.
    ///
    /// # Errors
    /// The graph has more nodes or tensors than the contract can count, or a tensor of unknown
    /// type.
    pub fn new(graph: &Graph, descriptors: &[i64]) -> Result<FlatGraph> {
        let mut keep = Keep::default();
        check_size(graph)?;
        let index = |id: TensorId| tensor_index(graph, id);
        keep.tensors = graph
            .tensors()
            .map(|(_, tensor)| keep.tensor(tensor, descriptors))
            .collect::<Result<_>>()?;
        let mut places: Vec<Option<u32>> = vec![None; graph.node_bound()];
        let mut nodes = Vec::with_capacity(graph.node_count());
        for (position, (id, node)) in graph.nodes().enumerate() {
            places[id.index()] = Some(position as u32);
            nodes.push(keep.node(node, descriptors, &index)?);
        }
        keep.nodes = nodes;
        keep.groups = graph
            .groups
            .iter()
            .filter_map(|group| {
                let place = |id: &NodeId| places.get(id.index()).copied().flatten();
                let members: Option<Vec<u32>> = group.nodes.iter().map(place).collect();
                let kind = match group.kind {
                    GroupKind::Conv => abi::POLYCHIP_GROUP_CONV,
                    GroupKind::MatMul => abi::POLYCHIP_GROUP_MATMUL,
                    GroupKind::Elementwise => abi::POLYCHIP_GROUP_ELEMENTWISE,
                    GroupKind::Normalisation => abi::POLYCHIP_GROUP_NORMALISATION,
                    _ => return None,
                };
                let (nodes, node_count) = keep.index_array(members?.into_iter());
                Some(abi::polychip_group {
                    kind,
                    nodes,
                    node_count,
                    ..Sized::sized()
                })
            })
            .collect();
        keep.states = graph
            .states
            .iter()
            .map(|state| abi::polychip_state {
                input: index(state.input),
                output: index(state.output),
            })
            .collect();
        let mut raw = abi::polychip_graph::sized();
        raw.name = keep.text(&graph.name);
        raw.nodes = keep.nodes.as_ptr();
        raw.node_count = keep.nodes.len() as u64;
        raw.node_stride = size_of::<abi::polychip_node>() as u64;
        raw.tensors = keep.tensors.as_ptr();
        raw.tensor_count = keep.tensors.len() as u64;
        raw.tensor_stride = size_of::<abi::polychip_tensor>() as u64;
        (raw.inputs, raw.input_count) = keep.index_array(graph.inputs.iter().map(|id| index(*id)));
        (raw.outputs, raw.output_count) = keep.index_array(graph.outputs.iter().map(|id| index(*id)));
        raw.groups = keep.groups.as_ptr();
        raw.group_count = keep.groups.len() as u64;
        raw.group_stride = size_of::<abi::polychip_group>() as u64;
        raw.states = keep.states.as_ptr();
        raw.state_count = keep.states.len() as u64;
        let ports = graph
            .inputs
            .iter()
            .chain(&graph.outputs)
            .map(|id| {
                if graph.tensor(*id).is_packed() {
                    return (DType::U8.code(), Some(vec![PACKED_BYTES as i64]));
                }
                let ty = &graph.tensor(*id).ty;
                let dims = ty.shape.as_ref().map(|shape| {
                    shape
                        .iter()
                        .map(|dim| {
                            dim.known()
                                .and_then(|size| i64::try_from(size).ok())
                                .unwrap_or(-1)
                        })
                        .collect()
                });
                (ty.dtype.code(), dims)
            })
            .collect();
        let ends = graph.inputs.iter().chain(&graph.outputs);
        Ok(FlatGraph {
            raw: vec![raw],
            keep,
            name: graph.name.clone(),
            port_names: ends.map(|id| graph.tensor(*id).name.clone()).collect(),
            ports,
        })
    }

    /// Adds the graph's fingerprints, which devices may use as keys of their own caches.
    #[must_use]
    pub fn with_fingerprints(mut self, structure: [u8; 32], content: [u8; 32]) -> FlatGraph {
        self.raw[0].structure_fingerprint = structure;
        self.raw[0].content_fingerprint = content;
        self
    }

    /// Lowest minor version of the contract that a plugin needs to read the graph.
    pub(crate) fn least_minor(&self) -> u32 {
        let encodings = self.keep.encodings.iter().flatten();
        let blocks = encodings.filter(|encoding| encoding.kind == abi::POLYCHIP_ENCODING_BLOCKS);
        let minor = |layout| if layout > abi::POLYCHIP_BLOCKS_Q6_K { 3 } else { 2 };
        blocks
            .map(|encoding| minor(encoding.block_layout))
            .max()
            .unwrap_or(0)
    }

    /// Name of the graph.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Names of the inputs, then of the outputs.
    pub(crate) fn port_names(&self) -> &[String] {
        &self.port_names
    }

    /// Number of nodes.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.keep.nodes.len()
    }

    /// Number of inputs.
    #[must_use]
    pub fn input_count(&self) -> usize {
        self.raw[0].input_count as usize
    }

    /// Number of outputs.
    #[must_use]
    pub fn output_count(&self) -> usize {
        self.raw[0].output_count as usize
    }

    /// Element type and known extents of a port.
    pub(crate) fn port(&self, port: u32) -> Option<&(u32, Option<Vec<i64>>)> {
        self.ports.get(port as usize)
    }

    /// The graph as plugins read it; valid as long as this object.
    #[must_use]
    pub fn raw(&self) -> *const abi::polychip_graph {
        self.raw.as_ptr()
    }

    /// The constants that the arrays point to.
    pub(crate) fn constants(&self) -> &[Bytes] {
        &self.keep.constants
    }
}

/// Refuses a graph with more tensors than the contract counts.
fn check_size(graph: &Graph) -> Result<()> {
    let is_counted = u32::try_from(graph.tensor_count()).is_ok_and(|count| count < abi::POLYCHIP_NO_INDEX);
    if is_counted {
        Ok(())
    } else {
        let words = "more than 2^32 - 2 tensors";
        Err(Error::new(ErrorKind::BadArgument, &graph.name, words))
    }
}

/// The index of a tensor of a graph of a checked size: tensors are listed in the order of their ids.
fn tensor_index(graph: &Graph, id: TensorId) -> u32 {
    if id.index() < graph.tensor_count() {
        id.index() as u32
    } else {
        abi::POLYCHIP_NO_INDEX
    }
}

impl Keep {
    fn text(&mut self, text: &str) -> abi::polychip_text {
        abi::polychip_text {
            data: self.texts.add(text.bytes()),
            len: text.len() as u64,
        }
    }

    fn index_array(&mut self, values: impl ExactSizeIterator<Item = u32>) -> (*const u32, u64) {
        let count = values.len() as u64;
        (self.indices.add(values), count)
    }

    fn dims(&mut self, values: impl ExactSizeIterator<Item = i64>) -> *const i64 {
        self.dims.add(values)
    }

    fn floats(&mut self, values: impl Into<Arc<[f32]>>) -> *const f32 {
        let values = values.into();
        let data = values.as_ptr();
        self.floats.push(values);
        data
    }

    fn tensor(&mut self, tensor: &Tensor, descriptors: &[i64]) -> Result<abi::polychip_tensor> {
        let mut flat = abi::polychip_tensor::sized();
        if tensor.container.is_packed() {
            flat.dtype = DType::U8.code();
            flat.flags = abi::POLYCHIP_TENSOR_CONTAINER | abi::POLYCHIP_TENSOR_UPPER_BOUND;
            flat.rank = 1;
            flat.dims = self.dims([PACKED_BYTES as i64].into_iter());
            flat.name = self.text(&tensor.name);
            return Ok(flat);
        }
        flat.dtype = tensor.ty.dtype.code();
        if !tensor.typed || tensor.container != Container::Tensor {
            flat.flags |= abi::POLYCHIP_TENSOR_UNTYPED;
        }
        match &tensor.ty.shape {
            Some(shape) if flat.flags == 0 => {
                flat.rank = shape.len() as u32;
                let dims = shape.iter().map(|dim| match dim {
                    Dim::Known(size) => i64::try_from(*size).unwrap_or(abi::POLYCHIP_DIM_UNKNOWN),
                    _ => abi::POLYCHIP_DIM_UNKNOWN,
                });
                flat.dims = self.dims(dims);
            }
            _ => flat.flags |= abi::POLYCHIP_TENSOR_UNRANKED,
        }
        flat.name = self.text(&tensor.name);
        if tensor.upper_bound {
            flat.flags |= abi::POLYCHIP_TENSOR_UPPER_BOUND;
        }
        if let Some(encoding) = &tensor.encoding {
            flat.encoding = self.encoding(encoding, tensor.ty.shape.as_ref().map_or(0, Vec::len));
        }
        if let Some(constant) = &tensor.data {
            flat.flags |= abi::POLYCHIP_TENSOR_CONSTANT;
            flat.data = constant.bytes.as_ptr();
            flat.data_bytes = constant.bytes.len() as u64;
            if let Some(slice) = constant.file
                && let Some(fd) = descriptors.get(slice.file as usize)
                && *fd != abi::POLYCHIP_NO_FD
            {
                (flat.fd, flat.fd_offset) = (*fd, slice.offset);
            }
            self.constants.push(constant.bytes.clone());
        }
        Ok(flat)
    }

    fn encoding(&mut self, encoding: &Encoding, rank: usize) -> *const abi::polychip_encoding {
        let mut flat = abi::polychip_encoding::sized();
        (flat.kind, flat.axis, flat.block_size) = match encoding.axis {
            EncodingAxis::PerTensor => (abi::POLYCHIP_ENCODING_PER_TENSOR, 0, 0),
            EncodingAxis::PerAxis(axis) => (abi::POLYCHIP_ENCODING_PER_AXIS, axis as u32, 0),
            EncodingAxis::PerBlock { axis, block } => {
                (abi::POLYCHIP_ENCODING_PER_BLOCK, axis as u32, block as u32)
            }
            EncodingAxis::Blocks(layout) => {
                flat.block_layout = layout.code();
                let last = rank.saturating_sub(1) as u32;
                (abi::POLYCHIP_ENCODING_BLOCKS, last, layout.elements() as u32)
            }
        };
        flat.scales = self.floats(Arc::clone(&encoding.scales));
        flat.scale_count = encoding.scales.len() as u64;
        if !encoding.zero_points.is_empty() {
            let zero_points = Arc::clone(&encoding.zero_points);
            flat.zero_points = zero_points.as_ptr();
            flat.zero_point_count = zero_points.len() as u64;
            self.zero_points.push(zero_points);
        }
        flat.real_dtype = encoding.real.code();
        let flat = vec![flat];
        let data = flat.as_ptr();
        self.encodings.push(flat);
        data
    }

    fn node(
        &mut self,
        node: &Node,
        descriptors: &[i64],
        index: &dyn Fn(TensorId) -> u32,
    ) -> Result<abi::polychip_node> {
        let of = |id: &Option<TensorId>| id.map_or(abi::POLYCHIP_NO_INDEX, index);
        let mut flat = abi::polychip_node::sized();
        flat.op = node.op.code();
        flat.domain = self.text(&node.domain);
        flat.op_name = self.text(&node.op_name);
        flat.name = self.text(&node.name);
        (flat.inputs, flat.input_count) = self.index_array(node.inputs.iter().map(of));
        (flat.outputs, flat.output_count) = self.index_array(node.outputs.iter().map(of));
        let mut attributes: Vec<abi::polychip_attribute> = node
            .attributes
            .iter()
            .map(|(key, value)| self.attribute(key, value))
            .collect();
        // stable: names outside the list have code 0, stand sorted by name, and come first
        attributes.sort_by_key(|attribute| attribute.code);
        flat.attributes = attributes.as_ptr();
        flat.attribute_count = attributes.len() as u64;
        flat.attribute_stride = size_of::<abi::polychip_attribute>() as u64;
        self.attributes.push(attributes);
        let mut bodies = Vec::with_capacity(node.bodies.len());
        for body in &node.bodies {
            check_size(&body.graph)?;
            let captures: Vec<abi::polychip_capture> = body
                .captures
                .iter()
                .map(|capture| abi::polychip_capture {
                    outer: index(capture.outer),
                    inner: tensor_index(&body.graph, capture.inner),
                })
                .collect();
            let graph = FlatGraph::new(&body.graph, descriptors)?;
            self.constants.extend_from_slice(graph.constants());
            bodies.push(abi::polychip_body {
                attribute: body.attr.code(),
                graph: graph.raw(),
                captures: captures.as_ptr(),
                capture_count: captures.len() as u64,
                ..Sized::sized()
            });
            self.captures.push(captures);
            self.graphs.push(graph);
        }
        flat.bodies = bodies.as_ptr();
        flat.body_count = bodies.len() as u64;
        flat.body_stride = size_of::<abi::polychip_body>() as u64;
        self.bodies.push(bodies);
        if let Some(decomposition) = &node.decomposition {
            let graph = FlatGraph::new(decomposition, descriptors)?;
            self.constants.extend_from_slice(graph.constants());
            flat.decomposition = graph.raw();
            self.graphs.push(graph);
        }
        Ok(flat)
    }

    fn attribute(&mut self, key: &AttrKey, value: &AttrValue) -> abi::polychip_attribute {
        let mut flat = abi::polychip_attribute::sized();
        flat.code = match key {
            AttrKey::Known(attr) => attr.code(),
            AttrKey::Custom(_) => 0,
        };
        flat.name = self.text(key.name());
        let list = abi::POLYCHIP_ATTRIBUTE_LIST;
        (flat.value_type, flat.flags, flat.data, flat.count) = match value {
            AttrValue::Int(value) => (
                abi::POLYCHIP_ATTRIBUTE_TYPE_INTS,
                0,
                self.dims([*value].into_iter()).cast::<c_void>(),
                1,
            ),
            AttrValue::Ints(values) => (
                abi::POLYCHIP_ATTRIBUTE_TYPE_INTS,
                list,
                self.dims(values.iter().copied()).cast::<c_void>(),
                values.len() as u64,
            ),
            AttrValue::Float(value) => (
                abi::POLYCHIP_ATTRIBUTE_TYPE_FLOATS,
                0,
                self.floats([*value]).cast::<c_void>(),
                1,
            ),
            AttrValue::Floats(values) => (
                abi::POLYCHIP_ATTRIBUTE_TYPE_FLOATS,
                list,
                self.floats(&values[..]).cast::<c_void>(),
                values.len() as u64,
            ),
            AttrValue::String(value) => (
                abi::POLYCHIP_ATTRIBUTE_TYPE_TEXTS,
                0,
                self.spans(std::slice::from_ref(value)),
                1,
            ),
            AttrValue::Strings(values) => (
                abi::POLYCHIP_ATTRIBUTE_TYPE_TEXTS,
                list,
                self.spans(values),
                values.len() as u64,
            ),
            AttrValue::Tensor(literal) => (
                abi::POLYCHIP_ATTRIBUTE_TYPE_TENSOR,
                0,
                self.literal(literal).cast::<c_void>(),
                1,
            ),
        };
        flat
    }

    fn spans(&mut self, values: &[std::sync::Arc<str>]) -> *const c_void {
        let spans: Vec<abi::polychip_text> = values.iter().map(|value| self.text(value)).collect();
        let data = spans.as_ptr();
        self.spans.push(spans);
        data.cast()
    }

    fn literal(&mut self, literal: &Literal) -> *const abi::polychip_tensor {
        let mut flat = abi::polychip_tensor::sized();
        flat.dtype = literal.dtype.code();
        flat.flags = abi::POLYCHIP_TENSOR_CONSTANT;
        flat.rank = literal.shape.len() as u32;
        let dims = literal
            .shape
            .iter()
            .map(|size| i64::try_from(*size).unwrap_or(abi::POLYCHIP_DIM_UNKNOWN));
        flat.dims = self.dims(dims);
        flat.data = literal.bytes.as_ptr();
        flat.data_bytes = literal.bytes.len() as u64;
        self.literals.push(literal.clone());
        let flat = vec![flat];
        let data = flat.as_ptr();
        self.attribute_tensors.push(flat);
        data
    }
}

impl std::fmt::Debug for FlatGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "FlatGraph({} nodes, {} tensors)",
            self.keep.nodes.len(),
            self.keep.tensors.len()
        )
    }
}
