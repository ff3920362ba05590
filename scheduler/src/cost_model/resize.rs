//! What devices stated about a model, for other sizes of it.
//!
//! Invariants:
//! 1. The two graphs have the same nodes between the same tensors; only sizes, attributes and constants differ.
//! 2. A cost grows with the node's multiply-adds, or with its bytes if it has more of those (a product of one row reads
//!    all weights).
//! 3. What the profile knows is read anew, because measurements belong to sizes.
//!
//! Not here: whether a plan may rest on it (`planned::resized`).

use std::sync::Arc;

use polychip_graph::{Graph, Node, fingerprint};
use polychip_host::Device;
use polychip_partitioner::{Cost, model_fingerprint_of};
use polychip_profile::work;

use super::Rows;
use super::evidence::{Evidence, Layers};
use super::power::taking;

impl Evidence {
    /// The evidence about `graph`, by what the devices stated about the same model in the sizes of `known`. None if the
    /// graphs differ in more than sizes, or a node's work there tells nothing about its work here.
    pub(crate) fn resized(
        &self,
        known: &Graph,
        graph: &Graph,
        devices: &[Device],
        rows: Rows<'_>,
    ) -> Option<Evidence> {
        if !is_alike(known, graph) {
            return None;
        }
        let factors: Option<Vec<f64>> = known
            .nodes()
            .zip(graph.nodes())
            .map(|((_, before), (_, now))| factor((known, before), (graph, now)))
            .collect();
        let factors = factors?;
        let scaled = |layers: &Layers| {
            let costs = layers.stated.iter().zip(&factors);
            let costs = costs.map(|(cost, factor)| cost.map(|cost| scaled(cost, *factor)));
            Layers {
                stated: Arc::new(costs.collect()),
                predicted: Default::default(),
            }
        };
        let structure = fingerprint::structure(graph);
        let stated = Evidence {
            structure,
            model: model_fingerprint_of(graph, &structure).into(),
            is_resized: true,
            others: vec![None; devices.len()],
            layers: Arc::new(self.layers.iter().map(scaled).collect()),
            ..self.clone()
        };
        Some(stated.under(graph, devices, rows))
    }
}

/// Whether two graphs have the same nodes between the same tensors.
fn is_alike(one: &Graph, other: &Graph) -> bool {
    let same = |(a, b): (&Node, &Node)| {
        (a.op, &a.op_name, &a.domain, &a.inputs, &a.outputs)
            == (b.op, &b.op_name, &b.domain, &b.inputs, &b.outputs)
            && a.bodies.len() == b.bodies.len()
            && a.decomposition.is_some() == b.decomposition.is_some()
            && a.bodies
                .iter()
                .zip(&b.bodies)
                .all(|(a, b)| is_alike(&a.graph, &b.graph))
    };
    let kinds = |graph: &Graph| (graph.node_count(), graph.tensor_count(), graph.groups.len());
    let types = |graph: &Graph| {
        let tensors = graph.tensors();
        tensors
            .map(|(_, tensor)| {
                (
                    tensor.ty.dtype,
                    tensor.ty.rank(),
                    tensor.is_constant(),
                    tensor.upper_bound,
                )
            })
            .collect::<Vec<_>>()
    };
    kinds(one) == kinds(other)
        && (&one.inputs, &one.outputs) == (&other.inputs, &other.outputs)
        && types(one) == types(other)
        && one
            .nodes()
            .zip(other.nodes())
            .all(|((_, a), (_, b))| same((a, b)))
}

/// How many times as much work a node has now.
fn factor((known, before): (&Graph, &Node), (graph, now): (&Graph, &Node)) -> Option<f64> {
    let (before, now) = (work::of_node(known, before), work::of_node(graph, now));
    let ratio = |before: u64, now: u64| match (before, now) {
        (0, 0) => Some(1.0),
        (0, _) => None,
        (before, now) => Some(now as f64 / before as f64),
    };
    if before.macs > before.bytes {
        ratio(before.macs, now.macs)
    } else {
        ratio(before.bytes, now.bytes)
    }
}

fn scaled(cost: Cost, factor: f64) -> Cost {
    let picoseconds = (cost.time.picoseconds() as f64 * factor).round() as u64;
    taking(cost, picoseconds.clamp(1, u64::MAX / 1_000_000), cost.provenance)
}
