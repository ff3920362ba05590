//! Functions of one and two elements, and what runs on the reference.

use super::*;

#[test]
fn ops_without_a_kernel_run_on_the_reference() {
    let mut net = Net::default();
    let x = net.input(DType::F64, &[3, 4]);
    let y = net.plain(Op::Tanh, &[x]);
    net.output(y);
    let i = net.input(DType::I32, &[3, 4]);
    let j = net.plain(Op::Mul, &[i, i]);
    net.output(j);
    let mask = net.plain(Op::Greater, &[j, i]);
    let chosen = net.plain(Op::Where, &[mask, i, j]);
    net.output(chosen);
    let to = Attributes::new().with(Attr::To, AttrValue::Int(i64::from(DType::F32.code())));
    let f = net.node(Op::Cast, to, &[chosen]);
    net.output(f);
    assert_eq!(net.check(0.0), ["Tanh", "Mul", "Greater", "where", "cast"]);
}

#[test]
fn tensors_of_unknown_shape_are_boxed() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[3, 4]);
    let relu = net.plain(Op::Relu, &[x]);
    let places = net.tensor(DType::I64, None);
    net.part.nodes.push(Node::new(Op::NonZero, &[relu], &[places]));
    let doubled = net.tensor(DType::I64, None);
    net.part
        .nodes
        .push(Node::new(Op::Add, &[places, places], &[doubled]));
    net.output(doubled);
    assert_eq!(net.check(0.0), ["unary", "NonZero", "Add"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn binary_broadcast_matches_the_reference(
        dims in prop::collection::vec((1usize..5, any::<bool>(), any::<bool>()), 0..5),
        cut in 0usize..3,
        op in prop::sample::select(vec![Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Min, Op::Max]),
    ) {
        let mut net = Net { random: ChaCha8Rng::seed_from_u64(cut as u64), ..Net::default() };
        let a: Vec<usize> = dims.iter().map(|&(size, one, _)| if one { 1 } else { size }).collect();
        let b: Vec<usize> = dims.iter().map(|&(size, _, one)| if one { 1 } else { size }).collect();
        let b = b[cut.min(b.len())..].to_vec();
        let (x, y) = (net.input(DType::F32, &a), net.input(DType::F32, &b));
        let z = net.plain(op, &[x, y]);
        net.output(z);
        net.check(1e-6);
    }

    #[test]
    fn unary_functions_match(
        op in prop::sample::select(vec![
            Op::Abs, Op::Neg, Op::Relu, Op::Exp, Op::Erf, Op::Tanh, Op::Sigmoid, Op::Gelu, Op::HardSigmoid,
            Op::HardSwish, Op::Elu, Op::Selu, Op::Celu, Op::Softplus, Op::Softsign, Op::Mish, Op::Floor, Op::Ceil,
            Op::Round, Op::Sign, Op::Sin, Op::Cos, Op::LeakyRelu, Op::ThresholdedRelu, Op::Swish,
        ]),
        len in 1usize..70,
    ) {
        let mut net = Net { random: ChaCha8Rng::seed_from_u64(len as u64), ..Net::default() };
        let x = net.input(DType::F32, &[len]);
        let y = net.plain(op, &[x]);
        net.output(y);
        let steps = net.check(2e-6);
        prop_assert!(steps.len() == 1);
    }
}

#[test]
fn means_of_any_number_of_tensors() {
    for count in [1, 2, 3, 5] {
        for dtype in [DType::F32, DType::F16] {
            let mut net = Net::default();
            let shapes = [&[2, 3, 4, 5][..], &[3, 1, 1], &[2, 3, 4, 5], &[5], &[1, 3, 4, 5]];
            let inputs: Vec<usize> = shapes[..count]
                .iter()
                .map(|shape| net.input(dtype, shape))
                .collect();
            let y = net.plain(Op::Mean, &inputs);
            net.output(y);
            let steps = net.check(2e-3);
            assert!(!steps.contains(&"Mean"), "{steps:?}");
        }
    }
}
