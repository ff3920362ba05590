//! Regions: nodes on tensors of unknown size that are lowered together for the sizes of a run.

use super::*;

/// Adds a node whose results have these types, and extents where they are known.
fn open(
    net: &mut Net,
    op: Op,
    attributes: Attributes,
    inputs: &[usize],
    result: (DType, Option<&[usize]>),
) -> usize {
    let y = net.tensor(result.0, result.1.map(<[usize]>::to_vec));
    let mut node = Node::new(op, inputs, &[y]);
    node.attributes = attributes;
    net.part.nodes.push(node);
    y
}

const F32: (DType, Option<&[usize]>) = (DType::F32, None);

fn image(net: &mut Net) -> usize {
    let x = net.tensor(DType::F32, None);
    net.part.inputs.push(x);
    x
}

fn conv(net: &mut Net, x: usize, from: usize, to: usize) -> usize {
    let (w, b) = (net.weights(&[to, from, 3, 3]), net.weights(&[to]));
    let pads = Attributes::new().with_ints(Attr::Pads, &[1, 1, 1, 1]);
    open(net, Op::Conv, pads, &[x, w, b], F32)
}

fn lowered(net: &Net, pool: &ThreadPool) -> Program {
    let ports = net.part.inputs.len() + net.part.outputs.len();
    let layouts = vec![Layout::RowMajor; ports];
    let program = net.lower(&layouts, false, pool);
    net.check_dry_run(&layouts, &program);
    program
}

#[test]
fn nodes_of_any_size_are_lowered_together() {
    let mut net = Net::default();
    let x = image(&mut net);
    let a = conv(&mut net, x, 4, 8);
    let a = open(&mut net, Op::Relu, Attributes::new(), &[a], F32);
    let b = conv(&mut net, a, 8, 8);
    let sum = open(&mut net, Op::Add, Attributes::new(), &[a, b], F32);
    // the second size of the result follows from the shape of the sum
    let shape = open(
        &mut net,
        Op::Shape,
        Attributes::new(),
        &[sum],
        (DType::I64, Some(&[4])),
    );
    let (index, before, after) = (net.ints(&[2]), net.ints(&[8]), net.ints(&[6]));
    let axis = Attributes::new().with_int(Attr::Axis, 0);
    let rows = open(
        &mut net,
        Op::Gather,
        axis.clone(),
        &[shape, index],
        (DType::I64, Some(&[1])),
    );
    let to = open(
        &mut net,
        Op::Concat,
        axis,
        &[before, rows, after],
        (DType::I64, Some(&[3])),
    );
    let matrix = open(&mut net, Op::Reshape, Attributes::new(), &[sum, to], F32);
    let w = net.weights(&[6, 5]);
    let y = open(&mut net, Op::MatMul, Attributes::new(), &[matrix, w], F32);
    net.output(y);
    // this one is read outside, too
    net.output(rows);

    let pool = ThreadPool::new(1);
    let program = lowered(&net, &pool);
    let nodes = net.part.nodes.len();
    assert_eq!(program.regions.len(), 1, "{:?}", program.steps);
    assert_eq!(program.regions[0].steps, 0..program.steps.len());
    for (size, runs) in [(3, 1), (5, 1), (3, 2), (1, 1), (40, 1), (5, 2)] {
        let fed = vec![net.boxed(DType::F32, &[1, 4, size, 6])];
        let expected = evaluate(&net.part, &fed);
        let before = super::super::dynamic_shapes::CALLS.get();
        for (have, want) in run(&program, &pool, &fed).iter().zip(&expected) {
            close(have, want, 1e-4, &format!("{size} rows"));
        }
        // a size is lowered when it comes again
        let calls = super::super::dynamic_shapes::CALLS.get() - before;
        assert!(
            calls >= runs * nodes,
            "{size} rows: {calls} of {runs} times {nodes}"
        );
    }
}

#[test]
fn sizes_from_data_begin_another_region() {
    let mut net = Net::default();
    let x = image(&mut net);
    let a = conv(&mut net, x, 2, 3);
    let a = open(&mut net, Op::Abs, Attributes::new(), &[a], F32);
    let flat = Attributes::new().with_int(Attr::Keepdims, 0);
    let most = open(&mut net, Op::ReduceMax, flat, &[a], (DType::F32, Some(&[])));
    let most = open(
        &mut net,
        Op::Ceil,
        Attributes::new(),
        &[most],
        (DType::F32, Some(&[])),
    );
    let cast = |to: DType| Attributes::new().with(Attr::To, AttrValue::Int(i64::from(to.code())));
    let count = open(
        &mut net,
        Op::Cast,
        cast(DType::I64),
        &[most],
        (DType::I64, Some(&[])),
    );
    let scalar = |net: &mut Net, value| net.constant(&Boxed::from_i64s(vec![], vec![value]).unwrap());
    let (zero, one) = (scalar(&mut net, 0), scalar(&mut net, 1));
    let steps = open(
        &mut net,
        Op::Range,
        Attributes::new(),
        &[zero, count, one],
        (DType::I64, None),
    );
    let steps = open(&mut net, Op::Cast, cast(DType::F32), &[steps], F32);
    let axis = Attributes::new().with_int(Attr::Axis, 0);
    let y = open(&mut net, Op::Softmax, axis, &[steps], F32);
    net.output(y);

    let pool = ThreadPool::new(1);
    let program = lowered(&net, &pool);
    let starts: Vec<_> = program
        .regions
        .iter()
        .map(|region| program.steps[region.steps.start].name)
        .collect();
    assert_eq!(starts, ["Conv", "Range"], "{:?}", program.steps);
    for size in [3, 4, 3, 9, 4, 3] {
        let fed = vec![net.boxed(DType::F32, &[1, 2, size, 5])];
        let expected = evaluate(&net.part, &fed);
        let before = super::super::dynamic_shapes::CALLS.get();
        for (have, want) in run(&program, &pool, &fed).iter().zip(&expected) {
            close(have, want, 1e-4, &format!("{size} rows"));
        }
        assert!(super::super::dynamic_shapes::CALLS.get() > before);
    }
}

#[test]
fn errors_inside_name_the_node() {
    let mut net = Net::default();
    let x = image(&mut net);
    let at = net.tensor(DType::I64, Some(vec![1]));
    net.part.inputs.push(at);
    let a = conv(&mut net, x, 2, 3);
    let a = open(&mut net, Op::Relu, Attributes::new(), &[a], F32);
    let axis = Attributes::new().with_int(Attr::Axis, 2);
    let y = open(&mut net, Op::Gather, axis, &[a, at], F32);
    net.output(y);

    let pool = ThreadPool::new(1);
    let program = lowered(&net, &pool);
    assert_eq!(program.regions.len(), 1, "{:?}", program.steps);
    let x = net.boxed(DType::F32, &[1, 2, 4, 5]);
    let at = |index| Boxed::from_i64s(vec![1], vec![index]).unwrap();
    for _ in 0..2 {
        // once by single nodes, once by the region
        let error = try_run(&program, &pool, &[x.clone(), at(4)]).unwrap_err();
        assert_eq!(error.node(), Some(2), "{error}");
        assert!(try_run(&program, &pool, &[x.clone(), at(3)]).is_ok());
    }
}
