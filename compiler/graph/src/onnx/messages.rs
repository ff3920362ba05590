//! The protobuf messages of ONNX, with the fields that we read: what a file decodes to, or what a caller that holds a model
//! in its own structures fills in ([`import_model`](super::import_model)).
//!
//! Invariants:
//! 1. Field numbers are those of the ONNX standard; a field that is not listed is skipped.
//! 2. Fields of bytes are slices of the buffer that is decoded, not copies.
//!
//! Not here: meaning. Required fields may be missing, numbers may lie.

use bytes::Bytes;
use prost::Message as _;

use crate::Error;

impl Model {
    /// Encodes the model, with its constants, as the bytes of a file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Decodes a file. Fields of bytes share its memory.
    ///
    /// # Errors
    /// The bytes are not an ONNX model in protobuf.
    pub fn from_bytes(bytes: Bytes) -> Result<Model, Error> {
        Model::decode(bytes).map_err(Error::wire)
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Model {
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    #[prost(string, tag = "2")]
    pub producer_name: String,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetId>,
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<Function>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct OperatorSetId {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Function {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// Names of attributes that have no default.
    #[prost(string, repeated, tag = "6")]
    pub attribute: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<Node>,
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetId>,
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Attributes with their defaults.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<Attribute>,
    #[prost(string, tag = "13")]
    pub overload: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<Node>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensor>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Node {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<Attribute>,
    #[prost(string, tag = "7")]
    pub domain: String,
    #[prost(string, tag = "8")]
    pub overload: String,
}

impl Node {
    /// Description of the node for error messages: its name or, without one, its first output.
    pub fn what(&self) -> String {
        if !self.name.is_empty() {
            return format!("node \"{}\" ({})", self.name, self.op_type);
        }
        let output = self.output.iter().find(|name| !name.is_empty());
        format!(
            "node {} of \"{}\"",
            self.op_type,
            output.map_or("", String::as_str)
        )
    }
}

/// Kinds of attribute: the values of `Attribute::r#type`.
pub mod attribute_type {
    pub const UNDEFINED: i32 = 0;
    pub const FLOAT: i32 = 1;
    pub const INT: i32 = 2;
    pub const STRING: i32 = 3;
    pub const TENSOR: i32 = 4;
    pub const GRAPH: i32 = 5;
    pub const FLOATS: i32 = 6;
    pub const INTS: i32 = 7;
    pub const STRINGS: i32 = 8;
    pub const SPARSE_TENSOR: i32 = 11;
    pub const TYPE: i32 = 13;
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub s: Option<Bytes>,
    #[prost(message, optional, boxed, tag = "5")]
    pub t: Option<Box<Tensor>>,
    #[prost(message, optional, boxed, tag = "6")]
    pub g: Option<Box<Graph>>,
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub strings: Vec<Bytes>,
    #[prost(message, optional, boxed, tag = "14")]
    pub tp: Option<Box<Type>>,
    #[prost(int32, tag = "20")]
    pub r#type: i32,
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
    #[prost(message, optional, boxed, tag = "22")]
    pub sparse_tensor: Option<Box<SparseTensor>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<Type>,
}

/// `Tensor::data_location` of a tensor whose elements are in another file.
pub const EXTERNAL: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
pub struct Tensor {
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(message, optional, tag = "3")]
    pub segment: Option<Segment>,
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub string_data: Vec<Bytes>,
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub name: String,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub raw_data: Option<Bytes>,
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringPair>,
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// ONNX `SequenceProto`: a list of tensors, as in the data sets of the ONNX test suite.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Sequence {
    /// Kind of the elements; 1 for tensors.
    #[prost(int32, tag = "2")]
    pub elem_type: i32,
    #[prost(message, repeated, tag = "3")]
    pub tensor_values: Vec<Tensor>,
}

/// ONNX `OptionalProto`: a tensor, a sequence or nothing, as in the data sets of the ONNX test suite.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Optional {
    /// Kind of the value: 0 for nothing, 1 for a tensor, 3 for a sequence.
    #[prost(int32, tag = "2")]
    pub elem_type: i32,
    #[prost(message, optional, tag = "3")]
    pub tensor_value: Option<Tensor>,
    #[prost(message, optional, tag = "5")]
    pub sequence_value: Option<Sequence>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Segment {
    #[prost(int64, tag = "1")]
    pub begin: i64,
    #[prost(int64, tag = "2")]
    pub end: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct StringPair {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SparseTensor {
    #[prost(message, optional, tag = "1")]
    pub values: Option<Tensor>,
    #[prost(message, optional, tag = "2")]
    pub indices: Option<Tensor>,
    #[prost(int64, repeated, tag = "3")]
    pub dims: Vec<i64>,
}

/// ONNX `TypeProto`: the type of a value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Type {
    #[prost(oneof = "TypeValue", tags = "1, 4, 5, 7, 8, 9")]
    pub value: Option<TypeValue>,
}

/// The kinds of type in a [`Type`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum TypeValue {
    #[prost(message, tag = "1")]
    Tensor(TensorKind),
    #[prost(message, tag = "4")]
    Sequence(Box<ElementKind>),
    #[prost(message, tag = "5")]
    Map(Unread),
    #[prost(message, tag = "7")]
    Opaque(Unread),
    #[prost(message, tag = "8")]
    SparseTensor(TensorKind),
    #[prost(message, tag = "9")]
    Optional(Box<ElementKind>),
}

/// ONNX `TypeProto.Tensor`: element type and shape of a tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorKind {
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
}

/// The element of a sequence or optional.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ElementKind {
    #[prost(message, optional, boxed, tag = "1")]
    pub elem_type: Option<Box<Type>>,
}

/// A message whose content is skipped; only its presence is recorded.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Unread {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Dimension {
    #[prost(oneof = "DimensionValue", tags = "1, 2")]
    pub value: Option<DimensionValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum DimensionValue {
    #[prost(int64, tag = "1")]
    Value(i64),
    #[prost(string, tag = "2")]
    Param(String),
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prost::Message;

    use super::*;

    #[test]
    fn raw_data_is_a_slice_of_the_owner() {
        let tensor = Tensor {
            raw_data: Some(Bytes::from(vec![7; 4096])),
            dims: vec![4096],
            ..Tensor::default()
        };
        let attribute = Attribute {
            t: Some(Box::new(tensor.clone())),
            ..Attribute::default()
        };
        let graph = Graph {
            initializer: vec![tensor],
            node: vec![Node {
                attribute: vec![attribute],
                ..Node::default()
            }],
            ..Graph::default()
        };
        let model = Model {
            graph: Some(graph),
            ..Model::default()
        };
        let owner: Arc<[u8]> = model.to_bytes().into();
        let range = owner.as_ptr_range();
        let decoded = Model::from_bytes(Bytes::from_owner(owner.clone())).unwrap();
        assert_eq!(decoded, model);
        let graph = decoded.graph.unwrap();
        let inner = graph.node[0].attribute[0].t.as_ref().unwrap();
        for raw in [&graph.initializer[0].raw_data, &inner.raw_data] {
            let raw = raw.as_ref().unwrap();
            assert_eq!(raw.len(), 4096);
            assert!(range.contains(&raw.as_ptr()), "raw data was copied");
        }
    }

    #[test]
    fn lengths_that_lie_are_errors() {
        // field 7 (graph), length-delimited, claims 2^40 bytes
        let bytes = [0x3a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0x00];
        assert!(Model::decode(&bytes[..]).is_err());
        // a tensor whose packed floats claim more than is there
        let bytes = [0x22, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
        assert!(Tensor::decode(&bytes[..]).is_err());
    }
}
