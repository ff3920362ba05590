//! Pooling against plain loops.

use polychip_cpu_kernels::conv::Window;
use polychip_cpu_kernels::pool::*;
use polychip_cpu_kernels::{Isa, ThreadPool};

fn naive(p: &PoolParams, pooling: Pooling, input: &[f32]) -> Vec<f32> {
    let w = &p.window;
    let mut out = Vec::new();
    for (b, pixel) in (0..p.batch).flat_map(|b| (0..w.out_pixels()).map(move |pixel| (b, pixel))) {
        for c in 0..p.channels {
            let first = w.first_tap(pixel);
            let (mut values, mut counted) = (Vec::new(), 0);
            for tap in 0..w.taps() {
                let k = [
                    tap / w.kernel[2] / w.kernel[1],
                    tap / w.kernel[2] % w.kernel[1],
                    tap % w.kernel[2],
                ];
                let at: [isize; 3] = std::array::from_fn(|i| first[i] + (k[i] * w.dilations[i]) as isize);
                if (0..3).all(|i| (0..w.input[i] as isize).contains(&at[i])) {
                    let [d, h, x] = at.map(|v| v as usize);
                    let pixel = (d * w.input[1] + h) * w.input[2] + x;
                    values.push(input[(b * w.in_pixels() + pixel) * p.channels + c]);
                }
                let padded = |i: usize| -(w.pads[i] as isize)..(w.input[i] + p.pads_end[i]) as isize;
                counted += usize::from((0..3).all(|i| padded(i).contains(&at[i])));
            }
            let sum: f32 = values.iter().sum();
            out.push(match pooling {
                Pooling::Max | Pooling::MaxByComparing => {
                    values.iter().copied().fold(f32::NEG_INFINITY, f32::max)
                }
                Pooling::Average => sum / values.len().max(1) as f32,
                Pooling::AverageCountPadding => sum / counted.max(1) as f32,
                Pooling::Norm1 => values.iter().map(|value| value.abs()).sum(),
                Pooling::Norm2 => values.iter().map(|value| value * value).sum::<f32>().sqrt(),
            });
        }
    }
    out
}

#[test]
fn agrees_with_nested_loops() {
    let windows = [
        (
            Window::new_2d([7, 8], [3, 4], [3, 3], [2, 2], [1, 1], [0, 1]),
            [0, 0, 1],
        ),
        // the last window reaches past the padding, as ceil_mode allows
        (
            Window::new_2d([6, 6], [3, 3], [3, 3], [2, 2], [1, 1], [0, 0]),
            [0, 0, 0],
        ),
        (
            Window::new_2d([9, 9], [3, 3], [2, 3], [3, 2], [2, 3], [1, 2]),
            [0, 1, 2],
        ),
        (
            Window::new_2d([1, 50], [1, 1], [1, 50], [1, 1], [1, 1], [0, 0]),
            [0; 3],
        ),
        (
            Window {
                input: [3, 4, 5],
                output: [2, 2, 3],
                kernel: [2, 3, 2],
                strides: [1, 2, 2],
                dilations: [1; 3],
                pads: [0, 1, 1],
            },
            [0, 1, 1],
        ),
    ];
    for threads in [1, 2] {
        let pool = ThreadPool::new(threads);
        for (window, pads_end) in windows {
            for (batch, channels) in [(1, 1), (2, 3), (1, 16), (2, 37), (1, 700)] {
                let params = PoolParams {
                    batch,
                    channels,
                    window,
                    pads_end,
                };
                let plan = PoolPlan::new(params).unwrap();
                let input: Vec<f32> = (0..plan.input_len())
                    .map(|i| ((i * 7919) % 1013) as f32 - 500.0)
                    .collect();
                for pooling in [
                    Pooling::Max,
                    Pooling::MaxByComparing,
                    Pooling::Average,
                    Pooling::AverageCountPadding,
                    Pooling::Norm1,
                    Pooling::Norm2,
                ] {
                    let want = naive(&params, pooling, &input);
                    for isa in Isa::available() {
                        let mut got = vec![f32::NAN; plan.output_len()];
                        plan.run(isa, &pool, pooling, &input, &mut got);
                        for (got, want) in got.iter().zip(&want) {
                            assert!(
                                (got - want).abs() < 1e-3f32.max(1e-6 * want.abs()),
                                "{isa:?} {pooling:?} {params:?}: {got} {want}"
                            );
                        }
                        let wide = plan.clone().with_strides(channels + 3, channels + 2).unwrap();
                        let mut spread = vec![f32::NAN; wide.input_len()];
                        for (to, from) in spread.chunks_mut(channels + 3).zip(input.chunks(channels)) {
                            to[..channels].copy_from_slice(from);
                        }
                        let mut apart = vec![7.0; wide.output_len()];
                        wide.run(isa, &pool, pooling, &spread, &mut apart);
                        for (apart, got) in apart.chunks(channels + 2).zip(got.chunks(channels)) {
                            assert_eq!(&apart[..channels], got);
                            assert!(apart[channels..].iter().all(|&x| x == 7.0));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn maximum_propagates_nan() {
    let plan = PoolPlan::global(1, 3, 2).unwrap();
    for isa in Isa::available() {
        for at in 0..3 {
            let mut input = [1.0; 6];
            input[at * 2] = f32::NAN;
            let mut output = [0.0; 2];
            plan.run(isa, &ThreadPool::new(1), Pooling::Max, &input, &mut output);
            assert!(output[0].is_nan() && output[1] == 1.0, "{isa:?} {at}: {output:?}");
        }
    }
}
