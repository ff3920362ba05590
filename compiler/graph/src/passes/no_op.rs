//! Removes nodes that give their input unchanged, and merges neighbours that undo or repeat each other.
//!
//! Gone afterwards: Identity; Dropout outside training; Cast to the same type; Reshape, Flatten,
//! Squeeze, Unsqueeze, Expand, Tile, Slice and Pad that change nothing; Transpose that keeps the order;
//! Concat, Sum, Max, Min and Mean of one tensor; Add 0, Sub 0, Mul 1, Div 1; Clip of integers without limits.
//! Merged: Transpose of Transpose, Reshape of a reshaping op, Relu of Relu. A Sum of two is an Add. A Gemm whose beta is
//! zero reads no C.
//!
//! Invariants:
//! 1. An output of the graph keeps its name: the tensor before the removed node takes it over, unless
//!    that one is an input, a constant or an output itself; then the node stays.
//! 2. A shape that is only a bound is never taken for equal.
//! 3. A node that rounds to another encoding than it reads stays.

use polychip_ops::operator::{Gemm, Transpose};
use polychip_ops::{Attr, Op};

use super::pattern;
use crate::{Error, Graph, Node, NodeId, TensorId};

/// Runs the pass; returns the number of changes.
pub(super) fn run(graph: &mut Graph) -> Result<usize, Error> {
    let mut changes = 0;
    for id in graph.node_ids() {
        if graph.find_node(id).is_none() {
            continue;
        }
        let merged = rename(graph, id) || merge(graph, id);
        let source = source(graph, graph.node(id));
        let removed = source.is_some_and(|source| bypass(graph, id, source));
        changes += usize::from(merged) + usize::from(removed);
    }
    Ok(changes)
}

/// The input that the node gives unchanged.
fn source(graph: &Graph, node: &Node) -> Option<TensorId> {
    let x = node.input(0)?;
    let y = node.output(0)?;
    if node.outputs.iter().skip(1).any(Option::is_some) {
        return None;
    }
    let single = node.inputs.len() == 1;
    let same_dtype = graph.tensor(x).typed
        && graph.tensor(y).typed
        && graph.tensor(x).ty.dtype == graph.tensor(y).ty.dtype;
    let same_shape = pattern::same_shape(graph, x, y);
    let constant = |index: usize| node.input(index).and_then(|input| pattern::ints(graph, input));
    let unchanged = match node.op {
        Op::Identity => return Some(x),
        Op::Dropout => {
            return match node.input(2) {
                None => Some(x),
                Some(training) => (pattern::scalar(graph, training)? == 0.0).then_some(x),
            };
        }
        Op::Cast | Op::CastLike => same_dtype,
        Op::Reshape | Op::Flatten | Op::Squeeze | Op::Unsqueeze | Op::Expand | Op::Tile => same_shape,
        Op::Slice => {
            let forward = |steps: Vec<i64>| steps.iter().all(|&step| step > 0);
            same_shape && (node.input(4).is_none() || constant(4).is_some_and(forward))
        }
        Op::Pad => same_shape && constant(1).is_some_and(|pads| pads.iter().all(|&pad| pad == 0)),
        Op::Transpose => permutation(graph, node)?
            .into_iter()
            .eq(0..graph.tensor(x).ty.rank()?),
        Op::Concat | Op::Sum | Op::Max | Op::Min | Op::Mean => single,
        // the limits of floats that are left out are the largest finite ones
        Op::Clip => {
            !graph.tensor(x).ty.dtype.is_float()
                && (single || node.inputs.iter().skip(1).all(Option::is_none))
        }
        Op::Add | Op::Mul => return neutral(graph, node, y),
        Op::Sub => same_shape && pattern::scalar(graph, node.input(1)?)? == 0.0,
        Op::Div | Op::Pow => same_dtype && same_shape && pattern::scalar(graph, node.input(1)?)? == 1.0,
        _ => false,
    };
    unchanged.then_some(x)
}

