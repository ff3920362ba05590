//! Runs of nodes that devices refused when they were compiled, found once and stored in the
//! profile.
//!
//! Invariants:
//! 1. A refusal applies to the device's identity, which names plugin, build, chip and driver:
//!    another build is asked again.
//! 2. A run is identified by its structure, so that a refused pattern is recognized anywhere.
//!
//! Not here: finding a refusal (the scheduler).

use std::collections::BTreeMap;

use polychip_graph::Graph;
use polychip_partitioner::{DeviceIndex, Refusal, Target};

use crate::extract::structure_of;

/// `POLYCHIP_SUPPORT_VENDOR`: refused by the vendor's own library.
pub const VENDOR: u32 = 13;

/// A run of nodes that a device refuses to compile or load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRun {
    /// Structure fingerprint of the run as a part of its own.
    pub fingerprint: [u8; 32],
    /// Number of nodes.
    pub nodes: usize,
    /// The vendor's message, with its code.
    pub words: String,
}

/// A target's refusal with this message.
pub fn refusal(words: &str) -> Refusal {
    Refusal {
        code: VENDOR,
        words: format!("refused by the vendor's library when compiled: {words}"),
    }
}

/// Marks the nodes of a run as refused, except nodes pinned to the device if the run has others.
/// Returns the newly marked nodes.
pub fn mark(
    target: &mut Target,
    device: DeviceIndex,
    nodes: &[u32],
    words: &str,
    pins: &BTreeMap<usize, usize>,
) -> usize {
    let pinned = |node: &&u32| pins.get(&(**node as usize)) == Some(&device.index());
    let spared = nodes.iter().any(|node| !pinned(&node));
    let mut marked = 0;
    for node in nodes.iter().filter(|node| !(spared && pinned(node))) {
        if let Some(slot) = target.refusals.get_mut(*node as usize)
            && slot.is_none()
        {
            *slot = Some(refusal(words));
            marked += 1;
        }
    }
    marked
}

/// Marks every run of the graph that is one of `known`, and returns the marked nodes by message.
pub fn mark_known(
    graph: &Graph,
    target: &mut Target,
    device: DeviceIndex,
    known: &[RefusedRun],
    pins: &BTreeMap<usize, usize>,
) -> BTreeMap<String, usize> {
    let mut by_length: BTreeMap<usize, BTreeMap<[u8; 32], &str>> = BTreeMap::new();
    for run in known {
        by_length
            .entry(run.nodes)
            .or_default()
            .insert(run.fingerprint, &run.words);
    }
    let mut marked: BTreeMap<String, usize> = BTreeMap::new();
    for (length, runs) in by_length.into_iter().filter(|(length, _)| *length > 0) {
        // a part may hold nodes between which others stand: those that the device supports
        let all: Vec<u32> = (0..u32::try_from(graph.node_count()).unwrap_or(u32::MAX)).collect();
        let offered: Vec<u32> = all
            .iter()
            .copied()
            .filter(|node| target.supports(*node as usize))
            .collect();
        let orders = if offered.len() == all.len() || length == 1 {
            vec![offered]
        } else {
            vec![all, offered]
        };
        for run in orders.iter().flat_map(|order| order.windows(length)) {
            if run.iter().all(|node| target.supports(*node as usize))
                && let Some(words) = runs.get(&structure_of(graph, run))
            {
                let nodes = mark(target, device, run, words, pins);
                *marked.entry((*words).to_owned()).or_default() += nodes;
            }
        }
    }
    marked.retain(|_, nodes| *nodes > 0);
    marked
}
