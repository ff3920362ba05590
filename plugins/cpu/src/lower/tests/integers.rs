//! Ops that name their integers.

use super::*;

impl Net {
    fn bytes(&mut self, dtype: DType, values: &[i64]) -> usize {
        let values: Vec<i128> = values.iter().map(|&value| i128::from(value)).collect();
        let shape = if values.len() == 1 {
            vec![]
        } else {
            vec![values.len()]
        };
        self.constant(&Boxed::from_i128s(polychip_reference::element(dtype), shape, &values).unwrap())
    }

    fn scales(&mut self, values: &[f64]) -> usize {
        let shape = if values.len() == 1 {
            vec![]
        } else {
            vec![values.len()]
        };
        let element = polychip_reference::element(DType::F32);
        self.constant(&Boxed::from_f64s(element, shape, values).unwrap())
    }
}

/// The reference's kernels are not among the steps, and no result is more than `most` from theirs.
fn check(net: &Net, most: i64) -> Vec<&'static str> {
    let want = evaluate(&net.part, &net.fed);
    let mut names = Vec::new();
    for isa in Isa::available() {
        for isa in [isa, isa.without_extensions()] {
            let pool = ThreadPool::new(2);
            let layouts = vec![Layout::RowMajor; net.part.inputs.len() + net.part.outputs.len()];
            let options = Options {
                programs: &Programs::default(),
                choices: crate::tune::Choices::Rule,
                isa,
                pool: &pool,
                layouts: &layouts,
                reduced: false,
            };
            let program = lower(&net.part, &options).unwrap();
            assert_eq!(program.slots, 0, "{:?}", program.steps);
            for (have, want) in run(&program, &pool, &net.fed).iter().zip(&want) {
                assert_eq!(have.element(), want.element());
                if polychip_reference::dtype(want.element()).is_float() {
                    close(have, want, 1e-6, isa.name());
                    continue;
                }
                let (have, want) = (have.to_i64s().unwrap(), want.to_i64s().unwrap());
                let off = have.iter().zip(&want).filter(|(a, b)| a != b).count();
                assert!(
                    have.iter().zip(&want).all(|(a, b)| (a - b).abs() <= most) && off <= want.len() / 50 + 1,
                    "{isa:?}: {have:?} {want:?}"
                );
                assert!(most > 0 || off == 0, "{isa:?}: {have:?} {want:?}");
            }
            names = program.steps.iter().map(|step| step.name).collect();
        }
    }
    names
}

fn window() -> Attributes {
    Attributes::new()
        .with_ints(Attr::Pads, &[1, 0, 1, 1])
        .with_ints(Attr::Strides, &[2, 1])
}

#[test]
fn sums_of_integers_are_exact() {
    for (left, right) in [
        (DType::U8, DType::I8),
        (DType::I8, DType::I8),
        (DType::U8, DType::U8),
        (DType::I8, DType::U8),
    ] {
        for (shape, n) in [([1usize, 7], 33usize), ([5, 40], 16), ([13, 129], 3)] {
            let mut net = Net::default();
            let a = net.input(left, &shape);
            let b = net.boxed(right, &[shape[1], n]);
            let b = net.constant(&b);
            let zero = net.bytes(left, &[if left == DType::U8 { 100 } else { -20 }]);
            let zeros: Vec<i64> = (0..n as i64).map(|i| i % 5).collect();
            let zeros = net.bytes(right, &zeros);
            let y = net.plain(Op::MatMulInteger, &[a, b, zero, zeros]);
            let z = net.plain(Op::MatMulInteger, &[a, b]);
            net.output(y);
            net.output(z);
            check(&net, 0);
        }
        let mut net = Net::default();
        let x = net.input(left, &[2, 5, 6, 7]);
        let w = net.boxed(right, &[9, 5, 3, 2]);
        let w = net.constant(&w);
        let (zero, own) = (net.bytes(left, &[3]), net.bytes(right, &[1]));
        let y = net.node(Op::ConvInteger, window(), &[x, w, zero, own]);
        net.output(y);
        let names = check(&net, 0);
        assert!(names.contains(&"ConvInteger"), "{names:?}");
    }
}

