//! 16-bit floats: computed on as f32, rounded where they are stored.

use super::*;

/// What a value in 16 bits may be off by, of the largest: rounding once to `f16`, or to `bf16`.
fn step(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2e-3,
        _ => 1.6e-2,
    }
}

#[test]
fn networks_run_on_the_kernels_of_f32() {
    for dtype in [DType::F16, DType::BF16] {
        let mut net = Net::default();
        let x = net.input(dtype, &[1, 3, 9, 7]);
        let [w, b] = [&[8, 3, 3, 3][..], &[8]].map(|shape| net.boxed(dtype, shape));
        let (w, b) = (net.constant(&w), net.constant(&b));
        let pads = Attributes::new().with_ints(Attr::Pads, &[1, 1, 1, 1]);
        let conv = net.node(Op::Conv, pads, &[x, w, b]);
        let relu = net.plain(Op::Relu, &[conv]);
        let joined = net.node(
            Op::Concat,
            Attributes::new().with_int(Attr::Axis, 1),
            &[relu, relu],
        );
        let pool = net.plain(Op::GlobalAveragePool, &[joined]);
        let flat = net.plain(Op::Flatten, &[pool]);
        let w = net.boxed(dtype, &[16, 5]);
        let w = net.constant(&w);
        let y = net.plain(Op::MatMul, &[flat, w]);
        let y = net.node(Op::Softmax, Attributes::new().with_int(Attr::Axis, -1), &[y]);
        net.output(y);
        net.output(relu);
        let steps = net.check(step(dtype));
        assert!(
            !steps.contains(&"Conv") && !steps.contains(&"MatMul"),
            "{steps:?}"
        );
        // one rounding for each port
        let roundings = steps.iter().filter(|&&step| step == "narrow").count();
        assert_eq!(roundings, 2, "{steps:?}");
    }
}

#[test]
fn movement_ops_keep_the_stored_type() {
    for dtype in [DType::F16, DType::BF16] {
        let mut net = Net::default();
        let x = net.input(dtype, &[2, 3, 5, 4]);
        let mask = net.input(DType::Bool, &[5, 1]);
        let table = net.boxed(dtype, &[6, 40]);
        let table = net.constant(&table);
        let at = net.ints(&[5, 0, -1]);
        let moved = [
            net.node(
                Op::Transpose,
                Attributes::new().with_ints(Attr::Perm, &[1, 0, 3, 2]),
                &[x],
            ),
            net.node(Op::Concat, Attributes::new().with_int(Attr::Axis, -1), &[x, x]),
            net.plain(Op::Gather, &[table, at]),
            net.plain(Op::Where, &[mask, x, x]),
            net.plain(Op::Identity, &[x]),
        ];
        moved.iter().for_each(|&y| net.output(y));
        let steps = net.check(0.0);
        assert!(
            !steps.iter().any(|step| ["widen", "narrow"].contains(step)),
            "{steps:?}"
        );
    }
}

#[test]
fn gather_table_is_read_as_stored_and_as_f32() {
    let mut net = Net::default();
    let table = net.boxed(DType::F16, &[6, 40]);
    let table = net.constant(&table);
    let x = net.input(DType::F16, &[3, 40]);
    let transposed = net.node(
        Op::Transpose,
        Attributes::new().with_ints(Attr::Perm, &[1, 0]),
        &[table],
    );
    let scores = net.plain(Op::MatMul, &[x, transposed]);
    let doubled = net.plain(Op::Add, &[table, table]);
    let at = net.ints(&[4, 2]);
    let rows = net.plain(Op::Gather, &[table, at]);
    for y in [scores, doubled, rows] {
        net.output(y);
    }
    net.check(step(DType::F16));
}

#[test]
fn casts_round_once_and_truncate_to_integers() {
    use DType::{BF16, Bool, F16, F32, F64, I8, I32, I64, U8};
    for half in [F16, BF16] {
        for other in [F16, BF16, F32, F64, I8, U8, I32, I64, Bool] {
            for (from, to) in [(half, other), (other, half)] {
                let mut net = Net::default();
                let x = net.input(from, &[2, 3, 7]);
                let to = Attributes::new().with_int(Attr::To, i64::from(to.code()));
                let y = net.node(Op::Cast, to, &[x]);
                net.output(y);
                net.check(0.0);
            }
        }
    }
    // 2.9996 is 3 in 16 bits, and 3 is what an integer is made of
    let mut net = Net::default();
    let mut fed = |value| {
        let element = polychip_reference::element(F16);
        net.feed(Boxed::from_f64s(element, vec![1], &[value]).unwrap())
    };
    let (x, y) = (fed(2.998), fed(0.0016));
    let sum = net.plain(Op::Add, &[x, y]);
    let to = Attributes::new().with_int(Attr::To, i64::from(I32.code()));
    let whole = net.node(Op::Cast, to, &[sum]);
    net.output(whole);
    net.check(0.0);
}

