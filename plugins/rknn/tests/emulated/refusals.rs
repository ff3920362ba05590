//! What is refused, with its reason, and what is said where something is missing.

use polychip_abi as abi;
use polychip_graph::{Graph, Node};
use polychip_host::{CompileOptions, Device, FlatGraph, Host};
use polychip_ops::{Attr, AttrValue, DType, Op};
use polychip_parts::{binary, reason, relu_of_sum, tensor};

use crate::board::Board;
use crate::runs::convolution;

#[test]
fn each_refusal_has_its_reason() {
    let board = Board::own();
    let device = board.device(&[]);
    let ask = |op, dtype, shapes| reason(&device, op, dtype, shapes);
    assert_eq!(ask(Op::Add, DType::F32, [&[2, 3], &[2, 3]]), 0);
    assert_eq!(
        ask(Op::Mod, DType::F32, [&[2, 3], &[2, 3]]),
        abi::POLYCHIP_SUPPORT_OP
    );
    assert_eq!(
        ask(Op::Add, DType::F64, [&[2, 3], &[2, 3]]),
        abi::POLYCHIP_SUPPORT_DTYPE
    );
    assert_eq!(
        ask(Op::Add, DType::F16, [&[2, 3], &[2, 3]]),
        abi::POLYCHIP_SUPPORT_DTYPE
    );
    assert_eq!(
        ask(Op::Add, DType::F32, [&[2, 0], &[2, 0]]),
        abi::POLYCHIP_SUPPORT_SHAPE
    );
    assert_eq!(
        ask(Op::Add, DType::F32, [&[1, 1, 1, 1, 2], &[1]]),
        abi::POLYCHIP_SUPPORT_RANK
    );
    assert_eq!(
        ask(Op::PRelu, DType::F32, [&[2, 3], &[3]]),
        abi::POLYCHIP_SUPPORT_NOT_CONSTANT
    );
    let of = |graph: &Graph| support(&device, graph);
    let mut padded = convolution();
    let first = padded.node_ids()[0];
    padded
        .attributes_mut(first)
        .set(Attr::AutoPad, AttrValue::String("SAME_UPPER".into()));
    assert_eq!(of(&padded).0, abi::POLYCHIP_SUPPORT_ATTRIBUTE);
}

pub(crate) fn support(device: &Device, graph: &Graph) -> (u32, String) {
    let flat = FlatGraph::new(graph, &[]).unwrap();
    let answer = device.query_support(&flat).unwrap()[0].clone();
    (answer.reason, answer.detail.to_string())
}

/// f32 stays f32 unless somebody says otherwise.
#[test]
fn sixteen_bits_are_computed_only_where_that_is_allowed() {
    let board = Board::own();
    let device = board.device(&[("precision", "exact")]);
    let graph = relu_of_sum();
    let (code, words) = support(&device, &graph);
    assert_eq!(code, abi::POLYCHIP_SUPPORT_DTYPE);
    assert!(words.contains("precision=reduced"), "{words}");
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let exact = device
        .compile(&flat, &CompileOptions::default())
        .map(drop)
        .unwrap_err();
    assert!(exact.to_string().contains("16 bits"), "{exact}");
    let options = CompileOptions {
        reduced_precision: true,
        ..CompileOptions::default()
    };
    device.compile(&flat, &options).unwrap();
}

/// An op that the toolkit takes and puts on a processor is none of the chip's.
#[test]
fn layer_on_the_cpu_is_refused_by_name() {
    let board = Board::own();
    let device = board.device(&[]);
    let graph = binary(Op::Add, DType::F32, [&[4], &[4]]);
    assert_eq!(support(&device, &graph).0, 0);
    let mut erf = Graph::new("erf");
    let x = tensor(&mut erf, "x", DType::F32, &[4]);
    let y = tensor(&mut erf, "y", DType::F32, &[4]);
    erf.add_node(Node::new(Op::Erf, vec![Some(x)], vec![Some(y)]));
    (erf.inputs, erf.outputs) = (vec![x], vec![y]);
    assert_eq!(support(&device, &erf).0, abi::POLYCHIP_SUPPORT_OP);
}

fn refusals(host: &Host) -> String {
    assert!(host.devices().is_empty());
    let words: Vec<String> = host.refusals().iter().map(ToString::to_string).collect();
    words.join("; ")
}

#[test]
fn missing_library_names_the_package_to_install() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::builder()
        .configure("rknn", "lib_dir", folder.path().display().to_string())
        .linked(polychip_rknn::query)
        .build();
    let words = refusals(&host);
    for part in ["librknnrt.so", "librknn_api.so", "RKNN_LIB_DIR"] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn invalid_settings_are_named() {
    let board = Board::own();
    for (key, value, word) in [
        ("precision", "half", "exact, reduced"),
        ("target_platform", "rk1", "rk3588"),
        ("quantized_dtype", "w8a8", "dataset"),
        ("quantized_dtype", "w1a1", "w8a8"),
        ("optimization_level", "9", "up to 3"),
        ("timeout_s", "soon", "soon"),
        ("caches", "never", "run, access"),
        ("single_core_mode", "1", "yes, no"),
    ] {
        let words = refusals(&board.host(&[(key, value)]));
        assert!(
            words.contains(word) && words.contains(key),
            "{key}={value}: {words}"
        );
    }
    let words = refusals(&board.host(&[("precision", "exact"), ("quantized_dtype", "w8a8")]));
    assert!(words.contains("precision=reduced"), "{words}");
}

/// What the vendor's library says where no board is connected, which is no device and no noise.
#[test]
fn missing_board_is_reported_by_name() {
    let board = Board::connected();
    board.faults("init:*=-3");
    let words = refusals(&board.host(&[("target_platform", "rk3588")]));
    assert!(
        words.contains("no board") && words.contains("-3") && words.contains("USB"),
        "{words}"
    );
}
