//! Convolutions, pools and what stands behind them.

use polychip_graph::TensorId;
use polychip_ops::{Attr, AttrValue, Attributes, DType, Literal, Op};

use crate::net::{EXACT, Judge, Net};
use crate::{Test, tests};

/// What is judged here.
pub(crate) const TESTS: &[Test] = &tests![
    a_residual_block_in_both_layouts_of_ports,
    a_first_layer_depthwise_and_a_gate,
    groups_and_one_spatial_axis,
    transposed_convolutions,
    pools_over_windows_and_images,
    weights_from_a_filling_node,
    long_launches_in_shares,
];

fn conv(net: &mut Net, x: TensorId, sizes: [usize; 4], stride: i64, groups: i64) -> TensorId {
    let (w, b) = (net.weights(&sizes), net.weights(&sizes[..1]));
    let pad = (sizes[2] as i64 - 1) / 2;
    let attributes = Attributes::new()
        .with_ints(Attr::Pads, &[pad, pad, pad, pad])
        .with_ints(Attr::Strides, &[stride, stride])
        .with_int(Attr::Group, groups);
    net.node(Op::Conv, attributes, &[x, w, b])
}

fn a_residual_block_in_both_layouts_of_ports() {
    for channels_last in [false, true] {
        let mut net = Net::new();
        let x = net.input(&[1, 8, 7, 9]);
        let first = conv(&mut net, x, [16, 8, 3, 3], 1, 1);
        let relu = net.plain(Op::Relu, &[first]);
        let second = conv(&mut net, relu, [8, 16, 1, 1], 1, 1);
        let sum = net.plain(Op::Add, &[second, x]);
        let out = net.plain(Op::Relu, &[sum]);
        net.output(out);
        net.check_as(Judge {
            channels_last,
            ..EXACT
        });
    }
}

fn a_first_layer_depthwise_and_a_gate() {
    let mut net = Net::new();
    let x = net.input(&[2, 3, 11, 13]);
    let first = conv(&mut net, x, [8, 3, 3, 3], 2, 1);
    let gate = net.plain(Op::Sigmoid, &[first]);
    let silu = net.plain(Op::Mul, &[first, gate]);
    let depthwise = conv(&mut net, silu, [8, 1, 3, 3], 1, 8);
    let pooled = net.plain(Op::GlobalAveragePool, &[depthwise]);
    let squeezed = conv(&mut net, pooled, [8, 8, 1, 1], 1, 1);
    let scale = net.plain(Op::HardSigmoid, &[squeezed]);
    let out = net.plain(Op::Mul, &[depthwise, scale]);
    net.output(out);
    net.check();
}

fn groups_and_one_spatial_axis() {
    let mut net = Net::new();
    let x = net.input(&[1, 6, 5, 5]);
    let grouped = conv(&mut net, x, [9, 2, 3, 3], 1, 3);
    net.output(grouped);
    let line = net.input(&[2, 4, 17]);
    let w = net.weights(&[5, 4, 3]);
    let attributes = Attributes::new().with_ints(Attr::Dilations, &[2]);
    let one = net.node(Op::Conv, attributes, &[line, w]);
    net.output(one);
    net.check();
}

fn transposed_convolutions() {
    let mut net = Net::new();
    let x = net.input(&[1, 4, 5, 6]);
    let w = net.weights(&[4, 3, 3, 3]);
    let attributes = Attributes::new()
        .with_ints(Attr::Strides, &[2, 2])
        .with_ints(Attr::Pads, &[1, 1, 1, 1])
        .with_ints(Attr::OutputPadding, &[1, 0]);
    let out = net.node(Op::ConvTranspose, attributes, &[x, w]);
    net.output(out);
    net.check();
}

fn pools_over_windows_and_images() {
    let mut net = Net::new();
    let x = net.input(&[1, 6, 9, 8]);
    let window = Attributes::new()
        .with_ints(Attr::KernelShape, &[3, 3])
        .with_ints(Attr::Strides, &[2, 2])
        .with_ints(Attr::Pads, &[1, 1, 1, 1]);
    let max = net.node(Op::MaxPool, window.clone(), &[x]);
    let mean = net.node(Op::AveragePool, window.with_int(Attr::CountIncludePad, 1), &[x]);
    let whole = net.plain(Op::GlobalMaxPool, &[x]);
    for out in [max, mean, whole] {
        net.output(out);
    }
    net.check();
}

fn weights_from_a_filling_node() {
    let mut net = Net::new();
    let x = net.input(&[1, 3, 5, 5]);
    let shape = net.ints(&[8, 3, 3, 3]);
    let value = Literal::new(DType::F32, vec![1], 0.25f32.to_le_bytes().to_vec()).unwrap();
    let w = net.node(
        Op::ConstantOfShape,
        Attributes::new().with(Attr::Value, AttrValue::Tensor(value)),
        &[shape],
    );
    let out = net.plain(Op::Conv, &[x, w]);
    net.output(out);
    net.check();
}

fn long_launches_in_shares() {
    // long enough for a driver in software: some images, and some rows, at a time
    let mut net = Net::new();
    let x = net.input(&[4, 32, 16, 16]);
    let copy = net.plain(Op::Neg, &[x]);
    let first = conv(&mut net, copy, [64, 32, 3, 3], 1, 1);
    let relu = net.plain(Op::Relu, &[first]);
    let second = conv(&mut net, relu, [32, 64, 3, 3], 1, 1);
    let sum = net.plain(Op::Add, &[second, copy]);
    let out = net.plain(Op::Abs, &[sum]);
    let pooled = net.plain(Op::GlobalAveragePool, &[out]);
    net.output(pooled);
    let rows = net.input(&[512, 128]);
    let rows = net.plain(Op::Neg, &[rows]);
    let (w, b) = (net.weights(&[128, 256]), net.weights(&[256]));
    let product = net.plain(Op::MatMul, &[rows, w]);
    let sum = net.plain(Op::Add, &[product, b]);
    let out = net.node(Op::Softmax, Attributes::new().with_int(Attr::Axis, 1), &[sum]);
    net.output(out);
    net.check();
}
