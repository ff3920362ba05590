//! Folds QuantizeLinear and DequantizeLinear onto tensors as encodings.
//!
//! The rule: a node that reads tensors with an encoding computes on the encoded reals, and a result with an encoding
//! is quantised after it: divided by the scale, rounded half to even, moved by the zero point, clamped to the type.
//! QuantizeLinear and DequantizeLinear themselves, where they stay, read and write the stored integers, and agree
//! with the encoding.
//!
//! Folded are:
//! - `dequantise → op → quantise`, where every float input is dequantised (but parameters, such as the
//!   limits of Clip, which may be float constants) and every float output is quantised at once; also
//!   with activations or a residual sum between op and quantise, whose inner tensors stay floats;
//! - dequantised constant weights of Conv, ConvTranspose, Gemm, MatMul and Gather, whatever else the
//!   node reads (weight-only quantisation); also behind a Transpose, where they are dequantised in blocks ([`blocks`]);
//! - dequantise, then quantise with the same encoding: nothing. With another one: an Identity that gives
//!   the same reals on the other grid.
//!
//! QLinearConv and QLinearMatMul became such chains before ([`linear`]).
//!
//! Dequantise and quantise were moved past ops that only move or select elements before ([`travel`]), so
//! that these are on integers. Relu and Clip before a quantise become its clamp where they can.
//!
//! Between quantise and dequantise, ops that only move or select integers (Reshape, Transpose,
//! Concat, MaxPool …) carry one encoding from input to output.
//!
//! Invariants:
//! 1. Everything else that reads or writes a tensor with an encoding would see the same integers as
//!    before; where that cannot be said, the nodes stay.
//! 2. Scales are constant and finite; those of anything but weights are positive. A constant keeps its integers, uncopied.

use polychip_ops::{DType, Op};

use super::pattern;
use crate::{Encoding, Error, Graph, Node, NodeId, TensorId};

pub(super) mod blocks;
mod carriers;
mod limit;
pub(super) mod linear;
pub(super) mod scale;
pub(super) mod travel;

use carriers::Carriers;

/// Most nodes between dequantise and quantise.
const CHAIN: usize = 4;

/// Runs the pass; returns the number of changes.
pub(super) fn run(graph: &mut Graph) -> Result<usize, Error> {
    let mut changes = 0;
    let carriers = Carriers::find(graph);
    for id in graph.node_ids() {
        let Some(node) = graph.find_node(id) else { continue };
        if !scale::computes(node) {
            continue;
        }
        if let Some(chain) = chain(graph, &carriers, id) {
            commit(graph, &carriers, &chain);
            changes += 1;
        } else {
            changes += weights(graph, id);
        }
    }
    for id in graph.node_ids() {
        let members = carriers::moved(graph, graph.node(id));
        if let Some(&first) = members
            .first()
            .filter(|&&first| carriers.encoding(first).is_some())
        {
            carriers.settle(graph, first);
        }
    }
    changes += pairs(graph);
    changes += requantised(graph, &carriers);
    changes += limit::run(graph);
    Ok(changes)
}

/// A float tensor that a dequantise makes: from which integers, meaning what.
fn dequantised(graph: &Graph, carriers: &Carriers, id: TensorId) -> Option<(TensorId, Encoding)> {
    let (_, node) = pattern::made_by(graph, id, Op::DequantizeLinear)?;
    let source = node.input(0)?;
    let encoding = scale::encoding(graph, node)?;
    let fits = graph.tensor(source).is_constant() || carriers.encoding(source) == Some(&encoding);
    fits.then_some((source, encoding))
}

/// The quantise that alone reads a tensor.
fn quantised(graph: &Graph, carriers: &Carriers, id: TensorId) -> Option<NodeId> {
    let reader = graph.only_consumer(id)?;
    let node = graph.node(reader);
    let result = node.output(0)?;
    let reads = node.op == Op::QuantizeLinear && node.input(0) == Some(id);
    let encoding = carriers.encoding(result).filter(|_| reads)?;
    (encoding.real == graph.tensor(id).ty.dtype).then_some(reader)
}

