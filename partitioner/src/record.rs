//! What each node of a plan is and what every device offered for it, kept in the plan's file.
//!
//! Invariants: a record says what planning was told, so that two plans can be compared later without model or
//! devices; checking, pricing and running a plan read none of it.
//! Deliberately not here: what changed between two plans (`diff`).

use crate::cost::Cost;
use crate::index::DeviceIndex;
use crate::request::Request;
use polychip_graph::fingerprint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One node, and what every device offered for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeRecord {
    /// Name in the model.
    pub name: String,
    /// The op.
    pub op: String,
    /// Hash of name, op, attributes and types: sixteen hexadecimal digits, the same while other nodes change.
    pub key: String,
    /// Device that the caller pinned it to, by index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<DeviceIndex>,
    /// What each of the plan's devices offered, in their order.
    pub offers: Vec<Offer>,
}

/// What a device offered for a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// It runs the node at this cost.
    Cost(Cost),
    /// It does not run the node: its words, with the reason code of the plugin ABI.
    Refused {
        /// Reason code.
        code: u32,
        /// The device's words.
        words: String,
    },
    /// The device was out of use, for this reason.
    Quarantined(String),
    /// It runs the node at a cost that nothing states.
    Unpriced,
}

/// Records for a plan of what is asked for, one per node.
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
