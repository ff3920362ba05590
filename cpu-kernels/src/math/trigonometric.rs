//! Circular and hyperbolic functions and their inverses, over any instruction set.
//!
//! 1. NaN is propagated; outside its domain, a function gives NaN.
//! 2. A zero keeps its sign where the function goes through zero.
//! 3. Sine, cosine and tangent of what lies beyond [`REDUCED`] are the mathematical library's, a vector at a time.
#![allow(unsafe_code)] // its lanes pass through memory

use super::{exp, log, polynomial};
use crate::isa::{MOST_LANES, Simd};
use std::f32::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, LN_2, PI};

/// Up to here a quarter turn times the count of them is exact in its first three parts.
const REDUCED: f32 = 8000.0;
/// A quarter turn in four parts: the first has 8 bits, the next two 11.
const QUARTER: [f32; 4] = [1.570_312_5, 4.837_513e-4, 7.549_533_6e-8, 2.563_344e-12];
/// From here on `x² + 1` and `x²` round to the same.
const LONG: f32 = 1e4;

#[inline(always)]
fn library<S: Simd>(s: S, x: S::F, f: fn(f32) -> f32) -> S::F {
    let mut lanes = [0.0f32; MOST_LANES];
    // SAFETY: the array is as wide as the widest vector.
    unsafe { s.store(lanes.as_mut_ptr(), x) };
    for lane in &mut lanes[..S::LANES] {
        *lane = f(*lane);
    }
    // SAFETY: as above.
    unsafe { s.load(lanes.as_ptr()) }
}

#[inline(always)]
fn is_far<S: Simd>(s: S, x: S::F) -> bool {
    // a comparison, not a maximum: on aarch64 compilers make `fmaxnm` of one, and that gives NaN for a signalling NaN, which
    // would hide its neighbours
    let far = s.lt(s.splat(REDUCED), s.abs(x));
    s.max_lane(s.select(far, s.splat(1.0), s.splat(0.0))) > 0.0
}

/// Quarter turns in `x` to the nearest, and sine and cosine of the rest.
#[inline(always)]
fn turn<S: Simd>(s: S, x: S::F) -> (S::I, S::F, S::F) {
    let n = s.round(s.mul(x, s.splat(FRAC_2_PI)));
    let mut r = x;
    for part in QUARTER {
        r = s.mul_add(n, s.splat(-part), r);
    }
    let z = s.mul(r, r);
    let sine = s.mul_add(s.mul(polynomial(s, z, SINE), z), r, r);
    let below = s.mul_add(s.mul(polynomial(s, z, COSINE), z), z, s.mul(z, s.splat(-0.5)));
    (s.to_int(n), sine, s.add(below, s.splat(1.0)))
}

/// The sine where `quarters` is even, else the cosine, negated where `quarters` requires it.
#[inline(always)]
fn quadrant<S: Simd>(s: S, quarters: S::I, sine: S::F, cosine: S::F) -> S::F {
    let odd = s.to_float(s.and_i(quarters, s.splat_i(1)));
    let y = s.select(s.eq(odd, s.splat(0.0)), sine, cosine);
    // flipping the sign bit by an addition modulo 2^32
    let sign = s.shl_i::<30>(s.and_i(quarters, s.splat_i(2)));
    s.to_floats(s.add_i(s.bits(y), sign))
}

/// Sine.
#[inline(always)]
pub(crate) fn sin<S: Simd>(s: S, x: S::F) -> S::F {
    if is_far(s, x) {
        return library(s, x, f32::sin);
    }
    let (quarters, sine, cosine) = turn(s, x);
    let y = quadrant(s, quarters, sine, cosine);
    s.select(s.eq(x, s.splat(0.0)), x, y)
}

/// Cosine.
#[inline(always)]
pub(crate) fn cos<S: Simd>(s: S, x: S::F) -> S::F {
    if is_far(s, x) {
        return library(s, x, f32::cos);
    }
    let (quarters, sine, cosine) = turn(s, x);
    quadrant(s, s.add_i(quarters, s.splat_i(1)), sine, cosine)
}

