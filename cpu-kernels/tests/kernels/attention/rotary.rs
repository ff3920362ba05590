//! Rotary embeddings against the reference.

use polychip_cpu_kernels::attention::*;
use polychip_cpu_kernels::reference::{Element, Tensor, attention};
use polychip_cpu_kernels::{Isa, ThreadPool};

#[test]
fn rotated_pairs_match_the_reference() {
    let (batch, heads, rows) = (2, 3, 5);
    let numbers = |len: usize, seed: usize| -> Vec<f32> {
        (0..len)
            .map(|i| ((i * 7919 + seed) % 201) as f32 / 100.0 - 1.0)
            .collect()
    };
    let tensor = |shape: &[usize], x: &[f32]| {
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        Tensor::from_f64s(Element::F32, shape.to_vec(), &wide).unwrap()
    };
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        for (size, rotated) in [(8, 8), (10, 6), (64, 64)] {
            for bits in 0..4 {
                let (interleaved, with_positions) = (bits & 1 != 0, bits & 2 != 0);
                let half = rotated / 2;
                let x = numbers(batch * heads * rows * size, 1);
                let places: Vec<i64> = (0..batch * rows).map(|i| (i * 3 % 7) as i64).collect();
                let shape = if with_positions {
                    vec![7, half]
                } else {
                    vec![batch, rows, half]
                };
                let count = shape.iter().product();
                let (c, s) = (numbers(count, 2), numbers(count, 3));
                let given = Tensor::from_i64s(vec![batch, rows], places.clone()).unwrap();
                let want = attention::rotary(
                    &tensor(&[batch, heads, rows, size], &x),
                    &tensor(&shape, &c),
                    &tensor(&shape, &s),
                    with_positions.then_some(&given),
                    rotated,
                    interleaved,
                )
                .unwrap()
                .to_f64s()
                .unwrap();
                let mut plan = Rotary {
                    batch,
                    heads,
                    rows,
                    size,
                    heads_inside: false,
                    rotated,
                    interleaved,
                };
                let positions = with_positions.then_some(&places[..]);
                let mut y = vec![f32::NAN; x.len()];
                rotary(isa, &pool, plan, &x, (&c, &s), positions, &mut y).unwrap();
                for (y, want) in y.iter().zip(&want) {
                    assert!((f64::from(*y) - want).abs() < 1e-6, "{isa:?} {plan:?}");
                }
                // the same heads, beside each other
                let swap = |x: &[f32]| {
                    let mut to = vec![0.0; x.len()];
                    for (line, x) in x.chunks_exact(size).enumerate() {
                        let (b, h, r) = (line / (heads * rows), line / rows % heads, line % rows);
                        to[((b * rows + r) * heads + h) * size..][..size].copy_from_slice(x);
                    }
                    to
                };
                plan.heads_inside = true;
                let mut z = vec![f32::NAN; x.len()];
                rotary(isa, &pool, plan, &swap(&x), (&c, &s), positions, &mut z).unwrap();
                assert_eq!(z, swap(&y), "{isa:?} {plan:?}");
            }
        }
    }
}
