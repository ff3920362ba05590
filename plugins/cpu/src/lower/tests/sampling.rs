//! Points between pixels, places of extremes, running totals, plain products, casts of bits.

use super::*;

/// The names of the steps, none of which the reference may compute.
fn check(net: &Net, tolerance: f64) -> Vec<&'static str> {
    let pool = ThreadPool::new(2);
    let ports = net.part.inputs.len() + net.part.outputs.len();
    let program = net.lower(&vec![Layout::RowMajor; ports], false, &pool);
    let slow: Vec<_> = program
        .steps
        .iter()
        .filter(|step| step.work.class.is_reference())
        .collect();
    assert!(slow.is_empty(), "{slow:?}");
    net.check(tolerance)
}

fn floats(shape: &[usize], values: &[f64]) -> Boxed {
    Boxed::from_f64s(polychip_reference::element(DType::F32), shape.to_vec(), values).unwrap()
}

#[test]
fn grids_regions_and_offsets() {
    for mode in ["nearest", "linear", "cubic"] {
        for padding in ["zeros", "border", "reflection"] {
            let mut net = Net::default();
            let x = net.input(DType::F32, &[2, 3, 5, 7]);
            let grid = net.input(DType::F32, &[2, 4, 6, 2]);
            let attributes = Attributes::new()
                .with_str(Attr::Mode, mode)
                .with_str(Attr::PaddingMode, padding);
            let y = net.node(Op::GridSample, attributes, &[x, grid]);
            net.output(y);
            check(&net, 1e-5);
        }
    }
    let mut net = Net::default();
    let x = net.input(DType::F32, &[2, 3, 8, 9]);
    let boxes = net.feed(floats(
        &[3, 4],
        &[0.0, 1.0, 6.0, 7.0, 2.0, 2.0, 3.0, 8.5, -1.0, 0.0, 12.0, 4.0],
    ));
    let images = net.feed(Boxed::from_i64s(vec![3], vec![1, 0, 1]).unwrap());
    let attributes = Attributes::new()
        .with_int(Attr::OutputHeight, 3)
        .with_int(Attr::OutputWidth, 2)
        .with_int(Attr::SamplingRatio, 2);
    let y = net.node(Op::RoiAlign, attributes, &[x, boxes, images]);
    net.output(y);
    check(&net, 1e-5);
    let mut net = Net::default();
    let x = net.input(DType::F32, &[2, 3, 8, 9]);
    let regions = net.feed(floats(
        &[3, 5],
        &[
            1.0, 0.0, 1.0, 6.0, 7.0, 0.0, 2.0, 2.0, 3.0, 8.5, 1.0, -1.0, 0.0, 12.0, 4.0,
        ],
    ));
    let attributes = Attributes::new().with_ints(Attr::PooledShape, &[3, 2]);
    let y = net.node(Op::MaxRoiPool, attributes, &[x, regions]);
    net.output(y);
    check(&net, 1e-5);
    for (group, offset_group, masked) in [(1, 1, false), (2, 1, true), (1, 2, true)] {
        let mut net = Net::default();
        let x = net.input(DType::F32, &[2, 4, 6, 7]);
        let w = net.weights(&[6, 4 / group, 3, 3]);
        let offset = net.input(DType::F32, &[2, offset_group * 18, 6, 7]);
        let bias = net.weights(&[6]);
        let mask = net.input(DType::F32, &[2, offset_group * 9, 6, 7]);
        let attributes = Attributes::new()
            .with_ints(Attr::Pads, &[1, 1, 1, 1])
            .with_int(Attr::Group, group as i64)
            .with_int(Attr::OffsetGroup, offset_group as i64);
        let inputs = [Some(x), Some(w), Some(offset), Some(bias), masked.then_some(mask)];
        let y = net.nodes(Op::DeformConv, attributes, &inputs, 1)[0];
        net.output(y);
        check(&net, 1e-5);
    }
}

#[test]
fn affine_grids_and_columns() {
    for align in [0, 1] {
        let mut net = Net::default();
        let theta = net.input(DType::F32, &[2, 2, 3]);
        let size = net.ints(&[2, 3, 5, 6]);
        let attributes = Attributes::new().with_int(Attr::AlignCorners, align);
        let y = net.node(Op::AffineGrid, attributes, &[theta, size]);
        net.output(y);
        check(&net, 1e-5);
    }
    let mut net = Net::default();
    let x = net.input(DType::F32, &[2, 3 * 6, 12]);
    let (image, block) = (net.ints(&[5, 5]), net.ints(&[2, 3]));
    let y = net.plain(Op::Col2Im, &[x, image, block]);
    net.output(y);
    check(&net, 1e-5);
}

