//! Parts as sets of nodes: a partition of the graph, convex, in an order that can be run.
//!
//! Invariants: nothing is taken from the plan that is not compared with the graph.

use super::evidence::Evidence;
use super::violation::{Violation, ViolationKind};
use crate::index::PartIndex;
use polychip_graph::{Node, NodeId};
use std::collections::BTreeSet;

/// The part of every node, once each node is in exactly one part whose device supports it.
pub(super) fn parts(e: &Evidence<'_>) -> Result<Vec<usize>, Violation> {
    let nodes = e.graph.node_count();
    let mut part_of: Vec<Option<usize>> = vec![None; nodes];
    for (index, part) in e.plan.parts.iter().enumerate() {
        let wrong = |words: String| {
            Err(Violation::new(
                ViolationKind::Nodes,
                format!("part {index}: {words}"),
            ))
        };
        let Some(target) = e.targets.get(part.device.index()) else {
            return Err(Violation::new(
                ViolationKind::Inputs,
                format!("part {index} is on device {} of {}", part.device, e.targets.len()),
            ));
        };
        if part.nodes.is_empty() {
            return wrong("has no nodes".to_owned());
        }
        if let Some(pair) = part.nodes.windows(2).find(|pair| pair[0] >= pair[1]) {
            return wrong(format!("node {} stands before node {}", pair[0], pair[1]));
        }
        for &node in &part.nodes {
            let Some(slot) = part_of.get_mut(node as usize) else {
                return wrong(format!("node {node} is not one of {nodes}"));
            };
            if let Some(other) = slot.replace(index) {
                return wrong(format!("node {node} is also in part {other}"));
            }
        }
        if let Some(reason) = &target.quarantined {
            return Err(Violation::new(
                ViolationKind::Unsupported,
                format!(
                    "part {index} is on {}, which is quarantined: {reason}",
                    target.name
                ),
            ));
        }
        for &node in &part.nodes {
            if let Some(refusal) = &target.refusals[node as usize] {
                let words = format!(
                    "part {index}: {} does not support node {node}: {} (code {})",
                    target.name, refusal.words, refusal.code
                );
                return Err(Violation::new(ViolationKind::Unsupported, words));
            }
        }
        let id = crate::part::part_id(e.graph, &target.name, &part.nodes);
        if part.id != id {
            return wrong(format!("id is {}, its nodes give {id}", part.id));
        }
    }
    let missing = part_of.iter().position(Option::is_none);
    match missing {
        Some(node) => Err(Violation::new(
            ViolationKind::Nodes,
            format!("node {node} is in no part"),
        )),
        None => Ok(part_of.into_iter().flatten().collect()),
    }
}

/// The nodes whose values a node reads.
fn read_from<'a>(e: &'a Evidence<'_>, node: &'a Node) -> impl Iterator<Item = usize> + 'a {
    node.reads()
        .filter_map(|tensor| e.graph.producer(tensor))
        .map(NodeId::index)
}

/// Every part stands after those it depends on, which also shows that no path leaves a part and
/// returns, and that there is no circle.
pub(super) fn order(e: &Evidence<'_>, part_of: &[usize]) -> Result<(), Violation> {
    let mut late = None;
    let mut after: Vec<BTreeSet<PartIndex>> = vec![BTreeSet::new(); e.plan.parts.len()];
    for (id, node) in e.graph.nodes() {
        let part = part_of[id.index()];
        for from in read_from(e, node) {
            if part_of[from] > part {
                late.get_or_insert((from, id.index()));
            }
            if part_of[from] != part {
                after[part].insert(PartIndex::new(part_of[from]));
            }
        }
    }
    if let Some((from, to)) = late {
        return Err(misplaced(e, part_of, &after, from, to));
    }
    for (index, (part, after)) in e.plan.parts.iter().zip(after).enumerate() {
        if !part.after.iter().eq(after.iter()) {
            return Err(Violation::new(
                ViolationKind::Order,
                format!(
                    "part {index} comes after parts {:?}, its nodes need {after:?}",
                    part.after
                ),
            ));
        }
    }
    Ok(())
}

/// Names what is behind a part that stands before one it depends on.
fn misplaced(
    e: &Evidence<'_>,
    part_of: &[usize],
    after: &[BTreeSet<PartIndex>],
    from: usize,
    to: usize,
) -> Violation {
    // a part is not convex if one of its nodes is reached from it by way of another part
    let mut reached: Vec<BTreeSet<usize>> = Vec::with_capacity(part_of.len());
    for (id, node) in e.graph.nodes() {
        let part = part_of[id.index()];
        // parts that were left on some path to this node
        let mut left = BTreeSet::new();
        for before in read_from(e, node) {
            if before < reached.len() {
                left.extend(reached[before].iter().copied());
            }
            if part_of[before] != part {
                left.insert(part_of[before]);
            }
        }
        if left.contains(&part) {
            let words = format!(
                "part {part} is not convex: a path leaves it and returns to node {}",
                id.index()
            );
            return Violation::new(ViolationKind::NotConvex, words);
        }
        reached.push(left);
    }
    // parts that can be run one after another; the rest are in or behind a circle
    let mut done = BTreeSet::new();
    while let Some(next) = (0..after.len()).find(|&part| {
        !done.contains(&PartIndex::new(part)) && after[part].iter().all(|before| done.contains(before))
    }) {
        done.insert(PartIndex::new(next));
    }
    match (0..after.len()).find(|&part| !done.contains(&PartIndex::new(part))) {
        Some(part) => Violation::new(
            ViolationKind::Cyclic,
            format!("part {part} depends on itself by way of other parts"),
        ),
        None => Violation::new(
            ViolationKind::Order,
            format!(
                "part {} stands before part {}, whose node {from} feeds its node {to}",
                part_of[to], part_of[from]
            ),
        ),
    }
}

/// Inputs and outputs of every part are exactly what its nodes exchange with the rest.
pub(super) fn boundaries(e: &Evidence<'_>, part_of: &[usize]) -> Result<(), Violation> {
    let count = e.plan.parts.len();
    let (mut inputs, mut outputs) = (vec![BTreeSet::new(); count], vec![BTreeSet::new(); count]);
    for (id, tensor) in e.graph.tensors() {
        let number = id.index() as u32;
        let writer = e.graph.producer(id).map(|node| part_of[node.index()]);
        if tensor.is_constant() {
            continue;
        }
        let readers: BTreeSet<usize> = e
            .graph
            .consumers(id)
            .iter()
            .map(|node| part_of[node.index()])
            .collect();
        for &reader in readers.iter().filter(|&&reader| Some(reader) != writer) {
            inputs[reader].insert(number);
        }
        if let Some(writer) = writer
            && (e.graph.is_output(id) || readers.iter().any(|&reader| reader != writer))
        {
            outputs[writer].insert(number);
        }
    }
    for (index, part) in e.plan.parts.iter().enumerate() {
        for (what, stated, real) in [
            ("inputs", &part.inputs, &inputs[index]),
            ("outputs", &part.outputs, &outputs[index]),
        ] {
            if !stated.iter().eq(real.iter()) {
                return Err(Violation::new(
                    ViolationKind::Boundary,
                    format!("part {index} states {what} {stated:?}, its nodes have {real:?}"),
                ));
            }
        }
    }
    Ok(())
}
