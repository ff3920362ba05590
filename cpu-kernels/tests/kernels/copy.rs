//! Copies against plain loops.

use polychip_cpu_kernels::ThreadPool;
use polychip_cpu_kernels::copy::*;

/// The copy by plain nested indices.
fn naive(shape: &[usize], so: usize, ss: &[isize], to: usize, ts: &[isize], s: &[u32], t: &mut [u32]) {
    let total: usize = shape.iter().product();
    for flat in 0..total {
        let (mut rest, mut from, mut into) = (flat, so as isize, to as isize);
        for i in (0..shape.len()).rev() {
            from += (rest % shape[i]) as isize * ss[i];
            into += (rest % shape[i]) as isize * ts[i];
            rest /= shape[i];
        }
        t[into as usize] = s[from as usize];
    }
}

#[test]
fn agrees_with_nested_loops() {
    let source: Vec<u32> = (0..200_000).collect();
    type Case = (&'static [usize], usize, &'static [isize], usize, &'static [isize]);
    let cases: &[Case] = &[
        (&[], 3, &[], 1, &[]),
        (&[0, 4], 0, &[4, 1], 0, &[4, 1]),
        (&[5], 0, &[1], 0, &[1]),
        (&[5], 9, &[-2], 0, &[1]),
        (&[3, 4], 0, &[4, 1], 5, &[10, 1]),
        (&[3, 4], 0, &[0, 1], 0, &[4, 1]),
        (&[3, 4], 0, &[1, 3], 0, &[4, 1]),
        (&[40, 50], 0, &[1, 40], 0, &[50, 1]),
        (
            &[2, 3, 37, 41],
            0,
            &[37 * 41 * 3, 37 * 41, 41, 1],
            0,
            &[37 * 41 * 3, 1, 41 * 3, 3],
        ),
        (&[2, 300, 3], 0, &[900, 1, 300], 0, &[900, 3, 1]),
        (&[4, 5, 6, 7], 0, &[1, 4, 20, 120], 0, &[210, 42, 7, 1]),
        (
            &[2, 2, 2, 2, 2, 2],
            0,
            &[1, 2, 4, 8, 16, 32],
            0,
            &[32, 16, 8, 4, 2, 1],
        ),
        (&[300, 400], 0, &[1, 300], 0, &[400, 1]),
        (&[150_000], 0, &[1], 7, &[1]),
        // runs of all lengths up to what a call copies
        (&[50, 1], 0, &[3, 1], 0, &[2, 1]),
        (&[50, 2], 1, &[3, 1], 0, &[5, 1]),
        (&[50, 3], 1, &[4, 1], 2, &[5, 1]),
        (&[50, 5], 1, &[6, 1], 2, &[9, 1]),
        (&[50, 10], 1, &[11, 1], 2, &[19, 1]),
        (&[50, 63], 1, &[64, 1], 2, &[99, 1]),
        (&[50, 64], 1, &[70, 1], 2, &[99, 1]),
        (&[50, 65], 1, &[70, 1], 2, &[99, 1]),
    ];
    for threads in [1, 3] {
        let pool = ThreadPool::new(threads);
        for &(shape, so, ss, to, ts) in cases {
            let plan = CopyPlan::new(shape, so, ss, to, ts).unwrap();
            let (mut got, mut want) = (vec![7; 200_000], vec![7; 200_000]);
            plan.run(&pool, &source, &mut got);
            naive(shape, so, ss, to, ts, &source, &mut want);
            assert!(got == want, "{shape:?} {ss:?} {ts:?}");
        }
    }
}

#[test]
fn elements_of_every_width_are_transposed() {
    fn check<T: Copy + Send + Sync + PartialEq + std::fmt::Debug>(of: impl Fn(usize) -> T) {
        let pool = ThreadPool::new(2);
        for [rows, columns] in [
            [16, 16],
            [64, 64],
            [130, 67],
            [17, 300],
            [33, 2],
            [40, 3],
            [21, 4],
            [2, 40],
        ] {
            let source: Vec<T> = (0..rows * columns).map(&of).collect();
            let (r, c) = (rows as isize, columns as isize);
            let plan = CopyPlan::new(&[columns, rows], 0, &[1, c], 0, &[r, 1]).unwrap();
            let mut got = vec![of(1); rows * columns];
            plan.run(&pool, &source, &mut got);
            for (at, &got) in got.iter().enumerate() {
                let from = source[at % rows * columns + at / rows];
                assert_eq!(got, from, "{rows} by {columns}, {at}");
            }
        }
    }
    check(|i| (i * 7919 % 251) as u8);
    check(|i| (i * 7919) as u16);
    check(|i| i as u32);
    check(|i| i as u64);
    check(|i| [i; 2]);
}

#[test]
fn bad_views_are_refused() {
    assert!(CopyPlan::new(&[2], 0, &[1, 1], 0, &[1]).is_err());
    assert!(CopyPlan::new(&[2], 0, &[-1], 0, &[1]).is_err());
    assert!(CopyPlan::new(&[2], 0, &[1], 0, &[0]).is_err());
    assert!(CopyPlan::new(&[2, 3], 0, &[3, 1], 0, &[1, 1]).is_err());
    assert!(CopyPlan::new(&[usize::MAX, 2], 0, &[2, 1], 0, &[2, 1]).is_err());
    let many: Vec<isize> = (0..20).map(|i| 1 << (2 * i)).collect();
    assert!(CopyPlan::new(&[2; 20], 0, &many, 0, &many).is_err());
}
