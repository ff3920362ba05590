//! Nodes around bodies, and whether they are claimed.
//!
//! ONNX Runtime asks about each body by itself, before the graph around it. A node is claimed with all its bodies or not at
//! all, so that each body leads to the same question: devices are asked once.
//!
//! Not here: the question (`claim`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use polychip_graph::onnx::messages;

/// Whether nodes around bodies are claimed, by the hash of each node as a model.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    claimed: Mutex<BTreeMap<[u8; 32], bool>>,
}

impl Surroundings {
    /// What was found for this node, or what `ask` finds now.
    pub(crate) fn is_claimed(&self, model: &messages::Model, ask: impl FnOnce() -> bool) -> bool {
        let key = key(model);
        let lock = || self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return *known;
        }
        let is_claimed = ask();
        lock().insert(key, is_claimed);
        is_claimed
    }
}

/// Bytes of a constant from which on it is known by its place.
const LARGE: usize = 4096;

/// The hash of a model. Large constants count by where ONNX Runtime has them: a wrong answer costs time, not correctness.
fn key(model: &messages::Model) -> [u8; 32] {
    fn strip(graph: &mut messages::Graph, hasher: &mut blake3::Hasher) {
        for tensor in &mut graph.initializer {
            if let Some(raw) = tensor.raw_data.take_if(|raw| raw.len() >= LARGE) {
                hasher.update(&raw.as_ptr().addr().to_le_bytes());
                hasher.update(&raw.len().to_le_bytes());
            }
        }
        let attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
        for body in attributes.filter_map(|attribute| attribute.g.as_mut()) {
            strip(body, hasher);
        }
    }
    let mut hasher = blake3::Hasher::new();
    let mut model = model.clone();
    if let Some(graph) = &mut model.graph {
        strip(graph, &mut hasher);
    }
    hasher.update(&model.to_bytes());
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn conditional(name: &str, weights: &Bytes) -> messages::Model {
        let body = messages::Graph {
            initializer: vec![messages::Tensor {
                name: "w".to_owned(),
                raw_data: Some(weights.clone()),
                ..messages::Tensor::default()
            }],
            ..messages::Graph::default()
        };
        let node = messages::Node {
            op_type: "If".to_owned(),
            name: name.to_owned(),
            attribute: vec![messages::Attribute {
                name: "then_branch".to_owned(),
                g: Some(Box::new(body)),
                ..messages::Attribute::default()
            }],
            ..messages::Node::default()
        };
        messages::Model {
            graph: Some(messages::Graph {
                node: vec![node],
                ..messages::Graph::default()
            }),
            ..messages::Model::default()
        }
    }

    #[test]
    fn devices_are_asked_once_about_a_node_with_several_bodies() {
        let known = Surroundings::default();
        let asked = std::cell::Cell::new(0);
        let ask = |model: &messages::Model, answer: bool| {
            known.is_claimed(model, || {
                asked.set(asked.get() + 1);
                answer
            })
        };
        let large = Bytes::from(vec![1; LARGE]);
        let first = conditional("a", &large);
        // the body of the one branch, then that of the other
        assert!(ask(&first, true) && ask(&first.clone(), false));
        assert_eq!(asked.get(), 1);
        assert!(!ask(&conditional("b", &large), false), "another node");
        assert!(
            !ask(&conditional("a", &Bytes::from(vec![1; LARGE])), false),
            "another constant"
        );
        let small = |byte| Bytes::from(vec![byte; 8]);
        assert!(ask(&conditional("a", &small(1)), true));
        assert!(!ask(&conditional("a", &small(2)), false), "another value");
        assert!(
            ask(&conditional("a", &small(1)), false),
            "the same value elsewhere"
        );
        assert_eq!(asked.get(), 5);
    }
}
