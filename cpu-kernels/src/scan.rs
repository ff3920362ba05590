//! Prefix sums and products along an axis: CumSum and CumProd.
//!
//! 1. A tensor is `[outer, n, inner]`, where `n` is the axis.
//! 2. Floats accumulate in `f64`; integers wrap.
//!
//! Not here: reductions to one value (`crate::reduce`), ArgMin and ArgMax (`crate::argreduce`).
#![allow(unsafe_code)]

use crate::isa::{Kernel, Simd};
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

/// Columns that are scanned together.
const COLUMNS: usize = 64;

/// An element type that can be scanned.
pub trait Accumulate: Copy + Send + Sync + 'static {
    /// The type of the running total.
    type Wide: Copy;
    /// The identity of the sum.
    const ZERO: Self::Wide;
    /// The identity of the product.
    const ONE: Self::Wide;
    /// The total plus the next element.
    fn plus(total: Self::Wide, next: Self) -> Self::Wide;
    /// The total times the next element.
    fn times(total: Self::Wide, next: Self) -> Self::Wide;
    /// The total as an element.
    fn of(total: Self::Wide) -> Self;
}
macro_rules! scans {
    ($($t:ident)*) => {$(
        impl Accumulate for $t {
            type Wide = $t;
            const ZERO: $t = 0;
            const ONE: $t = 1;
            #[inline(always)]
            fn plus(total: $t, next: $t) -> $t {
                total.wrapping_add(next)
            }
            #[inline(always)]
            fn times(total: $t, next: $t) -> $t {
                total.wrapping_mul(next)
            }
            #[inline(always)]
            fn of(total: $t) -> $t {
                total
            }
        }
    )*};
}
scans! { i32 i64 }
macro_rules! float_scans {
    ($($t:ident)*) => {$(
        impl Accumulate for $t {
            type Wide = f64;
            const ZERO: f64 = 0.0;
            const ONE: f64 = 1.0;
            #[inline(always)]
            fn plus(total: f64, next: $t) -> f64 {
                total + f64::from(next)
            }
            #[inline(always)]
            fn times(total: f64, next: $t) -> f64 {
                total * f64::from(next)
            }
            #[inline(always)]
            fn of(total: f64) -> $t {
                total as $t
            }
        }
    )*};
}
float_scans! { f32 f64 }

/// The kind of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scan {
    /// Multiply, else add.
    pub product: bool,
    /// Exclude each element from its own result.
    pub exclusive: bool,
    /// Start at the end of the axis.
    pub reverse: bool,
}

/// Writes the prefix sums or products of `x` along the axis to `y`.
///
/// # Panics
/// If the lengths are not those of the shape.
pub fn scan<T: Accumulate>(isa: Isa, pool: &ThreadPool, shape: [usize; 3], scan: Scan, x: &[T], y: &mut [T]) {
    let [outer, n, inner] = shape;
    assert_eq!(
        (x.len(), y.len()),
        (outer * n * inner, outer * n * inner),
        "scan: lengths"
    );
    let out = Parts::new(y);
    let chunks = x.len().div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        for o in share(outer, chunks, chunk, 1) {
            isa.run(Lines {
                x: &x[o * n * inner..][..n * inner],
                inner,
                scan,
                // SAFETY: chunks share the lines out.
                y: unsafe { out.part(o * n * inner, n * inner) },
            });
        }
    });
}

struct Lines<'a, T> {
    x: &'a [T],
    inner: usize,
    scan: Scan,
    y: &'a mut [T],
}

impl<T: Accumulate> Lines<'_, T> {
    #[inline(always)]
    fn each(self, start: T::Wide, next: impl Fn(T::Wide, T) -> T::Wide) {
        let Lines { x, inner, scan, y } = self;
        if inner == 0 {
            return;
        }
        let rows = x.len() / inner;
        if inner == 1 {
            let mut total = start;
            let mut step = |(y, &x): (&mut T, &T)| {
                let sum = next(total, x);
                *y = T::of(if scan.exclusive { total } else { sum });
                total = sum;
            };
            if scan.reverse {
                y.iter_mut().zip(x).rev().for_each(&mut step);
            } else {
                y.iter_mut().zip(x).for_each(&mut step);
            }
            return;
        }
        for first in (0..inner).step_by(COLUMNS) {
            let columns = COLUMNS.min(inner - first);
            let mut totals = [start; COLUMNS];
            for row in 0..rows {
                let row = if scan.reverse { rows - 1 - row } else { row };
                let own = row * inner + first..row * inner + first + columns;
                for ((total, &x), y) in totals.iter_mut().zip(&x[own.clone()]).zip(&mut y[own]) {
                    let sum = next(*total, x);
                    *y = T::of(if scan.exclusive { *total } else { sum });
                    *total = sum;
                }
            }
        }
    }
}

impl<T: Accumulate> Kernel for Lines<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        if self.scan.product {
            self.each(T::ONE, T::times);
        } else {
            self.each(T::ZERO, T::plus);
        }
    }
}
