//! Folds what scales and shifts each channel of a convolution or matrix product into its weights.
//!
//! Conv, ConvTranspose or Gemm, then BatchNormalization outside training: weights are multiplied by
//! `scale / sqrt(variance + epsilon)` of their output channel, the bias follows. So are Mul, Div, Add
//! and Sub by a constant with one element per channel (or one in all) behind Conv and ConvTranspose.
//!
//! Mul, Div, Add and Sub behind a BatchNormalization go into its own scale and bias.
//!
//! Invariants:
//! 1. The product's result is read by that one node only; weights and bias are constants of a float
//!    type without an encoding. New weights are computed in `f64` and rounded once.
//! 2. A factor that is not finite is left alone, so that no infinity moves into weights.
//!
//! Not here: a BatchNormalization behind anything else, which stays as it is.

use polychip_ops::operator::{BatchNorm, ConvTranspose, Gemm};
use polychip_ops::{Attr, AttrValue, Op};

use super::pattern;
use crate::{Error, Graph, Node, NodeId, TensorId};

/// Runs the pass; returns the number of nodes folded away.
pub(super) fn run(graph: &mut Graph) -> Result<usize, Error> {
    let mut folded = 0;
    for id in graph.node_ids() {
        if graph.find_node(id).is_some() {
            folded += usize::from(try_fold(graph, id).is_some());
        }
    }
    Ok(folded)
}

/// `result = factor × product + shift`, per channel.
struct Affine {
    product: TensorId,
    factor: Vec<f64>,
    shift: Vec<f64>,
}

impl Affine {
    fn is_finite(&self) -> bool {
        self.factor
            .iter()
            .chain(&self.shift)
            .all(|value| value.is_finite())
    }
}

/// The position of output channels in the weights: element `i` has channel `i / inner % count`, plus
/// `count` for each slice before its own.
struct Layout {
    channels: usize,
    inner: usize,
    count: usize,
    /// Elements of one group's slice, where groups are outermost; else all.
    slice: usize,
}

fn try_fold(graph: &mut Graph, id: NodeId) -> Option<()> {
    let node = graph.node(id);
    let result = node.output(0)?;
    let product = match node.op {
        Op::BatchNormalization => node.input(0)?,
        Op::Mul | Op::Add | Op::Sub | Op::Div => {
            let (a, b) = pattern::pair(node)?;
            let made = |t: TensorId| graph.producer(t).is_some();
            match (made(a), made(b)) {
                (true, false) => a,
                (false, true) if matches!(node.op, Op::Mul | Op::Add) => b,
                _ => return None,
            }
        }
        _ => return None,
    };
    let before = graph.producer(product)?;
    if graph.only_consumer(product) != Some(id) || graph.node(before).output(0) != Some(product) {
        return None;
    }
    let (a, b) = (graph.tensor(product), graph.tensor(result));
    if a.encoding.is_some() || b.encoding.is_some() {
        return None;
    }
    if graph.node(before).op == Op::BatchNormalization {
        let channels = normalisation(graph, graph.node(before), None)?.factor.len();
        let affine = arithmetic(graph, graph.node(id), product, channels)?;
        return into_normalisation(graph, id, before, &affine);
    }
    let layout = layout(graph, graph.node(before))?;
    let affine = match graph.node(id).op {
        Op::BatchNormalization => normalisation(graph, graph.node(id), Some(layout.channels))?,
        _ if graph.node(before).op == Op::Gemm => return None,
        _ => arithmetic(graph, graph.node(id), product, layout.channels)?,
    };
    affine.is_finite().then_some(())?;
    apply(graph, id, before, &layout, &affine)
}

fn layout(graph: &Graph, node: &Node) -> Option<Layout> {
    let shape = graph.tensor(node.input(1)?).ty.sizes()?;
    let all: usize = polychip_ops::axis::product(&shape)?;
    match node.op {
        Op::Conv => {
            let channels = *shape.first()?;
            let inner = all.checked_div(channels)?;
            Some(Layout {
                channels,
                inner,
                count: channels,
                slice: all,
            })
        }
        Op::ConvTranspose => {
            // weights are [in, out / groups, kernel…], groups along the first axis
            let groups = node.typed::<ConvTranspose>().ok()?.groups.get();
            let count = *shape.get(1)?;
            let inner = polychip_ops::axis::product(&shape[2..])?;
            let slice = all.checked_div(groups)?;
            Some(Layout {
                channels: count.checked_mul(groups)?,
                inner,
                count,
                slice,
            })
        }
        Op::Gemm if shape.len() == 2 => {
            let transposed = node.typed::<Gemm>().ok()?.trans_b;
            let (channels, inner) = if transposed {
                (shape[0], shape[1])
            } else {
                (shape[1], 1)
            };
            Some(Layout {
                channels,
                inner,
                count: channels,
                slice: all,
            })
        }
        _ => None,
    }
}

fn normalisation(graph: &Graph, node: &Node, channels: Option<usize>) -> Option<Affine> {
    let norm: BatchNorm = node.typed().ok()?;
    if norm.training || node.outputs.iter().skip(1).any(Option::is_some) {
        return None;
    }
    let epsilon = f64::from(norm.epsilon);
    let channels = channels.or(graph.tensor(node.input(1)?).ty.elements())?;
    let parameter = |index: usize| {
        let values = pattern::floats(graph, node.input(index)?)?;
        (values.len() == channels).then_some(values)
    };
    let (scale, bias, mean, variance) = (parameter(1)?, parameter(2)?, parameter(3)?, parameter(4)?);
    let factor: Vec<f64> = scale
        .iter()
        .zip(&variance)
        .map(|(scale, variance)| scale / (variance + epsilon).sqrt())
        .collect();
    let shift = (0..channels).map(|c| bias[c] - mean[c] * factor[c]).collect();
    Some(Affine {
        product: node.input(0)?,
        factor,
        shift,
    })
}

