//! A part as this plugin reads it: the front end's, and the graphs inside its nodes ready for the reference evaluator.
//!
//! Not here: what to do with the nodes (`lower`).

use std::collections::BTreeMap;
use std::sync::Arc;

use polychip_ops::{DType, Op};
use polychip_reference::Program;
use polychip_sdk::{Error, GraphView, Result};

use polychip_lowering::Body;
pub(crate) use polychip_lowering::{Node, Part, Tensor, TensorIndex};
pub(crate) use polychip_sdk::{Encoding, EncodingKind};

/// The graphs inside the nodes of a part; by node, of those that have one.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    of_nodes: BTreeMap<u32, Inner>,
}

/// The graphs inside a node.
#[derive(Debug, Default)]
struct Inner {
    /// Each body, or why it cannot be computed.
    bodies: Vec<Result<Arc<Program>, String>>,
    /// Each body as a part of its own.
    parts: Vec<BodyPart>,
    /// The primitive ops that it was recomposed from, where they can be computed.
    decomposition: Option<Arc<Program>>,
}

/// A body as a part of its own: a constant that it captures is a constant in it, and no port.
#[derive(Debug)]
pub(crate) struct BodyPart {
    pub(crate) part: Part,
    /// The graphs inside its nodes.
    pub(crate) programs: Programs,
    /// What each of its input ports is fed.
    pub(crate) feeds: Vec<Feed>,
}

/// What an input port of a body is fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feed {
    /// A tensor of the part around it.
    Captured(TensorIndex),
    /// What the op passes at this place.
    Passed(usize),
}

impl Programs {
    /// The bodies of a node as parts, in the order of [`Node::bodies`].
    pub(crate) fn parts(&self, node: &Node) -> &[BodyPart] {
        self.of_nodes.get(&node.index).map_or(&[], |inner| &inner.parts)
    }

    /// The bodies of a node, in the order of [`Node::bodies`]; of each the program, or why it cannot be computed.
    pub(crate) fn bodies(&self, node: &Node) -> &[Result<Arc<Program>, String>] {
        let inner = self.of_nodes.get(&node.index);
        inner.map_or(&[], |inner| &inner.bodies)
    }

    /// The primitive ops that a node was recomposed from, where they can be computed.
    pub(crate) fn decomposition(&self, node: &Node) -> Option<&Arc<Program>> {
        self.of_nodes.get(&node.index)?.decomposition.as_ref()
    }
}

/// The part that a view shows, and the graphs inside its nodes.
///
/// # Errors
/// Where a body hangs on an attribute that this build does not know.
pub(crate) fn read(graph: &GraphView<'_>) -> Result<(Part, Programs)> {
    let part = part_of(graph);
    let programs = programs(graph, &part)?;
    Ok((part, programs))
}

fn part_of(graph: &GraphView<'_>) -> Part {
    // kernels pack constants of f32 only: what is filled with another type is computed like any other node's result
    let mut part = Part::of(graph, |dtype| dtype == DType::F32);
    read_halves(&mut part);
    part
}

/// Has products read 16-bit weights where the part widens them to f32 beforehand: kernels widen them themselves. A
/// Cast left without readers reads nothing either.
pub(crate) fn read_halves(part: &mut Part) {
    let mut widened: BTreeMap<TensorIndex, TensorIndex> = BTreeMap::new();
    for node in part.nodes.iter().filter(|node| node.op == Op::Cast) {
        if let (Some(x), Some(y)) = (node.input(0), node.output(0))
            && matches!(part.tensors[x].dtype, DType::F16 | DType::BF16)
            && part.tensors[x].constant.is_some()
            && part.tensors[x].encoding.is_none()
            && part.dims(x).is_some_and(|dims| dims.len() == 2)
            && part.plain_f32(y)
        {
            widened.insert(y, x);
        }
    }
    if widened.is_empty() {
        return;
    }
    for index in 0..part.nodes.len() {
        let node = &part.nodes[index];
        let product = matches!(node.op, Op::MatMul | Op::Gemm)
            && [node.input(0), node.input(2), node.output(0)]
                .into_iter()
                .flatten()
                .all(|t| part.plain_f32(t))
            && node
                .input(0)
                .and_then(|a| part.dims(a))
                .is_some_and(|a| (1..=6).contains(&a.len()));
        if let Some(&stored) = node.input(1).and_then(|b| widened.get(&b)).filter(|_| product) {
            part.nodes[index].inputs[1] = Some(stored);
        }
    }
    let uses = part.uses();
    for node in part.nodes.iter_mut().filter(|node| node.op == Op::Cast) {
        if node
            .output(0)
            .is_some_and(|y| widened.contains_key(&y) && uses[y] == 0)
        {
            node.inputs.clear();
        }
    }
}

/// The graphs inside the nodes of a part that was read from `graph`.
fn programs(graph: &GraphView<'_>, part: &Part) -> Result<Programs> {
    let mut programs = Programs::default();
    for (view, node) in graph.nodes().zip(&part.nodes) {
        let mut inner = Inner {
            decomposition: view
                .decomposition()
                .and_then(|graph| Program::new(&graph).ok())
                .map(Arc::new),
            ..Inner::default()
        };
        for (body, captures) in view.bodies().zip(&node.bodies) {
            if body.attr.is_none() {
                let error = Error::unsupported("a body graph under an unknown attribute");
                return Err(error.at_node(view.index()));
            }
            let program = Program::new(&body.graph);
            inner
                .bodies
                .push(program.map(Arc::new).map_err(|error| error.to_string()));
            inner.parts.push(body_part(&body.graph, captures, part)?);
        }
        if !inner.bodies.is_empty() || inner.decomposition.is_some() {
            programs.of_nodes.insert(view.index(), inner);
        }
    }
    Ok(programs)
}

fn body_part(graph: &GraphView<'_>, body: &Body, outer: &Part) -> Result<BodyPart> {
    let mut part = part_of(graph);
    let (mut ports, mut feeds, mut passed) = (Vec::new(), Vec::new(), 0);
    for (&port, captured) in part.inputs.iter().zip(&body.captured) {
        match *captured {
            Some(tensor) if outer.is_constant(tensor) => {
                let (outer, inner) = (&outer.tensors[tensor], &mut part.tensors[port]);
                inner.constant = outer.constant;
                inner.fill.clone_from(&outer.fill);
                continue;
            }
            Some(tensor) => feeds.push(Feed::Captured(tensor)),
            None => {
                feeds.push(Feed::Passed(passed));
                passed += 1;
            }
        }
        ports.push(port);
    }
    part.inputs = ports;
    let programs = programs(graph, &part)?;
    Ok(BodyPart {
        part,
        programs,
        feeds,
    })
}