#[test]
fn argreduce_one_hot_and_cumulative_ops() {
    for dtype in [DType::F32, DType::I64, DType::I32, DType::F64] {
        for axis in 0..3 {
            for (op, last) in [(Op::ArgMax, 0), (Op::ArgMin, 1)] {
                let mut net = Net::default();
                let x = net.input(dtype, &[3, 37, 5]);
                let attributes = Attributes::new()
                    .with_int(Attr::Axis, axis)
                    .with_int(Attr::SelectLastIndex, last);
                let y = net.node(op, attributes, &[x]);
                net.output(y);
                check(&net, 0.0);
            }
            for (op, exclusive, reverse) in [(Op::CumSum, 0, 1), (Op::CumSum, 1, 0), (Op::CumProd, 0, 0)] {
                let mut net = Net::default();
                let x = net.input(dtype, &[3, 4, 5]);
                let along = net.constant(&Boxed::from_i64s(vec![], vec![axis]).unwrap());
                let attributes = Attributes::new()
                    .with_int(Attr::Exclusive, exclusive)
                    .with_int(Attr::Reverse, reverse);
                let y = net.node(op, attributes, &[x, along]);
                net.output(y);
                check(&net, 1e-6);
            }
        }
    }
    for axis in [0, 1, 2] {
        let mut net = Net::default();
        let x = net.input(DType::F32, &[3, 7, 5]);
        let y = net.node(Op::Hardmax, Attributes::new().with_int(Attr::Axis, axis), &[x]);
        net.output(y);
        check(&net, 0.0);
        let mut net = Net::default();
        let indices = net.feed(Boxed::from_i64s(vec![2, 3], vec![0, -1, 3, 9, 4, -6]).unwrap());
        let depth = net.constant(&Boxed::from_i64s(vec![], vec![5]).unwrap());
        let values = net.input(DType::F32, &[2]);
        let attributes = Attributes::new().with_int(Attr::Axis, axis);
        let y = net.node(Op::OneHot, attributes, &[indices, depth, values]);
        net.output(y);
        check(&net, 0.0);
    }
    for (dtype, k) in [
        (DType::F32, 0),
        (DType::I64, 2),
        (DType::F64, -1),
        (DType::F32, i64::MAX),
    ] {
        let mut net = Net::default();
        let x = net.input(dtype, &[4, 6]);
        let y = net.node(Op::EyeLike, Attributes::new().with_int(Attr::K, k), &[x]);
        net.output(y);
        check(&net, 0.0);
    }
}

#[test]
fn statistics_with_passes_around_them() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[2, 5, 4, 7]);
    let y = net.plain(Op::MeanVarianceNormalization, &[x]);
    net.output(y);
    check(&net, 1e-5);
    for p in [1, 2] {
        let mut net = Net::default();
        let x = net.feed(floats(&[2, 3], &[3.0, -4.0, 0.5, 0.0, 0.0, 0.0]));
        let y = net.node(Op::LpNormalization, Attributes::new().with_int(Attr::P, p), &[x]);
        net.output(y);
        check(&net, 1e-6);
    }
    let infinite = f64::INFINITY;
    for keeps in [0, 1] {
        let mut net = Net::default();
        let x = net.feed(floats(
            &[3, 2, 2],
            &[
                1.0, 2.0, 3.0, 90.0, infinite, 1.0, 2.0, -infinite, -infinite, -infinite, -infinite,
                -infinite,
            ],
        ));
        let axes = net.ints(&[2]);
        let attributes = Attributes::new().with_int(Attr::Keepdims, keeps);
        let y = net.node(Op::ReduceLogSumExp, attributes, &[x, axes]);
        net.output(y);
        check(&net, 1e-6);
    }
    for (op, dtype) in [
        (Op::ReduceSum, DType::I64),
        (Op::ReduceMax, DType::I32),
        (Op::ReduceMin, DType::I64),
        (Op::ReduceProd, DType::I64),
    ] {
        for axes in [&[0][..], &[1, 2], &[-1]] {
            let mut net = Net::default();
            let x = net.input(dtype, &[3, 4, 5]);
            let axes = net.ints(axes);
            let y = net.plain(op, &[x, axes]);
            net.output(y);
            check(&net, 0.0);
        }
    }
}

