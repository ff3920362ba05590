//! Elementwise functions of integers, booleans and `f64`, and those of `f32` without a vector kernel, with broadcasting.
//!
//! 1. Integers wrap; a quotient or remainder by zero is 0, and a shift by more than the width leaves only the sign.
//! 2. A boolean is a byte: any value but 0 is true, and results are 0 or 1.
//! 3. Loops are plain loops over slices, which the compiler vectorises for each instruction set,
//!    since not all sets have the same instructions (the oldest, for example, has no 64-bit
//!    comparisons).
//!
//! Not here: functions of `f32` and `bf16` ([`crate::elementwise`]), conversions between types.
#![allow(unsafe_code)]

use crate::isa::{Kernel, Simd};
pub use crate::reference::compare::Comparison;
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

/// A function of two numbers of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a × b`
    Mul,
    /// `a / b`, of integers towards zero
    Div,
    /// The greater one; NaN if either is NaN
    Max,
    /// The lesser one; NaN if either is NaN
    Min,
    /// The remainder with the sign of the divisor
    Mod,
    /// The remainder with the sign of the dividend
    Fmod,
}

/// A function of the bits of two integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bitwise {
    /// Bits of both
    And,
    /// Bits of one or both
    Or,
    /// Bits of one alone
    Xor,
    /// `a` moved up by `b` bits
    ShiftLeft,
    /// `a` moved down by `b` bits
    ShiftRight,
}

/// A function of two truth values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logic {
    /// Both hold
    And,
    /// One or both hold
    Or,
    /// One holds
    Xor,
    /// Both hold, or none does
    Equal,
}

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Single {
    /// The number without its sign
    Abs,
    /// The number with the other sign
    Neg,
    /// -1, 0 or 1; NaN of NaN
    Sign,
}

/// The elements of an operand that a row of a result reads.
#[derive(Debug, Clone, Copy)]
pub enum Row<'a, T> {
    /// One value for all of the row.
    One(T),
    /// One value per element of the row.
    Many(&'a [T]),
}

/// A function of two operands, over rows. If the first is one value, the caller repeats it.
pub type Rows<T, U> = fn(Isa, &mut [U], &[T], Row<'_, T>);

/// Copies of a first operand with a single value per row that are written at a time, to reuse the loops over rows of
/// values: there is one such loop for each function, type and instruction set.
pub(crate) const REPEATED: usize = 1024;

/// A function of one operand, over a slice.
pub type Pass<T, U> = fn(Isa, &mut [U], &[T]);

fn zip<T: Copy, U: Copy>(isa: Isa, y: &mut [U], a: &[T], b: Row<'_, T>, f: impl Fn(T, T) -> U) {
    isa.run(Zip { y, a, b, f });
}

/// A function of two operands over a row, compiled for each instruction set.
struct Zip<'a, T, U, F> {
    y: &'a mut [U],
    a: &'a [T],
    b: Row<'a, T>,
    f: F,
}

impl<T: Copy, U: Copy, F: Fn(T, T) -> U> Kernel for Zip<'_, T, U, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Zip { y, a, b, f } = self;
        match b {
            Row::Many(b) => {
                for ((y, &a), &b) in y.iter_mut().zip(a).zip(b) {
                    *y = f(a, b);
                }
            }
            Row::One(b) => {
                for (y, &a) in y.iter_mut().zip(a) {
                    *y = f(a, b);
                }
            }
        }
    }
}

fn map<T: Copy, U>(isa: Isa, y: &mut [U], x: &[T], f: impl Fn(T) -> U) {
    isa.run(Map { y, x, f });
}

/// A function of one operand over a row, compiled for each instruction set.
struct Map<'a, T, U, F> {
    y: &'a mut [U],
    x: &'a [T],
    f: F,
}

impl<T: Copy, U, F: Fn(T) -> U> Kernel for Map<'_, T, U, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (y, &x) in self.y.iter_mut().zip(self.x) {
            *y = (self.f)(x);
        }
    }
}

