//! Element-wise nodes and chains of them.

use polychip_ops::{Attr, Attributes, DType, Op};

use crate::net::Net;
use crate::{Test, tests};

/// What is judged here.
pub(crate) const TESTS: &[Test] = &tests![
    chains_broadcast_and_leave_once,
    tensor_read_outside_is_kept,
    integers_bools_and_casts,
    narrow_integers_wrap_inside_a_chain,
    activations_with_attributes,
];

fn chains_broadcast_and_leave_once() {
    let mut net = Net::new();
    let (x, b) = (net.input(&[2, 3, 5, 7]), net.weights(&[3, 1, 1]));
    let s = net.input(&[2, 1, 5, 1]);
    let sum = net.plain(Op::Add, &[x, b]);
    let gate = net.plain(Op::Sigmoid, &[sum]);
    let silu = net.plain(Op::Mul, &[sum, gate]);
    let scaled = net.plain(Op::Mul, &[silu, s]);
    let half = net.floats(&[], &[0.5]);
    let out = net.plain(Op::Sub, &[scaled, half]);
    net.output(out);
    net.check();
}

fn tensor_read_outside_is_kept() {
    let mut net = Net::new();
    let x = net.input(&[3, 17]);
    let relu = net.plain(Op::Relu, &[x]);
    let tanh = net.plain(Op::Tanh, &[relu]);
    let exp = net.plain(Op::Exp, &[relu]);
    let sum = net.plain(Op::Add, &[tanh, exp]);
    net.output(relu);
    net.output(sum);
    net.check();
}

fn integers_bools_and_casts() {
    let mut net = Net::new();
    let (a, b) = (net.input_of(DType::I64, &[5, 3]), net.input_of(DType::I64, &[3]));
    let sum = net.plain(Op::Mul, &[a, b]);
    let less = net.plain(Op::Less, &[a, b]);
    let not = net.plain(Op::Not, &[less]);
    let picked = net.plain(Op::Where, &[not, sum, a]);
    let float = net.node(Op::Cast, Attributes::new().with_int(Attr::To, 1), &[picked]);
    net.output(picked);
    net.output(less);
    net.output(float);
    net.check();
}

fn narrow_integers_wrap_inside_a_chain() {
    let mut net = Net::new();
    let bytes = net.fed(DType::U8, &[4], vec![0, 1, 200, 255]);
    let limit = net.fed(DType::U8, &[4], vec![255, 254, 55, 1]);
    let not = net.plain(Op::BitwiseNot, &[bytes]);
    let equal = net.plain(Op::Equal, &[not, limit]);
    net.output(equal);
    let sum = net.plain(Op::Add, &[bytes, bytes]);
    let two = net.fed(DType::U8, &[], vec![2]);
    let half = net.plain(Op::Div, &[sum, two]);
    net.output(half);
    let signed = net.fed(DType::I8, &[4], vec![100, 0x9c, 0x80, 5]);
    let sum = net.plain(Op::Add, &[signed, signed]);
    let relu = net.plain(Op::Relu, &[sum]);
    net.output(relu);
    net.check();
}

fn activations_with_attributes() {
    let mut net = Net::new();
    let x = net.input(&[4, 9]);
    let alpha = |alpha| Attributes::new().with_float(Attr::Alpha, alpha);
    let mut last = Vec::new();
    for (op, attributes) in [
        (Op::LeakyRelu, alpha(0.1)),
        (Op::Elu, alpha(0.7)),
        (Op::HardSigmoid, Attributes::new()),
        (Op::HardSwish, Attributes::new()),
        (Op::Selu, Attributes::new()),
        (Op::Gelu, Attributes::new()),
        (Op::Softplus, Attributes::new()),
        (Op::Shrink, Attributes::new()),
    ] {
        last.push(net.node(op, attributes, &[x]));
    }
    let (low, high) = (net.floats(&[], &[-0.25]), net.floats(&[], &[0.5]));
    last.push(net.plain(Op::Clip, &[x, low, high]));
    for tensor in last {
        net.output(tensor);
    }
    net.check();
}
