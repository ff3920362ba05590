//! Weights in blocks on their way to products: however exporters write them, products read the codes.

use insta::assert_snapshot;
use polychip_ops::{Attr, AttrValue, DType, Dim, Literal, Op, TensorType};

use super::build::{Build, ints};
use super::{Options, Report, canonical, execute, nodes_of, proven};
use crate::{EncodingAxis, Graph, Tensor, TensorId};

/// Codes `[columns, depth]` in blocks of 16 along the depth, dequantised. Scales are of both signs, and some are zero.
fn dequantised(
    b: &mut Build,
    real: DType,
    dtype: DType,
    [columns, depth]: [usize; 2],
    zeros: bool,
) -> TensorId {
    let most = if matches!(dtype, DType::U4 | DType::I4) {
        16
    } else {
        256
    };
    let low = if dtype.is_signed_int() { -most / 2 } else { 0 };
    let values: Vec<i64> = (0..(columns * depth) as i64)
        .map(|i| low + (i * 37 + 11) % most)
        .collect();
    let codes = b.literal("codes", &literal(dtype, [columns, depth], &values));
    let blocks = depth.div_ceil(16);
    let scales: Vec<f64> = (0..columns * blocks)
        .map(|i| (i % 5) as f64 / 256.0 - 1.0 / 128.0)
        .collect();
    let (ty, data) = super::super::pattern::from_floats(real, &[columns, blocks], &scales).unwrap();
    let scales = b.graph.add_tensor(Tensor::constant("scales", ty, data));
    let mut inputs = vec![codes, scales];
    if zeros {
        let values: Vec<i64> = (0..(columns * blocks) as i64).map(|i| low + i % most).collect();
        inputs.push(b.literal("zeros", &literal(dtype, [columns, blocks], &values)));
    }
    let blocks = [
        (Attr::Axis, AttrValue::Int(1)),
        (Attr::BlockSize, AttrValue::Int(16)),
    ];
    b.op_with(Op::DequantizeLinear, &inputs, &blocks)
}

fn literal(dtype: DType, shape: [usize; 2], values: &[i64]) -> Literal {
    if dtype.bits() != Some(4) {
        return Literal::from_ints(dtype, shape.to_vec(), values).unwrap();
    }
    let pairs = values.chunks(2);
    let bytes = pairs.map(|pair| pair[0] as u8 & 15 | (*pair.get(1).unwrap_or(&0) as u8) << 4);
    Literal::new(dtype, shape.to_vec(), bytes.collect::<Vec<_>>()).unwrap()
}

fn transposed(b: &mut Build, x: TensorId) -> TensorId {
    b.op_with(Op::Transpose, &[x], &[(Attr::Perm, ints(&[1, 0]))])
}

/// As exporters write it: `x · dequantised(codes)ᵀ + bias`.
fn linear(real: DType, dtype: DType, shape: &[usize], columns: usize, zeros: bool, bias: bool) -> Graph {
    let mut b = Build::new();
    let x = b.typed_input("x", real, shape);
    let weights = dequantised(&mut b, real, dtype, [columns, *shape.last().unwrap()], zeros);
    let weights = transposed(&mut b, weights);
    let mut y = b.op(Op::MatMul, &[x, weights]);
    if bias {
        let values: Vec<f64> = (0..columns).map(|i| i as f64 / 8.0 - 1.0).collect();
        let (ty, data) = super::super::pattern::from_floats(real, &[columns], &values).unwrap();
        let bias = b.graph.add_tensor(Tensor::constant("bias", ty, data));
        y = b.op(Op::Add, &[bias, y]);
    }
    b.finish(&[y])
}

/// The codes that a canonical graph reads have one encoding in blocks along `axis`, and the memory of the model's.
fn reads_codes(before: &Graph, after: &Graph, axis: usize) {
    let memory = |graph: &Graph| {
        let mut tensors = graph.tensors().map(|(_, tensor)| tensor);
        let codes = tensors.find(|tensor| tensor.name == "codes").unwrap();
        codes.data.as_ref().unwrap().bytes.as_ptr()
    };
    assert_eq!(memory(before), memory(after), "codes are not copied");
    let encoded: Vec<&Tensor> = after
        .tensors()
        .map(|(_, tensor)| tensor)
        .filter(|t| t.encoding.is_some())
        .collect();
    assert_eq!(encoded.len(), 1);
    assert_eq!(
        encoded[0].encoding.as_ref().unwrap().axis,
        EncodingAxis::PerBlock { axis, block: 16 }
    );
}

/// No more than codes is made of them.
const LITTLE: usize = 256;

fn little() -> Options {
    Options {
        fold_limit: LITTLE,
        ..Options::default()
    }
}

fn changed(report: &Report) -> usize {
    report.changes("weights in blocks")
}