/// A number type of these functions.
pub trait Number: Copy + Send + Sync + 'static {
    /// A function over rows.
    fn arithmetic(f: Arithmetic) -> Rows<Self, Self>;
    /// A function of bits over rows; none of floats.
    fn bitwise(f: Bitwise) -> Option<Rows<Self, Self>>;
    /// A comparison over rows, as truth values.
    fn comparison(f: Comparison) -> Rows<Self, u8>;
    /// A function over a slice.
    fn single(f: Single) -> Pass<Self, Self>;
    /// All bits inverted; none of floats.
    fn inverted() -> Option<Pass<Self, Self>>;
    /// `y = min(max(x, low), high)`, where a limit that is left out is the last finite number; NaN stays.
    fn clip(isa: Isa, y: &mut [Self], x: &[Self], low: Option<Self>, high: Option<Self>);
}

macro_rules! comparisons {
    () => {
        fn comparison(f: Comparison) -> Rows<Self, u8> {
            match f {
                Comparison::Equal => |isa, y, a, b| zip(isa, y, a, b, |a, b| u8::from(a == b)),
                Comparison::Less => |isa, y, a, b| zip(isa, y, a, b, |a, b| u8::from(a < b)),
                Comparison::LessOrEqual => |isa, y, a, b| zip(isa, y, a, b, |a, b| u8::from(a <= b)),
                Comparison::Greater => |isa, y, a, b| zip(isa, y, a, b, |a, b| u8::from(a > b)),
                Comparison::GreaterOrEqual => |isa, y, a, b| zip(isa, y, a, b, |a, b| u8::from(a >= b)),
            }
        }
    };
}

macro_rules! integers {
    ($($t:ident: $abs:expr, $sign:expr, $spent:expr, $floor:expr, $quotient:expr;)*) => {$(
        impl Number for $t {
            fn arithmetic(f: Arithmetic) -> Rows<$t, $t> {
                match f {
                    Arithmetic::Add => |isa, y, a, b| zip(isa, y, a, b, $t::wrapping_add),
                    Arithmetic::Sub => |isa, y, a, b| zip(isa, y, a, b, $t::wrapping_sub),
                    Arithmetic::Mul => |isa, y, a, b| zip(isa, y, a, b, $t::wrapping_mul),
                    Arithmetic::Div => |isa, y, a, b| zip(isa, y, a, b, $quotient),
                    Arithmetic::Max => |isa, y, a, b| zip(isa, y, a, b, Ord::max),
                    Arithmetic::Min => |isa, y, a, b| zip(isa, y, a, b, Ord::min),
                    Arithmetic::Mod => |isa, y, a, b| zip(isa, y, a, b, $floor),
                    Arithmetic::Fmod => |isa, y, a, b| zip(isa, y, a, b, |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) }),
                }
            }
            fn bitwise(f: Bitwise) -> Option<Rows<$t, $t>> {
                Some(match f {
                    Bitwise::And => |isa, y, a, b| zip(isa, y, a, b, |a, b| a & b),
                    Bitwise::Or => |isa, y, a, b| zip(isa, y, a, b, |a, b| a | b),
                    Bitwise::Xor => |isa, y, a, b| zip(isa, y, a, b, |a, b| a ^ b),
                    Bitwise::ShiftLeft => |isa, y, a, b| zip(isa, y, a, b, |a, b| {
                        u32::try_from(b).ok().and_then(|b| a.checked_shl(b)).unwrap_or(0)
                    }),
                    Bitwise::ShiftRight => |isa, y, a, b| zip(isa, y, a, b, |a, b| {
                        u32::try_from(b).ok().and_then(|b| a.checked_shr(b)).unwrap_or_else(|| $spent(a))
                    }),
                })
            }
            comparisons!();
            fn single(f: Single) -> Pass<$t, $t> {
                match f {
                    Single::Abs => |isa, y, x| map(isa, y, x, $abs),
                    Single::Neg => |isa, y, x| map(isa, y, x, $t::wrapping_neg),
                    Single::Sign => |isa, y, x| map(isa, y, x, $sign),
                }
            }
            fn inverted() -> Option<Pass<$t, $t>> {
                Some(|isa, y, x| map(isa, y, x, |x| !x))
            }
            fn clip(isa: Isa, y: &mut [$t], x: &[$t], low: Option<$t>, high: Option<$t>) {
                let (low, high) = (low.unwrap_or($t::MIN), high.unwrap_or($t::MAX));
                map(isa, y, x, |x| x.max(low).min(high));
            }
        }
    )*};
}

