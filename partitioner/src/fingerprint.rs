//! The model's name in a plan: its structure and the tensors and nodes that the plan's numbers mean.
//!
//! Invariants: two graphs with one fingerprint have the same nodes at the same indices, reading and
//! writing tensors of the same indices, types and sizes, so a plan of one means the same for the other.
//! Deliberately not here: names and weights, which do not change a plan.

use polychip_graph::{Graph, TensorId};

/// The fingerprint, hexadecimal.
pub(crate) fn fingerprint(graph: &Graph) -> String {
    let mut hasher = blake3::Hasher::new();
    write(graph, &mut hasher);
    hasher.finalize().to_hex().to_string()
}

fn write(graph: &Graph, hasher: &mut blake3::Hasher) {
    let number = |hasher: &mut blake3::Hasher, value: usize| {
        hasher.update(&(value as u64).to_le_bytes());
    };
    let words = |hasher: &mut blake3::Hasher, text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    let ids = |hasher: &mut blake3::Hasher, ids: &mut dyn Iterator<Item = Option<TensorId>>| {
        for id in ids {
            hasher.update(&id.map_or(u64::MAX, |id| id.index() as u64).to_le_bytes());
        }
        hasher.update(&(u64::MAX - 1).to_le_bytes());
    };
    number(hasher, graph.tensor_count());
    for (_, tensor) in graph.tensors() {
        words(
            hasher,
            &format!(
                "{:?}",
                (&tensor.ty, tensor.typed, tensor.upper_bound, tensor.container)
            ),
        );
        words(hasher, &format!("{:?}", tensor.encoding));
        number(hasher, usize::from(tensor.is_constant()));
    }
    ids(hasher, &mut graph.inputs.iter().copied().map(Some));
    ids(hasher, &mut graph.outputs.iter().copied().map(Some));
    ids(
        hasher,
        &mut graph
            .states
            .iter()
            .flat_map(|state| [Some(state.input), Some(state.output)]),
    );
    number(hasher, graph.node_count());
    for (_, node) in graph.nodes() {
        words(hasher, &node.label());
        ids(hasher, &mut node.inputs.iter().copied());
        ids(hasher, &mut node.outputs.iter().copied());
        words(hasher, &format!("{:?}", node.attributes));
        number(hasher, node.bodies.len());
        for body in &node.bodies {
            words(hasher, &format!("{:?}", body.attr));
            ids(
                hasher,
                &mut body.captures.iter().flat_map(|c| [Some(c.outer), Some(c.inner)]),
            );
            write(&body.graph, hasher);
        }
    }
}