#[test]
fn a_transposed_matrix_of_codes_is_read_as_it_lies() {
    for dtype in [DType::U4, DType::I4, DType::U8, DType::I8] {
        for (zeros, bias, shape) in [
            (false, false, &[3, 32][..]),
            (true, true, &[3, 48]),
            (true, false, &[33, 32]),
        ] {
            let graph = linear(DType::F32, dtype, shape, 7, zeros, bias);
            let (after, report) = proven(&graph, &little());
            assert_eq!(changed(&report), 1);
            reads_codes(&graph, &after, 1);
            let bias = if bias { ", bias" } else { "" };
            let product = format!("y0 = Gemm(x, ~codes{bias}) transB=Int(1)");
            assert_eq!(nodes_of(&after), product);
        }
    }
}

#[test]
fn rows_of_more_axes_are_a_matrix_for_the_product() {
    let graph = linear(DType::F32, DType::U4, &[2, 3, 32], 5, true, true);
    let (after, _) = proven(&graph, &little());
    reads_codes(&graph, &after, 1);
    assert_snapshot!(nodes_of(&after), @r"
    x.rows = Reshape(x, x.rows.shape)
    y0.rows = Gemm(x.rows, ~codes, bias) transB=Int(1)
    y0 = Reshape(y0.rows, x.product.shape)
    ");
    let graph = linear(DType::F32, DType::U4, &[32], 5, true, true);
    let (after, _) = proven(&graph, &little());
    assert_snapshot!(nodes_of(&after), @r"
    x.rows = Reshape(x, x.rows.shape)
    y0.rows = Gemm(x.rows, ~codes, bias) transB=Int(1)
    y0 = Reshape(y0.rows, x.product.shape)
    ");
}

#[test]
fn open_sizes_stay_open() {
    let mut graph = linear(DType::F32, DType::U4, &[2, 2, 32], 5, true, false);
    let open = [Dim::symbol("batch"), Dim::symbol("rows")];
    for (port, last) in [(graph.inputs[0], 32), (graph.outputs[0], 5)] {
        let shape = Some([&open[..], &[Dim::Known(last)]].concat());
        graph.tensor_mut(port).ty = TensorType {
            dtype: DType::F32,
            shape,
        };
    }
    let (after, _) = proven(&graph, &little());
    reads_codes(&graph, &after, 1);
    assert_snapshot!(nodes_of(&after), @r"
    x.rows = Reshape(x, x.rows.shape)
    y0.rows = Gemm(x.rows, ~codes) transB=Int(1)
    x.before = Shape(x) end=Int(-1)
    x.product.shape = Concat(x.before, x.columns) axis=Int(0)
    y0 = Reshape(y0.rows, x.product.shape) allowzero=Int(1)
    ");
    assert_eq!(
        after.tensor(after.outputs[0]).ty.to_string(),
        "f32[batch, rows, 5]"
    );
}

#[test]
fn floats_of_16_bits_are_widened_around_the_product() {
    for real in [DType::F16, DType::BF16] {
        let graph = linear(real, DType::U4, &[2, 3, 32], 5, true, true);
        let (after, report) = canonical(&graph, &little());
        assert_eq!(changed(&report), 1);
        reads_codes(&graph, &after, 1);
        let inputs = execute::inputs(&graph, 7);
        // sums are rounded once instead of after each step
        let want = execute::run(&graph, &inputs, false);
        let tolerance = if real == DType::F16 { 2e-3 } else { 2e-2 };
        execute::assert_near(&execute::run(&after, &inputs, false), &want, tolerance);
        if real == DType::F16 {
            assert_snapshot!(nodes_of(&after), @r"
            x.rows = Reshape(x, x.rows.shape)
            x.rows.wide = Cast(x.rows) to=Int(1)
            y0.wide = Gemm(x.rows.wide, ~codes, bias.wide) transB=Int(1)
            y0.rows = Cast(y0.wide) to=Int(10)
            y0 = Reshape(y0.rows, x.product.shape)
            ");
        }
    }
    // as the product reads them
    let mut b = Build::new();
    let x = b.typed_input("x", DType::F16, &[2, 3, 5]);
    let codes = b.literal("codes", &literal(DType::U4, [5, 6], &[3; 30]));
    let (ty, data) = super::super::pattern::from_floats(DType::F16, &[1, 6], &[0.5; 6]).unwrap();
    let scales = b.graph.add_tensor(Tensor::constant("scales", ty, data));
    let blocks = [
        (Attr::Axis, AttrValue::Int(0)),
        (Attr::BlockSize, AttrValue::Int(16)),
    ];
    let weights = b.op_with(Op::DequantizeLinear, &[codes, scales], &blocks);
    let y = b.op(Op::MatMul, &[x, weights]);
    let graph = b.finish(&[y]);
    let (after, _) = canonical(&graph, &little());
    reads_codes(&graph, &after, 0);
    assert_snapshot!(nodes_of(&after), @r"
    x.wide = Cast(x) to=Int(1)
    y0.wide = MatMul(x.wide, ~codes)
    y0 = Cast(y0.wide) to=Int(10)
    ");
}

#[test]
fn products_of_the_same_rows_read_one_matrix() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 3, 32]);
    let outputs = [5, 6].map(|columns| {
        let weights = dequantised(&mut b, DType::F32, DType::I4, [columns, 32], false);
        let weights = transposed(&mut b, weights);
        b.op(Op::MatMul, &[x, weights])
    });
    let (after, report) = proven(&b.finish(&outputs), &little());
    assert_eq!(changed(&report), 2);
    let gemms = after.nodes().filter(|(_, node)| node.op == Op::Gemm);
    let rows: Vec<_> = gemms.map(|(_, node)| node.input(0)).collect();
    assert_eq!((rows.len(), rows[0]), (2, rows[1]));
}

#[test]
fn a_gemm_reads_codes_from_either_side() {
    for turned in [false, true] {
        let mut b = Build::new();
        let x = b.input("x", &[3, if turned { 7 } else { 32 }]);
        let weights = dequantised(&mut b, DType::F32, DType::U8, [7, 32], true);
        let weights = transposed(&mut b, weights);
        let bias = b.weights("bias", &[1, if turned { 32 } else { 7 }]);
        let turn = [
            (Attr::TransB, AttrValue::Int(i64::from(turned))),
            (Attr::Alpha, AttrValue::Float(0.5)),
        ];
        let y = b.op_with(Op::Gemm, &[x, weights, bias], &turn);
        let graph = b.finish(&[y]);
        let (after, report) = proven(&graph, &little());
        assert_eq!((changed(&report), after.node_count()), (1, 1));
        reads_codes(&graph, &after, 1);
    }
}

#[test]
fn who_else_reads_the_matrix_reads_it_as_before() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 32]);
    let weights = dequantised(&mut b, DType::F32, DType::U4, [6, 32], true);
    let turned = transposed(&mut b, weights);
    let y = b.op(Op::MatMul, &[x, turned]);
    let z = b.op(Op::Exp, &[weights]);
    // neither a graph's output nor another op reads codes
    let graph = b.finish(&[y, z, turned]);
    let (after, _) = proven(&graph, &Options::default());
    let gemm = after.nodes().filter(|(_, node)| node.op == Op::Gemm).count();
    assert_eq!(gemm, 1);
}

