//! Convolutions against plain nested loops in `f64`, over odd shapes and every instruction set of this CPU.

use half::bf16;
use polychip_cpu_kernels::conv::*;
use polychip_cpu_kernels::gemm::Elements;
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

/// `conv + bias`, dense `[batch, out pixels, out channels]`.
fn naive(p: &ConvParams, weights: &[f32], bias: &[f32], input: &[f32]) -> Vec<f64> {
    let w = &p.window;
    let (inner, per_group) = (p.in_channels / p.groups, p.out_channels / p.groups);
    let mut out = Vec::new();
    for b in 0..p.batch {
        for pixel in 0..w.out_pixels() {
            for oc in 0..p.out_channels {
                let o = [
                    pixel / w.output[2] / w.output[1],
                    pixel / w.output[2] % w.output[1],
                    pixel % w.output[2],
                ];
                let mut sum = f64::from(bias[oc]);
                for ic in 0..inner {
                    for tap in 0..w.taps() {
                        let k = [
                            tap / w.kernel[2] / w.kernel[1],
                            tap / w.kernel[2] % w.kernel[1],
                            tap % w.kernel[2],
                        ];
                        let at: [isize; 3] = std::array::from_fn(|i| {
                            (o[i] * w.strides[i] + k[i] * w.dilations[i]) as isize - w.pads[i] as isize
                        });
                        if (0..3).all(|i| (0..w.input[i] as isize).contains(&at[i])) {
                            let [d, h, x] = at.map(|v| v as usize);
                            let pixel = (d * w.input[1] + h) * w.input[2] + x;
                            let channel = oc / per_group * inner + ic;
                            let value = input[(b * w.in_pixels() + pixel) * p.in_stride + channel];
                            sum += f64::from(value) * f64::from(weights[(oc * inner + ic) * w.taps() + tap]);
                        }
                    }
                }
                out.push(sum);
            }
        }
    }
    out
}

fn shape(
    input: [usize; 3],
    kernel: [usize; 3],
    strides: [usize; 3],
    dilations: [usize; 3],
    pads: [usize; 3],
    pads_end: [usize; 3],
) -> Window {
    let output = std::array::from_fn(|i| {
        let reach = (kernel[i] - 1) * dilations[i] + 1;
        (input[i] + pads[i] + pads_end[i])
            .checked_sub(reach)
            .map_or(0, |rest| rest / strides[i] + 1)
    });
    Window {
        input,
        output,
        kernel,
        strides,
        dilations,
        pads,
    }
}

fn cases() -> Vec<ConvParams> {
    let one = [1, 1, 1];
    let none = [0, 0, 0];
    let windows = [
        shape([1, 1, 1], one, one, one, none, none),
        shape([1, 7, 7], one, one, one, none, none),
        shape([1, 9, 5], one, [1, 2, 2], one, none, none),
        shape([1, 8, 11], [1, 3, 3], one, one, [0, 1, 1], [0, 1, 1]),
        shape([1, 9, 13], [1, 3, 3], [1, 2, 2], one, [0, 1, 1], [0, 1, 0]),
        shape([1, 12, 12], [1, 5, 3], [1, 3, 1], [1, 1, 2], [0, 4, 3], [0, 4, 3]),
        shape([1, 6, 6], [1, 2, 2], [1, 3, 3], one, none, none),
        shape([1, 17, 17], [1, 7, 7], [1, 2, 2], one, [0, 3, 3], [0, 3, 3]),
        shape([1, 1, 19], [1, 1, 3], [1, 1, 2], one, [0, 0, 1], [0, 0, 1]),
        shape([4, 5, 6], [2, 3, 3], [1, 2, 1], [2, 1, 1], [1, 1, 1], [1, 0, 1]),
        shape([1, 3, 3], [1, 3, 3], one, one, [0, 5, 5], [0, 5, 5]),
        shape([1, 0, 4], [1, 1, 1], one, one, none, none),
        shape([1, 2, 2], [1, 3, 3], one, one, none, none),
    ];
    let channels = [
        (1, 1, 1),
        (3, 24, 1),
        (16, 33, 1),
        (5, 70, 1),
        (6, 9, 3),
        (33, 33, 33),
        (16, 16, 16),
        (4, 8, 4),
        (20, 20, 5),
        (12, 12, 6),
        (48, 48, 6),
    ];
    let mut all = Vec::new();
    for window in windows {
        for (in_channels, out_channels, groups) in channels {
            let batch = 1 + usize::from(in_channels != 3);
            all.push(ConvParams::dense(
                batch,
                in_channels,
                out_channels,
                groups,
                window,
            ));
        }
    }
    let mut strided = ConvParams::dense(2, 5, 6, 1, windows[3]);
    (strided.in_stride, strided.out_stride) = (9, 11);
    all.push(strided);
    let mut strided = ConvParams::dense(2, 18, 18, 18, windows[3]);
    (strided.in_stride, strided.out_stride) = (19, 21);
    all.push(strided);
    // deep enough to be summed up in pieces: of one tap's channels, of some taps
    for (in_channels, window) in [(520, windows[8]), (300, windows[3]), (40, windows[3])] {
        all.push(ConvParams::dense(1, in_channels, 9, 1, window));
    }
    all
}

