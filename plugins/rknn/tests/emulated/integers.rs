//! Integers that stand for reals: they keep the model's scales, and the plugin notices where they do not.

use std::time::Duration;

use polychip_abi as abi;
use polychip_graph::{Encoding, EncodingAxis, Graph, Node, TensorId};
use polychip_host::{CompileOptions, Device, Executable, FlatGraph, Submission};
use polychip_ops::{DType, Op};
use polychip_parts::{buffers, constant, floats, load, numbers, read, tensor, write};

use crate::board::Board;
use crate::refusals::support;

fn encoded(graph: &mut Graph, id: TensorId, scale: f32, zero: i32) -> TensorId {
    graph.tensor_mut(id).encoding = Some(Encoding {
        axis: EncodingAxis::PerTensor,
        scales: [scale].into(),
        zero_points: [zero].into(),
        real: DType::F32,
    });
    id
}

/// `y = x × w + b` over bytes: three from two, weights of another scale, a bias of 32 bits.
fn product(dtype: DType) -> Graph {
    let zero = if dtype == DType::U8 { 128 } else { 0 };
    let mut graph = Graph::new("product");
    let x = tensor(&mut graph, "x", dtype, &[1, 2]);
    encoded(&mut graph, x, 0.5, zero + 3);
    let w = constant(&mut graph, "w", DType::I8, &[3, 2], vec![1, 2, 0xfd, 4, 5, 0xfa]);
    encoded(&mut graph, w, 0.25, 0);
    let bias: Vec<u8> = [10i32, -20, 3]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let b = constant(&mut graph, "b", DType::I32, &[3], bias);
    encoded(&mut graph, b, 0.125, 0);
    let y = tensor(&mut graph, "y", dtype, &[1, 3]);
    encoded(&mut graph, y, 0.75, zero - 2);
    let mut node = Node::new(Op::Gemm, vec![Some(x), Some(w), Some(b)], vec![Some(y)]);
    node.attributes
        .set(polychip_ops::Attr::TransB, polychip_ops::AttrValue::Int(1));
    graph.add_node(node);
    (graph.inputs, graph.outputs) = (vec![x], vec![y]);
    graph
}

/// The same in exact arithmetic: steps from each zero point.
fn product_of(x: [i32; 2], least: i32, most: i32, zero: i32) -> Vec<i32> {
    let (w, b) = ([[1, 2], [-3, 4], [5, -6]], [10, -20, 3]);
    let row = |(w, b): ([i32; 2], i32)| {
        let sum = (x[0] - 3) * w[0] + (x[1] - 3) * w[1] + b;
        // 0.125 to the step before, 0.75 to the step behind
        let steps = (f64::from(sum) * 0.125 / 0.75).round_ties_even() as i32;
        (steps - 2 + zero).clamp(least, most)
    };
    w.into_iter().zip(b).map(row).collect()
}

fn run(device: &Device, executable: &Executable, x: &[u8], results: usize) -> Vec<u8> {
    let mut submission = Submission::new(executable, 4);
    let buffers = buffers(device, executable, &mut submission);
    write(&buffers[0], x);
    let fence = executable.execute(&mut submission, &[]).unwrap();
    fence.wait(Duration::from_secs(60)).unwrap();
    read(&buffers[1], results)
}

/// On a board and by a connected board's copies, with a sign and without, also where f32 is to stay f32.
#[test]
fn bytes_use_the_models_scales() {
    for board in [Board::own as fn() -> Board, Board::connected] {
        let board = board();
        let device = board.device(&[("precision", "exact")]);
        for dtype in [DType::I8, DType::U8] {
            let (least, most, zero) = match dtype {
                DType::U8 => (0, 255, 128),
                _ => (-128, 127, 0),
            };
            let graph = product(dtype);
            assert_eq!(support(&device, &graph).0, 0);
            let executable = load(&device, &graph);
            for x in [[0, 1], [100, -100], [-128, 127], [3, 3]] {
                let stored = x.map(|x: i32| (x + zero) as u8);
                let found = run(&device, &executable, &stored, 3);
                let wanted = product_of(x, least, most, zero);
                let wanted: Vec<u8> = wanted.into_iter().map(|value| value as u8).collect();
                assert_eq!(found, wanted, "{dtype} {x:?}");
            }
        }
    }
}

