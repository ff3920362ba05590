//! Quantise and dequantise nodes folded onto tensors, executed by the law of encodings.

use insta::assert_snapshot;
use polychip_ops::{Attr, AttrValue, DType, Literal, Op};

use super::build::{Build, ints};
use super::{Options, nodes_of, proven};
use crate::{EncodingAxis, TensorId};

/// Scale and zero point of an activation.
fn grid(b: &mut Build, scale: f32, zero: i64) -> [TensorId; 2] {
    let zero_point = Literal::from_ints(DType::U8, vec![], &[zero]).unwrap();
    [b.number(scale), b.literal(&format!("{zero}u8"), &zero_point)]
}

fn quantise(b: &mut Build, x: TensorId, [scale, zero]: [TensorId; 2]) -> TensorId {
    b.op(Op::QuantizeLinear, &[x, scale, zero])
}

fn dequantise(b: &mut Build, x: TensorId, [scale, zero]: [TensorId; 2]) -> TensorId {
    b.op(Op::DequantizeLinear, &[x, scale, zero])
}

fn both(b: &mut Build, x: TensorId, grid: [TensorId; 2]) -> TensorId {
    let stored = quantise(b, x, grid);
    dequantise(b, stored, grid)
}

/// Integer weights, dequantised with one scale per index of the first axis.
fn weights(b: &mut Build, name: &str, dtype: DType, shape: &[usize], most: i64) -> TensorId {
    let count: usize = shape.iter().product();
    let values: Vec<i64> = (0..count as i64)
        .map(|i| (i * 37 + 11) % (2 * most) - most)
        .collect();
    let stored = Literal::from_ints(dtype, shape.to_vec(), &values).unwrap();
    let stored = b.literal(name, &stored);
    let scales: Vec<f32> = (0..shape[0]).map(|i| 0.01 + i as f32 * 0.002).collect();
    let scales = b.literal(&format!("{name}.scale"), &Literal::f32s(&scales));
    b.op_with(
        Op::DequantizeLinear,
        &[stored, scales],
        &[(Attr::Axis, AttrValue::Int(0))],
    )
}

/// Of 16-bit floats no device takes an encoding, so that the nodes stay.
#[test]
fn what_is_quantised_from_other_floats_than_f32_has_no_encoding() {
    let mut b = Build::new();
    let x = b.typed_input("x", DType::F16, &[2, 3]);
    let scale = b.literal("scale", &Literal::new(DType::F16, vec![], vec![0, 0x38]).unwrap());
    let zero = b.literal("zero", &Literal::from_ints(DType::U8, vec![], &[3]).unwrap());
    let stored = quantise(&mut b, x, [scale, zero]);
    let moved = b.op(Op::Transpose, &[stored]);
    let y = dequantise(&mut b, moved, [scale, zero]);
    let (after, _) = proven(&b.finish(&[y]), &Options::default());
    assert_eq!(after.node_count(), 3);
    assert!(after.tensors().all(|(_, tensor)| tensor.encoding.is_none()));
}

