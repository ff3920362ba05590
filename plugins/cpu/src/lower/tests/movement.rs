//! Ops that move or make elements.

use super::*;

/// What is cut on two axes is no run of memory, though nothing stands before the first of them.
#[test]
fn slice_along_two_axes_with_a_reader() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[4, 8, 7]);
    let (starts, ends) = (net.ints(&[1, 2]), net.ints(&[3, 5]));
    let part = net.plain(Op::Slice, &[x, starts, ends]);
    let sum = net.plain(Op::Neg, &[part]);
    net.output(sum);
    net.check(0.0);
}

#[test]
fn movement_ops_keep_every_element() {
    for dtype in [DType::F32, DType::I64, DType::U8, DType::F16] {
        let mut net = Net::default();
        let x = net.input(dtype, &[2, 8, 3, 4]);
        let transposed = net.node(
            Op::Transpose,
            Attributes::new().with_ints(Attr::Perm, &[0, 2, 3, 1]),
            &[x],
        );
        net.output(transposed);
        let back = net.node(
            Op::Transpose,
            Attributes::new().with_ints(Attr::Perm, &[0, 3, 1, 2]),
            &[transposed],
        );
        net.output(back);
        let starts = net.ints(&[-1, 1]);
        let ends = net.ints(&[-100, 3]);
        let axes = net.ints(&[1, 3]);
        let steps = net.ints(&[-2, 1]);
        let y = net.plain(Op::Slice, &[x, starts, ends, axes, steps]);
        net.output(y);
        let first = net.ints(&[1]);
        let last = net.ints(&[2]);
        let y = net.plain(Op::Slice, &[x, first, last]);
        let flat = net.plain(Op::Flatten, &[y]);
        net.output(flat);
        let sizes = net.ints(&[3, 5]);
        let parts = net.nodes(
            Op::Split,
            Attributes::new().with_int(Attr::Axis, 1),
            &[Some(x), Some(sizes)],
            2,
        );
        let joined = net.node(
            Op::Concat,
            Attributes::new().with_int(Attr::Axis, 1),
            &[parts[1], parts[0], x],
        );
        net.output(joined);
        let y = net.node(
            Op::SpaceToDepth,
            Attributes::new().with_int(Attr::Blocksize, 1),
            &[x],
        );
        net.output(y);
        for mode in ["DCR", "CRD"] {
            let attributes = Attributes::new()
                .with_int(Attr::Blocksize, 2)
                .with_str(Attr::Mode, mode);
            let even = net.input(dtype, &[1, 3, 4, 6]);
            let y = net.node(Op::SpaceToDepth, attributes, &[even]);
            net.output(y);
            let attributes = Attributes::new()
                .with_int(Attr::Blocksize, 2)
                .with_str(Attr::Mode, mode);
            let y = net.node(Op::DepthToSpace, attributes, &[x]);
            net.output(y);
        }
        let shape = net.ints(&[3, 2, 8, 3, 4]);
        let y = net.plain(Op::Expand, &[x, shape]);
        net.output(y);
        let pads = net.ints(&[0, 1, 0, 2, 1, 0, 0, 3]);
        let y = net.plain(Op::Pad, &[x, pads]);
        net.output(y);
        let indices = net.ints(&[2, -1, 0]);
        let y = net.node(
            Op::Gather,
            Attributes::new().with_int(Attr::Axis, 2),
            &[x, indices],
        );
        net.output(y);
        net.output(x);
        let steps = net.check(0.0);
        assert!(
            steps.iter().all(|name| name.starts_with(char::is_lowercase)),
            "{dtype:?}: {steps:?}"
        );
    }
}

#[test]
fn filled_tensors_are_constants() {
    let mut net = Net::default();
    let x = net.input(DType::F32, &[3, 4]);
    let shape = net.ints(&[4, 5]);
    let value = polychip_ops::Literal::f32s(&[0.25]);
    let w = net.node(
        Op::ConstantOfShape,
        Attributes::new().with(Attr::Value, AttrValue::Tensor(value)),
        &[shape],
    );
    let y = net.plain(Op::MatMul, &[x, w]);
    net.output(y);
    net.output(w);
    net.part.find_fills(|dtype| dtype == DType::F32);
    assert_eq!(net.check(1e-6), ["gemm", "to port"]);
}

