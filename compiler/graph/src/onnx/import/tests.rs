//! Good models come in as they are; bad ones give an error that names the thing.

mod bodies;
mod constants;
mod damage;
mod functions;
mod given;

use bytes::Bytes;
use polychip_ops::{DType, Dim, Op};
use proptest::prelude::*;
use prost::Message;

use super::super::external::{ExternalData, NoExternalData};
use super::super::messages::{
    self, Attribute, EXTERNAL, Function, Graph, Model, OperatorSetId, StringPair, Tensor,
    attribute_type as kind,
};
use super::super::testing::{
    body, converted, f32s, float, i64s, int, ints, model, named, node, read, reference, string, value, x,
};
use super::{Options, import, import_model};
use crate::{ErrorKind, text};

fn small() -> Graph {
    Graph {
        name: "g".to_owned(),
        node: vec![node("Relu", "x", "y", &[])],
        input: x(),
        output: vec![named("y")],
        ..Graph::default()
    }
}

fn error(graph: Graph) -> (ErrorKind, String) {
    let error = read(&model(13, graph)).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn messages_give_what_their_bytes_give() {
    let model = model(13, small());
    let bytes = Bytes::from(model.encode_to_vec());
    let read = import(bytes, &NoExternalData, &Options::default()).unwrap();
    let made = import_model(model, &NoExternalData, &Options::default()).unwrap();
    assert_eq!(text::print(&made), text::print(&read));
    let error = import_model(Model::default(), &NoExternalData, &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "the model has no graph");
}

#[test]
fn headers_are_checked() {
    let import =
        |bytes: Vec<u8>| import(Bytes::from(bytes), &NoExternalData, &Options::default()).unwrap_err();
    assert_eq!(import(Vec::new()).to_string(), "the model is empty");
    assert_eq!(
        import(b"PK\x03\x04 not a model".to_vec()).kind(),
        ErrorKind::Malformed
    );
    let message = |model: &Model| read(model).unwrap_err().to_string();
    let good = model(13, small());
    read(&good).unwrap();
    assert_eq!(
        message(&Model {
            graph: None,
            ..good.clone()
        }),
        "the model has no graph"
    );
    assert_eq!(
        message(&Model {
            ir_version: None,
            ..good.clone()
        }),
        "the model has no IR version"
    );
    for version in [0, 15, -1] {
        assert_eq!(
            message(&Model {
                ir_version: Some(version),
                ..good.clone()
            }),
            format!("the model has IR version {version}; versions 1 to 14 are read")
        );
    }
    for opset in [0, 29, -3] {
        assert_eq!(
            message(&model(opset, small())),
            format!("the model uses opset {opset}; opsets 1 to 28 are read")
        );
    }
    let none = Model {
        opset_import: Vec::new(),
        ..good.clone()
    };
    assert_eq!(
        message(&none),
        "node Relu of \"y\" is of domain \"\", of which the model imports no opset"
    );
    let mut two = good;
    two.opset_import.push(OperatorSetId {
        domain: "ai.onnx".to_owned(),
        version: 14,
    });
    assert_eq!(
        message(&two),
        "the model imports opset 13 and opset 14 of domain \"\""
    );
}

#[test]
fn names_are_resolved_or_named() {
    let graph = Graph {
        node: vec![node("Relu", "z", "y", &[])],
        ..small()
    };
    assert_eq!(
        error(graph),
        (
            ErrorKind::Malformed,
            "node Relu of \"y\" reads \"z\", which nothing defines".to_owned()
        )
    );
    let graph = Graph {
        output: vec![named("q")],
        ..small()
    };
    assert_eq!(error(graph).1, "output \"q\" is made by no node");
    let twice = vec![node("Relu", "x", "y", &[]), node("Abs", "x", "y", &[])];
    assert_eq!(
        error(Graph {
            node: twice,
            ..small()
        })
        .1,
        "the name \"y\" is defined twice"
    );
    let over = vec![node("Relu", "x", "x", &[])];
    assert_eq!(
        error(Graph {
            node: over,
            ..small()
        })
        .0,
        ErrorKind::Cycle
    );
    let mut inputs = x();
    inputs.extend(x());
    assert_eq!(
        error(Graph {
            input: inputs,
            ..small()
        })
        .1,
        "the name \"x\" is defined twice"
    );
    let circle = vec![
        node("Add", "x c", "a", &[]),
        node("Neg", "a", "b", &[]),
        node("Abs", "b", "c", &[]),
        node("Relu", "c", "y", &[]),
    ];
    assert_eq!(
        error(Graph {
            node: circle,
            ..small()
        }),
        (
            ErrorKind::Cycle,
            "nodes depend on each other in a circle: node Neg of \"b\", node Abs of \"c\", node Add of \"a\""
                .to_owned()
        )
    );
}

#[test]
fn nodes_out_of_order_are_put_in_order() {
    let graph = Graph {
        node: vec![node("Neg", "a", "y", &[]), node("Abs", "x", "a", &[])],
        ..small()
    };
    let graph = read(&model(13, graph)).unwrap();
    let ops: Vec<Op> = graph.nodes().map(|(_, node)| node.op).collect();
    assert_eq!(ops, [Op::Abs, Op::Neg]);
    assert_eq!(graph.tensor(graph.outputs[0]).ty.to_string(), "f32[2, 3, 4, 4]");
}

#[test]
fn unknown_ops_are_custom() {
    let mut graph = small();
    graph.node = vec![node(
        "Mystery",
        "x _ x",
        "y",
        &[float("alpha", 0.5), int("depth", 3)],
    )];
    let mut message = model(13, graph);
    message.graph.as_mut().unwrap().node[0].domain = "com.example".to_owned();
    message.opset_import.push(OperatorSetId {
        domain: "com.example".to_owned(),
        version: 1,
    });
    let graph = read(&message).unwrap();
    let (_, node) = graph.nodes().next().unwrap();
    assert_eq!(
        (node.op, node.label().as_str()),
        (Op::Custom, "com.example.Mystery")
    );
    assert_eq!(node.inputs[1], None);
    assert!(!graph.tensor(graph.outputs[0]).typed);
    // of the default domain too, and an absent domain is an error
    let graph = Graph {
        node: vec![node_of("Nope", "x", "y")],
        ..small()
    };
    assert_eq!(
        read(&model(13, graph)).unwrap().nodes().next().unwrap().1.op,
        Op::Custom
    );
    message.opset_import.pop();
    assert_eq!(
        read(&message).unwrap_err().to_string(),
        "node Mystery of \"y\" is of domain \"com.example\", of which the model imports no opset"
    );
}

fn node_of(op: &str, inputs: &str, outputs: &str) -> messages::Node {
    node(op, inputs, outputs, &[])
}

#[test]
fn rules_of_ops_are_checked_with_the_node_named() {
    let graph = Graph {
        node: vec![messages::Node {
            name: "sum".to_owned(),
            ..node_of("Add", "x w", "y")
        }],
        initializer: vec![f32s("w", &[5], &[0.0; 5])],
        ..small()
    };
    let (kind, message) = error(graph);
    assert_eq!(kind, ErrorKind::Inference);
    assert!(message.starts_with("node \"sum\" (Add): "), "{message}");
    let declared = Graph {
        output: vec![value("y", DType::I32, &[2, 3, 4, 4])],
        ..small()
    };
    assert_eq!(
        error(declared).1,
        "node Relu of \"y\": output \"y\" is declared as i32, but is f32"
    );
}

#[test]
fn ops_of_onnx_runtimes_domain_that_onnx_has_are_those() {
    let microsoft = |op: &str, inputs: &str, output: &str| messages::Node {
        domain: "com.microsoft".to_owned(),
        ..node_of(op, inputs, output)
    };
    let scalar = |name: &str, dtype: DType, value: i32| messages::Tensor {
        name: name.to_owned(),
        data_type: dtype.code() as i32,
        int32_data: vec![value],
        ..messages::Tensor::default()
    };
    let graph = Graph {
        node: vec![
            microsoft("QuantizeLinear", "x s z", "q"),
            microsoft("DequantizeLinear", "q s z", "d"),
            microsoft("Gelu", "d", "g"),
            // of the same name, but another op
            microsoft("Attention", "g", "y"),
        ],
        initializer: vec![f32s("s", &[], &[0.5]), scalar("z", DType::U16, 7)],
        ..small()
    };
    // as old as they come: the domain has a version of its own
    let mut model = model(13, graph);
    model.opset_import.push(OperatorSetId {
        domain: "com.microsoft".to_owned(),
        version: 1,
    });
    let graph = read(&model).unwrap();
    let ops: Vec<Op> = graph.nodes().map(|(_, node)| node.op).collect();
    assert_eq!(
        ops,
        [Op::QuantizeLinear, Op::DequantizeLinear, Op::Gelu, Op::Custom]
    );
    let q = graph.tensors().find(|(_, tensor)| tensor.name == "q").unwrap().1;
    assert_eq!(q.ty.to_string(), "u16[2, 3, 4, 4]");
}

#[test]
fn named_sizes_come_from_inputs_only() {
    let graph = Graph {
        input: vec![value("x", DType::F32, &[-1, 4])],
        output: vec![value("y", DType::F32, &[-1, 4])],
        ..small()
    };
    let graph = read(&model(13, graph)).unwrap();
    assert_eq!(graph.tensor(graph.outputs[0]).ty.to_string(), "f32[n, 4]");
    let custom = Graph {
        node: vec![node_of("Nope", "x", "y")],
        output: vec![value("y", DType::F32, &[-1, 4])],
        ..small()
    };
    let graph = read(&model(13, custom)).unwrap();
    assert_eq!(graph.tensor(graph.outputs[0]).ty.to_string(), "f32[?, 4]");
}

#[test]
fn open_sizes_without_a_name_are_named_by_input_and_axis() {
    let mut graph = small();
    // `value` gives -1 a name
    graph.input = vec![value("x", DType::F32, &[-2, 3, -2])];
    let graph = read(&model(13, graph)).unwrap();
    let sizes = [Dim::symbol("x.0"), Dim::Known(3), Dim::symbol("x.2")];
    for tensor in [graph.inputs[0], graph.outputs[0]] {
        assert_eq!(graph.tensor(tensor).ty.shape.as_deref(), Some(&sizes[..]));
    }
}