#[test]
fn dynamic_quantisation_and_product() {
    for rows in [1, 6] {
        let mut net = Net::default();
        let x = net.input(DType::F32, &[rows, 37]);
        let quantised = net.nodes(Op::DynamicQuantizeLinear, Attributes::new(), &[Some(x)], 3);
        let w = net.boxed(DType::I8, &[37, 21]);
        let w = net.constant(&w);
        let y = net.plain(Op::MatMulInteger, &[quantised[0], w, quantised[2]]);
        let to = Attributes::new().with_int(Attr::To, 1);
        let y = net.node(Op::Cast, to, &[y]);
        let y = net.plain(Op::Mul, &[y, quantised[1]]);
        net.output(y);
        net.output(quantised[0]);
        let names = check(&net, 1);
        assert!(
            names.contains(&"quantise dynamically") && names.contains(&"MatMulInteger"),
            "{names:?}"
        );
    }
}

/// Bytes of the whole range.
fn whole_range(net: &mut Net, shape: &[usize]) -> usize {
    let count: usize = shape.iter().product();
    let values: Vec<i128> = (0..count).map(|i| (i as i128 * 89 + 7) % 256).collect();
    let element = polychip_reference::element(DType::U8);
    net.constant(&Boxed::from_i128s(element, shape.to_vec(), &values).unwrap())
}

#[test]
fn weights_beyond_signed_bytes_keep_their_zero_points() {
    // a zero that a node computes, or a constant
    for computed in [true, false] {
        for (dims, filter) in [(vec![2, 5, 6, 7], vec![9, 5, 3, 2]), (vec![4, 37], vec![37, 21])] {
            let mut net = Net::default();
            let (x, zero) = if computed {
                let x = net.input(DType::F32, &dims);
                let quantised = net.nodes(Op::DynamicQuantizeLinear, Attributes::new(), &[Some(x)], 3);
                (quantised[0], quantised[2])
            } else {
                let x = net.input(DType::I8, &dims);
                (x, net.bytes(DType::I8, &[-11]))
            };
            let w = whole_range(&mut net, &filter);
            let (op, attributes) = if dims.len() == 4 {
                (Op::ConvInteger, window())
            } else {
                (Op::MatMulInteger, Attributes::new())
            };
            let own = net.bytes(DType::U8, &[118]);
            let y = net.node(op, attributes, &[x, w, zero, own]);
            net.output(y);
            // codes that dynamic quantisation rounds to the other side move sums by up to 255
            let names = check(&net, if computed { 300 } else { 0 });
            assert!(names.contains(&op.name()), "{names:?}");
        }
    }
    // a group of its own for each channel, and a computed zero
    let mut net = Net::default();
    let x = net.input(DType::F32, &[1, 6, 7, 5]);
    let quantised = net.nodes(Op::DynamicQuantizeLinear, Attributes::new(), &[Some(x)], 3);
    let w = net.boxed(DType::I8, &[6, 1, 3, 2]);
    let w = net.constant(&w);
    let grouped = window().with_int(Attr::Group, 6);
    let y = net.node(Op::ConvInteger, grouped, &[quantised[0], w, quantised[2]]);
    net.output(y);
    assert!(check(&net, 100).contains(&"ConvInteger"));
    // rounded to codes
    let mut net = Net::default();
    let x = net.input(DType::U8, &[1, 6, 7, 5]);
    let w = whole_range(&mut net, &[12, 6, 3, 2]);
    let (from, to) = (net.scales(&[0.02]), net.scales(&[0.9]));
    let own = net.scales(&[0.01]);
    let (zero, middle, result) = (
        net.bytes(DType::U8, &[3]),
        net.bytes(DType::U8, &[118]),
        net.bytes(DType::U8, &[100]),
    );
    let y = net.node(
        Op::QLinearConv,
        window(),
        &[x, from, zero, w, own, middle, to, result],
    );
    net.output(y);
    assert!(check(&net, 1).contains(&"QLinearConv"));
}

