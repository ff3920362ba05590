//! Nodes with dynamic shapes. All other tests of lowering also run their nets with dynamic shapes (`check_dynamic_shapes`).

use super::*;

/// Runs a net with dynamic shapes, and returns how many of its nodes kernels computed.
fn nodes_on_kernels(net: &Net) -> usize {
    let expected = evaluate(&net.part, &net.fed);
    net.check_dynamic_shapes(1e-5, &expected)
}

#[test]
fn products_and_functions() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[9, 16]);
    let w = net.weights(&[16, 32]);
    let product = net.plain(Op::MatMul, &[x, w]);
    let y = net.plain(Op::Relu, &[product]);
    let y = net.plain(Op::Softmax, &[y]);
    net.output(y);
    // in two runs: the product is the evaluator's once, the others are computed by rank
    assert_eq!(nodes_on_kernels(&net), 5);
}

/// Sizes that never come again, as in a loop whose state grows.
#[test]
fn kernels_by_rank_take_any_sizes() {
    let mut net = Net::default();
    let open = |net: &mut Net| {
        let x = net.tensor(DType::F32, None);
        net.part.inputs.push(x);
        x
    };
    let (x, z) = (open(&mut net), open(&mut net));
    let constant = net.ints(&[1]);
    let mut results = Vec::new();
    let mut node = |net: &mut Net, op: Op, attributes: Attributes, inputs: &[usize]| {
        let y = net.tensor(DType::F32, None);
        let made = Node {
            attributes,
            ..Node::new(op, inputs, &[y])
        };
        net.part.nodes.push(made);
        results.push(y);
        y
    };
    let none = Attributes::new;
    let keepdims = none().with_int(Attr::Keepdims, 0);
    let flipped = node(&mut net, Op::Transpose, none(), &[x]);
    let product = node(&mut net, Op::MatMul, none(), &[flipped, x]);
    node(&mut net, Op::Softmax, none().with_int(Attr::Axis, -1), &[product]);
    node(&mut net, Op::Sub, none(), &[x, z]);
    node(&mut net, Op::Exp, none(), &[x]);
    node(&mut net, Op::ReduceMax, keepdims, &[x, constant]);
    for y in results {
        net.output(y);
    }
    let pool = ThreadPool::new(1);
    let program = net.lower(&[Layout::RowMajor; 8], false, &pool);
    let before = super::super::dynamic_shapes::CALLS.get();
    for rows in 1..40 {
        let fed = vec![
            net.boxed(DType::F32, &[rows, 7]),
            net.boxed(DType::F32, &[rows, 1]),
        ];
        let expected = evaluate(&net.part, &fed);
        for (have, want) in run(&program, &pool, &fed).iter().zip(&expected) {
            close(have, want, 1e-5, &format!("{rows} rows"));
        }
    }
    assert_eq!(super::super::dynamic_shapes::CALLS.get() - before, 2 * 39 * 6);
}

#[test]
fn shapes_from_operand_values() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[4, 6]);
    let to = net.feed(Boxed::from_i64s(vec![2], vec![8, 3]).unwrap());
    let (from, until) = (
        net.feed(Boxed::from_i64s(vec![1], vec![1]).unwrap()),
        net.feed(Boxed::from_i64s(vec![1], vec![7]).unwrap()),
    );
    let tensors = net.part.tensors.len();
    let node = |op: Op, inputs: &[usize], result: usize| Node::new(op, inputs, &[result]);
    let (reshaped, sliced) = (tensors, tensors + 1);
    for dims in [[8, 3], [6, 3]] {
        net.tensor(DType::F32, Some(dims.to_vec()));
    }
    let nodes = [
        node(Op::Reshape, &[x, to], reshaped),
        node(Op::Slice, &[reshaped, from, until], sliced),
    ];
    net.part.nodes.extend(nodes);
    net.output(sliced);
    // the first run finds out that values tell the sizes, the second that these sizes came, so the third is by kernels
    let expected = evaluate(&net.part, &net.fed);
    assert_eq!(net.check_dynamic_shapes(0.0, &expected), 0);
}

#[test]
fn other_sizes_after_each_other() {
    let mut net = Net::default();
    let x = net.tensor(DType::F32, None);
    net.part.inputs.push(x);
    let w = net.weights(&[8, 8]);
    let y = net.tensor(DType::F32, None);
    net.part.nodes.push(Node::new(Op::MatMul, &[x, w], &[y]));
    net.output(y);
    let pool = ThreadPool::new(1);
    let program = net.lower(&[Layout::RowMajor; 2], false, &pool);
    let before = super::super::dynamic_shapes::CALLS.get();
    for rows in [3, 5, 3, 70, 1, 5] {
        let value = net.boxed(DType::F32, &[rows, 8]);
        let fed = vec![value];
        let expected = evaluate(&net.part, &fed);
        for (have, want) in run(&program, &pool, &fed).iter().zip(&expected) {
            close(have, want, 1e-5, "rows");
        }
    }
    // each of four sizes is the evaluator's once
    assert_eq!(super::super::dynamic_shapes::CALLS.get() - before, 12 - 4);
}

#[test]
fn more_shapes_than_cached() {
    let mut net = Net::default();
    let x = net.tensor(DType::F32, None);
    net.part.inputs.push(x);
    let y = net.tensor(DType::F32, None);
    net.part.nodes.push(Node::new(Op::Exp, &[x], &[y]));
    net.output(y);
    let pool = ThreadPool::new(1);
    let program = net.lower(&[Layout::RowMajor; 2], false, &pool);
    for turn in 0..2 {
        for size in 1..200 {
            let fed = vec![net.boxed(DType::F32, &[size])];
            let expected = evaluate(&net.part, &fed);
            let have = run(&program, &pool, &fed);
            close(&have[0], &expected[0], 1e-5, &format!("{size}, turn {turn}"));
        }
    }
}
