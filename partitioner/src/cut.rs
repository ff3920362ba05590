//! Cuts parts that would occupy a device for longer than requested, so that other runs get turns in
//! between.
//!
//! Invariants: the nodes of a part keep their topological order, and no part is cut within a node;
//! so the resulting parts can run one after the other like the original ones. Deliberately not
//! here: what other parts do meanwhile (package `polychip-device-queue`).

use std::collections::BTreeSet;

use polychip_graph::{NodeId, TensorId};

use crate::assemble::part_cost;
use crate::error::Error;
use crate::instance::Inputs;
use crate::unit::Time;

/// Parts none of which takes longer than `longest` with its launch, but for those of a single node. Each is cut where
/// the fewest bytes go over the cut, once it takes half as long at least.
pub(crate) fn parts(
    inputs: &Inputs<'_>,
    parts: Vec<Vec<usize>>,
    placement: &[usize],
    longest: Time,
) -> Result<Vec<Vec<usize>>, Error> {
    let mut cut = Vec::with_capacity(parts.len());
    for part in parts {
        let device = placement[part[0]];
        let launch = inputs.targets[device].launch;
        let takes = |nodes: &[usize]| -> Result<u64, Error> {
            let cost = part_cost(inputs, nodes, device)?;
            Ok(cost.time.picoseconds().saturating_add(launch.picoseconds()))
        };
        let mut rest = &part[..];
        while rest.len() > 1 && takes(rest)? > longest.picoseconds() {
            // the longest beginning that fits, or one node
            let mut most = 1;
            while most + 1 < rest.len() && takes(&rest[..=most])? <= longest.picoseconds() {
                most += 1;
            }
            let half = (1..=most).find_map(|count| match takes(&rest[..count]) {
                Ok(time) if time < longest.picoseconds() / 2 => None,
                Ok(_) => Some(Ok(count)),
                Err(error) => Some(Err(error)),
            });
            let least = half.transpose()?.unwrap_or(most);
            let at = (least..=most)
                // of equal ones the last
                .min_by_key(|&count| {
                    (
                        bytes_over(inputs, &rest[..count], &rest[count..]),
                        std::cmp::Reverse(count),
                    )
                })
                .unwrap_or(most);
            let (first, second) = rest.split_at(at);
            cut.push(first.to_vec());
            rest = second;
        }
        cut.push(rest.to_vec());
    }
    Ok(cut)
}

/// Bytes that the second nodes read of what the first ones write; of a tensor whose size is not known, none.
fn bytes_over(inputs: &Inputs<'_>, first: &[usize], second: &[usize]) -> u64 {
    let is_first = |tensor: TensorId| {
        let producer = inputs.graph.producer(tensor);
        producer.is_some_and(|node| first.binary_search(&node.index()).is_ok())
    };
    let read = second
        .iter()
        .flat_map(|&node| inputs.graph.node(NodeId::new(node)).reads());
    let over: BTreeSet<TensorId> = read.filter(|&tensor| is_first(tensor)).collect();
    over.into_iter().fold(0, |sum, tensor| {
        sum.saturating_add(inputs.bytes(tensor).unwrap_or(0))
    })
}