/// The remainder with the sign of the divisor.
macro_rules! floored {
    (signed) => {
        |a, b| {
            if b == 0 {
                return 0;
            }
            let r = a.wrapping_rem(b);
            if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
        }
    };
    (unsigned) => {
        |a, b| if b == 0 { 0 } else { a % b }
    };
}

/// `a / b` towards zero, by a quotient of `f64`, which is exact for 32 bits and of which vectors have one: its distance to the
/// next integer is more than it is rounded by.
#[inline(always)]
fn quotient(a: i32, b: i32) -> i32 {
    let special = b == 0 || b == -1;
    let divisor = if special { 1 } else { b };
    let real = f64::from(a) / f64::from(divisor);
    // SAFETY: no greater than `a`.
    let whole = unsafe { real.to_int_unchecked::<i32>() };
    match b {
        0 => 0,
        -1 => a.wrapping_neg(),
        _ => whole,
    }
}

integers! {
    i8: i8::wrapping_abs, i8::signum, |a: i8| a >> (i8::BITS - 1), floored!(signed), |a: i8, b: i8| if b == 0 { 0 } else { a.wrapping_div(b) };
    i16: i16::wrapping_abs, i16::signum, |a: i16| a >> (i16::BITS - 1), floored!(signed), |a: i16, b: i16| if b == 0 { 0 } else { a.wrapping_div(b) };
    i32: i32::wrapping_abs, i32::signum, |a: i32| a >> (i32::BITS - 1), floored!(signed), quotient;
    i64: i64::wrapping_abs, i64::signum, |a: i64| a >> (i64::BITS - 1), floored!(signed), |a: i64, b: i64| if b == 0 { 0 } else { a.wrapping_div(b) };
    u8: |x| x, |x: u8| x.min(1), |_: u8| 0, floored!(unsigned), |a: u8, b: u8| if b == 0 { 0 } else { a.wrapping_div(b) };
    u16: |x| x, |x: u16| x.min(1), |_: u16| 0, floored!(unsigned), |a: u16, b: u16| if b == 0 { 0 } else { a.wrapping_div(b) };
    u32: |x| x, |x: u32| x.min(1), |_: u32| 0, floored!(unsigned), |a: u32, b: u32| if b == 0 { 0 } else { a.wrapping_div(b) };
    u64: |x| x, |x: u64| x.min(1), |_: u64| 0, floored!(unsigned), |a: u64, b: u64| if b == 0 { 0 } else { a.wrapping_div(b) };
}

macro_rules! floats {
    ($($t:ident)*) => {$(
        impl Number for $t {
            fn arithmetic(f: Arithmetic) -> Rows<$t, $t> {
                match f {
                    Arithmetic::Add => |isa, y, a, b| zip(isa, y, a, b, |a, b| a + b),
                    Arithmetic::Sub => |isa, y, a, b| zip(isa, y, a, b, |a, b| a - b),
                    Arithmetic::Mul => |isa, y, a, b| zip(isa, y, a, b, |a, b| a * b),
                    Arithmetic::Div => |isa, y, a, b| zip(isa, y, a, b, |a, b| a / b),
                    Arithmetic::Max => |isa, y, a, b| zip(isa, y, a, b, |a, b| if a.is_nan() || a > b { a } else { b }),
                    Arithmetic::Min => |isa, y, a, b| zip(isa, y, a, b, |a, b| if a.is_nan() || a < b { a } else { b }),
                    Arithmetic::Mod => |isa, y, a, b| zip(isa, y, a, b, |a, b| {
                        let r = a % b;
                        if r == 0.0 {
                            (0.0 as $t).copysign(b)
                        } else if (r < 0.0) != (b < 0.0) {
                            r + b
                        } else {
                            r
                        }
                    }),
                    Arithmetic::Fmod => |isa, y, a, b| zip(isa, y, a, b, |a, b| a % b),
                }
            }
            fn bitwise(_: Bitwise) -> Option<Rows<$t, $t>> {
                None
            }
            comparisons!();
            fn single(f: Single) -> Pass<$t, $t> {
                match f {
                    Single::Abs => |isa, y, x| map(isa, y, x, $t::abs),
                    Single::Neg => |isa, y, x| map(isa, y, x, |x| -x),
                    Single::Sign => |isa, y, x| map(isa, y, x, |x| {
                        if x == 0.0 || x.is_nan() { x } else { x.signum() }
                    }),
                }
            }
            fn inverted() -> Option<Pass<$t, $t>> {
                None
            }
            fn clip(isa: Isa, y: &mut [$t], x: &[$t], low: Option<$t>, high: Option<$t>) {
                let (low, high) = (low.unwrap_or($t::MIN), high.unwrap_or($t::MAX));
                map(isa, y, x, |x| {
                    let x = if x.is_nan() || x > low { x } else { low };
                    if x.is_nan() || x < high { x } else { high }
                });
            }
        }
    )*};
}

