//! Safe views over the flat graph of a call.
//!
//! Invariants:
//! 1. [`GraphView::new`] checks the whole graph, including bodies and decompositions: indices are
//!    in range, text is UTF-8, sizes agree, each tensor is produced once and before it is used.
//!    Reading a view cannot fail.
//! 2. A view lives as long as the call; [`Constant`] data live as long as the model.
//! 3. An op code of a later contract appears as `Custom`, so that a plugin refuses that node only.
//!
//! Not here: the checks themselves (`graph/check.rs`).

#![allow(unsafe_code, reason = "checked pointers are followed here")]

mod check;
mod constant;
#[cfg(test)]
mod tests;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use polychip_abi as abi;
use polychip_abi::POLYCHIP_NO_INDEX;
use polychip_ops::operator::OperatorAttributes;
use polychip_ops::{
    Attr, AttrKey, AttrValue, Attributes, BlockLayout, DType, Dim, InferError, Literal, Op, Operator,
    TensorType,
};

pub use constant::Constant;

use crate::raw::{self, Rows};
use crate::{Encoding, EncodingKind, Error, Result};

const CHECKED: &str = "invariant: checked when the graph view was made";

/// A whole graph, or a part of one.
#[derive(Clone, Copy)]
pub struct GraphView<'a> {
    raw: abi::polychip_graph,
    life: PhantomData<&'a abi::polychip_graph>,
}

// SAFETY: the graph is read-only during the call.
unsafe impl Send for GraphView<'_> {}
// SAFETY: as above.
unsafe impl Sync for GraphView<'_> {}

impl<'a> GraphView<'a> {
    /// Checks a graph and makes a view of it.
    ///
    /// # Errors
    /// `BadArgument`, with the node or tensor that breaks the contract.
    ///
    /// # Safety
    /// Every non-null pointer of the graph is readable for the count, stride or size beside it during
    /// `'a`, and is not written to. The same holds for constant data as long as any [`Constant`] taken from the
    /// view is used: the host keeps a model alive as long as the executables made of it.
    pub unsafe fn new(graph: *const abi::polychip_graph) -> Result<GraphView<'a>> {
        // SAFETY: as the caller promises.
        let checked = unsafe { check::graph(graph, &mut check::Budget::new(), 0) }?;
        Ok(GraphView {
            raw: checked.raw,
            life: PhantomData,
        })
    }

    /// A view of a graph that was checked before.
    ///
    /// # Safety
    /// `graph` was checked as part of a graph of this lifetime.
    unsafe fn checked(graph: *const abi::polychip_graph) -> GraphView<'a> {
        GraphView {
            // SAFETY: as the caller promises.
            raw: unsafe { raw::read(graph) }.expect(CHECKED),
            life: PhantomData,
        }
    }

    fn node_rows(&self) -> Rows<'a, abi::polychip_node> {
        Rows::new(self.raw.nodes, self.raw.node_count, self.raw.node_stride).expect(CHECKED)
    }

    fn tensor_rows(&self) -> Rows<'a, abi::polychip_tensor> {
        Rows::new(self.raw.tensors, self.raw.tensor_count, self.raw.tensor_stride).expect(CHECKED)
    }

    /// Name, for messages only.
    #[must_use]
    pub fn name(&self) -> &'a str {
        // SAFETY: checked text of the call.
        unsafe { raw::text(self.raw.name, "name") }.expect(CHECKED)
    }

    /// Number of nodes.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.raw.node_count as usize
    }

    /// Returns a node.
    ///
    /// # Panics
    /// There is no such node.
    #[must_use]
    pub fn node(&self, index: usize) -> NodeView<'a> {
        NodeView {
            // SAFETY: a checked row of the call.
            raw: unsafe { self.node_rows().read(index) }.expect(CHECKED),
            index: index as u32,
            life: PhantomData,
        }
    }

    /// The nodes in order of execution.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeView<'a>> + 'a {
        let graph = *self;
        (0..self.node_count()).map(move |index| graph.node(index))
    }

    /// Number of tensors.
    #[must_use]
    pub fn tensor_count(&self) -> usize {
        self.raw.tensor_count as usize
    }

    /// Returns a tensor.
    ///
    /// # Panics
    /// There is no such tensor.
    #[must_use]
    pub fn tensor(&self, index: u32) -> TensorView<'a> {
        TensorView {
            // SAFETY: a checked row of the call.
            raw: unsafe { self.tensor_rows().read(index as usize) }.expect(CHECKED),
            index,
            life: PhantomData,
        }
    }

    /// The tensors.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorView<'a>> + 'a {
        let graph = *self;
        (0..self.tensor_count()).map(move |index| graph.tensor(index as u32))
    }

    /// Tensors supplied from outside, in port order.
    #[must_use]
    pub fn inputs(&self) -> &'a [u32] {
        // SAFETY: checked slice of the call.
        unsafe { raw::slice(self.raw.inputs, self.raw.input_count, "inputs") }.expect(CHECKED)
    }

    /// Tensors returned, in port order.
    #[must_use]
    pub fn outputs(&self) -> &'a [u32] {
        // SAFETY: checked slice of the call.
        unsafe { raw::slice(self.raw.outputs, self.raw.output_count, "outputs") }.expect(CHECKED)
    }

    /// Fusion groups: hints, never obligations.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = GroupView<'a>> + 'a {
        let rows: Rows<'a, abi::polychip_group> =
            Rows::new(self.raw.groups, self.raw.group_count, self.raw.group_stride).expect(CHECKED);
        (0..rows.len()).map(move |index| {
            // SAFETY: a checked row of the call.
            let group = unsafe { rows.read(index) }.expect(CHECKED);
            GroupView {
                kind: GroupKind::from_code(group.kind),
                // SAFETY: checked slice of the call.
                nodes: unsafe { raw::slice(group.nodes, group.node_count, "group nodes") }.expect(CHECKED),
            }
        })
    }

    /// In-out pairs: an input of the graph, and the output that holds its new value after the run.
    pub fn states(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + 'a {
        // SAFETY: checked slice of the call.
        let states = unsafe { raw::slice(self.raw.states, self.raw.state_count, "states") }.expect(CHECKED);
        states.iter().map(|state| (state.input, state.output))
    }

    /// Hash of ops, attributes, shapes and data types.
    #[must_use]
    pub fn structure_fingerprint(&self) -> [u8; 32] {
        self.raw.structure_fingerprint
    }

    /// Hash of structure and constant data.
    #[must_use]
    pub fn content_fingerprint(&self) -> [u8; 32] {
        self.raw.content_fingerprint
    }
}

