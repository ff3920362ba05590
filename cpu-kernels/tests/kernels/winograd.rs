//! Winograd's convolutions against plain nested loops in `f64`: odd shapes, errors over many channels, infinities.

use polychip_cpu_kernels::conv::{Algorithm, ConvParams, ConvPlan, Window};
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

/// A convolution of `images` with one padding per side.
fn params(images: usize, input: [usize; 2], pads: [[usize; 2]; 2], inner: usize, outer: usize) -> ConvParams {
    let output = std::array::from_fn(|i| input[i] + pads[0][i] + pads[1][i] - 2);
    let window = Window::new_2d(input, output, [3; 2], [1; 2], [1; 2], pads[0]);
    ConvParams::dense(images, inner, outer, 1, window)
}

fn naive(p: &ConvParams, weights: &[f32], bias: &[f32], input: &[f32]) -> Vec<f64> {
    let ([_, ih, iw], [_, oh, ow]) = (p.window.input, p.window.output);
    let mut out = Vec::new();
    for image in 0..p.batch {
        for pixel in 0..oh * ow {
            for (oc, &bias) in bias.iter().enumerate() {
                let mut sum = f64::from(bias);
                for tap in 0..9 {
                    let y = (pixel / ow + tap / 3).wrapping_sub(p.window.pads[1]);
                    let x = (pixel % ow + tap % 3).wrapping_sub(p.window.pads[2]);
                    if y < ih && x < iw {
                        let from = &input[((image * ih + y) * iw + x) * p.in_stride..];
                        for ic in 0..p.in_channels {
                            let weight = weights[(oc * p.in_channels + ic) * 9 + tap];
                            sum += f64::from(from[ic]) * f64::from(weight);
                        }
                    }
                }
                out.push(sum);
            }
        }
    }
    out
}

/// Runs `p` and gives the pixels, `out_stride` apart.
fn run(
    isa: Isa,
    p: ConvParams,
    algorithm: Algorithm,
    threads: usize,
    operands: [&[f32]; 3],
    residual: Option<&[f32]>,
    epilogue: Epilogue,
) -> Vec<f32> {
    let [weights, bias, input] = operands;
    let plan = ConvPlan::with_algorithm(isa, p, algorithm).unwrap();
    assert_eq!(plan.algorithm(), algorithm);
    let pool = ThreadPool::new(threads);
    let mut packed = vec![f32::NAN; plan.packed_len()];
    plan.pack(weights, Some(bias), &mut packed);
    let mut scratch = vec![f32::NAN; plan.scratch_len(&pool)];
    let mut output = vec![7.0; p.batch * p.window.out_pixels() * p.out_stride];
    plan.run(
        &pool,
        &packed,
        input,
        residual.map(Into::into),
        epilogue,
        &mut output,
        &mut scratch,
    );
    output
}

const WINOGRAD: [Algorithm; 2] = [Algorithm::WinogradTwo, Algorithm::WinogradFour];

