//! Binary functions over one innermost loop: both operands contiguous, or one of them a single value.
#![allow(unsafe_code)]

use super::function::Binary;
use crate::isa::{Kernel, Load, Simd};

/// `out[i] = f(a[i * a_step], b[i * b_step])` for `i` in `0..len`.
pub(crate) struct Run<E> {
    pub(crate) f: Binary,
    pub(crate) len: usize,
    pub(crate) a: *const E,
    pub(crate) b: *const E,
    /// 0 or 1.
    pub(crate) a_step: isize,
    /// 0 or 1.
    pub(crate) b_step: isize,
    pub(crate) out: *mut E,
}

impl<E: Load> Kernel for &Run<E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Run {
            len,
            a,
            b,
            a_step,
            b_step,
            out,
            ..
        } = *self;
        if len == 0 {
            return;
        }
        let (one_a, one_b) = (a_step == 0, b_step == 0);
        // SAFETY: the maker of `Run` promised at least one value of each operand.
        let (first_a, first_b) = unsafe { (s.splat((*a).value()), s.splat((*b).value())) };
        // A macro and not a closure: only code that is part of this function is compiled for the instruction set.
        macro_rules! each {
            (|$x:ident, $y:ident| $z:expr) => {
                for c in (0..len).step_by(S::LANES) {
                    let left = len - c;
                    // SAFETY: the maker of `Run` promised `len` values of each operand with step 1, and of the output.
                    unsafe {
                        let $x = if one_a { first_a } else { s.read(a.add(c), left) };
                        let $y = if one_b { first_b } else { s.read(b.add(c), left) };
                        s.write(out.add(c), $z, left);
                    }
                }
            };
        }
        let zero = s.splat(0.0);
        match self.f {
            Binary::Add => each!(|x, y| s.add(x, y)),
            Binary::Sub => each!(|x, y| s.sub(x, y)),
            Binary::Mul => each!(|x, y| s.mul(x, y)),
            Binary::Div => each!(|x, y| s.div(x, y)),
            // `min` and `max` return the second operand if either is NaN, so only a NaN in `x` must be restored
            Binary::Min => each!(|x, y| s.select(s.eq(x, x), s.min(x, y), x)),
            Binary::Max => each!(|x, y| s.select(s.eq(x, x), s.max(x, y), x)),
            Binary::Prelu => each!(|x, y| s.select(s.lt(x, zero), s.mul(x, y), x)),
            Binary::SquaredDifference => each!(|x, y| {
                let d = s.sub(x, y);
                s.mul(d, d)
            }),
            Binary::Pow => {
                for c in 0..len {
                    // SAFETY: the maker of `Run` promised `len` values of an operand with step 1.
                    let (x, y) = unsafe { (*a.offset(c as isize * a_step), *b.offset(c as isize * b_step)) };
                    // SAFETY: the output has `len` values.
                    unsafe { *out.add(c) = E::nearest(pow(x.value(), y.value())) };
                }
            }
        }
    }
}

/// `x^y`, with shortcuts for exponents that are common in models.
fn pow(x: f32, y: f32) -> f32 {
    if y == 2.0 {
        x * x
    } else if y == 1.0 {
        x
    } else if y == 3.0 {
        x * x * x
    } else if y == 0.5 && (0.0..f32::INFINITY).contains(&x) {
        x.sqrt()
    } else {
        x.powf(y)
    }
}
