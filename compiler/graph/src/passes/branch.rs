//! Puts the taken branch of an If whose condition is constant in the place of the If.
//!
//! Exporters write branches for sizes that they do not know (squeeze where a size is one, 8 or 16 kHz); once sizes are bound,
//! the conditions fold.
//!
//! Not here: conditions that only a run knows.

use std::collections::BTreeMap;

use polychip_ops::{Attr, Op};

use super::pattern;
use crate::{Body, Container, Error, Graph, Node, NodeId, TensorId};

/// Runs the pass; returns the number of nodes that are gone.
#[allow(clippy::unnecessary_wraps)] // it is called as the other passes are
pub(super) fn run(graph: &mut Graph) -> Result<usize, Error> {
    let mut changes = 0;
    for id in graph.node_ids() {
        if let Some(attr) = taken(graph, id) {
            let node = graph.remove_node(id);
            let outputs = node.outputs;
            let branch = node.bodies.into_iter().find(|body| body.attr == attr);
            place(
                graph,
                branch.expect("invariant: the branch was found before"),
                &outputs,
            );
            changes += 1;
        }
    }
    Ok(changes)
}

/// The branch that every run takes, where the If can be replaced by it.
fn taken(graph: &Graph, id: NodeId) -> Option<Attr> {
    let node = graph.node(id);
    if node.op != Op::If {
        return None;
    }
    let condition = pattern::scalar(graph, node.input(0)?)?;
    let attr = if condition != 0.0 {
        Attr::ThenBranch
    } else {
        Attr::ElseBranch
    };
    let branch = node.bodies.iter().find(|body| body.attr == attr)?;
    let inner = branch.graph.outputs.iter().map(|&t| branch.graph.tensor(t));
    let outer = node.outputs.iter().map(|&t| t.map(|t| graph.tensor(t)));
    // what is passed on by an Identity has to be one thing inside and outside
    let alike = outer.zip(inner).all(|(outer, inner)| {
        outer.is_none_or(|outer| {
            inner.container == Container::Tensor
                && outer.container == Container::Tensor
                && (!outer.typed || !inner.typed || outer.ty.dtype == inner.ty.dtype)
                && outer.encoding == inner.encoding
        })
    });
    (alike && branch.graph.outputs.len() >= node.outputs.len()).then_some(attr)
}

/// Adds a branch's nodes, and an Identity for each output.
fn place(graph: &mut Graph, branch: Body, outputs: &[Option<TensorId>]) {
    let inner = branch.graph;
    let mut ids: BTreeMap<TensorId, TensorId> = BTreeMap::new();
    ids.extend(
        branch
            .captures
            .iter()
            .map(|capture| (capture.inner, capture.outer)),
    );
    let tensors: Vec<_> = inner.tensors().map(|(id, tensor)| (id, tensor.clone())).collect();
    for (id, tensor) in tensors {
        ids.entry(id).or_insert_with(|| graph.add_tensor(tensor));
    }
    let moved = |id: &mut TensorId| *id = ids[id];
    for (_, node) in inner.nodes() {
        let mut node = node.clone();
        node.inputs.iter_mut().flatten().for_each(moved);
        node.outputs.iter_mut().flatten().for_each(moved);
        for body in &mut node.bodies {
            body.captures
                .iter_mut()
                .for_each(|capture| moved(&mut capture.outer));
        }
        graph.add_node(node);
    }
    for (&output, &result) in outputs.iter().zip(&inner.outputs) {
        if let Some(output) = output {
            let inputs = vec![Some(ids[&result])];
            graph.add_node(Node::new(Op::Identity, inputs, vec![Some(output)]));
        }
    }
}