#[test]
fn agrees_with_nested_loops() {
    let epilogues = [
        (Unary::Identity, None),
        (
            Unary::Clip { low: -0.3, high: 0.6 },
            Some(Residual::BeforeActivation),
        ),
        (Unary::Relu, Some(Residual::AfterActivation)),
        (Unary::Swish { alpha: 1.0 }, Some(Residual::BeforeActivation)),
        (Unary::Swish { alpha: 1.0 }, Some(Residual::AfterActivation)),
    ];
    let pools = [ThreadPool::new(1), ThreadPool::new(3)];
    for (number, p) in cases().into_iter().enumerate() {
        let taps = p.window.taps();
        let weights = numbers(p.out_channels * (p.in_channels / p.groups) * taps, 1);
        let bias = numbers(p.out_channels, 2);
        let input = numbers(p.batch * p.window.in_pixels() * p.in_stride, 3);
        let pixels = p.batch * p.window.out_pixels();
        let added = numbers(pixels * p.out_stride, 4);
        let sums = naive(&p, &weights, &bias, &input);
        let (activation, order) = epilogues[number % epilogues.len()];
        let epilogue = Epilogue {
            activation,
            residual: order.unwrap_or_default(),
        };
        for isa in Isa::available() {
            let plan = ConvPlan::new(isa, p).unwrap();
            let mut packed = vec![f32::NAN; plan.packed_len()];
            plan.pack(&weights, Some(&bias), &mut packed);
            for pool in &pools {
                let mut scratch = vec![f32::NAN; plan.scratch_len(pool)];
                let mut output = vec![7.0; pixels * p.out_stride];
                let residual = order.map(|_| (&added).into());
                plan.run(
                    pool,
                    &packed,
                    &input,
                    residual,
                    epilogue,
                    &mut output,
                    &mut scratch,
                );
                for pixel in 0..pixels {
                    for c in 0..p.out_stride {
                        let got = output[pixel * p.out_stride + c];
                        let want = if c < p.out_channels {
                            let sum = sums[pixel * p.out_channels + c];
                            let plus = f64::from(added[pixel * p.out_stride + c]);
                            let f = |x: f64| match activation {
                                Unary::Identity => x,
                                Unary::Relu => x.max(0.0),
                                Unary::Clip { low, high } => x.clamp(low.into(), high.into()),
                                _ => x / (1.0 + (-x).exp()),
                            };
                            match order {
                                None => f(sum),
                                Some(Residual::BeforeActivation) => f(sum + plus),
                                Some(Residual::AfterActivation) => f(sum) + plus,
                            }
                        } else {
                            7.0
                        };
                        let error = (f64::from(got) - want).abs();
                        assert!(
                            error < if taps * p.in_channels > 1000 { 6e-5 } else { 2e-5 },
                            "{isa:?} {p:?}: pixel {pixel}, channel {c}: {got}, not {want}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn planar_and_channels_last_inputs_give_the_same_results() {
    let pool = ThreadPool::new(2);
    let mut tried = 0;
    for p in cases() {
        let w = &p.window;
        let weights = numbers(p.out_channels * (p.in_channels / p.groups) * w.taps(), 1);
        let bias = numbers(p.out_channels, 2);
        let input = numbers(p.batch * w.in_pixels() * p.in_stride, 3);
        let mut planes = Vec::new();
        for image in input.chunks_exact((w.in_pixels() * p.in_stride).max(1)) {
            for c in 0..p.in_channels {
                for pixel in image.chunks_exact(p.in_stride) {
                    planes.push(pixel[c]);
                }
            }
        }
        let sums = naive(&p, &weights, &bias, &input);
        for (isa, elements) in Isa::available()
            .into_iter()
            .flat_map(|isa| [(isa, Elements::F32), (isa, Elements::Bf16)])
        {
            let Some(plan) = ConvPlan::of(elements, isa, p).unwrap().planar() else {
                continue;
            };
            tried += 1;
            let mut packed = vec![f32::NAN; plan.packed_len()];
            plan.pack(&weights, Some(&bias), &mut packed);
            let mut scratch = vec![f32::NAN; plan.scratch_len(&pool)];
            let pixels = p.batch * w.out_pixels();
            let (output, slack): (Vec<f32>, f64) = if elements == Elements::F32 {
                let mut output = vec![7.0; pixels * p.out_stride];
                plan.run(
                    &pool,
                    &packed,
                    &planes,
                    None,
                    Epilogue::NONE,
                    &mut output,
                    &mut scratch,
                );
                (output, 2e-5)
            } else {
                let mut output = vec![bf16::from_f32(7.0); pixels * p.out_stride];
                plan.run(
                    &pool,
                    &packed,
                    &planes,
                    None,
                    Epilogue::NONE,
                    &mut output,
                    &mut scratch,
                );
                (output.iter().map(|x| x.to_f32()).collect(), 4e-2)
            };
            for (pixel, sums) in sums.chunks_exact(p.out_channels).enumerate() {
                for (got, want) in output[pixel * p.out_stride..].iter().zip(sums) {
                    let error = (f64::from(*got) - want).abs();
                    assert!(
                        error < slack * want.abs().max(1.0),
                        "{isa:?} {elements:?} {p:?}: {got}, not {want}"
                    );
                }
            }
        }
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn residual_may_share_an_image_with_the_output() {
    let pool = ThreadPool::new(2);
    let window = Window::new_2d([9, 7], [9, 7], [3, 3], [1, 1], [1, 1], [1, 1]);
    for (inner, groups) in [(20, 1), (18, 18), (3, 1)] {
        let out = if groups > 1 { groups } else { 18 };
        let mut p = ConvParams::dense(2, inner, out, groups, window);
        p.out_stride = 2 * out + 3;
        let (pixels, first) = (2 * 63, out + 1);
        let weights = numbers(out * (inner / groups) * 9, 1);
        let input = numbers(pixels * inner, 3);
        let image = numbers(pixels * p.out_stride, 4);
        let epilogue = Epilogue {
            activation: Unary::Swish { alpha: 1.0 },
            residual: Residual::AfterActivation,
        };
        for algorithm in Algorithm::ALL {
            let plan = ConvPlan::with_algorithm(Isa::detect(), p, algorithm).unwrap();
            let mut packed = vec![0.0; plan.packed_len()];
            plan.pack(&weights, None, &mut packed);
            let mut scratch = vec![0.0; plan.scratch_len(&pool)];
            let mut want = image.clone();
            let residual = Some((&image).into());
            plan.run(
                &pool,
                &packed,
                &input,
                residual,
                epilogue,
                &mut want[first..],
                &mut scratch,
            );
            let mut got = image.clone();
            plan.run_beside(
                &pool,
                &packed,
                &input,
                epilogue,
                &mut got[..],
                first,
                &mut scratch,
            );
            assert!(want != image);
            assert_eq!(got, want, "{algorithm:?} {inner} {groups}");
        }
    }
}

#[test]
fn bad_shapes_are_refused() {
    let window = Window::new_2d([4, 4], [4, 4], [1, 1], [1, 1], [1, 1], [0, 0]);
    let good = ConvParams::dense(1, 4, 4, 1, window);
    let refused = |params: ConvParams| ConvPlan::new(Isa::SCALAR, params).is_err();
    assert!(!refused(good));
    assert!(refused(ConvParams { groups: 0, ..good }));
    assert!(refused(ConvParams { groups: 3, ..good }));
    assert!(refused(ConvParams { in_stride: 3, ..good }));
    assert!(refused(ConvParams {
        batch: usize::MAX,
        ..good
    }));
    assert!(refused(ConvParams {
        window: Window {
            strides: [1, 0, 1],
            ..window
        },
        ..good
    }));
    assert!(refused(ConvParams {
        window: Window {
            kernel: [1, 0, 1],
            ..window
        },
        ..good
    }));
    assert!(refused(ConvParams {
        window: Window {
            dilations: [1, 1, usize::MAX],
            ..window
        },
        ..good
    }));
    assert!(refused(ConvParams {
        window: Window {
            pads: [1, 1, usize::MAX],
            ..window
        },
        ..good
    }));
}

#[test]
fn bf16_is_the_f32_convolution_of_the_same_numbers_rounded() {
    let halves = |x: Vec<f32>| -> Vec<bf16> { x.into_iter().map(bf16::from_f32).collect() };
    let wide = |x: &[bf16]| -> Vec<f32> { x.iter().map(|x| x.to_f32()).collect() };
    let epilogues = [
        (Unary::Identity, None),
        (Unary::Relu, Some(Residual::BeforeActivation)),
        (Unary::Swish { alpha: 1.0 }, Some(Residual::AfterActivation)),
        (Unary::Swish { alpha: 1.0 }, None),
    ];
    let pools = [ThreadPool::new(1), ThreadPool::new(3)];
    for (number, p) in cases().into_iter().enumerate() {
        let taps = p.window.taps();
        let mut weights = wide(&halves(numbers(
            p.out_channels * (p.in_channels / p.groups) * taps,
            1,
        )));
        if number % 4 == 3 && !weights.is_empty() {
            // a neighbour of what a tap reads must not be multiplied, not even by zero
            weights.fill(0.0);
        }
        let bias = numbers(p.out_channels, 2);
        let mut input = halves(numbers(p.batch * p.window.in_pixels() * p.in_stride, 3));
        if number % 3 == 1
            && let Some(x) = input.last_mut()
        {
            *x = bf16::NAN;
        }
        let pixels = p.batch * p.window.out_pixels();
        let added = halves(numbers(pixels * p.out_stride, 4));
        let (wide_input, wide_added) = (wide(&input), wide(&added));
        let (activation, order) = epilogues[number % epilogues.len()];
        let epilogue = Epilogue {
            activation,
            residual: order.unwrap_or_default(),
        };
        for isa in Isa::available() {
            let plan = ConvPlan::new(isa, p).unwrap();
            let mut packed = vec![f32::NAN; plan.packed_len()];
            plan.pack(&weights, Some(&bias), &mut packed);
            let mut want = vec![7.0; pixels * p.out_stride];
            let mut scratch = vec![f32::NAN; plan.scratch_len(&pools[0])];
            let residual = order.map(|_| (&wide_added).into());
            plan.run(
                &pools[0],
                &packed,
                &wide_input,
                residual,
                epilogue,
                &mut want,
                &mut scratch,
            );
            let plan = ConvPlan::of(Elements::Bf16, isa, p).unwrap();
            let mut packed = vec![f32::NAN; plan.packed_len()];
            plan.pack(&weights, Some(&bias), &mut packed);
            for pool in &pools {
                let mut scratch = vec![f32::NAN; plan.scratch_len(pool)];
                let mut outputs = vec![vec![bf16::from_f32(7.0); pixels * p.out_stride]];
                let residual = || order.map(|_| (&added).into());
                plan.run(
                    pool,
                    &packed,
                    &input,
                    residual(),
                    epilogue,
                    &mut outputs[0],
                    &mut scratch,
                );
                if plan.reads_f32() {
                    outputs.push(vec![bf16::from_f32(7.0); pixels * p.out_stride]);
                    plan.run(
                        pool,
                        &packed,
                        &wide_input,
                        residual(),
                        epilogue,
                        &mut outputs[1],
                        &mut scratch,
                    );
                }
                for output in outputs {
                    for (i, (got, want)) in wide(&output).into_iter().zip(&want).enumerate() {
                        // depthwise applies a function that is not a clamp to what it stored, and adds to that
                        let twice = plan.is_depthwise() && activation != Unary::Relu;
                        let (bits, slack) = if twice { (64.0, 4e-3) } else { (256.0, 1e-5) };
                        let right =
                            got.is_nan() && want.is_nan() || (got - want).abs() <= want.abs() / bits + slack;
                        assert!(right, "{isa:?} {p:?} {activation:?}: [{i}] is {got}, not {want}");
                    }
                }
            }
        }
    }
}
