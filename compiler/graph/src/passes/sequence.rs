//! Takes sequences apart whose elements the graph knows: exporters write SplitToSequence and SequenceAt for a Split, and
//! SequenceConstruct or a chain of SequenceInsert before ConcatFromSequence for a Concat.
//!
//! Gone afterwards, where the elements are known: SequenceAt at a constant position, SequenceLength, ConcatFromSequence. A
//! SequenceAt at any position of a tensor split into pieces of one is a Gather. The ops that made the sequence go with their
//! last reader.
//!
//! Invariants:
//! 1. A position that is out of range stays for the run to refuse.
//! 2. A Split is made once for all readers of its pieces.
//!
//! Not here: sequences that a loop makes or carries, and those that branches give.

use std::collections::BTreeMap;

use polychip_ops::operator::{ConcatFromSequence, SplitToSequence};
use polychip_ops::{Attr, Attributes, Literal, Op};

use super::pattern;
use crate::{Constant, Error, Graph, Node, NodeId, Tensor, TensorId};

/// Most elements of a sequence that is taken apart.
const MAX_ELEMENTS: usize = 1024;
/// Most pieces that one Split gives; elements of more pieces are gathered.
const MAX_PIECES: usize = 64;

/// An element of a sequence.
#[derive(Clone, Copy)]
enum Element {
    Tensor(TensorId),
    /// What a SplitToSequence gives at this position.
    Piece(NodeId, usize),
}

/// Runs the pass; returns the number of nodes taken apart.
#[allow(clippy::unnecessary_wraps)] // it is called as the other passes are
pub(super) fn run(graph: &mut Graph) -> Result<usize, Error> {
    let mut pieces = BTreeMap::new();
    let mut changes = 0;
    for id in graph.node_ids() {
        let done = match graph.node(id).op {
            Op::SequenceAt => at(graph, id, &mut pieces),
            Op::SequenceLength => length(graph, id),
            Op::ConcatFromSequence => concat(graph, id, &mut pieces),
            _ => None,
        };
        changes += usize::from(done.is_some());
    }
    Ok(changes)
}

/// What the Splits that were made give, by the SplitToSequence that each replaces.
type Pieces = BTreeMap<NodeId, Vec<TensorId>>;

/// The elements of a sequence; `None` where the graph does not tell them.
fn elements(graph: &Graph, sequence: TensorId) -> Option<Vec<Element>> {
    // edits from the last one back to what made the sequence
    let mut edits = Vec::new();
    let mut now = sequence;
    let mut found: Vec<Element> = loop {
        let id = graph.producer(now)?;
        let node = graph.node(id);
        match node.op {
            Op::SequenceInsert | Op::SequenceErase if edits.len() < MAX_ELEMENTS => {
                edits.push(node);
                now = node.input(0)?;
            }
            Op::Identity => now = node.input(0)?,
            Op::SequenceEmpty => break Vec::new(),
            Op::SequenceConstruct => {
                let inputs = node.inputs.iter().map(|input| input.map(Element::Tensor));
                break inputs.collect::<Option<_>>()?;
            }
            Op::SplitToSequence => {
                let count = sizes(graph, node)?.len();
                break (0..count).map(|place| Element::Piece(id, place)).collect();
            }
            _ => return None,
        }
    };
    for edit in edits.into_iter().rev() {
        let is_insert = edit.op == Op::SequenceInsert;
        let position = edit.input(if is_insert { 2 } else { 1 });
        if is_insert {
            let at = match position {
                None => found.len(),
                Some(position) => place(graph, position, found.len(), found.len() + 1)?,
            };
            found.insert(at, Element::Tensor(edit.input(1)?));
        } else {
            let at = match position {
                None => found.len().checked_sub(1)?,
                Some(position) => place(graph, position, found.len(), found.len())?,
            };
            found.remove(at);
        }
    }
    (found.len() <= MAX_ELEMENTS).then_some(found)
}

/// Where a constant position points in a list in which the places `0..count` are allowed.
fn place(graph: &Graph, position: TensorId, length: usize, count: usize) -> Option<usize> {
    let [position] = pattern::ints(graph, position)?[..] else {
        return None;
    };
    let from_start = if position < 0 {
        position.checked_add(i64::try_from(length).ok()?)?
    } else {
        position
    };
    usize::try_from(from_start).ok().filter(|&at| at < count)
}

/// The axis of a SplitToSequence, and the rank of what it splits.
fn axis(graph: &Graph, node: &Node) -> Option<(usize, usize)> {
    let x = graph.tensor(node.input(0)?);
    let known = x.typed && x.is_tensor() && x.encoding.is_none();
    let rank = x.ty.rank().filter(|_| known)?;
    let split: SplitToSequence = node.typed().ok()?;
    Some((polychip_ops::axis::normalise(split.axis, rank)?, rank))
}

