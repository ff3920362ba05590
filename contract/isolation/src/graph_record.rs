//! A graph as a record, and the files that hold its constants.
//!
//! Invariants:
//! 1. A record is made of a checked view, so it holds a valid graph.
//! 2. A constant that a file backs travels as that file; the others are copied to one memory file.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use polychip_abi as abi;
use polychip_ops::{AttrKey, AttrValue};
use polychip_sdk::{Constant, Encoding, EncodingKind, GraphView, GroupKind, NodeView, Result, TensorView};
use serde::{Deserialize, Serialize};

use crate::shared_file::{self, MOST_DESCRIPTORS};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct GraphRecord {
    pub name: String,
    pub nodes: Vec<NodeRecord>,
    pub tensors: Vec<TensorRecord>,
    pub inputs: Vec<u32>,
    pub outputs: Vec<u32>,
    /// Kinds with their nodes.
    pub groups: Vec<(u32, Vec<u32>)>,
    pub states: Vec<(u32, u32)>,
    pub structure_fingerprint: [u8; 32],
    pub content_fingerprint: [u8; 32],
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeRecord {
    pub op: u32,
    pub domain: String,
    pub op_name: String,
    pub name: String,
    pub inputs: Vec<u32>,
    pub outputs: Vec<u32>,
    pub attributes: Vec<AttributeRecord>,
    pub bodies: Vec<BodyRecord>,
    pub decomposition: Option<Box<GraphRecord>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttributeRecord {
    pub code: u32,
    pub name: String,
    pub list: bool,
    pub value: ValueRecord,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ValueRecord {
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<String>),
    Tensor(Box<TensorRecord>),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BodyRecord {
    pub attribute: u32,
    pub graph: GraphRecord,
    /// Outer and inner tensors.
    pub captures: Vec<(u32, u32)>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TensorRecord {
    pub dtype: u32,
    pub flags: u32,
    pub dims: Vec<i64>,
    pub name: String,
    pub encoding: Option<EncodingRecord>,
    pub data: Option<DataRecord>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EncodingRecord {
    pub kind: u32,
    pub axis: u32,
    pub block_size: u32,
    pub block_layout: u32,
    pub real_dtype: u32,
    pub scales: Vec<f32>,
    pub zero_points: Vec<i32>,
}

/// Where a constant's bytes lie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DataRecord {
    /// `None`: in the file of copied constants. Otherwise one of the files behind it.
    pub file: Option<u32>,
    pub offset: u64,
    pub bytes: u64,
}

/// The files of a graph's constants, gathered while its record is made.
#[derive(Default)]
pub(crate) struct GraphFiles {
    /// Descriptors of the host, each once.
    files: Vec<RawFd>,
    /// Constants without a file.
    copied: Vec<Constant>,
    copied_bytes: u64,
}

/// Alignment of copied constants, in bytes.
const ALIGNMENT: u64 = 64;
const ZEROS: [u8; ALIGNMENT as usize] = [0; ALIGNMENT as usize];

impl GraphFiles {
    fn data(&mut self, constant: Constant) -> DataRecord {
        let bytes = constant.bytes().len() as u64;
        if let Some((fd, offset)) = constant.file().filter(|_| bytes > 0)
            && let Ok(fd) = RawFd::try_from(fd)
        {
            let known = self.files.iter().position(|file| *file == fd);
            let place = known.or_else(|| {
                // one descriptor is that of the copied constants, one that of a blob
                (self.files.len() + 2 < MOST_DESCRIPTORS).then(|| {
                    self.files.push(fd);
                    self.files.len() - 1
                })
            });
            if let Some(place) = place {
                return DataRecord {
                    file: Some(place as u32),
                    offset,
                    bytes,
                };
            }
        }
        let offset = self.copied_bytes;
        self.copied_bytes += bytes.next_multiple_of(ALIGNMENT);
        self.copied.push(constant);
        DataRecord {
            file: None,
            offset,
            bytes,
        }
    }

    /// The file of copied constants.
    pub(crate) fn copied(&self) -> Result<OwnedFd> {
        let parts = self.copied.iter().flat_map(|constant| {
            let bytes = constant.bytes();
            let pad = bytes.len().next_multiple_of(ALIGNMENT as usize) - bytes.len();
            [bytes, &ZEROS[..pad]]
        });
        shared_file::filled(parts)
    }

    /// The other files, which the host keeps open during the call.
    #[allow(unsafe_code, reason = "the contract lends descriptors as numbers")]
    pub(crate) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.files.iter().map(|fd| {
            // SAFETY: the contract: the host keeps a constant's file open as long as the model.
            unsafe { BorrowedFd::borrow_raw(*fd) }
        })
    }
}

impl GraphRecord {
    /// Makes the record of a graph.
    pub(crate) fn new(graph: &GraphView<'_>, files: &mut GraphFiles) -> GraphRecord {
        GraphRecord {
            name: graph.name().to_owned(),
            nodes: graph.nodes().map(|node| NodeRecord::new(&node, files)).collect(),
            tensors: graph
                .tensors()
                .map(|tensor| TensorRecord::new(&tensor, files))
                .collect(),
            inputs: graph.inputs().to_vec(),
            outputs: graph.outputs().to_vec(),
            groups: graph
                .groups()
                .filter_map(|group| Some((group_code(group.kind)?, group.nodes.to_vec())))
                .collect(),
            states: graph.states().collect(),
            structure_fingerprint: graph.structure_fingerprint(),
            content_fingerprint: graph.content_fingerprint(),
        }
    }
}

/// Code of a group; `None` for a kind of a later contract, which is only a hint.
fn group_code(kind: GroupKind) -> Option<u32> {
    match kind {
        GroupKind::Conv => Some(abi::POLYCHIP_GROUP_CONV),
        GroupKind::MatMul => Some(abi::POLYCHIP_GROUP_MATMUL),
        GroupKind::Elementwise => Some(abi::POLYCHIP_GROUP_ELEMENTWISE),
        GroupKind::Normalisation => Some(abi::POLYCHIP_GROUP_NORMALISATION),
        GroupKind::Other => None,
    }
}

impl NodeRecord {
    fn new(node: &NodeView<'_>, files: &mut GraphFiles) -> NodeRecord {
        let index = |tensor: Option<u32>| tensor.unwrap_or(abi::POLYCHIP_NO_INDEX);
        let attributes = node.attribute_views().map(|view| {
            let value = match view.value() {
                AttrValue::Int(value) => (false, ValueRecord::Ints(vec![value])),
                AttrValue::Ints(values) => (true, ValueRecord::Ints(values)),
                AttrValue::Float(value) => (false, ValueRecord::Floats(vec![value])),
                AttrValue::Floats(values) => (true, ValueRecord::Floats(values)),
                AttrValue::String(value) => (false, ValueRecord::Texts(vec![value.to_string()])),
                AttrValue::Strings(values) => (
                    true,
                    ValueRecord::Texts(values.iter().map(ToString::to_string).collect()),
                ),
                AttrValue::Tensor(_) => {
                    let tensor = view.tensor().expect("invariant: the value is a tensor");
                    (
                        false,
                        ValueRecord::Tensor(Box::new(TensorRecord::new(&tensor, files))),
                    )
                }
            };
            AttributeRecord {
                code: match view.key() {
                    AttrKey::Known(attr) => attr.code(),
                    AttrKey::Custom(_) => 0,
                },
                name: view.name().to_owned(),
                list: value.0,
                value: value.1,
            }
        });
        let attributes = attributes.collect();
        NodeRecord {
            op: node.op().code(),
            domain: node.domain().to_owned(),
            op_name: node.op_name().to_owned(),
            name: node.name().to_owned(),
            inputs: node.inputs().map(index).collect(),
            outputs: node.outputs().map(index).collect(),
            attributes,
            bodies: node
                .bodies()
                .map(|body| BodyRecord {
                    attribute: body.attr.map_or(0, |attr| attr.code()),
                    graph: GraphRecord::new(&body.graph, files),
                    captures: body.captures().collect(),
                })
                .collect(),
            decomposition: node
                .decomposition()
                .map(|graph| Box::new(GraphRecord::new(&graph, files))),
        }
    }
}

impl TensorRecord {
    fn new(tensor: &TensorView<'_>, files: &mut GraphFiles) -> TensorRecord {
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        let untyped = !tensor.is_plain() && !tensor.is_container();
        TensorRecord {
            dtype: tensor.dtype().code(),
            flags: bit(tensor.is_constant(), abi::POLYCHIP_TENSOR_CONSTANT)
                | bit(tensor.is_upper_bound(), abi::POLYCHIP_TENSOR_UPPER_BOUND)
                | bit(tensor.dims().is_none(), abi::POLYCHIP_TENSOR_UNRANKED)
                | bit(untyped, abi::POLYCHIP_TENSOR_UNTYPED)
                | bit(tensor.is_container(), abi::POLYCHIP_TENSOR_CONTAINER),
            dims: tensor.dims().unwrap_or(&[]).to_vec(),
            name: tensor.name().to_owned(),
            encoding: tensor.encoding().map(|encoding| {
                let rank = tensor.dims().map_or(0, <[i64]>::len);
                EncodingRecord::new(&encoding.to_owned(), rank)
            }),
            data: tensor.constant().map(|constant| files.data(constant)),
        }
    }
}

impl EncodingRecord {
    fn new(encoding: &Encoding, rank: usize) -> EncodingRecord {
        let (kind, axis, block_size) = match encoding.kind {
            EncodingKind::PerTensor => (abi::POLYCHIP_ENCODING_PER_TENSOR, 0, 0),
            EncodingKind::PerAxis { axis } => (abi::POLYCHIP_ENCODING_PER_AXIS, axis, 0),
            EncodingKind::PerBlock { axis, block } => (abi::POLYCHIP_ENCODING_PER_BLOCK, axis, block),
            EncodingKind::Blocks(layout) => (
                abi::POLYCHIP_ENCODING_BLOCKS,
                rank.saturating_sub(1),
                layout.elements(),
            ),
        };
        EncodingRecord {
            kind,
            axis: axis as u32,
            block_size: block_size as u32,
            block_layout: encoding.block_layout().map_or(0, |layout| layout.code()),
            real_dtype: encoding.real_dtype.code(),
            scales: encoding.scales.clone(),
            zero_points: encoding.zero_points.clone(),
        }
    }

    /// The encoding of a port, or why there is none like it.
    pub(crate) fn encoding(&self) -> std::result::Result<Encoding, String> {
        let axis = self.axis as usize;
        let kind = match self.kind {
            abi::POLYCHIP_ENCODING_PER_TENSOR => EncodingKind::PerTensor,
            abi::POLYCHIP_ENCODING_PER_AXIS => EncodingKind::PerAxis { axis },
            abi::POLYCHIP_ENCODING_PER_BLOCK if self.block_size > 0 => EncodingKind::PerBlock {
                axis,
                block: self.block_size as usize,
            },
            kind => return Err(format!("a port has an encoding of kind {kind}")),
        };
        if !self.zero_points.is_empty() && self.zero_points.len() != self.scales.len() {
            return Err(format!(
                "a port has {} zero points for {} scales",
                self.zero_points.len(),
                self.scales.len()
            ));
        }
        Ok(Encoding {
            kind,
            scales: self.scales.clone(),
            zero_points: self.zero_points.clone(),
            real_dtype: polychip_ops::DType::from_code(self.real_dtype)
                .ok_or_else(|| format!("a port encodes unknown type {}", self.real_dtype))?,
        })
    }
}
