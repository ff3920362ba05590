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