/// The operand of a sum with zero or a product with one.
fn neutral(graph: &Graph, node: &Node, y: TensorId) -> Option<TensorId> {
    let (x, value) = pattern::with_scalar(graph, node)?;
    let unit = if node.op == Op::Add { 0.0 } else { 1.0 };
    (value == unit && pattern::same_shape(graph, x, y)).then_some(x)
}

fn permutation(graph: &Graph, node: &Node) -> Option<Vec<usize>> {
    let rank = graph.tensor(node.input(0)?).ty.rank()?;
    match node.typed::<Transpose>().ok()?.perm {
        Some(perm) if perm.len() == rank => polychip_ops::axis::normalise_all(&perm, rank),
        Some(_) => None,
        None => Some((0..rank).rev().collect()),
    }
}

/// Whether the integers of two tensors encode the same reals, over the same range.
fn same_grid(graph: &Graph, a: TensorId, b: TensorId) -> bool {
    let (a, b) = (graph.tensor(a), graph.tensor(b));
    a.encoding == b.encoding && (a.encoding.is_none() || a.ty.dtype == b.ty.dtype)
}

/// Takes the node out and connects its readers with `from`.
pub(super) fn bypass(graph: &mut Graph, id: NodeId, from: TensorId) -> bool {
    let Some(to) = graph.node(id).output(0) else {
        return false;
    };
    if !same_grid(graph, from, to) {
        return false;
    }
    if !graph.is_output(to) {
        graph.remove_node(id);
        graph.replace_uses(to, from);
        return true;
    }
    let Some(producer) = graph.producer(from).filter(|_| !graph.is_output(from)) else {
        return false;
    };
    graph.remove_node(id);
    graph.edit_node(producer, |node| {
        for output in node.outputs.iter_mut().filter(|output| **output == Some(from)) {
            *output = Some(to);
        }
    });
    graph.replace_uses(from, to);
    if graph.tensor(from).typed && !graph.tensor(to).typed {
        let source = graph.tensor(from).clone();
        let name = std::mem::take(&mut graph.tensor_mut(to).name);
        *graph.tensor_mut(to) = crate::Tensor { name, ..source };
    }
    true
}

/// Gives a node that is a special case the simpler op's name.
fn rename(graph: &mut Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    if node.input(2).is_some() && node.typed::<Gemm>().is_ok_and(|gemm| gemm.beta == 0.0) {
        // nothing comes of C, not of an infinity in it either
        graph.edit_node(id, |node| node.inputs.truncate(2));
        return true;
    }
    let found = node.op == Op::Sum && node.inputs.len() == 2;
    if found {
        graph.edit_node(id, |node| {
            node.op = Op::Add;
            node.op_name = std::sync::Arc::from(Op::Add.name());
        });
    }
    found
}

/// Merges the node with the one before it, so that it reads what that one reads.
fn merge(graph: &mut Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let Some((x, before)) = node
        .input(0)
        .and_then(|x| Some((x, graph.node(graph.producer(x)?))))
    else {
        return false;
    };
    let Some(source) = before.input(0).filter(|_| before.output(0) == Some(x)) else {
        return false;
    };
    if !same_grid(graph, source, x) {
        return false;
    }
    match (before.op, node.op) {
        (Op::Transpose, Op::Transpose) => {
            let (Some(first), Some(second)) = (permutation(graph, before), permutation(graph, node)) else {
                return false;
            };
            let perm: Vec<i64> = second.iter().map(|&axis| first[axis] as i64).collect();
            graph.edit_node(id, |node| {
                node.inputs[0] = Some(source);
                node.attributes
                    .set(Attr::Perm, polychip_ops::AttrValue::Ints(perm));
            });
        }
        (Op::Reshape | Op::Flatten | Op::Squeeze | Op::Unsqueeze, Op::Reshape) => {
            // a 0 takes a size over from the input, so that it must stay the same input
            let shape = node.input(1).and_then(|shape| pattern::ints(graph, shape));
            if shape.is_none_or(|shape| shape.contains(&0)) {
                return false;
            }
            graph.edit_node(id, |node| node.inputs[0] = Some(source));
        }
        (Op::Relu, Op::Relu) => graph.edit_node(id, |node| node.inputs[0] = Some(source)),
        _ => return false,
    }
    true
}
