//! Measured segments: the time of a model, composed of the times of parts that overlap.
//!
//! A fusion group measured by itself includes its borders: it reads and writes in ONNX order, while
//! neighbours within a model agree on another layout. On a CPU this takes most of a group's time, so
//! the times of groups do not add up. The times of segments of several groups do, if each segment
//! begins with the groups that end the one before. The sum of the segments then counts each overlap
//! twice, and borders at it that the model does not have. The time of the overlap, measured by
//! itself, includes both and is subtracted. What remains is the time of the model, with the launch
//! and the borders of one part.
//!
//! Invariants:
//! 1. Each group of the graph is in one segment, except those of an overlap, which are in two.
//! 2. Segments and overlaps are convex: they are runs in an order in which every group follows the
//!    groups whose results it reads.
//! 3. Tensors that bypass an overlap, neither made nor last read in it, are counted: the segments
//!    move them across borders that the model does not have.

use std::collections::BTreeMap;

use polychip_graph::{Graph, NodeId, fingerprint};
use serde::{Deserialize, Serialize};

use super::group::{fusion_groups, is_product};
use crate::extract::run_graph;
use crate::hex::hex;
use crate::work::{self, border_of};

/// Number of groups of a segment, without those that it shares with the one before: enough that borders matter little,
/// few enough that another model with the same blocks has the same segments.
const GROUPS: std::ops::RangeInclusive<usize> = 4..=20;
/// Preferred number of groups of a segment.
const BEST: std::ops::RangeInclusive<usize> = 5..=10;
/// Number of groups of an overlap. More than one, because a group that runs alone again and again finds its constants
/// in a cache, and between other groups it does not.
const OVERLAP: std::ops::RangeInclusive<usize> = 2..=4;

/// A part composed of measured segments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Composition {
    /// Its segments in order.
    pub steps: Vec<Step>,
    /// Boundary bytes that the segments count and the part, run as one, does not move.
    pub border: u64,
}

/// A segment, and its overlap with the next one, whose time is subtracted.
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
    // the last node of a group makes its result, so in this order groups follow those that they read
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

/// Tensors that are alive between groups.
struct Passing {
    /// For each group, the tensors that are alive before it: place of the last group that reads the tensor, and bytes.
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

    /// Bytes that are alive before a run of groups and after it: a part of these groups converts their layout.
    fn border(&self, run: &std::ops::Range<usize>) -> u64 {
        let alive = [run.start, run.end].map(|at| self.alive.get(at).into_iter().flatten());
        let bytes = alive.into_iter().flatten().map(|(_, bytes)| *bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Bytes that are made before a run of groups and read after it: the segment that ends with the run writes them, and
    /// the segment that begins with the run reads them, but the run by itself does neither.
    fn bytes(&self, run: &std::ops::Range<usize>) -> u64 {
        let behind = self.alive[run.start].iter().filter(|(read, _)| *read >= run.end);
        behind
            .map(|(_, bytes)| bytes)
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// Whether a group multiplies by constants. Such a group has a layout of its own, alone and between others. A group
/// that takes any layout converts nothing when it runs alone, but at the end of a segment it converts its neighbours'.
fn has_product(graph: &Graph, nodes: &[u32]) -> bool {
    nodes.iter().any(|node| {
        let node = graph.node(NodeId::new(*node as usize));
        is_product(&node.op) && node.reads().any(|id| graph.tensor(id).is_constant())
    })
}

impl Composition {
    /// The composition of a graph; empty if the graph is too small to be cut.
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
