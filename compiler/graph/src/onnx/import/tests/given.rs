//! What a run may be given: inputs with a default, sizes of one name, unknown ranks; and what is defined or left out more than
//! once.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::Graph as Imported;

fn of(graph: Graph, ir_version: i64, options: &Options) -> Imported {
    let model = Model {
        ir_version: Some(ir_version),
        ..model(13, graph)
    };
    import(Bytes::from(model.encode_to_vec()), &NoExternalData, options).unwrap()
}

fn inputs(graph: &Imported) -> Vec<String> {
    let tensors = graph.inputs.iter().map(|&id| graph.tensor(id));
    tensors
        .map(|tensor| format!("{}: {}", tensor.name, tensor.ty))
        .collect()
}

/// `y = x * s`, in which `s` has the default 3.
fn scaled() -> Graph {
    Graph {
        node: vec![node("Mul", "x s", "y", &[])],
        input: vec![
            value("x", DType::F32, &[2]),
            value("s", DType::F32, &[-1]),
            value("unused", DType::F32, &[]),
        ],
        initializer: vec![f32s("s", &[1], &[3.0]), f32s("unused", &[], &[1.0])],
        ..small()
    }
}

#[test]
fn inputs_with_a_default_are_constants_unless_given() {
    let graph = of(scaled(), 7, &Options::default());
    assert_eq!(inputs(&graph), ["x: f32[2]"]);
    let defaults: Vec<String> = graph
        .defaults
        .iter()
        .map(|one| format!("{}: {}", one.name, one.ty))
        .collect();
    assert_eq!(defaults, ["s: f32[n]", "unused: f32[]"]);
    let given = Options {
        given: BTreeSet::from(["s".to_owned()]),
        ..Options::default()
    };
    let graph = of(scaled(), 7, &given);
    assert_eq!(inputs(&graph), ["x: f32[2]", "s: f32[n]"]);
    assert_eq!(graph.defaults.len(), 1);
    // before IR version 4 every constant was listed as an input
    assert!(of(scaled(), 3, &Options::default()).defaults.is_empty());
}

#[test]
fn sizes_of_one_name_are_told_apart_on_request() {
    let graph = || Graph {
        node: vec![node("Add", "x z", "y", &[])],
        input: vec![value("x", DType::F32, &[-1, 4]), value("z", DType::F32, &[-1, 4])],
        output: vec![value("y", DType::F32, &[-1, 4])],
        ..small()
    };
    let linked = of(graph(), 8, &Options::default());
    assert_eq!(inputs(&linked), ["x: f32[n, 4]", "z: f32[n, 4]"]);
    let mut apart = of(graph(), 8, &Options::default());
    crate::unlink_dims(&mut apart).unwrap();
    assert_eq!(inputs(&apart), ["x: f32[x.0, 4]", "z: f32[z.0, 4]"]);
    assert_eq!(apart.tensor(apart.outputs[0]).ty.to_string(), "f32[?, 4]");
}

#[test]
fn none_names_no_size() {
    for name in ["None", "?", "-1", ""] {
        let mut graph = small();
        graph.input = vec![value("x", DType::F32, &[-1, -1])];
        let Some(messages::TypeValue::Tensor(kind)) =
            graph.input[0].r#type.as_mut().and_then(|ty| ty.value.as_mut())
        else {
            panic!("a tensor");
        };
        for dim in &mut kind.shape.as_mut().unwrap().dim {
            dim.value = Some(messages::DimensionValue::Param(name.to_owned()));
        }
        assert_eq!(inputs(&of(graph, 8, &Options::default())), ["x: f32[x.0, x.1]"]);
    }
}

#[test]
fn an_undeclared_rank_is_that_of_what_is_given() {
    let mut graph = small();
    let Some(messages::TypeValue::Tensor(kind)) =
        graph.input[0].r#type.as_mut().and_then(|ty| ty.value.as_mut())
    else {
        panic!("a tensor");
    };
    kind.shape = None;
    assert_eq!(inputs(&of(graph.clone(), 8, &Options::default())), ["x: f32[..]"]);
    let options = Options {
        ranks: BTreeMap::from([("x".to_owned(), 2)]),
        ..Options::default()
    };
    let graph = of(graph, 8, &options);
    assert_eq!(inputs(&graph), ["x: f32[x.0, x.1]"]);
    assert_eq!(graph.tensor(graph.outputs[0]).ty.to_string(), "f32[x.0, x.1]");
}