/// Tangent.
#[inline(always)]
pub(crate) fn tan<S: Simd>(s: S, x: S::F) -> S::F {
    if is_far(s, x) {
        return library(s, x, f32::tan);
    }
    let (quarters, sine, cosine) = turn(s, x);
    let odd = s.to_float(s.and_i(quarters, s.splat_i(1)));
    let even = s.eq(odd, s.splat(0.0));
    let y = s.div(s.select(even, sine, s.neg(cosine)), s.select(even, cosine, sine));
    s.select(s.eq(x, s.splat(0.0)), x, y)
}

/// `asin(a)` for `a` up to a half: itself; else what is left to a quarter turn, and true there.
#[inline(always)]
fn arc<S: Simd>(s: S, a: S::F) -> (S::F, S::M) {
    let large = s.lt(s.splat(0.5), a);
    // asin a = pi/2 - 2 asin sqrt((1 - a) / 2)
    let half = s.mul(s.sub(s.splat(1.0), a), s.splat(0.5));
    let z = s.select(large, half, s.mul(a, a));
    let root = s.select(large, s.sqrt(half), a);
    let y = s.mul_add(s.mul(polynomial(s, z, ASIN), z), root, root);
    (s.select(large, s.add(y, y), y), large)
}

/// Arcus sine.
#[inline(always)]
pub(crate) fn asin<S: Simd>(s: S, x: S::F) -> S::F {
    let a = s.abs(x);
    let (y, large) = arc(s, a);
    let y = s.select(large, s.sub(s.splat(FRAC_PI_2), y), y);
    signed(s, y, x)
}

/// Arcus cosine.
#[inline(always)]
pub(crate) fn acos<S: Simd>(s: S, x: S::F) -> S::F {
    let a = s.abs(x);
    let (y, large) = arc(s, a);
    let negative = s.lt(x, s.splat(0.0));
    let near = s.sub(s.splat(FRAC_PI_2), s.select(negative, s.neg(y), y));
    let far = s.select(negative, s.sub(s.splat(PI), y), y);
    s.select(large, far, near)
}

/// `magnitude` with the sign of `x`; NaN stays NaN.
#[inline(always)]
fn signed<S: Simd>(s: S, magnitude: S::F, x: S::F) -> S::F {
    s.copysign(s.abs(magnitude), x)
}

/// Arcus tangent.
#[inline(always)]
pub(crate) fn atan<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    let a = s.abs(x);
    // tan(pi/8) and tan(3 pi/8)
    let (middle, far) = (s.lt(s.splat(0.414_213_57), a), s.lt(s.splat(2.414_213_7), a));
    let above = s.select(far, s.neg(one), s.select(middle, s.sub(a, one), a));
    let below = s.select(far, a, s.select(middle, s.add(a, one), one));
    let base = s.select(
        far,
        s.splat(FRAC_PI_2),
        s.select(middle, s.splat(FRAC_PI_4), s.splat(0.0)),
    );
    let t = s.div(above, below);
    let z = s.mul(t, t);
    let y = s.add(base, s.mul_add(s.mul(polynomial(s, z, ATAN), z), t, t));
    signed(s, y, x)
}

/// Half of `e^a`, for `a` not negative: infinite only where that is.
#[inline(always)]
fn half_exp<S: Simd>(s: S, a: S::F) -> S::F {
    let root = exp(s, s.mul(a, s.splat(0.5)));
    s.mul(s.mul(root, s.splat(0.5)), root)
}

/// Hyperbolic sine.
#[inline(always)]
pub(crate) fn sinh<S: Simd>(s: S, x: S::F) -> S::F {
    let a = s.abs(x);
    let z = s.mul(x, x);
    let small = s.mul_add(s.mul(polynomial(s, z, SINH), z), x, x);
    let p = half_exp(s, a);
    let large = s.sub(p, s.div(s.splat(0.25), p));
    s.select(s.lt(a, s.splat(1.0)), small, signed(s, large, x))
}

