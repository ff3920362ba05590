//! Running sums against plain loops.

use polychip_cpu_kernels::reference::{Element, Tensor, reduce};
use polychip_cpu_kernels::scan::*;
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

fn tensor(shape: [usize; 3], x: &[f32]) -> Tensor {
    let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    Tensor::from_f64s(Element::F32, shape.to_vec(), &wide).unwrap()
}

#[test]
fn scans_match_the_reference() {
    for isa in Isa::available() {
        let pool = ThreadPool::new(2);
        for shape in SHAPES {
            let x: Vec<f32> = (0..shape.iter().product())
                .map(|i| 0.9 + (i * 31 % 11) as f32 / 50.0)
                .collect();
            let wide = tensor(shape, &x);
            for bits in 0..8 {
                let rule = Scan {
                    product: bits & 1 != 0,
                    exclusive: bits & 2 != 0,
                    reverse: bits & 4 != 0,
                };
                let want = reduce::cumulate(&wide, 1, rule.exclusive, rule.reverse, rule.product).unwrap();
                let mut y = vec![-1.0; x.len()];
                scan(isa, &pool, shape, rule, &x, &mut y);
                let y: Vec<f64> = y.iter().map(|&y| f64::from(y)).collect();
                assert_eq!(y, want.to_f64s().unwrap(), "{isa:?} {shape:?} {rule:?}");
            }
        }
    }
}