/// The extents of the pieces that a SplitToSequence gives.
fn sizes(graph: &Graph, node: &Node) -> Option<Vec<i64>> {
    let x = graph.tensor(node.input(0)?);
    let (axis, _) = axis(graph, node)?;
    let whole = x.ty.shape.as_ref()?[axis].known().filter(|_| !x.upper_bound);
    let whole = whole.and_then(|whole| i64::try_from(whole).ok());
    let Some(split) = node.input(1) else {
        return whole
            .filter(|&whole| usize::try_from(whole).is_ok_and(|whole| whole <= MAX_PIECES))
            .map(|whole| (0..whole).map(|_| 1).collect());
    };
    let given = pattern::ints(graph, split)?;
    if graph.tensor(split).ty.rank()? > 0 {
        let sum = given.iter().try_fold(0i64, |sum, &size| sum.checked_add(size));
        let fits = given.iter().all(|&size| size >= 0) && sum.is_some() && (whole.is_none() || sum == whole);
        return (fits && given.len() <= MAX_PIECES).then_some(given);
    }
    let (&size, whole) = (given.first()?, whole?);
    if size <= 0 || whole / size >= MAX_PIECES as i64 {
        return None;
    }
    let mut sizes: Vec<i64> = (0..whole / size).map(|_| size).collect();
    sizes.extend(Some(whole % size).filter(|&rest| rest > 0));
    Some(sizes)
}

/// Whether the pieces lose the axis.
fn squeezes(node: &Node) -> Option<bool> {
    let split: SplitToSequence = node.typed().ok()?;
    Some(node.input(1).is_none() && !split.keepdims)
}

fn add_ints(graph: &mut Graph, name: String, literal: &Literal) -> TensorId {
    graph.add_tensor(Tensor::constant(
        name,
        literal.ty(),
        Constant::from_literal(literal),
    ))
}

/// The name of what a node gives first.
fn name(graph: &Graph, id: NodeId) -> String {
    let output = graph.node(id).writes().next();
    output.map_or_else(String::new, |output| graph.tensor(output).name.clone())
}

/// The tensors that a SplitToSequence of known pieces holds: what a Split gives.
fn split(graph: &mut Graph, id: NodeId) -> Option<Vec<TensorId>> {
    let node = graph.node(id);
    let (sizes, (axis, _), x) = (sizes(graph, node)?, axis(graph, node)?, node.input(0)?);
    let squeezes = squeezes(node)?;
    let name = name(graph, id);
    let made = |graph: &mut Graph, role: &str, place: usize| {
        graph.add_tensor(Tensor::untyped(format!("{name}.{role}{place}")))
    };
    let along = i64::try_from(axis).ok()?;
    let mut pieces: Vec<TensorId> = (0..sizes.len()).map(|i| made(graph, "piece", i)).collect();
    let sizes = add_ints(graph, format!("{name}.sizes"), &Literal::i64s(&sizes));
    let node = Node::new(
        Op::Split,
        vec![Some(x), Some(sizes)],
        pieces.iter().copied().map(Some).collect(),
    );
    graph.add_node(node.with(Attributes::new().with_int(Attr::Axis, along)));
    if squeezes {
        let axes = add_ints(graph, format!("{name}.axes"), &Literal::i64s(&[along]));
        for (place, piece) in pieces.iter_mut().enumerate() {
            let flat = made(graph, "element", place);
            let inputs = vec![Some(*piece), Some(axes)];
            graph.add_node(Node::new(Op::Squeeze, inputs, vec![Some(flat)]));
            *piece = flat;
        }
    }
    Some(pieces)
}

/// The tensor that is this element.
fn tensor(graph: &mut Graph, element: Element, pieces: &mut Pieces) -> Option<TensorId> {
    match element {
        Element::Tensor(tensor) => Some(tensor),
        Element::Piece(id, place) => {
            if let Some(made) = pieces.get(&id) {
                return made.get(place).copied();
            }
            let made = split(graph, id)?;
            let found = made.get(place).copied();
            pieces.insert(id, made);
            found
        }
    }
}

/// Gives a node another op over other inputs.
fn rewrite(graph: &mut Graph, id: NodeId, op: Op, inputs: Vec<TensorId>, attributes: Attributes) {
    graph.edit_node(id, |node| {
        node.op = op;
        node.op_name = std::sync::Arc::from(op.name());
        node.inputs = inputs.into_iter().map(Some).collect();
        node.attributes = attributes;
    });
}

