//! Vector functions: exponential, logarithm, error function, hyperbolic tangent and circular functions, over any instruction set.
//!
//! 1. NaN is propagated.
//! 2. The polynomials are Chebyshev interpolations computed for this crate on the stated intervals;
//!    the tests measure the largest error of each function against `f64`.
//!
//! Not here: loops over slices.

pub(crate) mod trigonometric;

use crate::isa::Simd;

/// `c[0] + c[1] x + c[2] x² + …`.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(s: S, x: S::F, c: [f32; N]) -> S::F {
    let mut sum = s.splat(c[N - 1]);
    for &c in c.iter().rev().skip(1) {
        sum = s.mul_add(sum, x, s.splat(c));
    }
    sum
}

/// `e^x`.
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    // below -104 the result is 0, above 89 it is infinite; NaN passes both
    let x = s.min(s.splat(89.0), s.max(s.splat(-104.0), x));
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    // ln 2 in two parts: the first has few bits, so its product with n is exact
    let r = s.mul_add(n, s.splat(-0.693_359_4), x);
    let r = s.mul_add(n, s.splat(2.121_944_4e-4), r);
    // (e^r - 1 - r) / r² on [-ln 2 / 2, ln 2 / 2]
    let q = polynomial(s, r, EXP);
    let p = s.add(s.mul_add(q, s.mul(r, r), r), s.splat(1.0));
    s.scale(p, n)
}

/// `e^x` for `x` up to 0; what would be smaller than the smallest normal number is 0.
#[inline(always)]
pub(crate) fn exp_below_zero<S: Simd>(s: S, x: S::F) -> S::F {
    // -88 becomes 2^-127, whose exponent's bits are those of 0; NaN passes
    exp_within(s, s.max(s.splat(-88.0), x))
}

/// `e^x` for `x` in [-88, 88]; below -87.3 it is 0.
#[inline(always)]
fn exp_within<S: Simd>(s: S, x: S::F) -> S::F {
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let r = s.mul_add(n, s.splat(-0.693_359_4), x);
    let r = s.mul_add(n, s.splat(2.121_944_4e-4), r);
    let q = polynomial(s, r, EXP);
    let p = s.add(s.mul_add(q, s.mul(r, r), r), s.splat(1.0));
    s.mul(
        p,
        s.to_floats(s.shl_i::<23>(s.add_i(s.to_int(n), s.splat_i(127)))),
    )
}

/// Natural logarithm.
#[inline(always)]
pub(crate) fn log<S: Simd>(s: S, x: S::F) -> S::F {
    let tiny = s.lt(x, s.splat(f32::MIN_POSITIVE));
    let scaled = s.select(tiny, s.mul(x, s.splat(33_554_432.0)), x); // 2^25
    let bias = s.select(tiny, s.splat(-25.0), s.splat(0.0));
    // x = m 2^e with m in [sqrt 1/2, sqrt 2)
    let bits = s.bits(scaled);
    let e = s.shr_i::<23>(s.sub_i(bits, s.splat_i(0x3f35_04f3)));
    let m = s.to_floats(s.sub_i(bits, s.shl_i::<23>(e)));
    let e = s.add(s.to_float(e), bias);
    let f = s.sub(m, s.splat(1.0));
    let t = s.div(f, s.add(f, s.splat(2.0)));
    let z = s.mul(t, t);
    let r = s.mul(z, polynomial(s, z, LOG));
    let half = s.mul(s.mul(f, f), s.splat(0.5));
    let low = s.mul_add(e, s.splat(-2.121_944_4e-4), s.mul(t, s.add(half, r)));
    let y = s.mul_add(e, s.splat(0.693_359_4), s.sub(f, s.sub(half, low)));
    let y = s.select(s.eq(x, s.splat(f32::INFINITY)), x, y);
    let y = s.select(s.eq(x, s.splat(0.0)), s.splat(f32::NEG_INFINITY), y);
    // negative or NaN
    s.select(s.le(s.splat(0.0), x), y, s.splat(f32::NAN))
}

/// Hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let a = s.abs(x);
    let z = s.mul(x, x);
    let small = s.mul_add(s.mul(polynomial(s, z, TANH), z), x, x);
    // 1 - 2t / (1 + t) with t = e^-2a; from 10 on it rounds to 1; NaN passes
    let t = exp_within(s, s.mul(s.min(s.splat(10.0), a), s.splat(-2.0)));
    let large = s.sub(s.splat(1.0), s.div(s.add(t, t), s.add(t, s.splat(1.0))));
    s.select(s.lt(a, s.splat(0.625)), small, s.copysign(large, x))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(s: S, x: S::F) -> S::F {
    s.div(s.splat(1.0), s.add(s.splat(1.0), exp(s, s.neg(x))))
}

