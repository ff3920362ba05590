//! Accuracy of the vector functions against `f64`, and broadcasting against plain loops.

use polychip_cpu_kernels::elementwise::*;
use polychip_cpu_kernels::{Isa, ThreadPool};

/// `erf` by its Taylor series or its continued fraction, both to `f64` accuracy.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a < 2.5 {
        let (mut term, mut sum) = (a, a);
        for n in 1..80 {
            term *= -a * a / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return (sum * 2.0 / std::f64::consts::PI.sqrt()).copysign(x);
    }
    let mut fraction = 0.0;
    for n in (1..80).rev() {
        fraction = f64::from(n) / 2.0 / (a + fraction);
    }
    (1.0 - (-a * a).exp() / (std::f64::consts::PI.sqrt() * (a + fraction))).copysign(x)
}

/// Distance in units in the last place of the nearest `f32`; results below the least normal number count as zero.
fn ulps(got: f32, want: f64) -> f64 {
    let nearest = want as f32;
    if got == nearest || got.is_nan() && want.is_nan() {
        return 0.0;
    }
    if want.abs() < f64::from(f32::MIN_POSITIVE) && got.abs() <= f32::MIN_POSITIVE {
        return 0.0;
    }
    let magnitude = nearest.abs().clamp(f32::MIN_POSITIVE, f32::MAX);
    let unit = f64::from(f32::from_bits(magnitude.to_bits() + 1).min(f32::MAX)) - f64::from(magnitude);
    let unit = if unit > 0.0 {
        unit
    } else {
        f64::from(magnitude) * f64::from(f32::EPSILON)
    };
    ((f64::from(got) - want) / unit).abs()
}

/// Every 5003rd bit pattern of both signs, and the special values.
fn arguments() -> Vec<f32> {
    let mut all: Vec<f32> = (0..=u32::MAX)
        .step_by(5003)
        .map(f32::from_bits)
        .filter(|x| x.is_finite())
        .collect();
    // and a dense range where functions bend
    all.extend((-200_000..200_000).map(|i| i as f32 / 8192.0));
    all
}

type Exact = fn(f64) -> f64;

#[test]
fn functions_keep_their_stated_bounds() {
    let table: [(Unary, Exact, f64); 18] = [
        (
            Unary::Shrink {
                bias: 0.25,
                lambda: 0.75,
            },
            |x| match x {
                _ if x < -0.75 => x + 0.25,
                _ if x > 0.75 => x - 0.25,
                _ => 0.0,
            },
            0.5,
        ),
        (Unary::Exp, f64::exp, 2.0),
        (Unary::Log, f64::ln, 2.0),
        (Unary::Sqrt, f64::sqrt, 0.5),
        (Unary::Reciprocal, |x| 1.0 / x, 0.5),
        (Unary::Square, |x| x * x, 0.5),
        (Unary::Erf, erf, 4.0),
        (Unary::Tanh, f64::tanh, 4.0),
        (Unary::Sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 4.0),
        (Unary::Swish { alpha: 1.0 }, |x| x / (1.0 + (-x).exp()), 6.0),
        (Unary::Relu, |x| x.max(0.0), 0.0),
        (Unary::Clip { low: -1.0, high: 2.0 }, |x| x.clamp(-1.0, 2.0), 0.0),
        (Unary::Abs, f64::abs, 0.0),
        (Unary::Floor, f64::floor, 0.0),
        (Unary::Ceil, f64::ceil, 0.0),
        (Unary::Round, f64::round_ties_even, 0.0),
        (Unary::Softsign, |x| x / (1.0 + x.abs()), 1.0),
        (
            Unary::LeakyRelu { alpha: 0.25 },
            |x| if x < 0.0 { x * 0.25 } else { x },
            0.5,
        ),
    ];
    let input = arguments();
    let pool = ThreadPool::new(1);
    for isa in Isa::available() {
        for (f, exact, bound) in table {
            let mut output = vec![0.0; input.len()];
            unary(isa, &pool, f, &input, &mut output);
            let (mut worst, mut at) = (0.0, 0.0);
            for (&x, &y) in input.iter().zip(&output) {
                let flushed = matches!(f, Unary::Swish { .. }) && x < -88.0 && y == 0.0;
                let error = if flushed {
                    0.0
                } else {
                    ulps(y, exact(f64::from(x)))
                };
                if error > worst || error.is_nan() {
                    (worst, at) = (error, x);
                }
            }
            eprintln!("{isa:?} {f:?}: {worst:.2} ULP at {at:e}");
            assert!(worst <= bound + 0.51, "{isa:?} {f:?}: {worst} ULP at {at:e}");
        }
    }
}