impl fmt::Debug for GraphView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphView")
            .field("name", &self.name())
            .field("inputs", &self.inputs())
            .field("nodes", &self.nodes().collect::<Vec<_>>())
            .field("outputs", &self.outputs())
            .finish_non_exhaustive()
    }
}

/// One operation.
#[derive(Clone, Copy)]
pub struct NodeView<'a> {
    raw: abi::polychip_node,
    index: u32,
    life: PhantomData<&'a abi::polychip_node>,
}

// SAFETY: the graph is read-only during the call.
unsafe impl Send for NodeView<'_> {}
// SAFETY: as above.
unsafe impl Sync for NodeView<'_> {}

impl<'a> NodeView<'a> {
    /// Index in the graph.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The op, or `Op::Custom` if only its domain and name identify it.
    #[must_use]
    pub fn op(&self) -> Op {
        Op::from_code(self.raw.op).unwrap_or(Op::Custom)
    }

    /// Domain of the op; empty for the ONNX standard.
    #[must_use]
    pub fn domain(&self) -> &'a str {
        // SAFETY: checked text of the call.
        unsafe { raw::text(self.raw.domain, "domain") }.expect(CHECKED)
    }

    /// Op type as the model wrote it.
    #[must_use]
    pub fn op_name(&self) -> &'a str {
        // SAFETY: checked text of the call.
        unsafe { raw::text(self.raw.op_name, "op name") }.expect(CHECKED)
    }

    /// Name of the node, for messages only.
    #[must_use]
    pub fn name(&self) -> &'a str {
        // SAFETY: checked text of the call.
        unsafe { raw::text(self.raw.name, "name") }.expect(CHECKED)
    }

    fn raw_inputs(&self) -> &'a [u32] {
        // SAFETY: checked slice of the call.
        unsafe { raw::slice(self.raw.inputs, self.raw.input_count, "inputs") }.expect(CHECKED)
    }

    fn raw_outputs(&self) -> &'a [u32] {
        // SAFETY: checked slice of the call.
        unsafe { raw::slice(self.raw.outputs, self.raw.output_count, "outputs") }.expect(CHECKED)
    }

    /// Indices of the tensors that the node reads; `None` for an omitted input.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = Option<u32>> + 'a {
        self.raw_inputs().iter().map(|&tensor| index(tensor))
    }

    /// Indices of the tensors that the node writes; `None` for an unused output.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = Option<u32>> + 'a {
        self.raw_outputs().iter().map(|&tensor| index(tensor))
    }

    /// Index of the tensor at this input, or `None` if the input is omitted.
    #[must_use]
    pub fn input(&self, place: usize) -> Option<u32> {
        self.raw_inputs().get(place).copied().and_then(index)
    }

    /// Index of the tensor at this output, or `None` if the output is unused.
    #[must_use]
    pub fn output(&self, place: usize) -> Option<u32> {
        self.raw_outputs().get(place).copied().and_then(index)
    }

    fn attribute_rows(&self) -> Rows<'a, abi::polychip_attribute> {
        Rows::new(
            self.raw.attributes,
            self.raw.attribute_count,
            self.raw.attribute_stride,
        )
        .expect(CHECKED)
    }

    /// Views of the attributes, sorted by code, then by name.
    pub fn attribute_views(&self) -> impl ExactSizeIterator<Item = AttributeView<'a>> + 'a {
        let rows = self.attribute_rows();
        (0..rows.len()).map(move |index| AttributeView {
            // SAFETY: a checked row of the call.
            raw: unsafe { rows.read(index) }.expect(CHECKED),
            life: PhantomData,
        })
    }

    /// Owned copies of the attributes.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::new();
        for view in self.attribute_views() {
            attributes.set(view.key(), view.value());
        }
        attributes
    }

    /// The op with typed attributes, decoded from [`NodeView::attributes`]. Omitted attributes get the
    /// defaults of the op table.
    ///
    /// # Errors
    /// The attributes do not fit the op, for example because they are from a later contract
    /// version.
    pub fn operator(&self) -> Result<Operator, InferError> {
        Operator::decode(self.op(), &self.attributes())
    }

    /// The op's typed attributes as `T`, for callers that know the op.
    ///
    /// # Errors
    /// As [`NodeView::operator`], and if `T` is not the attribute type of this op.
    pub fn typed<T: OperatorAttributes>(&self) -> Result<T, InferError> {
        Operator::attributes(self.op(), &self.attributes())
    }

    /// The attribute with this code, if present.
    #[must_use]
    pub fn attribute(&self, attr: Attr) -> Option<AttributeView<'a>> {
        self.attribute_views().find(|view| view.raw.code == attr.code())
    }

    /// An attribute, if it is one integer.
    #[must_use]
    pub fn int(&self, attr: Attr) -> Option<i64> {
        match self.attribute(attr)?.value() {
            AttrValue::Int(value) => Some(value),
            _ => None,
        }
    }

    /// An attribute, if it is a list of integers.
    #[must_use]
    pub fn ints(&self, attr: Attr) -> Option<&'a [i64]> {
        self.attribute(attr)?.ints()
    }

    /// An attribute, if it is one float.
    #[must_use]
    pub fn float(&self, attr: Attr) -> Option<f32> {
        match self.attribute(attr)?.value() {
            AttrValue::Float(value) => Some(value),
            _ => None,
        }
    }

    /// Body graphs (If, Loop, Scan).
    pub fn bodies(&self) -> impl ExactSizeIterator<Item = BodyView<'a>> + 'a {
        let rows: Rows<'a, abi::polychip_body> =
            Rows::new(self.raw.bodies, self.raw.body_count, self.raw.body_stride).expect(CHECKED);
        (0..rows.len()).map(move |index| {
            // SAFETY: a checked row of the call.
            let body = unsafe { rows.read(index) }.expect(CHECKED);
            BodyView {
                attr: Attr::from_code(body.attribute),
                // SAFETY: a checked graph of the call.
                graph: unsafe { GraphView::checked(body.graph) },
                // SAFETY: checked slice of the call.
                captures: unsafe { raw::slice(body.captures, body.capture_count, "captures") }
                    .expect(CHECKED),
            }
        })
    }

    /// The body of an attribute.
    #[must_use]
    pub fn body(&self, attr: Attr) -> Option<BodyView<'a>> {
        self.bodies().find(|body| body.attr == Some(attr))
    }

    /// The primitive ops that this node was recomposed from.
    #[must_use]
    pub fn decomposition(&self) -> Option<GraphView<'a>> {
        // SAFETY: a checked graph of the call.
        (!self.raw.decomposition.is_null()).then(|| unsafe { GraphView::checked(self.raw.decomposition) })
    }
}

