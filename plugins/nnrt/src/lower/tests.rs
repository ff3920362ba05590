//! Programs of small parts: which operations, in which order of axes, with which parameters.

use polychip_lowering::Tensor;
use polychip_ops::{Attr, AttrValue, DType, Op};
use polychip_sdk::Constant;
use polychip_sys::nnrt::bindings as sys;

use super::*;

/// A constant that lives as long as the test.
fn constant(shape: &[usize]) -> Tensor {
    let zeros: &'static [u8] = Box::leak(vec![0u8; 4 * shape.iter().product::<usize>()].into_boxed_slice());
    let mut tensor = Tensor::new(DType::F32, Some(shape.to_vec()));
    tensor.constant = Some(Constant::of_static(zeros));
    tensor
}

fn part(nodes: Vec<Node>, tensors: Vec<Tensor>, output: usize) -> Part {
    let nodes = nodes.into_iter().enumerate();
    Part {
        nodes: nodes
            .map(|(index, node)| Node {
                index: index as u32,
                ..node
            })
            .collect(),
        tensors,
        inputs: vec![0],
        outputs: vec![output],
        states: Vec::new(),
    }
}

fn image(channels: usize) -> Tensor {
    Tensor::new(DType::F32, Some(vec![1, channels, 8, 8]))
}

fn conv(from: usize, filter: usize, to: usize) -> Node {
    let mut node = Node::new(Op::Conv, &[from, filter], &[to]);
    node.attributes.set(Attr::Pads, AttrValue::Ints(vec![1, 1, 1, 1]));
    node
}

/// Two convolutions with a Relu between them.
fn chain() -> Part {
    let nodes = vec![conv(0, 4, 1), Node::new(Op::Relu, &[1], &[2]), conv(2, 5, 3)];
    let filters = [constant(&[4, 3, 3, 3]), constant(&[2, 4, 3, 3])];
    let mut tensors = vec![image(3), image(4), image(4), image(2)];
    tensors.extend(filters);
    part(nodes, tensors, 3)
}

#[test]
fn images_are_moved_at_the_border_only_and_a_relu_is_its_convolutions_own() {
    let program = whole(&chain()).unwrap();
    let codes: Vec<u32> = program
        .operations
        .iter()
        .map(|operation| operation.code)
        .collect();
    let (moved, convolved) = (sys::OH_NN_OPS_TRANSPOSE, sys::OH_NN_OPS_CONV2D);
    assert_eq!(codes, [moved, convolved, convolved, moved]);
    let first = &program.operations[1];
    let value = |role: u32| {
        let tensors = first.params.iter().map(|&id| &program.tensors[id]);
        let tensor = tensors.into_iter().find(|tensor| tensor.role == role).unwrap();
        tensor.value.clone().unwrap()
    };
    assert_eq!(
        value(sys::OH_NN_CONV2D_ACTIVATION_TYPE),
        [sys::OH_NN_FUSED_RELU as u8]
    );
    assert_eq!(
        value(sys::OH_NN_CONV2D_PAD),
        [1i64; 4].map(i64::to_le_bytes).concat()
    );
    let weights = &program.tensors[first.inputs[1]];
    assert_eq!(weights.dims, [4, 3, 3, 3]);
    let out = &program.tensors[first.outputs[0]];
    assert_eq!((&out.dims[..], out.image), (&[1, 8, 8, 4][..], true));
}

#[test]
fn a_result_that_two_nodes_read_keeps_its_activation_apart() {
    let nodes = vec![
        conv(0, 4, 1),
        Node::new(Op::Relu, &[1], &[2]),
        Node::new(Op::Add, &[1, 2], &[3]),
    ];
    let tensors = vec![image(3), image(4), image(4), image(4), constant(&[4, 3, 3, 3])];
    let program = whole(&part(nodes, tensors, 3)).unwrap();
    let has = |code: u32| program.operations.iter().any(|operation| operation.code == code);
    assert!(has(sys::OH_NN_OPS_RELU) && has(sys::OH_NN_OPS_ADD));
}

#[test]
fn refusals_name_the_op_and_the_reason() {
    let unary = |op, dtype| {
        let tensor = || Tensor::new(dtype, Some(vec![2, 3]));
        let refusal = whole(&part(
            vec![Node::new(op, &[0], &[1])],
            vec![tensor(), tensor()],
            1,
        ))
        .unwrap_err();
        refusal.words().to_owned()
    };
    assert!(unary(Op::Round, DType::F32).contains("Round"));
    assert!(unary(Op::Relu, DType::I32).contains("Relu of Int32"));
    assert!(unary(Op::Relu, DType::F64).contains("f64"));
}