/// Error function.
#[inline(always)]
pub(crate) fn erf<S: Simd>(s: S, x: S::F) -> S::F {
    let a = s.abs(x);
    let z = s.mul(x, x);
    let small = s.mul(x, polynomial(s, z, ERF));
    // ln erfc on [0.95, 4]; beyond 4 the result rounds to 1
    let t = s.min(s.splat(4.0), a);
    let large = s.sub(s.splat(1.0), exp_within(s, polynomial(s, t, LOG_ERFC)));
    s.select(s.lt(a, s.splat(0.95)), small, s.copysign(large, x))
}

/// The share of a normal distribution that lies below `x`, to 2e-7; 0 from -5.5 down.
#[inline(always)]
pub(crate) fn normal_below<S: Simd>(s: S, x: S::F) -> S::F {
    let end = 5.5;
    // operand order: NaN passes
    let near = s.min(s.splat(end), s.max(s.splat(-end), x));
    let z = s.mul(near, near);
    let above = s.mul(near, polynomial(s, z, NORMAL_ABOVE));
    let share = s.add(s.div(above, polynomial(s, z, NORMAL_BELOW)), s.splat(0.5));
    s.select(s.lt(x, s.splat(-end)), s.splat(0.0), share)
}

/// `ln(1 + e^x)`.
#[inline(always)]
pub(crate) fn softplus<S: Simd>(s: S, x: S::F) -> S::F {
    let y = exp(s, s.neg(s.abs(x)));
    s.add(s.max(s.splat(0.0), x), log_of_one_and(s, y))
}

/// `ln(1 + y)` for `y` in [0, 1], exact to some units in the last place also where it is next to nothing.
#[inline(always)]
fn log_of_one_and<S: Simd>(s: S, y: S::F) -> S::F {
    // 1 + y loses what y is; (1 + t) / (1 - t) with t = y / (2 + y) is the same
    let t = s.div(y, s.add(s.splat(2.0), y));
    let t2 = s.mul(t, t);
    let small = s.mul(t, s.mul_add(polynomial(s, t2, LOG), t2, s.splat(2.0)));
    // the series holds for t² up to 0.0295
    s.select(s.lt(y, s.splat(0.41)), small, log(s, s.add(s.splat(1.0), y)))
}

/// `(e^r - 1 - r) / r²` on [-ln 2 / 2, ln 2 / 2], error 1.4e-9.
const EXP: [f32; 6] = [
    0.5,
    1.666_666_7e-1,
    4.166_646_7e-2,
    8.333_298e-3,
    1.393_365_2e-3,
    1.989_928_7e-4,
];

/// `((ln((1 + t) / (1 - t)) / t) - 2) / t²` of `t²` on [0, 0.0295], error 1.2e-9.
const LOG: [f32; 4] = [6.666_667e-1, 4.000_012_3e-1, 2.855_068_7e-1, 2.333_390_7e-1];

/// `(tanh(x) / x - 1) / x²` of `x²` on [0, 0.625²], error 4.2e-8.
const TANH: [f32; 5] = [
    -3.333_332_8e-1,
    1.333_278_3e-1,
    -5.385_25e-2,
    2.100_364_3e-2,
    -6.104_949_4e-3,
];

/// `erf(x) / x` of `x²` on [0, 0.95²], error 6.2e-10.
const ERF: [f32; 7] = [
    std::f32::consts::FRAC_2_SQRT_PI,
    -3.761_263_2e-1,
    1.128_367_1e-1,
    -2.685_803_2e-2,
    5.197_642_4e-3,
    -8.104_442e-4,
    8.209_797e-5,
];

/// `ln(1 - erf(x))` on [0.95, 4], error 1.3e-8.
const LOG_ERFC: [f32; 9] = [
    3.041_767_6e-4,
    -1.130_170_3,
    -6.319_313_6e-1,
    -1.099_833e-1,
    2.636_741_5e-2,
    -4.741_118e-3,
    5.929_505_6e-4,
    -4.561_102e-5,
    1.615_045e-6,
];

/// Numerator and denominator of `erf(x / sqrt 2) / 2x` of `x²` on [0, 5.5²], relative error 1.7e-8 (least squares,
/// reweighted until the errors were even).
const NORMAL_ABOVE: [f32; 6] = [
    3.989_422_6e-1,
    3.345_752e-2,
    4.651_383e-3,
    1.645_580_2e-4,
    6.301_329e-6,
    2.293_124e-8,
];
const NORMAL_BELOW: [f32; 6] = [
    1.0,
    2.505_319_7e-1,
    2.841_530_7e-2,
    1.860_556_8e-3,
    7.216_12e-5,
    1.199_011_6e-6,
];
