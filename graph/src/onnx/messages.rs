//! The protobuf messages of ONNX, with the fields that we read.
//!
//! Invariants:
//! 1. Field numbers are those of the ONNX standard; a field that is not listed is skipped.
//! 2. Fields of bytes are slices of the buffer that is decoded, not copies.
//!
//! Not here: meaning. Required fields may be missing, numbers may lie.

use bytes::Bytes;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Model {
    #[prost(int64, optional, tag = "1")]
    pub(crate) ir_version: Option<i64>,
    #[prost(string, tag = "2")]
    pub(crate) producer_name: String,
    #[prost(message, optional, tag = "7")]
    pub(crate) graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) opset_import: Vec<OperatorSetId>,
    #[prost(message, repeated, tag = "25")]
    pub(crate) functions: Vec<Function>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OperatorSetId {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(int64, tag = "2")]
    pub(crate) version: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Function {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, repeated, tag = "4")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) output: Vec<String>,
    /// Names of attributes that have no default.
    #[prost(string, repeated, tag = "6")]
    pub(crate) attribute: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) node: Vec<Node>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) opset_import: Vec<OperatorSetId>,
    #[prost(string, tag = "10")]
    pub(crate) domain: String,
    /// Attributes with their defaults.
    #[prost(message, repeated, tag = "11")]
    pub(crate) attribute_proto: Vec<Attribute>,
    #[prost(string, tag = "13")]
    pub(crate) overload: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<Node>,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) output: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) value_info: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "15")]
    pub(crate) sparse_initializer: Vec<SparseTensor>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Node {
    #[prost(string, repeated, tag = "1")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attribute: Vec<Attribute>,
    #[prost(string, tag = "7")]
    pub(crate) domain: String,
    #[prost(string, tag = "8")]
    pub(crate) overload: String,
}

impl Node {
    /// What messages call the node.
    pub(crate) fn what(&self) -> String {
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

/// Kinds of attribute, as `Attribute::r#type` says them.
pub(crate) mod attribute_type {
    pub(crate) const UNDEFINED: i32 = 0;
    pub(crate) const FLOAT: i32 = 1;
    pub(crate) const INT: i32 = 2;
    pub(crate) const STRING: i32 = 3;
    pub(crate) const TENSOR: i32 = 4;
    pub(crate) const GRAPH: i32 = 5;
    pub(crate) const FLOATS: i32 = 6;
    pub(crate) const INTS: i32 = 7;
    pub(crate) const STRINGS: i32 = 8;
    pub(crate) const SPARSE_TENSOR: i32 = 11;
    pub(crate) const TYPE: i32 = 13;
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(float, optional, tag = "2")]
    pub(crate) f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) i: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(crate) s: Option<Bytes>,
    #[prost(message, optional, boxed, tag = "5")]
    pub(crate) t: Option<Box<Tensor>>,
    #[prost(message, optional, boxed, tag = "6")]
    pub(crate) g: Option<Box<Graph>>,
    #[prost(float, repeated, tag = "7")]
    pub(crate) floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub(crate) ints: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub(crate) strings: Vec<Bytes>,
    #[prost(message, optional, boxed, tag = "14")]
    pub(crate) tp: Option<Box<Type>>,
    #[prost(int32, tag = "20")]
    pub(crate) r#type: i32,
    #[prost(string, tag = "21")]
    pub(crate) ref_attr_name: String,
    #[prost(message, optional, boxed, tag = "22")]
    pub(crate) sparse_tensor: Option<Box<SparseTensor>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ValueInfo {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) r#type: Option<Type>,
}

/// `Tensor::data_location` of a tensor whose elements stand in another file.
pub(crate) const EXTERNAL: i32 = 1;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Tensor {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(crate) data_type: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) segment: Option<Segment>,
    #[prost(float, repeated, tag = "4")]
    pub(crate) float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub(crate) int32_data: Vec<i32>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub(crate) string_data: Vec<Bytes>,
    #[prost(int64, repeated, tag = "7")]
    pub(crate) int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub(crate) name: String,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub(crate) raw_data: Option<Bytes>,
    #[prost(double, repeated, tag = "10")]
    pub(crate) double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub(crate) uint64_data: Vec<u64>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) external_data: Vec<StringPair>,
    #[prost(int32, tag = "14")]
    pub(crate) data_location: i32,
}

/// Tensors in a row, as the data sets of the ONNX test suite hold them.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Sequence {
    /// 1: tensors.
    #[prost(int32, tag = "2")]
    pub(crate) elem_type: i32,
    #[prost(message, repeated, tag = "3")]
    pub(crate) tensor_values: Vec<Tensor>,
}

/// A tensor, a sequence, or nothing, likewise.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Optional {
    /// 0: nothing, 1: a tensor, 3: a sequence.
    #[prost(int32, tag = "2")]
    pub(crate) elem_type: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) tensor_value: Option<Tensor>,
    #[prost(message, optional, tag = "5")]
    pub(crate) sequence_value: Option<Sequence>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Segment {
    #[prost(int64, tag = "1")]
    pub(crate) begin: i64,
    #[prost(int64, tag = "2")]
    pub(crate) end: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StringPair {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SparseTensor {
    #[prost(message, optional, tag = "1")]
    pub(crate) values: Option<Tensor>,
    #[prost(message, optional, tag = "2")]
    pub(crate) indices: Option<Tensor>,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) dims: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Type {
    #[prost(oneof = "TypeValue", tags = "1, 4, 5, 7, 8, 9")]
    pub(crate) value: Option<TypeValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum TypeValue {
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

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TensorKind {
    #[prost(int32, tag = "1")]
    pub(crate) elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<Shape>,
}

/// The element of a sequence or optional.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ElementKind {
    #[prost(message, optional, boxed, tag = "1")]
    pub(crate) elem_type: Option<Box<Type>>,
}

/// A message of which only the presence matters.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Unread {}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub(crate) dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Dimension {
    #[prost(oneof = "DimensionValue", tags = "1, 2")]
    pub(crate) value: Option<DimensionValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum DimensionValue {
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
        let owner: Arc<[u8]> = model.encode_to_vec().into();
        let range = owner.as_ptr_range();
        let decoded = Model::decode(Bytes::from_owner(owner.clone())).unwrap();
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
