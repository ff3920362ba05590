//! Measured segments, which overlap: how a whole is composed of measured parts.
//!
//! A single group pays for its borders: it reads and writes in ONNX order, while neighbours within
//! a model agree on another layout; on a CPU that is most of its time. So groups do not add up.
//! Segments of several groups do, if each begins with the groups that end the one before: the sum
//! of the segments has this overlap twice and its borders once too often, and subtracting the time
//! of the overlap alone removes both. What remains is the whole, with the launch and the borders of
//! one part.
//!
//! Invariants:
//! 1. Each group of the graph is in one segment, except those of an overlap, which are in two.
//! 2. Segments and overlaps are convex: they are runs in an order in which every group follows
//!    those that it reads.
//! 3. A tensor that crosses an overlap without being read or made there is counted: it pays for
//!    borders that the whole does not have.

use std::collections::BTreeMap;

use polychip_graph::{Graph, NodeId, fingerprint};
use serde::{Deserialize, Serialize};

use super::group::{fusion_groups, is_product};
use crate::extract::run_graph;
use crate::hex::hex;
use crate::work::{self, border_of};

/// Groups of a segment, those it shares with the one before not counted: so many that borders matter little, so few
/// that another model with the same blocks has the same segments.
const GROUPS: std::ops::RangeInclusive<usize> = 4..=20;
/// What they are at best.
const BEST: std::ops::RangeInclusive<usize> = 5..=10;
/// Groups of an overlap: more than one, because a group that is run by itself again and again finds its constants
/// in a cache that it does not find them in between others.
const OVERLAP: std::ops::RangeInclusive<usize> = 2..=4;

/// A part composed of measured segments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Composition {
    /// Its segments in order.
    pub steps: Vec<Step>,
    /// Boundary bytes that the segments count and the part, run as one, does not move.
    pub border: u64,
}

/// A segment, less what it shares with the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Structure of the segment, 64 hexadecimal digits.
    #[serde(rename = "stretch")]
    pub segment: String,
    /// Structure of the overlap, none in the last step.
    pub shared: Option<String>,
}

/// The nodes of each segment (ascending), and of its overlap with the next one.
#[must_use]
pub fn segments(graph: &Graph) -> Vec<(Vec<u32>, Option<Vec<u32>>)> {
    let mut groups = fusion_groups(graph);
    // a group gives its result by its last node, so that this order has readers behind what they read
    groups.sort_by_key(|nodes| nodes.last().copied());
    let nodes = |range: std::ops::Range<usize>| {
        let mut nodes: Vec<u32> = groups[range].concat();
        nodes.sort_unstable();
        nodes
    };
    let mut all = Vec::new();
    let mut first = 0;
    for overlap in overlaps(graph, &groups) {
        all.push((nodes(first..overlap.end), Some(nodes(overlap.clone()))));
        first = overlap.start;
    }
    all.push((nodes(first..groups.len()), None));
    all
}

/// The runs of groups that a segment shares with the next one.
fn overlaps(graph: &Graph, groups: &[Vec<u32>]) -> Vec<std::ops::Range<usize>> {
    let passing = Passing::new(graph, groups);
    let products: Vec<bool> = groups.iter().map(|nodes| has_product(graph, nodes)).collect();
    let mut overlaps = Vec::new();
    let mut begin = 0;
    // a model that is shorter than two segments is cut in two all the same
    let most = (groups.len() / 2).clamp(*GROUPS.start(), *GROUPS.end());
    while groups.len() - begin > most {
        let ends = begin + GROUPS.start()..=begin + most;
        let runs = ends.flat_map(|end| OVERLAP.map(move |count| end.saturating_sub(count).max(begin)..end));
        let best = runs.min_by_key(|run| {
            let has_product = products[run.clone()].contains(&true);
            let passes = passing.bytes(run);
            let is_best = BEST.contains(&(run.end - begin));
            (!has_product, passes, !is_best, passing.border(run), run.end)
        });
        let Some(best) = best else { break };
        begin = best.end;
        overlaps.push(best);
    }
    overlaps
}

/// What is alive between groups.
struct Passing {
    /// Before each group: place of the last group that reads it, and bytes, of each tensor that is alive there.
    alive: Vec<Vec<(usize, u64)>>,
}

impl Passing {
    fn new(graph: &Graph, groups: &[Vec<u32>]) -> Passing {
        let mut place: BTreeMap<NodeId, usize> = BTreeMap::new();
        for (at, nodes) in groups.iter().enumerate() {
            place.extend(nodes.iter().map(|node| (NodeId::new(*node as usize), at)));
        }
        let mut alive = vec![Vec::new(); groups.len()];
        for (id, tensor) in graph.tensors() {
            if tensor.is_constant() {
                continue;
            }
            let made = graph.producer(id).and_then(|node| place.get(&node)).copied();
            let readers = graph.consumers(id).iter().filter_map(|node| place.get(node));
            let Some(read) = readers.max() else { continue };
            for before in &mut alive[made.map_or(0, |made| made + 1)..=*read] {
                before.push((*read, work::bytes(tensor)));
            }
        }
        Passing { alive }
    }

    /// Bytes that are alive before a run of groups and behind it: what it pays for the layout of a part.
    fn border(&self, run: &std::ops::Range<usize>) -> u64 {
        let alive = [run.start, run.end].map(|at| self.alive.get(at).into_iter().flatten());
        let bytes = alive.into_iter().flatten().map(|(_, bytes)| *bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Bytes that are made before a run of groups and read behind it: a segment before it gives them away, and one that
    /// begins with it reads them, while the run by itself does neither.
    fn bytes(&self, run: &std::ops::Range<usize>) -> u64 {
        let behind = self.alive[run.start].iter().filter(|(read, _)| *read >= run.end);
        behind
            .map(|(_, bytes)| bytes)
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// Whether a group multiplies by constants: it then has a layout of its own, by itself and between others. Groups that
/// take any layout pay for no border by themselves, but for that of their neighbours at the end of a segment.
fn has_product(graph: &Graph, nodes: &[u32]) -> bool {
    nodes.iter().any(|node| {
        let node = graph.node(NodeId::new(*node as usize));
        is_product(&node.op) && node.reads().any(|id| graph.tensor(id).is_constant())
    })
}

impl Composition {
    /// How a graph is composed; of nothing where it is too small to be cut.
    pub(crate) fn of(graph: &Graph) -> Composition {
        let segments = segments(graph);
        if segments.len() < 2 {
            return Composition::default();
        }
        let mut border = -i128::from(border_of(graph));
        let mut measured = |nodes: &[u32], sign: i128| {
            let part = run_graph(graph, nodes);
            border += sign * i128::from(border_of(&part));
            hex(&fingerprint::structure(&part))
        };
        let mut steps = Vec::with_capacity(segments.len());
        for (nodes, shared) in &segments {
            steps.push(Step {
                segment: measured(nodes, 1),
                shared: shared.as_ref().map(|nodes| measured(nodes, -1)),
            });
        }
        Composition {
            steps,
            border: u64::try_from(border.max(0)).unwrap_or(u64::MAX),
        }
    }
}
