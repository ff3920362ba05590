//! Small models for the tests of the importer, built message by message.

use bytes::Bytes;
use polychip_ops::DType;
use prost::Message;

use super::external::NoExternalData;
use super::import::import;
use super::messages::{
    Attribute, Dimension, DimensionValue, Graph, Model, Node, OperatorSetId, Shape, Tensor, TensorKind, Type,
    TypeValue, ValueInfo, attribute_type as kind,
};
use super::options::Options;
use crate::{Error, text};

/// A declared tensor; a size of −1 is named `n`.
pub(super) fn value(name: &str, dtype: DType, dims: &[i64]) -> ValueInfo {
    let dim = |&size: &i64| {
        let value = if size == -1 {
            DimensionValue::Param("n".to_owned())
        } else {
            DimensionValue::Value(size)
        };
        Dimension { value: Some(value) }
    };
    let shape = Shape {
        dim: dims.iter().map(dim).collect(),
    };
    let kind = TensorKind {
        elem_type: dtype.code() as i32,
        shape: Some(shape),
    };
    ValueInfo {
        name: name.to_owned(),
        r#type: Some(Type {
            value: Some(TypeValue::Tensor(kind)),
        }),
    }
}

/// A value of which only the name is declared.
pub(super) fn named(name: &str) -> ValueInfo {
    ValueInfo {
        name: name.to_owned(),
        r#type: None,
    }
}

pub(super) fn f32s(name: &str, dims: &[i64], values: &[f32]) -> Tensor {
    Tensor {
        name: name.to_owned(),
        data_type: DType::F32.code() as i32,
        dims: dims.to_vec(),
        float_data: values.to_vec(),
        ..Tensor::default()
    }
}

pub(super) fn i64s(name: &str, dims: &[i64], values: &[i64]) -> Tensor {
    Tensor {
        name: name.to_owned(),
        data_type: DType::I64.code() as i32,
        dims: dims.to_vec(),
        int64_data: values.to_vec(),
        ..Tensor::default()
    }
}

pub(super) fn int(name: &str, value: i64) -> Attribute {
    Attribute {
        name: name.to_owned(),
        r#type: kind::INT,
        i: Some(value),
        ..Attribute::default()
    }
}

pub(super) fn ints(name: &str, values: &[i64]) -> Attribute {
    Attribute {
        name: name.to_owned(),
        r#type: kind::INTS,
        ints: values.to_vec(),
        ..Attribute::default()
    }
}

pub(super) fn float(name: &str, value: f32) -> Attribute {
    Attribute {
        name: name.to_owned(),
        r#type: kind::FLOAT,
        f: Some(value),
        ..Attribute::default()
    }
}

pub(super) fn floats(name: &str, values: &[f32]) -> Attribute {
    Attribute {
        name: name.to_owned(),
        r#type: kind::FLOATS,
        floats: values.to_vec(),
        ..Attribute::default()
    }
}

pub(super) fn string(name: &str, value: &str) -> Attribute {
    Attribute {
        name: name.to_owned(),
        r#type: kind::STRING,
        s: Some(Bytes::copy_from_slice(value.as_bytes())),
        ..Attribute::default()
    }
}

pub(super) fn body(name: &str, graph: Graph) -> Attribute {
    Attribute {
        name: name.to_owned(),
        r#type: kind::GRAPH,
        g: Some(Box::new(graph)),
        ..Attribute::default()
    }
}

/// An attribute of a function body that takes the caller's.
pub(super) fn reference(name: &str, to: &str, kind: i32) -> Attribute {
    Attribute {
        name: name.to_owned(),
        r#type: kind,
        ref_attr_name: to.to_owned(),
        ..Attribute::default()
    }
}

/// A node; names in one text, separated by spaces, `_` for one left out.
pub(super) fn node(op: &str, inputs: &str, outputs: &str, attributes: &[Attribute]) -> Node {
    let names = |text: &str| {
        text.split_whitespace()
            .map(|name| {
                if name == "_" {
                    String::new()
                } else {
                    name.to_owned()
                }
            })
            .collect()
    };
    Node {
        op_type: op.to_owned(),
        input: names(inputs),
        output: names(outputs),
        attribute: attributes.to_vec(),
        ..Node::default()
    }
}

/// A model of one graph.
pub(super) fn model(opset: i64, graph: Graph) -> Model {
    Model {
        ir_version: Some(8),
        graph: Some(graph),
        opset_import: vec![OperatorSetId {
            domain: String::new(),
            version: opset,
        }],
        ..Model::default()
    }
}

/// Imports a model from its own bytes.
pub(super) fn read(model: &Model) -> Result<crate::Graph, Error> {
    import(
        Bytes::from(model.encode_to_vec()),
        &NoExternalData,
        &Options::default(),
    )
}

/// The text of one node's conversion from `x` (`f32[2, 3, 4, 4]` unless given) and initialisers to
/// outputs `y` (and others named), without the lines of the frame.
pub(super) fn converted(opset: i64, node: Node, inputs: &[ValueInfo], constants: &[Tensor]) -> String {
    let outputs = node
        .output
        .iter()
        .filter(|name| !name.is_empty())
        .map(|name| named(name))
        .collect();
    let graph = Graph {
        name: "g".to_owned(),
        node: vec![node],
        input: inputs.to_vec(),
        initializer: constants.to_vec(),
        output: outputs,
        ..Graph::default()
    };
    let graph = read(&model(opset, graph)).unwrap();
    let text = text::print(&graph);
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("graph") && *line != "}" && !line.starts_with("  output"));
    lines.map(|line| format!("{}\n", line.trim_start())).collect()
}

/// The one data input of most conversions.
pub(super) fn x() -> Vec<ValueInfo> {
    vec![value("x", DType::F32, &[2, 3, 4, 4])]
}