#[test]
fn composed_functions_keep_their_absolute_bounds() {
    fn softplus(x: f64) -> f64 {
        x.max(0.0) + (-x.abs()).exp().ln_1p()
    }
    let table: [(Unary, Exact, f64); 10] = [
        (Unary::Gelu, |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt())), 1e-6),
        (
            Unary::GeluTanh,
            |x| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x)).tanh()),
            1e-6,
        ),
        (
            Unary::HardSigmoid {
                alpha: 0.2,
                beta: 0.5,
            },
            |x| (0.2f32 as f64 * x + 0.5).clamp(0.0, 1.0),
            1e-7,
        ),
        (Unary::HardSwish, |x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0), 3e-7),
        (
            Unary::Elu { alpha: 1.5 },
            |x| if x > 0.0 { x } else { 1.5 * x.exp_m1() },
            4.5e-7,
        ),
        (
            Unary::Selu {
                alpha: 1.5,
                gamma: 1.25,
            },
            |x| 1.25 * if x > 0.0 { x } else { 1.5 * x.exp_m1() },
            6e-7,
        ),
        (
            Unary::Celu { alpha: 2.0 },
            |x| if x > 0.0 { x } else { 2.0 * (x / 2.0).exp_m1() },
            6e-7,
        ),
        (Unary::Softplus, softplus, 1e-6),
        (Unary::Mish, |x| x * softplus(x).tanh(), 2e-6),
        (
            Unary::Affine {
                scale: 2.0,
                shift: 1.0,
            },
            |x| 2.0 * x + 1.0,
            1e-6,
        ),
    ];
    let input: Vec<f32> = arguments().into_iter().filter(|x| x.abs() < 1e4).collect();
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        for (f, exact, bound) in table {
            let mut output = input.clone();
            unary_in_place(isa, &pool, f, &mut output);
            for (&x, &y) in input.iter().zip(&output) {
                let error = (f64::from(y) - exact(f64::from(x))).abs();
                let allowed = bound * f64::from(x.abs()).max(1.0);
                assert!(error <= allowed, "{isa:?} {f:?} of {x:e}: {y:e}, error {error:e}");
            }
        }
    }
}

#[test]
fn special_values() {
    let infinite = f32::INFINITY;
    let cases: [(Unary, f32, f32); 25] = [
        (Unary::Exp, infinite, infinite),
        (Unary::Exp, -infinite, 0.0),
        (Unary::Exp, 88.7, 88.7f32.exp()),
        (Unary::Exp, 89.0, infinite),
        (Unary::Log, 0.0, -infinite),
        (Unary::Log, -1.0, f32::NAN),
        (Unary::Log, infinite, infinite),
        (Unary::Log, 1.0, 0.0),
        (Unary::Tanh, infinite, 1.0),
        (Unary::Tanh, -infinite, -1.0),
        (Unary::Erf, infinite, 1.0),
        (Unary::Erf, -infinite, -1.0),
        (Unary::Sigmoid, infinite, 1.0),
        (Unary::Sigmoid, -infinite, 0.0),
        (Unary::Sign, -3.0, -1.0),
        (Unary::Sign, 0.0, 0.0),
        (Unary::Sign, 1e-30, 1.0),
        (Unary::Round, 2.5, 2.0),
        (Unary::Relu, -1.0, 0.0),
        (Unary::ThresholdedRelu { alpha: 1.0 }, 1.0, 0.0),
        (Unary::ThresholdedRelu { alpha: 1.0 }, 1.5, 1.5),
        (Unary::ThresholdedRelu { alpha: 1.0 }, f32::NAN, 0.0),
        (Unary::Neg, 0.0, -0.0),
        (Unary::Sqrt, -1.0, f32::NAN),
        (Unary::Identity, 3.0, 3.0),
    ];
    let nan_in = [
        Unary::Abs,
        Unary::Relu,
        Unary::Clip { low: 0.0, high: 6.0 },
        Unary::LeakyRelu { alpha: 0.1 },
        Unary::Exp,
        Unary::Log,
        Unary::Sqrt,
        Unary::Erf,
        Unary::Tanh,
        Unary::Sigmoid,
        Unary::Swish { alpha: 1.0 },
        Unary::Gelu,
        Unary::GeluTanh,
        Unary::HardSigmoid {
            alpha: 0.2,
            beta: 0.5,
        },
        Unary::HardSwish,
        Unary::Elu { alpha: 1.0 },
        Unary::Softplus,
        Unary::Mish,
        Unary::Sign,
        Unary::Round,
    ];
    let pool = ThreadPool::new(1);
    for isa in Isa::available() {
        let cases = cases.into_iter().chain(nan_in.map(|f| (f, f32::NAN, f32::NAN)));
        for (f, x, want) in cases {
            // whole vectors and a tail
            let mut y = [x; 19];
            unary_in_place(isa, &pool, f, &mut y);
            for y in y {
                let same = y == want && y.is_sign_negative() == want.is_sign_negative();
                assert!(
                    same || y.is_nan() && want.is_nan(),
                    "{isa:?} {f:?} of {x}: {y}, not {want}"
                );
            }
        }
    }
}

