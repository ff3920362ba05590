//! Taking nodes out of parts, and decompositions in the place of nodes.

use polychip_ops::{DType, Op};

use super::{Body, Extract, Node, Part, Tensor, TensorIndex};

/// A part over tensors of one element, with these nodes.
fn part(tensors: usize, nodes: &[(Op, &[TensorIndex], &[TensorIndex])]) -> Part {
    Part {
        nodes: nodes
            .iter()
            .map(|&(op, reads, writes)| Node::new(op, reads, writes))
            .collect(),
        tensors: (0..tensors)
            .map(|index| Tensor {
                name: index.to_string(),
                ..Tensor::new(DType::F32, Some(vec![1]))
            })
            .collect(),
        ..Part::default()
    }
}

/// The names of tensors of a part.
fn names(part: &Part, tensors: &[TensorIndex]) -> Vec<String> {
    tensors.iter().map(|&t| part.tensors[t].name.clone()).collect()
}

/// Two branches from 1, which join in 4; 5 is read by nobody.
fn diamond() -> Part {
    let mut part = part(
        6,
        &[
            (Op::Relu, &[0], &[1]),
            (Op::Neg, &[1], &[2]),
            (Op::Abs, &[1], &[3]),
            (Op::Add, &[2, 3], &[4]),
            (Op::Exp, &[1], &[5]),
        ],
    );
    part.inputs = vec![0];
    part.outputs = vec![4];
    part
}

#[test]
fn what_leaves_nodes_taken_out_is_their_output() {
    let whole = diamond();
    let mut extract = Extract::new(&whole);
    let branches = extract.nodes(&[2, 1, 3, 2]);
    assert_eq!(names(&branches, &branches.inputs), ["1"]);
    assert_eq!(names(&branches, &branches.outputs), ["4"]);
    let first = extract.nodes(&[0, 1]);
    assert_eq!(names(&first, &first.inputs), ["0"]);
    assert_eq!(names(&first, &first.outputs), ["1", "2"]);
    let unread = extract.node(4);
    assert_eq!(names(&unread, &unread.outputs), ["5"]);
    // an earlier call leaves no trace
    let again = extract.nodes(&[1, 2, 3]);
    assert_eq!(names(&again, &again.outputs), ["4"]);
    assert_eq!(again.tensors.len(), 4);
}

#[test]
fn a_tensor_read_twice_and_one_that_leaves_the_whole_are_counted_right() {
    let mut whole = part(3, &[(Op::Relu, &[0], &[1]), (Op::Mul, &[1, 1], &[2])]);
    whole.inputs = vec![0];
    whole.outputs = vec![2];
    let mut extract = Extract::new(&whole);
    let both = extract.nodes(&[0, 1]);
    assert_eq!(names(&both, &both.outputs), ["2"]);
    whole.outputs = vec![1, 2];
    let both = Extract::new(&whole).nodes(&[0, 1]);
    assert_eq!(names(&both, &both.outputs), ["1", "2"]);
}

#[test]
fn captures_of_a_body_are_fed() {
    let mut whole = part(3, &[(Op::If, &[0], &[2])]);
    whole.nodes[0].bodies.push(Body {
        attr: None,
        captured: vec![Some(1)],
        outputs: Vec::new(),
    });
    let alone = Extract::new(&whole).node(0);
    assert_eq!(names(&alone, &alone.inputs), ["0", "1"]);
    assert_eq!(alone.nodes[0].bodies[0].captured, [Some(alone.inputs[1])]);
}

#[test]
fn a_decomposition_stands_in_the_place_of_its_node() {
    let mut inner = part(3, &[(Op::Neg, &[0], &[1]), (Op::Exp, &[1], &[2])]);
    (inner.inputs, inner.outputs) = (vec![0], vec![2]);
    let mut whole = diamond();
    whole.nodes[2].decomposition = Some(Box::new(inner));
    whole.nodes[2].index = 7;
    let kept = whole.clone().decomposed(|_| false);
    assert_eq!(kept.nodes.len(), 5);
    let spliced = whole.decomposed(|node| node == 2);
    let ops: Vec<Op> = spliced.nodes.iter().map(|node| node.op).collect();
    assert_eq!(ops, [Op::Relu, Op::Neg, Op::Neg, Op::Exp, Op::Add, Op::Exp]);
    assert_eq!(spliced.nodes[2].input(0), Some(1));
    assert_eq!(spliced.nodes[3].output(0), Some(3));
    assert_eq!((spliced.nodes[2].index, spliced.nodes[3].index), (7, 7));
}
