//! Runs of nodes that devices refused when they were compiled: found once, remembered in the profile.
//!
//! Invariants:
//! 1. A refusal holds for the device's identity, which names plugin, build, chip and driver: another
//!    build is asked anew.
//! 2. A run is known by its structure, so that a refused pattern is known wherever it stands.
//!
//! Not here: finding a refusal (`bisect`, `replan`).

use std::collections::{BTreeMap, BTreeSet};

use polychip_graph::{Graph, NodeId, TensorId, extract, fingerprint};
use polychip_host::Device;
use polychip_partitioner::{Refusal, Target};

use crate::event::{Event, EventKind};
use crate::profile::Profile;

/// `POLYCHIP_SUPPORT_VENDOR`: refused by the vendor's own library.
pub(crate) const VENDOR: u32 = 13;

/// A run of nodes that a device refuses to compile or load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRun {
    /// Structure fingerprint of the run as a part of its own.
    pub fingerprint: [u8; 32],
    /// Number of nodes.
    pub nodes: usize,
    /// The vendor's words, with its code.
    pub words: String,
}

/// What the vendor's library said, with its code: the words of a refusal.
pub(crate) fn words_of(error: &polychip_host::Error) -> String {
    match error.vendor_code() {
        0 => error.message().to_owned(),
        code => format!("{} (vendor code {code})", error.message()),
    }
}

/// The words of a refusal in a target.
pub(crate) fn refusal(words: &str) -> Refusal {
    Refusal {
        code: VENDOR,
        words: format!("refused by the vendor's library when compiled: {words}"),
    }
}

/// Some nodes of a graph (ascending) as a graph of their own: it reads what they read of others, and
/// gives what others or the app read of them.
pub(crate) fn run_graph(graph: &Graph, nodes: &[u32]) -> Graph {
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

/// The structure fingerprint of some nodes of a graph as a part of their own.
pub(crate) fn structure_of(graph: &Graph, nodes: &[u32]) -> [u8; 32] {
    fingerprint::structure(&run_graph(graph, nodes))
}

/// Marks the nodes of a run as refused, but for nodes that are pinned to the device where the run has
/// others. Gives the nodes that were marked now.
pub(crate) fn mark(
    target: &mut Target,
    column: usize,
    nodes: &[u32],
    words: &str,
    pins: &BTreeMap<usize, usize>,
) -> usize {
    let pinned = |node: &&u32| pins.get(&(**node as usize)) == Some(&column);
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

/// Marks every run of the graph that a device is known to refuse. Gives one event per device and words.
pub(crate) fn apply(
    graph: &Graph,
    devices: &[Device],
    targets: &mut [Target],
    pins: &BTreeMap<usize, usize>,
    profile: &Profile,
) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for (column, (device, target)) in devices.iter().zip(targets.iter_mut()).enumerate() {
        let known = profile.or_nothing(profile.refusals(&device.identity()));
        for (words, nodes) in mark_known(graph, target, column, &known, pins) {
            events.push(Event::new(EventKind::Avoided, device.name(), nodes, words));
        }
    }
    events
}

/// Marks every run of the graph that is one of `known`; the nodes marked, by words.
pub(crate) fn mark_known(
    graph: &Graph,
    target: &mut Target,
    column: usize,
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
                let nodes = mark(target, column, run, words, pins);
                *marked.entry((*words).to_owned()).or_default() += nodes;
            }
        }
    }
    marked.retain(|_, nodes| *nodes > 0);
    marked
}
