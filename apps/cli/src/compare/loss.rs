//! Location of error: the signal-to-noise ratio of a layer's inputs.
//!
//! Invariant: an uncompared layer passes on the lowest ratio of its inputs, so a gap between compared layers hides no
//! loss.

use std::collections::BTreeMap;

use polychip_graph::{Graph, TensorId};

/// Of each compared tensor, the least ratio in decibels of the compared tensors that its layer reads, however far before it;
/// infinite where these have no error, or are inputs.
pub(super) fn least_read(graph: &Graph, ratios: &BTreeMap<TensorId, f64>) -> BTreeMap<TensorId, f64> {
    let mut carried = vec![f64::INFINITY; graph.tensor_count()];
    let mut read = BTreeMap::new();
    for (_, node) in graph.nodes() {
        let least = node
            .reads()
            .map(|id| carried[id.index()])
            .fold(f64::INFINITY, f64::min);
        for id in node.writes() {
            match ratios.get(&id) {
                Some(ratio) => {
                    read.insert(id, least);
                    carried[id.index()] = *ratio;
                }
                None => carried[id.index()] = least,
            }
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use polychip_graph::text;

    use super::*;

    #[test]
    fn layer_inherits_the_worst_compared_input() {
        let graph = text::parse(
            r#"graph "a" {
  input t0 "x": f32[2]
  t1 "a": f32[2] = Neg "a"(t0)
  t2 "b": f32[2] = Abs "b"(t1)
  t3 "c": f32[2] = Exp "c"(t0)
  t4 "d": f32[2] = Add "d"(t2, t3)
  t5 "e": f32[2] = Relu "e"(t4)
  output t5
}
"#,
        )
        .unwrap();
        let id = |name: &str| {
            let mut tensors = graph.tensors();
            tensors.find(|(_, tensor)| tensor.name == name).unwrap().0
        };
        // b is not compared: what it reads counts for it
        let ratios = [("a", 40.0), ("c", 50.0), ("d", 30.0), ("e", 31.0)];
        let read = least_read(&graph, &ratios.map(|(name, ratio)| (id(name), ratio)).into());
        let of = |name| read[&id(name)];
        assert!(of("a").is_infinite() && of("c").is_infinite());
        assert_eq!((of("d"), of("e")), (40.0, 30.0));
        assert!(!read.contains_key(&id("b")));
    }
}
