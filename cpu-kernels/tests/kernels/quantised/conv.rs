//! Convolutions of codes against plain nested loops, over random shapes, zeros and strides and every instruction set.

use polychip_cpu_kernels::conv::{ConvParams, Window};
use polychip_cpu_kernels::quantised::*;
use polychip_cpu_kernels::quantised::{CodeRange, Sum};
use polychip_cpu_kernels::{Isa, ThreadPool};

/// Numbers that look random.
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 8
    }
    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 3) as u8).collect()
    }
}

/// The exact sums, dense `[batch, out pixels, out channels]`.
fn naive(p: &ConvParams, weights: &[i8], bias: &[i32], input: &[u8], zero: u8) -> Vec<i32> {
    let w = &p.window;
    let (inner, per_group) = (p.in_channels / p.groups, p.out_channels / p.groups);
    let mut out = Vec::new();
    for b in 0..p.batch {
        for pixel in 0..w.out_pixels() {
            let first = w.first_tap(pixel);
            for oc in 0..p.out_channels {
                let mut sum = bias[oc];
                for tap in 0..w.taps() {
                    let k = [
                        tap / w.kernel[2] / w.kernel[1],
                        tap / w.kernel[2] % w.kernel[1],
                        tap % w.kernel[2],
                    ];
                    let at: [isize; 3] = std::array::from_fn(|i| first[i] + (k[i] * w.dilations[i]) as isize);
                    if !(0..3).all(|i| (0..w.input[i] as isize).contains(&at[i])) {
                        continue;
                    }
                    let [d, h, x] = at.map(|v| v as usize);
                    let pixel = (d * w.input[1] + h) * w.input[2] + x;
                    for ic in 0..inner {
                        let code =
                            input[(b * w.in_pixels() + pixel) * p.in_stride + oc / per_group * inner + ic];
                        let weight = weights[(oc * inner + ic) * w.taps() + tap];
                        sum += (i32::from(code) - i32::from(zero)) * i32::from(weight);
                    }
                }
                out.push(sum);
            }
        }
    }
    out
}

fn random_params(r: &mut Random) -> ConvParams {
    let (kernel, strides) = ([1 + r.below(3), 1 + r.below(4)], [1 + r.below(2), 1 + r.below(3)]);
    let dilations = [1 + r.below(2), 1 + usize::from(r.below(4) == 0)];
    let pads = [r.below(3), r.below(3)];
    let input = [1 + r.below(9), 1 + r.below(14)];
    let output: [usize; 2] = std::array::from_fn(|i| {
        (input[i] + 2 * pads[i])
            .checked_sub((kernel[i] - 1) * dilations[i] + 1)
            .map_or(0, |rest| rest / strides[i] + 1)
    });
    let window = Window::new_2d(input, output, kernel, strides, dilations, pads);
    let wide = r.below(80) + 1;
    let (groups, inner, outer) = match r.below(6) {
        0 => (wide, 1, 1),
        1 => (1 + r.below(3), 1 + r.below(9), 1 + r.below(20)),
        2 => (1, 1 + r.below(8), 1 + r.below(70)),
        3 => (1, 4 * (1 + r.below(9)), 1 + r.below(70)),
        // whole tiles deep
        4 => (1, 64 * (1 + r.below(3)), 1 + r.below(70)),
        _ => (1, 1 + r.below(40), 1 + r.below(40)),
    };
    let mut params = ConvParams::dense(1 + r.below(2), groups * inner, groups * outer, groups, window);
    params.in_stride += r.below(3);
    params.out_stride += r.below(3);
    params
}

/// The same with weights of two bytes: each pixel is read twice.
fn of_two_bytes(mut params: ConvParams) -> ConvParams {
    (params.window.kernel[0], params.window.dilations[0]) = (2, 0);
    params
}

