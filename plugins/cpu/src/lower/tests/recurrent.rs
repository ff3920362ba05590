//! Recurrent layers.

use super::*;

/// A layer with random weights: which of bias, initial states and outputs there are is told by the bits of `given`.
fn layer(op: Op, dtype: DType, sizes: [usize; 4], attributes: &Attributes, given: u32) -> Net {
    let [steps, batch, input, hidden] = sizes;
    let gates = match op {
        Op::LSTM => 4,
        Op::GRU => 3,
        _ => 1,
    };
    let directions = match attributes.str(Attr::Direction) {
        Some("bidirectional") => 2,
        _ => 1,
    };
    let batch_first = attributes.int(Attr::Layout) == Some(1);
    let mut net = Net::default();
    let x = if batch_first {
        net.input(dtype, &[batch, steps, input])
    } else {
        net.input(dtype, &[steps, batch, input])
    };
    let mut constant = |shape: &[usize]| {
        let value = net.boxed(dtype, shape);
        net.constant(&value)
    };
    let w = constant(&[directions, gates * hidden, input]);
    let r = constant(&[directions, gates * hidden, hidden]);
    let bias = (given & 1 != 0).then(|| constant(&[directions, 2 * gates * hidden]));
    let state = if batch_first {
        [batch, directions, hidden]
    } else {
        [directions, batch, hidden]
    };
    let h = (given & 2 != 0).then(|| net.input(dtype, &state));
    let c = (given & 2 != 0 && op == Op::LSTM).then(|| net.input(dtype, &state));
    let attributes = attributes.clone().with_int(Attr::HiddenSize, hidden as i64);
    let inputs = [Some(x), Some(w), Some(r), bias, None, h, c];
    let count = if op == Op::LSTM { 7 } else { 6 };
    let outputs = net.nodes(
        op,
        attributes,
        &inputs[..count],
        if op == Op::LSTM { 3 } else { 2 },
    );
    for (i, &output) in outputs.iter().enumerate() {
        if given & (4 << i) != 0 {
            net.output(output);
        }
    }
    net
}

#[test]
fn layers_of_every_cell_and_order() {
    let plain = Attributes::new;
    let linear = plain().with_int(Attr::LinearBeforeReset, 1);
    for (op, own) in [
        (Op::LSTM, plain()),
        (Op::GRU, plain()),
        (Op::GRU, linear),
        (Op::RNN, plain()),
    ] {
        for direction in ["forward", "reverse", "bidirectional"] {
            for layout in [0, 1] {
                for (given, sizes) in [
                    (4, [3, 1, 5, 7]),
                    (31, [4, 3, 2, 6]),
                    (24, [1, 2, 3, 1]),
                    (28, [9, 1, 1, 17]),
                ] {
                    let attributes = own
                        .clone()
                        .with_str(Attr::Direction, direction)
                        .with_int(Attr::Layout, layout);
                    let net = layer(op, DType::F32, sizes, &attributes, given);
                    let steps = net.check(1e-5);
                    let kernel = layout == 0 || direction != "bidirectional";
                    assert_eq!(
                        steps.contains(&"recurrent"),
                        kernel,
                        "{op:?} {direction} {layout}: {steps:?}"
                    );
                }
            }
        }
        let net = layer(op, DType::F16, [3, 2, 5, 6], &own, 31);
        assert!(net.check(4e-3).contains(&"recurrent"));
    }
}

#[test]
fn gate_functions_follow_the_node_or_fall_to_the_reference() {
    let named = |names: &[&str]| {
        let names = names.iter().map(|&name| name.into()).collect();
        Attributes::new().with(Attr::Activations, AttrValue::Strings(names))
    };
    let net = layer(
        Op::LSTM,
        DType::F32,
        [3, 2, 4, 5],
        &named(&["Sigmoid", "Relu", "Softsign"]),
        31,
    );
    assert!(net.check(1e-5).contains(&"recurrent"));
    let net = layer(Op::RNN, DType::F32, [3, 2, 4, 5], &named(&["Relu"]), 31);
    assert!(net.check(1e-5).contains(&"recurrent"));
    let clipped = Attributes::new().with_float(Attr::Clip, 0.5);
    let net = layer(Op::GRU, DType::F32, [3, 2, 4, 5], &clipped, 31);
    assert!(net.check(1e-5).contains(&"GRU"));
}

/// Lengths that only a run knows, and those that a model states; of all cells, both ways.
#[test]
fn sequences_end_at_their_lengths() {
    for op in [Op::LSTM, Op::GRU, Op::RNN] {
        for direction in ["forward", "reverse", "bidirectional"] {
            for constant in [false, true] {
                let attributes = Attributes::new().with_str(Attr::Direction, direction);
                let mut net = layer(op, DType::F32, [5, 3, 2, 4], &attributes, 31);
                let lengths =
                    Boxed::from_i128s(polychip_reference::element(DType::I32), vec![3], &[2, 0, 5]).unwrap();
                let t = if constant {
                    net.constant(&lengths)
                } else {
                    net.feed(lengths)
                };
                let node = net.part.nodes.last_mut().unwrap();
                node.inputs[4] = Some(t);
                assert!(net.check(1e-5).contains(&"recurrent"));
            }
        }
    }
}
