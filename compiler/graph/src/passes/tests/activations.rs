//! Activations found in primitive ops, in the orders in which exporters write them.

use polychip_ops::{Attr, AttrValue, Op};

use super::build::Build;
use super::{Options, proven};
use crate::TensorId;

/// Proves that the formula becomes this one op, with these attributes, and that it stays as it is
/// where recomposition is off or an inner tensor is read elsewhere.
fn becomes(op: Op, attributes: &str, formula: impl Fn(&mut Build, TensorId) -> TensorId) {
    let mut b = Build::new();
    let x = b.input("x", &[3, 7]);
    let doubled = b.op(Op::Add, &[x, x]);
    let y = formula(&mut b, doubled);
    let graph = b.finish(&[y]);
    let (after, _) = proven(&graph, &Options::default());
    let nodes: Vec<_> = after.nodes().map(|(_, node)| node).collect();
    assert_eq!(
        nodes.iter().map(|node| node.op).collect::<Vec<_>>(),
        [Op::Add, op]
    );
    let have: Vec<String> = nodes[1]
        .attributes
        .iter()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    assert_eq!(have.join(" "), attributes);
    assert!(nodes[1].decomposition.as_ref().unwrap().node_count() > 1);
    let options = Options {
        recompose: false,
        ..Options::default()
    };
    assert!(proven(&graph, &options).0.nodes().all(|(_, node)| node.op != op));
    for inner in graph.node_ids().into_iter().skip(1) {
        let output = graph.node(inner).output(0).unwrap();
        if !graph.is_output(output) {
            let mut read = graph.clone();
            read.outputs.push(output);
            let (after, _) = proven(&read, &Options::default());
            assert!(
                after.nodes().all(|(_, node)| node.op != op),
                "{inner} is read elsewhere"
            );
        }
    }
}

#[test]
fn gelu_by_erf() {
    becomes(Op::Gelu, "", |b, x| {
        let (root, one, half) = (b.number(std::f32::consts::SQRT_2), b.number(1.0), b.number(0.5));
        let u = b.op(Op::Div, &[x, root]);
        let erf = b.op(Op::Erf, &[u]);
        let sum = b.op(Op::Add, &[erf, one]);
        let t = b.op(Op::Mul, &[x, sum]);
        b.op(Op::Mul, &[t, half])
    });
    becomes(Op::Gelu, "", |b, x| {
        let (root, one, half) = (
            b.number(std::f32::consts::FRAC_1_SQRT_2),
            b.number(1.0),
            b.number(0.5),
        );
        let u = b.op(Op::Mul, &[root, x]);
        let erf = b.op(Op::Erf, &[u]);
        let sum = b.op(Op::Add, &[one, erf]);
        let t = b.op(Op::Mul, &[half, x]);
        b.op(Op::Mul, &[t, sum])
    });
    becomes(Op::Gelu, "", |b, x| {
        let (root, one, two) = (b.number(std::f32::consts::SQRT_2), b.number(1.0), b.number(2.0));
        let u = b.op(Op::Div, &[x, root]);
        let erf = b.op(Op::Erf, &[u]);
        let sum = b.op(Op::Add, &[erf, one]);
        let t = b.op(Op::Div, &[sum, two]);
        b.op(Op::Mul, &[t, x])
    });
}

#[test]
fn gelu_by_tanh() {
    let tanh = |b: &mut Build, x: TensorId, cube: TensorId, early: bool| {
        let (c, slope, one, half) = (
            b.number(0.044715),
            b.number(0.797_884_6),
            b.number(1.0),
            b.number(0.5),
        );
        let t = b.op(Op::Mul, &[c, cube]);
        let t = b.op(Op::Add, &[x, t]);
        let t = b.op(Op::Mul, &[slope, t]);
        let t = b.op(Op::Tanh, &[t]);
        let t = b.op(Op::Add, &[one, t]);
        if early {
            let left = b.op(Op::Mul, &[x, half]);
            b.op(Op::Mul, &[left, t])
        } else {
            let t = b.op(Op::Mul, &[x, t]);
            b.op(Op::Mul, &[half, t])
        }
    };
    becomes(Op::Gelu, "approximate=String(\"tanh\")", |b, x| {
        let three = b.number(3.0);
        let cube = b.op(Op::Pow, &[x, three]);
        tanh(b, x, cube, true)
    });
    becomes(Op::Gelu, "approximate=String(\"tanh\")", |b, x| {
        let square = b.op(Op::Mul, &[x, x]);
        let cube = b.op(Op::Mul, &[square, x]);
        tanh(b, x, cube, false)
    });
}

