//! Reductions against plain loops in `f64`.

use polychip_cpu_kernels::reduce::*;
use polychip_cpu_kernels::{Isa, ThreadPool};

#[test]
fn agrees_with_f64() {
    let all = [
        Reduce::Sum,
        Reduce::Mean,
        Reduce::Max,
        Reduce::Min,
        Reduce::Prod,
        Reduce::L1,
        Reduce::L2,
        Reduce::SumSquare,
        Reduce::LogSum,
    ];
    let cases: [(&[usize], &[bool]); 16] = [
        (&[], &[]),
        (&[1], &[true]),
        (&[1000], &[true]),
        (&[7, 33], &[false, true]),
        (&[7, 32], &[false, true]),
        (&[100, 3], &[false, true]),
        (&[3, 50, 1, 2], &[true, false, true, true]),
        (&[2, 2, 2, 2, 2, 2], &[true, false, true, false, true, true]),
        (&[33, 37], &[true, false]),
        (&[2, 3, 4, 5], &[false, true, false, true]),
        (&[2, 3, 4, 5], &[true, false, true, false]),
        (&[2, 49, 64], &[false, true, false]),
        (&[3, 1, 5], &[false, true, false]),
        (&[3, 0], &[false, true]),
        (&[0, 3], &[true, false]),
        (&[4, 5], &[false, false]),
    ];
    for threads in [1, 2] {
        let pool = ThreadPool::new(threads);
        for isa in Isa::available() {
            for (shape, reduced) in cases {
                let plan = ReducePlan::new(shape, reduced).unwrap();
                let input: Vec<f32> = (0..plan.input_len())
                    .map(|i| ((i * 7919) % 97) as f32 / 97.0 + 0.5)
                    .collect();
                for f in all {
                    let start = match f {
                        Reduce::Max => f64::NEG_INFINITY,
                        Reduce::Min => f64::INFINITY,
                        Reduce::Prod => 1.0,
                        _ => 0.0,
                    };
                    let mut want = vec![start; plan.output_len()];
                    for (flat, &x) in input.iter().enumerate() {
                        let (mut rest, mut at, mut stride) = (flat, 0, 1);
                        for (&size, &reduced) in shape.iter().zip(reduced).rev() {
                            if !reduced {
                                at += rest % size * stride;
                                stride *= size;
                            }
                            rest /= size;
                        }
                        let (x, want) = (f64::from(x), &mut want[at]);
                        *want = match f {
                            Reduce::Max => want.max(x),
                            Reduce::Min => want.min(x),
                            Reduce::Prod => *want * x,
                            Reduce::L2 | Reduce::SumSquare => *want + x * x,
                            _ => *want + x,
                        };
                    }
                    let dims = shape.iter().zip(reduced.iter());
                    let dims = dims.filter(|(_, reduced)| **reduced);
                    let count = dims.map(|(&size, _)| size).product::<usize>() as f64;
                    let mut got = vec![f32::NAN; plan.output_len()];
                    plan.run(isa, &pool, f, &input, &mut got);
                    for (got, want) in got.iter().zip(&want) {
                        let want = match f {
                            Reduce::Mean => want / count,
                            Reduce::L2 => want.sqrt(),
                            Reduce::LogSum => want.ln(),
                            _ => *want,
                        };
                        let got = f64::from(*got);
                        let same = got == want || got.is_nan() && want.is_nan();
                        let error = (got - want).abs() / want.abs().max(1e-30);
                        assert!(
                            same || error < 1e-5,
                            "{isa:?} {f:?} {shape:?} {reduced:?}: {got} {want}"
                        );
                    }
                }
            }
        }
    }
    assert!(ReducePlan::new(&[2], &[]).is_err());
}

