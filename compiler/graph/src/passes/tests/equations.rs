//! Einsum in steps.

use polychip_ops::{Attr, AttrValue, Dim, Op};

use super::build::Build;
use super::{Options, canonical, nodes_of, proven};
use crate::Graph;

fn graph(equation: &str, shapes: &[&[usize]]) -> Graph {
    let mut b = Build::new();
    let inputs: Vec<_> = shapes
        .iter()
        .enumerate()
        .map(|(index, shape)| b.input(&format!("x{index}"), shape))
        .collect();
    let attributes = [(Attr::Equation, AttrValue::String(equation.into()))];
    let y = b.op_with(Op::Einsum, &inputs, &attributes);
    b.finish(&[y])
}

/// The ops that are left of an equation, and how many labels the longest result of a product has.
fn steps(equation: &str, shapes: &[&[usize]]) -> (Vec<Op>, usize) {
    let (after, _) = proven(&graph(equation, shapes), &Options::default());
    let products = after.nodes().filter(|(_, node)| node.op == Op::Einsum);
    let ranks = products.filter_map(|(_, node)| after.tensor(node.output(0)?).ty.rank());
    let most = ranks.max().unwrap_or(0);
    (after.nodes().map(|(_, node)| node.op).collect(), most)
}

#[test]
fn several_operands_are_multiplied_two_at_a_time() {
    use Op::Einsum;
    assert_eq!(
        steps("ij,jk,kl->il", &[&[3, 4], &[4, 5], &[5, 6]]),
        (vec![Einsum; 2], 2)
    );
    // not the first two, which share no label
    assert_eq!(
        steps("ij,kl,jk->il", &[&[3, 4], &[5, 6], &[4, 5]]),
        (vec![Einsum; 2], 2)
    );
    assert_eq!(steps("a,ab,b->a", &[&[3], &[3, 4], &[4]]).0, [Einsum; 2]);
    assert_eq!(steps("i,j,k->kij", &[&[2], &[3], &[4]]), (vec![Einsum; 2], 3));
    assert_eq!(
        steps("bn,anm,bm->ba", &[&[2, 3], &[4, 3, 5], &[2, 5]]).0,
        [Einsum; 2]
    );
    assert_eq!(
        steps("ab,bc,cd,de->ea", &[&[2, 3], &[3, 4], &[4, 2], &[2, 5]]),
        (vec![Einsum; 3], 2)
    );
}

#[test]
fn what_one_operand_alone_has_is_summed_first() {
    use Op::{Einsum, ReduceSum, Transpose};
    assert_eq!(steps("ij->i", &[&[3, 4]]).0, [ReduceSum]);
    assert_eq!(steps("ij->", &[&[3, 4]]).0, [ReduceSum]);
    assert_eq!(steps("abc->cb", &[&[2, 3, 4]]).0, [ReduceSum, Transpose]);
    assert_eq!(steps("ij->ji", &[&[3, 4]]).0, [Transpose]);
    assert_eq!(
        steps("ij,kl->ik", &[&[3, 4], &[2, 5]]).0,
        [ReduceSum, ReduceSum, Einsum]
    );
}

#[test]
fn ellipses_are_written_out() {
    for (equation, shapes, after) in [
        ("...i,ij->...j", &[&[2, 3, 4][..], &[4, 5]][..], "abi,ij->abj"),
        ("...ij,...jk->...ik", &[&[2, 3, 4], &[2, 4, 5]], "aij,ajk->aik"),
        ("ij...,jk...", &[&[3, 4, 2], &[4, 5, 2]], "ija,jka->aik"),
    ] {
        let (graph, _) = proven(&graph(equation, shapes), &Options::default());
        let (_, node) = graph.nodes().next().unwrap();
        assert_eq!(node.attributes.str(Attr::Equation), Some(after));
        assert_eq!(graph.node_count(), 1);
    }
}

#[test]
fn diagonals_and_repeated_axes_stay() {
    for (equation, shapes) in [
        ("ii->i", &[&[3, 3][..]][..]),
        ("ii->", &[&[3, 3]]),
        ("...i,...i->...", &[&[1, 4], &[3, 4]]),
        ("ij,jk->ik", &[&[3, 4], &[4, 5]]),
    ] {
        let (after, report) = proven(&graph(equation, shapes), &Options::default());
        assert_eq!(report.changes("einsum"), 0, "{equation}: {}", nodes_of(&after));
    }
}

#[test]
fn sizes_may_be_open() {
    let mut graph = graph("ij,jk,kl->il", &[&[3, 4], &[4, 5], &[5, 6]]);
    let inputs: Vec<_> = graph.inputs.clone();
    for (input, shape) in inputs.iter().zip([["n", "m"], ["m", "k"], ["k", "l"]]) {
        graph.tensor_mut(*input).ty.shape = Some(shape.map(Dim::symbol).into());
    }
    let (after, report) = canonical(&graph, &Options::default());
    assert_eq!((after.node_count(), report.changes("einsum")), (2, 1));
    // two sizes that nobody knows may differ
    graph.tensor_mut(inputs[1]).ty.shape = Some(vec![Dim::Unknown, Dim::Unknown]);
    graph.tensor_mut(inputs[2]).ty.shape = Some(vec![Dim::Unknown, Dim::Unknown]);
    let (_, report) = canonical(&graph, &Options::default());
    assert_eq!(report.changes("einsum"), 0);
}
