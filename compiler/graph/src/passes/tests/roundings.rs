//! Random graphs with quantise-dequantise pairs at random places: folding keeps every bit.

use polychip_ops::{Attr, AttrValue, DType, Literal, Op};
use proptest::prelude::*;

use super::build::{Build, ints};
use super::{Options, canonical, execute};
use crate::{Graph, TensorId};

/// A float tensor of the graph in the making is read, computed with, and perhaps rounded.
#[derive(Clone, Debug)]
struct Step {
    op: usize,
    first: prop::sample::Index,
    second: prop::sample::Index,
    roundings: Vec<usize>,
    integers: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (
        0usize..12,
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        prop::collection::vec(0usize..5, 0..3),
        prop::bool::weighted(0.1),
    );
    let step = step.prop_map(|(op, first, second, roundings, integers)| Step {
        op,
        first,
        second,
        roundings,
        integers,
    });
    prop::collection::vec(step, 1..14)
}

/// Quantises and dequantises on one of five grids; gives the integers and the reals.
fn rounded(b: &mut Build, x: TensorId, grid: usize) -> (TensorId, TensorId) {
    let (scale, dtype, zero) = [
        (0.02f32, DType::U8, 100),
        (0.02, DType::U8, 0),
        (0.05, DType::I8, 0),
        (0.001, DType::U16, 20_000),
        (0.0235, DType::U8, 0),
    ][grid];
    let scale = b.number(scale);
    let zero = b.literal("zero", &Literal::from_ints(dtype, vec![], &[zero]).unwrap());
    let stored = b.op(Op::QuantizeLinear, &[x, scale, zero]);
    (stored, b.op(Op::DequantizeLinear, &[stored, scale, zero]))
}

/// A graph of tensors `[1, 4, 4, 4]` with roundings wherever the steps say.
fn random(steps: &[Step]) -> Graph {
    let mut b = Build::new();
    let x = b.input("x", &[1, 4, 4, 4]);
    let (_, start) = rounded(&mut b, x, 0);
    let mut values = vec![x, start];
    let mut outputs = Vec::new();
    for step in steps {
        let (x, y) = (*step.first.get(&values), *step.second.get(&values));
        let mut z = match step.op {
            0 => b.op(Op::Relu, &[x]),
            1 => {
                let (low, high) = (b.number(0.0), b.number(1.3));
                b.op(Op::Clip, &[x, low, high])
            }
            2 => b.op(Op::Sigmoid, &[x]),
            3 => b.op(Op::Add, &[x, y]),
            4 => b.op(Op::Mul, &[x, y]),
            5 => b.op_with(Op::Transpose, &[x], &[(Attr::Perm, ints(&[0, 2, 3, 1]))]),
            6 => {
                let pool = [
                    (Attr::KernelShape, ints(&[3, 3])),
                    (Attr::Pads, ints(&[1, 1, 1, 1])),
                ];
                b.op_with(Op::MaxPool, &[x], &pool)
            }
            7 => {
                let flat = b.list(&[1, 16, 4]);
                let back = b.list(&[1, 4, 4, 4]);
                let flat = b.op(Op::Reshape, &[x, flat]);
                b.op(Op::Reshape, &[flat, back])
            }
            8 => {
                let halves = b.list(&[2, 2]);
                let axis = [(Attr::Axis, AttrValue::Int(1))];
                let parts = b.ops(Op::Split, &[x, halves], &axis, 2);
                b.op_with(Op::Concat, &[parts[1], parts[0]], &axis)
            }
            9 => {
                let (half, other) = (b.list(&[0, 1]), b.list(&[2, 3]));
                let axis = [(Attr::Axis, AttrValue::Int(2))];
                let (a, c) = (
                    b.op_with(Op::Gather, &[x, half], &axis),
                    b.op_with(Op::Gather, &[y, other], &axis),
                );
                b.op_with(Op::Concat, &[a, c], &axis)
            }
            10 => b.op(Op::Max, &[x, y]),
            _ => b.op(Op::MatMul, &[x, y]),
        };
        for &grid in &step.roundings {
            let (stored, real) = rounded(&mut b, z, grid);
            if step.integers {
                outputs.push(stored);
            }
            z = real;
        }
        values.push(z);
    }
    outputs.extend(values.last());
    outputs.dedup();
    b.finish(&outputs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_roundings_keep_every_bit(steps in steps()) {
        let graph = random(&steps);
        let options = Options { recompose: false, ..Options::default() };
        let (after, _) = canonical(&graph, &options);
        let inputs = execute::inputs(&graph, 11);
        execute::assert_near(
            &execute::run(&after, &inputs, false),
            &execute::run(&graph, &inputs, false),
            0.0,
        );
    }
}
