//! Cutting a part out of a graph, as a graph of its own.
//!
//! Invariants:
//! 1. The part computes what its nodes compute in the whole graph: it has the same tensors, constants
//!    (slices of the same memory), bodies and decompositions.
//! 2. Its inputs and outputs stand in the order given; a group is kept where all its nodes are.
//!
//! Not here: which nodes belong together (`partitioner`).

use std::collections::BTreeMap;

use crate::{Body, Capture, Graph, Group, Node, NodeId, State, Tensor, TensorId};

/// The nodes as a graph of their own, reading `inputs` from outside and giving `outputs`.
///
/// The graph is sorted, so that its groups are found by their first nodes: what this takes depends on the part, not on
/// the graph around it. Nodes stand in the order of the whole graph. A tensor that the nodes read, that none of them
/// writes, and that is neither constant nor listed becomes a tensor without producer, which the
/// verifier refuses.
pub fn extract(graph: &Graph, nodes: &[NodeId], inputs: &[TensorId], outputs: &[TensorId]) -> Graph {
    let mut part = Graph::new(graph.name.clone());
    part.files.clone_from(&graph.files);
    let mut ids: BTreeMap<TensorId, TensorId> = BTreeMap::new();
    let mut place = |part: &mut Graph, id: TensorId| {
        *ids.entry(id)
            .or_insert_with(|| part.add_tensor(Tensor::clone(graph.tensor(id))))
    };
    part.inputs = inputs.iter().map(|&id| place(&mut part, id)).collect();
    let mut members: Vec<NodeId> = nodes.to_vec();
    members.sort_unstable();
    let mut new_ids = BTreeMap::new();
    for id in members {
        let node = graph.node(id);
        let copy = Node {
            op: node.op,
            domain: node.domain.clone(),
            op_name: node.op_name.clone(),
            name: node.name.clone(),
            inputs: node
                .inputs
                .iter()
                .map(|id| id.map(|id| place(&mut part, id)))
                .collect(),
            outputs: node
                .outputs
                .iter()
                .map(|id| id.map(|id| place(&mut part, id)))
                .collect(),
            attributes: node.attributes.clone(),
            bodies: node
                .bodies
                .iter()
                .map(|body| copy_body(body, |id| place(&mut part, id)))
                .collect(),
            decomposition: node.decomposition.clone(),
        };
        new_ids.insert(id, part.add_node(copy));
    }
    part.outputs = outputs.iter().map(|&id| place(&mut part, id)).collect();
    part.groups = groups_from(&graph.groups, new_ids.keys())
        .filter_map(|group| {
            let nodes: Option<Vec<NodeId>> = group.nodes.iter().map(|id| new_ids.get(id).copied()).collect();
            Some(Group {
                kind: group.kind,
                nodes: nodes?,
            })
        })
        .collect();
    part.states = graph
        .states
        .iter()
        .filter(|state| inputs.contains(&state.input) && outputs.contains(&state.output))
        .map(|state| State {
            input: place(&mut part, state.input),
            output: place(&mut part, state.output),
        })
        .collect();
    part
}

/// The groups that begin with one of some nodes, by bisection.
fn groups_from<'a>(
    groups: &'a [Group],
    nodes: impl Iterator<Item = &'a NodeId>,
) -> impl Iterator<Item = &'a Group> {
    debug_assert!(
        groups.is_sorted_by_key(|group| group.nodes.first()),
        "invariant: a sorted graph has its groups in the order of their first nodes"
    );
    nodes.filter_map(|id| {
        let at = groups.binary_search_by_key(&Some(id), |group| group.nodes.first());
        Some(&groups[at.ok()?])
    })
}

fn copy_body(body: &Body, mut place: impl FnMut(TensorId) -> TensorId) -> Body {
    let captures = body
        .captures
        .iter()
        .map(|c| Capture {
            outer: place(c.outer),
            inner: c.inner,
        })
        .collect();
    Body {
        attr: body.attr,
        graph: body.graph.clone(),
        captures,
    }
}

#[cfg(test)]
mod tests {
    use polychip_ops::{DType, Op, TensorType};

    use super::*;
    use crate::{Constant, GroupKind};

    #[test]
    fn parts_look_at_their_own_groups_only() {
        let group = |first: usize| Group {
            kind: GroupKind::Elementwise,
            nodes: vec![NodeId::new(first), NodeId::new(first + 1)],
        };
        let groups: Vec<Group> = (0..1000).map(|at| group(3 * at)).collect();
        let nodes: Vec<NodeId> = (0..3000).map(NodeId::new).collect();
        for part in nodes.chunks(30) {
            let seen: Vec<&Group> = groups_from(&groups, part.iter()).collect();
            assert_eq!(seen.len(), 10);
            assert!(seen.iter().all(|group| part.contains(&group.nodes[0])));
        }
    }

    #[test]
    fn a_part_keeps_constants_and_whole_groups() {
        let mut graph = Graph::new("whole");
        let ty = || TensorType::known(DType::F32, &[2]);
        let x = graph.add_tensor(Tensor::new("x", ty()));
        let w = graph.add_tensor(Tensor::constant("w", ty(), Constant::new(vec![0u8; 8])));
        let tensors: Vec<TensorId> = ["a", "b", "y"]
            .iter()
            .map(|name| graph.add_tensor(Tensor::new(*name, ty())))
            .collect();
        let mut nodes = Vec::new();
        for (op, from, to) in [
            (Op::Add, x, 0),
            (Op::Relu, tensors[0], 1),
            (Op::Mul, tensors[1], 2),
        ] {
            let inputs = if op == Op::Relu {
                vec![Some(from)]
            } else {
                vec![Some(from), Some(w)]
            };
            nodes.push(graph.add_node(Node::new(op, inputs, vec![Some(tensors[to])])));
        }
        graph.inputs.push(x);
        graph.outputs.push(tensors[2]);
        graph.groups.push(Group {
            kind: GroupKind::Elementwise,
            nodes: nodes[..2].to_vec(),
        });
        graph.groups.push(Group {
            kind: GroupKind::Elementwise,
            nodes: nodes[1..].to_vec(),
        });

        let part = extract(&graph, &[nodes[1], nodes[0]], &[x], &[tensors[1]]);
        assert_eq!(part.node_count(), 2);
        assert_eq!(part.nodes().next().unwrap().1.op, Op::Add);
        assert_eq!(part.groups.len(), 1);
        let names = |ids: &[TensorId]| {
            ids.iter()
                .map(|&id| part.tensor(id).name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (names(&part.inputs), names(&part.outputs)),
            (vec!["x".to_owned()], vec!["b".to_owned()])
        );
        let constant = part.tensors().find(|(_, tensor)| tensor.is_constant()).unwrap().1;
        let original = graph.tensor(w).data.as_ref().unwrap();
        assert_eq!(
            constant.data.as_ref().unwrap().bytes.as_ptr(),
            original.bytes.as_ptr()
        );
    }
}