#[test]
fn a_convolution_with_bias_and_activation() {
    let mut b = Build::new();
    let x = b.input("x", &[1, 3, 6, 6]);
    let (g, h) = (grid(&mut b, 0.02, 100), grid(&mut b, 0.05, 3));
    let x = both(&mut b, x, g);
    let w = weights(&mut b, "w", DType::I8, &[4, 3, 3, 3], 100);
    let c = weights(&mut b, "c", DType::I32, &[4], 50);
    let conv = b.op(Op::Conv, &[x, w, c]);
    let relu = b.op(Op::Relu, &[conv]);
    let t = both(&mut b, relu, h);
    // a second layer behind it, without an activation
    let w = weights(&mut b, "v", DType::I8, &[2, 4, 1, 1], 100);
    let conv = b.op(Op::Conv, &[t, w]);
    let t = both(&mut b, conv, g);
    let graph = b.finish(&[t]);
    let (after, report) = proven(&graph, &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    ~t0 = QuantizeLinear(x, 0.02, 100u8)
    ~t4 = Conv(~t0, ~w, ~c)
    ~t6 = Relu(~t4)
    ~t10 = Conv(~t6, ~v)
    y0 = DequantizeLinear(~t10, 0.02, 100u8)
    ");
    assert_eq!(report.changes("quantise"), 3);
    let of = |name: &str| {
        let mut tensors = after.tensors().map(|(_, tensor)| tensor);
        tensors.find(|tensor| tensor.name == name).unwrap()
    };
    let w = of("w").encoding.as_ref().unwrap();
    assert_eq!((w.axis, w.scales.len()), (EncodingAxis::PerAxis(0), 4));
    assert!(w.zero_points.is_empty() && of("w").ty.dtype == DType::I8);
    let before = graph.tensors().find(|(_, tensor)| tensor.name == "w").unwrap().1;
    let bytes = |data: &Option<crate::Constant>| data.as_ref().unwrap().bytes.as_ptr();
    assert_eq!(
        bytes(&of("w").data),
        bytes(&before.data),
        "weights are not copied"
    );

    let options = Options {
        quantised: false,
        ..Options::default()
    };
    let (after, _) = proven(&graph, &options);
    assert_snapshot!(nodes_of(&after), @r"
    t0 = QuantizeLinear(x, 0.02, 100u8)
    t1 = DequantizeLinear(t0, 0.02, 100u8)
    t4 = Conv(t1, t2, t3)
    t5 = Relu(t4)
    t6 = QuantizeLinear(t5, 0.05, 3u8)
    t7 = DequantizeLinear(t6, 0.05, 3u8)
    t9 = Conv(t7, t8)
    t10 = QuantizeLinear(t9, 0.02, 100u8)
    y0 = DequantizeLinear(t10, 0.02, 100u8)
    ");
}

#[test]
fn ops_that_move_integers_carry_the_encoding() {
    let mut b = Build::new();
    let x = b.input("x", &[1, 4, 6, 6]);
    let g = grid(&mut b, 0.02, 100);
    let x = both(&mut b, x, g);
    let t = b.op(Op::Sigmoid, &[x]);
    let t = quantise(&mut b, t, g);
    let t = b.op_with(Op::MaxPool, &[t], &[(Attr::KernelShape, ints(&[2, 2]))]);
    let t = b.op_with(Op::Transpose, &[t], &[(Attr::Perm, ints(&[0, 2, 3, 1]))]);
    let t = b.op_with(Op::Concat, &[t, t], &[(Attr::Axis, AttrValue::Int(0))]);
    let t = dequantise(&mut b, t, g);
    let t = b.op(Op::Tanh, &[t]);
    let t = quantise(&mut b, t, g);
    let (after, _) = proven(&b.finish(&[t]), &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    ~t0 = QuantizeLinear(x, 0.02, 100u8)
    ~t3 = Sigmoid(~t0)
    ~t4 = MaxPool(~t3) kernel_shape=Ints([2, 2])
    ~t5 = Transpose(~t4) perm=Ints([0, 2, 3, 1])
    ~t6 = Concat(~t5, ~t5) axis=Int(0)
    ~y0 = Tanh(~t6)
    ");
}

#[test]
fn sums_of_two_grids_and_a_residual() {
    let mut b = Build::new();
    let (x, y) = (b.input("x", &[2, 4]), b.input("y", &[2, 3]));
    let (g, h) = (grid(&mut b, 0.02, 100), grid(&mut b, 0.03, 128));
    let (x, y) = (both(&mut b, x, g), both(&mut b, y, h));
    let w = weights(&mut b, "w", DType::I8, &[4, 3], 100);
    let t = b.op(Op::MatMul, &[x, w]);
    let t = b.op(Op::Add, &[t, y]);
    let t = both(&mut b, t, g);
    let t = b.op(Op::Mul, &[t, y]);
    let t = quantise(&mut b, t, h);
    let (after, _) = proven(&b.finish(&[t]), &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    ~t0 = QuantizeLinear(x, 0.02, 100u8)
    t5 = MatMul(~t0, ~w)
    ~t2 = QuantizeLinear(y, 0.03, 128u8)
    ~t7 = Add(t5, ~t2)
    ~y0 = Mul(~t7, ~t2)
    ");
}

#[test]
fn integers_that_somebody_else_reads_stay_integers() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 4]);
    let (g, h) = (grid(&mut b, 0.02, 100), grid(&mut b, 0.03, 100));
    let stored = quantise(&mut b, x, g);
    let count = b.op_with(
        Op::Cast,
        &[stored],
        &[(Attr::To, AttrValue::Int(DType::I32.code().into()))],
    );
    let t = dequantise(&mut b, stored, g);
    let t = b.op(Op::Neg, &[t]);
    let t = quantise(&mut b, t, g);
    // read on another grid than it was written on
    let other = quantise(&mut b, x, g);
    let other = b.op_with(Op::Concat, &[other, other], &[(Attr::Axis, AttrValue::Int(0))]);
    let s = dequantise(&mut b, other, h);
    let s = b.op(Op::Abs, &[s]);
    let s = quantise(&mut b, s, h);
    // given back before it is quantised
    let first = b.input("first", &[2, 4]);
    let r = both(&mut b, first, g);
    let r = b.op(Op::Exp, &[r]);
    let q = quantise(&mut b, r, g);
    let (after, report) = proven(&b.finish(&[t, count, s, r, q]), &Options::default());
    assert_eq!(report.changes("quantise"), 0);
    assert!(after.tensors().all(|(_, tensor)| tensor.encoding.is_none()));
}

#[test]
fn only_the_weights_of_a_float_product() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 6]);
    let bytes = vec![0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb, 0xed, 0x0f, 0x12];
    let stored = Literal::new(DType::I4, vec![6, 3], bytes).unwrap();
    let stored = b.literal("w", &stored);
    let scales = Literal {
        shape: vec![3, 3],
        ..Literal::f32s(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
    };
    let scales = b.literal("scales", &scales);
    let blocks = [
        (Attr::Axis, AttrValue::Int(0)),
        (Attr::BlockSize, AttrValue::Int(2)),
    ];
    let w = b.op_with(Op::DequantizeLinear, &[stored, scales], &blocks);
    let y = b.op(Op::MatMul, &[x, w]);
    let (after, _) = proven(&b.finish(&[y]), &Options::default());
    assert_snapshot!(nodes_of(&after), @"y0 = MatMul(x, ~w)");
    let (_, w) = after.tensors().find(|(_, tensor)| tensor.name == "w").unwrap();
    let axis = w.encoding.as_ref().unwrap().axis;
    assert_eq!(axis, EncodingAxis::PerBlock { axis: 0, block: 2 });
}

