//! Pools, normalisations and reductions.

use super::*;

#[test]
fn pools_with_every_padding() {
    for (op, attributes) in [
        (
            Op::MaxPool,
            Attributes::new().with_ints(Attr::Pads, &[1, 0, 1, 1]),
        ),
        (
            Op::MaxPool,
            Attributes::new()
                .with_int(Attr::CeilMode, 1)
                .with_ints(Attr::Strides, &[2, 2]),
        ),
        (Op::MaxPool, Attributes::new().with_ints(Attr::Dilations, &[2, 1])),
        (
            Op::AveragePool,
            Attributes::new().with_ints(Attr::Pads, &[1, 1, 0, 1]),
        ),
        (
            Op::AveragePool,
            Attributes::new()
                .with_ints(Attr::Pads, &[1, 1, 1, 1])
                .with_int(Attr::CountIncludePad, 1)
                .with_int(Attr::CeilMode, 1)
                .with_ints(Attr::Strides, &[2, 3]),
        ),
        (
            Op::AveragePool,
            Attributes::new().with_str(Attr::AutoPad, "SAME_LOWER"),
        ),
    ] {
        let mut net = Net::default();
        let x = net.input(DType::F32, &[2, 5, 8, 7]);
        let y = net.node(op, attributes.with_ints(Attr::KernelShape, &[3, 2]), &[x]);
        net.output(y);
        assert!(net.check(1e-5).contains(&"pool"));
    }
}

#[test]
fn normalisations() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[2, 6, 4, 5]);
    let statistics: Vec<usize> = (0..3).map(|_| net.weights(&[6])).collect();
    let variance = net.constant(
        &Boxed::from_f64s(
            polychip_reference::element(DType::F32),
            vec![6],
            &[0.5, 1.0, 2.0, 0.1, 3.0, 1.5],
        )
        .unwrap(),
    );
    let y = net.plain(
        Op::BatchNormalization,
        &[x, statistics[0], statistics[1], statistics[2], variance],
    );
    net.output(y);
    let y = net.plain(Op::InstanceNormalization, &[x, statistics[0], statistics[1]]);
    net.output(y);
    let groups = Attributes::new().with_int(Attr::NumGroups, 3);
    let y = net.node(Op::GroupNormalization, groups, &[x, statistics[0], statistics[1]]);
    net.output(y);
    for size in [1, 3, 4, 15] {
        let y = net.node(
            Op::LRN,
            Attributes::new()
                .with_int(Attr::Size, size)
                .with_float(Attr::Alpha, 0.3)
                .with_float(Attr::Bias, 2.0),
            &[x],
        );
        net.output(y);
    }
    let scale = net.weights(&[4, 5]);
    let y = net.node(
        Op::LayerNormalization,
        Attributes::new().with_int(Attr::Axis, 2),
        &[x, scale],
    );
    net.output(y);
    let scale = net.weights(&[5]);
    let y = net.node(
        Op::RMSNormalization,
        Attributes::new().with_int(Attr::Axis, -1),
        &[x, scale],
    );
    net.output(y);
    let steps = net.check(1e-5);
    assert!(
        steps.iter().all(|name| !name.contains("Norm") && *name != "LRN"),
        "{steps:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn reductions_over_any_axes(
        shape in prop::collection::vec(1usize..5, 1..5),
        mask in prop::collection::vec(any::<bool>(), 5),
        keeps in 0i64..2,
        op in prop::sample::select(vec![
            Op::ReduceSum, Op::ReduceMean, Op::ReduceMax, Op::ReduceMin, Op::ReduceProd, Op::ReduceL1,
            Op::ReduceL2, Op::ReduceSumSquare,
        ]),
    ) {
        let axes: Vec<i64> = (0..shape.len() as i64).filter(|&axis| mask[axis as usize]).collect();
        prop_assume!(!axes.is_empty());
        let mut net = Net::default();
        let x = net.input(DType::F32, &shape);
        let axes = net.ints(&axes);
        let y = net.node(op, Attributes::new().with_int(Attr::Keepdims, keeps), &[x, axes]);
        net.output(y);
        net.check(1e-5);
    }
}
