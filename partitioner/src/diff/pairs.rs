//! Which nodes of two plans are the same.
//!
//! Invariant: by index if both plans are of one model, else by name and op, then by their content.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::Plan;

/// Nodes of both plans, as pairs of the old and the new index.
pub(crate) fn pairs(old: &Plan, new: &Plan) -> Vec<(usize, usize)> {
    if old.model == new.model {
        let both = count(new).min(count(old));
        return (0..both).map(|node| (node, node)).collect();
    }
    matched(old, new)
}

/// Number of nodes of a plan.
pub(super) fn count(plan: &Plan) -> usize {
    let most = plan.parts.iter().flat_map(|part| &part.nodes).max();
    // a damaged plan may name any number; no part holds more nodes than all parts list
    let listed: usize = plan.parts.iter().map(|part| part.nodes.len()).sum();
    most.map_or(0, |&most| (most as usize + 1).min(listed))
}

/// Nodes of two models that are the same node: by name and op where that names one node in each, the others by what
/// they are, in order.
pub(super) fn matched(old: &Plan, new: &Plan) -> Vec<(usize, usize)> {
    let named = |plan: &Plan| {
        let mut found: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
        for (index, node) in plan.nodes.iter().enumerate() {
            if !node.name.is_empty() {
                found
                    .entry((node.name.clone(), node.op.clone()))
                    .or_default()
                    .push(index);
            }
        }
        found
    };
    let by_name = named(new);
    let mut pairs: Vec<(usize, usize)> = named(old)
        .into_iter()
        .filter_map(
            |(name, was)| match (was.as_slice(), by_name.get(&name)?.as_slice()) {
                ([was], [now]) => Some((*was, *now)),
                _ => None,
            },
        )
        .collect();
    let (was, now): (BTreeSet<usize>, BTreeSet<usize>) = pairs.iter().copied().unzip();
    let mut rest: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, node) in new
        .nodes
        .iter()
        .enumerate()
        .rev()
        .filter(|(index, _)| !now.contains(index))
    {
        rest.entry(node.key.as_str()).or_default().push(index);
    }
    for (index, node) in old
        .nodes
        .iter()
        .enumerate()
        .filter(|(index, _)| !was.contains(index))
    {
        if let Some(now) = rest.get_mut(node.key.as_str()).and_then(Vec::pop) {
            pairs.push((index, now));
        }
    }
    let (old_nodes, new_nodes) = (count(old), count(new));
    pairs.retain(|&(was, now)| was < old_nodes && now < new_nodes);
    pairs.sort_unstable_by_key(|pair| pair.1);
    pairs
}