impl fmt::Debug for NodeView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {:?} -> {:?}",
            self.op_name(),
            self.name(),
            self.raw_inputs(),
            self.raw_outputs()
        )
    }
}

fn index(tensor: u32) -> Option<u32> {
    (tensor != POLYCHIP_NO_INDEX).then_some(tensor)
}

/// A body graph of a node.
#[derive(Clone, Copy, Debug)]
pub struct BodyView<'a> {
    /// Attribute that holds the body; `None` if its code is unknown.
    pub attr: Option<Attr>,
    /// The body.
    pub graph: GraphView<'a>,
    captures: &'a [abi::polychip_capture],
}

impl<'a> BodyView<'a> {
    /// Tensors of the outer graph, each with the body input that represents it.
    pub fn captures(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + 'a {
        self.captures.iter().map(|capture| (capture.outer, capture.inner))
    }
}

/// Kind of fusion of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// Convolution followed by bias, activation or residual sum.
    Conv,
    /// Matrix product followed by bias, activation or residual sum.
    MatMul,
    /// A chain of elementwise ops.
    Elementwise,
    /// Residual sum followed by its normalisation.
    Normalisation,
    /// A kind from a later version of the contract.
    Other,
}

impl GroupKind {
    fn from_code(code: u32) -> GroupKind {
        match code {
            abi::POLYCHIP_GROUP_CONV => GroupKind::Conv,
            abi::POLYCHIP_GROUP_MATMUL => GroupKind::MatMul,
            abi::POLYCHIP_GROUP_ELEMENTWISE => GroupKind::Elementwise,
            abi::POLYCHIP_GROUP_NORMALISATION => GroupKind::Normalisation,
            _ => GroupKind::Other,
        }
    }
}