floats! { f32 f64 }

/// A function of truth values over rows.
#[must_use]
pub fn logic(f: Logic) -> Rows<u8, u8> {
    match f {
        Logic::And => |isa, y, a, b| zip(isa, y, a, b, |a, b| u8::from(a != 0) & u8::from(b != 0)),
        Logic::Or => |isa, y, a, b| zip(isa, y, a, b, |a, b| u8::from(a | b != 0)),
        Logic::Xor => |isa, y, a, b| zip(isa, y, a, b, |a, b| u8::from((a != 0) != (b != 0))),
        Logic::Equal => |isa, y, a, b| zip(isa, y, a, b, |a, b| u8::from((a != 0) == (b != 0))),
    }
}

/// Negates each truth value.
pub fn not(isa: Isa, y: &mut [u8], x: &[u8]) {
    map(isa, y, x, |x| u8::from(x == 0));
}

/// Elements that are selected by their bits.
pub trait Bits: Copy {
    /// `a` where the mask is not 0, else `b`, without a branch.
    fn blend(mask: u8, a: Self, b: Self) -> Self;
}

macro_rules! bits {
    ($($t:ty),*) => {
        $(impl Bits for $t {
            #[inline(always)]
            fn blend(mask: u8, a: Self, b: Self) -> Self {
                let all = <$t>::from(mask != 0).wrapping_neg();
                (a & all) | (b & !all)
            }
        })*
    };
}
bits!(u8, u16, u32, u64);

/// `y[i] = a[i]` where `mask[i]` holds, else `b[i]`.
pub fn select<T: Bits>(isa: Isa, y: &mut [T], mask: Row<'_, u8>, a: Row<'_, T>, b: Row<'_, T>) {
    let mask = match mask {
        Row::Many(mask) => mask,
        Row::One(mask) => {
            return match if mask != 0 { a } else { b } {
                Row::One(value) => y.fill(value),
                Row::Many(values) => y.copy_from_slice(values),
            };
        }
    };
    isa.run(Select { y, mask, a, b });
}

/// What of two operands a row of truth values selects, compiled for each instruction set.
struct Select<'a, T> {
    y: &'a mut [T],
    mask: &'a [u8],
    a: Row<'a, T>,
    b: Row<'a, T>,
}

impl<T: Bits> Kernel for Select<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Select { y, mask, a, b } = self;
        macro_rules! each {
            ($operands:expr, $pattern:pat => ($a:expr, $b:expr)) => {
                for ((y, &mask), $pattern) in y.iter_mut().zip(mask).zip($operands) {
                    *y = T::blend(mask, $a, $b);
                }
            };
        }
        match (a, b) {
            (Row::Many(a), Row::Many(b)) => each!(a.iter().zip(b), (&a, &b) => (a, b)),
            (Row::Many(a), Row::One(b)) => each!(a, &a => (a, b)),
            (Row::One(a), Row::Many(b)) => each!(b, &b => (a, b)),
            (Row::One(a), Row::One(b)) => {
                for (y, &mask) in y.iter_mut().zip(mask) {
                    *y = T::blend(mask, a, b);
                }
            }
        }
    }
}

/// A function of one operand over a tensor, on all threads of the pool.
///
/// # Panics
/// If the lengths differ.
pub fn pass<T: Copy + Sync, U: Copy + Send>(
    isa: Isa,
    pool: &ThreadPool,
    f: &(impl Fn(Isa, &mut [U], &[T]) + Sync),
    x: &[T],
    y: &mut [U],
) {
    assert_eq!(x.len(), y.len(), "pass: lengths differ");
    let len = y.len();
    let parts = Parts::new(y);
    let chunks = len.div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        let range = share(len, chunks, chunk, 64);
        // SAFETY: chunks share the output out.
        f(isa, unsafe { parts.part(range.start, range.len()) }, &x[range]);
    });
}