#[test]
fn reshape_before_a_channels_last_port() {
    let mut net = Net::default();
    let shape = net.ints(&[1, 3, 4, 4]);
    let x = net.input(DType::F32, &[1, 6]);
    let w = net.weights(&[6, 48]);
    let product = net.plain(Op::MatMul, &[x, w]);
    let y = net.plain(Op::Reshape, &[product, shape]);
    net.output(y);
    let want = evaluate(&net.part, &net.fed)[0].to_f64s().unwrap();
    let pool = ThreadPool::new(1);
    let program = net.lower(&[Layout::RowMajor, Layout::ChannelsLast], false, &pool);
    let have = &run(&program, &pool, &net.fed)[0];
    assert_eq!(have.shape(), [1, 4, 4, 3]);
    let have = have.to_f64s().unwrap();
    for (i, have) in have.iter().enumerate() {
        let want = want[i % 3 * 16 + i / 3];
        assert!((have - want).abs() < 1e-5, "element {i} is {have}, not {want}");
    }
}

#[test]
fn gather_of_elements_and_slices() {
    for dtype in [DType::F32, DType::I64, DType::U8, DType::F16, DType::F64] {
        let mut net = Net::default();
        let shape = [3usize, 4, 5];
        for axis in [0i64, 1, -1] {
            let along = shape[axis.rem_euclid(3) as usize] as i64;
            // no place twice along the axis: which of two updates stays is nobody's promise
            let own = {
                let mut own = [2, 3, 4];
                own[axis.rem_euclid(3) as usize] = 2;
                own
            };
            let stride: usize = own[axis.rem_euclid(3) as usize + 1..].iter().product();
            let values: Vec<i64> = (0..own.iter().product::<usize>())
                .map(|i| {
                    if (i / stride).is_multiple_of(2) {
                        -1
                    } else {
                        (i as i64) % (along - 1)
                    }
                })
                .collect();
            let indices = net.feed(Boxed::from_i64s(own.to_vec(), values).unwrap());
            let attributes = || Attributes::new().with_int(Attr::Axis, axis);
            let x = net.input(dtype, &shape);
            let y = net.node(Op::GatherElements, attributes(), &[x, indices]);
            net.output(y);
            let updates = net.input(dtype, &own);
            let y = net.node(Op::ScatterElements, attributes(), &[x, indices, updates]);
            net.output(y);
            if dtype == DType::F32 {
                for reduction in ["add", "mul", "max", "min"] {
                    let attributes = attributes().with_str(Attr::Reduction, reduction);
                    let y = net.node(Op::ScatterElements, attributes, &[x, indices, updates]);
                    net.output(y);
                }
            }
        }
        let x = net.input(dtype, &shape);
        let indices = net.feed(Boxed::from_i64s(vec![3, 2], vec![0, -1, 2, 1, -2, 0]).unwrap());
        let y = net.plain(Op::GatherND, &[x, indices]);
        net.output(y);
        let updates = net.input(dtype, &[3, 5]);
        let y = net.plain(Op::ScatterND, &[x, indices, updates]);
        net.output(y);
        let batched = net.feed(Boxed::from_i64s(vec![3, 1], vec![1, -4, 3]).unwrap());
        let attributes = Attributes::new().with_int(Attr::BatchDims, 1);
        let y = net.node(Op::GatherND, attributes, &[x, batched]);
        net.output(y);
        // what nobody reads later is overwritten in place
        let doubled = net.plain(Op::Add, &[x, x]);
        let y = net.plain(Op::ScatterND, &[doubled, indices, updates]);
        net.output(y);
        net.check(0.0);
        let layouts = vec![Layout::RowMajor; net.part.inputs.len() + net.part.outputs.len()];
        let program = net.lower(&layouts, false, &ThreadPool::new(1));
        let reference = program.steps.iter().find(|step| step.work.class.is_reference());
        assert!(reference.is_none(), "{dtype}: {reference:?}");
    }
}
