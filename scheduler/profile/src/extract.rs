//! Extracts nodes of a graph as a separate graph, which serves to measure, refuse and identify a
//! sequence of nodes.

use std::collections::BTreeSet;

use polychip_graph::{Graph, NodeId, TensorId, extract, fingerprint};
use polychip_partitioner::Part;

/// Some nodes of a graph (ascending) as a graph of their own. Its inputs and outputs are the
/// tensors that the nodes exchange with other nodes or the app.
pub fn run_graph(graph: &Graph, nodes: &[u32]) -> Graph {
    let members: BTreeSet<NodeId> = nodes.iter().map(|index| NodeId::new(*index as usize)).collect();
    let (mut inputs, mut outputs) = (BTreeSet::new(), BTreeSet::new());
    for &id in &members {
        let node = graph.node(id);
        let given = |tensor: &TensorId| {
            graph
                .producer(*tensor)
                .is_some_and(|producer| members.contains(&producer))
                || graph.tensor(*tensor).is_constant()
        };
        inputs.extend(node.reads().filter(|tensor| !given(tensor)));
        outputs.extend(node.writes().filter(|tensor| {
            graph.is_output(*tensor)
                || graph
                    .consumers(*tensor)
                    .iter()
                    .any(|reader| !members.contains(reader))
        }));
    }
    let ordered = |ids: BTreeSet<TensorId>| -> Vec<TensorId> { ids.into_iter().collect() };
    let members: Vec<NodeId> = members.into_iter().collect();
    let mut run = extract(graph, &members, &ordered(inputs), &ordered(outputs));
    run.sort()
        .expect("invariant: nodes of a sorted graph have no cycle");
    run
}

/// The structure fingerprint of some nodes of a graph as a part.
pub fn structure_of(graph: &Graph, nodes: &[u32]) -> [u8; 32] {
    fingerprint::structure(&run_graph(graph, nodes))
}

/// The graph of a part of a plan. The order of its nodes depends on the part alone, so that a
/// cached blob is found by content, independent of the surrounding model.
///
/// # Panics
/// The part belongs to another graph.
pub fn part_graph(graph: &Graph, part: &Part) -> Graph {
    let nodes = part.nodes.iter().map(|index| NodeId::new(*index as usize));
    let nodes: Vec<NodeId> = nodes.collect();
    let tensors =
        |ids: &[u32]| -> Vec<TensorId> { ids.iter().map(|id| TensorId::new(*id as usize)).collect() };
    let mut graph = extract(graph, &nodes, &tensors(&part.inputs), &tensors(&part.outputs));
    graph
        .sort()
        .expect("invariant: a part of a sorted graph has no cycle");
    graph
}
