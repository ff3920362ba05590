//! Indices of extremes against the reference.

use polychip_cpu_kernels::argreduce::*;
use polychip_cpu_kernels::reference::{Element, Tensor, gather, reduce, softmax};
use polychip_cpu_kernels::{Isa, ThreadPool};

const SHAPES: [[usize; 3]; 8] = [
    [1, 1, 1],
    [3, 7, 1],
    [5, 20, 1],
    [4, 48, 1],
    [2, 100, 1],
    [2, 5, 3],
    [3, 9, 70],
    [4, 257, 1],
];

fn floats(shape: [usize; 3], with_nan: bool) -> Vec<f32> {
    let len: usize = shape.iter().product();
    let number = |i: usize| match i * 7919 % 23 {
        5 if with_nan => f32::NAN,
        7 => f32::NEG_INFINITY,
        n => n as f32 / 4.0 - 2.0,
    };
    (0..len).map(number).collect()
}

fn tensor(shape: [usize; 3], x: &[f32]) -> Tensor {
    let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    Tensor::from_f64s(Element::F32, shape.to_vec(), &wide).unwrap()
}

#[test]
fn argreduce_and_hardmax_match_the_reference() {
    for threads in [1, 2] {
        let pool = ThreadPool::new(threads);
        for isa in Isa::available() {
            for shape in SHAPES {
                for with_nan in [false, true] {
                    let x = floats(shape, with_nan);
                    let wide = tensor(shape, &x);
                    for (largest, last) in [(true, false), (true, true), (false, false), (false, true)] {
                        let want = reduce::arg_extreme(&wide, 1, true, largest, last).unwrap();
                        let mut y = vec![-1; shape[0] * shape[2]];
                        argreduce(isa, &pool, shape, ArgRule { largest, last }, &x, &mut y);
                        assert_eq!(
                            y,
                            want.to_i64s().unwrap(),
                            "{isa:?} {shape:?} {largest} {last} {with_nan}"
                        );
                    }
                    let want = softmax::softmax(&wide, 1, softmax::Softmax::Hardmax).unwrap();
                    let mut y = vec![-1.0; x.len()];
                    hardmax(isa, &pool, shape, &x, &mut y);
                    let y: Vec<f64> = y.iter().map(|&y| f64::from(y)).collect();
                    assert_eq!(y, want.to_f64s().unwrap(), "{isa:?} {shape:?} {with_nan}");
                }
            }
        }
    }
}

#[test]
fn argreduce_of_integers() {
    let pool = ThreadPool::new(1);
    let x: Vec<i64> = (0..300).map(|i| (i * 7919) % 31 - 15).collect();
    for isa in Isa::available() {
        let rule = ArgRule {
            largest: true,
            last: true,
        };
        let mut y = [0];
        argreduce(isa, &pool, [1, 300, 1], rule, &x, &mut y);
        let want = x.iter().enumerate().max_by_key(|&(i, &x)| (x, i)).unwrap().0;
        assert_eq!(y, [want as i64]);
    }
}

#[test]
fn one_hot_matches_the_reference() {
    let pool = ThreadPool::new(2);
    let indices = [0i64, 3, -1, 7, -9, 2];
    let of = Tensor::from_i64s(vec![2, 3], indices.to_vec()).unwrap();
    let values = Tensor::from_f64s(Element::F32, vec![2], &[0.5, 2.0]).unwrap();
    for (axis, shape) in [(0, [1, 5, 6]), (1, [2, 5, 3]), (2, [6, 5, 1])] {
        let want = gather::one_hot(&of, 5, &values, axis).unwrap();
        let mut y = vec![0.0; 30];
        one_hot(&pool, shape, |i| indices[i], [0.5, 2.0], &mut y);
        assert_eq!(y, want.to_f64s().unwrap(), "{axis}");
    }
}