#[test]
fn products_of_integers_and_f64() {
    for dtype in [DType::I32, DType::I64, DType::U32, DType::F64] {
        for (a, b) in [
            (&[5, 7][..], &[7, 9][..]),
            (&[2, 3, 4, 6], &[3, 6, 5]),
            (&[7], &[7, 3]),
            (&[2, 5, 7], &[7]),
        ] {
            let mut net = Net::default();
            let (a, b) = (net.input(dtype, a), net.input(dtype, b));
            let y = net.plain(Op::MatMul, &[a, b]);
            net.output(y);
            check(&net, 1e-12);
        }
    }
    for (left, right) in [
        (DType::U8, DType::U8),
        (DType::I8, DType::U8),
        (DType::U8, DType::I8),
    ] {
        for zeros in 0..3 {
            let mut net = Net::default();
            let (a, b) = (net.input(left, &[2, 5, 7]), net.input(right, &[7, 40]));
            let (za, zb) = (net.input(left, &[]), net.input(right, &[]));
            let inputs = [
                Some(a),
                Some(b),
                (zeros > 0).then_some(za),
                (zeros > 1).then_some(zb),
            ];
            let y = net.nodes(Op::MatMulInteger, Attributes::new(), &inputs, 1)[0];
            net.output(y);
            check(&net, 0.0);
        }
    }
}

#[test]
fn bits_tests_and_blocks() {
    let values = [
        0.0,
        -0.0,
        f64::NAN,
        f64::INFINITY,
        -f64::INFINITY,
        1.0,
        1e-40,
        -3.5,
    ];
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        for (op, above, below) in [
            (Op::IsNaN, 1, 1),
            (Op::IsInf, 1, 0),
            (Op::IsInf, 0, 1),
            (Op::IsInf, 1, 1),
        ] {
            let mut net = Net::default();
            let element = polychip_reference::element(dtype);
            let x = net.feed(Boxed::from_f64s(element, vec![8], &values).unwrap());
            let attributes = match op {
                Op::IsInf => Attributes::new()
                    .with_int(Attr::DetectPositive, above)
                    .with_int(Attr::DetectNegative, below),
                _ => Attributes::new(),
            };
            let y = net.node(op, attributes, &[x]);
            net.output(y);
            check(&net, 0.0);
        }
    }
    let mut net = Net::default();
    let x = net.input(DType::F32, &[3, 5]);
    let y = net.node(Op::BitCast, Attributes::new().with_int(Attr::To, 6), &[x]);
    let like = net.input(DType::I64, &[1]);
    let z = net.plain(Op::CastLike, &[x, like]);
    net.output(y);
    net.output(z);
    check(&net, 0.0);
    for (shape, block, of) in [
        (&[6, 9][..], 2, &[3, 9][..]),
        (&[6, 9], 0, &[6]),
        (&[6, 9], 0, &[]),
    ] {
        for constant in [false, true] {
            let mut net = Net::default();
            let positive: Vec<f64> = (0..of.iter().product::<usize>())
                .map(|i| 0.01 + i as f64 * 0.003)
                .collect();
            let scale = floats(of, &positive);
            let scale = if constant {
                net.constant(&scale)
            } else {
                net.feed(scale)
            };
            let zero = net.input(DType::I8, of);
            let attributes = Attributes::new()
                .with_int(Attr::Axis, 0)
                .with_int(Attr::BlockSize, block);
            let x = net.input(DType::F32, shape);
            let codes = net.node(Op::QuantizeLinear, attributes.clone(), &[x, scale, zero]);
            let y = net.node(Op::DequantizeLinear, attributes, &[codes, scale, zero]);
            net.output(codes);
            net.output(y);
            check(&net, 1e-6);
        }
    }
}

#[test]
fn pairs_rotate_by_their_positions() {
    for heads_inside in [false, true] {
        let mut net = Net::default();
        let x = if heads_inside {
            net.input(DType::F32, &[2, 5, 24])
        } else {
            net.input(DType::F32, &[2, 3, 5, 8])
        };
        let (cosines, sines) = (net.weights(&[11, 4]), net.weights(&[11, 4]));
        let positions = net.feed(Boxed::from_i64s(vec![2, 5], vec![0, 3, 1, 10, 2, 5, 6, 7, 8, 9]).unwrap());
        let attributes = Attributes::new().with_int(Attr::NumHeads, if heads_inside { 3 } else { 0 });
        let y = net.node(Op::RotaryEmbedding, attributes, &[x, cosines, sines, positions]);
        net.output(y);
        check(&net, 1e-6);
    }
}