#[test]
fn pairs_cancel_and_constants_of_nobody_become_floats() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 3]);
    let g = grid(&mut b, 0.02, 100);
    let stored = quantise(&mut b, x, g);
    let t = both(&mut b, x, g);
    let again = quantise(&mut b, t, g);
    let y = b.op_with(Op::Concat, &[stored, again], &[(Attr::Axis, AttrValue::Int(0))]);
    let w = weights(&mut b, "w", DType::I8, &[2, 3], 100);
    let z = b.op(Op::Add, &[x, w]);
    let (after, report) = proven(&b.finish(&[y, z]), &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    ~t0 = QuantizeLinear(x, 0.02, 100u8)
    ~y0 = Concat(~t0, ~t0) axis=Int(0)
    y1 = Add(x, t5)
    ");
    assert_eq!(report.changes("quantise"), 1);
}

#[test]
fn two_biases_of_equal_integers_and_different_scales() {
    let mut b = Build::new();
    let x = b.input("x", &[1, 2, 3, 3]);
    let g = grid(&mut b, 0.02, 100);
    let x = both(&mut b, x, g);
    let mut t = x;
    for scale in [0.01, 0.02] {
        let w = weights(&mut b, "w", DType::I8, &[2, 2, 1, 1], 100);
        let c = b.literal("c", &Literal::from_ints(DType::I32, vec![2], &[7, -7]).unwrap());
        let scale = b.number(scale);
        let c = b.op(Op::DequantizeLinear, &[c, scale]);
        let conv = b.op(Op::Conv, &[t, w, c]);
        t = both(&mut b, conv, g);
    }
    let (after, _) = proven(&b.finish(&[t]), &Options::default());
    let biases: Vec<f32> = after
        .nodes()
        .filter(|(_, node)| node.op == Op::Conv)
        .map(|(_, node)| {
            after
                .tensor(node.input(2).unwrap())
                .encoding
                .as_ref()
                .unwrap()
                .scales[0]
        })
        .collect();
    assert_eq!(biases, [0.01, 0.02]);
}

