//! Small random graphs for property tests and fuzz targets, of this crate and of others.
//!
//! Invariants:
//! 1. Every graph verifies, is in canonical order, and its types are those that inference finds.
//! 2. Equal genes give equal graphs; fewer genes give smaller ones, so that failures shrink.
//!
//! Not here: graphs of real models; weights that mean anything.

use polychip_ops::{Attr, Attributes, DType, Literal, Op, TensorType};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::{
    Body, Capture, Constant, Encoding, EncodingAxis, Graph, Group, GroupKind, Node, NodeId, Tensor, TensorId,
};

/// The sizes of every tensor but conditions.
const SHAPE: [usize; 2] = [2, 3];

/// One node to be, as plain numbers.
#[derive(Clone, Copy, Debug)]
pub struct Gene {
    /// Chooses the op.
    pub op: u8,
    /// Choose the tensors it reads.
    pub reads: [u16; 2],
    /// Chooses attributes, values and annotations.
    pub extra: u8,
}

/// Graphs of up to `nodes` nodes over `f32[2, 3]`: elementwise ops, constants, Softmax, custom ops, If
/// with bodies, encodings and groups.
pub fn graphs(nodes: usize) -> impl Strategy<Value = Graph> {
    genes(nodes).prop_map(|(inputs, genes)| build(inputs, &genes, true))
}

/// As [`graphs`], with ops that every device computes: no custom ops, bodies, encodings or groups.
pub fn plain_graphs(nodes: usize) -> impl Strategy<Value = Graph> {
    genes(nodes).prop_map(|(inputs, genes)| build(inputs, &genes, false))
}

fn genes(nodes: usize) -> impl Strategy<Value = (usize, Vec<Gene>)> {
    let gene = (any::<u8>(), any::<[u16; 2]>(), any::<u8>()).prop_map(|(op, reads, extra)| Gene {
        op,
        reads,
        extra,
    });
    (1..=3usize, prop::collection::vec(gene, 1..=nodes.max(1)))
}

/// The graph of these genes: every tensor that nothing reads is an output.
///
/// # Panics
/// Never, if this module is right.
pub fn build(inputs: usize, genes: &[Gene], rich: bool) -> Graph {
    let mut graph = Graph::new("arbitrary");
    let mut values: Vec<TensorId> = Vec::new();
    for index in 0..inputs.max(1) {
        let id = graph.add_tensor(Tensor::new(
            format!("x{index}"),
            TensorType::known(DType::F32, &SHAPE),
        ));
        graph.inputs.push(id);
        values.push(id);
    }
    let condition = graph.add_tensor(Tensor::new("condition", TensorType::known(DType::Bool, &[])));
    for (index, gene) in genes.iter().enumerate() {
        let [a, b] = gene.reads.map(|read| values[usize::from(read) % values.len()]);
        let out = graph.add_tensor(Tensor::new(
            format!("v{index}"),
            TensorType::known(DType::F32, &SHAPE),
        ));
        values.push(out);
        let (a, b) = (Some(a), Some(b));
        let kinds = if rich { 12 } else { 9 };
        let node = match gene.op % kinds {
            0 => Node::new(Op::Neg, vec![a], vec![Some(out)]),
            1 => Node::new(Op::Abs, vec![a], vec![Some(out)]),
            2 => Node::new(Op::Relu, vec![a], vec![Some(out)]),
            3 => Node::new(Op::Sigmoid, vec![a], vec![Some(out)]),
            4 => Node::new(Op::Add, vec![a, b], vec![Some(out)]),
            5 => Node::new(Op::Sub, vec![a, b], vec![Some(out)]),
            6 => Node::new(Op::Mul, vec![a, b], vec![Some(out)]),
            7 => {
                let weights = graph.add_tensor(constant(index, gene.extra));
                Node::new(Op::Mul, vec![a, Some(weights)], vec![Some(out)])
            }
            8 => {
                let axis = i64::from(gene.extra % 2);
                Node::new(Op::Softmax, vec![a], vec![Some(out)])
                    .with(Attributes::new().with_int(Attr::Axis, axis))
            }
            9 => {
                let alpha = Attributes::new().with_float(Attr::Alpha, f32::from(gene.extra) / 16.0);
                Node::custom("test", "Mystery", vec![a, None, b], vec![Some(out)]).with(alpha)
            }
            10 => {
                let mut node = Node::new(Op::If, vec![Some(condition)], vec![Some(out)]);
                let captured = [a, b].map(|id| id.expect("invariant: both are given"));
                node.bodies = vec![
                    branch(Attr::ThenBranch, Op::Sub, captured),
                    branch(Attr::ElseBranch, Op::Add, captured),
                ];
                node
            }
            _ => {
                graph.tensor_mut(out).encoding = Some(Encoding {
                    axis: if gene.extra % 2 == 0 {
                        EncodingAxis::PerTensor
                    } else {
                        EncodingAxis::PerAxis(0)
                    },
                    scales: vec![0.5; 1 + usize::from(gene.extra % 2)].into(),
                    zero_points: [].into(),
                    real: DType::F32,
                });
                Node::new(Op::Exp, vec![a], vec![Some(out)])
            }
        };
        graph.add_node(node.named(format!("n{index}")));
    }
    if !graph.consumers(condition).is_empty() {
        graph.inputs.push(condition);
    }
    graph.outputs = values
        .into_iter()
        .filter(|&id| graph.producer(id).is_some() && graph.consumers(id).is_empty())
        .collect();
    graph.sort().expect("invariant: nodes read only what was there");
    if rich && genes[0].extra % 2 == 1 {
        let nodes: Vec<NodeId> = graph.node_ids().into_iter().take(2).collect();
        graph.groups.push(Group {
            kind: GroupKind::Elementwise,
            nodes,
        });
    }
    graph
}