#[test]
fn sums_are_exact_and_results_rounded_over_random_shapes() {
    let pools = [ThreadPool::new(1), ThreadPool::new(3)];
    let mut r = Random(7);
    for round in 0..if cfg!(debug_assertions) { 120 } else { 600 } {
        let mut params = random_params(&mut r);
        if r.below(4) == 0 {
            params = of_two_bytes(params);
        }
        let (taps, inner) = (params.window.taps(), params.in_channels / params.groups);
        let extreme = round % 10 == 0;
        let mut weights: Vec<i8> = r
            .bytes(params.out_channels * inner * taps)
            .iter()
            .map(|&b| b as i8)
            .collect();
        let mut input = r.bytes(params.batch * params.window.in_pixels() * params.in_stride);
        let zero = [0, 255, 128, 3][r.below(4)];
        if extreme {
            weights.fill(-128);
            input.fill(255 - zero);
        }
        let bias: Vec<i32> = (0..params.out_channels)
            .map(|_| r.below(2000) as i32 - 1000)
            .collect();
        // powers of two: the products round nowhere
        let factor: Vec<f32> = (0..params.out_channels)
            .map(|_| 1.0 / (1 << (4 + r.below(9))) as f32)
            .collect();
        let shift: Vec<f32> = (0..params.out_channels)
            .map(|_| r.below(8) as f32 / 4.0)
            .collect();
        let want = naive(&params, &weights, &bias, &input, zero);
        let codes = CodeRange {
            zero: r.below(256) as u8,
            low: r.below(100) as u8,
            high: 255 - r.below(100) as u8,
        };
        let pixels = params.batch * params.window.out_pixels();
        let len = pixels * params.out_stride;
        let other = r.bytes(len);
        let given = Weights {
            values: &weights,
            input_zero: zero,
            bias: &bias,
            factor: &factor,
            shift: &shift,
            zeros: &[],
        };
        let pool = &pools[round % 2];
        for isa in Isa::available()
            .into_iter()
            .flat_map(|isa| [isa, isa.without_tiles(), isa.without_extensions()])
        {
            let name = isa.bytes_name();
            for wide in [false, true] {
                let plan = ConvPlan::new(isa, params).unwrap();
                let mut packed = vec![0.0; plan.packed_len()];
                plan.pack(&given, &mut packed);
                let mut scratch = vec![0.0; plan.scratch_len(pool)];
                let place = |i: usize| i / params.out_channels * params.out_stride + i % params.out_channels;
                let real = |i: usize| {
                    want[i] as f32 * factor[i % params.out_channels] + shift[i % params.out_channels]
                };
                let rounded = |x: f32, codes: CodeRange| {
                    let (low, high) = codes.limits();
                    x.clamp(low, high).round_ties_even()
                };
                if wide {
                    let mut sums = vec![7; len];
                    plan.run(
                        pool,
                        &packed,
                        &input,
                        zero,
                        None,
                        Output::Sums(&mut sums),
                        &mut scratch,
                    );
                    let mut floats = vec![7.0; len];
                    let limits = Output::Floats(&mut floats, -50.0, 60.0);
                    plan.run(pool, &packed, &input, zero, None, limits, &mut scratch);
                    for (i, &want) in want.iter().enumerate() {
                        assert_eq!(sums[place(i)], want, "{name} {params:?} {i}");
                        assert_eq!(
                            floats[place(i)],
                            real(i).clamp(-50.0, 60.0),
                            "{name} {params:?} {i}"
                        );
                    }
                    continue;
                }
                let mut out = vec![7; len];
                plan.run(
                    pool,
                    &packed,
                    &input,
                    zero,
                    None,
                    Output::Codes(&mut out, codes),
                    &mut scratch,
                );
                for i in 0..want.len() {
                    let want = rounded(real(i), codes) + f32::from(codes.zero);
                    assert_eq!(f32::from(out[place(i)]), want, "{name} {params:?} {i}");
                }
                if params.groups > 1 {
                    continue;
                }
                let between = CodeRange::all(31);
                let added = Added {
                    codes: &other,
                    factor: 0.5,
                    shift: -4.0,
                    rounded: (between, 0.25),
                };
                plan.run(
                    pool,
                    &packed,
                    &input,
                    zero,
                    Some(added),
                    Output::Codes(&mut out, codes),
                    &mut scratch,
                );
                for i in 0..want.len() {
                    let sum = rounded(real(i), between) * 0.25 + f32::from(other[place(i)]) * 0.5 - 4.0;
                    let want = rounded(sum, codes) + f32::from(codes.zero);
                    assert_eq!(f32::from(out[place(i)]), want, "{name} {params:?} {i}");
                }
            }
        }
    }
}

