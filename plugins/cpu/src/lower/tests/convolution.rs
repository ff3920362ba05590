//! Convolutions with what is fused onto them, in both layouts.

use super::*;

#[test]
fn residual_block_lowers_to_four_steps() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 8, 9, 7]);
    let a = net.conv(x, 16, 3, 1, 1);
    let a = net.plain(Op::Relu, &[a]);
    let b = net.conv(a, 8, 1, 1, 1);
    let sum = net.plain(Op::Add, &[x, b]);
    let y = net.plain(Op::Relu, &[sum]);
    let pooled = net.plain(Op::GlobalAveragePool, &[y]);
    net.output(pooled);
    assert_eq!(net.check(1e-5), ["to channels last", "conv", "conv", "pool"]);
}

#[test]
fn residual_computed_later_is_added() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[2, 4, 6, 6]);
    let a = net.conv(x, 12, 3, 2, 1);
    let shortcut = net.conv(x, 12, 1, 2, 1);
    let sum = net.plain(Op::Add, &[a, shortcut]);
    let y = net.plain(Op::Relu, &[sum]);
    net.output(y);
    assert_eq!(
        net.check(1e-5),
        ["to channels last", "conv", "conv", "to row-major"]
    );
}

#[test]
fn residual_after_the_activation_is_fused() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 16, 5, 5]);
    let a = net.conv(x, 16, 3, 1, 1);
    let a = net.plain(Op::HardSwish, &[a]);
    let y = net.plain(Op::Add, &[a, x]);
    net.output(y);
    assert_eq!(net.check(1e-5), ["to channels last", "conv", "to row-major"]);
}

#[test]
fn intermediate_output_is_not_fused_away() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 3, 6, 5]);
    let a = net.conv(x, 5, 3, 1, 1);
    let b = net.plain(Op::Relu, &[a]);
    let c = net.plain(Op::Add, &[b, a]);
    net.output(a);
    net.output(c);
    net.output(b);
    net.check(1e-5);
}

#[test]
fn depthwise_grouped_dilated_and_one_or_three_dimensional_convolutions() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[2, 12, 9, 8]);
    let low = net.scalar(0.0);
    let high = net.scalar(6.0);
    let a = net.conv(x, 12, 3, 2, 12);
    let a = net.plain(Op::Clip, &[a, low, high]);
    let b = net.conv(a, 6, 1, 1, 3);
    net.output(b);
    let w = net.weights(&[4, 12, 2, 3]);
    let dilated = Attributes::new()
        .with_ints(Attr::Dilations, &[2, 3])
        .with_str(Attr::AutoPad, "SAME_UPPER");
    let c = net.node(Op::Conv, dilated, &[x, w]);
    net.output(c);
    net.check(1e-5);

    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 3, 11]);
    let w = net.weights(&[7, 3, 4]);
    let y = net.plain(Op::Conv, &[x, w]);
    net.output(y);
    let x = net.input(DType::F32, &[1, 2, 4, 5, 6]);
    let w = net.weights(&[3, 2, 3, 2, 2]);
    let y = net.node(
        Op::Conv,
        Attributes::new().with_ints(Attr::Strides, &[1, 2, 1]),
        &[x, w],
    );
    net.output(y);
    net.check(1e-5);
}

#[test]
fn ports_may_lie_channels_last() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 1, 6, 5]);
    let y = net.conv(x, 4, 3, 1, 1);
    let flat = net.plain(Op::GlobalMaxPool, &[y]);
    net.output(flat);
    // with one channel, or one pixel, both layouts are the same bytes
    let steps = net.check_with(1e-5, &[Layout::ChannelsLast, Layout::RowMajor]);
    assert_eq!(steps, ["conv", "pool"]);
}

