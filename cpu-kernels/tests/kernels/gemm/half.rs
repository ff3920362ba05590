//! Products with 16-bit floats against those with the same floats widened beforehand, and against the crate `half`.

use half::{bf16, f16};
use polychip_cpu_kernels::gemm::*;
use polychip_cpu_kernels::gemm::{GemmPlan, Matrix};
use polychip_cpu_kernels::{Epilogue, Isa, Residual, ThreadPool, Unary};

const TYPES: [HalfType; 2] = [HalfType::F16, HalfType::Bf16];

const SHAPES: [(usize, usize, usize); 14] = [
    (1, 1, 1),
    (1, 300, 1000),
    (1, 257, 130),
    (1, 64, 520),
    (2, 3, 5),
    (3, 16, 31),
    (3, 700, 129),
    (7, 33, 32),
    (8, 64, 33),
    (9, 1, 65),
    (33, 37, 100),
    (33, 513, 45),
    (50, 0, 17),
    (0, 4, 4),
];

fn widened(of: HalfType, bits: u16) -> f32 {
    match of {
        HalfType::F16 => f16::from_bits(bits).to_f32(),
        HalfType::Bf16 => bf16::from_bits(bits).to_f32(),
    }
}

/// Bits of numbers about one, of both signs.
fn bits(of: HalfType, len: usize) -> Vec<u16> {
    let value = |i: usize| ((i * 7919 + 13) % 2003) as f32 / 1000.0 - 1.0;
    let bits = |x: f32| match of {
        HalfType::F16 => f16::from_f32(x).to_bits(),
        HalfType::Bf16 => bf16::from_f32(x).to_bits(),
    };
    (0..len).map(|i| bits(value(i))).collect()
}

fn floats(len: usize, seed: usize) -> Vec<f32> {
    (0..len)
        .map(|i| ((i * 104_729 + seed * 31) % 4001) as f32 / 2000.0 - 1.0)
        .collect()
}

fn bytes(bits: &[u16]) -> Vec<u8> {
    bits.iter().flat_map(|bits| bits.to_le_bytes()).collect()
}

fn same(got: &[f32], want: &[f32], words: &str) {
    assert_eq!(got.len(), want.len(), "{words}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
        assert!(same, "{words}: [{i}] is {got}, not {want}");
    }
}

#[test]
fn results_equal_those_of_widened_weights() {
    for threads in [1, 3] {
        let pool = ThreadPool::new(threads);
        for isa in Isa::available() {
            for of in TYPES {
                for (m, k, n) in SHAPES {
                    for case in 0..6 {
                        check(&pool, isa, of, (m, k, n), case);
                    }
                }
            }
        }
    }
}

fn check(pool: &ThreadPool, isa: Isa, of: HalfType, (m, k, n): (usize, usize, usize), case: usize) {
    let words = format!("{isa:?} {of:?} {m}x{k}x{n} case {case}");
    let (a, b, bias) = (floats(m * k, 1), bits(of, k * n), floats(n, 2));
    let residual = floats(m * (n + 3), 3);
    let wide: Vec<f32> = b.iter().map(|&bits| widened(of, bits)).collect();
    let order = if case.is_multiple_of(2) {
        Order::Columns
    } else {
        Order::Rows
    };
    let (left, right) = match order {
        Order::Columns => (Matrix::rows(&a, k), Matrix::columns(&wide, k)),
        Order::Rows => (Matrix::columns(&a, m), Matrix::rows(&wide, n)),
    };
    let epilogue = Epilogue {
        activation: [Unary::Identity, Unary::Tanh, Unary::Identity, Unary::Relu][case % 4],
        residual: [Residual::BeforeActivation, Residual::AfterActivation][case / 4],
    };
    let residual = (case >= 2).then_some(Matrix::rows(&residual, n + 3));

    let plan = GemmPlan::new(isa, k, n).unwrap();
    let mut packed = vec![0.0; plan.packed_len()];
    plan.pack(right, Some(&bias), &mut packed);
    let mut scratch = vec![f32::NAN; plan.scratch_len(m, pool)];
    let stride = n + 2;
    let mut want = vec![7.0; m * stride];
    plan.run(
        pool,
        m,
        left,
        &packed,
        residual,
        epilogue,
        &mut want,
        stride,
        &mut scratch,
    );

    let plan = HalfPlan::new(of, isa, k, n).unwrap();
    let mut packed = vec![0.0; plan.packed_len()];
    let line = plan.line_bytes(order);
    // in pieces that end anywhere
    for (index, lines) in bytes(&b).chunks((7 * line).max(1)).enumerate() {
        plan.pack(order, 7 * index, lines, &mut packed);
    }
    plan.pack_bias(&bias, &mut packed);
    let mut scratch = vec![f32::NAN; plan.scratch_len(m, pool)];
    let mut got = vec![7.0; m * stride];
    plan.run(
        pool,
        m,
        left,
        &packed,
        residual,
        epilogue,
        &mut got,
        stride,
        &mut scratch,
    );
    same(&got, &want, &words);
}

