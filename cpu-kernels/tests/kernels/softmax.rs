//! Softmax against plain loops in `f64`.

use polychip_cpu_kernels::softmax::*;
use polychip_cpu_kernels::{Isa, ThreadPool};

#[test]
fn agrees_with_f64() {
    for threads in [1, 2] {
        let pool = ThreadPool::new(threads);
        for isa in Isa::available() {
            for dims in [
                [1, 1, 1],
                [3, 5, 1],
                [7, 1000, 1],
                [2, 16, 33],
                [4, 3, 100],
                [5, 64, 1],
                [0, 3, 2],
            ] {
                let [outer, axis, inner] = dims;
                let input: Vec<f32> = (0..outer * axis * inner)
                    .map(|i| ((i * 7919) % 201) as f32 * 0.3 - 30.0)
                    .collect();
                let (mut soft, mut log) = (vec![0.0; input.len()], vec![0.0; input.len()]);
                softmax(isa, &pool, dims, &input, &mut soft);
                log_softmax(isa, &pool, dims, &input, &mut log);
                let mut in_place = input.clone();
                softmax_in_place(isa, &pool, dims, &mut in_place);
                assert_eq!(soft, in_place);
                for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
                    let at = |a: usize| (o * axis + a) * inner + i;
                    let max = (0..axis).map(|a| input[at(a)]).fold(f32::NEG_INFINITY, f32::max);
                    let e = |a: usize| f64::from(input[at(a)] - max).exp();
                    let sum: f64 = (0..axis).map(e).sum();
                    for a in 0..axis {
                        let want = e(a) / sum;
                        assert!(
                            (f64::from(soft[at(a)]) - want).abs() <= 1e-6 * want.max(1e-6),
                            "{isa:?} {dims:?}"
                        );
                        assert!(
                            (f64::from(log[at(a)]) - want.ln()).abs() <= 1e-5,
                            "{isa:?} {dims:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn nan_stays_in_its_row() {
    for isa in Isa::available() {
        let mut data = vec![1.0; 60];
        data[7] = f32::NAN;
        softmax_in_place(isa, &ThreadPool::new(1), [3, 20, 1], &mut data);
        assert!(
            data[..20].iter().all(|x| x.is_nan()) && data[20..].iter().all(|x| *x == 0.05),
            "{isa:?}"
        );
    }
}