/// A fusion group: nodes that a device may compute in one kernel.
#[derive(Clone, Copy, Debug)]
pub struct GroupView<'a> {
    /// Kind of fusion.
    pub kind: GroupKind,
    /// Node indices, in graph order.
    pub nodes: &'a [u32],
}

/// One attribute of a node.
#[derive(Clone, Copy)]
pub struct AttributeView<'a> {
    raw: abi::polychip_attribute,
    life: PhantomData<&'a abi::polychip_attribute>,
}

impl<'a> AttributeView<'a> {
    /// Name as text.
    #[must_use]
    pub fn name(&self) -> &'a str {
        // SAFETY: checked text of the call.
        unsafe { raw::text(self.raw.name, "attribute name") }.expect(CHECKED)
    }

    /// Name as a key.
    #[must_use]
    pub fn key(&self) -> AttrKey {
        match Attr::from_code(self.raw.code) {
            Some(attr) => AttrKey::Known(attr),
            None => AttrKey::Custom(Arc::from(self.name())),
        }
    }

    /// The values, if they are integers: one, or a list.
    #[must_use]
    pub fn ints(&self) -> Option<&'a [i64]> {
        (self.raw.value_type == abi::POLYCHIP_ATTRIBUTE_TYPE_INTS).then(|| {
            // SAFETY: checked slice of the call.
            unsafe { raw::slice(self.raw.data.cast::<i64>(), self.raw.count, "ints") }.expect(CHECKED)
        })
    }

    /// The values, if they are floats: one, or a list.
    #[must_use]
    pub fn floats(&self) -> Option<&'a [f32]> {
        (self.raw.value_type == abi::POLYCHIP_ATTRIBUTE_TYPE_FLOATS).then(|| {
            // SAFETY: checked slice of the call.
            unsafe { raw::slice(self.raw.data.cast::<f32>(), self.raw.count, "floats") }.expect(CHECKED)
        })
    }

    /// The values, if they are texts: one, or a list.
    pub fn texts(&self) -> Option<impl ExactSizeIterator<Item = &'a str> + 'a> {
        (self.raw.value_type == abi::POLYCHIP_ATTRIBUTE_TYPE_TEXTS).then(|| {
            let texts: &'a [abi::polychip_text] =
                // SAFETY: checked slice of the call.
                unsafe { raw::slice(self.raw.data.cast(), self.raw.count, "texts") }.expect(CHECKED);
            texts
                .iter()
                // SAFETY: checked text of the call.
                .map(|&text| unsafe { raw::text(text, "text") }.expect(CHECKED))
        })
    }

    /// The value, if it is a tensor.
    #[must_use]
    pub fn tensor(&self) -> Option<TensorView<'a>> {
        (self.raw.value_type == abi::POLYCHIP_ATTRIBUTE_TYPE_TENSOR).then(|| TensorView {
            // SAFETY: a checked tensor of the call.
            raw: unsafe { raw::read(self.raw.data.cast::<abi::polychip_tensor>()) }.expect(CHECKED),
            index: POLYCHIP_NO_INDEX,
            life: PhantomData,
        })
    }

    /// Copies the value.
    #[must_use]
    pub fn value(&self) -> AttrValue {
        let list = self.raw.flags & abi::POLYCHIP_ATTRIBUTE_LIST != 0 || self.raw.count != 1;
        if let Some(ints) = self.ints() {
            return if list {
                AttrValue::Ints(ints.to_vec())
            } else {
                AttrValue::Int(ints[0])
            };
        }
        if let Some(floats) = self.floats() {
            return if list {
                AttrValue::Floats(floats.to_vec())
            } else {
                AttrValue::Float(floats[0])
            };
        }
        if let Some(mut texts) = self.texts() {
            return if list {
                AttrValue::Strings(texts.map(Arc::from).collect())
            } else {
                AttrValue::String(Arc::from(texts.next().expect(CHECKED)))
            };
        }
        let tensor = self.tensor().expect(CHECKED);
        AttrValue::Tensor(tensor.literal().expect(CHECKED))
    }
}

