//! Products against a plain triple loop in `f64`, over odd shapes and every instruction set of this CPU.

mod half;

use ::half::bf16;
use polychip_cpu_kernels::gemm::Elements;
use polychip_cpu_kernels::gemm::*;
use polychip_cpu_kernels::{Epilogue, Isa, Residual, ThreadPool, Unary};

fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        })
        .collect()
}

fn close(got: &[f32], want: &[f64], k: usize, what: &str) {
    assert_eq!(got.len(), want.len());
    let tolerance = 1e-6 * (k as f64).sqrt().max(1.0) * 2.0;
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        assert!(
            (f64::from(got) - want).abs() <= tolerance,
            "{what}: [{i}] is {got}, not {want}"
        );
    }
}

const SHAPES: [(usize, usize, usize); 12] = [
    (1, 1, 1),
    (1, 300, 1000),
    (2, 3, 5),
    (3, 16, 31),
    (7, 33, 32),
    (12, 64, 33),
    (13, 1, 65),
    (49, 70, 100),
    (50, 0, 17),
    (100, 37, 16),
    (130, 128, 96),
    (0, 4, 4),
];

#[test]
fn packed_products_agree_with_a_loop() {
    for threads in [1, 2] {
        let pool = ThreadPool::new(threads);
        for isa in Isa::available() {
            for (m, k, n) in SHAPES {
                let (a, b, bias, residual) = (
                    numbers(m * k, 1),
                    numbers(k * n, 2),
                    numbers(n, 3),
                    numbers(m * (n + 3), 4),
                );
                let plan = GemmPlan::new(isa, k, n).unwrap();
                let mut packed = vec![f32::NAN; plan.packed_len()];
                let mut scratch = vec![f32::NAN; plan.scratch_len(m, &pool)];
                for case in 0..8 {
                    let (transposed, added, after) = (case & 1 == 1, case & 2 == 2, case & 4 == 4);
                    // the same numbers, read as the other order
                    let (a, b) = if transposed {
                        (Matrix::columns(&a, m), Matrix::columns(&b, k))
                    } else {
                        (Matrix::rows(&a, k), Matrix::rows(&b, n))
                    };
                    plan.pack(b, Some(&bias), &mut packed);
                    let activation = if case == 5 { Unary::Tanh } else { Unary::Relu };
                    let order = if after {
                        Residual::AfterActivation
                    } else {
                        Residual::BeforeActivation
                    };
                    let epilogue = Epilogue {
                        activation,
                        residual: order,
                    };
                    let residual = added.then_some(Matrix::rows(&residual, n + 3));
                    let stride = n + 2;
                    let mut c = vec![7.0; m * stride];
                    plan.run(
                        &pool,
                        m,
                        a,
                        &packed,
                        residual,
                        epilogue,
                        &mut c,
                        stride,
                        &mut scratch,
                    );
                    let (mut want, mut got) = (Vec::new(), Vec::new());
                    for i in 0..m {
                        for (j, &bias) in bias.iter().enumerate() {
                            let at = |x: Matrix<'_>, r, c| {
                                f64::from(x.data.f32s()[r * x.row_stride + c * x.column_stride])
                            };
                            let mut x = f64::from(bias);
                            x += (0..k).map(|l| at(a, i, l) * at(b, l, j)).sum::<f64>();
                            let plus = residual.map_or(0.0, |r| at(r, i, j));
                            let f = |x: f64| {
                                if activation == Unary::Tanh {
                                    x.tanh()
                                } else {
                                    x.max(0.0)
                                }
                            };
                            want.push(if after { f(x) + plus } else { f(x + plus) });
                        }
                        got.extend_from_slice(&c[i * stride..][..n]);
                        assert_eq!(c[i * stride + n..][..2], [7.0; 2], "written past the row");
                    }
                    close(
                        &got,
                        &want,
                        k,
                        &format!("{isa:?} {m}x{k}x{n} case {case} threads {threads}"),
                    );
                }
            }
        }
    }
}

#[test]
fn computed_products_agree_with_a_loop() {
    for threads in [1, 2] {
        let pool = ThreadPool::new(threads);
        for isa in Isa::available() {
            for (m, k, n) in SHAPES {
                for case in 0..4 {
                    let (ta, tb) = (case & 1 == 1, case & 2 == 2);
                    let mut params = MatMulParams::dense(3, m, k, n);
                    params.batch = [1, 2, 1, 3];
                    params.a.batch = [0, 3 * m * k, 0, m * k];
                    params.c.batch = [0, 3 * m * n, 0, m * n];
                    // b is repeated over the outer batch
                    params.alpha = 0.5;
                    if ta {
                        (params.a.row, params.a.column) = (1, m);
                    }
                    if tb {
                        (params.b.row, params.b.column) = (1, k);
                    }
                    let (a, b) = (numbers(6 * m * k, 5), numbers(3 * k * n, 6));
                    let plan = MatMulPlan::new(isa, params).unwrap();
                    let mut c = vec![f32::NAN; 6 * m * n];
                    plan.run(
                        &pool,
                        &a,
                        &b,
                        &mut c,
                        &mut vec![f32::NAN; plan.scratch_len(&pool)],
                    );
                    let mut want = Vec::new();
                    for (outer, inner) in (0..2).flat_map(|o| (0..3).map(move |i| (o, i))) {
                        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                            let sum: f64 = (0..k)
                                .map(|l| {
                                    let a = a[outer * 3 * m * k
                                        + inner * m * k
                                        + i * params.a.row
                                        + l * params.a.column];
                                    let b = b[inner * k * n + l * params.b.row + j * params.b.column];
                                    f64::from(a) * f64::from(b)
                                })
                                .sum();
                            want.push(sum * 0.5);
                        }
                    }
                    close(
                        &c,
                        &want,
                        k,
                        &format!("{isa:?} {m}x{k}x{n} case {case} threads {threads}"),
                    );
                }
            }
        }
    }
}

