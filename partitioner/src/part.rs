//! One part of a plan: a set of nodes that one device compiles and runs together.
//!
//! Invariants: nodes and boundary tensors are in ascending order; the id depends only on the device
//! and on the part's nodes (names, ops, attributes, types, wiring among them), so it stays the same
//! over replans and while the rest of the model changes. Deliberately not here: finding parts
//! (`solve`, `merge`) and checking them (`check`).

use crate::cost::Cost;
use crate::index::{DeviceIndex, PartIndex};
use crate::unit::{Energy, Time};
use polychip_graph::{Graph, NodeId, fingerprint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One part of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Stable id: sixteen hexadecimal digits.
    pub id: String,
    /// Index of the device in the plan's list.
    pub device: DeviceIndex,
    /// Nodes by their index in canonical order, ascending.
    pub nodes: Vec<u32>,
    /// Tensors read from outside the part (graph inputs and other parts' outputs, no constants), ascending.
    pub inputs: Vec<u32>,
    /// Tensors that other parts or the application read, ascending.
    pub outputs: Vec<u32>,
    /// Parts that must end before this one starts, by index, ascending.
    pub after: Vec<PartIndex>,
    /// Predicted cost of the part's nodes, without launch and transfers.
    pub cost: Cost,
    /// Launch time of the part; JSON holds picoseconds.
    #[serde(rename = "launch_ps")]
    pub launch: Time,
    /// Launch energy of the part; JSON holds nanojoules.
    #[serde(rename = "launch_energy_nj")]
    pub launch_energy: Energy,
}

/// The stable id of a set of nodes (ascending) of a model on a device.
#[must_use]
pub fn part_id(graph: &Graph, device: &str, nodes: &[u32]) -> String {
    let ids: Vec<NodeId> = nodes.iter().map(|&node| NodeId::new(node as usize)).collect();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(device.len() as u64).to_le_bytes());
    hasher.update(device.as_bytes());
    hasher.update(&fingerprint::nodes(graph, &ids));
    hasher.finalize().to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use polychip_graph::{Node, Tensor};
    use polychip_ops::{DType, Op, TensorType};

    /// A chain of these ops over tensors of so many elements, with a node before and one after it where asked.
    fn chain(ops: &[(Op, &str)], size: usize, around: bool) -> Graph {
        let mut graph = Graph::new("chain");
        let tensor = |graph: &mut Graph| {
            let name = format!("t{}", graph.tensor_count());
            graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[size])))
        };
        let mut last = tensor(&mut graph);
        graph.inputs.push(last);
        let before = around.then_some((Op::Exp, "before"));
        let after = around.then_some((Op::Tanh, "after"));
        for (op, name) in before.into_iter().chain(ops.iter().copied()).chain(after) {
            let next = tensor(&mut graph);
            graph.add_node(Node::new(op, vec![Some(last)], vec![Some(next)]).named(name));
            last = next;
        }
        graph.outputs.push(last);
        graph
    }

    const OPS: [(Op, &str); 2] = [(Op::Neg, "a"), (Op::Relu, "b")];

    #[test]
    fn ids_distinguish_devices_and_nodes() {
        let graph = chain(&OPS, 4, false);
        let id = part_id(&graph, "cpu:0", &[0, 1]);
        assert_eq!(id.len(), 16);
        assert_eq!(id, part_id(&graph, "cpu:0", &[0, 1]));
        assert_ne!(id, part_id(&graph, "npu:0", &[0, 1]));
        assert_ne!(id, part_id(&graph, "cpu:0", &[0]));
        let other = |graph: Graph| assert_ne!(id, part_id(&graph, "cpu:0", &[0, 1]));
        other(chain(&OPS, 5, false));
        other(chain(&[(Op::Neg, "a"), (Op::Relu, "c")], 4, false));
        other(chain(&[(Op::Neg, "a"), (Op::Abs, "b")], 4, false));
        // two nodes side by side are not two in a row
        let mut beside = chain(&OPS[..1], 4, false);
        let (input, output) = (beside.inputs[0], beside.outputs[0]);
        let next = beside.add_tensor(Tensor::new("n", TensorType::known(DType::F32, &[4])));
        beside.add_node(Node::new(Op::Relu, vec![Some(input)], vec![Some(next)]).named("b"));
        beside.outputs = vec![output, next];
        other(beside);
    }

    #[test]
    fn id_is_independent_of_the_rest_of_the_model() {
        let id = part_id(&chain(&OPS, 4, false), "cpu:0", &[0, 1]);
        assert_eq!(id, part_id(&chain(&OPS, 4, true), "cpu:0", &[1, 2]));
    }
}