#[test]
fn channels_last_persists_through_a_network() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 3, 8, 8]);
    let a = net.conv(x, 8, 3, 1, 1);
    let a = net.plain(Op::Sigmoid, &[a]);
    let sizes = net.ints(&[2, 6]);
    let parts = net.nodes(
        Op::Split,
        Attributes::new().with_int(Attr::Axis, 1),
        &[Some(a), Some(sizes)],
        2,
    );
    let scale = net.weights(&[6, 1, 1]);
    let b = net.plain(Op::Mul, &[parts[1], scale]);
    let b = net.plain(Op::Add, &[b, b]);
    let joined = net.node(
        Op::Concat,
        Attributes::new().with_int(Attr::Axis, 1),
        &[b, parts[0], a],
    );
    let scales = net.constant(
        &Boxed::from_f64s(
            polychip_reference::element(DType::F32),
            vec![4],
            &[1.0, 1.0, 2.0, 2.0],
        )
        .unwrap(),
    );
    let resize = Attributes::new()
        .with_str(Attr::Mode, "nearest")
        .with_str(Attr::CoordinateTransformationMode, "asymmetric")
        .with_str(Attr::NearestMode, "floor");
    let up = net.nodes(Op::Resize, resize, &[Some(joined), None, Some(scales)], 1)[0];
    let up2 = net.nodes(
        Op::Resize,
        Attributes::new().with_str(Attr::Mode, "linear"),
        &[Some(joined), None, Some(scales)],
        1,
    )[0];
    let up = net.plain(Op::Add, &[up, up2]);
    let axes = net.ints(&[2, 3]);
    let mean = net.node(
        Op::ReduceMean,
        Attributes::new().with_int(Attr::Keepdims, 0),
        &[up, axes],
    );
    net.output(mean);
    let soft = net.node(Op::Softmax, Attributes::new().with_int(Attr::Axis, 1), &[up]);
    let axes = net.ints(&[1]);
    let most = net.node(
        Op::ReduceMax,
        Attributes::new().with_int(Attr::Keepdims, 0),
        &[soft, axes],
    );
    net.output(most);
    let steps = net.check(1e-5);
    assert_eq!(
        steps.iter().filter(|&&name| name.starts_with("to ")).count(),
        1,
        "{steps:?}"
    );
}

#[test]
fn convolutions_write_into_the_concat_output() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[2, 3, 6, 5]);
    let a = net.conv(x, 4, 1, 1, 1);
    let a = net.plain(Op::Relu, &[a]);
    let b = net.conv(x, 7, 3, 1, 1);
    let c = net.conv(x, 5, 3, 1, 1);
    let d = net.plain(Op::Tanh, &[c]);
    let pooled = net.plain(Op::GlobalAveragePool, &[c]);
    let joined = net.node(
        Op::Concat,
        Attributes::new().with_int(Attr::Axis, 1),
        &[a, x, b, d],
    );
    net.output(joined);
    net.output(pooled);
    let steps = net.check(1e-5);
    assert_eq!(
        steps.iter().filter(|&&name| name == "concat").count(),
        2,
        "{steps:?}"
    );
}

#[test]
fn split_and_concat_share_one_image() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[2, 9, 6, 5]);
    let both = net.conv(x, 12, 1, 1, 1);
    let both = net.plain(Op::Relu, &[both]);
    let along = || Attributes::new().with_int(Attr::Axis, 1);
    let sizes = net.ints(&[6, 6]);
    let parts = net.nodes(Op::Split, along(), &[Some(both), Some(sizes)], 2);
    let inner = net.conv(parts[1], 6, 3, 1, 1);
    let inner = net.conv(inner, 6, 3, 1, 1);
    let inner = net.plain(Op::Add, &[parts[1], inner]);
    let outer = net.conv(inner, 6, 3, 1, 1);
    let scales = net.constant(
        &Boxed::from_f64s(
            polychip_reference::element(DType::F32),
            vec![4],
            &[1.0, 1.0, 2.0, 3.0],
        )
        .unwrap(),
    );
    let joined = net.node(Op::Concat, along(), &[parts[0], parts[1], inner, outer]);
    let y = net.conv(joined, 5, 1, 1, 1);
    let resize = Attributes::new()
        .with_str(Attr::Mode, "nearest")
        .with_str(Attr::CoordinateTransformationMode, "asymmetric")
        .with_str(Attr::NearestMode, "floor");
    let up = net.nodes(Op::Resize, resize, &[Some(y), None, Some(scales)], 1)[0];
    let other = net.input(DType::F32, &[2, 3, 12, 15]);
    let other = net.conv(other, 4, 3, 1, 1);
    let joined = net.node(Op::Concat, along(), &[up, other]);
    // a second reader finds it in its place
    let other = net.plain(Op::Tanh, &[other]);
    net.output(joined);
    net.output(other);
    let steps = net.check(1e-5);
    assert!(
        !steps.iter().any(|&name| name == "split" || name == "concat"),
        "{steps:?}"
    );
}