#[test]
fn every_pattern_of_16_bits_is_widened_exactly() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let (n, pool) = (all.len(), ThreadPool::new(2));
    for isa in Isa::available() {
        for of in TYPES {
            let plan = HalfPlan::new(of, isa, 1, n).unwrap();
            let mut packed = vec![0.0; plan.packed_len()];
            plan.pack(Order::Rows, 0, &bytes(&all), &mut packed);
            // one row, tiles that widen, and panels that are widened
            for m in [1, 2, 9] {
                let (a, mut c) = (vec![1.0; m], vec![7.0; m * n]);
                let mut scratch = vec![0.0; plan.scratch_len(m, &pool)];
                plan.run(
                    &pool,
                    m,
                    Matrix::rows(&a, 1),
                    &packed,
                    None,
                    Epilogue::NONE,
                    &mut c,
                    n,
                    &mut scratch,
                );
                for row in c.chunks(n) {
                    for (&bits, &got) in all.iter().zip(row) {
                        // a zero is added to the bias, which is a positive one
                        let want = widened(of, bits);
                        let same = got == want || got.is_nan() && want.is_nan();
                        assert!(
                            same,
                            "{isa:?} {of:?} {m} rows: {bits:#x} is {got:e}, not {want:e}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn infinities_and_nans_stay_in_their_column() {
    let (k, n, pool) = (3, 70, ThreadPool::new(1));
    for isa in Isa::available() {
        for (of, infinity, nan) in [(HalfType::F16, 0x7c00, 0x7e00), (HalfType::Bf16, 0x7f80, 0x7fc0)] {
            let mut b = bits(of, k * n);
            (b[n + 5], b[n + 69], b[2]) = (infinity, nan, infinity | 0x8000);
            let plan = HalfPlan::new(of, isa, k, n).unwrap();
            let mut packed = vec![0.0; plan.packed_len()];
            plan.pack(Order::Rows, 0, &bytes(&b), &mut packed);
            for m in [1, 3, 33] {
                let (a, mut c) = (vec![0.5; m * k], vec![0.0; m * n]);
                let mut scratch = vec![0.0; plan.scratch_len(m, &pool)];
                plan.run(
                    &pool,
                    m,
                    Matrix::rows(&a, k),
                    &packed,
                    None,
                    Epilogue::NONE,
                    &mut c,
                    n,
                    &mut scratch,
                );
                for (i, &x) in c.iter().enumerate() {
                    match i % n {
                        5 => assert_eq!(x, f32::INFINITY),
                        69 => assert!(x.is_nan()),
                        2 => assert_eq!(x, f32::NEG_INFINITY),
                        _ => assert!(x.is_finite(), "{isa:?} {of:?} column {}", i % n),
                    }
                }
            }
        }
    }
}
