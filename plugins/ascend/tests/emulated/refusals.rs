//! What is refused, with its reason, and what is said where something is missing.

use polychip_abi as abi;
use polychip_graph::{Graph, Node};
use polychip_host::{CompileOptions, FlatGraph, Host};
use polychip_ops::{Attr, AttrValue, DType, Op};
use polychip_parts::{reason, relu_of_sum, tensor};

use crate::board::Board;

#[test]
fn each_refusal_has_its_reason() {
    let board = Board::new();
    let device = board.device(&[]);
    for (op, dtype, shape, code) in [
        (Op::Add, DType::F32, &[2usize, 3][..], 0),
        (Op::Add, DType::F32, &[1, 1, 1, 1, 1, 1, 1, 2], 0),
        (Op::Mod, DType::F32, &[2, 3], abi::POLYCHIP_SUPPORT_OP),
        (Op::Add, DType::I32, &[2, 3], abi::POLYCHIP_SUPPORT_DTYPE),
        (Op::Add, DType::F32, &[2, 0], abi::POLYCHIP_SUPPORT_SHAPE),
        (
            Op::Add,
            DType::F32,
            &[1, 1, 1, 1, 1, 1, 1, 1, 2],
            abi::POLYCHIP_SUPPORT_RANK,
        ),
        (Op::PRelu, DType::F32, &[3], abi::POLYCHIP_SUPPORT_NOT_CONSTANT),
    ] {
        assert_eq!(
            reason(&device, op, dtype, [shape, shape]),
            code,
            "{op:?} {dtype:?} {shape:?}"
        );
    }
}

/// An attribute that the compiler's opset has not, even at its default.
#[test]
fn ops_beyond_opset_18_are_refused() {
    let board = Board::new();
    let device = board.device(&[]);
    let mut graph = Graph::new("pool");
    let x = tensor(&mut graph, "x", DType::F32, &[1, 1, 4, 4]);
    let y = tensor(&mut graph, "y", DType::F32, &[1, 1, 3, 3]);
    let pool = graph.add_node(Node::new(Op::AveragePool, vec![Some(x)], vec![Some(y)]));
    (graph.inputs, graph.outputs) = (vec![x], vec![y]);
    let set = |graph: &mut Graph, attr| graph.attributes_mut(pool).set(attr, AttrValue::Ints(vec![2, 2]));
    set(&mut graph, Attr::KernelShape);
    let answer = |graph: &Graph| {
        device
            .query_support(&FlatGraph::new(graph, &[]).unwrap())
            .unwrap()[0]
            .clone()
    };
    assert_eq!(answer(&graph).reason, 0, "{}", answer(&graph).detail);
    graph
        .attributes_mut(pool)
        .set(Attr::Dilations, AttrValue::Ints(vec![1, 1]));
    assert_eq!(answer(&graph).reason, abi::POLYCHIP_SUPPORT_ATTRIBUTE);
    assert!(
        answer(&graph).detail.contains("opset 18"),
        "{}",
        answer(&graph).detail
    );
}

/// f32 stays f32 unless somebody says otherwise.
#[test]
fn sixteen_bits_are_computed_only_where_that_is_allowed() {
    let board = Board::new();
    let device = board.device(&[("precision", "exact")]);
    let graph = relu_of_sum();
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let answer = device.query_support(&flat).unwrap()[0].clone();
    assert_eq!(answer.reason, abi::POLYCHIP_SUPPORT_DTYPE);
    assert!(answer.detail.contains("precision=reduced"), "{}", answer.detail);
    let exact = device
        .compile(&flat, &CompileOptions::default())
        .map(drop)
        .unwrap_err();
    assert!(exact.to_string().contains("16 bits"), "{exact}");
}

fn words(host: &Host) -> String {
    assert!(host.devices().is_empty());
    let words: Vec<String> = host.refusals().iter().map(ToString::to_string).collect();
    words.join("; ")
}

#[test]
fn missing_library_names_the_package_to_install() {
    let folder = tempfile::tempdir().unwrap();
    let board = Board::new();
    let found = words(&board.host(&[("lib_dir", &folder.path().display().to_string())]));
    for part in ["libascendcl.so", "CANN", "set_env.sh"] {
        assert!(found.contains(part), "{found}");
    }
}

#[test]
fn library_that_fails_to_start_is_reported_with_its_code() {
    let board = Board::new();
    board.faults("init:*=500004");
    let found = words(&board.host(&[]));
    assert!(found.contains("no board") && found.contains("500004"), "{found}");
    // another part of the process may have started it before
    board.faults("");
    assert_eq!(board.host(&[]).devices().len(), 1);
    board.faults("init:*=100002");
    assert_eq!(board.host(&[]).devices().len(), 1);
}

#[test]
fn invalid_settings_are_named() {
    let board = Board::new();
    for (key, value, word) in [
        ("precision", "half", "exact, reduced"),
        ("precision_mode", "force_fp32", "force_fp16"),
        ("soc_version", "a b", "letters"),
        ("cann", "8;0", "letters"),
        ("timeout_s", "soon", "soon"),
    ] {
        let found = words(&board.host(&[(key, value)]));
        assert!(
            found.contains(word) && found.contains(key),
            "{key}={value}: {found}"
        );
    }
}