#[test]
fn concat_of_a_reordered_split_copies() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 8, 4, 5]);
    let x = net.conv(x, 10, 1, 1, 1);
    let along = || Attributes::new().with_int(Attr::Axis, 1);
    let sizes = net.ints(&[4, 6]);
    let parts = net.nodes(Op::Split, along(), &[Some(x), Some(sizes)], 2);
    let a = net.node(Op::Concat, along(), &[parts[1], parts[0], parts[1]]);
    let pooled = net.plain(Op::GlobalMaxPool, &[parts[0]]);
    let b = net.plain(Op::Add, &[parts[1], parts[1]]);
    let b = net.node(Op::Concat, along(), &[parts[0], b]);
    net.output(a);
    net.output(b);
    net.output(pooled);
    net.check(1e-6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn convolutions_of_odd_shapes(
        (n, groups, per_group, out_per_group) in (1usize..3, 1usize..4, 1usize..6, 1usize..20),
        (h, w, kh, kw) in (3usize..9, 3usize..12, 1usize..4, 1usize..4),
        (stride, pad) in (1i64..3, 0i64..2),
    ) {
        let mut net = Net::default();
        let x = net.input(DType::F32, &[n, groups * per_group, h, w]);
        let weights = net.weights(&[groups * out_per_group, per_group, kh, kw]);
        let attributes = Attributes::new()
            .with_int(Attr::Group, groups as i64)
            .with_ints(Attr::Strides, &[stride, 1])
            .with_ints(Attr::Pads, &[pad, 0, 0, pad]);
        let y = net.node(Op::Conv, attributes, &[x, weights]);
        let y = net.plain(Op::LeakyRelu, &[y]);
        net.output(y);
        net.check(1e-5);
    }
}

#[test]
fn transposed_convolutions_of_every_geometry() {
    use Attr::{Dilations, OutputPadding, OutputShape, Pads, Strides};
    /// Image, weights, groups and attributes.
    type Case = (
        &'static [usize],
        &'static [usize],
        i64,
        &'static [(Attr, &'static [i64])],
    );
    let cases: &[Case] = &[
        (&[1, 3, 5, 4], &[3, 2, 2, 2], 1, &[(Strides, &[2, 2])]),
        (
            &[2, 8, 6, 7],
            &[8, 8, 4, 4],
            1,
            &[(Strides, &[2, 2]), (Pads, &[1, 1, 1, 1])],
        ),
        (
            &[1, 4, 5, 5],
            &[4, 3, 3, 3],
            1,
            &[
                (Strides, &[2, 2]),
                (Pads, &[1, 1, 1, 1]),
                (OutputPadding, &[1, 1]),
            ],
        ),
        (&[1, 4, 5, 6], &[4, 3, 3, 3], 1, &[]),
        (&[1, 4, 5, 6], &[4, 3, 3, 3], 1, &[(Pads, &[1, 0, 2, 1])]),
        (
            &[1, 6, 5, 6],
            &[6, 2, 3, 2],
            2,
            &[(Strides, &[1, 3]), (Dilations, &[2, 2])],
        ),
        (
            &[1, 6, 4, 3],
            &[6, 2, 3, 4],
            3,
            &[(Strides, &[3, 2]), (Dilations, &[2, 3])],
        ),
        // strides wider than the kernel leave gaps; pads deeper than a phase reaches
        (&[1, 2, 3, 3], &[2, 2, 2, 1], 1, &[(Strides, &[4, 3])]),
        (
            &[1, 2, 6, 6],
            &[2, 2, 3, 3],
            1,
            &[(Strides, &[2, 2]), (Pads, &[2, 2, 2, 2])],
        ),
        (
            &[1, 2, 9, 9],
            &[2, 3, 2, 2],
            1,
            &[(Strides, &[2, 2]), (Pads, &[5, 3, 4, 2])],
        ),
        (&[1, 4, 5, 5], &[4, 1, 3, 3], 4, &[(Strides, &[2, 2])]),
        (
            &[1, 3, 5, 4],
            &[3, 2, 3, 3],
            1,
            &[(Strides, &[2, 2]), (OutputShape, &[10, 8])],
        ),
        (
            &[1, 3, 5, 4],
            &[3, 2, 3, 3],
            1,
            &[(Strides, &[2, 2]), (OutputShape, &[14, 13])],
        ),
        (&[2, 5, 11], &[5, 3, 16], 1, &[(Strides, &[8]), (Pads, &[4, 4])]),
        (&[1, 2, 3, 4, 3], &[2, 3, 2, 3, 2], 1, &[(Strides, &[2, 1, 3])]),
    ];
    for (image, weights, groups, lists) in cases {
        for with_bias in [false, true] {
            for dtype in [DType::F32, DType::F16] {
                let mut net = Net::default();
                let x = net.input(dtype, image);
                let w = net.boxed(dtype, weights);
                let w = net.constant(&w);
                let mut inputs = vec![x, w];
                if with_bias {
                    let bias = net.boxed(dtype, &[weights[1] * *groups as usize]);
                    inputs.push(net.constant(&bias));
                }
                let mut attributes = Attributes::new().with_int(Attr::Group, *groups);
                for (attr, values) in *lists {
                    attributes = attributes.with_ints(*attr, values);
                }
                let y = net.node(Op::ConvTranspose, attributes, &inputs);
                // read in the layout of kernels, and in that of a port
                let z = net.plain(Op::Relu, &[y]);
                net.output(z);
                net.output(y);
                let steps = net.check(if dtype == DType::F32 { 1e-5 } else { 3e-3 });
                let is_fast = steps.contains(&"conv") || steps.contains(&"add columns");
                assert!(is_fast, "{image:?} {weights:?}: {steps:?}");
            }
        }
    }
}

