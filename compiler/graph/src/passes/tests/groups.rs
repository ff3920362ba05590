//! Fusion groups: which nodes, and that they are convex with one result.

use insta::assert_snapshot;
use polychip_ops::Op;

use super::build::Build;
use super::{Options, canonical, listing, proven};
use crate::{Graph, TensorId};

fn assert_convex(graph: &Graph) {
    for group in &graph.groups {
        let (_, inner) = group.nodes.split_last().unwrap();
        for &id in inner {
            for output in graph.node(id).writes() {
                let readers = graph.consumers(output);
                assert!(!graph.is_output(output) && readers.len() == 1);
                assert!(group.nodes.contains(&readers[0]));
            }
        }
    }
}

#[test]
fn convolutions_take_activation_and_residual_along() {
    let mut b = Build::new();
    let x = b.input("x", &[1, 4, 6, 6]);
    let w = b.weights("w", &[4, 4, 1, 1]);
    let first = b.op(Op::Conv, &[x, w]);
    let gate = b.op(Op::Sigmoid, &[first]);
    let first = b.op(Op::Mul, &[first, gate]);
    let second = b.op(Op::Conv, &[first, w]);
    let sum = b.op(Op::Add, &[second, first]);
    let relu = b.op(Op::Relu, &[sum]);
    let third = b.op(Op::Conv, &[relu, w]);
    let (low, high) = (b.number(0.0), b.number(6.0));
    let y = b.op(Op::Clip, &[third, low, high]);
    let fourth = b.op(Op::Conv, &[relu, w]);
    let z = b.op(Op::Tanh, &[fourth]);
    let (after, _) = proven(&b.finish(&[y, z, fourth]), &Options::default());
    assert_convex(&after);
    assert_snapshot!(listing(&after), @r"
    t0 = Conv(x, w)
    t2 = Swish(t0) of 2
    t3 = Conv(t2, w)
    t4 = Add(t3, t2)
    t5 = Relu(t4)
    t6 = Conv(t5, w)
    y0 = Clip(t6, 0, 6)
    y2 = Conv(t5, w)
    y1 = Tanh(y2)
    conv [n0 n1]
    conv [n2 n3 n4]
    conv [n5 n6]
    ");
}

#[test]
fn products_leave_the_residual_to_the_normalisation() {
    let mut b = Build::new();
    let x = b.input("x", &[2, 3, 4]);
    let w = b.weights("w", &[4, 4]);
    let c = b.weights("c", &[4]);
    let scale = b.weights("scale", &[4]);
    let layer = |b: &mut Build, x: TensorId| {
        let t = b.op(Op::MatMul, &[x, w]);
        let t = b.op(Op::Add, &[c, t]);
        let t = b.op(Op::Gelu, &[t]);
        let t = b.op(Op::MatMul, &[t, w]);
        let t = b.op(Op::Add, &[t, c]);
        let t = b.op(Op::Add, &[t, x]);
        b.op(Op::LayerNormalization, &[t, scale])
    };
    let t = layer(&mut b, x);
    // before the last sum: somebody else reads it, too
    let t = b.op(Op::MatMul, &[t, w]);
    let sum = b.op(Op::Add, &[t, x]);
    let y = b.op(Op::LayerNormalization, &[sum, scale]);
    let (after, _) = proven(&b.finish(&[y, sum]), &Options::default());
    assert_convex(&after);
    assert_snapshot!(listing(&after), @r"
    t0 = MatMul(x, w)
    t1 = Add(c, t0)
    t2 = Gelu(t1)
    t3 = MatMul(t2, w)
    t4 = Add(t3, c)
    t5 = Add(t4, x)
    t6 = LayerNormalization(t5, scale)
    t7 = MatMul(t6, w)
    y1 = Add(t7, x)
    y0 = LayerNormalization(y1, scale)
    matmul [n0 n1 n2]
    matmul [n3 n4]
    normalisation [n5 n6]
    matmul [n7 n8]
    ");
}

#[test]
fn elementwise_chains() {
    let mut b = Build::new();
    let (x, row) = (b.input("x", &[3, 4]), b.input("row", &[4]));
    let t = b.op(Op::Abs, &[row]);
    let t = b.op(Op::Sqrt, &[t]);
    // wider than what goes in
    let t = b.op(Op::Mul, &[t, x]);
    let t = b.op(Op::Exp, &[t]);
    let flat = b.list(&[-1]);
    let t = b.op(Op::Reshape, &[t, flat]);
    let y = b.op(Op::Neg, &[t]);
    let graph = b.finish(&[y]);
    let (after, _) = proven(&graph, &Options::default());
    assert_convex(&after);
    assert_snapshot!(listing(&after), @r"
    t0 = Abs(row)
    t1 = Sqrt(t0)
    t2 = Mul(t1, x)
    t3 = Exp(t2)
    t4 = Reshape(t3, [-1])
    y0 = Neg(t4)
    elementwise [n0 n1]
    elementwise [n2 n3]
    ");
    let options = Options {
        groups: false,
        ..Options::default()
    };
    assert!(canonical(&graph, &options).0.groups.is_empty());
}
