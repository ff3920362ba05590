//! The nodes of each fusion group, for reports of what a step computes.

use std::sync::Arc;

use super::fuse::Groups;
use crate::part::Part;

/// By index of the part's nodes: the nodes of the group that is emitted at this index, in ascending order; empty if none is.
///
/// A group is emitted at its last node. A product that shares a step belongs to that step; any other node that is not emitted
/// belongs to the group of its reader.
pub(super) fn of(part: &Part, groups: &Groups) -> Vec<Arc<[u32]>> {
    let count = part.nodes.len();
    let mut emitted_at: Vec<Option<usize>> = vec![None; count];
    for index in 0..count {
        if let Some((_, fused)) = groups.at(index) {
            emitted_at[index] = Some(index);
            for &other in &fused.beside {
                emitted_at[other] = Some(index);
            }
        }
    }
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); part.tensors.len()];
    for (index, node) in part.nodes.iter().enumerate() {
        for tensor in node.reads() {
            readers[tensor].push(index);
        }
    }
    for index in (0..count).rev() {
        if emitted_at[index].is_some() {
            continue;
        }
        let outputs = part.nodes[index].outputs.iter().flatten();
        let readers: Vec<usize> = outputs
            .flat_map(|&tensor| readers[tensor].iter().copied())
            .collect();
        // a sum belongs to the normalisation that computes it, even if others read it
        let makes_sum = |reader: &&usize| groups.at(**reader).is_some_and(|(_, fused)| fused.sum.is_some());
        let reader = readers.iter().find(makes_sum).or(readers.first());
        emitted_at[index] = reader.and_then(|&reader| emitted_at[reader]);
    }
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); count];
    for (index, emitted_at) in emitted_at.into_iter().enumerate() {
        if let Some(emitted_at) = emitted_at {
            members[emitted_at].push(index as u32);
        }
    }
    members.into_iter().map(Arc::from).collect()
}
