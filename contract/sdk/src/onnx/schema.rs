//! Field numbers and constants of ONNX's messages.

/// Field numbers of ONNX's messages.
pub(super) mod field {
    pub(in super::super) const MODEL_IR_VERSION: u32 = 1;
    pub(in super::super) const MODEL_PRODUCER: u32 = 2;
    pub(in super::super) const MODEL_GRAPH: u32 = 7;
    pub(in super::super) const MODEL_OPSET: u32 = 8;
    pub(in super::super) const OPSET_DOMAIN: u32 = 1;
    pub(in super::super) const OPSET_VERSION: u32 = 2;
    pub(in super::super) const GRAPH_NODE: u32 = 1;
    pub(in super::super) const GRAPH_NAME: u32 = 2;
    pub(in super::super) const GRAPH_INITIALIZER: u32 = 5;
    pub(in super::super) const GRAPH_INPUT: u32 = 11;
    pub(in super::super) const GRAPH_OUTPUT: u32 = 12;
    pub(in super::super) const NODE_INPUT: u32 = 1;
    pub(in super::super) const NODE_OUTPUT: u32 = 2;
    pub(in super::super) const NODE_NAME: u32 = 3;
    pub(in super::super) const NODE_OP: u32 = 4;
    pub(in super::super) const NODE_ATTRIBUTE: u32 = 5;
    pub(in super::super) const NODE_DOMAIN: u32 = 7;
    pub(in super::super) const ATTRIBUTE_NAME: u32 = 1;
    pub(in super::super) const ATTRIBUTE_FLOAT: u32 = 2;
    pub(in super::super) const ATTRIBUTE_INT: u32 = 3;
    pub(in super::super) const ATTRIBUTE_TEXT: u32 = 4;
    pub(in super::super) const ATTRIBUTE_TENSOR: u32 = 5;
    pub(in super::super) const ATTRIBUTE_GRAPH: u32 = 6;
    pub(in super::super) const ATTRIBUTE_FLOATS: u32 = 7;
    pub(in super::super) const ATTRIBUTE_INTS: u32 = 8;
    pub(in super::super) const ATTRIBUTE_TEXTS: u32 = 9;
    pub(in super::super) const ATTRIBUTE_TYPE: u32 = 20;
    pub(in super::super) const VALUE_NAME: u32 = 1;
    pub(in super::super) const VALUE_TYPE: u32 = 2;
    pub(in super::super) const TYPE_TENSOR: u32 = 1;
    pub(in super::super) const TENSOR_TYPE_ELEMENT: u32 = 1;
    pub(in super::super) const TENSOR_TYPE_SHAPE: u32 = 2;
    pub(in super::super) const SHAPE_DIM: u32 = 1;
    pub(in super::super) const DIM_VALUE: u32 = 1;
    pub(in super::super) const TENSOR_DIMS: u32 = 1;
    pub(in super::super) const TENSOR_ELEMENT: u32 = 2;
    pub(in super::super) const TENSOR_NAME: u32 = 8;
    pub(in super::super) const TENSOR_RAW: u32 = 9;
    pub(in super::super) const TENSOR_EXTERNAL: u32 = 13;
    pub(in super::super) const TENSOR_LOCATION: u32 = 14;
    pub(in super::super) const PAIR_KEY: u32 = 1;
    pub(in super::super) const PAIR_VALUE: u32 = 2;
}

/// Kinds of attribute: the values of `AttributeType`.
pub(super) mod kind {
    pub(in super::super) const FLOAT: i64 = 1;
    pub(in super::super) const INT: i64 = 2;
    pub(in super::super) const TEXT: i64 = 3;
    pub(in super::super) const TENSOR: i64 = 4;
    pub(in super::super) const GRAPH: i64 = 5;
    pub(in super::super) const FLOATS: i64 = 6;
    pub(in super::super) const INTS: i64 = 7;
    pub(in super::super) const TEXTS: i64 = 8;
}

/// `DataLocation` of a tensor whose elements are not in the model.
pub(super) const EXTERNAL: i64 = 1;
/// Location for which readers take the offset as an address in this process.
pub(super) const ADDRESS: &str = "*/_ORT_MEM_ADDR_/*";