#[test]
fn what_is_no_matrix_of_blocks_stays() {
    // one scale for each column is folded onto the transposed codes
    let mut b = Build::new();
    let x = b.input("x", &[2, 6]);
    let codes = b.literal("codes", &literal(DType::U4, [4, 6], &[5; 24]));
    let scales = b.positive("scales", 4);
    let axis = [(Attr::Axis, AttrValue::Int(0))];
    let weights = b.op_with(Op::DequantizeLinear, &[codes, scales], &axis);
    let weights = transposed(&mut b, weights);
    let y = b.op(Op::MatMul, &[x, weights]);
    let (_, report) = proven(&b.finish(&[y]), &Options::default());
    assert_eq!(changed(&report), 0);
    // the matrix on the left
    let mut b = Build::new();
    let x = b.input("x", &[6, 2]);
    let weights = dequantised(&mut b, DType::F32, DType::U4, [6, 32], true);
    let weights = transposed(&mut b, weights);
    let y = b.op(Op::MatMul, &[weights, x]);
    let (_, report) = proven(&b.finish(&[y]), &Options::default());
    assert_eq!(changed(&report), 0);
}

#[test]
fn scales_of_weights_may_have_any_sign() {
    let scaled = |scales: &[f32]| {
        let mut b = Build::new();
        let x = b.input("x", &[2, 4]);
        let values = [1, -2, 3, -4, 5, -6, 7, -8];
        let codes = Literal::from_ints(DType::I8, vec![4, 2], &values).unwrap();
        let codes = b.literal("codes", &codes);
        let scales = b.literal("scales", &Literal::f32s(scales));
        let axis = [(Attr::Axis, AttrValue::Int(1))];
        let weights = b.op_with(Op::DequantizeLinear, &[codes, scales], &axis);
        let y = b.op(Op::MatMul, &[x, weights]);
        b.finish(&[y])
    };
    for scales in [[0.5, -0.25], [0.0, 0.5], [0.0, 0.0]] {
        let (after, report) = proven(&scaled(&scales), &Options::default());
        assert_eq!(report.changes("quantise"), 1);
        assert_eq!(nodes_of(&after), "y0 = MatMul(x, ~codes)");
    }
    for scale in [f32::NAN, f32::INFINITY] {
        let (after, report) = canonical(&scaled(&[0.5, scale]), &Options::default());
        assert_eq!(report.changes("quantise"), 0);
        assert!(after.tensors().all(|(_, tensor)| tensor.encoding.is_none()));
    }
}
