//! Stretches of a graph that share a piece with the next one: how a whole is composed of parts that are measured.
//!
//! A piece by itself pays for its borders: it reads and writes in ONNX order, where within a model neighbours agree on
//! another layout; on a CPU that is most of its time. So pieces do not add up. Stretches of several pieces do, if each
//! begins with the piece that ends the one before: the sum of the stretches has that piece twice and its borders once
//! too often, and both go when the time of the piece by itself is taken off. What remains is the whole, with the
//! launch and the borders of one part.
//!
//! Invariants:
//! 1. Each piece of the graph is in one stretch, but for the pieces that end one, which are in two.
//! 2. Stretches are convex: they are runs in an order in which every piece stands behind those that it reads.
//! 3. What crosses a cut beside the output of the shared piece is counted: it pays for borders that the whole has not.

use std::collections::{BTreeMap, BTreeSet};

use polychip_graph::{Graph, NodeId, TensorId, fingerprint};
use serde::{Deserialize, Serialize};

use super::piece::nodes_of_pieces;
use crate::profile::hex;
use crate::refusal::run_graph;
use crate::work;

/// Pieces of a stretch, the shared one not counted: so many that borders matter little, so few that another model
/// with the same blocks has the same stretches.
const PIECES: std::ops::RangeInclusive<usize> = 3..=12;
/// What they are at best.
const BEST: usize = 6;

/// How a whole is composed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Composition {
    /// Parts, and how often each counts: stretches once or more often, shared pieces less than zero times.
    pub(crate) terms: Vec<Term>,
    /// Bytes that cross borders in the terms and not in the whole.
    pub(crate) border: u64,
}

/// A part in a composition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Term {
    /// Structure of the part, 64 hexadecimal digits.
    pub(crate) fingerprint: String,
    /// How often it counts.
    pub(crate) times: i64,
}

/// The nodes of each stretch (ascending), and of the piece that it shares with the next one.
pub(crate) fn stretches(graph: &Graph) -> Vec<(Vec<u32>, Option<Vec<u32>>)> {
    let mut pieces = nodes_of_pieces(graph);
    // a piece gives its result by its last node, so that this order has readers behind what they read
    pieces.sort_by_key(|nodes| nodes.last().copied());
    let cuts = cuts(graph, &pieces);
    let mut all = Vec::with_capacity(cuts.len() + 1);
    let mut first = 0usize;
    for end in cuts.iter().map(|cut| cut + 1).chain([pieces.len()]) {
        let shared = first.saturating_sub(1);
        let mut nodes: Vec<u32> = pieces[shared..end].concat();
        nodes.sort_unstable();
        all.push((nodes, (end < pieces.len()).then(|| pieces[end - 1].clone())));
        first = end;
    }
    all
}

/// The pieces after which the graph is cut.
fn cuts(graph: &Graph, pieces: &[Vec<u32>]) -> Vec<usize> {
    let mut place: BTreeMap<NodeId, usize> = BTreeMap::new();
    for (at, nodes) in pieces.iter().enumerate() {
        place.extend(nodes.iter().map(|node| (NodeId::new(*node as usize), at)));
    }
    // bytes that are alive between a piece and the next, but for what the piece itself gives
    let mut beside = vec![0u64; pieces.len()];
    for (id, tensor) in graph.tensors() {
        if tensor.is_constant() {
            continue;
        }
        let made = graph.producer(id).and_then(|node| place.get(&node)).copied();
        let Some(read) = graph
            .consumers(id)
            .iter()
            .filter_map(|node| place.get(node))
            .max()
        else {
            continue;
        };
        let from = made.map_or(0, |made| made + 1);
        for at in &mut beside[from.min(*read)..*read] {
            *at = at.saturating_add(work::bytes(tensor));
        }
    }
    let mut cuts = Vec::new();
    let mut begin = 0;
    while pieces.len() - begin > *PIECES.end() {
        let range = begin + PIECES.start() - 1..=begin + PIECES.end() - 1;
        let best = range.min_by_key(|&at| (beside[at], (at + 1 - begin).abs_diff(BEST)));
        let Some(best) = best else { break };
        cuts.push(best);
        begin = best + 1;
    }
    cuts
}

impl Composition {
    /// How a graph is composed; of nothing where it is too small to be cut.
    pub(crate) fn of(graph: &Graph) -> Composition {
        let stretches = stretches(graph);
        if stretches.len() < 2 {
            return Composition::default();
        }
        let mut times: BTreeMap<String, i64> = BTreeMap::new();
        let mut border = -i128::from(border_of(graph));
        for (nodes, shared) in &stretches {
            for (nodes, sign) in [(Some(nodes), 1), (shared.as_ref(), -1)] {
                let Some(nodes) = nodes else { continue };
                let part = run_graph(graph, nodes);
                *times.entry(hex(&fingerprint::structure(&part))).or_default() += sign;
                border += i128::from(sign) * i128::from(border_of(&part));
            }
        }
        let terms = times.into_iter().filter(|(_, times)| *times != 0);
        Composition {
            terms: terms
                .map(|(fingerprint, times)| Term { fingerprint, times })
                .collect(),
            border: u64::try_from(border.max(0)).unwrap_or(u64::MAX),
        }
    }
}

/// Bytes that a graph reads and writes beside constants.
pub(crate) fn border_of(graph: &Graph) -> u64 {
    let ids: BTreeSet<TensorId> = graph.inputs.iter().chain(&graph.outputs).copied().collect();
    ids.iter()
        .map(|id| work::bytes(graph.tensor(*id)))
        .fold(0, u64::saturating_add)
}
