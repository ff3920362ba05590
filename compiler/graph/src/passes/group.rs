//! Fusion groups: nodes that a device may compute as one.
//!
//! - `Normalisation`: a sum of two tensors, then the normalisation of it.
//! - `Conv`, `MatMul`: Conv, ConvTranspose, or MatMul, Gemm, followed by any of: the sum with a constant
//!   bias per output channel; then at most one activation and one residual sum, in either order.
//! - `Elementwise`: at least two elementwise ops, each the only reader of the one before, of one shape.
//!
//! Invariants:
//! 1. A node is in at most one group, groups have at least two nodes, in graph order; the last one
//!    gives the group's only result.
//! 2. A tensor inside a group has one reader, is no output of the graph and has no encoding.
//! 3. Groups are convex: because inner tensors have no other reader, no path leaves and comes back.
//!
//! Which comes first wins: Normalisation, then Conv and MatMul, then Elementwise.

use polychip_ops::{Dim, Op};

use super::pattern;
use crate::{Error, Graph, Group, GroupKind, NodeId, TensorId};

/// Makes the groups anew; returns how many.
pub(super) fn run(graph: &mut Graph) -> Result<usize, Error> {
    let mut taken = vec![false; graph.node_bound()];
    let mut groups = Vec::new();
    let mut add = |kind: GroupKind, mut nodes: Vec<NodeId>, taken: &mut Vec<bool>| {
        if nodes.len() > 1 {
            nodes.sort_unstable();
            nodes.iter().for_each(|id| taken[id.index()] = true);
            groups.push(Group { kind, nodes });
        }
    };
    for (id, node) in graph.nodes() {
        if matches!(node.op, Op::LayerNormalization | Op::RMSNormalization) {
            let nodes = normalisation(graph, id).unwrap_or_default();
            add(GroupKind::Normalisation, nodes, &mut taken);
        }
    }
    for (id, node) in graph.nodes() {
        let kind = match node.op {
            Op::Conv | Op::ConvTranspose => GroupKind::Conv,
            Op::MatMul | Op::Gemm => GroupKind::MatMul,
            _ => continue,
        };
        let nodes = product(graph, id, &taken);
        add(kind, nodes, &mut taken);
    }
    for (id, node) in graph.nodes() {
        if !taken[id.index()] && is_elementwise(node.op) {
            let nodes = chain(graph, id, &taken);
            add(GroupKind::Elementwise, nodes, &mut taken);
        }
    }
    groups.sort_by(|a, b| a.nodes.cmp(&b.nodes));
    graph.groups = groups;
    Ok(graph.groups.len())
}

/// The one reader of a tensor that may be inside a group.
fn next(graph: &Graph, tensor: TensorId) -> Option<NodeId> {
    if graph.tensor(tensor).encoding.is_some() {
        return None;
    }
    graph.only_consumer(tensor)
}

fn normalisation(graph: &Graph, id: NodeId) -> Option<Vec<NodeId>> {
    let x = graph.node(id).input(0)?;
    let (sum, node) = pattern::made_by(graph, x, Op::Add)?;
    let (a, b) = pattern::pair(node)?;
    let residual = pattern::same_shape(graph, a, x)
        && pattern::same_shape(graph, b, x)
        && !graph.tensor(a).is_constant()
        && !graph.tensor(b).is_constant();
    (residual && next(graph, x) == Some(id)).then(|| vec![sum, id])
}

fn product(graph: &Graph, first: NodeId, taken: &[bool]) -> Vec<NodeId> {
    let mut nodes = vec![first];
    let (mut bias, mut activation, mut residual) = (false, false, false);
    let channel_axis = match graph.node(first).op {
        Op::Conv | Op::ConvTranspose => Some(1),
        _ => None,
    };
    let mut last = first;
    while let Some(tensor) = graph.node(last).output(0) {
        let Some(id) = next(graph, tensor).filter(|id| !taken[id.index()]) else {
            break;
        };
        let node = graph.node(id);
        let only = node.outputs.len() == 1
            && node
                .output(0)
                .is_some_and(|y| pattern::same_shape(graph, tensor, y));
        let settings = || {
            node.reads()
                .all(|read| read == tensor || graph.tensor(read).is_constant())
        };
        if !only {
            break;
        } else if node.op == Op::Add && !bias && nodes.len() == 1 && is_bias(graph, id, tensor, channel_axis)
        {
            bias = true;
        } else if is_activation(node.op) && !activation && settings() && node.input(0) == Some(tensor) {
            activation = true;
        } else if node.op == Op::Add && !residual && is_residual(graph, id, tensor) {
            residual = true;
        } else {
            break;
        }
        nodes.push(id);
        last = id;
    }
    nodes
}

/// Whether the other summand is one constant per channel (the last axis where none is named).
fn is_bias(graph: &Graph, id: NodeId, tensor: TensorId, channel_axis: Option<usize>) -> bool {
    let Some(other) = pattern::other(graph.node(id), tensor) else {
        return false;
    };
    let (Some(sizes), Some(shape)) = (graph.tensor(other).ty.sizes(), &graph.tensor(tensor).ty.shape) else {
        return false;
    };
    let Some(axis) = channel_axis.or(shape.len().checked_sub(1)) else {
        return false;
    };
    let Some(lead) = shape.len().checked_sub(sizes.len()) else {
        return false;
    };
    let fits = |(index, &size): (usize, &usize)| {
        size == 1 || lead + index == axis && shape.get(axis) == Some(&Dim::Known(size))
    };
    graph.tensor(other).is_constant() && sizes.iter().enumerate().all(fits)
}

fn is_residual(graph: &Graph, id: NodeId, tensor: TensorId) -> bool {
    pattern::other(graph.node(id), tensor)
        .is_some_and(|other| !graph.tensor(other).is_constant() && pattern::same_shape(graph, other, tensor))
}

fn chain(graph: &Graph, first: NodeId, taken: &[bool]) -> Vec<NodeId> {
    let mut nodes = vec![first];
    let mut last = first;
    while let Some(tensor) = graph.node(last).output(0) {
        let Some(id) = next(graph, tensor).filter(|id| !taken[id.index()]) else {
            break;
        };
        let node = graph.node(id);
        let same = node
            .output(0)
            .is_some_and(|y| pattern::same_shape(graph, tensor, y));
        if !is_elementwise(node.op) || !same {
            break;
        }
        nodes.push(id);
        last = id;
    }
    nodes
}

/// Functions of one tensor that stand behind convolutions and products; their other inputs, if any,
/// are settings.
pub(super) fn is_activation(op: Op) -> bool {
    matches!(
        op,
        Op::Relu
            | Op::Clip
            | Op::LeakyRelu
            | Op::PRelu
            | Op::Elu
            | Op::Celu
            | Op::Selu
            | Op::Sigmoid
            | Op::HardSigmoid
            | Op::Swish
            | Op::HardSwish
            | Op::Gelu
            | Op::Mish
            | Op::Softplus
            | Op::Softsign
            | Op::Tanh
            | Op::ThresholdedRelu
    )
}

fn is_elementwise(op: Op) -> bool {
    is_activation(op)
        || matches!(
            op,
            Op::Abs
                | Op::Add
                | Op::Ceil
                | Op::Cos
                | Op::Div
                | Op::Erf
                | Op::Exp
                | Op::Floor
                | Op::Log
                | Op::Max
                | Op::Min
                | Op::Mul
                | Op::Neg
                | Op::Pow
                | Op::Reciprocal
                | Op::Round
                | Op::Sign
                | Op::Sin
                | Op::Sqrt
                | Op::Sub
                | Op::Where
        )
}