/// How the elements of a group are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// Their sum, which wraps.
    Sum,
    /// Their product, which wraps.
    Product,
    /// The greatest.
    Max,
    /// The least.
    Min,
}

/// An integer type for [`fold`].
pub trait Folded: Copy + Send + Sync + 'static {
    /// What changes nothing.
    fn neutral(f: Fold) -> Self;
    /// The sum.
    fn sum(self, other: Self) -> Self;
    /// The product.
    fn product(self, other: Self) -> Self;
    /// The greater one.
    fn greater(self, other: Self) -> Self;
    /// The lesser one.
    fn lesser(self, other: Self) -> Self;
}
macro_rules! folded {
    ($($t:ident)*) => {$(
        impl Folded for $t {
            fn neutral(f: Fold) -> $t {
                match f {
                    Fold::Sum => 0,
                    Fold::Product => 1,
                    Fold::Max => $t::MIN,
                    Fold::Min => $t::MAX,
                }
            }
            #[inline(always)]
            fn sum(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn product(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn greater(self, other: $t) -> $t {
                self.max(other)
            }
            #[inline(always)]
            fn lesser(self, other: $t) -> $t {
                self.min(other)
            }
        }
    )*};
}
folded! { i32 i64 }

/// `y[o, i]` is the fold of `x[o, .., i]`, of `[outer, n, inner]` elements.
///
/// # Panics
/// If a length is not that of its shape.
pub fn fold<T: Folded>(
    isa: Isa,
    pool: &ThreadPool,
    [outer, n, inner]: [usize; 3],
    f: Fold,
    x: &[T],
    y: &mut [T],
) {
    assert_eq!(
        (x.len(), y.len()),
        (outer * n * inner, outer * inner),
        "fold: lengths"
    );
    // columns that one thread folds
    let width = if outer == 1 {
        inner.div_ceil(pool.threads()).max(64)
    } else {
        inner.max(1)
    };
    let blocks = inner.div_ceil(width);
    let chunks = x
        .len()
        .max(y.len())
        .div_ceil(CHUNK)
        .min(pool.threads() * 4)
        .min((outer * blocks).max(1));
    let out = Parts::new(y);
    pool.run(chunks, &|chunk| {
        for piece in share(outer * blocks, chunks, chunk, 1) {
            let (o, first) = (piece / blocks, piece % blocks * width);
            let count = width.min(inner - first);
            isa.run(Folding {
                x: &x[o * n * inner..][..n * inner],
                inner,
                first,
                f,
                // SAFETY: pieces share the columns of the lines out.
                y: unsafe { out.part(o * inner + first, count) },
            });
        }
    });
}

struct Folding<'a, T> {
    x: &'a [T],
    inner: usize,
    first: usize,
    f: Fold,
    y: &'a mut [T],
}

impl<T: Folded> Folding<'_, T> {
    #[inline(always)]
    fn each(self, f: impl Fn(T, T) -> T) {
        let start = T::neutral(self.f);
        if self.inner == 1 {
            // lanes that do not wait for each other
            let (chunks, rest) = self.x.as_chunks::<32>();
            let mut lanes = [start; 32];
            for chunk in chunks {
                for (lane, &x) in lanes.iter_mut().zip(chunk) {
                    *lane = f(*lane, x);
                }
            }
            self.y[0] = lanes.iter().chain(rest).fold(start, |all, &x| f(all, x));
            return;
        }
        self.y.fill(start);
        for row in self.x.chunks_exact(self.inner) {
            for (y, &x) in self.y.iter_mut().zip(&row[self.first..]) {
                *y = f(*y, x);
            }
        }
    }
}

impl<T: Folded> Kernel for Folding<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        match self.f {
            Fold::Sum => self.each(T::sum),
            Fold::Product => self.each(T::product),
            Fold::Max => self.each(T::greater),
            Fold::Min => self.each(T::lesser),
        }
    }
}
