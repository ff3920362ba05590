//! Constant folding: what depends on nothing but constants is computed once, by an injected evaluator.
//!
//! Invariants:
//! 1. No constant above the limit is made, and none of a random op, a custom op or an op with bodies.
//! 2. Tensors with an encoding are left alone; DequantizeLinear too, unless the caller asks for it,
//!    because quantisation wants to see it.
//! 3. `Shape` and `Size` fold as soon as the sizes are known, and so does whatever shape arithmetic
//!    knows in full, whether or not the evaluator knows the op.
//! 4. What is computed and kept in all is bounded ([`Budget`]).

mod budget;

use polychip_ops::{DType, Dim, Literal, Op, operator};

pub(super) use budget::Budget;

use super::pattern;
use crate::{Constant, Container, Error, Evaluate, Graph, Node, NodeId, Tensor, TensorId, Values, infer};

/// How to fold.
pub(super) struct Folding<'a> {
    pub(super) evaluate: &'a dyn Evaluate,
    /// Most bytes of a constant that is made.
    pub(super) limit: usize,
    /// What is left for all.
    pub(super) budget: &'a Budget,
    /// Whether dequantised constants are folded, too.
    pub(super) dequantise: bool,
    /// Whether large weights of 16 bits stay so ([`super::Options::keep_halves`]).
    pub(super) keep_halves: bool,
    /// Whether this is a body: one that never runs may break the rules of its ops.
    pub(super) body: bool,
}

/// Runs the pass; returns the number of nodes folded.
pub(super) fn run(graph: &mut Graph, folding: &Folding<'_>) -> Result<usize, Error> {
    let Folding {
        evaluate,
        limit,
        budget,
        dequantise,
        keep_halves,
        body,
    } = *folding;
    // what was folded before tells shapes that were unknown
    let values = match infer(graph) {
        Err(_) if body => Values::default(),
        inferred => inferred?,
    };
    let mut folded = 0;
    for id in graph.node_ids() {
        let node = graph.node(id);
        let known = shape_of(graph, node)
            .map(|literal| vec![literal])
            .or_else(|| by_arithmetic(graph, node, &values));
        let results = match known {
            Some(results) => Some(results),
            None if node.op == Op::DequantizeLinear && !dequantise => None,
            None if keep_halves && widens_weights(graph, node) => None,
            None => compute(graph, node, evaluate, limit, budget),
        };
        let bytes = |results: &Vec<Literal>| results.iter().map(|literal| literal.bytes.len()).sum();
        if let Some(results) = results.filter(|results| budget.take_bytes(bytes(results))) {
            folded += usize::from(install(graph, id, results, limit));
        }
    }
    Ok(folded)
}

/// Element count below which 16-bit weights are folded like any constant: reading them as stored gains nothing.
const FEW_WEIGHTS: usize = 1 << 14;

/// Whether a node widens weights of 16 bits to f32 for products alone.
fn widens_weights(graph: &Graph, node: &Node) -> bool {
    let (Op::Cast, Some(x), Some(y)) = (node.op, node.input(0), node.output(0)) else {
        return false;
    };
    let (stored, wide) = (graph.tensor(x), graph.tensor(y));
    let is_matrix = stored.ty.shape.as_ref().is_some_and(|shape| shape.len() == 2);
    let of_product = |id: &NodeId| {
        let reader = graph.node(*id);
        matches!(reader.op, Op::MatMul | Op::Gemm)
            && reader.input(1) == Some(y)
            // kernels that read 16 bits are chosen for sizes that are known, once names are bound
            && [reader.input(0), reader.output(0)].into_iter().flatten().all(|id| is_sized(graph.tensor(id)))
            && reader.reads().filter(|&read| read == y).count() == 1
    };
    stored.is_constant()
        && matches!(stored.ty.dtype, DType::F16 | DType::BF16)
        && wide.typed
        && wide.ty.dtype == DType::F32
        && is_matrix
        && stored.ty.elements().is_some_and(|count| count >= FEW_WEIGHTS)
        && !graph.is_output(y)
        && !graph.consumers(y).is_empty()
        && graph.consumers(y).iter().all(of_product)
}

/// Whether all sizes of a tensor are known or named.
fn is_sized(tensor: &Tensor) -> bool {
    let shape = tensor
        .ty
        .shape
        .as_ref()
        .filter(|_| tensor.typed && !tensor.upper_bound);
    shape.is_some_and(|shape| shape.iter().all(|dim| *dim != Dim::Unknown))
}

