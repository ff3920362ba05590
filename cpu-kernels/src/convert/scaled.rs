//! Conversion between reals and integers that encode them, with scales and zeros per tensor, per axis or per block.
//!
//! Invariants:
//! 1. A quotient is rounded to `f32`, then to the nearest integer, ties to even; then the zero is added and the sum saturates.
//! 2. The difference to a zero is taken in integers.
//!
//! Not here: integers of less than 8 bits, tensors whose every element has a scale of its own kind.

use crate::isa::{Kernel, Simd};
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

/// An integer type that encodes reals.
pub trait Integer: Copy + Send + Sync + 'static {
    /// The least and the greatest one, as floats.
    const LIMITS: [f32; 2];
    /// The number less a zero, rounded.
    fn less(self, zero: Self) -> f32;
    /// The number as a float.
    fn real(self) -> f32;
    /// The integer that a float within the limits is.
    fn of(x: f32) -> Self;
    /// The integer within the limits that this one is.
    fn cut(x: i32) -> Self;
}

macro_rules! integers {
    ($($t:ident)*) => {$(
        impl Integer for $t {
            const LIMITS: [f32; 2] = [$t::MIN as f32, $t::MAX as f32];
            #[inline(always)]
            fn less(self, zero: $t) -> f32 {
                i32::from(self).wrapping_sub(i32::from(zero)) as f32
            }
            #[inline(always)]
            fn real(self) -> f32 {
                self as f32
            }
            #[inline(always)]
            fn of(x: f32) -> $t {
                x as i32 as $t
            }
            #[inline(always)]
            fn cut(x: i32) -> $t {
                x as $t
            }
        }
    )*};
}
integers! { i8 u8 i16 u16 i32 }

/// Maps elements of `[outer, axis, inner]` to their scales: `block` neighbours along the axis share
/// a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scales {
    /// Elements along the axis.
    pub axis: usize,
    /// Product of the dimensions after the axis.
    pub inner: usize,
    /// Number of neighbours along the axis that share a scale, which still depends on the position
    /// after the axis; 0 for one scale per position along the axis.
    pub block: usize,
}

impl Scales {
    /// One scale for all.
    pub const ONE: Scales = Scales {
        axis: 1,
        inner: 0,
        block: 0,
    };

    /// The scales of a row of elements behind the axis: where they start, and whether each element has its own.
    fn row(&self, row: usize) -> (usize, bool) {
        let (outer, at) = (row / self.axis, row % self.axis);
        if self.block == 0 {
            (at, false)
        } else {
            (
                (outer * self.axis.div_ceil(self.block) + at / self.block) * self.inner,
                true,
            )
        }
    }
}

/// Calls `piece` with a row of elements or a part of one: its start, length, first scale, and whether each element has its own.
fn rows(pool: &ThreadPool, scales: Scales, len: usize, piece: &(impl Fn(usize, usize, usize, bool) + Sync)) {
    let chunks = len.div_ceil(CHUNK).min(pool.threads() * 4);
    let inner = if scales.inner == 0 { len } else { scales.inner };
    pool.run(chunks, &|chunk| {
        let mut own = share(len, chunks, chunk, 64);
        while !own.is_empty() {
            let (row, from) = (own.start / inner, own.start % inner);
            let count = own.len().min(inner - from);
            let (first, each) = scales.row(row);
            piece(own.start, count, first + if each { from } else { 0 }, each);
            own.start += count;
        }
    });
}

/// `y = (x - zero) * scale`.
///
/// # Panics
/// If the lengths differ, or there are too few scales or zeros.
pub fn dequantise<T: Integer>(
    isa: Isa,
    pool: &ThreadPool,
    scales: Scales,
    x: &[T],
    (scale, zero): (&[f32], Option<&[T]>),
    y: &mut [f32],
) {
    assert_eq!(x.len(), y.len(), "dequantise: lengths differ");
    let len = y.len();
    let out = Parts::new(y);
    rows(pool, scales, len, &|start, count, first, each| {
        let own = first..first + if each { count } else { 1 };
        isa.run(Real {
            x: &x[start..start + count],
            scale: &scale[own.clone()],
            zero: zero.map(|zero| &zero[own.clone()]),
            // SAFETY: pieces share the output out.
            y: unsafe { out.part(start, count) },
        });
    });
}