#[test]
fn tensor_scatter_writes_rows_at_indices() {
    for (mode, starts) in [("linear", [1, 3]), ("circular", [4, -2])] {
        for given in [false, true] {
            let mut net = Net::default();
            let (cache, update) = (
                net.input(DType::F16, &[2, 3, 5, 4]),
                net.input(DType::F16, &[2, 3, 2, 4]),
            );
            let at = net.feed(Boxed::from_i64s(vec![2], starts.to_vec()).unwrap());
            let inputs = [Some(cache), Some(update), given.then_some(at)];
            let y = net.nodes(
                Op::TensorScatter,
                Attributes::new().with_str(Attr::Mode, mode),
                &inputs,
                1,
            )[0];
            net.output(y);
            check(&net, 0.0);
        }
    }
}

#[test]
fn images_of_other_sizes() {
    let sizes = |net: &mut Net, dtype, mode, coordinates, scales: &[f64], antialias| {
        let x = net.input(dtype, &[2, 3, 5, 6]);
        let scales = net.constant(&floats(&[4], scales));
        let attributes = Attributes::new()
            .with_str(Attr::Mode, mode)
            .with_str(Attr::NearestMode, "floor")
            .with_int(Attr::Antialias, antialias)
            .with_str(Attr::CoordinateTransformationMode, coordinates);
        let y = net.nodes(Op::Resize, attributes, &[Some(x), None, Some(scales)], 1)[0];
        net.output(y);
    };
    for dtype in [DType::F32, DType::U8, DType::I64] {
        let mut net = Net::default();
        sizes(&mut net, dtype, "nearest", "asymmetric", &[1.0, 1.0, 2.0, 3.0], 0);
        check(&net, 0.0);
    }
    for mode in ["linear", "cubic"] {
        for coordinates in ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"] {
            for (scales, antialias) in [([1.0, 1.0, 1.7, 0.6], 0), ([1.0, 1.0, 0.5, 0.4], 1)] {
                let mut net = Net::default();
                sizes(&mut net, DType::F32, mode, coordinates, &scales, antialias);
                check(&net, 1e-5);
            }
        }
    }
}

#[test]
fn max_pool_of_integers_and_indices() {
    for (dtype, outputs) in [(DType::U8, 1), (DType::I8, 1), (DType::F32, 2), (DType::U8, 2)] {
        for (strides, pads, ceil) in [
            ([2, 2], [0; 4], 0),
            ([2, 1], [1, 0, 1, 1], 1),
            ([3, 2], [1, 1, 1, 1], 0),
        ] {
            let mut net = Net::default();
            let x = net.input(dtype, &[2, 3, 7, 9]);
            let attributes = Attributes::new()
                .with_ints(Attr::KernelShape, &[3, 2])
                .with_ints(Attr::Strides, &strides)
                .with_ints(Attr::Pads, &pads)
                .with_int(Attr::CeilMode, ceil);
            for y in net.nodes(Op::MaxPool, attributes, &[Some(x)], outputs) {
                net.output(y);
            }
            check(&net, 0.0);
        }
    }
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 2, 2, 2]);
    let places = net.feed(Boxed::from_i64s(vec![1, 2, 2, 2], vec![0, 3, 13, 15, 16, 19, 30, 31]).unwrap());
    let attributes = Attributes::new()
        .with_ints(Attr::KernelShape, &[2, 2])
        .with_ints(Attr::Strides, &[2, 2]);
    let y = net.node(Op::MaxUnpool, attributes.clone(), &[x, places]);
    net.output(y);
    check(&net, 0.0);
    // 5 x 7, which a window of 2 x 2 does not divide: MaxPool counted its places in that
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 1, 2, 3]);
    let places = net.feed(Boxed::from_i64s(vec![1, 1, 2, 3], vec![0, 10, 12, 22, 17, 26]).unwrap());
    let shape = net.constant(&Boxed::from_i64s(vec![4], vec![1, 1, 5, 7]).unwrap());
    let y = net.node(Op::MaxUnpool, attributes, &[x, places, shape]);
    net.output(y);
    check(&net, 0.0);
}
