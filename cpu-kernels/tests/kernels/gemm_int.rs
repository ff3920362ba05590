//! Products of integers and doubles against plain loops.

use polychip_cpu_kernels::gemm_int::*;
use polychip_cpu_kernels::reference::matmul;
use polychip_cpu_kernels::{Isa, ThreadPool};

fn extents(m: usize, k: usize, n: usize, batches: &[[usize; 2]]) -> Extents {
    Extents {
        m,
        k,
        n,
        batches: batches.to_vec(),
    }
}

const SHAPES: [(usize, usize, usize); 7] = [
    (1, 1, 1),
    (3, 5, 7),
    (4, 8, 16),
    (5, 9, 33),
    (17, 31, 65),
    (2, 0, 3),
    (8, 64, 200),
];

#[test]
fn integer_products_match_the_reference() {
    for threads in [1, 3] {
        let pool = ThreadPool::new(threads);
        for isa in Isa::available() {
            for (m, k, n) in SHAPES {
                let e = extents(m, k, n, &[[0, 0], [1, 0]]);
                let a: Vec<i64> = (0..2 * m * k).map(|i| (i as i64 * 7919) % 201 - 100).collect();
                let b: Vec<i64> = (0..k * n).map(|i| (i as i64 * 104_729) % 301 - 150).collect();
                let (_, want) = matmul::product(&a, &[2, m, k], &b, &[k, n]).unwrap();
                let mut y = vec![-1; want.len()];
                product(isa, &pool, &e, &a, &b, &mut y);
                assert_eq!(y, want, "{isa:?} i64 {m} {k} {n}");
                let narrow = |v: &[i64]| v.iter().map(|&v| v as i32).collect::<Vec<_>>();
                let mut y = vec![-1; want.len()];
                product(isa, &pool, &e, &narrow(&a), &narrow(&b), &mut y);
                assert_eq!(y, narrow(&want), "{isa:?} i32 {m} {k} {n}");
                let floats = |v: &[i64]| v.iter().map(|&v| v as f64).collect::<Vec<_>>();
                let mut y = vec![-1.0; want.len()];
                product(isa, &pool, &e, &floats(&a), &floats(&b), &mut y);
                assert_eq!(y, floats(&want), "{isa:?} f64 {m} {k} {n}");
            }
        }
    }
}

#[test]
fn byte_products_with_zero_points_match_the_reference() {
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        for (m, k, n) in SHAPES {
            let e = extents(m, k, n, &[[0, 0], [1, 1]]);
            let a: Vec<u8> = (0..2 * m * k).map(|i| (i * 7919 % 256) as u8).collect();
            let b: Vec<i8> = (0..2 * k * n).map(|i| (i * 104_729 % 256) as u8 as i8).collect();
            let (za, zb) = (255u8, -128i8);
            let wide_a: Vec<i64> = a.iter().map(|&a| i64::from(a) - i64::from(za)).collect();
            let wide_b: Vec<i64> = b.iter().map(|&b| i64::from(b) - i64::from(zb)).collect();
            let (_, want) = matmul::product(&wide_a, &[2, m, k], &wide_b, &[2, k, n]).unwrap();
            let mut y = vec![-1; want.len()];
            let mut pairs = vec![0; pairs_len(k, n)];
            product_of_bytes(isa, &pool, &e, (&a, za), (&b, zb), &mut pairs, &mut y);
            assert_eq!(
                y.iter().map(|&y| i64::from(y)).collect::<Vec<_>>(),
                want,
                "{isa:?} {m} {k} {n}"
            );
        }
    }
}