#[test]
fn weights_that_keep_a_zero_are_those_less_it() {
    let pool = ThreadPool::new(2);
    let mut r = Random(23);
    for _ in 0..if cfg!(debug_assertions) { 60 } else { 300 } {
        let mut params = random_params(&mut r);
        if params.groups > 1 {
            (params.in_channels, params.out_channels) = (params.in_channels / params.groups, 21);
            params.groups = 1;
            params.out_stride = params.out_stride.max(21);
        }
        let depth = params.in_channels * params.window.taps();
        let stored: Vec<i8> = r
            .bytes(params.out_channels * depth)
            .iter()
            .map(|&b| b as i8)
            .collect();
        let zeros: Vec<i32> = (0..params.out_channels)
            // not -128: 127 less that has no half in a byte
            .map(|_| r.below(255) as i32 - 127)
            .collect();
        let input = r.bytes(params.batch * params.window.in_pixels() * params.in_stride);
        let input_zero = r.below(256) as u8;
        let bias: Vec<i32> = (0..params.out_channels).map(|_| r.below(2000) as i32).collect();
        let (factor, shift) = (vec![1.0 / 512.0; zeros.len()], vec![0.25; zeros.len()]);
        // the same sums of weights in two bytes
        let mut halves = Vec::new();
        for (output, own) in stored.chunks_exact(depth).enumerate() {
            for taps in own.chunks_exact(params.window.taps()) {
                let whole = |&value: &i8| i32::from(value) - zeros[output];
                halves.extend(taps.iter().map(|x| whole(x).div_euclid(2) as i8));
                halves.extend(taps.iter().map(|x| (whole(x) + 1).div_euclid(2) as i8));
            }
        }
        let mut twice = params;
        if twice.window.kernel[0] != 1 {
            continue;
        }
        twice = of_two_bytes(twice);
        let want = naive(&twice, &halves, &bias, &input, input_zero);
        let given = Weights {
            values: &stored,
            input_zero,
            bias: &bias,
            factor: &factor,
            shift: &shift,
            zeros: &zeros,
        };
        for isa in Isa::available()
            .into_iter()
            .flat_map(|isa| [isa, isa.without_tiles(), isa.without_extensions()])
        {
            let plan = ConvPlan::new(isa, params).unwrap().keeping_zeros();
            let mut packed = vec![0.0; plan.packed_len()];
            plan.pack(&given, &mut packed);
            let mut scratch = vec![0.0; plan.scratch_len(&pool)];
            let len = params.batch * params.window.out_pixels() * params.out_stride;
            let (mut codes, mut floats) = (vec![7; len], vec![7.0; len]);
            let to = Output::Codes(&mut codes, CodeRange::all(100));
            plan.run(&pool, &packed, &input, input_zero, None, to, &mut scratch);
            let to = Output::Floats(&mut floats, -9e9, 9e9);
            plan.run(&pool, &packed, &input, input_zero, None, to, &mut scratch);
            for (i, &want) in want.iter().enumerate() {
                let at = i / params.out_channels * params.out_stride + i % params.out_channels;
                let want = want as f32 / 512.0 + 0.25;
                assert!(
                    (floats[at] - want).abs() <= 0.05,
                    "{} {params:?} {i}",
                    isa.bytes_name()
                );
                let code = (want.round_ties_even() + 100.0).clamp(0.0, 255.0);
                let off = (f32::from(codes[at]) - code).abs();
                assert!(off <= 1.0, "{} {params:?} {i}", isa.bytes_name());
            }
        }
    }
}

#[test]
fn elementwise_functions_match_their_definitions() {
    let mut r = Random(3);
    let pool = ThreadPool::new(2);
    for len in [0, 1, 3, 15, 16, 17, 63, 64, 65, 127, 1000, 70_001] {
        let (a, b) = (r.bytes(len), r.bytes(len));
        let codes = CodeRange {
            zero: 20,
            low: 10,
            high: 240,
        };
        let clamp = |x: f32| (x.clamp(-10.0, 220.0).round_ties_even() + 20.0) as u8;
        for isa in Isa::available() {
            let mut y = vec![0; len];
            let sum = Sum {
                a: 0.5,
                b: 0.25,
                shift: -3.0,
            };
            polychip_cpu_kernels::quantised::add(isa, &pool, &a, &b, sum, codes, &mut y);
            for i in 0..len {
                assert_eq!(
                    y[i],
                    clamp(f32::from(a[i]) * 0.5 + f32::from(b[i]) * 0.25 - 3.0),
                    "{isa:?} {i}"
                );
            }
            polychip_cpu_kernels::quantised::multiply(isa, &pool, (&a, &b), [9, 130], 0.125, codes, &mut y);
            for i in 0..len {
                let want = clamp((f32::from(a[i]) - 9.0) * (f32::from(b[i]) - 130.0) * 0.125);
                assert_eq!(y[i], want, "{isa:?} {i}");
            }
            let mut floats = vec![0.0; len];
            polychip_cpu_kernels::quantised::dequantise(isa, &pool, &a, 0.5, 11, &mut floats);
            for i in 0..len {
                assert_eq!(floats[i], (f32::from(a[i]) - 11.0) * 0.5);
            }
            let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30];
            for (x, odd) in floats.iter_mut().zip(odd) {
                *x = odd;
            }
            polychip_cpu_kernels::quantised::quantise(isa, &pool, &floats, 0.75, codes, &mut y);
            for i in 0..len {
                let x = floats[i] / 0.75;
                let want = if x.is_nan() { 10 } else { clamp(x) };
                assert_eq!(y[i], want, "{isa:?} {i} {x}");
            }
        }
        for (isa, parts) in Isa::available().into_iter().zip([1, 2, 3].into_iter().cycle()) {
            let row = len / parts;
            let (x, stride) = (&a[..row * parts], row + 3);
            let mut y = vec![7; 5 + parts * stride];
            let rows = polychip_cpu_kernels::quantised::Rows {
                len: row.max(1),
                offset: 5,
                stride,
            };
            polychip_cpu_kernels::quantised::requantise(isa, &pool, x, (0.5, 11), 0.75, codes, rows, &mut y);
            for (i, &x) in x.iter().enumerate() {
                let want = clamp((f32::from(x) - 11.0) * 0.5 / 0.75);
                assert_eq!(y[5 + i / row * stride + i % row], want, "{isa:?} {i}");
            }
            assert_eq!((y[4], y[5 + row]), (7, 7), "{isa:?}");
        }
        let mut y = vec![0; len];
        polychip_cpu_kernels::quantised::flip(&pool, &a, &mut y);
        assert!(y.iter().zip(&a).all(|(&y, &a)| y == (a as i8 as i16 + 128) as u8));
        let table: [u8; 256] = std::array::from_fn(|i| (i * 7) as u8);
        polychip_cpu_kernels::quantised::map(&pool, &table, &a, &mut y);
        assert!(y.iter().zip(&a).all(|(&y, &a)| y == a.wrapping_mul(7)));
    }
    // a shorter right operand repeats
    let (a, b) = (r.bytes(12), r.bytes(4));
    for isa in Isa::available() {
        let mut y = vec![0; 12];
        polychip_cpu_kernels::quantised::multiply(
            isa,
            &pool,
            (&a, &b),
            [0, 0],
            1.0 / 256.0,
            CodeRange::all(0),
            &mut y,
        );
        for i in 0..12 {
            let want = (f32::from(a[i]) * f32::from(b[i % 4]) / 256.0).round_ties_even();
            assert_eq!(f32::from(y[i]), want);
        }
    }
}