#[test]
fn long_sums_stay_exact() {
    for isa in Isa::available() {
        for (shape, reduced) in [([1 << 16, 3], [true, false]), ([3, 1 << 16], [false, true])] {
            let plan = ReducePlan::new(&shape, &reduced).unwrap();
            let input: Vec<f32> = (0..plan.input_len())
                .map(|i| ((i * 7919) % 97) as f32 / 97.0 + 1.0)
                .collect();
            let mut got = [0.0; 3];
            plan.run(isa, &ThreadPool::new(1), Reduce::Mean, &input, &mut got);
            for (at, &got) in got.iter().enumerate() {
                let of = |i: &usize| if reduced[0] { i % 3 == at } else { i >> 16 == at };
                let all = (0..plan.input_len()).filter(of).map(|i| f64::from(input[i]));
                let want = all.sum::<f64>() / f64::from(1 << 16);
                // one chain of 65,536 is off by 1e-4 and more
                assert!(
                    (f64::from(got) - want).abs() < 2e-6,
                    "{isa:?} {shape:?}: {got} {want}"
                );
            }
        }
    }
}

#[test]
fn extremes_propagate_nan() {
    for isa in Isa::available() {
        for (reduced, n) in [([true, false], 3), ([false, true], 40)] {
            let plan = ReducePlan::new(&[40, 3], &reduced).unwrap();
            for at in [0, 1, 119] {
                let mut input = [1.0; 120];
                input[at] = f32::NAN;
                let mut output = vec![0.0; n];
                for f in [Reduce::Max, Reduce::Min] {
                    plan.run(isa, &ThreadPool::new(1), f, &input, &mut output);
                    assert_eq!(
                        output.iter().filter(|x| x.is_nan()).count(),
                        1,
                        "{isa:?} {f:?} {at}"
                    );
                }
            }
        }
    }
}

#[test]
fn column_split_does_not_change_results() {
    // few columns, in one run and in several, and more than a chunk has at least
    let shapes: [(&[usize], &[bool]); 4] = [
        (&[1, 300, 100], &[false, true, false]),
        (&[8, 140, 37], &[false, true, false]),
        (&[300, 1237], &[true, false]),
        (&[3, 20, 2, 70], &[true, false, true, false]),
    ];
    for (shape, reduced) in shapes {
        let plan = ReducePlan::new(shape, reduced).unwrap();
        let len: usize = shape.iter().product();
        let input: Vec<f32> = (0..len).map(|i| (i % 611) as f32 * 0.37 - 100.0).collect();
        for isa in Isa::available() {
            for f in [Reduce::Sum, Reduce::L2, Reduce::Max] {
                let run = |threads: usize| {
                    let mut y = vec![f32::NAN; plan.output_len()];
                    plan.run(isa, &ThreadPool::new(threads), f, &input, &mut y);
                    y
                };
                let alone = run(1);
                for threads in [2, 3, 7] {
                    assert_eq!(run(threads), alone, "{isa:?} {f:?} {shape:?}, {threads} threads");
                }
            }
        }
    }
}

#[test]
fn nan_is_the_extreme_of_a_long_line() {
    let plan = ReducePlan::new(&[2, 100], &[false, true]).unwrap();
    for isa in Isa::available() {
        for at in [0, 50, 95, 96, 99] {
            let mut input = [1.0; 200];
            input[at] = f32::NAN;
            input[199] = 2.0;
            input[198] = -2.0;
            for (f, other) in [(Reduce::Max, 2.0), (Reduce::Min, -2.0)] {
                let mut y = [0.0; 2];
                plan.run(isa, &ThreadPool::new(1), f, &input, &mut y);
                assert!(y[0].is_nan(), "{isa:?} {f:?} {at}");
                assert_eq!(y[1], other, "{isa:?} {f:?}");
            }
        }
    }
}

#[test]
fn nan_is_the_extreme_of_a_short_line() {
    let lines = [
        [1.0, f32::NAN, 3.0],
        [f32::NAN, 1.0, 2.0],
        [3.0, 2.0, f32::NAN],
        [1.0, 2.0, -3.0],
    ];
    let plan = ReducePlan::new(&[4, 3], &[false, true]).unwrap();
    for (f, last) in [(Reduce::Max, 2.0), (Reduce::Min, -3.0)] {
        let mut y = [0.0; 4];
        plan.run(
            Isa::detect(),
            &ThreadPool::new(1),
            f,
            lines.as_flattened(),
            &mut y,
        );
        assert!(y[..3].iter().all(|y| y.is_nan()), "{f:?} {y:?}");
        assert_eq!(y[3], last);
    }
}
