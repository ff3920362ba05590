//! A graph's record as the flat arrays of the contract, over mapped files.
//!
//! Invariants:
//! 1. Every pointer points to memory that the graph holds: a record, a vector that no longer
//!    changes, or a mapped file.
//! 2. Constants lie inside their files, which is checked.

#![allow(
    unsafe_code,
    reason = "pointers to what a value holds are shared between threads"
)]

use std::ffi::c_void;
use std::os::fd::{AsRawFd, OwnedFd};

use polychip_abi as abi;
use polychip_abi::Sized;

use super::failure::failure;
use crate::graph_record::{
    AttributeRecord, BodyRecord, DataRecord, EncodingRecord, GraphRecord, NodeRecord, TensorRecord,
    ValueRecord,
};
use crate::message::FailureRecord;
use crate::shared_file::{self, SharedFile};

type Result<T> = std::result::Result<T, FailureRecord>;

/// A graph for a call.
pub(super) struct RawGraph {
    raw: Box<abi::polychip_graph>,
    keep: Keep,
}

// SAFETY: the pointers lead to memory that the value holds and that does not change.
unsafe impl Send for RawGraph {}
// SAFETY: as above.
unsafe impl Sync for RawGraph {}

/// What the arrays point to. A vector's elements do not move when this moves.
#[derive(Default)]
#[allow(
    clippy::vec_box,
    reason = "pointers lead to what is in the boxes, which stays when the vector grows"
)]
struct Keep {
    /// The record, whose texts and numbers are pointed to in place.
    record: Option<Box<GraphRecord>>,
    files: Vec<SharedFile>,
    graphs: Vec<Box<abi::polychip_graph>>,
    nodes: Vec<Vec<abi::polychip_node>>,
    tensors: Vec<Vec<abi::polychip_tensor>>,
    attributes: Vec<Vec<abi::polychip_attribute>>,
    texts: Vec<Vec<abi::polychip_text>>,
    encodings: Vec<Box<abi::polychip_encoding>>,
    bodies: Vec<Vec<abi::polychip_body>>,
    captures: Vec<Vec<abi::polychip_capture>>,
    groups: Vec<Vec<abi::polychip_group>>,
    states: Vec<Vec<abi::polychip_state>>,
}

fn text(text: &str) -> abi::polychip_text {
    abi::polychip_text {
        data: text.as_ptr(),
        len: text.len() as u64,
    }
}

impl RawGraph {
    /// Makes the arrays. The first descriptor holds the copied constants, the others are model
    /// files.
    pub(super) fn new(record: GraphRecord, descriptors: Vec<OwnedFd>) -> Result<RawGraph> {
        let mut keep = Keep::default();
        for file in descriptors {
            let bytes = {
                use std::os::fd::AsFd;
                shared_file::size(file.as_fd())?
            };
            keep.files.push(SharedFile::map_read_only(file, 0, bytes)?);
        }
        let record = Box::new(record);
        let raw = Box::new(keep.graph(&record)?);
        keep.record = Some(record);
        Ok(RawGraph { raw, keep })
    }

    /// The graph as plugins read it.
    pub(super) fn raw(&self) -> *const abi::polychip_graph {
        debug_assert!(self.keep.record.is_some());
        &raw const *self.raw
    }

    pub(super) fn node_count(&self) -> usize {
        self.raw.node_count as usize
    }
}

impl Keep {
    fn graph(&mut self, record: &GraphRecord) -> Result<abi::polychip_graph> {
        let nodes = record
            .nodes
            .iter()
            .map(|node| self.node(node))
            .collect::<Result<Vec<_>>>()?;
        let tensors = record
            .tensors
            .iter()
            .map(|tensor| self.tensor(tensor))
            .collect::<Result<Vec<_>>>()?;
        let groups: Vec<_> = record
            .groups
            .iter()
            .map(|(kind, nodes)| abi::polychip_group {
                kind: *kind,
                nodes: nodes.as_ptr(),
                node_count: nodes.len() as u64,
                ..Sized::sized()
            })
            .collect();
        let states: Vec<_> = record
            .states
            .iter()
            .map(|(input, output)| abi::polychip_state {
                input: *input,
                output: *output,
            })
            .collect();
        let graph = abi::polychip_graph {
            name: text(&record.name),
            nodes: nodes.as_ptr(),
            node_count: nodes.len() as u64,
            node_stride: size_of::<abi::polychip_node>() as u64,
            tensors: tensors.as_ptr(),
            tensor_count: tensors.len() as u64,
            tensor_stride: size_of::<abi::polychip_tensor>() as u64,
            inputs: record.inputs.as_ptr(),
            input_count: record.inputs.len() as u64,
            outputs: record.outputs.as_ptr(),
            output_count: record.outputs.len() as u64,
            groups: groups.as_ptr(),
            group_count: groups.len() as u64,
            group_stride: size_of::<abi::polychip_group>() as u64,
            states: states.as_ptr(),
            state_count: states.len() as u64,
            structure_fingerprint: record.structure_fingerprint,
            content_fingerprint: record.content_fingerprint,
            ..Sized::sized()
        };
        self.nodes.push(nodes);
        self.tensors.push(tensors);
        self.groups.push(groups);
        self.states.push(states);
        Ok(graph)
    }