struct Real<'a, T> {
    x: &'a [T],
    scale: &'a [f32],
    zero: Option<&'a [T]>,
    y: &'a mut [f32],
}

impl<T: Integer> Kernel for Real<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Real { x, scale, zero, y } = self;
        match (scale, zero) {
            (&[scale], None) => {
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = x.real() * scale;
                }
            }
            (&[scale], Some(zero)) => {
                let zero = zero[0];
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = x.less(zero) * scale;
                }
            }
            (_, None) => {
                for ((y, &x), &scale) in y.iter_mut().zip(x).zip(scale) {
                    *y = x.real() * scale;
                }
            }
            (_, Some(zero)) => {
                for (((y, &x), &scale), &zero) in y.iter_mut().zip(x).zip(scale).zip(zero) {
                    *y = x.less(zero) * scale;
                }
            }
        }
    }
}

/// `y = saturate(round(x / scale) + zero)`.
///
/// # Panics
/// If the lengths differ, or there are too few scales or zeros.
pub fn quantise<T: Integer>(
    isa: Isa,
    pool: &ThreadPool,
    scales: Scales,
    x: &[f32],
    (scale, zero): (&[f32], Option<&[T]>),
    y: &mut [T],
) {
    assert_eq!(x.len(), y.len(), "quantise: lengths differ");
    let len = y.len();
    let out = Parts::new(y);
    rows(pool, scales, len, &|start, count, first, each| {
        let own = first..first + if each { count } else { 1 };
        isa.run(Whole {
            x: &x[start..start + count],
            scale: &scale[own.clone()],
            zero: zero.map(|zero| &zero[own.clone()]),
            // SAFETY: pieces share the output out.
            y: unsafe { out.part(start, count) },
        });
    });
}

struct Whole<'a, T> {
    x: &'a [f32],
    scale: &'a [f32],
    zero: Option<&'a [T]>,
    y: &'a mut [T],
}

/// The integer that encodes `x`.
#[inline(always)]
fn whole<T: Integer>(x: f32, scale: f32, zero: f32) -> T {
    let [low, high] = T::LIMITS;
    let (low, high) = (low - zero, high - zero);
    let x = x / scale;
    // comparisons, and not the library's functions, which have a NaN of their own: NaN is the least
    let x = if x > low { x } else { low };
    let x = if x < high { x } else { high };
    if T::LIMITS[1] < 4_000_000.0 {
        // adding 1.5 * 2^23 leaves no bit for a fraction, and so rounds to nearest even up to 2^22; the bits are then
        // those of the integer behind those of the summand
        const SHIFT: f32 = 12_582_912.0;
        let whole = ((x + SHIFT).to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32);
        T::cut(whole.wrapping_add(zero as i32))
    } else {
        T::of(x.round_ties_even() + zero)
    }
}

impl<T: Integer> Kernel for Whole<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Whole { x, scale, zero, y } = self;
        match (scale, zero) {
            (&[scale], zero) => {
                let zero = zero.map_or(0.0, |zero| zero[0].real());
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = whole(x, scale, zero);
                }
            }
            (_, None) => {
                for ((y, &x), &scale) in y.iter_mut().zip(x).zip(scale) {
                    *y = whole(x, scale, 0.0);
                }
            }
            (_, Some(zero)) => {
                for (((y, &x), &scale), &zero) in y.iter_mut().zip(x).zip(scale).zip(zero) {
                    *y = whole(x, scale, zero.real());
                }
            }
        }
    }
}
