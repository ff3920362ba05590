//! Edits keep the edges right; the canonical order does not depend on the order of additions.

use polychip_ops::{DType, Op, TensorType};

use crate::{ErrorKind, Graph, Group, GroupKind, Node, Tensor, TensorId};

fn tensor(graph: &mut Graph, name: &str) -> TensorId {
    graph.add_tensor(Tensor::new(name, TensorType::known(DType::F32, &[2])))
}

/// `y = add(neg(x), abs(x))`, nodes added in the order given.
fn diamond(order: [&str; 3]) -> Graph {
    let mut graph = Graph::new("diamond");
    let [x, a, b, y] = ["x", "a", "b", "y"].map(|name| tensor(&mut graph, name));
    for which in order {
        graph.add_node(match which {
            "neg" => Node::new(Op::Neg, vec![Some(x)], vec![Some(a)]),
            "abs" => Node::new(Op::Abs, vec![Some(x)], vec![Some(b)]),
            _ => Node::new(Op::Add, vec![Some(a), Some(b)], vec![Some(y)]),
        });
    }
    graph.inputs.push(x);
    graph.outputs.push(y);
    graph
}

fn listing(graph: &Graph) -> Vec<String> {
    graph
        .nodes()
        .map(|(id, node)| format!("{id} {} {:?} -> {:?}", node.op, node.inputs, node.outputs))
        .collect()
}

#[test]
fn canonical_order_ignores_the_order_of_additions() {
    let mut first = diamond(["neg", "abs", "add"]);
    let mut second = diamond(["add", "abs", "neg"]);
    first.sort().unwrap();
    let renumbering = second.sort().unwrap();
    assert_eq!(listing(&first), listing(&second));
    assert_eq!(first.node(first.node_ids()[0]).op, Op::Neg);
    assert_eq!(
        renumbering.node(crate::NodeId::new(0)),
        Some(crate::NodeId::new(2))
    );
}

#[test]
fn edits_keep_producers_and_consumers() {
    let mut graph = diamond(["neg", "abs", "add"]);
    let [neg, abs, add] = graph.node_ids()[..] else {
        panic!("three nodes")
    };
    let x = graph.inputs[0];
    let a = graph.node(neg).output(0).unwrap();
    assert_eq!(graph.consumers(x), [neg, abs]);
    assert_eq!(graph.only_consumer(a), Some(add));
    graph.groups.push(Group {
        kind: GroupKind::Elementwise,
        nodes: vec![neg, add],
    });
    graph.replace_uses(a, x);
    assert_eq!(graph.consumers(x), [neg, abs, add]);
    assert_eq!(graph.groups[0].nodes, [neg, add]);
    assert_eq!(graph.remove_dead(), 1);
    assert!(graph.find_node(neg).is_none() && graph.producer(a).is_none());
    assert_eq!(graph.groups[0].nodes, [add]);
    graph.sort().unwrap();
    assert_eq!((graph.node_count(), graph.tensor_count()), (2, 3));
}

#[test]
fn outputs_follow_a_replacement() {
    let mut graph = diamond(["neg", "abs", "add"]);
    let y = graph.outputs[0];
    let x = graph.inputs[0];
    graph.replace_uses(y, x);
    assert_eq!(graph.outputs, [x]);
    assert_eq!(graph.remove_dead(), 3);
}

#[test]
fn a_cycle_is_named() {
    let mut graph = Graph::new("loop");
    let [a, b] = ["a", "b"].map(|name| tensor(&mut graph, name));
    graph.add_node(Node::new(Op::Neg, vec![Some(a)], vec![Some(b)]).named("first"));
    graph.add_node(Node::new(Op::Abs, vec![Some(b)], vec![Some(a)]));
    graph.outputs.push(b);
    let error = graph.sort().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cycle);
    assert_eq!(
        error.to_string(),
        "nodes depend on each other in a circle: Abs \"a\" -> Neg \"first\""
    );
}

#[test]
fn unwanted_outputs_are_dropped() {
    let mut graph = Graph::new("split");
    let [x, a, b] = ["x", "a", "b"].map(|name| tensor(&mut graph, name));
    let dropout = graph.add_node(Node::new(Op::Dropout, vec![Some(x)], vec![Some(a), Some(b)]));
    // how many parts there are says how large each is; and best values have places
    let parts = ["c", "d", "e"].map(|name| tensor(&mut graph, name));
    let split = graph.add_node(Node::new(Op::Split, vec![Some(x)], parts.map(Some).to_vec()));
    let best = ["f", "g"].map(|name| tensor(&mut graph, name));
    let top = graph.add_node(Node::new(
        Op::TopK,
        vec![Some(x), Some(x)],
        best.map(Some).to_vec(),
    ));
    graph.inputs.push(x);
    graph.outputs.extend([a, parts[0], best[0]]);
    assert_eq!(graph.remove_dead(), 0);
    assert_eq!(graph.node(dropout).outputs, [Some(a)]);
    assert_eq!(graph.node(split).outputs, [Some(parts[0]), None, Some(parts[2])]);
    assert_eq!(graph.node(top).outputs, best.map(Some));
}