    fn node(&mut self, record: &NodeRecord) -> Result<abi::polychip_node> {
        let attributes = record
            .attributes
            .iter()
            .map(|attribute| self.attribute(attribute))
            .collect::<Result<Vec<_>>>()?;
        let bodies = record
            .bodies
            .iter()
            .map(|body| self.body(body))
            .collect::<Result<Vec<_>>>()?;
        let decomposition = match &record.decomposition {
            Some(graph) => self.inner(graph)?,
            None => std::ptr::null(),
        };
        let node = abi::polychip_node {
            op: record.op,
            domain: text(&record.domain),
            op_name: text(&record.op_name),
            name: text(&record.name),
            inputs: record.inputs.as_ptr(),
            input_count: record.inputs.len() as u64,
            outputs: record.outputs.as_ptr(),
            output_count: record.outputs.len() as u64,
            attributes: attributes.as_ptr(),
            attribute_count: attributes.len() as u64,
            attribute_stride: size_of::<abi::polychip_attribute>() as u64,
            bodies: bodies.as_ptr(),
            body_count: bodies.len() as u64,
            body_stride: size_of::<abi::polychip_body>() as u64,
            decomposition,
            ..Sized::sized()
        };
        self.attributes.push(attributes);
        self.bodies.push(bodies);
        Ok(node)
    }

    /// A graph inside the graph.
    fn inner(&mut self, record: &GraphRecord) -> Result<*const abi::polychip_graph> {
        let graph = Box::new(self.graph(record)?);
        let raw = &raw const *graph;
        self.graphs.push(graph);
        Ok(raw)
    }

    fn body(&mut self, record: &BodyRecord) -> Result<abi::polychip_body> {
        let captures: Vec<_> = record
            .captures
            .iter()
            .map(|(outer, inner)| abi::polychip_capture {
                outer: *outer,
                inner: *inner,
            })
            .collect();
        let body = abi::polychip_body {
            attribute: record.attribute,
            graph: self.inner(&record.graph)?,
            captures: captures.as_ptr(),
            capture_count: captures.len() as u64,
            ..Sized::sized()
        };
        self.captures.push(captures);
        Ok(body)
    }

    fn attribute(&mut self, record: &AttributeRecord) -> Result<abi::polychip_attribute> {
        let (value_type, data, count): (u32, *const c_void, usize) = match &record.value {
            ValueRecord::Ints(values) => (
                abi::POLYCHIP_ATTRIBUTE_TYPE_INTS,
                values.as_ptr().cast(),
                values.len(),
            ),
            ValueRecord::Floats(values) => (
                abi::POLYCHIP_ATTRIBUTE_TYPE_FLOATS,
                values.as_ptr().cast(),
                values.len(),
            ),
            ValueRecord::Texts(values) => {
                let texts: Vec<_> = values.iter().map(|value| text(value)).collect();
                let data = texts.as_ptr().cast();
                self.texts.push(texts);
                (abi::POLYCHIP_ATTRIBUTE_TYPE_TEXTS, data, values.len())
            }
            ValueRecord::Tensor(tensor) => {
                let tensors = vec![self.tensor(tensor)?];
                let data = tensors.as_ptr().cast();
                self.tensors.push(tensors);
                (abi::POLYCHIP_ATTRIBUTE_TYPE_TENSOR, data, 1)
            }
        };
        Ok(abi::polychip_attribute {
            code: record.code,
            name: text(&record.name),
            value_type,
            flags: if record.list {
                abi::POLYCHIP_ATTRIBUTE_LIST
            } else {
                0
            },
            data,
            count: count as u64,
            ..Sized::sized()
        })
    }

    fn tensor(&mut self, record: &TensorRecord) -> Result<abi::polychip_tensor> {
        let mut tensor = abi::polychip_tensor {
            dtype: record.dtype,
            flags: record.flags,
            rank: record.dims.len() as u32,
            dims: record.dims.as_ptr(),
            name: text(&record.name),
            encoding: record
                .encoding
                .as_ref()
                .map_or(std::ptr::null(), |encoding| self.encoding(encoding)),
            ..Sized::sized()
        };
        if let Some(data) = &record.data {
            (tensor.data, tensor.fd) = self.data(data)?;
            tensor.data_bytes = data.bytes;
            tensor.fd_offset = if tensor.fd == abi::POLYCHIP_NO_FD {
                0
            } else {
                data.offset
            };
        }
        Ok(tensor)
    }

    /// Address of a constant, and the descriptor of its model file.
    fn data(&self, record: &DataRecord) -> Result<(*const u8, i64)> {
        let place = record.file.map_or(0, |file| file as usize + 1);
        let inside = |file: &&SharedFile| {
            record
                .offset
                .checked_add(record.bytes)
                .is_some_and(|end| end <= file.bytes() as u64)
        };
        let file = self.files.get(place).filter(inside).ok_or_else(|| {
            failure(
                abi::POLYCHIP_STATUS_BAD_ARGUMENT,
                format!("a constant lies outside file {place}: {record:?}"),
            )
        })?;
        let fd = match record.file {
            Some(_) => i64::from(file.file().as_raw_fd()),
            None => abi::POLYCHIP_NO_FD,
        };
        Ok((file.data().cast_const().wrapping_add(record.offset as usize), fd))
    }

    fn encoding(&mut self, record: &EncodingRecord) -> *const abi::polychip_encoding {
        let encoding = Box::new(abi::polychip_encoding {
            kind: record.kind,
            axis: record.axis,
            block_size: record.block_size,
            scales: record.scales.as_ptr(),
            scale_count: record.scales.len() as u64,
            zero_points: if record.zero_points.is_empty() {
                std::ptr::null()
            } else {
                record.zero_points.as_ptr()
            },
            zero_point_count: record.zero_points.len() as u64,
            real_dtype: record.real_dtype,
            block_layout: record.block_layout,
            ..Sized::sized()
        });
        let raw = &raw const *encoding;
        self.encodings.push(encoding);
        raw
    }
}
