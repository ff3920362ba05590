//! Scaled dot-product attention written out: `softmax(scale · Q Kᵀ + mask) V` on `[batch, heads, sequence, width]`.
//!
//! Invariants:
//! 1. Q, K and V have rank 4 and the same batch and number of heads, so that nothing is broadcast.
//! 2. The scale is one positive number, applied to Q, to K, to the product, or spread over them.
//! 3. The mask is a float summand with the key axis in full.
//!
//! A transpose that makes Kᵀ right from `[batch, sequence, heads, width]` is split: the part that
//! gives K stays outside.

use polychip_ops::operator::Along;
use polychip_ops::{Attr, AttrValue, Attributes, DType, Dim, Op};

use crate::passes::pattern;
use crate::{Graph, Node, NodeId, Tensor, TensorId};

/// What an attention is made of.
struct Found {
    q: TensorId,
    /// What the transpose to Kᵀ reads, that transpose, and its order.
    k: TensorId,
    transpose: NodeId,
    perm: Vec<usize>,
    v: TensorId,
    mask: Option<TensorId>,
    scale: f64,
    result: TensorId,
}

/// Looks for an attention whose softmax is this node.
pub(super) fn at(graph: &mut Graph, id: NodeId) -> Option<NodeId> {
    if graph.node(id).op != Op::Softmax {
        return None;
    }
    let found = find(graph, id)?;
    let mut stops = vec![found.q, found.k, found.v];
    stops.extend(found.mask);
    pattern::region(graph, found.result, &stops)?;
    let k = key(graph, &found)?;
    stops[1] = k;
    let region = pattern::region(graph, found.result, &stops)?;
    let mut inputs = vec![Some(found.q), Some(k), Some(found.v)];
    inputs.extend(found.mask.map(Some));
    let attributes = Attributes::new().with(Attr::Scale, AttrValue::Float(found.scale as f32));
    let node = Node::new(Op::Attention, inputs, vec![Some(found.result)]).with(attributes);
    Some(pattern::replace_region(graph, &region, node, &[]))
}

fn find(graph: &Graph, id: NodeId) -> Option<Found> {
    let softmax = graph.node(id);
    let (scores, weights) = (softmax.input(0)?, softmax.output(0)?);
    let axis = softmax.typed::<Along>().ok()?.axis;
    if !matches!(axis, -1 | 3) {
        return None;
    }
    let times = graph.node(graph.only_consumer(weights)?);
    let (left, v) = pattern::pair(times).filter(|_| times.op == Op::MatMul)?;
    if left != weights {
        return None;
    }
    let masked = pattern::made_by(graph, scores, Op::Add).and_then(|(_, node)| pattern::pair(node));
    let mut ways = vec![(scores, None)];
    ways.extend(masked.into_iter().flat_map(|(a, b)| [(a, Some(b)), (b, Some(a))]));
    ways.into_iter()
        .find_map(|(scores, mask)| product(graph, scores, mask, v, times.output(0)?))
}

/// The attention whose unmasked scores are this tensor.
fn product(
    graph: &Graph,
    scores: TensorId,
    mask: Option<TensorId>,
    v: TensorId,
    result: TensorId,
) -> Option<Found> {
    let (dot, outer) = unscaled(graph, scores);
    let (_, node) = pattern::made_by(graph, dot, Op::MatMul)?;
    let (q, k) = pattern::pair(node)?;
    let (q, of_q) = unscaled(graph, q);
    let (k, of_k) = unscaled(graph, k);
    let (transpose, node) = pattern::made_by(graph, k, Op::Transpose)?;
    let perm = polychip_ops::axis::normalise_all(node.attributes.ints(Attr::Perm)?, 4)?;
    let (k, mut scale) = (node.input(0)?, outer * of_q * of_k);
    // the scale of K may stand before the transpose, too
    let (k, before) = if perm == [0, 1, 3, 2] {
        unscaled(graph, k)
    } else {
        (k, 1.0)
    };
    scale *= before;
    let dims = |id: TensorId| {
        let tensor = graph.tensor(id);
        let plain = tensor.typed && tensor.encoding.is_none() && !tensor.upper_bound;
        let known = matches!(tensor.ty.dtype, DType::F32 | DType::F16) && plain;
        tensor
            .ty
            .shape
            .as_deref()
            .filter(|shape| known && shape.len() == 4)
    };
    let (of_q, source, of_v) = (dims(q)?, dims(k)?, dims(v)?);
    let transposed: Vec<&Dim> = perm.iter().map(|&axis| &source[axis]).collect();
    let keys = transposed[3];
    let agree = (0..2).all(|axis| of_q[axis].same(transposed[axis]) && of_q[axis].same(&of_v[axis]))
        && of_q[3].same(transposed[2])
        && keys.same(&of_v[2]);
    if !(agree && scale.is_finite() && scale > 0.0) {
        return None;
    }
    if let Some(mask) = mask {
        let tensor = graph.tensor(mask);
        let shape = tensor
            .ty
            .shape
            .as_ref()
            .filter(|_| tensor.typed && tensor.encoding.is_none())?;
        let same = tensor.ty.dtype == graph.tensor(q).ty.dtype && shape.last()?.same(keys);
        if !same || !(2..=4).contains(&shape.len()) || !broadcasts(shape, of_q) {
            return None;
        }
    }
    Some(Found {
        q,
        k,
        transpose,
        perm,
        v,
        mask,
        scale,
        result,
    })
}

/// Whether the axes of a mask before the last are 1 or those of the queries.
fn broadcasts(mask: &[Dim], q: &[Dim]) -> bool {
    let before = &mask[..mask.len() - 1];
    before
        .iter()
        .rev()
        .zip(q[..3].iter().rev())
        .all(|(mask, q)| *mask == Dim::Known(1) || mask.same(q))
}

/// A tensor without the constant factor that was put on it.
fn unscaled(graph: &Graph, tensor: TensorId) -> (TensorId, f64) {
    let scaled = graph.producer(tensor).and_then(|id| {
        let node = graph.node(id);
        match node.op {
            Op::Mul => pattern::with_scalar(graph, node),
            Op::Div => Some((node.input(0)?, 1.0 / pattern::scalar(graph, node.input(1)?)?)),
            _ => None,
        }
    });
    scaled
        .filter(|&(source, _)| pattern::same_shape(graph, source, tensor))
        .unwrap_or((tensor, 1.0))
}

/// K itself, so that the transpose inside swaps its last two axes only.
fn key(graph: &mut Graph, found: &Found) -> Option<TensorId> {
    let order = [found.perm[0], found.perm[1], found.perm[3], found.perm[2]];
    if order == [0, 1, 2, 3] {
        return Some(found.k);
    }
    let source = graph.tensor(found.k);
    let mut ty = source.ty.clone();
    ty.shape = ty
        .shape
        .map(|shape| order.iter().map(|&axis| shape[axis].clone()).collect());
    let name = format!("{}.key", source.name);
    let k = graph.add_tensor(Tensor::new(name, ty));
    let perm = |order: [usize; 4]| AttrValue::Ints(order.iter().map(|&axis| axis as i64).collect());
    let outside = Node::new(Op::Transpose, vec![Some(found.k)], vec![Some(k)])
        .with(Attributes::new().with(Attr::Perm, perm(order)));
    graph.add_node(outside);
    graph.edit_node(found.transpose, |node| {
        node.inputs[0] = Some(k);
        node.attributes.set(Attr::Perm, perm([0, 1, 3, 2]));
    });
    Some(k)
}
