//! Model-local functions are inlined.

use super::*;

/// `twice(x) = scale(x) + scale(x)`, `scale(x) = LeakyRelu(x, alpha = slope)`.
pub(super) fn with_functions() -> Model {
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

#[test]
fn depth_and_names_of_calls_are_bounded() {
    let chain = |length: usize| {
        let mut model = with_functions();
        model.functions[0].node.truncate(1);
        for level in 0..length {
            let below = if level == 0 {
                "scale".to_owned()
            } else {
                format!("f{}", level - 1)
            };
            let mut call = node_of(&below, "a", "c");
            call.domain = "f".to_owned();
            call.name = "long name ".repeat(1000);
            model.functions.push(Function {
                name: format!("f{level}"),
                domain: "f".to_owned(),
                input: vec!["a".to_owned()],
                output: vec!["c".to_owned()],
                node: vec![call],
                opset_import: vec![OperatorSetId {
                    domain: "f".to_owned(),
                    version: 1,
                }],
                ..Function::default()
            });
        }
        model.graph.as_mut().unwrap().node[0].op_type = format!("f{}", length - 1);
        read(&model)
    };
    let graph = chain(40).unwrap();
    let longest = graph.nodes().map(|(_, node)| node.name.len()).max();
    assert!(longest.is_some_and(|longest| longest < 1000), "{longest:?}");
    let error = chain(20_000).unwrap_err().to_string();
    assert!(
        error.ends_with("functions call each other more than 64 deep"),
        "{}",
        &error[error.len() - 200..]
    );
}