#[test]
fn pools_match_their_definitions() {
    let mut r = Random(11);
    let pool = ThreadPool::new(2);
    for round in 0..60 {
        let params = random_params(&mut r);
        let (window, batch, channels) = (params.window, params.batch, params.in_channels);
        let x = r.bytes(batch * window.in_pixels() * channels);
        let (zero, codes) = (r.below(256) as u8, CodeRange::all(r.below(256) as u8));
        let len = batch * window.out_pixels() * channels;
        for isa in Isa::available() {
            let (mut most, mut mean) = (vec![1; len], vec![1; len]);
            polychip_cpu_kernels::quantised::max_pool(isa, &pool, (batch, channels), &window, &x, &mut most);
            let pads_end = [0, window.pads[1], window.pads[2]];
            let shape = polychip_cpu_kernels::pool::PoolParams {
                batch,
                channels,
                window,
                pads_end,
            };
            let padding = round % 2 == 0;
            let plan = polychip_cpu_kernels::quantised::AveragePlan::new(shape, padding).unwrap();
            plan.run(isa, &pool, &x, zero, 0.5, codes, &mut mean);
            for i in 0..len {
                let (pixel, c) = (i / channels, i % channels);
                let first = window.first_tap(pixel % window.out_pixels());
                let (mut top, mut sum, mut inside, mut padded) = (0u8, 0i32, 0, 0);
                for kh in 0..window.kernel[1] {
                    for kw in 0..window.kernel[2] {
                        let h = first[1] + (kh * window.dilations[1]) as isize;
                        let w = first[2] + (kw * window.dilations[2]) as isize;
                        let within = |at: isize, i: usize, pad: usize| {
                            at >= -(pad as isize) && at < (window.input[i] + pad) as isize
                        };
                        padded += i32::from(within(h, 1, window.pads[1]) && within(w, 2, window.pads[2]));
                        if within(h, 1, 0) && within(w, 2, 0) {
                            let at = (pixel / window.out_pixels() * window.input[1] + h as usize)
                                * window.input[2];
                            let code = x[(at + w as usize) * channels + c];
                            top = top.max(code);
                            sum += i32::from(code) - i32::from(zero);
                            inside += 1;
                        }
                    }
                }
                assert_eq!(most[i], top, "{isa:?} {params:?}");
                let count = if padding { padded } else { inside }.max(1);
                let want =
                    (f64::from(sum) / f64::from(count) / 2.0).round_ties_even() + f64::from(codes.zero);
                let off = (f64::from(mean[i]) - want.clamp(0.0, 255.0)).abs();
                assert!(off <= 1.0, "{isa:?} {params:?}: {} {want}", mean[i]);
            }
        }
    }
}
