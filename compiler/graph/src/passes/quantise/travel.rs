//! Quantisation on both sides of ops that only move or select elements.
//!
//! Many tools quantise around the ops that compute and leave floats between them, as in dequantise →
//! MaxPool → Conv. On one grid the op means the same before and after the rounding. So what such an op
//! makes of dequantised tensors is quantised and dequantised again, and what it quantises behind it is
//! quantised and dequantised before it, too: then the nodes on both sides see quantised tensors.
//! Dequantise moves behind a Transpose of a constant, for weights that are stored the other way round.
//!
//! Invariants:
//! 1. Values stay equal to the bit: the op gives elements that it read, or the largest or smallest of
//!    some, and scales are positive.
//! 2. One scale holds for the whole tensor; but for the Transpose of a constant, which takes the axis of the
//!    scales along.

use polychip_ops::operator::Transpose;
use polychip_ops::{Attr, AttrValue, DType, Op};

use super::{carriers, scale};
use crate::passes::pattern;
use crate::{Encoding, EncodingAxis, Error, Graph, Node, NodeId, Tensor, TensorId};

/// Runs the pass; returns the number of changes.
pub(in crate::passes) fn run(graph: &mut Graph) -> Result<usize, Error> {
    let mut changes = 0;
    // a node that was moved is found again behind or before the next one
    for _ in 0..graph.node_count() {
        let before = changes;
        for id in graph.node_ids() {
            let moved = behind(graph, id) || before_it(graph, id) || transposed(graph, id);
            changes += usize::from(moved);
        }
        if changes == before {
            break;
        }
    }
    Ok(changes)
}

/// What a node only moves or selects from what it reads. The largest of no elements is infinite, which no
/// encoding holds.
fn slots(graph: &Graph, node: &Node) -> Option<(usize, usize)> {
    let slots = carriers::slots(node)?;
    let chosen = matches!(node.op, Op::ReduceMax | Op::ReduceMin);
    let filled = || graph.tensor(node.input(0)?).ty.elements();
    (!chosen || filled().is_some_and(|elements| elements > 0)).then_some(slots)
}

/// Quantises and dequantises what a node makes of dequantised tensors, in their encoding.
fn behind(graph: &mut Graph, id: NodeId) -> bool {
    let Some((outputs, quantise)) = results(graph, id) else {
        return false;
    };
    for real in outputs {
        let before = graph.add_tensor(renamed(graph, real, "exact"));
        graph.edit_node(id, |node| {
            for output in node.outputs.iter_mut().filter(|output| **output == Some(real)) {
                *output = Some(before);
            }
        });
        round(graph, &quantise, before, real);
    }
    true
}

/// The results that have to be rounded, and how.
fn results(graph: &Graph, id: NodeId) -> Option<(Vec<TensorId>, Rounding)> {
    let node = graph.node(id);
    let (inputs, outputs) = slots(graph, node)?;
    let mut found: Option<(Rounding, crate::Encoding)> = None;
    for &input in node.inputs.iter().take(inputs) {
        let (_, dequantise) = pattern::made_by(graph, input?, Op::DequantizeLinear)?;
        let own = scale::encoding(graph, dequantise).filter(Encoding::is_per_tensor)?;
        // nothing quantises to the 32 bits of a bias
        if graph.tensor(dequantise.input(0)?).ty.dtype == DType::I32 {
            return None;
        }
        let rounding = Rounding::of(graph, dequantise)?;
        // a table of weights is read as it is, whatever is done with the rows
        if graph.tensor(dequantise.input(0)?).is_constant() && inputs == 1 {
            return None;
        }
        match &found {
            None => found = Some((rounding, own)),
            Some((have, encoding)) => (*encoding == own && have.dtype == rounding.dtype).then_some(())?,
        }
    }
    let (rounding, _) = found?;
    let outputs: Vec<TensorId> = node.outputs.iter().take(outputs).copied().flatten().collect();
    let fits = outputs.iter().all(|&id| {
        let tensor = graph.tensor(id);
        tensor.typed && tensor.encoding.is_none() && !graph.is_output(id)
    });
    // what is quantised already needs nothing
    let open = |id: &TensorId| {
        let reader = graph.only_consumer(*id);
        reader.is_none_or(|reader| graph.node(reader).op != Op::QuantizeLinear)
    };
    let outputs: Vec<TensorId> = outputs.into_iter().filter(open).collect();
    (fits && !outputs.is_empty()).then_some((outputs, rounding))
}