#[test]
fn odd_shapes_and_epilogues_agree_with_nested_loops() {
    let shapes = [
        params(1, [1, 1], [[1, 1], [1, 1]], 1, 1),
        params(2, [7, 9], [[1, 1], [1, 1]], 3, 5),
        params(1, [8, 8], [[0, 0], [0, 0]], 16, 32),
        params(1, [13, 6], [[2, 0], [1, 3]], 17, 33),
        params(1, [5, 30], [[0, 4], [2, 0]], 20, 70),
        params(3, [4, 4], [[1, 1], [1, 1]], 40, 100),
        params(1, [40, 40], [[1, 1], [1, 1]], 16, 24),
    ];
    let epilogues = [
        (Unary::Identity, None),
        (Unary::Relu, Some(Residual::AfterActivation)),
        (
            Unary::Clip { low: -0.3, high: 0.6 },
            Some(Residual::BeforeActivation),
        ),
        (Unary::Swish { alpha: 1.0 }, Some(Residual::AfterActivation)),
        (Unary::Tanh, Some(Residual::AfterActivation)),
        (Unary::Tanh, Some(Residual::BeforeActivation)),
    ];
    let mut turn = 0;
    for mut p in shapes {
        for strided in [false, true] {
            if strided {
                p.in_stride += 3;
                p.out_stride += 5;
            }
            let weights = numbers(p.out_channels * p.in_channels * 9, 1);
            let bias = numbers(p.out_channels, 2);
            let input = numbers(p.batch * p.window.in_pixels() * p.in_stride, 3);
            let pixels = p.batch * p.window.out_pixels();
            let added = numbers(pixels * p.out_stride, 4);
            let sums = naive(&p, &weights, &bias, &input);
            for isa in Isa::available() {
                for (algorithm, threads) in WINOGRAD.into_iter().flat_map(|a| [(a, 1), (a, 3)]) {
                    let (activation, order) = epilogues[turn % epilogues.len()];
                    turn += 1;
                    let epilogue = Epilogue {
                        activation,
                        residual: order.unwrap_or_default(),
                    };
                    let output = run(
                        isa,
                        p,
                        algorithm,
                        threads,
                        [&weights, &bias, &input],
                        order.map(|_| &added[..]),
                        epilogue,
                    );
                    let f = |x: f64| match activation {
                        Unary::Identity => x,
                        Unary::Relu => x.max(0.0),
                        Unary::Clip { low, high } => x.clamp(low.into(), high.into()),
                        Unary::Tanh => x.tanh(),
                        _ => x / (1.0 + (-x).exp()),
                    };
                    for (at, &got) in output.iter().enumerate() {
                        let (pixel, c) = (at / p.out_stride, at % p.out_stride);
                        let want = match order {
                            _ if c >= p.out_channels => 7.0,
                            None => f(sums[pixel * p.out_channels + c]),
                            Some(Residual::BeforeActivation) => {
                                f(sums[pixel * p.out_channels + c] + f64::from(added[at]))
                            }
                            Some(Residual::AfterActivation) => {
                                f(sums[pixel * p.out_channels + c]) + f64::from(added[at])
                            }
                        };
                        assert!(
                            (f64::from(got) - want).abs() < 2e-5,
                            "{isa:?} {algorithm:?} {threads} {p:?} {epilogue:?}: pixel {pixel}, channel {c}: \
                             {got}, not {want}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_error_over_many_channels_is_bounded() {
    let p = params(1, [16, 16], [[1, 1], [1, 1]], 512, 32);
    let weights = numbers(p.out_channels * p.in_channels * 9, 1);
    let bias = vec![0.0; p.out_channels];
    // not negative, as behind a Relu
    let input: Vec<f32> = numbers(p.window.in_pixels() * p.in_stride, 3)
        .iter()
        .map(|x| x.max(0.0))
        .collect();
    let want = naive(&p, &weights, &bias, &input);
    let largest = want.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    for isa in Isa::available() {
        for algorithm in WINOGRAD {
            let got = run(
                isa,
                p,
                algorithm,
                1,
                [&weights, &bias, &input],
                None,
                Epilogue::NONE,
            );
            let error = got
                .iter()
                .zip(&want)
                .map(|(&got, want)| (f64::from(got) - want).abs())
                .fold(0.0, f64::max);
            assert!(
                error < 1e-5 * largest,
                "{isa:?} {algorithm:?}: {error} of {largest}"
            );
        }
    }
}

#[test]
fn non_finite_values_reach_only_outputs_that_read_them() {
    let p = params(1, [12, 12], [[1, 1], [1, 1]], 4, 3);
    let weights = numbers(p.out_channels * p.in_channels * 9, 1);
    let bias = numbers(p.out_channels, 2);
    for value in [f32::NAN, f32::INFINITY, -3e38] {
        let mut input = numbers(p.window.in_pixels() * p.in_stride, 3);
        input[(5 * 12 + 6) * 4 + 1] = value;
        let want = naive(&p, &weights, &bias, &input);
        for isa in Isa::available() {
            for algorithm in WINOGRAD {
                for activation in [Unary::Identity, Unary::Tanh] {
                    let got = run(
                        isa,
                        p,
                        algorithm,
                        1,
                        [&weights, &bias, &input],
                        None,
                        Epilogue::activation(activation),
                    );
                    for (at, (&got, &want)) in got.iter().zip(&want).enumerate() {
                        let want = if activation == Unary::Tanh {
                            want.tanh()
                        } else {
                            want
                        };
                        let got = f64::from(got);
                        let same = got == want
                            || (got.is_nan() && want.is_nan())
                            || (got - want).abs() <= 2e-5 * want.abs().max(1.0);
                        assert!(
                            same,
                            "{isa:?} {algorithm:?}, {value} in: value {at} is {got}, not {want}"
                        );
                    }
                }
            }
        }
    }
}