fn constant(index: usize, extra: u8) -> Tensor {
    let values: Vec<f32> = (0..6u8)
        .map(|i| f32::from(extra.wrapping_mul(31).wrapping_add(i)) / 64.0)
        .collect();
    let literal = Literal::f32s(&values);
    Tensor::constant(
        format!("w{index}"),
        TensorType::known(DType::F32, &SHAPE),
        Constant::from_literal(&literal),
    )
}

/// A body that joins two captures.
fn branch(attr: Attr, op: Op, captured: [TensorId; 2]) -> Body {
    let mut graph = Graph::new(attr.name());
    // a tensor that is read twice is captured once
    let outers = if captured[0] == captured[1] {
        &captured[..1]
    } else {
        &captured[..]
    };
    let captures: Vec<Capture> = outers
        .iter()
        .enumerate()
        .map(|(index, &outer)| {
            let name = format!("c{index}");
            Capture {
                outer,
                inner: graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &SHAPE))),
            }
        })
        .collect();
    let out = graph.add_tensor(Tensor::new("out", TensorType::known(DType::F32, &SHAPE)));
    let (first, last) = (captures[0].inner, captures[captures.len() - 1].inner);
    graph.add_node(Node::new(op, vec![Some(first), Some(last)], vec![Some(out)]));
    graph.inputs = captures.iter().map(|capture| capture.inner).collect();
    graph.outputs.push(out);
    Body {
        attr,
        graph,
        captures,
    }
}

/// The same graph with other names, and nodes and tensors added in another order.
pub fn shuffled(graph: &Graph, seed: u64) -> Graph {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut next = |bound: usize| random.next_u32() as usize % bound.max(1);
    let mut permuted = |count: usize| {
        let mut order: Vec<usize> = (0..count).collect();
        for place in (1..count).rev() {
            order.swap(place, next(place + 1));
        }
        order
    };
    let mut other = Graph::new(format!("{} again", graph.name));
    let mut map = vec![TensorId::new(0); graph.tensor_count()];
    for index in permuted(graph.tensor_count()) {
        let old = graph.tensor(TensorId::new(index));
        map[index] = other.add_tensor(Tensor {
            name: format!("{}'", old.name),
            ..old.clone()
        });
    }
    let ids = graph.node_ids();
    let mut nodes = vec![NodeId::new(0); graph.node_bound()];
    for index in permuted(ids.len()) {
        let mut node = graph.node(ids[index]).clone();
        node.name.push('\'');
        let slots = node.inputs.iter_mut().chain(&mut node.outputs).flatten();
        slots.for_each(|id| *id = map[id.index()]);
        for capture in node.bodies.iter_mut().flat_map(|body| &mut body.captures) {
            capture.outer = map[capture.outer.index()];
        }
        nodes[ids[index].index()] = other.add_node(node);
    }
    other.inputs = graph.inputs.iter().map(|id| map[id.index()]).collect();
    other.outputs = graph.outputs.iter().map(|id| map[id.index()]).collect();
    for group in &graph.groups {
        let mut members: Vec<NodeId> = group.nodes.iter().map(|id| nodes[id.index()]).collect();
        members.sort_unstable();
        other.groups.push(Group {
            kind: group.kind,
            nodes: members,
        });
    }
    other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{text, verify};

    proptest! {
        #[test]
        fn graphs_verify_and_infer_as_they_are(graph in graphs(24)) {
            verify(&graph).unwrap();
            let mut inferred = graph.clone();
            crate::infer(&mut inferred).unwrap();
            prop_assert_eq!(text::print_full(&inferred), text::print_full(&graph));
        }

        #[test]
        fn text_round_trips(graph in graphs(24)) {
            let printed = text::print_full(&graph);
            let parsed = text::parse(&printed).unwrap();
            verify(&parsed).unwrap();
            prop_assert_eq!(text::print_full(&parsed), printed);
            prop_assert_eq!(crate::fingerprint::content(&parsed), crate::fingerprint::content(&graph));
        }

        #[test]
        fn sorting_again_changes_nothing(graph in graphs(24), seed: u64) {
            let before = text::print_full(&graph);
            let mut again = graph.clone();
            again.sort().unwrap();
            prop_assert_eq!(text::print_full(&again), before.clone());
            let mut other = shuffled(&graph, seed);
            other.sort().unwrap();
            verify(&other).unwrap();
            let ops = |graph: &Graph| graph.nodes().map(|(_, node)| node.op).collect::<Vec<_>>();
            prop_assert_eq!(ops(&other), ops(&graph));
        }
    }
}
