//! BatchNormalization, factors and summands folded into the product before.

use insta::assert_snapshot;
use polychip_ops::{Attr, AttrValue, Op};

use super::build::Build;
use super::{Options, nodes_of, proven};
use crate::TensorId;

fn batch_norm(b: &mut Build, x: TensorId, channels: usize) -> TensorId {
    let scale = b.weights("scale", &[channels]);
    let bias = b.weights("bias", &[channels]);
    let mean = b.weights("mean", &[channels]);
    let variance = b.positive("variance", channels);
    b.op_with(
        Op::BatchNormalization,
        &[x, scale, bias, mean, variance],
        &[(Attr::Epsilon, AttrValue::Float(1e-3))],
    )
}

#[test]
fn batch_norm_goes_into_conv() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 4, 5, 5]);
    let w = b.weights("w", &[6, 2, 3, 3]);
    let c = b.weights("c", &[6]);
    let conv = b.op_with(Op::Conv, &[x, w, c], &[(Attr::Group, AttrValue::Int(2))]);
    let y = batch_norm(&mut b, conv, 6);
    let (after, report) = proven(&b.finish(&[y]), &Options::default());
    assert_snapshot!(nodes_of(&after), @"y0 = Conv(x, w.scaled, y0.bias) group=Int(2)");
    assert_eq!(report.changes("batch_norm"), 1);
}

#[test]
fn batch_norm_goes_into_grouped_transposed_conv() {
    let mut b = Build::new();
    let x = b.input("x", &[1, 4, 3, 3]);
    let w = b.weights("w", &[4, 3, 2, 2]);
    let conv = b.op_with(Op::ConvTranspose, &[x, w], &[(Attr::Group, AttrValue::Int(2))]);
    let y = batch_norm(&mut b, conv, 6);
    let (after, _) = proven(&b.finish(&[y]), &Options::default());
    assert_eq!(after.node_count(), 1);
}

#[test]
fn batch_norm_goes_into_gemm_either_way_round() {
    for transposed in [0, 1] {
        let mut b = Build::new();
        let x = b.input("x", &[2, 4]);
        let w = b.weights("w", if transposed == 1 { &[5, 4] } else { &[4, 5] });
        let c = b.weights("c", &[1, 5]);
        let attributes = [
            (Attr::TransB, AttrValue::Int(transposed)),
            (Attr::Alpha, AttrValue::Float(0.5)),
            (Attr::Beta, AttrValue::Float(3.0)),
        ];
        let gemm = b.op_with(Op::Gemm, &[x, w, c], &attributes);
        let y = batch_norm(&mut b, gemm, 5);
        let (after, _) = proven(&b.finish(&[y]), &Options::default());
        assert_eq!(after.node_count(), 1);
    }
}

#[test]
fn factors_and_summands_go_into_conv() {
    let mut b = Build::new();
    let x = b.input("x", &[1, 3, 4, 4]);
    let w = b.weights("w", &[5, 3, 1, 1]);
    let mut t = b.op(Op::Conv, &[x, w]);
    let (factor, summand) = (
        b.weights("factor", &[5, 1, 1]),
        b.weights("summand", &[1, 5, 1, 1]),
    );
    let (half, two) = (b.number(0.5), b.number(2.0));
    t = b.op(Op::Mul, &[factor, t]);
    t = b.op(Op::Add, &[t, summand]);
    t = b.op(Op::Sub, &[t, half]);
    t = b.op(Op::Div, &[t, two]);
    let (after, report) = proven(&b.finish(&[t]), &Options::default());
    assert_snapshot!(nodes_of(&after), @"y0 = Conv(x, w.scaled.scaled, y0.bias)");
    assert_eq!(report.changes("batch_norm"), 4);
}

#[test]
fn factors_and_summands_go_into_a_lone_batch_norm() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 5, 4, 4]);
    let mut t = batch_norm(&mut b, x, 5);
    let (factor, summand) = (
        b.weights("factor", &[5, 1, 1]),
        b.weights("summand", &[1, 5, 1, 1]),
    );
    t = b.op(Op::Mul, &[t, factor]);
    t = b.op(Op::Add, &[summand, t]);
    t = b.op(Op::Sum, &[t, x]);
    let (after, _) = proven(&b.finish(&[t]), &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    t2 = BatchNormalization(x, t2.scale, t2.bias, mean, variance) epsilon=Float(0.001)
    y0 = Add(t2, x)
    ");
}

#[test]
fn a_product_that_others_read_is_left_alone() {
    let mut b = Build::new();
    let x = b.input("x", &[1, 3, 4, 4]);
    let w = b.weights("w", &[5, 3, 1, 1]);
    let conv = b.op(Op::Conv, &[x, w]);
    let y = batch_norm(&mut b, conv, 5);
    let relu = b.op(Op::Relu, &[conv]);
    // along the last axis, not the channels
    let w = b.weights("v", &[4, 3, 1, 1]);
    let conv = b.op(Op::Conv, &[x, w]);
    let row = b.weights("row", &[4]);
    let z = b.op(Op::Mul, &[conv, row]);
    let alone = batch_norm(&mut b, x, 3);
    let (after, report) = proven(&b.finish(&[y, relu, z, alone]), &Options::default());
    assert_eq!(report.changes("batch_norm"), 0);
    assert_eq!(after.node_count(), 6);
}
