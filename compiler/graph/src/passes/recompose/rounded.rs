//! Recomposition through quantise-dequantise pairs, as quantisation tools put them around every
//! primitive op.
//!
//! A Gelu of which every step is rounded to 8 bits is a Gelu still, and no less exact in one piece. So the
//! pairs inside a region that would be recomposed without them are taken out, and the op is put in its
//! place; what it reads and gives stays quantised.
//!
//! Invariants:
//! 1. Only roundings inside a region go, and only where the region is then recomposed.
//! 2. Ops that stand for one or two others which devices compute on integers (Swish, Mish, Attention)
//!    are left apart: their inner encodings are worth more than the op.

use polychip_ops::Op;

use super::{activation, normalisation};
use crate::passes::pattern;
use crate::passes::quantise::scale;
use crate::{Error, Graph, NodeId, TensorId};

/// Runs the pass; returns the number of regions replaced.
pub(in crate::passes) fn run(graph: &mut Graph) -> Result<usize, Error> {
    let rounds = |op: Op| matches!(op, Op::QuantizeLinear | Op::DequantizeLinear);
    if !graph.nodes().any(|(_, node)| rounds(node.op)) {
        return Ok(0);
    }
    let ids = graph.node_ids();
    let mut bare = graph.clone();
    strip(&mut bare, &ids);
    let mut found = 0;
    for &id in &ids {
        let before = bare.node_ids();
        let Some(op) = at(&mut bare, id) else { continue };
        let gone = |id: &NodeId| bare.find_node(*id).is_none();
        let region: Vec<NodeId> = before.into_iter().filter(gone).collect();
        if !is_whole(op)
            || !region
                .iter()
                .all(|id| graph.find_node(*id).is_some() && ids.contains(id))
        {
            continue;
        }
        let mut trial = graph.clone();
        if strip(&mut trial, &region) > 0 && at(&mut trial, id) == Some(op) {
            *graph = trial;
            found += 1;
        }
    }
    Ok(found)
}

/// Whether an op is worth the encodings inside it.
fn is_whole(op: Op) -> bool {
    matches!(
        op,
        Op::Gelu
            | Op::HardSigmoid
            | Op::HardSwish
            | Op::Softplus
            | Op::LayerNormalization
            | Op::RMSNormalization
    )
}

/// Recomposes at a node; says what it found.
fn at(graph: &mut Graph, id: NodeId) -> Option<Op> {
    graph.find_node(id)?;
    let made = activation::at(graph, id).or_else(|| normalisation::at(graph, id))?;
    Some(graph.node(made).op)
}

/// Lets the nodes read what others of them make without rounding, and quantised numbers as floats;
/// returns the number of inputs that changed.
fn strip(graph: &mut Graph, nodes: &[NodeId]) -> usize {
    let mut changes = 0;
    for &id in nodes {
        let Some(node) = graph.find_node(id) else { continue };
        if matches!(node.op, Op::QuantizeLinear | Op::DequantizeLinear) {
            continue;
        }
        for index in 0..node.inputs.len() {
            let Some(input) = graph.node(id).input(index) else {
                continue;
            };
            let replacement = match unrounded(graph, input) {
                Some(origin) => {
                    let maker = graph.producer(origin);
                    Some(origin).filter(|_| maker.is_some_and(|maker| nodes.contains(&maker)))
                }
                None => number(graph, input),
            };
            if let Some(replacement) = replacement {
                graph.edit_node(id, |node| node.inputs[index] = Some(replacement));
                changes += 1;
            }
        }
    }
    graph.remove_dead();
    changes
}

/// What a tensor is before it is quantised and dequantised, however often.
fn unrounded(graph: &Graph, tensor: TensorId) -> Option<TensorId> {
    let (_, dequantise) = pattern::made_by(graph, tensor, Op::DequantizeLinear)?;
    let (_, quantise) = pattern::made_by(graph, dequantise.input(0)?, Op::QuantizeLinear)?;
    let own = scale::encoding(graph, quantise)?;
    if scale::encoding(graph, dequantise)? != own {
        return None;
    }
    let origin = quantise.input(0)?;
    Some(unrounded(graph, origin).unwrap_or(origin))
}

/// A dequantised constant of one element, as a float.
fn number(graph: &mut Graph, tensor: TensorId) -> Option<TensorId> {
    let (_, node) = pattern::made_by(graph, tensor, Op::DequantizeLinear)?;
    let source = node.input(0)?;
    let encoding = scale::encoding(graph, node)?;
    if graph.tensor(source).ty.elements()? != 1 {
        return None;
    }
    let &[stored] = &scale::integers(graph, source)?[..] else {
        return None;
    };
    let zero = encoding.zero_points.first().copied().unwrap_or(0);
    let value = stored.wrapping_sub(zero) as f32 * encoding.scales.first()?;
    let real = graph.tensor(tensor);
    let (name, dtype, sizes) = (format!("{}.real", real.name), real.ty.dtype, real.ty.sizes()?);
    pattern::add_floats(graph, name, dtype, &sizes, &[f64::from(value)])
}
