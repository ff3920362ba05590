//! Activations written out: Gelu, Swish, HardSigmoid, HardSwish, Softplus and Mish.
//!
//! Invariant: the result has the shape and type of the input that it replaces.

use polychip_ops::operator::HardSigmoid;
use polychip_ops::{Attr, AttrValue, Attributes, Op};

use super::polynomial;
use crate::passes::pattern;
use crate::{Graph, Node, NodeId, TensorId};

/// Looks for an activation whose inner function is this node.
pub(super) fn at(graph: &mut Graph, id: NodeId) -> Option<NodeId> {
    let found = match graph.node(id).op {
        Op::Erf => gelu(graph, id, false),
        Op::Tanh => gelu(graph, id, true).or_else(|| mish(graph, id)),
        Op::Sigmoid => swish(graph, id),
        Op::HardSigmoid => hard_swish(graph, id),
        Op::Clip => hard(graph, id),
        Op::Exp => softplus(graph, id),
        _ => None,
    }?;
    if !pattern::same_shape(graph, found.x, found.result)
        || graph.tensor(found.x).ty.dtype != graph.tensor(found.result).ty.dtype
    {
        return None;
    }
    let region = pattern::region(graph, found.result, &[found.x])?;
    let node = Node::new(found.op, vec![Some(found.x)], vec![Some(found.result)]).with(found.attributes);
    Some(pattern::replace_region(graph, &region, node, &[]))
}

struct Found {
    op: Op,
    x: TensorId,
    result: TensorId,
    attributes: Attributes,
}

impl Found {
    fn plain(op: Op, x: TensorId, result: TensorId) -> Option<Found> {
        let attributes = Attributes::new();
        Some(Found {
            op,
            x,
            result,
            attributes,
        })
    }
}

/// `x · ½ · (1 + erf(x / √2))`, or `x · ½ · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`.
fn gelu(graph: &Graph, id: NodeId, tanh: bool) -> Option<Found> {
    let node = graph.node(id);
    let (u, inner) = (node.input(0)?, node.output(0)?);
    let tolerance = pattern::tolerance(graph, u)?;
    let (sum, one) = pattern::with_scalar(graph, graph.node(graph.only_consumer(inner)?))?;
    let plus = graph.node(graph.only_consumer(inner)?);
    if plus.op != Op::Add || sum != inner || one != 1.0 {
        return None;
    }
    let start = plus.output(0)?;
    let slope = (2.0 / std::f64::consts::PI).sqrt();
    let wanted = if tanh {
        [0.0, slope, 0.0, slope * 0.044_715]
    } else {
        [0.0, std::f64::consts::FRAC_1_SQRT_2, 0.0, 0.0]
    };
    let x = polynomial::candidates(graph, u).into_iter().find(|&x| {
        polynomial::of(graph, u, x).is_some_and(|have| polynomial::near(have, wanted, tolerance))
    })?;
    let result = polynomial::climb(graph, start, x, [0.0, 0.5, 0.0, 0.0], tolerance)?;
    let mut found = Found::plain(Op::Gelu, x, result)?;
    if tanh {
        let value = AttrValue::String(std::sync::Arc::from("tanh"));
        found.attributes.set(Attr::Approximate, value);
    }
    Some(found)
}

/// `x · sigmoid(α x)`.
fn swish(graph: &Graph, id: NodeId) -> Option<Found> {
    let node = graph.node(id);
    let (u, gate) = (node.input(0)?, node.output(0)?);
    pattern::tolerance(graph, u)?;
    let times = graph.node(graph.only_consumer(gate)?);
    let x = pattern::other(times, gate).filter(|_| times.op == Op::Mul)?;
    let [0.0, alpha, 0.0, 0.0] = polynomial::of(graph, u, x)? else {
        return None;
    };
    let mut found = Found::plain(Op::Swish, x, times.output(0)?)?;
    if alpha != 1.0 {
        found.attributes.set(Attr::Alpha, AttrValue::Float(alpha as f32));
    }
    Some(found)
}

/// `x · hard_sigmoid(x)` with slope 1/6 and offset ½.
fn hard_swish(graph: &Graph, id: NodeId) -> Option<Found> {
    let node = graph.node(id);
    let (x, gate) = (node.input(0)?, node.output(0)?);
    let tolerance = pattern::tolerance(graph, x)?;
    let sigmoid: HardSigmoid = node.typed().ok()?;
    let (alpha, beta) = (f64::from(sigmoid.alpha), f64::from(sigmoid.beta));
    let times = graph.node(graph.only_consumer(gate)?);
    let standard = (alpha * 6.0 - 1.0).abs() <= tolerance && beta == 0.5;
    let fits = standard && times.op == Op::Mul && pattern::other(times, gate) == Some(x);
    Found::plain(Op::HardSwish, x, times.output(0)?).filter(|_| fits)
}

/// `x · clip(x + 3, 0, 6) / 6`, or without the first factor.
fn hard(graph: &Graph, id: NodeId) -> Option<Found> {
    let node = graph.node(id);
    let (u, clipped) = (node.input(0)?, node.output(0)?);
    let tolerance = pattern::tolerance(graph, u)?;
    let limits = (
        pattern::scalar(graph, node.input(1)?)?,
        pattern::scalar(graph, node.input(2)?)?,
    );
    if limits != (0.0, 6.0) {
        return None;
    }
    let x = polynomial::candidates(graph, u)
        .into_iter()
        .find(|&x| polynomial::of(graph, u, x) == Some([3.0, 1.0, 0.0, 0.0]))?;
    let sixth = 1.0 / 6.0;
    if let Some(result) = polynomial::climb(graph, clipped, x, [0.0, sixth, 0.0, 0.0], tolerance) {
        return Found::plain(Op::HardSwish, x, result);
    }
    let result = polynomial::climb(graph, clipped, x, [sixth, 0.0, 0.0, 0.0], tolerance)?;
    let mut found = Found::plain(Op::HardSigmoid, x, result)?;
    found.attributes.set(Attr::Alpha, AttrValue::Float(sixth as f32));
    found.attributes.set(Attr::Beta, AttrValue::Float(0.5));
    Some(found)
}

/// `log(1 + exp(x))`.
fn softplus(graph: &Graph, id: NodeId) -> Option<Found> {
    let node = graph.node(id);
    let (x, power) = (node.input(0)?, node.output(0)?);
    pattern::tolerance(graph, x)?;
    let plus = graph.node(graph.only_consumer(power)?);
    let (_, one) = pattern::with_scalar(graph, plus).filter(|_| plus.op == Op::Add)?;
    let log = graph.node(graph.only_consumer(plus.output(0)?)?);
    Found::plain(Op::Softplus, x, log.output(0)?).filter(|_| one == 1.0 && log.op == Op::Log)
}

/// `x · tanh(softplus(x))`.
fn mish(graph: &Graph, id: NodeId) -> Option<Found> {
    let node = graph.node(id);
    let (_, soft) = pattern::made_by(graph, node.input(0)?, Op::Softplus)?;
    let (x, gate) = (soft.input(0)?, node.output(0)?);
    pattern::tolerance(graph, x)?;
    let times = graph.node(graph.only_consumer(gate)?);
    let fits = times.op == Op::Mul && pattern::other(times, gate) == Some(x);
    Found::plain(Op::Mish, x, times.output(0)?).filter(|_| fits)
}