fn at(graph: &mut Graph, id: NodeId, pieces: &mut Pieces) -> Option<()> {
    let node = graph.node(id);
    let (sequence, position) = (node.input(0)?, node.input(1)?);
    if let Some(elements) = elements(graph, sequence)
        && let Some(at) = place(graph, position, elements.len(), elements.len())
    {
        let element = tensor(graph, elements[at], pieces)?;
        rewrite(graph, id, Op::Identity, vec![element], Attributes::new());
        return Some(());
    }
    gather(graph, id, sequence, position)
}

/// An element of a tensor that is split into pieces of one, at a position that the run tells.
fn gather(graph: &mut Graph, id: NodeId, sequence: TensorId, position: TensorId) -> Option<()> {
    let (_, node) = pattern::made_by(graph, sequence, Op::SplitToSequence)?;
    if node.input(1).is_some() {
        return None;
    }
    let (axis, _) = axis(graph, node)?;
    let (x, squeezes) = (node.input(0)?, squeezes(node)?);
    let index = graph.tensor(position);
    let rank = index
        .ty
        .rank()
        .filter(|_| index.typed && index.encoding.is_none())?;
    let wanted = usize::from(!squeezes);
    let position = if rank == wanted {
        position
    } else {
        // one number, in the rank that leaves the axis or takes it
        let name = format!("{}.position", name(graph, id));
        let shape = Literal::i64s(if squeezes { &[] } else { &[1] });
        let shape = add_ints(graph, format!("{name}.shape"), &shape);
        let reshaped = graph.add_tensor(Tensor::untyped(name));
        let inputs = vec![Some(position), Some(shape)];
        graph.add_node(Node::new(Op::Reshape, inputs, vec![Some(reshaped)]));
        reshaped
    };
    let attributes = Attributes::new().with_int(Attr::Axis, i64::try_from(axis).ok()?);
    rewrite(graph, id, Op::Gather, vec![x, position], attributes);
    Some(())
}

/// Whether only a run can tell that the pieces of the sequence fill the axis that they are cut from: a run on other sizes
/// has to fail.
fn is_unchecked(graph: &Graph, sequence: TensorId) -> bool {
    let mut origin = sequence;
    let node = loop {
        let Some(node) = graph.producer(origin).map(|id| graph.node(id)) else {
            return false;
        };
        match (node.op, node.input(0)) {
            (Op::SplitToSequence, _) => break node,
            (Op::Identity | Op::SequenceInsert | Op::SequenceErase, Some(from)) => origin = from,
            _ => return false,
        }
    };
    let whole = node.input(0).zip(axis(graph, node)).and_then(|(x, (axis, _))| {
        let x = graph.tensor(x);
        x.ty.shape.as_ref()?[axis].known().filter(|_| !x.upper_bound)
    });
    whole.is_none()
}

fn length(graph: &mut Graph, id: NodeId) -> Option<()> {
    let node = graph.node(id);
    let (sequence, length) = (node.input(0)?, node.output(0)?);
    if graph.is_output(length) {
        return None;
    }
    let count = match elements(graph, sequence) {
        Some(elements) if !is_unchecked(graph, sequence) => i64::try_from(elements.len()).ok()?,
        _ => {
            // pieces of one, more than a Split would give
            let (_, node) = pattern::made_by(graph, sequence, Op::SplitToSequence)?;
            let x = graph.tensor(node.input(0).filter(|_| node.input(1).is_none())?);
            let (axis, _) = axis(graph, node)?;
            let whole = x.ty.shape.as_ref()?[axis].known().filter(|_| !x.upper_bound)?;
            i64::try_from(whole).ok()?
        }
    };
    let constant = add_ints(
        graph,
        format!("{}.length", graph.tensor(length).name),
        &Literal::scalar_i64(count),
    );
    graph.remove_node(id);
    graph.replace_uses(length, constant);
    Some(())
}

fn concat(graph: &mut Graph, id: NodeId, pieces: &mut Pieces) -> Option<()> {
    let node = graph.node(id);
    let elements = elements(graph, node.input(0)?)?;
    let joined: ConcatFromSequence = node.typed().ok()?;
    if elements.is_empty() {
        return None;
    }
    let name = name(graph, id);
    let mut tensors = Vec::with_capacity(elements.len());
    for element in elements {
        tensors.push(tensor(graph, element, pieces)?);
    }
    if joined.new_axis {
        let axes = add_ints(graph, format!("{name}.axes"), &Literal::i64s(&[joined.axis]));
        for (place, tensor) in tensors.iter_mut().enumerate() {
            let longer = graph.add_tensor(Tensor::untyped(format!("{name}.row{place}")));
            let inputs = vec![Some(*tensor), Some(axes)];
            graph.add_node(Node::new(Op::Unsqueeze, inputs, vec![Some(longer)]));
            *tensor = longer;
        }
    }
    let attributes = Attributes::new().with_int(Attr::Axis, joined.axis);
    rewrite(graph, id, Op::Concat, tensors, attributes);
    Some(())
}