#[test]
fn overlapping_results_are_refused() {
    let mut params = MatMulParams::dense(2, 3, 4, 5);
    params.c.batch[3] = 0;
    assert!(MatMulPlan::new(Isa::SCALAR, params).is_err());
    let mut params = MatMulParams::dense(1, 3, 4, 5);
    params.c.row = 4;
    assert!(MatMulPlan::new(Isa::SCALAR, params).is_err());
    let mut params = MatMulParams::dense(1, 3, 4, 5);
    params.c.column = 2;
    assert!(MatMulPlan::new(Isa::SCALAR, params).is_err());
    assert!(MatMulPlan::new(Isa::SCALAR, MatMulParams::dense(usize::MAX, 3, 4, 5)).is_err());
    assert!(GemmPlan::new(Isa::SCALAR, usize::MAX, 2).is_err());
}

#[test]
fn bf16_is_the_f32_product_of_the_same_numbers_rounded() {
    let halves = |len, seed| -> Vec<bf16> { numbers(len, seed).into_iter().map(bf16::from_f32).collect() };
    let wide = |x: &[bf16]| -> Vec<f32> { x.iter().map(|x| x.to_f32()).collect() };
    let near = |got: &[f32], want: &[f32], rounded: bool, what: &str| {
        for (i, (got, want)) in got.iter().zip(want).enumerate() {
            let tolerance = if rounded { want.abs() / 256.0 } else { 0.0 } + 1e-5;
            assert!(
                (got - want).abs() <= tolerance,
                "{what}: [{i}] is {got}, not {want}"
            );
        }
    };
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        for (m, k, n) in SHAPES {
            let what = format!("{isa:?} {m}x{k}x{n}");
            let (a, b, residual) = (halves(m * k, 1), halves(k * n, 2), halves(m * n, 4));
            let (wide_a, wide_b, wide_residual) = (wide(&a), wide(&b), wide(&residual));
            let bias = numbers(n, 3);
            for activation in [Unary::Relu, Unary::Gelu] {
                let epilogue = Epilogue::activation(activation);
                let plan = GemmPlan::new(isa, k, n).unwrap();
                let mut packed = vec![f32::NAN; plan.packed_len()];
                plan.pack(Matrix::rows(&wide_b, n), Some(&bias), &mut packed);
                let mut scratch = vec![f32::NAN; plan.scratch_len(m, &pool)];
                let (a_rows, added) = (Matrix::rows(&wide_a, k), Some(Matrix::rows(&wide_residual, n)));
                let mut want = vec![f32::NAN; m * n];
                plan.run(
                    &pool,
                    m,
                    a_rows,
                    &packed,
                    added,
                    epilogue,
                    &mut want,
                    n,
                    &mut scratch,
                );
                let plan = GemmPlan::of(Elements::Bf16, isa, k, n).unwrap();
                let mut packed = vec![f32::NAN; plan.packed_len()];
                plan.pack(Matrix::rows(&wide_b, n), Some(&bias), &mut packed);
                let mut scratch = vec![f32::NAN; plan.scratch_len(m, &pool)];
                let (a_rows, added) = (Matrix::rows(&a, k), Some(Matrix::rows(&residual, n)));
                let (mut got, mut exact) = (vec![bf16::NAN; m * n], vec![f32::NAN; m * n]);
                plan.run(
                    &pool,
                    m,
                    a_rows,
                    &packed,
                    added,
                    epilogue,
                    &mut got,
                    n,
                    &mut scratch,
                );
                near(&wide(&got), &want, true, &what);
                plan.run(
                    &pool,
                    m,
                    a_rows,
                    &packed,
                    added,
                    epilogue,
                    &mut exact,
                    n,
                    &mut scratch,
                );
                near(&exact, &want, false, &what);
            }
            for transposed in [false, true] {
                let mut params = MatMulParams::dense(1, m, k, n);
                params.alpha = 0.5;
                if transposed {
                    (params.b.row, params.b.column) = (1, k);
                }
                let plan = MatMulPlan::new(isa, params).unwrap();
                let mut want = vec![f32::NAN; m * n];
                let mut scratch = vec![f32::NAN; plan.scratch_len(&pool)];
                plan.run(&pool, &wide_a, &wide_b, &mut want, &mut scratch);
                let plan = MatMulPlan::of(Elements::Bf16, isa, params).unwrap();
                let mut scratch = vec![f32::NAN; plan.scratch_len(&pool)];
                let (mut got, mut exact) = (vec![bf16::NAN; m * n], vec![f32::NAN; m * n]);
                plan.run(&pool, &a, &b, &mut got, &mut scratch);
                near(&wide(&got), &want, true, &what);
                plan.run(&pool, &a, &b, &mut exact, &mut scratch);
                near(&exact, &want, false, &what);
            }
        }
    }
    let mut params = MatMulParams::dense(1, 4, 4, 4);
    (params.a.row, params.a.column) = (1, 4);
    assert!(MatMulPlan::of(Elements::Bf16, Isa::SCALAR, params).is_err());
}
