//! Attention found in products and a softmax.

use insta::assert_snapshot;
use polychip_ops::{Attr, AttrValue, Op};

use super::build::{Build, ints};
use super::{Options, nodes_of, proven};
use crate::TensorId;

fn core(
    b: &mut Build,
    q: TensorId,
    kt: TensorId,
    v: TensorId,
    scale: Option<f32>,
    mask: Option<TensorId>,
) -> TensorId {
    let mut t = b.op(Op::MatMul, &[q, kt]);
    if let Some(scale) = scale {
        let scale = b.number(scale);
        t = b.op(Op::Div, &[t, scale]);
    }
    if let Some(mask) = mask {
        t = b.op(Op::Add, &[t, mask]);
    }
    t = b.op_with(Op::Softmax, &[t], &[(Attr::Axis, AttrValue::Int(-1))]);
    b.op(Op::MatMul, &[t, v])
}

#[test]
fn heads_of_a_transformer() {
    let mut b = Build::new();
    let mask = b.input("mask", &[2, 1, 1, 5]);
    let heads = |b: &mut Build, name: &str, perm: &[i64]| {
        let x = b.input(name, &[2, 5, 12]);
        let shape = b.list(&[2, 5, 3, 4]);
        let split = b.op(Op::Reshape, &[x, shape]);
        b.op_with(Op::Transpose, &[split], &[(Attr::Perm, ints(perm))])
    };
    let q = heads(&mut b, "q", &[0, 2, 1, 3]);
    let kt = heads(&mut b, "k", &[0, 2, 3, 1]);
    let v = heads(&mut b, "v", &[0, 2, 1, 3]);
    let y = core(&mut b, q, kt, v, Some(2.0), Some(mask));
    let (after, _) = proven(&b.finish(&[y]), &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    t0 = Reshape(q, [2, 5, 3, 4])
    t1 = Transpose(t0) perm=Ints([0, 2, 1, 3])
    t2 = Reshape(k, [2, 5, 3, 4])
    t2.key = Transpose(t2) perm=Ints([0, 2, 1, 3])
    t4 = Reshape(v, [2, 5, 3, 4])
    t5 = Transpose(t4) perm=Ints([0, 2, 1, 3])
    y0 = Attention(t1, t2.key, t5, mask) scale=Float(0.5) of 6
    ");
}

#[test]
fn scales_on_both_sides_and_longer_keys() {
    let mut b = Build::new();
    let q = b.input("q", &[1, 2, 3, 4]);
    let k = b.input("k", &[1, 2, 6, 4]);
    let v = b.input("v", &[1, 2, 6, 5]);
    let root = b.number(0.7);
    let q = b.op(Op::Mul, &[q, root]);
    let kt = b.op_with(Op::Transpose, &[k], &[(Attr::Perm, ints(&[0, 1, 3, 2]))]);
    let kt = b.op(Op::Mul, &[kt, root]);
    let y = core(&mut b, q, kt, v, None, None);
    let (after, _) = proven(&b.finish(&[y]), &Options::default());
    assert_snapshot!(nodes_of(&after), @"y0 = Attention(q, k, v) scale=Float(0.48999998) of 6");
}

#[test]
fn one_tensor_may_be_all_three() {
    let mut b = Build::new();
    let x = b.input("x", &[1, 2, 3, 4]);
    let kt = b.op_with(Op::Transpose, &[x], &[(Attr::Perm, ints(&[0, 1, 3, 2]))]);
    let y = core(&mut b, x, kt, x, Some(2.0), None);
    let (after, _) = proven(&b.finish(&[y]), &Options::default());
    assert_eq!(
        after.nodes().map(|(_, node)| node.op).collect::<Vec<_>>(),
        [Op::Attention]
    );
}

#[test]
fn what_attention_cannot_say_stays() {
    // heads that are broadcast, a softmax over queries, weights that are given back, a mask per key only
    for case in 0..4 {
        let mut b = Build::new();
        let q = b.input("q", &[1, 2, 3, 4]);
        let k = b.input("k", &[1, if case == 0 { 1 } else { 2 }, 3, 4]);
        let v = b.input("v", &[1, 2, 3, 4]);
        let mask = b.input("mask", if case == 3 { &[3] } else { &[3, 3] });
        let kt = b.op_with(Op::Transpose, &[k], &[(Attr::Perm, ints(&[0, 1, 3, 2]))]);
        let mut t = b.op(Op::MatMul, &[q, kt]);
        t = b.op(Op::Add, &[t, mask]);
        let axis = if case == 1 { -2 } else { -1 };
        let weights = b.op_with(Op::Softmax, &[t], &[(Attr::Axis, AttrValue::Int(axis))]);
        let y = b.op(Op::MatMul, &[weights, v]);
        let outputs = if case == 2 { vec![y, weights] } else { vec![y] };
        let (_, report) = proven(&b.finish(&outputs), &Options::default());
        assert_eq!(report.changes("recompose"), 0, "case {case}");
    }
}
