//! Matrix products, normalisations, reductions and softmax.

use polychip_graph::{Encoding, EncodingAxis};
use polychip_ops::{Attr, Attributes, DType, Op};

use crate::net::{EXACT, Judge, Net};

#[test]
fn products_with_bias_activation_and_residual() {
    let mut net = Net::new();
    let x = net.input(&[2, 5, 24]);
    let (w, b) = (net.weights(&[24, 33]), net.weights(&[33]));
    let product = net.plain(Op::MatMul, &[x, w]);
    let sum = net.plain(Op::Add, &[product, b]);
    let gelu = net.plain(Op::Gelu, &[sum]);
    let w = net.weights(&[33, 24]);
    let back = net.plain(Op::MatMul, &[gelu, w]);
    let out = net.plain(Op::Add, &[x, back]);
    net.output(out);
    net.check();
}

#[test]
fn batches_broadcast_and_vectors_are_matrices() {
    let mut net = Net::new();
    let (a, b) = (net.input(&[3, 1, 4, 6]), net.input(&[2, 6, 5]));
    let product = net.plain(Op::MatMul, &[a, b]);
    let eighth = net.floats(&[], &[0.125]);
    let scaled = net.plain(Op::Mul, &[product, eighth]);
    let out = net.node(Op::Softmax, Attributes::new().with_int(Attr::Axis, -1), &[scaled]);
    net.output(out);
    let v = net.input(&[6]);
    let dot = net.plain(Op::MatMul, &[a, v]);
    net.output(dot);
    net.check();
}

#[test]
fn gemm_with_all_its_attributes() {
    let mut net = Net::new();
    let (a, w, c) = (net.input(&[7, 4]), net.weights(&[9, 7]), net.input(&[4, 1]));
    let attributes = Attributes::new()
        .with_int(Attr::TransA, 1)
        .with_int(Attr::TransB, 1)
        .with_float(Attr::Alpha, 0.5)
        .with_float(Attr::Beta, -2.0);
    let gemm = net.node(Op::Gemm, attributes, &[a, w, c]);
    let out = net.plain(Op::Relu, &[gemm]);
    net.output(out);
    net.check();
}

#[test]
fn norms_and_reductions() {
    let mut net = Net::new();
    let x = net.input(&[2, 6, 20]);
    let (scale, bias) = (net.weights(&[20]), net.weights(&[20]));
    let norm = net.plain(Op::LayerNormalization, &[x, scale, bias]);
    net.output(norm);
    let axes = net.ints(&[1]);
    let mean = net.node(
        Op::ReduceMean,
        Attributes::new().with_int(Attr::Keepdims, 0),
        &[x, axes],
    );
    net.output(mean);
    let (scale, bias) = (net.weights(&[6]), net.weights(&[6]));
    let instance = net.plain(Op::InstanceNormalization, &[x, scale, bias]);
    net.output(instance);
    let (mean, variance) = (
        net.weights(&[6]),
        net.floats(&[6], &[1.0, 2.0, 0.5, 0.25, 4.0, 3.0]),
    );
    let batch = net.plain(Op::BatchNormalization, &[x, scale, bias, mean, variance]);
    net.output(batch);
    let most = net.node(Op::ArgMax, Attributes::new().with_int(Attr::Axis, 2), &[x]);
    net.output(most);
    net.check();
}

#[test]
fn reduced_precision_keeps_ports_and_stays_near() {
    let mut net = Net::new();
    let x = net.input(&[1, 8, 6, 6]);
    let w = net.weights(&[8, 8, 3, 3]);
    let conv = net.node(
        Op::Conv,
        Attributes::new().with_ints(Attr::Pads, &[1, 1, 1, 1]),
        &[x, w],
    );
    let relu = net.plain(Op::Relu, &[conv]);
    let sum = net.plain(Op::Add, &[relu, x]);
    net.output(sum);
    let judge = Judge {
        reduced: true,
        relative: 3e-3,
        ..EXACT
    };
    net.check_as(judge);
}

fn single(scale: f32, zero: i32) -> Encoding {
    Encoding {
        axis: EncodingAxis::PerTensor,
        scales: vec![scale],
        zero_points: vec![zero],
        real: DType::F32,
    }
}

#[test]
fn quantised_products_and_convolutions() {
    let mut net = Net::new();
    let x = net.input_of(DType::U8, &[1, 4, 6, 6]);
    net.encode(x, single(0.02, 128));
    let w = net.weights_of(DType::I8, &[8, 4, 3, 3]);
    net.encode(w, single(0.01, 0));
    let conv = net.node(
        Op::Conv,
        Attributes::new().with_ints(Attr::Pads, &[1, 1, 1, 1]),
        &[x, w],
    );
    let typed = net.plain(Op::Relu, &[conv]);
    net.output(typed);
    let judge = Judge { steps: 1, ..EXACT };
    net.check_as(judge);
}

#[test]
fn attention_with_a_mask() {
    let mut net = Net::new();
    let (q, k, v) = (
        net.input(&[1, 2, 5, 8]),
        net.input(&[1, 2, 7, 8]),
        net.input(&[1, 2, 7, 8]),
    );
    let mask = net.input(&[1, 1, 1, 7]);
    let out = net.plain(Op::Attention, &[q, k, v, mask]);
    net.output(out);
    net.check();
}

#[test]
fn attention_between_transposes_of_heads() {
    let mut net = Net::new();
    let perm = || Attributes::new().with_ints(Attr::Perm, &[0, 2, 1, 3]);
    let shape = net.ints(&[1, 6, 2, 4]);
    let heads: Vec<_> = (0..3)
        .map(|_| {
            let x = net.input(&[1, 6, 8]);
            let w = net.weights(&[8, 8]);
            let product = net.plain(Op::MatMul, &[x, w]);
            let split = net.plain(Op::Reshape, &[product, shape]);
            net.node(Op::Transpose, perm(), &[split])
        })
        .collect();
    let mixed = net.plain(Op::Attention, &heads);
    let back = net.node(Op::Transpose, perm(), &[mixed]);
    let shape = net.ints(&[1, 6, 8]);
    let joined = net.plain(Op::Reshape, &[back, shape]);
    let w = net.weights(&[8, 8]);
    let out = net.plain(Op::MatMul, &[joined, w]);
    net.output(out);
    // read in ONNX order as well
    let relu = net.plain(Op::Relu, &[mixed]);
    net.output(relu);
    net.check();
}

#[test]
fn a_right_side_that_was_transposed() {
    let mut net = Net::new();
    let (a, b) = (net.input(&[2, 3, 5, 7]), net.input(&[2, 3, 4, 7]));
    let turned = net.node(
        Op::Transpose,
        Attributes::new().with_ints(Attr::Perm, &[0, 1, 3, 2]),
        &[b],
    );
    let out = net.plain(Op::MatMul, &[a, turned]);
    net.output(out);
    let sum = net.plain(Op::Abs, &[turned]);
    net.output(sum);
    net.check();
}
