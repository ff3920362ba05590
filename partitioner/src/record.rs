//! Records of each node, with every device's offer for it, stored in the plan file.
//!
//! Invariants: a record holds planning inputs, so that two plans can be compared later without
//! model or devices; checking, pricing and running a plan do not read it. Deliberately not here:
//! differences between two plans (`diff`).

use crate::cost::Cost;
use crate::index::DeviceIndex;
use crate::request::Request;
use polychip_graph::fingerprint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One node, and every device's offer for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeRecord {
    /// Name in the model.
    pub name: String,
    /// The op.
    pub op: String,
    /// Hash of name, op, attributes and types: sixteen hexadecimal digits, independent of other
    /// nodes.
    pub key: String,
    /// Device that it is pinned to, by index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<DeviceIndex>,
    /// The offers of the plan's devices, in their order.
    pub offers: Vec<Offer>,
}

/// A device's offer for a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// The device runs the node at this cost.
    Cost(Cost),
    /// The device refuses the node.
    Refused {
        /// Reason code.
        code: u32,
        /// The device's message.
        words: String,
    },
    /// The device was out of use, for this reason.
    Quarantined(String),
    /// The device runs the node at an unknown cost.
    Unpriced,
}

/// The records for a plan of this request, one per node.
#[must_use]
pub fn record(request: Request<'_>) -> Vec<NodeRecord> {
    let Request {
        graph,
        targets,
        costs,
        options,
        ..
    } = request;
    let offer = |node: usize, device: usize| {
        let target = &targets[device];
        match (&target.quarantined, target.refusals.get(node)) {
            (Some(words), _) => Offer::Quarantined(words.clone()),
            (None, Some(Some(refusal))) => Offer::Refused {
                code: refusal.code,
                words: refusal.words.clone(),
            },
            _ => match costs.node(node, device) {
                Some(cost) => Offer::Cost(Cost {
                    emulated: cost.emulated || target.emulated,
                    ..*cost
                }),
                None => Offer::Unpriced,
            },
        }
    };
    graph
        .nodes()
        .map(|(id, node)| {
            let hash = fingerprint::nodes(graph, &[id]);
            NodeRecord {
                name: node.name.clone(),
                op: node.label(),
                key: blake3::Hash::from(hash).to_hex()[..16].to_owned(),
                pinned: options
                    .pins
                    .get(&id.index())
                    .map(|&device| DeviceIndex::new(device)),
                offers: (0..targets.len())
                    .map(|device| offer(id.index(), device))
                    .collect(),
            }
        })
        .collect()
}