/// One tensor of a graph.
#[derive(Clone, Copy)]
pub struct TensorView<'a> {
    raw: abi::polychip_tensor,
    index: u32,
    life: PhantomData<&'a abi::polychip_tensor>,
}

// SAFETY: the graph is read-only during the call.
unsafe impl Send for TensorView<'_> {}
// SAFETY: as above.
unsafe impl Sync for TensorView<'_> {}

impl<'a> TensorView<'a> {
    /// Index in the graph; `POLYCHIP_NO_INDEX` for the value of an attribute.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Name in the model, for messages only.
    #[must_use]
    pub fn name(&self) -> &'a str {
        // SAFETY: checked text of the call.
        unsafe { raw::text(self.raw.name, "name") }.expect(CHECKED)
    }

    /// Type of the stored elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        DType::from_code(self.raw.dtype).expect(CHECKED)
    }

    /// Whether it is a tensor of a known data type, rather than a sequence or optional.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.raw.flags & (abi::POLYCHIP_TENSOR_UNTYPED | abi::POLYCHIP_TENSOR_CONTAINER) == 0
    }

    /// Whether it is a sequence or optional of tensors, packed into bytes ([`polychip_ops::Packed`]): then the data type
    /// is `u8` and the one extent is the maximum number of bytes.
    #[must_use]
    pub fn is_container(&self) -> bool {
        self.raw.flags & abi::POLYCHIP_TENSOR_CONTAINER != 0
    }

    /// Extents, −1 if unknown; `None` if even the rank is unknown.
    #[must_use]
    pub fn dims(&self) -> Option<&'a [i64]> {
        (self.raw.flags & abi::POLYCHIP_TENSOR_UNRANKED == 0).then(|| {
            // SAFETY: checked slice of the call.
            unsafe { raw::slice(self.raw.dims, u64::from(self.raw.rank), "dims") }.expect(CHECKED)
        })
    }

    /// Extents, if all of them are known.
    #[must_use]
    pub fn shape(&self) -> Option<Vec<usize>> {
        self.dims()?
            .iter()
            .map(|&dim| usize::try_from(dim).ok())
            .collect()
    }

    /// Element type and shape, in the form that shape inference uses.
    #[must_use]
    pub fn ty(&self) -> TensorType {
        TensorType {
            dtype: self.dtype(),
            shape: self.dims().map(|dims| {
                dims.iter()
                    .map(|&dim| usize::try_from(dim).map_or(Dim::Unknown, Dim::Known))
                    .collect()
            }),
        }
    }

    /// Whether the extents are upper bounds.
    #[must_use]
    pub fn is_upper_bound(&self) -> bool {
        self.raw.flags & abi::POLYCHIP_TENSOR_UPPER_BOUND != 0
    }

    /// Whether the elements are constant.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.raw.flags & abi::POLYCHIP_TENSOR_CONSTANT != 0
    }

    /// The elements of a constant.
    #[must_use]
    pub fn constant(&self) -> Option<Constant> {
        self.is_constant().then_some(Constant {
            data: self.raw.data,
            bytes: self.raw.data_bytes,
            fd: (self.raw.fd >= 0).then_some((self.raw.fd, self.raw.fd_offset)),
        })
    }

    /// The elements of a constant, copied: for shape arithmetic, not for weights.
    #[must_use]
    pub fn literal(&self) -> Option<Literal> {
        Literal::new(self.dtype(), self.shape()?, self.constant()?.bytes())
    }

    /// Quantisation.
    #[must_use]
    pub fn encoding(&self) -> Option<EncodingView<'a>> {
        (!self.raw.encoding.is_null()).then(|| EncodingView {
            // SAFETY: a checked encoding of the call.
            raw: unsafe { raw::read(self.raw.encoding) }.expect(CHECKED),
            life: PhantomData,
        })
    }
}