fn arithmetic(graph: &Graph, node: &Node, product: TensorId, channels: usize) -> Option<Affine> {
    let constant = pattern::other(node, product)?;
    let result = node.output(0)?;
    let values = pattern::floats(graph, constant)?;
    let shape = graph.tensor(constant).ty.sizes()?;
    // one element a channel widens nothing, whatever sizes the product has
    if shape.len() > graph.tensor(product).ty.rank()? {
        return None;
    }
    // the channel axis is the second of the result
    let from_end = graph.tensor(result).ty.rank()?.checked_sub(1)?;
    let axis = shape.len().checked_sub(from_end);
    let per_channel = values.len() == channels && axis.is_some_and(|axis| shape[axis] == channels);
    let values = match values[..] {
        [value] => vec![value; channels],
        _ if per_channel => values,
        _ => return None,
    };
    let ones = vec![1.0; channels];
    let zeros = vec![0.0; channels];
    let (factor, shift) = match node.op {
        Op::Mul => (values, zeros),
        Op::Div => (values.iter().map(|value| 1.0 / value).collect(), zeros),
        Op::Add => (ones, values),
        Op::Sub => (ones, values.iter().map(|value| -value).collect()),
        _ => return None,
    };
    Some(Affine {
        product,
        factor,
        shift,
    })
}

/// Puts new weights and bias into the node before, which then gives the result of the node itself.
fn apply(graph: &mut Graph, id: NodeId, before: NodeId, layout: &Layout, affine: &Affine) -> Option<()> {
    let product = graph.node(before).clone();
    let result = graph.node(id).output(0)?;
    let weights = product.input(1)?;
    let dtype = graph.tensor(weights).ty.dtype;
    let (alpha, beta) = match product.op {
        Op::Gemm => {
            let gemm: Gemm = product.typed().ok()?;
            (f64::from(gemm.alpha), f64::from(gemm.beta))
        }
        _ => (1.0, 1.0),
    };
    let old_bias = match product.input(2) {
        None => vec![0.0; layout.channels],
        Some(bias) => {
            let values = pattern::floats(graph, bias)?;
            let last = graph.tensor(bias).ty.sizes()?.last().copied().unwrap_or(1);
            match values[..] {
                [value] => vec![value; layout.channels],
                _ if values.len() == layout.channels && last == layout.channels => values,
                _ => return None,
            }
        }
    };
    let bias: Vec<f64> = (0..layout.channels)
        .map(|c| beta * old_bias[c] * affine.factor[c] + affine.shift[c])
        .collect();
    let bias_name = format!("{}.bias", graph.tensor(result).name);
    let scaled = affine.factor.iter().any(|&factor| factor != 1.0);
    let new_weights = if scaled {
        let mut values = pattern::floats(graph, weights)?;
        for (index, value) in values.iter_mut().enumerate() {
            let group = index.checked_div(layout.slice)?;
            let channel = (index / layout.inner) % layout.count + group * layout.count;
            *value *= affine.factor[channel];
        }
        let shape = graph.tensor(weights).ty.sizes()?;
        let name = format!("{}.scaled", graph.tensor(weights).name);
        pattern::add_floats(graph, name, dtype, &shape, &values)?
    } else if graph.tensor(weights).is_constant() {
        weights
    } else {
        return None;
    };
    let bias = pattern::add_floats(graph, bias_name, dtype, &[layout.channels], &bias)?;
    let attributes = if product.op == Op::Gemm {
        let attributes = product.attributes.clone();
        attributes
            .with(Attr::Beta, AttrValue::Float(1.0))
            .with(Attr::Alpha, AttrValue::Float(alpha as f32))
    } else {
        product.attributes.clone()
    };
    graph.remove_node(id);
    graph.edit_node(before, |node| {
        node.inputs.resize(3, None);
        node.inputs[1] = Some(new_weights);
        node.inputs[2] = Some(bias);
        node.outputs[0] = Some(result);
        node.attributes = attributes;
    });
    debug_assert!(graph.consumers(affine.product).is_empty());
    Some(())
}

/// Moves factors and summands into scale and bias of the normalisation before.
fn into_normalisation(graph: &mut Graph, id: NodeId, before: NodeId, affine: &Affine) -> Option<()> {
    affine.is_finite().then_some(())?;
    let result = graph.node(id).output(0)?;
    let (scale, bias) = (graph.node(before).input(1)?, graph.node(before).input(2)?);
    let scales = pattern::floats(graph, scale)?;
    let biases = pattern::floats(graph, bias)?;
    let scaled: Vec<f64> = scales
        .iter()
        .zip(&affine.factor)
        .map(|(s, factor)| s * factor)
        .collect();
    let shifted: Vec<f64> = (0..biases.len())
        .map(|c| biases[c] * affine.factor[c] + affine.shift[c])
        .collect();
    let mut add = |role: &str, old: TensorId, values: &[f64]| {
        let name = format!("{}.{role}", graph.tensor(result).name);
        let dtype = graph.tensor(old).ty.dtype;
        pattern::add_floats(graph, name, dtype, &[values.len()], values)
    };
    let scale = add("scale", scale, &scaled)?;
    let bias = add("bias", bias, &shifted)?;
    graph.remove_node(id);
    graph.edit_node(before, |node| {
        node.inputs[1] = Some(scale);
        node.inputs[2] = Some(bias);
        node.outputs[0] = Some(result);
    });
    Some(())
}