#[test]
fn binary_functions_broadcast() {
    let all = [
        Binary::Add,
        Binary::Sub,
        Binary::Mul,
        Binary::Div,
        Binary::Min,
        Binary::Max,
        Binary::Prelu,
        Binary::SquaredDifference,
        Binary::Pow,
    ];
    let shapes: [(&[usize], &[usize]); 12] = [
        (&[], &[]),
        (&[5], &[]),
        (&[], &[5]),
        (&[40_000], &[40_000]),
        (&[3, 1], &[4]),
        (&[2, 3, 37], &[37]),
        (&[2, 3, 37], &[3, 1]),
        (&[2, 1, 5], &[1, 7, 1]),
        (&[4, 1, 6, 1, 8], &[5, 1, 7, 1]),
        (&[1, 1], &[9, 300]),
        (&[0, 3], &[1, 3]),
        (&[2, 17, 19], &[2, 17, 1]),
    ];
    for threads in [1, 2] {
        let pool = ThreadPool::new(threads);
        for isa in Isa::available() {
            for (a_shape, b_shape) in shapes {
                let plan = BinaryPlan::new(a_shape, b_shape).unwrap();
                let numbers = |shape: &[usize], p: usize| -> Vec<f32> {
                    let len: usize = shape.iter().product();
                    (0..len).map(|i| ((i * p) % 101) as f32 / 25.0 - 2.0).collect()
                };
                let (a, b) = (numbers(a_shape, 7919), numbers(b_shape, 31));
                let rank = a_shape.len().max(b_shape.len());
                let padded = |shape: &[usize]| [vec![1; rank - shape.len()], shape.to_vec()].concat();
                let (pa, pb) = (padded(a_shape), padded(b_shape));
                let out: Vec<usize> = pa
                    .iter()
                    .zip(&pb)
                    .map(|(&a, &b)| if a == 1 { b } else { a })
                    .collect();
                let at = |shape: &[usize], mut flat: usize| {
                    let (mut index, mut stride) = (0, 1);
                    for (&size, &full) in shape.iter().zip(&out).rev() {
                        index += flat % full % size * stride;
                        stride *= size;
                        flat /= full;
                    }
                    index
                };
                for f in all {
                    let mut got = vec![f32::NAN; plan.output_len()];
                    plan.run(isa, &pool, f, &a, &b, &mut got);
                    assert_eq!(got.len(), out.iter().product::<usize>());
                    for (flat, &got) in got.iter().enumerate() {
                        let (x, y) = (a[at(&pa, flat)], b[at(&pb, flat)]);
                        let want = match f {
                            Binary::Add => x + y,
                            Binary::Sub => x - y,
                            Binary::Mul => x * y,
                            Binary::Div => x / y,
                            Binary::Min => x.min(y),
                            Binary::Max => x.max(y),
                            Binary::Prelu => {
                                if x < 0.0 {
                                    x * y
                                } else {
                                    x
                                }
                            }
                            Binary::SquaredDifference => (x - y) * (x - y),
                            Binary::Pow => x.powf(y),
                            other => panic!("{other:?} is not compared"),
                        };
                        let same = got == want || got.is_nan() && want.is_nan();
                        let near = (got - want).abs() <= 1e-6 * want.abs();
                        assert!(
                            same || near,
                            "{isa:?} {f:?} {a_shape:?} {b_shape:?} [{flat}]: {got}, not {want}"
                        );
                    }
                    if plan.output_len() == a.len() {
                        let mut data = a.clone();
                        plan.run_in_place(isa, &pool, f, &mut data, &b);
                        assert!(data.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits()));
                    }
                }
            }
        }
    }
    assert!(BinaryPlan::new(&[2], &[3]).is_err());
    assert!(BinaryPlan::new(&[usize::MAX, 1], &[1, usize::MAX]).is_err());
}

#[test]
fn extremes_keep_nan() {
    let plan = BinaryPlan::new(&[20], &[20]).unwrap();
    for isa in Isa::available() {
        for (x, y) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            for f in [Binary::Min, Binary::Max] {
                let mut got = [0.0; 20];
                plan.run(isa, &ThreadPool::new(1), f, &[x; 20], &[y; 20], &mut got);
                assert!(got.iter().all(|x| x.is_nan()), "{isa:?} {f:?} {x} {y}");
            }
        }
    }
}
