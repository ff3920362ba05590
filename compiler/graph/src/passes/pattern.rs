//! What passes ask of a graph: constants by value, operands in either order, regions with one exit.
//!
//! Invariants:
//! 1. A constant with an encoding is never read as a number here.
//! 2. A returned region is closed: nodes outside it read only its result.

use std::collections::BTreeMap;

use polychip_ops::operator::Reduce;
use polychip_ops::{DType, Dim, Literal, Op, TensorType};

use crate::{Constant, Graph, Node, NodeId, Tensor, TensorId};

/// Most elements of a constant that patterns look into.
const SMALL: usize = 4096;

/// How far a constant may be from what the op has, relatively: `None` for types that the recomposed
/// ops are not looked for in.
pub(super) fn tolerance(graph: &Graph, tensor: TensorId) -> Option<f64> {
    let tensor = graph.tensor(tensor);
    match tensor.ty.dtype {
        _ if !tensor.typed || tensor.encoding.is_some() => None,
        DType::F32 | DType::F64 => Some(1e-5),
        DType::F16 => Some(1e-3),
        DType::BF16 => Some(8e-3),
        _ => None,
    }
}

/// The source of a tensor, traced back through Identities.
pub(super) fn through_identities(graph: &Graph, id: TensorId) -> TensorId {
    let mut found = id;
    while let Some(node) = graph.producer(found).map(|node| graph.node(node))
        && node.op == Op::Identity
        && let Some(input) = node.input(0)
    {
        found = input;
    }
    found
}

/// The elements of a small constant.
pub(super) fn literal(graph: &Graph, id: TensorId) -> Option<Literal> {
    let tensor = graph.tensor(id);
    if tensor.encoding.is_some() || tensor.ty.elements()? > SMALL {
        return None;
    }
    tensor.data.as_ref()?.to_literal(&tensor.ty)
}

/// The value of a constant with one element.
pub(super) fn scalar(graph: &Graph, id: TensorId) -> Option<f64> {
    if graph.tensor(id).ty.elements()? != 1 {
        return None;
    }
    literal(graph, id)?.scalar_as_f64()
}

/// The integers of a small constant.
pub(super) fn ints(graph: &Graph, id: TensorId) -> Option<Vec<i64>> {
    literal(graph, id)?.as_i64s()
}

/// The floats of a constant of any size.
pub(super) fn floats(graph: &Graph, id: TensorId) -> Option<Vec<f64>> {
    let tensor = graph.tensor(id);
    if tensor.encoding.is_some() || !tensor.ty.dtype.is_float() {
        return None;
    }
    tensor.data.as_ref()?.to_literal(&tensor.ty)?.as_f64s()
}

/// Floats as a tensor of this type; `None` where the type is no plain float.
pub(super) fn from_floats(dtype: DType, shape: &[usize], values: &[f64]) -> Option<(TensorType, Constant)> {
    let bytes: Vec<u8> = match dtype {
        DType::F32 => values.iter().flat_map(|&v| (v as f32).to_le_bytes()).collect(),
        DType::F64 => values.iter().flat_map(|&v| v.to_le_bytes()).collect(),
        DType::F16 => values
            .iter()
            .flat_map(|&v| half::f16::from_f64(v).to_le_bytes())
            .collect(),
        DType::BF16 => values
            .iter()
            .flat_map(|&v| half::bf16::from_f64(v).to_le_bytes())
            .collect(),
        _ => return None,
    };
    Some((TensorType::known(dtype, shape), Constant::new(bytes)))
}

/// Adds a constant of floats.
pub(super) fn add_floats(
    graph: &mut Graph,
    name: String,
    dtype: DType,
    shape: &[usize],
    values: &[f64],
) -> Option<TensorId> {
    let (ty, data) = from_floats(dtype, shape, values)?;
    Some(graph.add_tensor(Tensor::constant(name, ty, data)))
}

/// The node of this op that makes a tensor.
pub(super) fn made_by(graph: &Graph, id: TensorId, op: Op) -> Option<(NodeId, &Node)> {
    let producer = graph.producer(id)?;
    let node = graph.node(producer);
    (node.op == op && node.output(0) == Some(id)).then_some((producer, node))
}

/// The two inputs of a binary node.
pub(super) fn pair(node: &Node) -> Option<(TensorId, TensorId)> {
    match node.inputs[..] {
        [Some(a), Some(b)] => Some((a, b)),
        _ => None,
    }
}

/// The input of a binary node that is not this one, if this is just one of them.
pub(super) fn other(node: &Node, one: TensorId) -> Option<TensorId> {
    match pair(node)? {
        (a, b) if a == one && b != one => Some(b),
        (a, b) if b == one && a != one => Some(a),
        _ => None,
    }
}

/// A constant scalar operand of a commutative node, and the other operand.
pub(super) fn with_scalar(graph: &Graph, node: &Node) -> Option<(TensorId, f64)> {
    let (a, b) = pair(node)?;
    match (scalar(graph, a), scalar(graph, b)) {
        (None, Some(value)) => Some((a, value)),
        (Some(value), None) => Some((b, value)),
        _ => None,
    }
}

