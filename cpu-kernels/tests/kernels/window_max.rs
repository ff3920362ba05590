//! Sliding maxima against plain loops.

use polychip_cpu_kernels::reference::window::Window as Of;
use polychip_cpu_kernels::reference::{Element, Tensor, pool as oracle};
use polychip_cpu_kernels::window_max::*;
use polychip_cpu_kernels::{Isa, ThreadPool};

#[test]
fn windows_match_the_reference() {
    for threads in [1, 2] {
        let pool = ThreadPool::new(threads);
        for isa in Isa::available() {
            for (input, output, kernel, strides, dilations, pads) in [
                ([6, 8], [3, 4], [2, 2], [2, 2], [1, 1], [0, 0]),
                ([5, 7], [3, 4], [3, 3], [2, 2], [1, 1], [1, 1]),
                ([5, 7], [5, 7], [3, 2], [1, 1], [1, 2], [1, 1]),
                ([1, 9], [1, 3], [1, 3], [1, 3], [1, 1], [0, 0]),
                ([4, 33], [2, 17], [3, 1], [3, 2], [1, 1], [1, 0]),
                ([90, 70], [45, 35], [2, 2], [2, 2], [1, 1], [0, 0]),
            ] {
                let window = Window {
                    input,
                    output,
                    kernel,
                    strides,
                    dilations,
                    pads,
                };
                let of = Of {
                    kernel: kernel.to_vec(),
                    strides: strides.to_vec(),
                    dilations: dilations.to_vec(),
                    pads: pads.iter().map(|&pad| (pad as i64, pad as i64)).collect(),
                    output: output.to_vec(),
                };
                let (pixels, results) = (input[0] * input[1], output[0] * output[1]);
                let bytes: Vec<u8> = (0..6 * pixels).map(|i| (i * 7919 % 13) as u8).collect();
                let shape = vec![2, 3, input[0], input[1]];
                let wide = Tensor::from_bytes(Element::U8, shape.clone(), &bytes).unwrap();
                let (want, at) = oracle::max_pool(&wide, &of, false).unwrap();
                let mut y = vec![9; 6 * results];
                max_windows(isa, &pool, 6, &window, &bytes, &mut y, None);
                assert_eq!(y, want.to_bytes(), "{isa:?} {window:?}");
                y.fill(9);
                max_windows_of_bytes(isa, &pool, 6, &window, &bytes, &mut y);
                assert_eq!(y, want.to_bytes(), "{isa:?} {window:?}");
                let mut places = vec![7; 6 * results];
                max_windows(isa, &pool, 6, &window, &bytes, &mut y, Some(&mut places));
                assert_eq!(y, want.to_bytes(), "{isa:?} {window:?}");
                assert_eq!(places, at.to_i64s().unwrap(), "{isa:?} {window:?}");
                let floats: Vec<f32> = bytes
                    .iter()
                    .map(|&b| match b {
                        3 => f32::NAN,
                        5 => f32::NEG_INFINITY,
                        b => f32::from(b) - 6.0,
                    })
                    .collect();
                let reals: Vec<f64> = floats.iter().map(|&x| f64::from(x)).collect();
                let wide = Tensor::from_f64s(Element::F32, shape, &reals).unwrap();
                let (want, at) = oracle::max_pool(&wide, &of, false).unwrap();
                let mut y = vec![9.0; 6 * results];
                max_windows(isa, &pool, 6, &window, &floats, &mut y, Some(&mut places));
                assert_eq!(places, at.to_i64s().unwrap(), "{isa:?} {window:?}");
                for (y, want) in y.iter().zip(want.to_f64s().unwrap()) {
                    assert!(
                        f64::from(*y) == want || y.is_nan() && want.is_nan(),
                        "{isa:?} {window:?}"
                    );
                }
            }
        }
    }
}