impl fmt::Debug for TensorView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.index, self.name(), self.ty())
    }
}

/// Quantisation of a tensor.
#[derive(Clone, Copy)]
pub struct EncodingView<'a> {
    raw: abi::polychip_encoding,
    life: PhantomData<&'a abi::polychip_encoding>,
}

impl<'a> EncodingView<'a> {
    /// Which elements share a scale, or the layout of blocks.
    #[must_use]
    pub fn kind(&self) -> EncodingKind {
        let axis = self.raw.axis as usize;
        match self.raw.kind {
            abi::POLYCHIP_ENCODING_PER_AXIS => EncodingKind::PerAxis { axis },
            abi::POLYCHIP_ENCODING_PER_BLOCK => EncodingKind::PerBlock {
                axis,
                block: self.raw.block_size as usize,
            },
            abi::POLYCHIP_ENCODING_BLOCKS => {
                EncodingKind::Blocks(BlockLayout::from_code(self.raw.block_layout).expect(CHECKED))
            }
            _ => EncodingKind::PerTensor,
        }
    }

    /// Scales.
    #[must_use]
    pub fn scales(&self) -> &'a [f32] {
        // SAFETY: checked slice of the call.
        unsafe { raw::slice(self.raw.scales, self.raw.scale_count, "scales") }.expect(CHECKED)
    }

    /// Zero points, as many as scales; empty means all 0.
    #[must_use]
    pub fn zero_points(&self) -> &'a [i32] {
        // SAFETY: checked slice of the call.
        unsafe { raw::slice(self.raw.zero_points, self.raw.zero_point_count, "zero points") }.expect(CHECKED)
    }

    /// Type of the real value that an op sees.
    #[must_use]
    pub fn real_dtype(&self) -> DType {
        DType::from_code(self.raw.real_dtype).expect(CHECKED)
    }

    /// Copies the encoding.
    #[must_use]
    pub fn to_owned(&self) -> Encoding {
        Encoding {
            kind: self.kind(),
            scales: self.scales().to_vec(),
            zero_points: self.zero_points().to_vec(),
            real_dtype: self.real_dtype(),
        }
    }
}

pub(crate) fn nodes_in_range(graph: &GraphView<'_>, nodes: &[u32]) -> Result<()> {
    match nodes.iter().find(|&&node| node as usize >= graph.node_count()) {
        None => Ok(()),
        Some(node) => Err(Error::bad_argument(format!(
            "node {node} of a graph of {}",
            graph.node_count()
        ))),
    }
}
