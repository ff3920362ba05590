//! Ops that move elements.

use polychip_ops::{Attr, Attributes, DType, Op};

use crate::net::{EXACT, Judge, Net};
use crate::{Test, tests};

/// What is judged here.
pub(crate) const TESTS: &[Test] = &tests![
    views_transposes_and_slices,
    splits_of_bytes,
    concats_pads_tiles_and_gathers,
    images_resized_and_blocks_moved,
    reshape_before_a_channels_last_port,
];

fn views_transposes_and_slices() {
    let mut net = Net::new();
    let x = net.input(&[2, 3, 4, 5]);
    let shape = net.ints(&[6, 20]);
    let flat = net.plain(Op::Reshape, &[x, shape]);
    let transposed = net.node(
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
    let cut = net.plain(Op::Slice, &[transposed, starts, ends, axes, steps]);
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

fn concats_pads_tiles_and_gathers() {
    let mut net = Net::new();
    let (x, y) = (net.input(&[2, 3, 5]), net.input(&[2, 1, 5]));
    let joined = net.node(Op::Concat, Attributes::new().with_int(Attr::Axis, 1), &[x, y, x]);
    net.output(joined);
    let pads = net.ints(&[0, 1, 2, 1, 0, 1]);
    let value = net.floats(&[], &[-1.5]);
    let padded = net.plain(Op::Pad, &[x, pads, value]);
    net.output(padded);
    let shape = net.ints(&[4, 2, 3, 5]);
    let expanded = net.plain(Op::Expand, &[x, shape]);
    net.output(expanded);
    let times = net.ints(&[1, 2, 3]);
    let tiled = net.plain(Op::Tile, &[y, times]);
    net.output(tiled);
    let places = net.ints(&[2, 0, -1]);
    let picked = net.node(
        Op::Gather,
        Attributes::new().with_int(Attr::Axis, 1),
        &[x, places],
    );
    net.output(picked);
    let axis = net.ints(&[1]);
    let sums = net.plain(Op::CumSum, &[x, axis]);
    net.output(sums);
    let upper = net.plain(Op::Trilu, &[x]);
    net.output(upper);
    net.check();
}

fn images_resized_and_blocks_moved() {
    let mut net = Net::new();
    let x = net.input(&[1, 8, 4, 5]);
    let none = net.floats(&[0], &[]);
    let scales = net.floats(&[4], &[1.0, 1.0, 2.0, 2.0]);
    let big = net.node(
        Op::Resize,
        Attributes::new()
            .with_str(Attr::Mode, "nearest")
            .with_str(Attr::CoordinateTransformationMode, "asymmetric")
            .with_str(Attr::NearestMode, "floor"),
        &[x, none, scales],
    );
    net.output(big);
    let blocks = net.node(
        Op::DepthToSpace,
        Attributes::new().with_int(Attr::Blocksize, 2),
        &[x],
    );
    net.output(blocks);
    net.check();
}

fn reshape_before_a_channels_last_port() {
    let mut net = Net::new();
    let (x, w) = (net.input(&[1, 6]), net.weights(&[6, 48]));
    let product = net.plain(Op::MatMul, &[x, w]);
    let shape = net.ints(&[1, 3, 4, 4]);
    let out = net.plain(Op::Reshape, &[product, shape]);
    net.output(out);
    let x = net.input(&[1, 2, 8, 3]);
    let relu = net.plain(Op::Relu, &[x]);
    let out = net.plain(Op::Reshape, &[relu, shape]);
    net.output(out);
    net.check_as(Judge {
        channels_last: true,
        ..EXACT
    });
}