#[test]
fn the_last_of_two_initialisers_with_one_name_counts() {
    let twice = |second: messages::Tensor| Graph {
        node: vec![node("Mul", "x s", "y", &[])],
        initializer: vec![f32s("s", &[], &[3.0]), second],
        ..small()
    };
    let equal = of(twice(f32s("s", &[], &[3.0])), 8, &Options::default());
    assert!(equal.warnings.is_empty());
    let other = of(twice(f32s("s", &[], &[5.0])), 8, &Options::default());
    assert!(text::print(&other).contains("\"s\": f32[] = [5.0]"));
    assert_eq!(other.warnings.len(), 1);
    assert_eq!(
        error(twice(f32s("s", &[1], &[5.0]))).1,
        "the initialiser \"s\" is defined twice, as f32[] and as f32[1]"
    );
}

#[test]
fn nodes_of_other_domains_may_leave_out_their_last_inputs() {
    let bytes = |name: &str, dtype: DType, dims: &[i64]| Tensor {
        name: name.to_owned(),
        data_type: dtype.code() as i32,
        dims: dims.to_vec(),
        raw_data: Some(Bytes::from(vec![1; dims.iter().product::<i64>() as usize])),
        ..Tensor::default()
    };
    let scale = || f32s("s", &[], &[0.5]);
    for (op, inputs, attributes, dtype) in [
        ("FusedConv", "x w", vec![string("activation", "Relu")], DType::F32),
        (
            "FusedConv",
            "x w _ _",
            vec![string("activation", "Relu")],
            DType::F32,
        ),
        ("FusedGemm", "m m", vec![string("activation", "Relu")], DType::F32),
        ("MatMulIntegerToFloat", "c c s s", vec![], DType::F32),
        ("DynamicQuantizeMatMul", "m c s", vec![], DType::F32),
        ("QLinearAdd", "c s _ c s _ s", vec![], DType::I8),
        ("QLinearSigmoid", "c s _ s", vec![], DType::I8),
        ("QLinearConcat", "s _ c s _ c s", vec![int("axis", 0)], DType::I8),
        ("QGemm", "c s _ c s _", vec![], DType::F32),
        ("SkipLayerNormalization", "m m g", vec![], DType::F32),
        ("FastGelu", "x", vec![], DType::F32),
    ] {
        let graph = Graph {
            node: vec![messages::Node {
                domain: "com.microsoft".to_owned(),
                ..node(op, inputs, "y", &attributes)
            }],
            input: vec![
                value("x", DType::F32, &[1, 3, 8, 8]),
                value("m", DType::F32, &[4, 4]),
            ],
            initializer: vec![
                f32s("w", &[2, 3, 1, 1], &[1.0; 6]),
                f32s("g", &[4], &[1.0; 4]),
                bytes("c", DType::I8, &[4, 4]),
                scale(),
            ],
            ..small()
        };
        let mut model = model(13, graph);
        model.opset_import.push(OperatorSetId {
            domain: "com.microsoft".to_owned(),
            version: 1,
        });
        let graph = read(&model).unwrap_or_else(|error| panic!("{op}: {error}"));
        let y = graph.tensor(graph.outputs[0]);
        assert!(y.typed && y.ty.dtype == dtype, "{op}: {}", y.ty);
        assert!(graph.nodes().all(|(_, node)| node.op != Op::Custom), "{op}");
    }
}

#[test]
fn an_optional_of_nothing_has_the_type_of_its_attribute() {
    let of_type = |ty: messages::Type| Attribute {
        name: "type".to_owned(),
        tp: Some(Box::new(ty)),
        r#type: kind::TYPE,
        ..Attribute::default()
    };
    let ty = value("v", DType::I64, &[2]).r#type.unwrap();
    let graph = Graph {
        node: vec![
            node("Optional", "", "o", &[of_type(ty)]),
            node("OptionalGetElement", "o", "y", &[]),
        ],
        output: vec![named("o"), named("y")],
        ..small()
    };
    let graph = of(
        Graph {
            input: Vec::new(),
            ..graph
        },
        8,
        &Options::default(),
    );
    let shown: Vec<String> = graph
        .outputs
        .iter()
        .map(|&id| graph.tensor(id))
        .map(|tensor| format!("{} {}", tensor.container.name(), tensor.ty))
        .collect();
    assert_eq!(shown, ["optional i64[2]", "tensor i64[2]"]);
}
