//! The identity of a model in a plan: its structure, and the node or tensor of each index.
//!
//! Invariants: two graphs with one fingerprint have the same structure and the same nodes at the
//! same indices, reading and writing tensors of the same indices, so a plan for one is valid for
//! the other. Names and weights do not count. Deliberately not here: the hash of the structure
//! (`graph` has it).

use polychip_graph::{Graph, TensorId, fingerprint};

/// The name of a model in its plans: 64 hexadecimal digits.
#[must_use]
pub fn model_fingerprint(graph: &Graph) -> String {
    model_fingerprint_of(graph, &fingerprint::structure(graph))
}

/// Like [`model_fingerprint`], for a graph whose structure hash is already known.
#[must_use]
pub fn model_fingerprint_of(graph: &Graph, structure: &[u8; 32]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(structure);
    let mut wiring: Vec<u8> = Vec::with_capacity(graph.node_count() * 24);
    let mut number = |value: usize| wiring.extend((value as u64).to_le_bytes());
    number(graph.tensor_count());
    number(graph.node_count());
    for (_, node) in graph.nodes() {
        let (reads, writes): (Vec<TensorId>, Vec<TensorId>) =
            (node.reads().collect(), node.writes().collect());
        for list in [reads, writes] {
            number(list.len());
            list.iter().for_each(|tensor| number(tensor.index()));
        }
    }
    graph
        .inputs
        .iter()
        .chain(&graph.outputs)
        .for_each(|tensor| number(tensor.index()));
    hasher.update(&wiring);
    hasher.finalize().to_hex().to_string()
}
