//! Ops that move elements.

use polychip_ops::{Attr, Attributes, DType, Op};

use crate::net::Net;

#[test]
fn views_transposes_and_slices() {
    let mut net = Net::new();
    let x = net.input(&[2, 3, 4, 5]);
    let shape = net.ints(&[6, 20]);
    let flat = net.plain(Op::Reshape, &[x, shape]);
    let turned = net.node(
        Op::Transpose,
        Attributes::new().with_ints(Attr::Perm, &[1, 0]),
        &[flat],
    );
    let (starts, ends, axes, steps) = (
        net.ints(&[15, 0]),
        net.ints(&[2, 6]),
        net.ints(&[0, 1]),
        net.ints(&[-3, 2]),
    );
    let cut = net.plain(Op::Slice, &[turned, starts, ends, axes, steps]);
    net.output(cut);
    let last = net.node(
        Op::Transpose,
        Attributes::new().with_ints(Attr::Perm, &[0, 2, 3, 1]),
        &[x],
    );
    net.output(last);
    net.output(flat);
    net.check();
}

#[test]
fn splits_of_bytes() {
    let mut net = Net::new();
    let x = net.input_of(DType::U8, &[3, 10]);
    let sizes = net.ints(&[3, 7]);
    let parts = net.nodes(
        Op::Split,
        Attributes::new().with_int(Attr::Axis, 1),
        &[Some(x), Some(sizes)],
        2,
    );
    for part in parts {
        net.output(part);
    }
    net.check();
}
