//! Sampling against the scalar reference.

use polychip_cpu_kernels::reference::resize::{self, Interpolation, Nearest, Outside};
use polychip_cpu_kernels::reference::window::Window;
use polychip_cpu_kernels::reference::{Element, Tensor, conv, pool};
use polychip_cpu_kernels::sample::*;
use polychip_cpu_kernels::{Isa, ThreadPool};

fn numbers(len: usize, low: f32, high: f32, seed: usize) -> Vec<f32> {
    (0..len)
        .map(|i| low + (high - low) * ((i * 7919 + seed * 104_729) % 1009) as f32 / 1008.0)
        .collect()
}

fn tensor(shape: &[usize], x: &[f32]) -> Tensor {
    let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    Tensor::from_f64s(Element::F32, shape.to_vec(), &wide).unwrap()
}

fn same(got: &[f32], want: &Tensor, words: &str) {
    let want = want.to_f64s().unwrap();
    assert_eq!(got.len(), want.len(), "{words}");
    for (i, (&got, want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(got) - want).abs();
        assert!(
            error <= 2e-5 * want.abs().max(1.0),
            "{words}: {got} for {want} at {i}"
        );
    }
}

#[test]
fn grid_sampling_matches_the_reference() {
    let (n, c) = (2, 3);
    for threads in [1, 3] {
        let pool = ThreadPool::new(threads);
        for isa in Isa::available() {
            for ([h, w], [rows, columns]) in [
                ([5, 7], [3, 11]),
                ([1, 4], [6, 6]),
                ([9, 2], [1, 1]),
                ([6, 6], [40, 57]),
            ] {
                let x = numbers(n * c * h * w, -2.0, 2.0, 1);
                // beyond the image too, and at its edges
                let mut grid = numbers(n * rows * columns * 2, -1.8, 1.8, 2);
                grid[0] = -1.0;
                grid[1] = 1.0;
                let (image, points) = (tensor(&[n, c, h, w], &x), tensor(&[n, rows, columns, 2], &grid));
                for (between, how) in [
                    (
                        Between::Nearest,
                        Interpolation::Nearest(Nearest::RoundPreferFloor),
                    ),
                    (Between::Linear, Interpolation::Linear),
                    (Between::Cubic, Interpolation::Cubic { a: -0.75 }),
                ] {
                    for outside in [Outside::Zeros, Outside::Border, Outside::Reflection] {
                        for align_corners in [false, true] {
                            let plan = GridPlan {
                                images: [n, c],
                                size: [h, w],
                                points: rows * columns,
                                between,
                                outside,
                                align_corners,
                            };
                            let want =
                                resize::grid_sample(&image, &points, how, outside, align_corners).unwrap();
                            let (mut offsets, mut weights) =
                                (vec![0; plan.scratch_len()], vec![0.0; plan.scratch_len()]);
                            let mut y = vec![f32::NAN; n * c * rows * columns];
                            plan.run(isa, &pool, &x, &grid, (&mut offsets, &mut weights), &mut y);
                            same(&y, &want, &format!("{isa:?} {plan:?}"));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn roi_align_matches_the_reference() {
    let (n, c, h, w) = (2, 3, 9, 11);
    let pool = ThreadPool::new(2);
    let x = numbers(n * c * h * w, -2.0, 2.0, 1);
    let regions = [
        1.0, 2.0, 7.5, 8.0, //
        -3.0, -2.0, 4.0, 3.0, //
        5.0, 5.0, 5.0, 5.0, //
        8.0, 6.0, 20.0, 30.0,
    ];
    let images = [0i64, 1, 1, 0];
    for isa in Isa::available() {
        for (samples, half_pixel, scale) in [(1, true, 1.0), (2, true, 0.5), (3, false, 1.0)] {
            let plan = RegionPlan {
                images: [n, c],
                size: [h, w],
                output: [3, 5],
                samples,
                scale,
                half_pixel,
            };
            let of = pool::RoiAlign {
                output: (3, 5),
                sampling_ratio: samples,
                scale,
                half_pixel,
                max: false,
            };
            let want = pool::roi_align(
                &tensor(&[n, c, h, w], &x),
                &tensor(&[4, 4], &regions),
                &images,
                of,
            )
            .unwrap();
            let (mut offsets, mut weights) = (vec![0; plan.scratch_len()], vec![0.0; plan.scratch_len()]);
            let mut y = vec![f32::NAN; 4 * c * 15];
            plan.run(
                isa,
                &pool,
                &x,
                (&regions, &images),
                (&mut offsets, &mut weights),
                &mut y,
            )
            .unwrap();
            same(&y, &want, &format!("{isa:?} {plan:?}"));
            let wrong = plan.run(
                isa,
                &pool,
                &x,
                (&regions, &[0, 2, 0, 0]),
                (&mut offsets, &mut weights),
                &mut y,
            );
            assert_eq!(wrong, Err(2));
        }
    }
}

fn window(
    kernel: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    pads: [i64; 2],
    output: [usize; 2],
) -> Window {
    Window {
        kernel: kernel.to_vec(),
        strides: strides.to_vec(),
        dilations: dilations.to_vec(),
        pads: pads.iter().map(|&pad| (pad, pad)).collect(),
        output: output.to_vec(),
    }
}

#[test]
fn deformable_convolution_matches_the_reference() {
    let (c, h, w, groups) = (4, 6, 7, 2);
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        for (kernel, strides, dilations, pads, output) in [
            ([3, 3], [1, 1], [1, 1], [1, 1], [6, 7]),
            ([2, 3], [2, 1], [1, 2], [0, 2], [3, 7]),
        ] {
            let plan = DeformPlan {
                channels: c,
                groups,
                size: [h, w],
                output,
                kernel,
                strides,
                dilations,
                pads,
            };
            let (points, taps) = (output[0] * output[1], kernel[0] * kernel[1]);
            let x = numbers(c * h * w, -2.0, 2.0, 1);
            let offsets = numbers(groups * taps * 2 * points, -2.5, 2.5, 2);
            let mask = numbers(groups * taps * points, 0.0, 1.0, 3);
            // one filter for each row of the columns, which is 1 there
            let filters: Vec<f32> = (0..c * taps * c * taps)
                .map(|i| f32::from(u8::from(i / (c * taps) == i % (c * taps))))
                .collect();
            for masked in [false, true] {
                let [oh, ow] = output;
                let of_mask = tensor(&[1, groups * taps, oh, ow], &mask);
                let want = conv::deform_conv(
                    &tensor(&[1, c, h, w], &x),
                    &tensor(&[c * taps, c, kernel[0], kernel[1]], &filters),
                    &tensor(&[1, groups * taps * 2, oh, ow], &offsets),
                    None,
                    masked.then_some(&of_mask),
                    &window(kernel, strides, dilations, pads, output),
                    (1, groups),
                )
                .unwrap();
                let (mut at, mut weights) = (vec![0; plan.scratch_len()], vec![0.0; plan.scratch_len()]);
                let mut y = vec![f32::NAN; c * taps * points];
                let mask = masked.then_some(&mask[..]);
                plan.run(isa, &pool, &x, &offsets, mask, (&mut at, &mut weights), &mut y);
                same(&y, &want, &format!("{isa:?} {plan:?} {masked}"));
            }
        }
    }
}

#[test]
fn col2im_matches_the_reference() {
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        for (size, kernel, strides, dilations, pads, windows) in [
            ([5, 6], [2, 3], [1, 1], [1, 1], [0, 0], [4, 4]),
            ([5, 6], [3, 3], [2, 2], [1, 1], [1, 1], [3, 3]),
            ([7, 9], [2, 2], [1, 3], [3, 2], [2, 1], [8, 3]),
            // rows of several blocks, of each stride with sums of its own and one without
            ([3, 150], [2, 4], [1, 1], [1, 1], [0, 2], [2, 151]),
            ([4, 300], [2, 4], [2, 2], [1, 1], [0, 1], [2, 150]),
            ([3, 301], [3, 5], [1, 3], [1, 1], [1, 2], [3, 101]),
            ([3, 300], [1, 4], [1, 4], [1, 1], [0, 0], [3, 75]),
            ([3, 300], [2, 3], [2, 5], [1, 3], [1, 6], [2, 62]),
        ] {
            let plan = ColumnsPlan {
                size,
                kernel,
                windows,
                strides,
                dilations,
                pads,
            };
            let (taps, count) = (kernel[0] * kernel[1], windows[0] * windows[1]);
            let x = numbers(6 * taps * count, -2.0, 2.0, 1);
            let of = window(kernel, strides, dilations, pads, windows);
            let want = conv::col2im(&tensor(&[2, 3 * taps, count], &x), &size, &of).unwrap();
            let mut y = vec![f32::NAN; 6 * size[0] * size[1]];
            plan.run(isa, &pool, &x, &[], &mut y);
            same(&y, &want, &format!("{isa:?} {plan:?}"));
            plan.run(isa, &pool, &x, &[1.0, 2.0, -3.0], &mut y);
            for (i, y) in y.iter_mut().enumerate() {
                *y -= [1.0, 2.0, -3.0][i / (size[0] * size[1]) % 3];
            }
            same(&y, &want, &format!("{isa:?} {plan:?} on top of others"));
        }
    }
}

#[test]
fn largest_elements_of_regions_match_the_reference() {
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        for (size, output, scale) in [
            ([9, 12], [3, 4], 1.0),
            ([5, 33], [7, 2], 0.5),
            ([1, 1], [1, 1], 1.0),
        ] {
            let mut x = numbers(2 * 37 * size[0] * size[1], -2.0, 2.0, 1);
            if size != [1, 1] {
                x[3] = f32::NAN;
            }
            // the whole image, one element, outside, upside down
            let regions = [
                [0.0, 0.0, 0.0, 40.0, 9.0],
                [1.0, 2.0, 3.0, 2.0, 3.0],
                [1.0, -50.0, 30.0, -40.0, 90.0],
                [0.0, 7.4, 4.6, 2.5, 1.5],
            ];
            let regions = regions.as_flattened();
            let plan = LargestPlan {
                images: [2, 37],
                size,
                output,
                scale,
            };
            let of = tensor(&[2, 37, size[0], size[1]], &x);
            let want = pool::max_roi_pool(&of, &tensor(&[4, 5], regions), output.into(), scale).unwrap();
            let mut y = vec![f32::NAN; 4 * 37 * output[0] * output[1]];
            plan.run(isa, &pool, &x, regions, &mut y).unwrap();
            same(&y, &want, &format!("{isa:?} {plan:?}"));
            for image in [2.0, -1.0, f32::NAN] {
                let outcome = plan.run(isa, &pool, &x, &[image, 0.0, 0.0, 1.0, 1.0], &mut y);
                assert!(outcome.is_err(), "{image}");
            }
        }
    }
}

#[test]
fn affine_grids_match_the_reference() {
    let pool = ThreadPool::new(2);
    let theta = numbers(12, -1.5, 1.5, 4);
    for isa in Isa::available() {
        for [h, w] in [[1, 1], [3, 5], [40, 57]] {
            for align in [false, true] {
                let want = resize::affine_grid(&tensor(&[2, 2, 3], &theta), &[2, 1, h, w], align).unwrap();
                let mut y = vec![f32::NAN; 2 * h * w * 2];
                affine_grid(isa, &pool, &theta, [h, w], align, &mut y);
                same(&y, &want, &format!("{isa:?} {h} {w} {align}"));
            }
        }
    }
}

#[test]
fn axis_resizes_match_the_reference() {
    use resize::{Axis, Resize, Transform};
    let pool = ThreadPool::new(2);
    let shape = [2usize, 5, 7];
    let x = numbers(70, -2.0, 2.0, 5);
    for isa in Isa::available() {
        for interpolation in [Interpolation::Linear, Interpolation::Cubic { a: -0.75 }] {
            for (axis, output) in [(1, 9), (1, 3), (2, 15), (2, 2)] {
                for antialias in [false, true] {
                    let own = Axis {
                        output,
                        scale: output as f64 / shape[axis] as f64,
                        roi: (0.0, 1.0),
                    };
                    let p = Resize {
                        interpolation,
                        transform: Transform::HalfPixel,
                        antialias,
                        exclude_outside: false,
                        extrapolation: 0.0,
                    };
                    let mut axes: Vec<Axis> = shape
                        .iter()
                        .map(|&output| Axis {
                            output,
                            scale: 1.0,
                            ..own
                        })
                        .collect();
                    axes[axis] = own;
                    let want = resize::resize(&tensor(&shape, &x), &axes, &p).unwrap();
                    let lines: Vec<_> = (0..output)
                        .map(|o| resize::taps(o, shape[axis], own, &p).unwrap())
                        .collect();
                    let plan = AxisPlan::new(shape[axis], &lines);
                    let mut y = vec![f32::NAN; 70 / shape[axis] * output];
                    plan.run(isa, &pool, shape[axis + 1..].iter().product(), &x, &mut y);
                    same(
                        &y,
                        &want,
                        &format!("{isa:?} {axis} {output} {antialias} {interpolation:?}"),
                    );
                }
            }
        }
    }
}

#[test]
fn pixels_are_repeated() {
    let pool = ThreadPool::new(2);
    let x: Vec<u16> = (0..15).collect();
    for isa in Isa::available() {
        for (down, across) in [(1, 1), (2, 2), (3, 1), (1, 4)] {
            let mut y = vec![0; 15 * down * across];
            repeat(isa, &pool, [5, 3], [down, across], &x, &mut y);
            for (i, &y) in y.iter().enumerate() {
                let (row, column) = (i / (3 * across), i % (3 * across));
                assert_eq!(y, x[row / down * 3 + column / across]);
            }
        }
    }
}