/// QLinearConv and QLinearMatMul between the same quantised tensors as the ops of floats; a scale that a node computes stays.
#[test]
fn ops_that_state_their_scales_become_encodings() {
    let mut b = Build::new();
    let x = b.input("x", &[1, 3, 8, 8]);
    let [g, h] = [grid(&mut b, 0.0237, 100), grid(&mut b, 0.0531, 3)];
    let stored = |b: &mut Build, name: &str, dtype, shape: &[usize]| {
        let count: usize = shape.iter().product();
        let values: Vec<i64> = (0..count as i64).map(|i| (i * 37 + 11) % 100).collect();
        b.literal(name, &Literal::from_ints(dtype, shape.to_vec(), &values).unwrap())
    };
    let x = quantise(&mut b, x, g);
    // one scale per output and a bias, then one zero point for all of unsigned weights
    let w = stored(&mut b, "w", DType::I8, &[4, 3, 3, 3]);
    let scales = b.literal("scales", &Literal::f32s(&[0.0111, 0.0213, 0.0307, 0.0052]));
    let zeros = b.literal(
        "zeros",
        &Literal::from_ints(DType::I8, vec![4], &[0, 1, 2, 0]).unwrap(),
    );
    let bias = stored(&mut b, "bias", DType::I32, &[4]);
    let x = b.op(
        Op::QLinearConv,
        &[x, g[0], g[1], w, scales, zeros, h[0], h[1], bias],
    );
    let w = stored(&mut b, "v", DType::U8, &[2, 4, 1, 1]);
    let (scale, middle) = (b.number(0.0113), stored(&mut b, "middle", DType::U8, &[]));
    let x = b.op(Op::QLinearConv, &[x, h[0], h[1], w, scale, middle, g[0], g[1]]);
    // a constant matrix with a scale per column, then two computed operands
    let w = stored(&mut b, "u", DType::I8, &[6, 6]);
    let columns: Vec<f32> = (0..6).map(|i| 0.0017 + 0.0003 * i as f32).collect();
    let scales = b.literal("columns", &Literal::f32s(&columns));
    let zeros = b.literal("none", &Literal::from_ints(DType::I8, vec![6], &[0; 6]).unwrap());
    let y = b.op(Op::QLinearMatMul, &[x, g[0], g[1], w, scales, zeros, h[0], h[1]]);
    let y = b.op(Op::QLinearMatMul, &[y, h[0], h[1], y, h[0], h[1], g[0], g[1]]);
    let y = dequantise(&mut b, y, g);
    let (after, report) = proven(&b.finish(&[y]), &Options::default());
    assert_eq!(report.changes("linear"), 4);
    let ops: Vec<Op> = after.nodes().map(|(_, node)| node.op).collect();
    use Op::{Conv, DequantizeLinear, MatMul, QuantizeLinear};
    assert_eq!(
        ops,
        [QuantizeLinear, Conv, Conv, MatMul, MatMul, DequantizeLinear]
    );
    for (_, node) in after
        .nodes()
        .filter(|(_, node)| node.op == Conv || node.op == MatMul)
    {
        assert!(
            node.reads()
                .chain(node.writes())
                .all(|id| after.tensor(id).encoding.is_some())
        );
    }

    let mut b = Build::new();
    let (x, scale) = (b.typed_input("x", DType::U8, &[2, 4]), b.input("scale", &[]));
    let [_, zero] = grid(&mut b, 0.02, 100);
    let w = stored(&mut b, "w", DType::U8, &[4, 3]);
    let y = b.op(Op::QLinearMatMul, &[x, scale, zero, w, scale, zero, scale, zero]);
    let graph = b.finish(&[y]);
    let mut after = graph.clone();
    super::canonicalise(&mut after, &crate::passes::tests::Reference, &Options::default()).unwrap();
    assert_eq!(after.nodes().next().unwrap().1.op, Op::QLinearMatMul);
}

/// Codes that Pad fills are integers to it: a product over them keeps its exact sums.
#[test]
fn products_over_codes_that_another_op_computes_keep_their_integers() {
    let mut b = Build::new();
    let x = b.typed_input("x", DType::U8, &[1, 2, 6, 6]);
    let [g, h] = [grid(&mut b, 0.0237, 100), grid(&mut b, 0.0531, 3)];
    let values: Vec<i64> = (0..36).map(|i| (i * 37 + 11) % 100).collect();
    let w = Literal::from_ints(DType::I8, vec![2, 2, 3, 3], &values).unwrap();
    let w = b.literal("w", &w);
    let (scale, zero) = (
        b.number(0.0113),
        Literal::from_ints(DType::I8, vec![], &[0]).unwrap(),
    );
    let zero = b.literal("zero", &zero);
    let first = b.op(Op::QLinearConv, &[x, g[0], g[1], w, scale, zero, h[0], h[1]]);
    let pads = b.literal("pads", &Literal::i64s(&[0, 0, 1, 1, 0, 0, 1, 1]));
    let padded = b.op(Op::Pad, &[first, pads, h[1]]);
    let second = b.op(Op::QLinearConv, &[padded, h[0], h[1], w, scale, zero, g[0], g[1]]);
    let y = dequantise(&mut b, second, g);
    let (after, report) = proven(&b.finish(&[y]), &Options::default());
    assert_eq!(report.changes("linear"), 1);
    let ops: Vec<Op> = after.nodes().map(|(_, node)| node.op).collect();
    assert!(
        ops.contains(&Op::Pad) && ops.contains(&Op::QLinearConv),
        "{ops:?}"
    );
}