/// Hyperbolic cosine.
#[inline(always)]
pub(crate) fn cosh<S: Simd>(s: S, x: S::F) -> S::F {
    let p = half_exp(s, s.abs(x));
    s.add(p, s.div(s.splat(0.25), p))
}

/// The inverse of the hyperbolic sine.
#[inline(always)]
pub(crate) fn asinh<S: Simd>(s: S, x: S::F) -> S::F {
    let a = s.abs(x);
    let z = s.mul(x, x);
    let small = s.mul_add(s.mul(polynomial(s, z, ASINH), z), x, x);
    let long = s.lt(s.splat(LONG), a);
    let sum = s.add(a, s.sqrt(s.mul_add(a, a, s.splat(1.0))));
    let large = s.add(
        log(s, s.select(long, a, sum)),
        s.select(long, s.splat(LN_2), s.splat(0.0)),
    );
    // a zero keeps its sign, which a product of two would lose
    signed(s, s.select(s.lt(a, s.splat(0.5)), small, large), x)
}

/// The inverse of the hyperbolic cosine.
#[inline(always)]
pub(crate) fn acosh<S: Simd>(s: S, x: S::F) -> S::F {
    let t = s.sub(x, s.splat(1.0));
    let small = s.mul(s.sqrt(s.add(t, t)), polynomial(s, t, ACOSH));
    let long = s.lt(s.splat(LONG), x);
    let sum = s.add(x, s.sqrt(s.mul_add(x, x, s.splat(-1.0))));
    let large = s.add(
        log(s, s.select(long, x, sum)),
        s.select(long, s.splat(LN_2), s.splat(0.0)),
    );
    s.select(s.lt(t, s.splat(0.5)), small, large)
}

/// The inverse of the hyperbolic tangent.
#[inline(always)]
pub(crate) fn atanh<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    let a = s.abs(x);
    let z = s.mul(x, x);
    let small = s.mul_add(s.mul(polynomial(s, z, ATANH), z), x, x);
    let large = s.mul(log(s, s.div(s.add(one, a), s.sub(one, a))), s.splat(0.5));
    s.select(s.lt(a, s.splat(0.5)), small, signed(s, large, x))
}

/// `(sin(r) / r - 1) / r²` of `r²` on [0, (pi/4)²], error of the sine 3.3e-9.
const SINE: [f32; 4] = [-0.166_666_67, 8.333_329e-3, -1.983_925_8e-4, 2.717_568_1e-6];

/// `(cos(r) - 1 + r²/2) / r⁴` of `r²` on [0, (pi/4)²], error of the cosine 5.1e-10.
const COSINE: [f32; 4] = [4.166_666_8e-2, -1.388_888_3e-3, 2.479_943_8e-5, -2.720_334e-7];

/// `(asin(x) / x - 1) / x²` of `x²` on [0, 0.25], relative error of the arcus sine 5.9e-9.
const ASIN: [f32; 5] = [
    0.166_667_54,
    7.495_241_6e-2,
    4.547_71e-2,
    2.414_760_2e-2,
    4.221_856_6e-2,
];

/// `(atan(t) / t - 1) / t²` of `t²` on [0, tan²(pi/8)], relative error of the arcus tangent 2.6e-9.
const ATAN: [f32; 5] = [
    -0.333_333_16,
    0.199_984_83,
    -0.142_437_38,
    0.105_951_4,
    -6.081_155_7e-2,
];

/// `(sinh(x) / x - 1) / x²` of `x²` on [0, 1], relative error of the hyperbolic sine 6.6e-9.
const SINH: [f32; 4] = [0.166_666_67, 8.333_350_5e-3, 1.983_606_6e-4, 2.817_439_5e-6];

