//! Products with weights of four bits against plain loops.

use polychip_cpu_kernels::quantised::*;
use polychip_cpu_kernels::{Isa, ThreadPool};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn products_match_decoded_weights(
        rows in 1usize..14, depth in 1usize..100, columns in 1usize..40, blocks in 1usize..5, seed in any::<u32>(),
    ) {
        let block = [8, 16, 32, 128][blocks - 1];
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let codes: Vec<u8> = (0..depth * columns).map(|_| (next() % 16) as u8).collect();
        let count = depth.div_ceil(block) * columns;
        let scales: Vec<f32> = (0..count).map(|_| (next() % 100) as f32 / 64.0).collect();
        let zeros: Vec<u8> = (0..count).map(|_| (next() % 16) as u8).collect();
        let x: Vec<f32> = (0..rows * depth).map(|_| (next() % 2001) as f32 / 1000.0 - 1.0).collect();
        let pool = ThreadPool::new(2);
        for isa in Isa::available() {
            let plan = Int4Plan::new(isa, depth, columns, block).unwrap();
            let mut packed = vec![f32::NAN; plan.packed_len()];
            plan.pack(Int4Weights { codes: &codes, scales: &scales, zeros: &zeros }, &mut packed);
            let mut scratch = vec![f32::NAN; plan.scratch_len(rows, &pool)];
            let mut y = vec![f32::NAN; rows * columns];
            plan.run(&pool, rows, &x, &packed, &mut y, &mut scratch);
            for (i, &y) in y.iter().enumerate() {
                let (row, column) = (i / columns, i % columns);
                let (mut want, mut size) = (0.0, 1e-3);
                for k in 0..depth {
                    let at = k / block * columns + column;
                    let code = f64::from(codes[k * columns + column]);
                    let x = f64::from(x[row * depth + k]) * f64::from(scales[at]);
                    want += x * (code - f64::from(zeros[at]));
                    size += x.abs() * 16.0;
                }
                prop_assert!((f64::from(y) - want).abs() < 1e-6 * size, "{isa:?}: {y} is not {want}");
            }
        }
    }
}

#[test]
fn block_must_be_a_multiple_of_a_word() {
    assert!(Int4Plan::new(Isa::SCALAR, 24, 1, 12).is_err());
    assert!(Int4Plan::new(Isa::SCALAR, 24, 1, 0).is_err());
    assert!(Int4Plan::new(Isa::SCALAR, 11, 1, 12).is_ok());
}
