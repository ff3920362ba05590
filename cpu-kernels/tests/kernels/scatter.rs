//! Gathers and scatters against plain loops.

use polychip_cpu_kernels::scatter::*;
use polychip_cpu_kernels::{Isa, ThreadPool};

#[test]
fn scattered_elements_match_the_definition() {
    let (shape, indices) = ([3usize, 4, 5], [2usize, 4, 3]);
    for axis in 0..3 {
        let elements = Elements::new(&shape, &indices, axis).unwrap();
        let at = |i: usize| {
            (i * 7 % shape[axis]) as i64
                - if i.is_multiple_of(2) {
                    0
                } else {
                    shape[axis] as i64
                }
        };
        let mut found = Vec::new();
        elements.each(at, |i, offset| found.push((i, offset))).unwrap();
        let mut want = Vec::new();
        for (i, [a, b, c]) in (0..2)
            .flat_map(|a| (0..4).flat_map(move |b| (0..3).map(move |c| [a, b, c])))
            .enumerate()
        {
            let mut place = [a, b, c];
            place[axis] = i * 7 % shape[axis];
            want.push((i, (place[0] * 4 + place[1]) * 5 + place[2]));
        }
        assert_eq!(found, want, "axis {axis}");
        let (x, at): (Vec<usize>, Vec<i64>) = ((0..60).collect(), (0..24).map(at).collect());
        for isa in Isa::available() {
            let mut y = vec![99; 24];
            elements.take(isa, &ThreadPool::new(2), &at, &x, &mut y).unwrap();
            assert!(
                want.iter().all(|&(i, offset)| y[i] == offset),
                "{isa:?} axis {axis}"
            );
        }
    }
    let one = Elements::new(&[4], &[2], 0).unwrap();
    assert_eq!(one.each(|_| 4, |_, _| ()), Err((4, 4)));
    assert_eq!(one.each(|_| -5, |_, _| ()), Err((-5, 4)));
    let taken = one.take(
        Isa::detect(),
        &ThreadPool::new(1),
        &[1i32, -5],
        &[1u8; 4],
        &mut [0; 2],
    );
    assert_eq!(taken, Err((-5, 4)));
    for outside in [4, i64::MAX, i64::MIN] {
        let at = [0, outside];
        let taken = one.take(Isa::detect(), &ThreadPool::new(1), &at, &[1u8; 4], &mut [0; 2]);
        assert_eq!(taken, Err((outside, 4)));
    }
    assert!(Elements::new(&[4, 2], &[4, 3], 0).is_none());
    assert!(
        Elements::new(&[4, 0], &[4, 0], 0)
            .unwrap()
            .each(|_| 9, |_, _| ())
            .is_ok()
    );
}

#[test]
fn scattered_slices_match_the_definition() {
    let slices = Slices::new(&[2, 3, 4], &[5, 2], 0).unwrap();
    assert_eq!((slices.len(), slices.slice), (5, 4));
    let at = [0i64, 0, 1, 2, -1, -3, 1, 1, 0, -1];
    let mut found = Vec::new();
    slices.each(|i| at[i], |_, offset| found.push(offset)).unwrap();
    assert_eq!(found, [0, 20, 12, 16, 8]);
    // each of two matrices has indices of its own
    let slices = Slices::new(&[2, 3, 4], &[2, 1, 1], 1).unwrap();
    let mut found = Vec::new();
    slices
        .each(|i| [2, 1][i], |_, offset| found.push(offset))
        .unwrap();
    assert_eq!(found, [8, 16]);
    assert!(Slices::new(&[2, 3], &[1, 3], 0).is_none());
}
