//! Dry runs of nodes that no fast kernel covers, and the expected cost.

use super::*;
use crate::estimate::{dry_run, reference_ns};
use crate::work::{Boxed as Counted, Class, Loop, Work, of_node};

fn only_step(net: &Net) -> Work {
    let dry = dry_run(&net.part, &Programs::default(), Isa::detect());
    assert!(dry.refused.iter().all(Option::is_none));
    let work: Vec<Work> = dry.steps.iter().map(|step| step.work).collect();
    assert_eq!(work.len(), 1, "{:?}", dry.steps);
    work[0]
}

/// The only step is the reference's, turns so often, and a turn costs some nanoseconds at most.
fn check(net: &Net, turn: Loop, units: u64) {
    let work = only_step(net);
    assert_eq!((work.class, work.units), (Class::Reference(turn), units));
    let ns = reference_ns(&work) as f64 / units as f64;
    assert!((0.2..100.0).contains(&ns), "{ns} ns per turn of {work:?}");
}

fn recurrent(op: Op, gates: usize, outputs: usize) -> Net {
    let (steps, input, hidden) = (50, 64, 32);
    let mut net = Net::default();
    let x = net.input(DType::F32, &[steps, 1, input]);
    // of weights that are computed, so that the reference evaluator has it
    let w = net.input(DType::F32, &[1, gates * hidden, input]);
    let r = net.input(DType::F32, &[1, gates * hidden, hidden]);
    let attributes = Attributes::new().with_int(Attr::HiddenSize, hidden as i64);
    let results = net.nodes(op, attributes, &[Some(x), Some(w), Some(r)], outputs);
    for result in results {
        net.output(result);
    }
    net
}

#[test]
fn recurrent_layers_are_priced_by_their_products() {
    check(&recurrent(Op::LSTM, 4, 3), Loop::Dot, 50 * 4 * 32 * 96);
    check(&recurrent(Op::GRU, 3, 2), Loop::Dot, 50 * 3 * 32 * 96);
    check(&recurrent(Op::RNN, 1, 2), Loop::Dot, 50 * 32 * 96);
}

/// Of f64, which the reference evaluator has.
#[test]
fn einsum_cost_covers_all_labels() {
    for (equation, a, b, units, results) in [
        ("ij,jk->ik", vec![30, 20], vec![20, 10], 30 * 20 * 10, 30 * 10),
        (
            "bqhd,bkhd->bhqk",
            vec![2, 5, 3, 8],
            vec![2, 7, 3, 8],
            2 * 5 * 7 * 3 * 8,
            2 * 3 * 5 * 7,
        ),
        (
            "...ij,jk->...ik",
            vec![4, 3, 5],
            vec![5, 6],
            4 * 3 * 5 * 6,
            4 * 3 * 6,
        ),
    ] {
        let mut net = Net::default();
        let inputs = [net.input(DType::F64, &a), net.input(DType::F64, &b)];
        let attributes = Attributes::new().with(Attr::Equation, AttrValue::String(equation.into()));
        let y = net.node(Op::Einsum, attributes, &inputs);
        net.output(y);
        check(&net, Loop::Gathered, units + 2 * results);
    }
}

#[test]
fn top_k_cost_covers_each_element() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[32, 1000]);
    let k = net.ints(&[5]);
    let results = net.nodes(Op::TopK, Attributes::new(), &[Some(x), Some(k)], 2);
    for result in results {
        net.output(result);
    }
    let work = only_step(&net);
    assert_eq!((work.class, work.units), (Class::Order, 32 * 1000));
}

#[test]
fn refused_node_has_no_steps_and_later_nodes_are_lowered() {
    let mut net = Net::default();
    let x = net.input(DType::F8E4M3FN, &[3, 5]);
    let dropped = net.nodes(Op::Dropout, Attributes::new(), &[Some(x)], 2);
    let y = net.plain(Op::Not, &[dropped[1]]);
    net.output(y);
    let dry = dry_run(&net.part, &Programs::default(), Isa::detect());
    assert!(dry.refused[0].is_some() && dry.refused[1].is_none());
    let nodes: Vec<u32> = dry.steps.iter().map(|step| step.node).collect();
    assert_eq!(nodes, [1]);
}

#[test]
fn strongly_shrunk_axis_has_no_precomputed_weights() {
    let steps = |pixels: usize| {
        let mut part = Part::default();
        for (dtype, dims) in [
            (DType::F32, vec![1, pixels, 4, 4]),
            (DType::I64, vec![4]),
            (DType::F32, vec![1, 1, 3, 3]),
        ] {
            part.tensors.push(Tensor::new(dtype, Some(dims)));
        }
        let mut node = Node::new(Op::Resize, &[], &[2]);
        node.inputs = vec![Some(0), None, None, Some(1)];
        node.attributes = Attributes::new()
            .with_str(Attr::Mode, "cubic")
            .with_int(Attr::Antialias, 1);
        part.nodes.push(node);
        (part.inputs, part.outputs) = (vec![0, 1], vec![2]);
        let dry = dry_run(&part, &Programs::default(), Isa::detect());
        dry.steps
            .iter()
            .map(|step| step.name == "resize axis")
            .collect::<Vec<_>>()
    };
    assert_eq!(steps(64), [true; 3]);
    // the weights alone would be 32 GiB
    assert_eq!(steps(1 << 31), [false]);
}

#[test]
fn counts_beyond_64_bits_saturate() {
    let roi = |op, attributes| {
        let mut part = Part::default();
        for dims in [vec![1, 2, 1 << 33, 1 << 33], vec![1, 5], vec![1, 2, 3, 3]] {
            part.tensors.push(Tensor::new(DType::F32, Some(dims)));
        }
        let mut node = Node::new(op, &[0, 1], &[2]);
        node.attributes = attributes;
        of_node(&part, &node).units
    };
    let ratio = Attributes::new().with_int(Attr::SamplingRatio, 1 << 40);
    assert_eq!(roi(Op::RoiAlign, ratio), u64::MAX);
    let pooled = Attributes::new().with_ints(Attr::PooledShape, &[1 << 31, 1 << 31]);
    assert_eq!(roi(Op::MaxRoiPool, pooled), 18);
    let boxed = Counted {
        plain: u64::MAX,
        halves_given: 1,
        ..Counted::default()
    };
    assert_eq!(boxed.all(), u64::MAX);
}
