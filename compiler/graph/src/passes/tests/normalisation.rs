//! Layer and root-mean-square normalisation found in primitive ops.

use insta::assert_snapshot;
use polychip_ops::{Attr, AttrValue, Op};

use super::build::Build;
use super::{Options, nodes_of, proven};
use crate::{Graph, TensorId};

#[derive(Clone, Copy, PartialEq)]
enum Root {
    Div,
    Reciprocal,
    Power,
}

struct Form {
    axes: &'static [i64],
    pow: bool,
    root: Root,
    parameters: &'static [usize],
}

const PLAIN: Form = Form {
    axes: &[-1],
    pow: true,
    root: Root::Div,
    parameters: &[8],
};

fn normalised(b: &mut Build, x: TensorId, centre: bool, form: &Form) -> TensorId {
    let mean = |b: &mut Build, x: TensorId| {
        let axes = b.list(form.axes);
        b.op(Op::ReduceMean, &[x, axes])
    };
    let centred = if centre {
        let middle = mean(b, x);
        b.op(Op::Sub, &[x, middle])
    } else {
        x
    };
    let two = b.number(2.0);
    let square = if form.pow {
        b.op(Op::Pow, &[centred, two])
    } else {
        b.op(Op::Mul, &[centred, centred])
    };
    let variance = mean(b, square);
    let epsilon = b.number(1e-3);
    let sum = b.op(Op::Add, &[variance, epsilon]);
    match form.root {
        Root::Div => {
            let root = b.op(Op::Sqrt, &[sum]);
            b.op(Op::Div, &[centred, root])
        }
        Root::Reciprocal => {
            let root = b.op(Op::Sqrt, &[sum]);
            let inverse = b.op(Op::Reciprocal, &[root]);
            b.op(Op::Mul, &[centred, inverse])
        }
        Root::Power => {
            let power = b.number(-0.5);
            let inverse = b.op(Op::Pow, &[sum, power]);
            b.op(Op::Mul, &[inverse, centred])
        }
    }
}

fn graph(shape: &[usize], centre: bool, form: &Form) -> Graph {
    let mut b = Build::new();
    let x = b.input("x", shape);
    let mut t = normalised(&mut b, x, centre, form);
    if !form.parameters.is_empty() {
        let scale = b.weights("scale", form.parameters);
        t = b.op(Op::Mul, &[t, scale]);
        let bias = b.weights("bias", form.parameters);
        t = b.op(Op::Add, &[bias, t]);
    }
    b.finish(&[t])
}

#[test]
fn layer_norm_in_all_its_forms() {
    let (after, _) = proven(&graph(&[2, 3, 8], true, &PLAIN), &Options::default());
    assert_snapshot!(nodes_of(&after), @"y0 = LayerNormalization(x, scale, bias) epsilon=Float(0.001) of 9");
    for pow in [true, false] {
        for root in [Root::Div, Root::Reciprocal, Root::Power] {
            let form = Form { pow, root, ..PLAIN };
            let (after, _) = proven(&graph(&[2, 3, 8], true, &form), &Options::default());
            assert_eq!(after.node_count(), 1);
        }
    }
}

#[test]
fn layer_norm_over_two_axes_without_parameters() {
    let form = Form {
        axes: &[2, 1],
        parameters: &[],
        ..PLAIN
    };
    let (after, _) = proven(&graph(&[2, 3, 8], true, &form), &Options::default());
    assert_snapshot!(nodes_of(&after), @"y0 = LayerNormalization(x, y0.scale) axis=Int(-2) epsilon=Float(0.001) of 7");
}

#[test]
fn parameters_of_higher_rank_are_flattened() {
    let form = Form {
        parameters: &[1, 1, 8],
        ..PLAIN
    };
    let (after, _) = proven(&graph(&[2, 3, 8], true, &form), &Options::default());
    let (_, node) = after.nodes().next().unwrap();
    assert_eq!((after.node_count(), node.op), (1, Op::LayerNormalization));
    let scale = after.tensor(node.input(1).unwrap());
    assert_eq!(scale.ty.sizes(), Some(vec![8]));
}

#[test]
fn root_mean_square_norm() {
    let (after, _) = proven(&graph(&[2, 3, 8], false, &PLAIN), &Options::default());
    assert_snapshot!(nodes_of(&after), @r"
    t5 = RMSNormalization(x, scale) epsilon=Float(0.001) of 6
    y0 = Add(bias, t5)
    ");
}

#[test]
fn statistics_of_other_axes_stay() {
    for axes in [&[1][..], &[0, 2]] {
        let form = Form { axes, ..PLAIN };
        let (_, report) = proven(&graph(&[2, 3, 8], true, &form), &Options::default());
        assert_eq!(report.changes("recompose"), 0, "{axes:?}");
    }
    // a scale per row is no parameter, but the quotient is still a normalisation
    let form = Form {
        parameters: &[3, 1],
        ..PLAIN
    };
    let (after, _) = proven(&graph(&[2, 3, 8], true, &form), &Options::default());
    assert_eq!(after.node_count(), 3);
}

#[test]
fn statistics_without_kept_axes_stay() {
    let mut b = Build::new();
    let x = b.input("x", &[4, 4]);
    let axes = b.list(&[-1]);
    let drop = [(Attr::Keepdims, AttrValue::Int(0))];
    let square = b.op(Op::Mul, &[x, x]);
    let mean = b.op_with(Op::ReduceMean, &[square, axes], &drop);
    let epsilon = b.number(1e-3);
    let sum = b.op(Op::Add, &[mean, epsilon]);
    let root = b.op(Op::Sqrt, &[sum]);
    let y = b.op(Op::Div, &[x, root]);
    let (_, report) = proven(&b.finish(&[y]), &Options::default());
    assert_eq!(report.changes("recompose"), 0);
}
