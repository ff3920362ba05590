//! Scaled conversions against the reference.

use polychip_cpu_kernels::convert::*;
use polychip_cpu_kernels::reference::quantise::{self as oracle, Quantisation};
use polychip_cpu_kernels::reference::{Element, Tensor};
use polychip_cpu_kernels::{Isa, ThreadPool};

/// Shape, axis, block and shape of the scales.
const CASES: [(&[usize], i64, usize, &[usize]); 6] = [
    (&[5, 37], 0, 0, &[]),
    (&[3, 5, 7], 1, 0, &[5]),
    (&[3, 5], 1, 0, &[5]),
    (&[6, 19], 0, 2, &[3, 19]),
    (&[2, 7, 5], 1, 3, &[2, 3, 5]),
    (&[4, 33], 1, 8, &[4, 5]),
];

fn geometry(shape: &[usize], axis: i64, block: usize, scales: usize) -> Scales {
    if scales == 1 {
        return Scales::ONE;
    }
    let axis = axis as usize;
    Scales {
        axis: shape[axis],
        inner: shape[axis + 1..].iter().product(),
        block,
    }
}

macro_rules! as_the_oracle {
    ($($name:ident: $t:ident $element:ident $least:expr,)*) => {$(
        #[test]
        fn $name() {
            for threads in [1, 3] {
                let pool = ThreadPool::new(threads);
                for isa in Isa::available() {
                    for (shape, axis, block, of) in CASES {
                        let (len, count): (usize, usize) = (shape.iter().product(), of.iter().product());
                        let scale: Vec<f32> = (0..count).map(|i| 0.03 + i as f32 * 0.011).collect();
                        for zeros in [false, true] {
                            let zero: Vec<$t> = (0..count).map(|i| ($least + i as i32 * 3 % 40) as $t).collect();
                            let bytes = |v: &[$t]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
                            let of_zeros = Tensor::from_bytes(Element::$element, of.to_vec(), &bytes(&zero)).unwrap();
                            let floats: Vec<f64> = scale.iter().map(|&s| f64::from(s)).collect();
                            let of_scales = Tensor::from_f64s(Element::F32, of.to_vec(), &floats).unwrap();
                            let given = zeros.then_some(&zero[..]);
                            let own = geometry(shape, axis, block, count);
                            let x: Vec<f32> = (0..len).map(|i| (i * 7919 % 2003) as f32 / 50.0 - 20.0).collect();
                            let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
                            let of_x = Tensor::from_f64s(Element::F32, shape.to_vec(), &wide).unwrap();
                            let q = Quantisation { axis, block, saturate: true, precision: Element::F32 };
                            let want = oracle::quantise(
                                &of_x, &of_scales, zeros.then_some(&of_zeros), Element::$element, q,
                            ).unwrap();
                            let mut y = vec![0 as $t; len];
                            quantise(isa, &pool, own, &x, (&scale, given), &mut y);
                            assert_eq!(bytes(&y), want.to_bytes(), "{isa:?} {shape:?} {of:?}");
                            let want = oracle::dequantise(
                                &want, &of_scales, zeros.then_some(&of_zeros), Element::F32, axis, block,
                            ).unwrap();
                            let mut back = vec![0.0f32; len];
                            dequantise(isa, &pool, own, &y, (&scale, given), &mut back);
                            let bytes: Vec<u8> = back.iter().flat_map(|v| v.to_le_bytes()).collect();
                            assert_eq!(bytes, want.to_bytes(), "{isa:?} {shape:?} {of:?}");
                        }
                    }
                }
            }
        }
    )*};
}

as_the_oracle! {
    of_i8: i8 I8 -17, of_u8: u8 U8 90, of_i16: i16 I16 -300, of_u16: u16 U16 30_000, of_i32: i32 I32 -40,
}