/// The result of Shape or Size of a tensor whose sizes are known.
fn shape_of(graph: &Graph, node: &Node) -> Option<Literal> {
    if !matches!(node.op, Op::Shape | Op::Size) {
        return None;
    }
    let tensor = graph.tensor(node.input(0)?);
    if !tensor.typed || tensor.upper_bound || tensor.container != Container::Tensor {
        return None;
    }
    let shape = tensor.ty.shape.as_ref()?;
    if node.op == Op::Size {
        return Some(Literal::scalar_i64(i64::try_from(tensor.ty.elements()?).ok()?));
    }
    let rank = i64::try_from(shape.len()).ok()?;
    let place = |value: i64| {
        let value = if value < 0 {
            value.saturating_add(rank)
        } else {
            value
        };
        usize::try_from(value.clamp(0, rank)).ok()
    };
    let node: operator::Shape = node.typed().ok()?;
    let (start, end) = (place(node.start)?, place(node.end.unwrap_or(rank))?);
    let sizes: Option<Vec<i64>> = shape[start..end.max(start)]
        .iter()
        .map(|dim| i64::try_from(dim.known()?).ok())
        .collect();
    Some(Literal::i64s(&sizes?))
}

/// The results of a node that inference knows in full, as of a size picked from a partly known shape.
fn by_arithmetic(graph: &Graph, node: &Node, values: &Values) -> Option<Vec<Literal>> {
    if !node.bodies.is_empty() || !pattern::is_pure(node) || node.outputs.is_empty() {
        return None;
    }
    let literal = |output: &Option<TensorId>| {
        let id = (*output)?;
        let tensor = graph.tensor(id);
        if tensor.encoding.is_some() || tensor.container != Container::Tensor || tensor.upper_bound {
            return None;
        }
        let literal = values.get(id)?.to_literal(&tensor.ty.sizes()?)?;
        (literal.dtype == tensor.ty.dtype).then_some(literal)
    };
    node.outputs.iter().map(literal).collect()
}

fn compute(
    graph: &Graph,
    node: &Node,
    evaluate: &dyn Evaluate,
    limit: usize,
    budget: &Budget,
) -> Option<Vec<Literal>> {
    if node.inputs.is_empty() || !node.bodies.is_empty() || !pattern::is_pure(node) {
        return None;
    }
    let plain = |tensor: TensorId| {
        let tensor = graph.tensor(tensor);
        tensor.encoding.is_none() && tensor.container == Container::Tensor
    };
    let constant = |tensor: TensorId| graph.tensor(tensor).is_constant();
    if !node.reads().all(|t| plain(t) && constant(t))
        || !node.writes().all(|t| plain(t) && fits(graph, node, t, limit))
    {
        return None;
    }
    if !budget.take_work(graph, node) {
        return None;
    }
    let inputs: Option<Vec<Option<Literal>>> = node
        .inputs
        .iter()
        .map(|input| match input {
            None => Some(None),
            Some(id) => {
                let tensor = graph.tensor(*id);
                tensor.data.as_ref()?.to_literal(&tensor.ty).map(Some)
            }
        })
        .collect();
    evaluate.evaluate(node, &inputs?)
}

/// Whether a result is known to be small enough; of most ops it is no larger than the inputs.
fn fits(graph: &Graph, node: &Node, output: TensorId, limit: usize) -> bool {
    let tensor = graph.tensor(output);
    let bytes = |dtype: DType, elements: usize| dtype.byte_len(elements);
    match tensor.ty.elements().filter(|_| tensor.typed) {
        Some(elements) => bytes(tensor.ty.dtype, elements).is_none_or(|bytes| bytes <= limit),
        None => !matches!(
            node.op,
            Op::ConstantOfShape
                | Op::Expand
                | Op::EyeLike
                | Op::Loop
                | Op::OneHot
                | Op::Pad
                | Op::Range
                | Op::Resize
                | Op::Tile
                | Op::Upsample
        ),
    }
}

/// Makes the outputs of a node constants and removes the node.
fn install(graph: &mut Graph, id: NodeId, results: Vec<Literal>, limit: usize) -> bool {
    let outputs = graph.node(id).outputs.clone();
    let fits = |output: &Option<TensorId>, literal: &Literal| {
        let Some(output) = output else { return true };
        let tensor = graph.tensor(*output);
        literal.bytes.len() <= limit && (!tensor.typed || tensor.ty.dtype == literal.dtype)
    };
    if results.len() < outputs.len() || !outputs.iter().zip(&results).all(|(o, literal)| fits(o, literal)) {
        return false;
    }
    graph.remove_node(id);
    for (output, literal) in outputs.into_iter().zip(&results) {
        let Some(output) = output else { continue };
        let tensor = graph.tensor_mut(output);
        tensor.ty = literal.ty();
        tensor.typed = true;
        tensor.upper_bound = false;
        tensor.data = Some(Constant::from_literal(literal));
    }
    true
}
