//! Values that bodies read from the graph around them: a state that a loop passes on unchanged becomes a capture, and
//! a captured constant becomes the body's own.
//!
//! Exporters carry a loop's weights as states. As constants of the body they fold, and devices pack them.
//!
//! Not here: the folding that follows (`fold`), bodies that replace their node (`branch`).

use polychip_ops::Op;
use polychip_ops::operator::Scan;

use super::pattern::through_identities;
use crate::{Body, Capture, Error, Graph, Node, NodeId, TensorId};

/// Runs the pass; returns the number of changes.
#[allow(clippy::unnecessary_wraps)] // it is called as the other passes are
pub(super) fn run(graph: &mut Graph) -> Result<usize, Error> {
    let mut changes = 0;
    for id in graph.node_ids() {
        if graph.node(id).bodies.is_empty() {
            continue;
        }
        changes += release(graph, id);
        changes += own(graph, id);
    }
    Ok(changes)
}

/// Where the states of a looping node begin among its inputs and among the outputs of its body, and how many they are.
fn states(node: &Node) -> Option<(usize, usize, usize)> {
    match node.op {
        Op::Loop => Some((2, 1, node.inputs.len().checked_sub(2)?)),
        Op::Scan => {
            let scanned = node.typed::<Scan>().ok()?.scan_inputs;
            Some((0, 0, node.inputs.len().checked_sub(scanned)?))
        }
        _ => None,
    }
}

/// Makes captures of the states that the body gives as it takes them.
fn release(graph: &mut Graph, id: NodeId) -> usize {
    let node = graph.node(id);
    let (Some((inputs, results, count)), [body]) = (states(node), &node.bodies[..]) else {
        return 0;
    };
    let kept = |state: &usize| -> bool {
        let (Some(start), Some(&formal)) = (node.input(inputs + state), body.formals().get(inputs + state))
        else {
            return false;
        };
        let Some(&given) = body.graph.outputs.get(results + state) else {
            return false;
        };
        let (outer, inner) = (graph.tensor(start), body.graph.tensor(formal));
        through_identities(&body.graph, given) == formal
            && outer.container == inner.container
            && outer.encoding == inner.encoding
    };
    let kept: Vec<usize> = (0..count).filter(kept).collect();
    // from the last to the first, so that the places before stay what they are
    for &state in kept.iter().rev() {
        let (start, result) = graph.edit_node(id, |node| {
            let start = node
                .inputs
                .remove(inputs + state)
                .expect("invariant: it was there");
            let result = (state < node.outputs.len())
                .then(|| node.outputs.remove(state))
                .flatten();
            while let Some(None) = node.outputs.last() {
                node.outputs.pop();
            }
            let body = &mut node.bodies[0];
            let formal = body.graph.inputs.remove(inputs + state);
            body.graph.outputs.remove(results + state);
            body.graph.inputs.push(formal);
            body.captures.push(Capture {
                outer: start,
                inner: formal,
            });
            (start, result)
        });
        if let Some(result) = result {
            graph.add_node(Node::new(Op::Identity, vec![Some(start)], vec![Some(result)]));
        }
    }
    kept.len()
}

/// Gives each body the constants that it captures.
fn own(graph: &mut Graph, id: NodeId) -> usize {
    let constants: Vec<(usize, Vec<Capture>)> = graph
        .node(id)
        .bodies
        .iter()
        .enumerate()
        .map(|(index, body)| {
            let constant = |capture: &&Capture| is_constant(graph, body, **capture);
            (index, body.captures.iter().filter(constant).copied().collect())
        })
        .collect();
    let mut changes = 0;
    for (index, captures) in constants {
        if captures.is_empty() {
            continue;
        }
        let outer: Vec<_> = captures
            .iter()
            .map(|capture| graph.tensor(capture.outer).clone())
            .collect();
        graph.edit_node(id, |node| {
            let Body {
                graph: inner,
                captures: all,
                ..
            } = &mut node.bodies[index];
            for (capture, outer) in captures.iter().zip(outer) {
                let tensor = inner.tensor_mut(capture.inner);
                let name = std::mem::take(&mut tensor.name);
                *tensor = outer;
                tensor.name = name;
            }
            let taken: Vec<TensorId> = captures.iter().map(|capture| capture.inner).collect();
            inner.inputs.retain(|input| !taken.contains(input));
            all.retain(|capture| !taken.contains(&capture.inner));
        });
        changes += captures.len();
    }
    changes
}

fn is_constant(graph: &Graph, body: &Body, capture: Capture) -> bool {
    graph.tensor(capture.outer).data.is_some() && body.graph.tensor(capture.inner).data.is_none()
}