/// Depthwise convolutions with weights of either sign, with one zero point or one per channel, known and computed zeros.
#[test]
fn depthwise_convolutions_of_integers_have_a_kernel() {
    for channels in [3usize, 16, 70] {
        for (computed, right) in [
            (true, DType::U8),
            (true, DType::I8),
            (false, DType::U8),
            (false, DType::I8),
        ] {
            let mut net = Net::default();
            let dims = [2, channels, 9, 8];
            let (x, zero) = if computed {
                let x = net.input(DType::F32, &dims);
                let quantised = net.nodes(Op::DynamicQuantizeLinear, Attributes::new(), &[Some(x)], 3);
                (quantised[0], quantised[2])
            } else {
                (net.input(DType::I8, &dims), net.bytes(DType::I8, &[-11]))
            };
            let filter = [channels, 1, 3, 3];
            let w = if right == DType::U8 {
                whole_range(&mut net, &filter)
            } else {
                let w = net.boxed(right, &filter);
                net.constant(&w)
            };
            // 0 makes a weight of 255, which is a sum of three bytes
            let zeros: Vec<i64> = (0..channels as i64)
                .map(|i| if right == DType::U8 { i % 3 * 59 } else { i % 3 - 1 })
                .collect();
            let own = net.bytes(right, &zeros);
            let grouped = window().with_int(Attr::Group, channels as i64);
            let y = net.node(Op::ConvInteger, grouped, &[x, w, zero, own]);
            net.output(y);
            let names = check(&net, if computed { 300 } else { 0 });
            assert!(names.contains(&"ConvInteger"), "{names:?}");
        }
        // rounded to codes
        for to in [DType::U8, DType::I8] {
            let mut net = Net::default();
            let x = net.input(DType::U8, &[1, channels, 7, 6]);
            let w = whole_range(&mut net, &[channels, 1, 3, 3]);
            let inputs = [
                x,
                net.scales(&[0.02]),
                net.bytes(DType::U8, &[3]),
                w,
                net.scales(&[0.01]),
                net.bytes(DType::U8, &[118]),
                net.scales(&[0.9]),
                net.bytes(to, &[17]),
            ];
            let grouped = window().with_int(Attr::Group, channels as i64);
            let y = net.node(Op::QLinearConv, grouped, &inputs);
            net.output(y);
            assert!(check(&net, 1).contains(&"QLinearConv"));
        }
    }
}

#[test]
fn linear_products_round_as_the_formula_does() {
    for (from, to) in [
        (DType::U8, DType::U8),
        (DType::I8, DType::I8),
        (DType::U8, DType::I8),
    ] {
        for groups in [1usize, 3, 6] {
            let mut net = Net::default();
            let x = net.input(from, &[1, 6, 7, 5]);
            let w = net.boxed(DType::I8, &[12, 6 / groups, 3, 3]);
            let w = net.constant(&w);
            let scales: Vec<f64> = (0..12).map(|i| 0.01 + 0.003 * f64::from(i % 4)).collect();
            let bias: Vec<i128> = (0..12).map(|i| i128::from(i * 37 - 200)).collect();
            let bias = Boxed::from_i128s(polychip_reference::element(DType::I32), vec![12], &bias).unwrap();
            let inputs = [
                x,
                net.scales(&[0.02]),
                net.bytes(from, &[5]),
                w,
                net.scales(&scales),
                net.bytes(DType::I8, &[0; 12]),
                net.scales(&[0.05]),
                net.bytes(to, &[17]),
                net.constant(&bias),
            ];
            let y = net.node(
                Op::QLinearConv,
                window().with_int(Attr::Group, groups as i64),
                &inputs,
            );
            net.output(y);
            let names = check(&net, 1);
            assert!(names.contains(&"QLinearConv"), "{names:?}");
        }
        let mut net = Net::default();
        let a = net.input(from, &[3, 4, 18]);
        let b = net.boxed(DType::U8, &[18, 35]);
        let b = net.constant(&b);
        let inputs = [
            a,
            net.scales(&[0.02]),
            net.bytes(from, &[5]),
            b,
            net.scales(&[0.01]),
            net.bytes(DType::U8, &[9]),
            net.scales(&[0.03]),
            net.bytes(to, &[17]),
        ];
        let y = net.plain(Op::QLinearMatMul, &inputs);
        net.output(y);
        let names = check(&net, 1);
        assert!(names.contains(&"QLinearMatMul"), "{names:?}");
    }
}
