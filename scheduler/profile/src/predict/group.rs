//! The fusion groups of graphs: the nodes that a device computes as one, and the properties that
//! determine their time.
//!
//! An ungrouped node is a group of one; nodes that compute an operand from constants alone belong
//! to its reader. A part's time is closer to the sum of its groups than to the sum of its nodes,
//! because devices fuse groups; and a group can be measured alone.
//!
//! Invariants:
//! 1. Every node of a graph is in exactly one of its groups; groups are in graph order.
//! 2. A group is identified by its structure, so that one of another model is recognized too.
//!
//! Not here: the cost of a group (`fit`).

use std::collections::{BTreeMap, BTreeSet};

use polychip_graph::{Graph, Node, NodeId, fingerprint};
use polychip_ops::{Dim, Op};
use serde::{Deserialize, Serialize};

use crate::extract::run_graph;
use crate::hex::hex;
use crate::work::{self, border_of};

/// A fusion group as the profile describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FusionGroup {
    /// Structure of the group as a part of its own, 64 hexadecimal digits.
    pub fingerprint: String,
    /// Description for people.
    pub words: String,
    /// Its op class; groups of one class share a regression model.
    #[serde(rename = "family")]
    pub op_class: String,
    /// Number of occurrences in the part.
    pub count: u32,
    /// Multiply-adds.
    pub macs: u64,
    /// Bytes that it reads and writes, without constants.
    pub bytes: u64,
    /// Bytes of its constants.
    pub constants: u64,
}

/// The nodes of each group, in graph order of their first nodes.
#[must_use]
pub fn fusion_groups(graph: &Graph) -> Vec<Vec<u32>> {
    let number = |id: NodeId| u32::try_from(id.index()).expect("invariant: nodes are counted in 32 bits");
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut grouped: BTreeSet<NodeId> = BTreeSet::new();
    for group in &graph.groups {
        grouped.extend(&group.nodes);
        groups.push(group.nodes.iter().map(|id| number(*id)).collect());
    }
    let alone = graph.nodes().filter(|(id, _)| !grouped.contains(id));
    groups.extend(alone.map(|(id, _)| vec![number(id)]));
    groups.sort_unstable();
    with_sources(graph, groups)
}

/// Groups with the nodes that compute something from constants alone: what that gives is a constant to its only reader.
fn with_sources(graph: &Graph, mut groups: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
    let mut place: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, nodes) in groups.iter().enumerate() {
        place.extend(nodes.iter().map(|node| (*node, at)));
    }
    for at in (0..groups.len()).rev() {
        let [number] = groups[at][..] else { continue };
        let node = graph.node(NodeId::new(number as usize));
        let is_source = node.reads().all(|id| graph.tensor(id).is_constant());
        let outputs = node.outputs.iter().flatten();
        let mut readers: Vec<usize> = outputs
            .flat_map(|id| graph.consumers(*id))
            .filter_map(|reader| place.get(&(reader.index() as u32)).copied())
            .collect();
        readers.dedup();
        if let (true, [reader]) = (is_source, &readers[..]) {
            groups[at].clear();
            groups[*reader].push(number);
            place.insert(number, *reader);
        }
    }
    groups.retain(|nodes| !nodes.is_empty());
    for nodes in &mut groups {
        nodes.sort_unstable();
    }
    groups.sort_unstable();
    groups
}

impl FusionGroup {
    /// The group of these nodes.
    pub(crate) fn of(graph: &Graph, nodes: &[u32]) -> FusionGroup {
        let part = run_graph(graph, nodes);
        let macs = part.nodes().map(|(_, node)| work::of_node(&part, node).macs);
        let macs = macs.fold(0, u64::saturating_add);
        let bytes = border_of(&part);
        let mut constants: BTreeSet<_> = part
            .nodes()
            .flat_map(|(_, node)| node.reads().collect::<Vec<_>>())
            .collect();
        constants.retain(|id| part.tensor(*id).is_constant());
        let constants = constants
            .iter()
            .map(|id| work::bytes(part.tensor(*id)))
            .fold(0, u64::saturating_add);
        FusionGroup {
            fingerprint: hex(&fingerprint::structure(&part)),
            words: describe(&part),
            op_class: op_class(&part),
            count: 1,
            macs,
            bytes,
            constants,
        }
    }
}

fn shape(part: &Graph, id: polychip_graph::TensorId) -> Vec<usize> {
    let dims = part.tensor(id).ty.shape.iter().flatten();
    dims.map(|dim: &Dim| dim.known().unwrap_or(1)).collect()
}

/// Whether an op multiplies and adds over an axis.
pub(super) fn is_product(op: &Op) -> bool {
    matches!(
        op,
        Op::Conv
            | Op::ConvTranspose
            | Op::ConvInteger
            | Op::QLinearConv
            | Op::MatMul
            | Op::Gemm
            | Op::MatMulInteger
            | Op::QLinearMatMul
    )
}

/// The node whose arithmetic rules: the first product of the group, else its first node that reads a variable.
fn leading(part: &Graph) -> Option<&Node> {
    let is_product = |node: &&Node| is_product(&node.op);
    let nodes = || part.nodes().map(|(_, node)| node);
    let is_variable = |node: &&Node| node.reads().any(|id| !part.tensor(id).is_constant());
    let product = nodes().find(is_product);
    product
        .or_else(|| nodes().find(is_variable))
        .or_else(|| nodes().next())
}

/// The class by which a group's time is predicted: the op, and of convolutions the kind of loop that computes it.
fn op_class(part: &Graph) -> String {
    let Some(node) = leading(part) else {
        return String::new();
    };
    let name = node.op.name();
    let weights = |at: usize| node.input(at).map(|id| shape(part, id)).unwrap_or_default();
    let kind = match node.op {
        Op::Conv | Op::ConvInteger | Op::QLinearConv => {
            let taps = weights(if node.op == Op::QLinearConv { 3 } else { 1 });
            let inputs = node.input(0).map(|id| shape(part, id)).unwrap_or_default();
            let window: usize = taps.iter().skip(2).product();
            match (taps.get(1), inputs.get(1)) {
                (Some(1), Some(channels)) if *channels > 1 => " depthwise",
                (Some(per), _) if *per <= 4 => " few channels",
                (Some(per), Some(channels)) if per < channels => " grouped",
                _ if window == 1 => " pointwise",
                _ => " spatial",
            }
        }
        Op::MatMul if node.input(1).is_some_and(|id| !part.tensor(id).is_constant()) => " of two variables",
        _ => "",
    };
    format!("{name}{kind}")
}

/// Ops and shapes: `Conv+Relu f32 1x64x56x56 · 64x64x3x3 → 1x64x56x56`.
fn describe(part: &Graph) -> String {
    let ops: Vec<&str> = part.nodes().map(|(_, node)| node.op.name()).collect();
    let shown = |id| {
        let sizes: Vec<String> = shape(part, id).iter().map(ToString::to_string).collect();
        sizes.join("x")
    };
    let weights = leading(part).and_then(|node| node.reads().nth(1));
    let weights = weights.filter(|id| part.tensor(*id).is_constant());
    let list =
        |ids: &[polychip_graph::TensorId]| ids.iter().map(|id| shown(*id)).collect::<Vec<_>>().join(", ");
    let dtype = part
        .inputs
        .first()
        .map_or("", |id| part.tensor(*id).ty.dtype.name());
    format!(
        "{} {dtype} {}{} → {}",
        ops.join("+"),
        list(&part.inputs),
        weights.map_or_else(String::new, |id| format!(" · {}", shown(id))),
        list(&part.outputs)
    )
}