/// Quantises and dequantises what a node reads, where what it gives is quantised at once.
fn before_it(graph: &mut Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let (Some((1, 1)), Some(real), Some(moved)) = (slots(graph, node), node.input(0), node.output(0)) else {
        return false;
    };
    let alone =
        graph.only_consumer(real) == Some(id) && node.reads().filter(|&read| read == real).count() == 1;
    // what computes it can give integers, if anything can
    let computed = graph
        .producer(real)
        .is_some_and(|maker| scale::computes(graph.node(maker)));
    let Some(end) = graph.only_consumer(moved).filter(|_| alone && computed) else {
        return false;
    };
    let quantise = graph.node(end);
    let tensor = graph.tensor(real);
    let fits = quantise.op == Op::QuantizeLinear
        && quantise.input(0) == Some(moved)
        && scale::encoding(graph, quantise).is_some_and(|own| own.is_per_tensor())
        && tensor.typed
        && tensor.encoding.is_none()
        && node.outputs.iter().skip(1).all(Option::is_none);
    let Some(rounding) = Rounding::of(graph, quantise).filter(|_| fits) else {
        return false;
    };
    let after = graph.add_tensor(renamed(graph, real, "rounded"));
    graph.edit_node(id, |node| node.inputs[0] = Some(after));
    round(graph, &rounding, real, after);
    true
}

/// Moves dequantise behind a Transpose of a constant.
fn transposed(graph: &mut Graph, id: NodeId) -> bool {
    let Some(mut dequantise) = below_transpose(graph, id) else {
        return false;
    };
    let (source, real) = (dequantise.input(0), graph.node(id).output(0));
    let (Some(source), Some(real)) = (source, real) else {
        return false;
    };
    let mut stored = renamed(graph, real, "stored");
    stored.ty.dtype = graph.tensor(source).ty.dtype;
    let stored = graph.add_tensor(stored);
    graph.edit_node(id, |node| {
        node.inputs[0] = Some(source);
        node.outputs[0] = Some(stored);
    });
    dequantise.inputs[0] = Some(stored);
    dequantise.outputs = vec![Some(real)];
    graph.add_node(dequantise);
    true
}

/// The dequantise of a constant that a Transpose reads, with the axis that it has behind it.
fn below_transpose(graph: &Graph, id: NodeId) -> Option<Node> {
    let node = graph.node(id);
    if node.op != Op::Transpose {
        return None;
    }
    let (_, dequantise) = pattern::made_by(graph, node.input(0)?, Op::DequantizeLinear)?;
    let source = graph.tensor(dequantise.input(0)?);
    let real = graph.tensor(node.output(0)?);
    let encoding = scale::encoding(graph, dequantise)?;
    if !source.is_constant() || !real.typed {
        return None;
    }
    let mut dequantise = dequantise.clone();
    dequantise.name.clear();
    match encoding.axis {
        EncodingAxis::PerTensor => {}
        EncodingAxis::PerAxis(axis) => {
            let rank = source.ty.rank()?;
            let order = match node.typed::<Transpose>().ok()?.perm {
                Some(order) => polychip_ops::axis::normalise_all(&order, rank)?,
                None => (0..rank).rev().collect(),
            };
            let place = order.iter().position(|&from| from == axis)?;
            let place = AttrValue::Int(i64::try_from(place).ok()?);
            dequantise.attributes.set(Attr::Axis, place);
        }
        EncodingAxis::PerBlock { .. } | EncodingAxis::Blocks(_) => return None,
    }
    Some(dequantise)
}

/// A quantise-dequantise pair in the making.
struct Rounding {
    scale: TensorId,
    zero_point: Option<TensorId>,
    dtype: DType,
}

impl Rounding {
    /// What a quantise or dequantise node does; one without a zero point says its type by itself.
    fn of(graph: &Graph, node: &Node) -> Option<Rounding> {
        let stored = match node.op {
            Op::QuantizeLinear => node.output(0)?,
            _ => node.input(0)?,
        };
        Some(Rounding {
            scale: node.input(1)?,
            zero_point: node.input(2),
            dtype: graph.tensor(stored).ty.dtype,
        })
    }
}

/// Quantises one tensor and dequantises it as another.
fn round(graph: &mut Graph, rounding: &Rounding, from: TensorId, to: TensorId) {
    let mut stored = renamed(graph, to, "stored");
    stored.ty.dtype = rounding.dtype;
    let stored = graph.add_tensor(stored);
    let inputs = |first: TensorId| {
        let mut inputs = vec![Some(first), Some(rounding.scale)];
        inputs.extend(rounding.zero_point.map(Some));
        inputs
    };
    let mut quantise = Node::new(Op::QuantizeLinear, inputs(from), vec![Some(stored)]);
    if rounding.zero_point.is_none() {
        let dtype = AttrValue::Int(rounding.dtype.code().into());
        quantise.attributes.set(Attr::OutputDtype, dtype);
    }
    graph.add_node(quantise);
    graph.add_node(Node::new(Op::DequantizeLinear, inputs(stored), vec![Some(to)]));
}

/// A tensor like another, nothing being known of its elements.
fn renamed(graph: &Graph, id: TensorId, role: &str) -> Tensor {
    let tensor = graph.tensor(id);
    Tensor {
        upper_bound: tensor.upper_bound,
        ..Tensor::new(format!("{}.{role}", tensor.name), tensor.ty.clone())
    }
}
