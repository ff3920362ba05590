//! Layer and root-mean-square normalisation written out.
//!
//! Invariants:
//! 1. The statistics are over the last axes, all of them up to the end; epsilon is inside the root.
//! 2. Scale and bias have the shape of the normalised axes; a missing scale is a constant of ones.

use polychip_ops::operator::Reduce;
use polychip_ops::{Attr, AttrValue, Attributes, DType, Op};

use crate::passes::pattern;
use crate::{Graph, Node, NodeId, TensorId};

/// Looks for a normalisation whose quotient is this node.
pub(super) fn at(graph: &mut Graph, id: NodeId) -> Option<NodeId> {
    let (centred, variance) = inverse_root(graph, graph.node(id))?;
    pattern::tolerance(graph, centred).filter(|_| graph.tensor(centred).ty.dtype != DType::F64)?;
    let (mean_square, epsilon) =
        pattern::made_by(graph, variance, Op::Add).and_then(|(_, node)| pattern::with_scalar(graph, node))?;
    let (square, axes) = mean(graph, mean_square)?;
    if squared(graph, square)? != centred || !(epsilon as f32).is_finite() {
        return None;
    }
    let of_mean = pattern::made_by(graph, centred, Op::Sub).and_then(|(_, node)| {
        let (x, subtracted) = pattern::pair(node)?;
        (mean(graph, subtracted)? == (x, axes.clone())).then_some(x)
    });
    let (x, op) = match of_mean {
        Some(x) => (x, Op::LayerNormalization),
        None => (centred, Op::RMSNormalization),
    };
    let rank = graph.tensor(x).ty.rank()?;
    let first = *axes.first()?;
    if !axes.iter().copied().eq(first..rank) {
        return None;
    }
    let sizes = pattern::sizes_from(graph, x, first)?;
    let mut result = graph.node(id).output(0)?;
    let mut aliases = Vec::new();
    let mut inputs = vec![Some(x)];
    let scale = parameter_behind(graph, result, Op::Mul, &sizes);
    let mut parameters: Vec<(TensorId, TensorId)> = Vec::new();
    if let Some((scale, scaled)) = scale {
        parameters.push((scale, scaled));
        result = scaled;
        if op == Op::LayerNormalization
            && let Some((bias, sum)) = parameter_behind(graph, result, Op::Add, &sizes)
        {
            parameters.push((bias, sum));
            result = sum;
        }
    }
    if !pattern::same_shape(graph, x, result) || graph.tensor(result).ty.dtype != graph.tensor(x).ty.dtype {
        return None;
    }
    let mut stops = vec![x];
    stops.extend(parameters.iter().map(|&(parameter, _)| parameter));
    let region = pattern::region(graph, result, &stops)?;
    for (parameter, _) in parameters {
        let shaped = shaped(graph, parameter, &sizes)?;
        if shaped != parameter {
            aliases.push((parameter, shaped));
        }
        inputs.push(Some(shaped));
    }
    if inputs.len() == 1 {
        let count = polychip_ops::axis::product(&sizes)?;
        let name = format!("{}.scale", graph.tensor(result).name);
        let dtype = graph.tensor(x).ty.dtype;
        let ones = pattern::add_floats(graph, name, dtype, &sizes, &vec![1.0; count])?;
        inputs.push(Some(ones));
    }
    let mut attributes = Attributes::new().with(Attr::Epsilon, AttrValue::Float(epsilon as f32));
    if rank - first != 1 {
        let axis = -i64::try_from(rank - first).ok()?;
        attributes.set(Attr::Axis, AttrValue::Int(axis));
    }
    let node = Node::new(op, inputs, vec![Some(result)]).with(attributes);
    Some(pattern::replace_region(graph, &region, node, &aliases))
}

/// Numerator and radicand, where the node is `numerator / √radicand` in one of its forms.
fn inverse_root(graph: &Graph, node: &Node) -> Option<(TensorId, TensorId)> {
    let (a, b) = pattern::pair(node)?;
    match node.op {
        Op::Div => Some((a, root(graph, b)?)),
        Op::Mul => match (reciprocal_root(graph, a), reciprocal_root(graph, b)) {
            (None, Some(radicand)) => Some((a, radicand)),
            (Some(radicand), None) => Some((b, radicand)),
            _ => None,
        },
        _ => None,
    }
}

fn root(graph: &Graph, tensor: TensorId) -> Option<TensorId> {
    if let Some((_, node)) = pattern::made_by(graph, tensor, Op::Sqrt) {
        return node.input(0);
    }
    power(graph, tensor, 0.5)
}

fn reciprocal_root(graph: &Graph, tensor: TensorId) -> Option<TensorId> {
    if let Some((_, node)) = pattern::made_by(graph, tensor, Op::Reciprocal) {
        return root(graph, node.input(0)?);
    }
    if let Some((_, node)) = pattern::made_by(graph, tensor, Op::Div) {
        let (one, below) = pattern::pair(node)?;
        return (pattern::scalar(graph, one)? == 1.0).then(|| root(graph, below))?;
    }
    power(graph, tensor, -0.5)
}

fn power(graph: &Graph, tensor: TensorId, exponent: f64) -> Option<TensorId> {
    let (_, node) = pattern::made_by(graph, tensor, Op::Pow)?;
    let (base, value) = pattern::pair(node)?;
    (pattern::scalar(graph, value)? == exponent).then_some(base)
}

/// What a tensor is the square of.
fn squared(graph: &Graph, tensor: TensorId) -> Option<TensorId> {
    if let Some((_, node)) = pattern::made_by(graph, tensor, Op::Mul) {
        let (a, b) = pattern::pair(node)?;
        return (a == b).then_some(a);
    }
    power(graph, tensor, 2.0)
}

/// What a tensor is the mean of, and over which axes, which it keeps with size 1.
fn mean(graph: &Graph, tensor: TensorId) -> Option<(TensorId, Vec<usize>)> {
    let (_, node) = pattern::made_by(graph, tensor, Op::ReduceMean)?;
    let keeps = node.typed::<Reduce>().ok()?.keepdims;
    let axes = pattern::reduced_axes(graph, node)?;
    keeps.then_some((node.input(0)?, axes))
}

/// The factor or summand of the next node, where it fits the normalised axes, and that node's result.
fn parameter_behind(
    graph: &Graph,
    tensor: TensorId,
    op: Op,
    sizes: &[usize],
) -> Option<(TensorId, TensorId)> {
    let node = graph.node(graph.only_consumer(tensor)?);
    let parameter = pattern::other(node, tensor).filter(|_| node.op == op)?;
    let own = graph.tensor(parameter);
    let shape = own.ty.sizes().filter(|_| own.typed && own.encoding.is_none())?;
    let leading = shape.len().checked_sub(sizes.len())?;
    let fits = shape[leading..] == *sizes && shape[..leading].iter().all(|&size| size == 1);
    let result = node.output(0)?;
    (fits && (leading == 0 || own.is_constant())).then_some((parameter, result))
}

/// The parameter in exactly this shape.
fn shaped(graph: &mut Graph, parameter: TensorId, sizes: &[usize]) -> Option<TensorId> {
    if graph.tensor(parameter).ty.sizes()? == sizes {
        return Some(parameter);
    }
    let mut copy = graph.tensor(parameter).clone();
    copy.ty = polychip_ops::TensorType::known(copy.ty.dtype, sizes);
    copy.name = format!("{}.flat", copy.name);
    Some(graph.add_tensor(copy))
}