/// The axes of a reduction, from the front and ascending; `None` where they are not known.
pub(super) fn reduced_axes(graph: &Graph, node: &Node) -> Option<Vec<usize>> {
    let rank = graph.tensor(node.input(0)?).ty.rank()?;
    let axes = match node.input(1) {
        Some(axes) => ints(graph, axes)?,
        None => Vec::new(),
    };
    if axes.is_empty() {
        let all = !node.typed::<Reduce>().ok()?.noop_with_empty_axes;
        return Some(if all { (0..rank).collect() } else { Vec::new() });
    }
    let mut axes = polychip_ops::axis::normalise_all(&axes, rank)?;
    axes.sort_unstable();
    Some(axes)
}

/// Whether two tensors certainly have the same shape.
pub(super) fn same_shape(graph: &Graph, a: TensorId, b: TensorId) -> bool {
    let (a, b) = (graph.tensor(a), graph.tensor(b));
    if !a.typed || !b.typed || a.upper_bound || b.upper_bound {
        return false;
    }
    same_dims(a.ty.shape.as_deref(), b.ty.shape.as_deref())
}

fn same_dims(a: Option<&[Dim]>, b: Option<&[Dim]>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)),
        _ => false,
    }
}

/// Whether what a node computes is decided by its inputs: no random numbers.
pub(super) fn is_pure(node: &Node) -> bool {
    !matches!(
        node.op,
        Op::Custom
            | Op::RandomNormal
            | Op::RandomNormalLike
            | Op::RandomUniform
            | Op::RandomUniformLike
            | Op::Bernoulli
            | Op::Multinomial
            | Op::Dropout
    )
}

/// The nodes between `stops` and `result`, in graph order: every path to the result ends in a stop or
/// a constant, and nothing inside is read elsewhere. `None` where there is no such region.
pub(super) fn region(graph: &Graph, result: TensorId, stops: &[TensorId]) -> Option<Vec<NodeId>> {
    const LIMIT: usize = 64;
    let mut nodes: Vec<NodeId> = Vec::new();
    let mut queue = vec![result];
    while let Some(tensor) = queue.pop() {
        if stops.contains(&tensor) || graph.tensor(tensor).is_constant() {
            continue;
        }
        let producer = graph.producer(tensor)?;
        if nodes.contains(&producer) {
            continue;
        }
        let node = graph.node(producer);
        if nodes.len() == LIMIT || !node.bodies.is_empty() || !is_pure(node) {
            return None;
        }
        if node
            .reads()
            .chain(node.writes())
            .any(|t| graph.tensor(t).encoding.is_some())
        {
            return None;
        }
        nodes.push(producer);
        queue.extend(node.reads());
    }
    nodes.sort_unstable();
    let inside = |tensor: TensorId| {
        tensor == result
            || !graph.is_output(tensor)
                && graph
                    .consumers(tensor)
                    .iter()
                    .all(|reader| nodes.contains(reader))
    };
    let closed = nodes.iter().all(|&id| graph.node(id).writes().all(&inside));
    closed.then_some(nodes)
}

/// Replaces a region with one node, which keeps the region as its decomposition. `aliases` maps the node's inputs to
/// the region's tensors where they differ.
pub(super) fn replace_region(
    graph: &mut Graph,
    region: &[NodeId],
    mut node: Node,
    aliases: &[(TensorId, TensorId)],
) -> NodeId {
    let mut inner = Graph::new(node.op.name());
    let mut map: BTreeMap<TensorId, TensorId> = BTreeMap::new();
    for (place, input) in node.inputs.iter().copied().flatten().enumerate() {
        let mut copy = graph.tensor(input).clone();
        copy.data = None;
        if inner.input_named(&copy.name).is_some() {
            copy.name = format!("{}.{place}", copy.name);
        }
        let id = inner.add_tensor(copy);
        inner.inputs.push(id);
        map.entry(input).or_insert(id);
        for (from, _) in aliases.iter().filter(|(_, to)| *to == input) {
            map.entry(*from).or_insert(id);
        }
    }
    for &id in region {
        let mut copy = graph.node(id).clone();
        copy.decomposition = None;
        for tensor in copy.inputs.iter_mut().chain(&mut copy.outputs).flatten() {
            *tensor = *map
                .entry(*tensor)
                .or_insert_with(|| inner.add_tensor(graph.tensor(*tensor).clone()));
        }
        inner.add_node(copy);
    }
    inner.outputs = node.writes().map(|output| map[&output]).collect();
    if let Some(&last) = region.last().filter(|_| node.name.is_empty()) {
        node.name = graph.node(last).name.clone();
    }
    for &id in region {
        graph.remove_node(id);
    }
    node.decomposition = Some(Box::new(inner));
    graph.add_node(node)
}

/// The sizes of a tensor from this axis on, if all are known and no bounds.
pub(super) fn sizes_from(graph: &Graph, id: TensorId, first: usize) -> Option<Vec<usize>> {
    let tensor = graph.tensor(id);
    let shape = tensor.ty.shape.as_ref().filter(|_| !tensor.upper_bound)?;
    shape.get(first..)?.iter().map(Dim::known).collect()
}
