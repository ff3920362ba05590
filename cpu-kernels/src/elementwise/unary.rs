//! Unary functions over rows of a strided array: the loop behind [`super::unary`] and behind late activations.
#![allow(unsafe_code)]

use super::function::Unary;
use crate::isa::{Kernel, Load, Simd};
use crate::math::{self, trigonometric};

/// `out = f(input) + added` over `rows` rows of `columns` values.
pub(crate) struct Rows<A, B, C = B> {
    pub(crate) f: Unary,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) input: *const A,
    pub(crate) input_stride: usize,
    pub(crate) out: *mut B,
    pub(crate) out_stride: usize,
    /// Added to the result, or null.
    pub(crate) added: *const C,
    pub(crate) added_stride: usize,
}

impl<A: Load, B: Load, C: Load> Kernel for &Rows<A, B, C> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Rows {
            rows,
            columns,
            input,
            input_stride,
            out,
            out_stride,
            added,
            added_stride,
            ..
        } = *self;
        // A macro and not a closure: only code that is part of this function is compiled for the instruction set.
        macro_rules! each {
            (|$x:ident| $y:expr) => {
                for row in 0..rows {
                    let from = input.wrapping_add(row * input_stride);
                    let to = out.wrapping_add(row * out_stride);
                    let plus = added.wrapping_add(row * added_stride);
                    let mut c = 0;
                    while c + S::LANES <= columns {
                        // SAFETY: the maker of `Rows` promised `columns` values in each row.
                        let $x = unsafe { s.read(from.add(c), S::LANES) };
                        let mut y = $y;
                        if !added.is_null() {
                            // SAFETY: as above.
                            y = s.add(y, unsafe { s.read(plus.add(c), S::LANES) });
                        }
                        // SAFETY: as above.
                        unsafe { s.write(to.add(c), y, S::LANES) };
                        c += S::LANES;
                    }
                    if c < columns {
                        let left = columns - c;
                        // SAFETY: `left` values remain.
                        let $x = unsafe { s.read(from.add(c), left) };
                        let mut y = $y;
                        if !added.is_null() {
                            // SAFETY: as above.
                            y = s.add(y, unsafe { s.read(plus.add(c), left) });
                        }
                        // SAFETY: as above.
                        unsafe { s.write(to.add(c), y, left) };
                    }
                }
            };
        }
        // The same with the rest of a row in the loop: a branch more for each vector, and the function is in the program half
        // as often. Not for activations behind products, whose rows are a few vectors: YOLOv8n ran 6 % longer.
        macro_rules! each_long {
            (|$x:ident| $y:expr) => {
                for row in 0..rows {
                    let from = input.wrapping_add(row * input_stride);
                    let to = out.wrapping_add(row * out_stride);
                    let plus = added.wrapping_add(row * added_stride);
                    let mut c = 0;
                    while c < columns {
                        let left = columns - c;
                        // SAFETY: `left` values remain.
                        let $x = unsafe { s.read(from.add(c), left) };
                        let mut y = $y;
                        if !added.is_null() {
                            // SAFETY: as above.
                            y = s.add(y, unsafe { s.read(plus.add(c), left) });
                        }
                        // SAFETY: as above.
                        unsafe { s.write(to.add(c), y, left) };
                        c += S::LANES;
                    }
                }
            };
        }
        let (zero, one, half) = (s.splat(0.0), s.splat(1.0), s.splat(0.5));
        match self.f {
            Unary::Identity => each!(|x| x),
            Unary::Abs => each!(|x| s.abs(x)),
            Unary::Neg => each!(|x| s.neg(x)),
            Unary::Relu => each!(|x| s.max(zero, x)),
            Unary::Clip { low, high } => {
                let (low, high) = (s.splat(low), s.splat(high));
                each!(|x| s.min(high, s.max(low, x)))
            }
            Unary::LeakyRelu { alpha } => {
                let alpha = s.splat(alpha);
                each!(|x| s.select(s.lt(x, zero), s.mul(x, alpha), x))
            }
            Unary::ThresholdedRelu { alpha } => {
                let alpha = s.splat(alpha);
                // NaN is not above the threshold
                each!(|x| s.select(s.lt(alpha, x), x, zero))
            }
            Unary::Exp => each_long!(|x| math::exp(s, x)),
            Unary::Log => each_long!(|x| math::log(s, x)),
            Unary::Sqrt => each!(|x| s.sqrt(x)),
            Unary::Reciprocal => each!(|x| s.div(one, x)),
            Unary::Square => each!(|x| s.mul(x, x)),
            Unary::Erf => each_long!(|x| math::erf(s, x)),
            Unary::Tanh => each!(|x| math::tanh(s, x)),
            Unary::Sigmoid => each!(|x| math::sigmoid(s, x)),
            Unary::Swish { alpha } => {
                let minus = s.splat(-alpha);
                each!(|x| s.div(x, s.add(one, math::exp(s, s.mul(minus, x)))))
            }
            Unary::Gelu => each!(|x| s.mul(x, math::normal_below(s, x))),
            Unary::GeluTanh => {
                let (scale, cubic) = (s.splat(0.797_884_6), s.splat(0.797_884_6 * 0.044_715));
                each!(|x| {
                    let inner = s.mul(x, s.mul_add(s.mul(x, x), cubic, scale));
                    s.mul(s.mul(half, x), s.add(one, math::tanh(s, inner)))
                })
            }
            Unary::HardSigmoid { alpha, beta } => {
                let (alpha, beta) = (s.splat(alpha), s.splat(beta));
                each!(|x| s.min(one, s.max(zero, s.mul_add(alpha, x, beta))))
            }
            Unary::HardSwish => {
                let sixth = s.splat(1.0 / 6.0);
                each!(|x| s.mul(x, s.min(one, s.max(zero, s.mul_add(sixth, x, half)))))
            }
            Unary::Elu { alpha } => {
                let alpha = s.splat(alpha);
                each!(|x| s.select(s.lt(zero, x), x, s.mul(alpha, s.sub(math::exp(s, x), one))))
            }
            Unary::Selu { alpha, gamma } => {
                let (gamma, product) = (s.splat(gamma), s.splat(alpha * gamma));
                each_long!(|x| s.select(
                    s.lt(zero, x),
                    s.mul(gamma, x),
                    s.mul(product, s.sub(math::exp(s, x), one))
                ))
            }
            Unary::Celu { alpha } => {
                let (alpha, inverse) = (s.splat(alpha), s.splat(1.0 / alpha));
                each_long!(|x| {
                    let below = s.mul(alpha, s.sub(math::exp(s, s.mul(x, inverse)), one));
                    s.select(s.lt(zero, x), x, below)
                })
            }
            Unary::Softplus => each_long!(|x| math::softplus(s, x)),
            Unary::Softsign => each!(|x| s.div(x, s.add(one, s.abs(x)))),
            Unary::Mish => {
                let (two, cap) = (s.splat(2.0), s.splat(20.0));
                each!(|x| {
                    // tanh(ln(1 + e)) = e (e + 2) / (e (e + 2) + 2); beyond 20 it rounds to 1
                    let e = math::exp(s, s.min(cap, x));
                    let p = s.mul(e, s.add(e, two));
                    s.mul(x, s.div(p, s.add(p, two)))
                })
            }
            Unary::Floor => each!(|x| s.floor(x)),
            Unary::Ceil => each!(|x| s.ceil(x)),
            Unary::Round => each!(|x| s.round(x)),
            Unary::Sign => each!(|x| {
                let magnitude = s.select(s.lt(zero, s.abs(x)), one, x);
                // a zero keeps its sign, a NaN stays NaN
                s.copysign(s.abs(magnitude), x)
            }),
            Unary::Sin => each_long!(|x| trigonometric::sin(s, x)),
            Unary::Cos => each_long!(|x| trigonometric::cos(s, x)),
            Unary::Tan => each_long!(|x| trigonometric::tan(s, x)),
            Unary::Asin => each_long!(|x| trigonometric::asin(s, x)),
            Unary::Acos => each_long!(|x| trigonometric::acos(s, x)),
            Unary::Atan => each_long!(|x| trigonometric::atan(s, x)),
            Unary::Sinh => each_long!(|x| trigonometric::sinh(s, x)),
            Unary::Cosh => each_long!(|x| trigonometric::cosh(s, x)),
            Unary::Asinh => each_long!(|x| trigonometric::asinh(s, x)),
            Unary::Acosh => each_long!(|x| trigonometric::acosh(s, x)),
            Unary::Atanh => each_long!(|x| trigonometric::atanh(s, x)),
            Unary::Shrink { bias, lambda } => {
                let (bias, above, below) = (s.splat(bias), s.splat(lambda), s.splat(-lambda));
                each!(|x| {
                    let y = s.select(s.lt(above, x), s.sub(x, bias), zero);
                    s.select(s.lt(x, below), s.add(x, bias), y)
                })
            }
            Unary::Affine { scale, shift } => {
                let (scale, shift) = (s.splat(scale), s.splat(shift));
                each!(|x| s.mul_add(scale, x, shift))
            }
        }
    }
}

/// `out = f(out) + added` over rows; `added` may be null.
///
/// # Safety
/// `rows` rows of `columns` values exist at `out` and, unless null, `added`, and no other thread touches them.
#[inline(always)]
pub(crate) unsafe fn apply_rows<S: Simd, E: Load>(
    s: S,
    f: Unary,
    out: *mut E,
    rows: usize,
    columns: usize,
    out_stride: usize,
    added: *const E,
    added_stride: usize,
) {
    let rows = Rows {
        f,
        rows,
        columns,
        input: out,
        input_stride: out_stride,
        out,
        out_stride,
        added,
        added_stride,
    };
    s.enter(&rows);
}