/// `(asinh(x) / x - 1) / x²` of `x²` on [0, 0.25], relative error of the inverse 1.1e-9.
const ASINH: [f32; 6] = [
    -0.166_666_66,
    7.499_89e-2,
    -4.461_344_3e-2,
    3.001_45e-2,
    -1.998_563_5e-2,
    9.175_388e-3,
];

/// `acosh(1 + t) / sqrt(2 t)` of `t` on [0, 0.5], relative error 2.5e-9.
const ACOSH: [f32; 6] = [
    1.0,
    -8.333_317e-2,
    1.874_611e-2,
    -5.545_664e-3,
    1.755_755e-3,
    -4.101_663e-4,
];

/// `(atanh(x) / x - 1) / x²` of `x²` on [0, 0.25], relative error of the inverse 2.4e-9.
const ATANH: [f32; 7] = [
    0.333_333_37,
    0.199_997_19,
    0.142_950_64,
    0.109_646_76,
    0.102_977_56,
    2.407_630_3e-2,
    0.176_457_96,
];

#[cfg(test)]
mod tests {
    use crate::elementwise::unary;
    use crate::{Isa, ThreadPool, Unary};

    /// Numbers of every magnitude and both signs, dense ones where functions bend, and special ones.
    fn arguments() -> Vec<f32> {
        let mut all: Vec<f32> = (0..=u32::MAX).step_by(70_001).map(f32::from_bits).collect();
        all.extend((-60_000..60_000).map(|i| i as f32 / 8192.0));
        all.extend((-30_000..30_000).map(|i| i as f32 * 0.37));
        // around multiples of a quarter turn
        all.extend((-5000..5000).map(|i| (f64::from(i) * std::f64::consts::FRAC_PI_2) as f32));
        all.extend([
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            f32::INFINITY,
            -f32::INFINITY,
            f32::NAN,
        ]);
        all
    }

    #[test]
    fn errors_stay_within_the_stated_bounds() {
        type Exact = fn(f64) -> f64;
        // the error over the larger of the result and the last number
        let table: [(Unary, Exact, f64, f64); 11] = [
            (Unary::Sin, f64::sin, 2e-7, 0.01),
            (Unary::Cos, f64::cos, 2e-7, 0.01),
            (Unary::Tan, f64::tan, 2e-6, 0.01),
            (Unary::Asin, f64::asin, 3e-7, 0.0),
            (Unary::Acos, f64::acos, 3e-7, 0.0),
            (Unary::Atan, f64::atan, 3e-7, 0.0),
            (Unary::Sinh, f64::sinh, 6e-7, 0.0),
            (Unary::Cosh, f64::cosh, 6e-7, 0.0),
            (Unary::Asinh, f64::asinh, 4e-7, 0.0),
            (Unary::Acosh, f64::acosh, 4e-7, 0.0),
            (Unary::Atanh, f64::atanh, 4e-7, 0.0),
        ];
        let input = arguments();
        for isa in Isa::available() {
            let pool = ThreadPool::new(2);
            for (f, exact, bound, floor) in table {
                let mut output = vec![0.0; input.len()];
                unary(isa, &pool, f, &input, &mut output);
                for (&x, &y) in input.iter().zip(&output) {
                    let want = exact(f64::from(x));
                    let tiny = want.abs() < 1.2e-38 && y.abs() < 1.3e-38;
                    if (want as f32) == y || want.is_nan() && y.is_nan() || tiny {
                        assert!(
                            x != 0.0 || want.is_nan() || y.is_sign_negative() == want.is_sign_negative(),
                            "{isa:?} {f:?} of {x}: {y}"
                        );
                        continue;
                    }
                    let error = (f64::from(y) - want).abs() / want.abs().max(floor);
                    // just below what is infinite
                    let edge = want.abs() > 3.39e38 && y.abs() > 3.39e38;
                    assert!(
                        error <= bound || edge,
                        "{isa:?} {f:?} of {x:e}: {y:e}, not {want:e}: {error:e}"
                    );
                }
            }
        }
    }
}
