//! Good models come in as they are; bad ones give an error that names the thing.

use bytes::Bytes;
use polychip_ops::{DType, Op};
use proptest::prelude::*;
use prost::Message;

use super::super::external::{ExternalData, NoExternalData};
use super::super::messages::{
    self, Attribute, EXTERNAL, Function, Graph, Model, OperatorSetId, StringPair, Tensor,
    attribute_type as kind,
};
use super::super::testing::{
    body, converted, f32s, float, i64s, int, model, named, node, read, reference, string, value, x,
};
use super::{Options, import};
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
    for version in [0, 2, 15, -1] {
        assert_eq!(
            message(&Model {
                ir_version: Some(version),
                ..good.clone()
            }),
            format!("the model has IR version {version}; versions 3 to 14 are read")
        );
    }
    for opset in [5, 29, -3] {
        assert_eq!(
            message(&model(opset, small())),
            format!("the model uses opset {opset}; opsets 6 to 28 are read")
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
fn constants_in_every_form() {
    let tensor = Attribute {
        name: "value".to_owned(),
        r#type: kind::TENSOR,
        t: Some(Box::new(f32s("", &[2], &[1.5, 2.5]))),
        ..Attribute::default()
    };
    let list = |name: &str, kind: i32| Attribute {
        name: name.to_owned(),
        r#type: kind,
        ..Attribute::default()
    };
    let texts = Attribute {
        strings: vec![Bytes::from("a"), Bytes::from("b")],
        ..list("value_strings", kind::STRINGS)
    };
    let sparse = Attribute {
        sparse_tensor: Some(Box::new(messages::SparseTensor {
            values: Some(f32s("s", &[1], &[7.0])),
            indices: Some(i64s("", &[1], &[1])),
            dims: vec![3],
        })),
        ..list("sparse_value", kind::SPARSE_TENSOR)
    };
    for (attribute, expected) in [
        (tensor, "f32[2] = [1.5, 2.5]"),
        (int("value_int", -3), "i64[] = [-3]"),
        (float("value_float", 0.5), "f32[] = [0.5]"),
        (
            Attribute {
                ints: vec![1, 2],
                ..list("value_ints", kind::INTS)
            },
            "i64[2] = [1, 2]",
        ),
        (
            Attribute {
                floats: vec![1.0],
                ..list("value_floats", kind::FLOATS)
            },
            "f32[1] = [1.0]",
        ),
        (string("value_string", "hi"), "string[] = [\"hi\"]"),
        (texts, "string[2] = [\"a\", \"b\"]"),
        (sparse, "f32[3] = [0.0, 7.0, 0.0]"),
        (list("value_ints", kind::INTS), "i64[0] = []"),
    ] {
        assert_eq!(
            converted(13, node("Constant", "", "y", &[attribute]), &[], &[]),
            format!("const t0 \"y\": {expected}\n")
        );
    }
    let message = error(Graph {
        node: vec![node("Constant", "", "y", &[])],
        ..small()
    })
    .1;
    assert_eq!(message, "node Constant of \"y\" has 0 attributes instead of 1");
}

#[test]
fn weights_stay_where_they_are() {
    let mut graph = small();
    graph.initializer = vec![Tensor {
        name: "w".to_owned(),
        data_type: 1,
        dims: vec![1024],
        raw_data: Some(Bytes::from(vec![3; 4096])),
        ..Tensor::default()
    }];
    graph.node = vec![node("Mul", "w w", "y", &[])];
    let owner: std::sync::Arc<[u8]> = model(13, graph).encode_to_vec().into();
    let graph = import(
        Bytes::from_owner(owner.clone()),
        &NoExternalData,
        &Options::default(),
    )
    .unwrap();
    let (_, tensor) = graph.tensors().find(|(_, tensor)| tensor.name == "w").unwrap();
    let data = tensor.data.as_ref().unwrap();
    assert!(
        owner.as_ptr_range().contains(&data.bytes.as_ptr()),
        "the weights were copied"
    );
    let file = data.file.unwrap();
    let offset = usize::try_from(file.offset).unwrap();
    assert_eq!(file.file, 0);
    assert_eq!(owner[offset..offset + 4096], data.bytes[..]);
    assert_eq!(graph.files, [""]);
}

struct Folder(Bytes);

impl ExternalData for Folder {
    fn open(&self, location: &str) -> std::io::Result<Bytes> {
        match location {
            "w.bin" => Ok(self.0.clone()),
            _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
        }
    }
}

#[test]
fn external_weights_are_slices_of_their_file() {
    let pair = |key: &str, value: &str| StringPair {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let outside = |location: &str, offset: &str| Tensor {
        name: "w".to_owned(),
        data_type: 1,
        dims: vec![2],
        data_location: EXTERNAL,
        external_data: vec![
            pair("location", location),
            pair("offset", offset),
            pair("length", "8"),
        ],
        ..Tensor::default()
    };
    let graph = |tensor: Tensor| Graph {
        node: vec![node("Mul", "w w", "y", &[])],
        initializer: vec![tensor],
        ..small()
    };
    let folder = Folder(Bytes::from_owner([7u8; 64]));
    let read = |tensor: Tensor| {
        let bytes = model(13, graph(tensor)).encode_to_vec();
        import(Bytes::from(bytes), &folder, &Options::default())
    };
    let imported = read(outside("w.bin", "16")).unwrap();
    let (_, tensor) = imported.tensors().find(|(_, tensor)| tensor.name == "w").unwrap();
    let data = tensor.data.as_ref().unwrap();
    assert_eq!(data.bytes.as_ptr().addr() - folder.0.as_ptr().addr(), 16);
    assert_eq!(imported.files, ["", "w.bin"]);
    assert_eq!(data.file.map(|file| (file.file, file.offset)), Some((1, 16)));
    for (location, offset, message) in [
        (
            "../w.bin",
            "0",
            "tensor \"w\": external data location \"../w.bin\" leaves the model's folder",
        ),
        (
            "/w.bin",
            "0",
            "tensor \"w\": external data location \"/w.bin\" is absolute",
        ),
        (
            "w.bin",
            "60",
            "tensor \"w\": external data at 60, 8 bytes, reaches beyond file \"w.bin\" of 64 bytes",
        ),
    ] {
        let error = read(outside(location, offset)).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::ExternalData, message)
        );
    }
    let error = read(outside("none.bin", "0")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("external data file \"none.bin\" cannot be opened"),
        "{error}"
    );
}

/// `twice(x) = scale(x) + scale(x)`, `scale(x) = LeakyRelu(x, alpha = slope)`.
fn with_functions() -> Model {
    let opset = |version| {
        vec![OperatorSetId {
            domain: String::new(),
            version,
        }]
    };
    let scale = Function {
        name: "scale".to_owned(),
        domain: "f".to_owned(),
        input: vec!["a".to_owned(), "unused".to_owned()],
        output: vec!["b".to_owned()],
        attribute: vec!["slope".to_owned()],
        node: vec![node(
            "LeakyRelu",
            "a",
            "b",
            &[reference("alpha", "slope", kind::FLOAT)],
        )],
        opset_import: opset(16),
        ..Function::default()
    };
    let call = |inputs: &str, output: &str| messages::Node {
        domain: "f".to_owned(),
        ..node(
            "scale",
            inputs,
            output,
            &[reference("slope", "steep", kind::FLOAT)],
        )
    };
    let twice = Function {
        name: "twice".to_owned(),
        domain: "f".to_owned(),
        input: vec!["p".to_owned()],
        output: vec!["q".to_owned()],
        attribute_proto: vec![float("steep", 0.25)],
        node: vec![call("p", "l"), call("p p", "r"), node("Add", "l r", "q", &[])],
        opset_import: [
            opset(11),
            vec![OperatorSetId {
                domain: "f".to_owned(),
                version: 1,
            }],
        ]
        .concat(),
        ..Function::default()
    };
    let main = messages::Node {
        domain: "f".to_owned(),
        name: "main".to_owned(),
        ..node_of("twice", "x", "y")
    };
    let mut model = model(
        13,
        Graph {
            node: vec![main],
            ..small()
        },
    );
    model.opset_import.push(OperatorSetId {
        domain: "f".to_owned(),
        version: 1,
    });
    model.functions = vec![scale, twice];
    model
}

#[test]
fn functions_are_inlined_with_their_attributes() {
    let graph = read(&with_functions()).unwrap();
    let text = text::print(&graph);
    let expected = "graph \"g\" {\n  input t0 \"x\": f32[2, 3, 4, 4]\n  \
        t1 \"main/l\": f32[2, 3, 4, 4] = LeakyRelu \"\"(t0) {alpha: 0.25}\n  \
        t2 \"main/r\": f32[2, 3, 4, 4] = LeakyRelu \"\"(t0) {alpha: 0.25}\n  \
        t3 \"y\": f32[2, 3, 4, 4] = Add \"\"(t1, t2)\n  output t3\n}\n";
    assert_eq!(text, expected);
    let mut steep = with_functions();
    steep.graph.as_mut().unwrap().node[0].attribute = vec![float("steep", 0.5)];
    assert_eq!(
        text::print(&read(&steep).unwrap()),
        expected.replace("0.25", "0.5")
    );
    // no default and no value: the attribute is absent
    let mut absent = with_functions();
    absent.functions[1].attribute_proto.clear();
    assert_eq!(
        text::print(&read(&absent).unwrap()),
        expected.replace(" {alpha: 0.25}", "")
    );
}

#[test]
fn functions_that_give_back_an_input_keep_the_outputs_name() {
    let mut model = with_functions();
    model.functions[1].output = vec!["p".to_owned()];
    let graph = read(&model).unwrap();
    assert_eq!(graph.tensor(graph.outputs[0]).name, "y");
    assert!(graph.nodes().any(|(_, node)| node.op == Op::Identity));
}

#[test]
fn functions_that_call_themselves_or_grow_without_end_are_refused() {
    let mut model = with_functions();
    model.functions[0].node = vec![messages::Node {
        domain: "f".to_owned(),
        ..node_of("twice", "a", "b")
    }];
    model.functions[0].opset_import.push(OperatorSetId {
        domain: "f".to_owned(),
        version: 1,
    });
    let error = read(&model).unwrap_err();
    assert_eq!(
        error.to_string(),
        "node twice of \"b\": the function \"twice\" calls itself"
    );

    // each function calls the one before it twice: 2^40 nodes
    let mut model = with_functions();
    model.functions[0].node.truncate(1);
    for level in 0..40 {
        let below = if level == 0 {
            "scale".to_owned()
        } else {
            format!("f{}", level - 1)
        };
        let call = |input: &str, output: &str| messages::Node {
            domain: "f".to_owned(),
            ..node_of(&below, input, output)
        };
        model.functions.push(Function {
            name: format!("f{level}"),
            domain: "f".to_owned(),
            input: vec!["a".to_owned()],
            output: vec!["c".to_owned()],
            node: vec![call("a", "b"), call("b", "c")],
            opset_import: vec![OperatorSetId {
                domain: "f".to_owned(),
                version: 1,
            }],
            ..Function::default()
        });
    }
    model.graph.as_mut().unwrap().node[0].op_type = "f39".to_owned();
    let options = Options {
        node_limit: 1000,
        ..Options::default()
    };
    let error = import(Bytes::from(model.encode_to_vec()), &NoExternalData, &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the model has more than 1000 nodes after functions are inlined"
    );

    let mut model = with_functions();
    model.functions.push(model.functions[0].clone());
    assert_eq!(
        read(&model).unwrap_err().to_string(),
        "function \"f.scale\" is defined twice"
    );
    let mut model = with_functions();
    model.graph.as_mut().unwrap().node[0].input.push("x".to_owned());
    assert_eq!(
        read(&model).unwrap_err().to_string(),
        "node \"main\" (twice) has 2 inputs and 1 outputs, but the function \"twice\" has 1 and 1"
    );
}

fn branch(output: &str, nodes: Vec<messages::Node>) -> Graph {
    Graph {
        name: output.to_owned(),
        node: nodes,
        output: vec![named(output)],
        ..Graph::default()
    }
}

#[test]
fn bodies_capture_what_they_read() {
    // the inner If stands in the then branch and reads `x` across both
    let inner = node(
        "If",
        "c",
        "i",
        &[
            body("else_branch", branch("x", vec![])),
            body("then_branch", branch("k", vec![node_of("Neg", "x", "k")])),
        ],
    );
    let outer = node(
        "If",
        "c",
        "y",
        &[
            body("then_branch", branch("i", vec![inner])),
            body("else_branch", branch("e", vec![node_of("Mul", "x w", "e")])),
        ],
    );
    let mut inputs = x();
    inputs.push(value("c", DType::Bool, &[]));
    let graph = Graph {
        node: vec![outer],
        input: inputs,
        initializer: vec![f32s("w", &[], &[2.0])],
        ..small()
    };
    let graph = read(&model(13, graph)).unwrap();
    let (_, node) = graph.nodes().next().unwrap();
    let names: Vec<&str> = node.bodies.iter().map(|body| body.attr.name()).collect();
    assert_eq!(names, ["then_branch", "else_branch"]);
    let captured = |index: usize| -> Vec<&str> {
        node.bodies[index]
            .captures
            .iter()
            .map(|capture| graph.tensor(capture.outer).name.as_str())
            .collect()
    };
    assert_eq!(captured(0), ["c", "x"]);
    assert_eq!(captured(1), ["x", "w"]);
    assert_eq!(graph.tensor(graph.outputs[0]).ty.to_string(), "f32[2, 3, 4, 4]");
    let missing = Graph {
        node: vec![super::super::testing::node("If", "x", "y", &[])],
        ..small()
    };
    assert_eq!(
        error(missing).1,
        "node If of \"y\" has the body graphs none, but needs then_branch, else_branch"
    );
}

#[test]
fn loops_are_inferred_over_all_turns() {
    // the state grows by one row a turn: its first size is not known
    let step = Graph {
        name: "step".to_owned(),
        input: vec![named("i"), named("keep"), named("state")],
        node: vec![
            node("Concat", "state row", "grown", &[int("axis", 0)]),
            node_of("Identity", "keep", "again"),
            node("ReduceMax", "row", "peak", &[int("keepdims", 0)]),
        ],
        output: vec![named("again"), named("grown"), named("peak")],
        ..Graph::default()
    };
    let graph = Graph {
        name: "g".to_owned(),
        node: vec![node("Loop", "count _ start", "last peaks", &[body("body", step)])],
        initializer: vec![
            i64s("count", &[], &[5]),
            f32s("start", &[1, 2], &[0.0; 2]),
            f32s("row", &[1, 2], &[1.0; 2]),
        ],
        output: vec![named("last"), named("peaks")],
        ..Graph::default()
    };
    let graph = read(&model(13, graph)).unwrap();
    let outputs: Vec<String> = graph
        .outputs
        .iter()
        .map(|&id| graph.tensor(id).ty.to_string())
        .collect();
    assert_eq!(outputs, ["f32[?, 2]", "f32[5]"]);
    let again = text::parse(&text::print_full(&graph)).unwrap();
    assert_eq!(
        crate::fingerprint::content(&again),
        crate::fingerprint::content(&graph)
    );
}

#[test]
fn scans_slice_and_stack() {
    let step = Graph {
        name: "step".to_owned(),
        input: vec![named("sum"), named("row")],
        node: vec![
            node_of("Add", "sum row", "next"),
            node_of("Identity", "next", "seen"),
        ],
        output: vec![named("next"), named("seen")],
        ..Graph::default()
    };
    let scan = node(
        "Scan",
        "zero x",
        "total y",
        &[
            body("body", step),
            int("num_scan_inputs", 1),
            super::super::testing::ints("scan_input_axes", &[1]),
            super::super::testing::ints("scan_output_axes", &[-1]),
        ],
    );
    let graph = Graph {
        node: vec![scan],
        input: vec![value("x", DType::F32, &[2, 7, 3])],
        initializer: vec![f32s("zero", &[2, 3], &[0.0; 6])],
        output: vec![named("total"), named("y")],
        ..small()
    };
    let graph = read(&model(13, graph)).unwrap();
    let outputs: Vec<String> = graph
        .outputs
        .iter()
        .map(|&id| graph.tensor(id).ty.to_string())
        .collect();
    assert_eq!(outputs, ["f32[2, 3]", "f32[2, 3, 7]"]);
}

#[test]
fn initialisers_that_are_inputs_too_are_constants() {
    let mut inputs = x();
    inputs.push(value("w", DType::F32, &[4]));
    let graph = Graph {
        node: vec![node_of("Mul", "x w", "y")],
        input: inputs,
        initializer: vec![f32s("w", &[4], &[1.0; 4])],
        ..small()
    };
    let graph = read(&model(9, graph)).unwrap();
    let names: Vec<&str> = graph
        .inputs
        .iter()
        .map(|&id| graph.tensor(id).name.as_str())
        .collect();
    assert_eq!(names, ["x"]);
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

/// A model that uses most of what the importer reads.
fn rich() -> Vec<u8> {
    let mut model = with_functions();
    let graph = model.graph.as_mut().unwrap();
    graph.initializer = vec![
        f32s("w", &[4], &[1.0, 2.0, 3.0, 4.0]),
        i64s("shape", &[2], &[6, 16]),
    ];
    graph.input.push(value("c", DType::Bool, &[]));
    graph.node.push(node_of("Mul", "y w", "z"));
    graph.node.push(node("Reshape", "z shape", "r", &[]));
    graph.node.push(node(
        "If",
        "c",
        "o",
        &[
            body("then_branch", branch("t", vec![node_of("Neg", "r", "t")])),
            body(
                "else_branch",
                branch("e", vec![node("Softmax", "r", "e", &[int("axis", 1)])]),
            ),
        ],
    ));
    graph.output = vec![value("o", DType::F32, &[6, 16])];
    model.encode_to_vec()
}

#[test]
fn every_truncation_is_an_error_or_a_model() {
    let bytes = rich();
    import(Bytes::from(bytes.clone()), &NoExternalData, &Options::default()).unwrap();
    for end in 0..bytes.len() {
        if let Ok(graph) = import(
            Bytes::copy_from_slice(&bytes[..end]),
            &NoExternalData,
            &Options::default(),
        ) {
            crate::verify(&graph).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = import(Bytes::from(bytes), &NoExternalData, &Options::default());
    }

    #[test]
    fn damaged_models_never_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = rich();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(graph) = import(Bytes::from(bytes), &NoExternalData, &Options::default()) {
            crate::verify(&graph).unwrap();
            let _ = crate::fingerprint::content(&graph);
        }
    }
}