/// Nodes to fold, and the quantise nodes behind the last.
struct Chain {
    nodes: Vec<NodeId>,
    ends: Vec<NodeId>,
}

fn chain(graph: &Graph, carriers: &Carriers, first: NodeId) -> Option<Chain> {
    let mut chain = Chain {
        nodes: vec![first],
        ends: Vec::new(),
    };
    if !reads_quantised(graph, carriers, first, None) {
        return None;
    }
    loop {
        let last = *chain.nodes.last()?;
        let floats: Vec<TensorId> = graph
            .node(last)
            .writes()
            .filter(|&output| graph.tensor(output).typed && graph.tensor(output).ty.dtype.is_float())
            .collect();
        let ends: Option<Vec<NodeId>> = floats
            .iter()
            .map(|&output| quantised(graph, carriers, output))
            .collect();
        if let Some(ends) = ends.filter(|ends| !ends.is_empty()) {
            chain.ends = ends;
            return Some(chain);
        }
        let &[inner] = &floats[..] else { return None };
        let next = graph.only_consumer(inner)?;
        let continues = super::group::is_activation(graph.node(next).op) || graph.node(next).op == Op::Add;
        if chain.nodes.len() == CHAIN || !continues || !reads_quantised(graph, carriers, next, Some(inner)) {
            return None;
        }
        chain.nodes.push(next);
    }
}

/// Whether all float inputs of a node are dequantised, inside the chain, or constant parameters.
fn reads_quantised(graph: &Graph, carriers: &Carriers, id: NodeId, inside: Option<TensorId>) -> bool {
    let node = graph.node(id);
    let mut any = inside.is_some();
    for (index, input) in node.inputs.iter().enumerate() {
        let Some(input) = *input else { continue };
        let tensor = graph.tensor(input);
        if !tensor.typed || tensor.encoding.is_some() {
            return false;
        }
        if !tensor.ty.dtype.is_float() || inside == Some(input) {
            continue;
        }
        if dequantised(graph, carriers, input).is_some() {
            any = true;
        } else if !tensor.is_constant() || !is_parameter(node.op, index) {
            return false;
        }
    }
    any
}

/// Whether an input of an op is a setting more than data.
fn is_parameter(op: Op, index: usize) -> bool {
    match op {
        Op::Clip | Op::Resize => index > 0,
        Op::Conv | Op::ConvTranspose | Op::Gemm | Op::Pad => index == 2,
        Op::BatchNormalization
        | Op::GroupNormalization
        | Op::InstanceNormalization
        | Op::LayerNormalization
        | Op::RMSNormalization
        | Op::PRelu
        | Op::Pow => index > 0,
        _ => false,
    }
}

fn commit(graph: &mut Graph, carriers: &Carriers, chain: &Chain) {
    for &id in &chain.nodes {
        for index in 0..graph.node(id).inputs.len() {
            let source = graph
                .node(id)
                .input(index)
                .and_then(|input| dequantised(graph, carriers, input));
            if let Some((source, encoding)) = source {
                let source = settle(graph, carriers, source, encoding);
                graph.edit_node(id, |node| node.inputs[index] = Some(source));
            }
        }
    }
    for &end in &chain.ends {
        let quantise = graph.remove_node(end);
        let (Some(inner), Some(result)) = (quantise.input(0), quantise.output(0)) else {
            unreachable!("invariant: a quantise has an input and an output")
        };
        let producer = graph
            .producer(inner)
            .expect("invariant: the chain makes what is quantised");
        graph.edit_node(producer, |node| {
            for output in node.outputs.iter_mut().filter(|output| **output == Some(inner)) {
                *output = Some(result);
            }
        });
        carriers.settle(graph, result);
    }
}