/// The ends of a quantised model: reals in, bytes in between, reals out.
#[test]
fn reals_are_quantised_at_inputs_and_dequantised_at_outputs() {
    let board = Board::own();
    let device = board.device(&[]);
    let mut graph = Graph::new("ends");
    let x = tensor(&mut graph, "x", DType::F32, &[1, 4]);
    let scale = constant(&mut graph, "scale", DType::F32, &[], floats(&[0.5]));
    let zero = constant(&mut graph, "zero", DType::U8, &[], vec![130]);
    let q = tensor(&mut graph, "q", DType::U8, &[1, 4]);
    encoded(&mut graph, q, 0.5, 130);
    let r = tensor(&mut graph, "r", DType::U8, &[1, 4]);
    encoded(&mut graph, r, 0.5, 130);
    let y = tensor(&mut graph, "y", DType::F32, &[1, 4]);
    let both = [Some(scale), Some(zero)];
    graph.add_node(Node::new(
        Op::QuantizeLinear,
        vec![Some(x), both[0], both[1]],
        vec![Some(q)],
    ));
    graph.add_node(Node::new(Op::Relu, vec![Some(q)], vec![Some(r)]));
    graph.add_node(Node::new(
        Op::DequantizeLinear,
        vec![Some(r), both[0], both[1]],
        vec![Some(y)],
    ));
    (graph.inputs, graph.outputs) = (vec![x], vec![y]);
    let executable = load(&device, &graph);
    let found = run(&device, &executable, &floats(&[0.3, -4.0, 1000.0, 2.75]), 16);
    // 2.75 lies between two steps, and the even one is taken; 1000 is clamped at step 125
    assert_eq!(numbers(&found), [0.5, 0.0, 62.5, 3.0]);
    // the ends round reals to what the chip has, which is allowed or not
    let exact = board.device(&[("precision", "exact")]);
    assert_eq!(support(&exact, &graph).0, abi::POLYCHIP_SUPPORT_DTYPE);
}

#[test]
fn scales_changed_by_the_toolkit_are_detected() {
    let board = Board::own();
    let device = board.device(&[]);
    let graph = product(DType::I8);
    let flat = FlatGraph::new(&graph, &[]).unwrap();
    let blob = device.compile(&flat, &CompileOptions::default()).unwrap();
    board.faults("query:*=wrong");
    let error = device.load(blob, &flat, 1).map(drop).unwrap_err().to_string();
    board.faults("");
    assert!(error.contains("a scale of 1") && error.contains('x'), "{error}");
    let data = tempfile::NamedTempFile::new().unwrap();
    let path = data.path().display().to_string();
    let own = board.device(&[("quantized_dtype", "w8a8"), ("dataset", &*path)]);
    let (code, words) = support(&own, &graph);
    assert_eq!(code, abi::POLYCHIP_SUPPORT_ENCODING);
    assert!(words.contains("quantized_dtype"), "{words}");
}

#[test]
fn types_other_than_per_tensor_bytes_are_refused() {
    let board = Board::own();
    let device = board.device(&[]);
    let of = |dtype: DType, axis: EncodingAxis| {
        let mut graph = Graph::new("one");
        let x = tensor(&mut graph, "x", dtype, &[2, 2]);
        let y = tensor(&mut graph, "y", dtype, &[2, 2]);
        for id in [x, y] {
            let scales = if axis == EncodingAxis::PerTensor { 1 } else { 2 };
            graph.tensor_mut(id).encoding = Some(Encoding {
                axis,
                scales: vec![0.5; scales].into(),
                zero_points: [].into(),
                real: DType::F32,
            });
        }
        graph.add_node(Node::new(Op::Relu, vec![Some(x)], vec![Some(y)]));
        (graph.inputs, graph.outputs) = (vec![x], vec![y]);
        support(&device, &graph).0
    };
    assert_eq!(of(DType::I8, EncodingAxis::PerTensor), 0);
    for (dtype, axis) in [
        (DType::I8, EncodingAxis::PerAxis(0)),
        (DType::I16, EncodingAxis::PerTensor),
        (DType::I4, EncodingAxis::PerTensor),
    ] {
        assert_eq!(of(dtype, axis), abi::POLYCHIP_SUPPORT_ENCODING, "{dtype}");
    }
}