#[test]
fn swish_with_and_without_slope() {
    becomes(Op::Swish, "", |b, x| {
        let gate = b.op(Op::Sigmoid, &[x]);
        b.op(Op::Mul, &[x, gate])
    });
    becomes(Op::Swish, "alpha=Float(1.702)", |b, x| {
        let slope = b.number(1.702);
        let u = b.op(Op::Mul, &[x, slope]);
        let gate = b.op(Op::Sigmoid, &[u]);
        b.op(Op::Mul, &[gate, x])
    });
}

#[test]
fn hard_activations() {
    let clipped = |b: &mut Build, x: TensorId| {
        let (three, zero, six) = (b.number(3.0), b.number(0.0), b.number(6.0));
        let t = b.op(Op::Add, &[x, three]);
        b.op(Op::Clip, &[t, zero, six])
    };
    becomes(Op::HardSwish, "", |b, x| {
        let gate = clipped(b, x);
        let six = b.number(6.0);
        let t = b.op(Op::Mul, &[x, gate]);
        b.op(Op::Div, &[t, six])
    });
    becomes(Op::HardSwish, "", |b, x| {
        let gate = clipped(b, x);
        let sixth = b.number(1.0 / 6.0);
        let t = b.op(Op::Mul, &[gate, sixth]);
        b.op(Op::Mul, &[t, x])
    });
    becomes(Op::HardSwish, "", |b, x| {
        let slope = [(Attr::Alpha, AttrValue::Float(1.0 / 6.0))];
        let gate = b.op_with(Op::HardSigmoid, &[x], &slope);
        b.op(Op::Mul, &[x, gate])
    });
    becomes(
        Op::HardSigmoid,
        "alpha=Float(0.16666667) beta=Float(0.5)",
        |b, x| {
            let gate = clipped(b, x);
            let six = b.number(6.0);
            b.op(Op::Div, &[gate, six])
        },
    );
}

#[test]
fn softplus_and_mish() {
    let softplus = |b: &mut Build, x: TensorId| {
        let one = b.number(1.0);
        let t = b.op(Op::Exp, &[x]);
        let t = b.op(Op::Add, &[one, t]);
        b.op(Op::Log, &[t])
    };
    becomes(Op::Softplus, "", softplus);
    becomes(Op::Mish, "", |b, x| {
        let soft = b.op(Op::Softplus, &[x]);
        let gate = b.op(Op::Tanh, &[soft]);
        b.op(Op::Mul, &[x, gate])
    });
    let mut b = Build::new();
    let x = b.input("x", &[3]);
    let soft = softplus(&mut b, x);
    let gate = b.op(Op::Tanh, &[soft]);
    let y = b.op(Op::Mul, &[gate, x]);
    let (after, _) = proven(&b.finish(&[y]), &Options::default());
    assert_eq!(
        after.nodes().map(|(_, node)| node.op).collect::<Vec<_>>(),
        [Op::Mish]
    );
}

#[test]
fn constants_that_differ_are_something_else() {
    let mut b = Build::new();
    let x = b.input("x", &[5]);
    let (root, one, half) = (b.number(1.5), b.number(1.0), b.number(0.5));
    let u = b.op(Op::Div, &[x, root]);
    let erf = b.op(Op::Erf, &[u]);
    let sum = b.op(Op::Add, &[erf, one]);
    let t = b.op(Op::Mul, &[x, sum]);
    let y = b.op(Op::Mul, &[t, half]);
    let other = b.input("other", &[5]);
    let gate = b.op(Op::Sigmoid, &[other]);
    let z = b.op(Op::Mul, &[x, gate]);
    let (after, report) = proven(&b.finish(&[y, z]), &Options::default());
    assert_eq!((after.node_count(), report.changes("recompose")), (7, 0));
}
