//! An order of a model's nodes in which every name is defined before it is read.
//!
//! Invariants:
//! 1. Nodes that stand right already keep their order.
//! 2. A circle is an error that names its nodes; names that nothing defines are left to the caller.

use std::collections::{BTreeMap, BTreeSet};

use super::messages::{Graph, Node};
use crate::Error;

/// Indices of the nodes in order.
pub(super) fn order(nodes: &[Node]) -> Result<Vec<usize>, Error> {
    let mut makers: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            if makers.insert(name, index).is_some() {
                return Err(Error::malformed(format!("the name \"{name}\" is defined twice")));
            }
        }
    }
    let sources: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| {
            let mut names = BTreeSet::new();
            reads(node, &BTreeSet::new(), &mut names);
            names
                .iter()
                .filter_map(|name| makers.get(name).copied())
                .collect()
        })
        .collect();
    if sources
        .iter()
        .enumerate()
        .all(|(index, sources)| sources.iter().all(|&source| source < index))
    {
        return Ok((0..nodes.len()).collect());
    }
    sorted(nodes, &sources)
}

/// Kahn's order, lowest index first. Not petgraph's: nodes that stand right keep their place, and the error names a cycle;
/// the first build has no petgraph.
fn sorted(nodes: &[Node], sources: &[Vec<usize>]) -> Result<Vec<usize>, Error> {
    let mut waits: Vec<usize> = sources.iter().map(Vec::len).collect();
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (index, sources) in sources.iter().enumerate() {
        for &source in sources {
            readers[source].push(index);
        }
    }
    let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|&index| waits[index] == 0).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(index) = ready.pop_first() {
        order.push(index);
        for &reader in &readers[index] {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.insert(reader);
            }
        }
    }
    if order.len() == nodes.len() {
        return Ok(order);
    }
    // every node that waits has a source that waits: going back from one ends in a circle
    let mut path: Vec<usize> = Vec::new();
    let mut at = waits
        .iter()
        .position(|&wait| wait > 0)
        .expect("invariant: some node waits");
    loop {
        if let Some(start) = path.iter().position(|&before| before == at) {
            let names: Vec<String> = path[start..]
                .iter()
                .rev()
                .map(|&index| nodes[index].what())
                .collect();
            return Err(Error::cycle(format!(
                "nodes depend on each other in a circle: {}",
                names.join(", ")
            )));
        }
        path.push(at);
        at = *sources[at]
            .iter()
            .find(|&&source| waits[source] > 0)
            .expect("invariant: a source waits too");
    }
}

/// Names that a node reads from outside, those of its bodies included.
fn reads<'m>(node: &'m Node, inner: &BTreeSet<&'m str>, names: &mut BTreeSet<&'m str>) {
    let free = |name: &&'m String| !name.is_empty() && !inner.contains(name.as_str());
    names.extend(node.input.iter().filter(free).map(String::as_str));
    for graph in node
        .attribute
        .iter()
        .filter_map(|attribute| attribute.g.as_deref())
    {
        reads_graph(graph, inner, names);
    }
}

fn reads_graph<'m>(graph: &'m Graph, outer: &BTreeSet<&'m str>, names: &mut BTreeSet<&'m str>) {
    let mut inner = outer.clone();
    inner.extend(graph.input.iter().map(|info| info.name.as_str()));
    inner.extend(graph.initializer.iter().map(|tensor| tensor.name.as_str()));
    for sparse in &graph.sparse_initializer {
        inner.extend(sparse.values.iter().map(|tensor| tensor.name.as_str()));
    }
    inner.extend(
        graph
            .node
            .iter()
            .flat_map(|node| &node.output)
            .map(String::as_str),
    );
    for node in &graph.node {
        reads(node, &inner, names);
    }
    let outputs = graph.output.iter().map(|info| info.name.as_str());
    names.extend(outputs.filter(|name| !inner.contains(name)));
}
