//! Transposition against plain loops.

use polychip_cpu_kernels::ThreadPool;
use polychip_cpu_kernels::transpose::*;

#[test]
fn inverse_permutation_restores_the_input() {
    let pool = ThreadPool::new(2);
    for (shape, permutation) in [
        (&[2usize, 3, 5, 7][..], &[0usize, 2, 3, 1][..]),
        (&[70, 3, 90], &[2, 1, 0]),
        (&[1, 64, 33], &[0, 2, 1]),
        (&[4, 0, 2], &[1, 0, 2]),
        (&[], &[]),
    ] {
        let plan = TransposePlan::new(shape, permutation).unwrap();
        let total: usize = shape.iter().product();
        let input: Vec<u16> = (0..total as u16).collect();
        let (mut there, mut back) = (vec![0; total], vec![0; total]);
        plan.run(&pool, &input, &mut there);
        let sizes: Vec<usize> = permutation.iter().map(|&from| shape[from]).collect();
        let mut inverse = vec![0; shape.len()];
        for (to, &from) in permutation.iter().enumerate() {
            inverse[from] = to;
        }
        TransposePlan::new(&sizes, &inverse)
            .unwrap()
            .run(&pool, &there, &mut back);
        assert_eq!(back, input, "{shape:?} {permutation:?}");
    }
    assert!(TransposePlan::new(&[2, 3], &[0, 0]).is_err());
    assert!(TransposePlan::new(&[2, 3], &[0]).is_err());
    assert!(TransposePlan::new(&[2, 3], &[0, 2]).is_err());
}

/// A matrix and a pair of its axes behind another, of elements of one width, against plain loops.
fn agrees<T: Copy + Send + Sync + PartialEq + std::fmt::Debug>(element: impl Fn(usize) -> T) {
    let pool = ThreadPool::new(3);
    let sides = [1, 2, 3, 4, 5, 7, 8, 11, 15, 16, 17, 20, 33, 65, 150, 1500];
    for (rows, columns) in sides
        .iter()
        .flat_map(|&rows| sides.map(|columns| (rows, columns)))
    {
        if rows * columns > 1 << 16 {
            continue;
        }
        let input: Vec<T> = (0..2 * rows * columns).map(&element).collect();
        let mut there = input.clone();
        let plan = TransposePlan::new(&[2, rows, columns], &[0, 2, 1]).unwrap();
        plan.run(&pool, &input, &mut there);
        for (image, want) in input.chunks_exact(rows * columns).enumerate() {
            let there = &there[image * rows * columns..][..rows * columns];
            for (i, want) in want.iter().enumerate() {
                let (row, column) = (i / columns, i % columns);
                assert_eq!(there[column * rows + row], *want, "{rows} by {columns}, at {i}");
            }
        }
    }
}

#[test]
fn elements_of_each_width_move_to_their_places() {
    agrees(|i| (i * 7 + i / 251) as u8);
    agrees(|i| (i * 7) as u16);
    agrees(|i| (i * 7) as u32);
    agrees(|i| (i * 7) as u64);
}