/// The tensor of the same integers that carries this encoding: the tensor itself, or for a constant
/// that others read differently a second one of the same memory.
fn settle(graph: &mut Graph, carriers: &Carriers, source: TensorId, encoding: Encoding) -> TensorId {
    let tensor = graph.tensor(source);
    if !tensor.is_constant() {
        carriers.settle(graph, source);
        return source;
    }
    match &tensor.encoding {
        Some(have) if *have == encoding => return source,
        None if graph.only_consumer(source).is_some() => {
            graph.tensor_mut(source).encoding = Some(encoding);
            return source;
        }
        _ => {}
    }
    let mut copy = tensor.clone();
    copy.encoding = Some(encoding);
    graph.add_tensor(copy)
}

/// Folds dequantised constants into the weight ports of a node whose other inputs are floats.
fn weights(graph: &mut Graph, id: NodeId) -> usize {
    let node = graph.node(id);
    let ports: &[usize] = match node.op {
        Op::Conv | Op::ConvTranspose => &[1],
        Op::Gemm | Op::MatMul => &[0, 1],
        Op::Gather => &[0],
        _ => return 0,
    };
    let none = Carriers::none();
    let mut folded = 0;
    for &port in ports {
        let Some((source, encoding)) = graph
            .node(id)
            .input(port)
            .and_then(|input| stored_weights(graph, input))
        else {
            continue;
        };
        let source = settle(graph, &none, source, encoding);
        graph.edit_node(id, |node| node.inputs[port] = Some(source));
        folded += 1;
    }
    folded
}

/// A constant that is dequantised to f32, and what it means.
fn stored_weights(graph: &Graph, id: TensorId) -> Option<(TensorId, Encoding)> {
    let (_, node) = pattern::made_by(graph, id, Op::DequantizeLinear)?;
    let encoding = scale::weights(graph, node).filter(|encoding| encoding.real == DType::F32)?;
    Some((node.input(0)?, encoding))
}

/// Removes dequantise-quantise pairs of one encoding.
fn pairs(graph: &mut Graph) -> usize {
    let mut removed = 0;
    for id in graph.node_ids() {
        let Some(node) = graph.find_node(id).filter(|node| node.op == Op::QuantizeLinear) else {
            continue;
        };
        let Some((_, before)) = node
            .input(0)
            .and_then(|input| pattern::made_by(graph, input, Op::DequantizeLinear))
        else {
            continue;
        };
        let (Some(source), Some(result)) = (before.input(0), node.output(0)) else {
            continue;
        };
        let same =
            scale::encoding(graph, node).is_some_and(|own| scale::encoding(graph, before) == Some(own));
        if same && graph.tensor(source).ty.dtype == graph.tensor(result).ty.dtype {
            removed += usize::from(super::no_op::bypass(graph, id, source));
        }
    }
    removed
}

/// Makes dequantise-quantise pairs of two encodings one Identity.
fn requantised(graph: &mut Graph, carriers: &Carriers) -> usize {
    let mut changes = 0;
    for id in graph.node_ids() {
        let Some(node) = graph.find_node(id).filter(|node| node.op == Op::QuantizeLinear) else {
            continue;
        };
        let (Some(real), Some(result)) = (node.input(0), node.output(0)) else {
            continue;
        };
        let Some((source, encoding)) = dequantised(graph, carriers, real) else {
            continue;
        };
        let fits = carriers
            .encoding(result)
            .is_some_and(|own| own.real == encoding.real);
        if !fits || graph.tensor(source).is_constant() {
            continue;
        }
        graph.edit_node(id, |node| {
            *node = Node {
                name: std::mem::take(&mut node.name),
                ..Node::new(Op::Identity, vec![Some(source)], vec![Some(result)])
            };
        });
        carriers.settle(graph, source);
        carriers.settle(graph, result);
        changes += 1;
    }
    changes
}
