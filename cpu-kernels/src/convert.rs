//! Changes of element type: between `f32` and 16-bit floats, between numbers, and between numbers and integers that
//! encode them.
//!
//! Invariants:
//! 1. Rounding is to nearest even; integers that encode reals saturate; otherwise floats are
//!    truncated to integers.
//! 2. Plain loops over slices are compiled for each instruction set.
//!
//! Not here: arithmetic in 16 bits.
#![allow(unsafe_code)]

mod scaled;

use half::{bf16, f16};

use crate::isa::{Kernel, Load, Simd};
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

pub use scaled::{Integer, Scales, dequantise, quantise};

/// A 16-bit float.
pub trait Half: Copy + Send + Sync + 'static {
    /// `y[i] = x[i]`, exactly.
    fn widen(isa: Isa, pool: &ThreadPool, x: &[Self], y: &mut [f32]);
    /// `y[i]` is the 16-bit float nearest to `x[i]`.
    fn narrow(isa: Isa, pool: &ThreadPool, x: &[f32], y: &mut [Self]);
}

impl Half for f16 {
    fn widen(isa: Isa, pool: &ThreadPool, x: &[f16], y: &mut [f32]) {
        loads(isa, pool, x, y);
    }
    fn narrow(isa: Isa, pool: &ThreadPool, x: &[f32], y: &mut [f16]) {
        loads(isa, pool, x, y);
    }
}

// not by the instructions of bf16, which take what is too small to be normal for zero
impl Half for bf16 {
    fn widen(isa: Isa, pool: &ThreadPool, x: &[bf16], y: &mut [f32]) {
        each(isa, pool, x, y, |x| f32::from_bits(u32::from(x.to_bits()) << 16));
    }
    fn narrow(isa: Isa, pool: &ThreadPool, x: &[f32], y: &mut [bf16]) {
        each(isa, pool, x, y, |x| {
            let bits = x.to_bits();
            let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
            // the top bit of what follows the exponent keeps a NaN one
            let kept = bits >> 16 | 0x40;
            bf16::from_bits(if x.is_nan() { kept } else { rounded } as u16)
        });
    }
}

/// `y[i] = x[i]`, exactly.
///
/// # Panics
/// If the lengths differ.
pub fn widen<H: Half>(isa: Isa, pool: &ThreadPool, x: &[H], y: &mut [f32]) {
    H::widen(isa, pool, x, y);
}

/// `y[i]` is the 16-bit float nearest to `x[i]`.
///
/// # Panics
/// If the lengths differ.
pub fn narrow<H: Half>(isa: Isa, pool: &ThreadPool, x: &[f32], y: &mut [H]) {
    H::narrow(isa, pool, x, y);
}

fn loads<A: Load, B: Load>(isa: Isa, pool: &ThreadPool, x: &[A], y: &mut [B]) {
    assert_eq!(x.len(), y.len(), "convert: lengths differ");
    let (len, out) = (y.len(), Parts::new(y));
    let chunks = len.div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        let range = share(len, chunks, chunk, 64);
        // SAFETY: chunks share the output out.
        let y = unsafe { out.part(range.start, range.len()) };
        A::enter_with::<B, _, _>(isa, Loads { x: &x[range], y });
    });
}

struct Loads<'a, A, B> {
    x: &'a [A],
    y: &'a mut [B],
}

impl<A: Load, B: Load> Kernel for Loads<'_, A, B> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let len = self.y.len().min(self.x.len());
        let (from, to) = (self.x.as_ptr(), self.y.as_mut_ptr());
        let mut i = 0;
        while i < len {
            // SAFETY: `len - i` values remain on both sides.
            unsafe { s.write(to.add(i), s.read(from.add(i), len - i), len - i) };
            i += S::LANES;
        }
    }
}

/// `y[i] = f(x[i])`, by a loop that is compiled for each instruction set, on all threads of the pool.
///
/// # Panics
/// If the lengths differ.
pub fn each<A: Copy + Sync, B: Send>(
    isa: Isa,
    pool: &ThreadPool,
    x: &[A],
    y: &mut [B],
    f: impl Fn(A) -> B + Copy + Sync,
) {
    assert_eq!(x.len(), y.len(), "convert: lengths differ");
    let (len, out) = (y.len(), Parts::new(y));
    let chunks = len.div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        let range = share(len, chunks, chunk, 64);
        // SAFETY: chunks share the output out.
        let y = unsafe { out.part(range.start, range.len()) };
        isa.run(Each { x: &x[range], y, f });
    });
}

/// A float truncated towards zero like `as`: NaN becomes 0, and a value out of range the nearest
/// `i64`.
#[inline(always)]
pub fn truncated(x: f32) -> i64 {
    // `as` on its own is compiled to one conversion after the other
    const END: f32 = 9_223_372_036_854_775_808.0;
    let inside = if x >= -END { x } else { -END };
    let inside = if inside < END { inside } else { 0.0 };
    // SAFETY: neither NaN nor beyond what an i64 holds.
    let whole = unsafe { inside.to_int_unchecked::<i64>() };
    let whole = if x >= END { i64::MAX } else { whole };
    if x.is_nan() { 0 } else { whole }
}

/// Floats truncated towards zero to integers of at most 32 bits, which wrap: `few` converts values
/// that fit 32 bits, `all` any value.
///
/// # Panics
/// If the lengths differ.
pub fn cut<B: Send>(
    isa: Isa,
    pool: &ThreadPool,
    x: &[f32],
    y: &mut [B],
    few: impl Fn(i32) -> B + Copy + Sync,
    all: impl Fn(i64) -> B + Copy + Sync,
) {
    assert_eq!(x.len(), y.len(), "convert: lengths differ");
    let (len, out) = (y.len(), Parts::new(y));
    let chunks = len.div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        let range = share(len, chunks, chunk, 64);
        // SAFETY: chunks share the output out.
        let y = unsafe { out.part(range.start, range.len()) };
        let x = &x[range];
        isa.run(Cut { x, y, few, all });
    });
}

struct Cut<'a, B, F, G> {
    x: &'a [f32],
    y: &'a mut [B],
    few: F,
    all: G,
}

impl<B, F: Fn(i32) -> B, G: Fn(i64) -> B> Kernel for Cut<'_, B, F, G> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        const END: f32 = 2_147_483_648.0;
        let Cut { x, y, few, all } = self;
        for (x, y) in x.chunks(64).zip(y.chunks_mut(64)) {
            let inside = x.iter().fold(true, |all, x| all & (x.abs() < END));
            for (y, &x) in y.iter_mut().zip(x) {
                *y = if inside {
                    // SAFETY: neither NaN nor beyond what an i32 holds.
                    few(unsafe { x.to_int_unchecked::<i32>() })
                } else {
                    all(truncated(x))
                };
            }
        }
    }
}

struct Each<'a, A, B, F> {
    x: &'a [A],
    y: &'a mut [B],
    f: F,
}

impl<A: Copy, B, F: Fn(A) -> B> Kernel for Each<'_, A, B, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (y, &x) in self.y.iter_mut().zip(self.x) {
            *y = (self.f)(x);
        }
    }
}
