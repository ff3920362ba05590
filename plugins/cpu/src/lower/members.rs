//! Which nodes each group of a part stands for, for who asks what a step computes.

use std::sync::Arc;

use super::fuse::Groups;
use crate::part::Part;

/// By place of the part's nodes: those that are computed there, in ascending order; empty where nothing is.
///
/// A node that has no place of its own belongs to who says so (products of one step), else to the group of who reads it: groups
/// stand at the last of their nodes, and what is fused in front of them is read by them.
pub(super) fn of(part: &Part, groups: &Groups) -> Vec<Arc<[u32]>> {
    let count = part.nodes.len();
    let mut place: Vec<Option<usize>> = vec![None; count];
    for index in 0..count {
        if let Some((_, tail)) = groups.at(index) {
            place[index] = Some(index);
            for &other in &tail.beside {
                place[other] = Some(index);
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
        if place[index].is_some() {
            continue;
        }
        let outputs = part.nodes[index].outputs.iter().flatten();
        let readers: Vec<usize> = outputs
            .flat_map(|&tensor| readers[tensor].iter().copied())
            .collect();
        // a sum is made by the normalisation that reads it, whoever else does
        let makes_sum = |reader: &&usize| groups.at(**reader).is_some_and(|(_, tail)| tail.sum.is_some());
        let reader = readers.iter().find(makes_sum).or(readers.first());
        place[index] = reader.and_then(|&reader| place[reader]);
    }
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); count];
    for (index, place) in place.into_iter().enumerate() {
        if let Some(place) = place {
            members[place].push(index as u32);
        }
    }
    members.into_iter().map(Arc::from).collect()
}
