//! The flat graph: nodes, tensors, attributes, bodies and fusion groups as arrays.
//!
//! Invariants:
//! 1. Nodes are sorted so that every tensor is produced before it is used.
//! 2. Tensors are identified by index; `POLYCHIP_NO_INDEX` marks an omitted optional tensor.
//! 3. A graph is valid during the call that passes it; constant data live as long as the model.

use crate::sized::sized;
use crate::span::polychip_text;
use crate::tensor::polychip_tensor;

/// `data` points to `i64` values.
pub const POLYCHIP_ATTRIBUTE_TYPE_INTS: u32 = 1;
/// `data` points to `f32` values.
pub const POLYCHIP_ATTRIBUTE_TYPE_FLOATS: u32 = 2;
/// `data` points to `polychip_text` values.
pub const POLYCHIP_ATTRIBUTE_TYPE_TEXTS: u32 = 3;
/// `data` points to one `polychip_tensor` with constant data.
pub const POLYCHIP_ATTRIBUTE_TYPE_TENSOR: u32 = 4;

/// The value is a list even if `count` is 1.
pub const POLYCHIP_ATTRIBUTE_LIST: u32 = 1;

/// One attribute of a node.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_attribute {
    /// Size of this struct as its writer knows it, in bytes.
    pub struct_size: u32,
    /// `POLYCHIP_ATTRIBUTE_*` of the name, or 0 for a name outside the ONNX standard.
    pub code: u32,
    /// Name, always set.
    pub name: polychip_text,
    /// `POLYCHIP_ATTRIBUTE_TYPE_*`.
    pub value_type: u32,
    /// Bits `POLYCHIP_ATTRIBUTE_LIST`.
    pub flags: u32,
    /// The values, of type `value_type`.
    pub data: *const core::ffi::c_void,
    /// Number of values.
    pub count: u64,
}

/// A tensor of the outer graph that a body graph reads.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_capture {
    /// Tensor of the graph that contains the node.
    pub outer: u32,
    /// Tensor of the body graph that represents it: an input of the body, besides those that the op
    /// itself passes.
    pub inner: u32,
}

/// A body graph of a node (If, Loop, Scan).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_body {
    /// Size of this struct as its writer knows it, in bytes.
    pub struct_size: u32,
    /// `POLYCHIP_ATTRIBUTE_*` that held the body: body, then_branch, else_branch.
    pub attribute: u32,
    /// The body.
    pub graph: *const polychip_graph,
    /// Captured tensors.
    pub captures: *const polychip_capture,
    /// Number of captures.
    pub capture_count: u64,
}

/// One operation.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_node {
    /// Size of this struct as its writer knows it, in bytes.
    pub struct_size: u32,
    /// `POLYCHIP_OP_*`, with the meaning of ONNX opset 28; models of older opsets are converted.
    /// `POLYCHIP_OP_CUSTOM` for an op identified by domain and name only.
    pub op: u32,
    /// Domain of the op; empty for the ONNX standard.
    pub domain: polychip_text,
    /// Op type as the model wrote it.
    pub op_name: polychip_text,
    /// Name of the node, for messages only.
    pub name: polychip_text,
    /// Tensor indices; `POLYCHIP_NO_INDEX` for an omitted input. Trailing omitted inputs may be
    /// missing.
    pub inputs: *const u32,
    /// Number of inputs.
    pub input_count: u64,
    /// Tensor indices; `POLYCHIP_NO_INDEX` for an unused output.
    pub outputs: *const u32,
    /// Number of outputs.
    pub output_count: u64,
    /// Attributes, sorted by code, then by name. An omitted attribute has its default of opset 28;
    /// a present one may equal its default.
    pub attributes: *const polychip_attribute,
    /// Number of attributes.
    pub attribute_count: u64,
    /// Bytes from one attribute to the next.
    pub attribute_stride: u64,
    /// Body graphs.
    pub bodies: *const polychip_body,
    /// Number of bodies.
    pub body_count: u64,
    /// Bytes from one body to the next.
    pub body_stride: u64,
    /// The primitive ops from which the host recomposed this node, or null. The inputs and outputs
    /// of this graph are those of the node, in order, without omitted ones. A plugin that knows
    /// `op` can ignore it.
    pub decomposition: *const polychip_graph,
}

/// Convolution followed by bias, activation or residual sum.
pub const POLYCHIP_GROUP_CONV: u32 = 1;
/// Matrix product (MatMul, Gemm) followed by bias, activation or residual sum.
pub const POLYCHIP_GROUP_MATMUL: u32 = 2;
/// A chain of elementwise ops.
pub const POLYCHIP_GROUP_ELEMENTWISE: u32 = 3;
/// Residual sum followed by its normalisation.
pub const POLYCHIP_GROUP_NORMALISATION: u32 = 4;

/// Nodes that a device may compute as one. A hint, never an obligation.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_group {
    /// Size of this struct as its writer knows it, in bytes.
    pub struct_size: u32,
    /// `POLYCHIP_GROUP_*`.
    pub kind: u32,
    /// Node indices, in graph order.
    pub nodes: *const u32,
    /// Number of nodes.
    pub node_count: u64,
}

/// An input and an output that share one region of device memory between runs (such as a KV cache).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_state {
    /// Tensor read at the start of a run; one of the graph's inputs.
    pub input: u32,
    /// Tensor that holds the new value after the run; one of the graph's outputs.
    pub output: u32,
}

/// A whole graph, or a part of one.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct polychip_graph {
    /// Size of this struct as its writer knows it, in bytes.
    pub struct_size: u32,
    /// Zero.
    pub flags: u32,
    /// Name, for messages only.
    pub name: polychip_text,
    /// Nodes in execution order: each tensor is an input, a constant, or the output of one earlier
    /// node.
    pub nodes: *const polychip_node,
    /// Number of nodes.
    pub node_count: u64,
    /// Bytes from one node to the next.
    pub node_stride: u64,
    /// Tensors.
    pub tensors: *const polychip_tensor,
    /// Number of tensors.
    pub tensor_count: u64,
    /// Bytes from one tensor to the next.
    pub tensor_stride: u64,
    /// Tensors supplied from outside, in port order; none is a constant.
    pub inputs: *const u32,
    /// Number of inputs.
    pub input_count: u64,
    /// Tensors returned, in port order: outputs of nodes, inputs or constants.
    pub outputs: *const u32,
    /// Number of outputs.
    pub output_count: u64,
    /// Fusion groups; a node is in at most one.
    pub groups: *const polychip_group,
    /// Number of groups.
    pub group_count: u64,
    /// Bytes from one group to the next.
    pub group_stride: u64,
    /// In-out pairs. A plugin may treat them as ordinary inputs and outputs.
    pub states: *const polychip_state,
    /// Number of in-out pairs.
    pub state_count: u64,
    /// Hash of ops, attributes, shapes and data types; all zero if the host made none.
    pub structure_fingerprint: [u8; 32],
    /// Hash of structure and constant data; all zero if the host made none.
    pub content_fingerprint: [u8; 32],
}

sized!(
    polychip_attribute,
    polychip_body,
    polychip_node,
    polychip_group,
    polychip_graph
);