#[test]
fn cast_rounds_channels_last_tensors() {
    let mut net = Net::default();
    // an inexact sum could lie on the other side of where rounding to 16 bits turns
    let (x, first) = (net.sixtyfourths(&[1, 3, 8, 8]), net.sixtyfourths(&[4, 3, 3, 3]));
    let (x, first) = (net.feed(x), net.constant(&first));
    let second = net.weights(&[4, 4, 3, 3]);
    let a = net.plain(Op::Conv, &[x, first]);
    let to = |dtype: DType| Attributes::new().with_int(Attr::To, i64::from(dtype.code()));
    let half = net.node(Op::Cast, to(DType::F16), &[a]);
    let back = net.node(Op::Cast, to(DType::F32), &[half]);
    let b = net.plain(Op::Conv, &[back, second]);
    net.output(b);
    let steps = net.check(1e-5);
    let moved = steps.iter().filter(|&&step| step == "to row-major").count();
    assert!(moved <= 1, "{steps:?}");
}

#[test]
fn comparisons_remainders_and_the_largest() {
    let mut net = Net::default();
    let (a, b) = (net.input(DType::F16, &[3, 5]), net.input(DType::F16, &[5]));
    let outputs = [
        net.plain(Op::Less, &[a, b]),
        net.plain(Op::Equal, &[a, a]),
        net.node(Op::Mod, Attributes::new().with_int(Attr::Fmod, 1), &[a, b]),
        net.plain(Op::Max, &[a, b]),
    ];
    outputs.iter().for_each(|&y| net.output(y));
    let steps = net.check(1e-3);
    // the reference evaluator would read them as they are stored
    let widened = steps.iter().filter(|&&step| step == "widen").count();
    assert_eq!(widened, 2, "{steps:?}");
}

/// A product of `rows` rows with weights of 16 bits that a Cast widens, with all that may be fused behind it.
fn widened_product(dtype: DType, rows: usize, is_gemm: bool) -> Net {
    let (depth, columns) = (37, 45);
    let mut net = Net::default();
    let shape = if is_gemm {
        [columns, depth]
    } else {
        [depth, columns]
    };
    let stored = net.boxed(dtype, &shape);
    let stored = net.constant(&stored);
    let to = Attributes::new().with_int(Attr::To, i64::from(DType::F32.code()));
    let wide = net.node(Op::Cast, to, &[stored]);
    let bias = net.weights(&[columns]);
    // behind the weights, which are then the same whatever the number of rows is
    let x = net.input(DType::F32, &[rows, depth]);
    let product = if is_gemm {
        let transposed = Attributes::new().with_int(Attr::TransB, 1);
        net.node(Op::Gemm, transposed, &[x, wide, bias])
    } else {
        net.plain(Op::MatMul, &[x, wide])
    };
    let residual = net.input(DType::F32, &[rows, columns]);
    let sum = net.plain(Op::Add, &[product, residual]);
    let y = net.plain(Op::Relu, &[sum]);
    net.output(y);
    net
}

#[test]
fn weights_behind_a_cast_stay_16_bit() {
    let pool = ThreadPool::new(2);
    let weights = Weights::default();
    for dtype in [DType::F16, DType::BF16] {
        for is_gemm in [false, true] {
            let mut held = Vec::new();
            for rows in [1, 3, 33] {
                let mut net = widened_product(dtype, rows, is_gemm);
                let expected = evaluate(&net.part, &net.fed);
                let layouts = vec![Layout::RowMajor; 3];
                crate::part::read_halves(&mut net.part);
                let program = net.lower(&layouts, false, &pool);
                net.check_dry_run(&layouts, &program);
                check_members(&program);
                let names: Vec<_> = program.steps.iter().map(|step| step.name).collect();
                assert_eq!(names, ["gemm of halves"]);
                let have = run(&program, &pool, &net.fed);
                close(&have[0], &expected[0], 1e-5, &format!("{dtype:?}, {rows} rows"));
                // one packed operand of 16 bits a weight, padded; rows and results are little beside
                let floats: usize = program.sections.iter().map(|section| section.len).sum();
                assert!((37 * 45 / 2..37 * 48).contains(&floats), "{floats}");
                let rows_bytes = 4 * rows * (37 + 2 * 45);
                let bytes = program.steps[0].work.bytes as usize;
                assert!(
                    bytes >= 2 * 37 * 45 && bytes <= 4 * floats + rows_bytes,
                    "{bytes}"
                );
                // and one for all numbers of rows
                let packed = weights.pack(&program.packers, &pool).unwrap();
                assert_eq!(packed.own_bytes() == 0, !held.is_empty());
                held.push(packed);
            }
        }
    }
}

#[test]
fn cast_with_other_readers_is_computed() {
    let mut net = widened_product(DType::F16, 3, false);
    let wide = net.part.nodes[0].output(0).unwrap();
    net.output(wide);
    let expected = evaluate(&net.part, &net.fed);
    crate::part::read_halves(&mut net.part);
    let (pool, layouts) = (ThreadPool::new(1), vec![Layout::RowMajor; 4]);
    let program = net.lower(&layouts, false, &pool);
    net.check_dry_run(&layouts, &program);
    let have = run(&program, &pool, &net.fed);
    for (have, want) in have.iter().zip(&expected) {
        close(have, want, 1e-5, "read twice");
    }
}
