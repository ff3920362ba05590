//! Normalisations against plain loops in `f64`.

use half::bf16;
use polychip_cpu_kernels::norm::*;
use polychip_cpu_kernels::{Isa, ThreadPool, Unary};

#[test]
fn agrees_with_f64() {
    for threads in [1, 2] {
        let pool = ThreadPool::new(threads);
        for isa in Isa::available() {
            for (rows, n) in [(1, 1), (3, 7), (128, 384), (5, 33), (2, 64), (0, 4)] {
                let value = |i: usize, p: usize| ((i * p) % 997) as f32 / 500.0 - 1.0;
                let input: Vec<f32> = (0..rows * n).map(|i| value(i, 7919)).collect();
                let residual: Vec<f32> = (0..rows * n).map(|i| value(i, 104_729)).collect();
                let scale: Vec<f32> = (0..n).map(|i| value(i, 31)).collect();
                let bias: Vec<f32> = (0..n).map(|i| value(i, 37)).collect();
                for case in 0..16 {
                    let on = |bit: usize| case >> bit & 1 == 1;
                    let params = NormParams {
                        norm: if on(0) { Norm::Layer } else { Norm::Rms },
                        epsilon: 1e-5,
                        scale: on(1).then_some(&scale),
                        bias: on(1).then_some(&bias),
                        residual: on(2).then_some(&residual),
                    };
                    let (mut sum, mut got) = (vec![f32::NAN; rows * n], vec![f32::NAN; rows * n]);
                    let mut rounded = vec![bf16::NAN; rows * n];
                    norm(
                        isa,
                        &pool,
                        rows,
                        n,
                        params,
                        &input,
                        &mut got,
                        NormExtras {
                            sum: on(3).then_some(&mut sum),
                            rounded: on(3).then_some(&mut rounded),
                        },
                    );
                    if on(3) {
                        let nearest = |x: &f32| bf16::from_f32(*x);
                        assert!(got.iter().map(nearest).eq(rounded.iter().copied()));
                        let mut narrow = vec![bf16::NAN; rows * n];
                        norm(
                            isa,
                            &pool,
                            rows,
                            n,
                            params,
                            &input,
                            &mut narrow,
                            NormExtras::default(),
                        );
                        assert_eq!(narrow, rounded, "{isa:?} {rows}x{n} case {case}");
                    }
                    for row in 0..rows {
                        let x: Vec<f64> = (row * n..(row + 1) * n)
                            .map(|i| f64::from(input[i]) + if on(2) { f64::from(residual[i]) } else { 0.0 })
                            .collect();
                        let mean = if on(0) {
                            x.iter().sum::<f64>() / n as f64
                        } else {
                            0.0
                        };
                        let var = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
                        for (c, &x) in x.iter().enumerate() {
                            let mut want = (x - mean) / (var + f64::from(params.epsilon)).sqrt();
                            if on(1) {
                                want = want * f64::from(scale[c]) + f64::from(bias[c]);
                            }
                            let got = f64::from(got[row * n + c]);
                            assert!(
                                (got - want).abs() < 1e-5,
                                "{isa:?} {rows}x{n} case {case}: {got} {want}"
                            );
                            if on(3) {
                                assert!((f64::from(sum[row * n + c]) - x).abs() < 1e-6);
                            }
                        }
                    }
                }
                let mut got = vec![f32::NAN; rows * n];
                scale_shift(
                    isa,
                    &pool,
                    &scale,
                    &bias,
                    Unary::Relu,
                    (&input).into(),
                    (&mut got).into(),
                );
                for (i, got) in got.iter().enumerate() {
                    let want = (input[i] * scale[i % n] + bias[i % n]).max(0.0);
                    assert!((got - want).abs() < 1e-6);
                }
            }
        }
    }
}

#[test]
fn planes_agree_with_f64() {
    for isa in Isa::available() {
        for (threads, channels, images, plane) in [(1, 3, 2, 1), (2, 5, 2, 37), (2, 4, 1, 4099)] {
            let pool = ThreadPool::new(threads);
            let x: Vec<f32> = (0..images * channels * plane)
                .map(|i| ((i * 7919) % 201) as f32 * 0.03 + 5.0)
                .collect();
            let numbers: Vec<f32> = (0..channels).map(|c| c as f32 - 1.5).collect();
            let mut y = vec![0.0; x.len()];
            norm_planes(isa, &pool, plane, 1e-3, [&numbers, &numbers], &x, &mut y);
            for (p, (x, y)) in x.chunks(plane).zip(y.chunks(plane)).enumerate() {
                let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / plane as f64;
                let squares = x.iter().map(|&x| (f64::from(x) - mean).powi(2));
                let factor = 1.0 / (squares.sum::<f64>() / plane as f64 + 1e-3).sqrt();
                let number = f64::from(numbers[p % channels]);
                for (&x, &y) in x.iter().zip(y) {
                    let want = (f64::from(x) - mean) * factor * number + number;
                    assert!((f64::from(y) - want).abs() < 2e-5, "{isa:?} {y} {want}");
                }
            }
        }
    }
}
