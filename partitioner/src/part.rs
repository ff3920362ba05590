//! One part of a plan: a set of nodes compiled together and run by one device.
//!
//! Invariants: nodes and boundary tensors stand in ascending order; the id depends on the model,
//! the device and the nodes alone, so it is stable over replans and usable as a profile key.
//! Deliberately not here: how parts are found (`solve`, `merge`) and checked (`check`).

use crate::cost::Cost;
use crate::unit::{Microjoules, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One part of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Stable id: sixteen hexadecimal digits.
    pub id: String,
    /// Index of the device in the plan's list.
    pub device: u32,
    /// Nodes by their index in canonical order, ascending.
    pub nodes: Vec<u32>,
    /// Tensors read from outside the part (graph inputs and other parts' outputs, no constants), ascending.
    pub inputs: Vec<u32>,
    /// Tensors that other parts or the application read, ascending.
    pub outputs: Vec<u32>,
    /// Parts that must end before this one starts, by index, ascending.
    pub after: Vec<u32>,
    /// Predicted cost of the part's nodes, without launch and transfers.
    pub cost: Cost,
    /// Launch time of the part; JSON holds picoseconds.
    #[serde(rename = "launch_ps")]
    pub launch: Nanos,
    /// Launch energy of the part; JSON holds nanojoules.
    #[serde(rename = "launch_energy_nj")]
    pub launch_energy: Microjoules,
}

/// The stable id of a set of nodes (ascending) of a model on a device.
#[must_use]
pub fn part_id(model: &str, device: &str, nodes: &[u32]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(model.len() as u64).to_le_bytes());
    hasher.update(model.as_bytes());
    hasher.update(&(device.len() as u64).to_le_bytes());
    hasher.update(device.as_bytes());
    for node in nodes {
        hasher.update(&node.to_le_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_model_device_and_nodes_apart() {
        let id = part_id("m", "cpu:0", &[1, 2]);
        assert_eq!(id.len(), 16);
        assert_eq!(id, part_id("m", "cpu:0", &[1, 2]));
        assert_ne!(id, part_id("mc", "pu:0", &[1, 2]));
        assert_ne!(id, part_id("m", "cpu:0", &[1, 3]));
        assert_ne!(id, part_id("m", "npu:0", &[1, 2]));
    }
}