#[test]
fn transposed_convolutions_of_few_channels_are_products_of_taps() {
    for (image, weights, groups, pads, stride, step) in [
        ([1, 12, 41, 41], [12, 2, 1, 1], 1, [1, 1, 1, 1], 2, "add columns"),
        ([2, 24, 40, 36], [24, 1, 2, 2], 2, [0, 1, 1, 0], 3, "add columns"),
        // short rows, of many taps each
        ([1, 6, 5, 5], [6, 19, 7, 7], 1, [1, 1, 1, 1], 2, "conv"),
        // one phase, which needs no copies
        ([1, 32, 14, 14], [32, 16, 3, 3], 1, [1, 1, 1, 1], 1, "conv"),
    ] {
        let mut net = Net::default();
        let x = net.input(DType::F32, &image);
        let (w, b) = (net.weights(&weights), net.weights(&[weights[1] * groups]));
        let attributes = Attributes::new()
            .with_int(Attr::Group, groups as i64)
            .with_ints(Attr::Strides, &[stride, stride])
            .with_ints(Attr::Pads, &pads);
        let y = net.node(Op::ConvTranspose, attributes, &[x, w, b]);
        net.output(y);
        let steps = net.check(1e-5);
        assert!(steps.contains(&step), "{image:?} {weights:?}: {steps:?}");
    }
}

/// One pixel has a small result whatever the strides are, whose product no word holds.
#[test]
fn huge_transposed_convolution_falls_to_the_reference() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 2, 1, 1, 1]);
    let w = net.weights(&[2, 3, 3, 3, 3]);
    let strides = Attributes::new().with_ints(Attr::Strides, &[1 << 24; 3]);
    let y = net.node(Op::ConvTranspose, strides, &[x, w]);
    net.output(y);
    let steps = net.check(1e-5);
    assert!(steps.contains(&"ConvTranspose"), "{steps:?}");
}

#[test]
fn computed_weights_are_packed_in_each_run() {
    for groups in [1usize, 2, 6] {
        let mut net = Net::default();
        let x = net.input(DType::F32, &[2, 6, 7, 5]);
        let w = net.input(DType::F32, &[12, 6 / groups, 3, 3]);
        let b = net.input(DType::F32, &[12]);
        let attributes = || {
            Attributes::new()
                .with_int(Attr::Group, groups as i64)
                .with_ints(Attr::Pads, &[1, 0, 1, 1])
        };
        let with = net.node(Op::Conv, attributes(), &[x, w, b]);
        let y = net.plain(Op::Relu, &[with]);
        net.output(y);
        let y = net.node(Op::Conv, attributes(), &[x, w]);
        net.output(y);
        let names = net.check(1e-5);
        assert_eq!(
            names.iter().filter(|&&name| name == "pack").count(),
            2,
            "{names:?}"
        );
    }
}
