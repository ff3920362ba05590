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
use polychip_ops::Op;
use serde::{Deserialize, Serialize};

use super::piece::nodes_of_pieces;
use crate::profile::hex;
use crate::refusal::run_graph;
use crate::work;

/// Pieces of a stretch, the shared one not counted: so many that borders matter little, so few that another model
/// with the same blocks has the same stretches.
const PIECES: std::ops::RangeInclusive<usize> = 4..=20;
/// What they are at best.
const BEST: usize = 7;

/// How a whole is composed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Composition {
    /// Its stretches in order.
    pub(crate) steps: Vec<Step>,
    /// Bytes that cross borders in the sum of the steps and not in the whole.
    pub(crate) border: u64,
}

/// A stretch, less the piece that it shares with the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Structure of the stretch, 64 hexadecimal digits.
    pub(crate) stretch: String,
    /// Structure of the piece, none in the last step.
    pub(crate) shared: Option<String>,
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
    let products: Vec<bool> = pieces.iter().map(|nodes| has_product(graph, nodes)).collect();
    let mut cuts = Vec::new();
    let mut begin = 0;
    // a model that is shorter than two stretches is cut in two all the same
    let most = (pieces.len() / 2).clamp(*PIECES.start(), *PIECES.end());
    while pieces.len() - begin > most {
        let range = begin + PIECES.start() - 1..=begin + most - 1;
        let best = range.min_by_key(|&at| (!products[at], beside[at], (at + 1 - begin).abs_diff(BEST)));
        let Some(best) = best else { break };
        cuts.push(best);
        begin = best + 1;
    }
    cuts
}

/// Whether a piece multiplies by constants: it then has a layout of its own, by itself and between others. One that
/// takes any layout pays for no border by itself, but for that of its neighbours at the end of a stretch.
fn has_product(graph: &Graph, nodes: &[u32]) -> bool {
    nodes.iter().any(|node| {
        let node = graph.node(NodeId::new(*node as usize));
        let is_product = matches!(
            node.op,
            Op::Conv
                | Op::ConvTranspose
                | Op::ConvInteger
                | Op::QLinearConv
                | Op::MatMul
                | Op::Gemm
                | Op::QLinearMatMul
        );
        is_product && node.reads().any(|id| graph.tensor(id).is_constant())
    })
}

impl Composition {
    /// How a graph is composed; of nothing where it is too small to be cut.
    pub(crate) fn of(graph: &Graph) -> Composition {
        let stretches = stretches(graph);
        if stretches.len() < 2 {
            return Composition::default();
        }
        let mut border = -i128::from(border_of(graph));
        let mut measured = |nodes: &[u32], sign: i128| {
            let part = run_graph(graph, nodes);
            border += sign * i128::from(border_of(&part));
            hex(&fingerprint::structure(&part))
        };
        let mut steps = Vec::with_capacity(stretches.len());
        for (nodes, shared) in &stretches {
            steps.push(Step {
                stretch: measured(nodes, 1),
                shared: shared.as_ref().map(|nodes| measured(nodes, -1)),
            });
        }
        Composition {
            steps,
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
