//! Portable code: four lanes as an array, which the compiler maps to whatever the target always has.
//!
//! Multiply and add are two rounded steps, because a fused one is a slow library call where hardware has none.

use super::simd::{Kernel, Simd};

/// The token of portable code; always available.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scalar;

const LANES: usize = 4;

#[inline(always)]
fn map(a: [f32; LANES], f: impl Fn(f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i]))
}

#[inline(always)]
fn zip<T: Copy, U>(a: [T; LANES], b: [T; LANES], f: impl Fn(T, T) -> U) -> [U; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

/// The same values, of which the compiler knows nothing any more where that matters (`neon::unknown`).
#[inline(always)]
fn unknown(x: [f32; LANES]) -> [f32; LANES] {
    #[cfg(target_arch = "aarch64")]
    {
        use std::arch::aarch64::float32x4_t;
        // SAFETY: both are four f32 without padding; a vector's lanes are in the order of an array's.
        let vector = unsafe { std::mem::transmute::<[f32; LANES], float32x4_t>(x) };
        // SAFETY: as above.
        unsafe { std::mem::transmute::<float32x4_t, [f32; LANES]>(super::neon::unknown(vector)) }
    }
    #[cfg(not(target_arch = "aarch64"))]
    x
}

// SAFETY: the token promises nothing beyond the target's own features.
unsafe impl Simd for Scalar {
    const LANES: usize = LANES;
    const FUSES: bool = false;
    const BF16: bool = true;
    const ROWS: usize = 4;
    const COLUMNS: usize = 2;
    type F = [f32; LANES];
    type I = [i32; LANES];
    type M = [bool; LANES];

    #[inline]
    fn enter<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> Self::I {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> Self::F {
        // SAFETY: the caller promises LANES readable values; an array read needs only the element's alignment.
        unsafe { p.cast::<[f32; LANES]>().read() }
    }
    #[inline(always)]
    unsafe fn load_first(self, p: *const f32, n: usize) -> Self::F {
        let mut x = [0.0; LANES];
        for (i, lane) in x.iter_mut().enumerate().take(n) {
            // SAFETY: i < min(n, LANES), which the caller promises to be readable.
            *lane = unsafe { *p.add(i) };
        }
        x
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, x: Self::F) {
        // SAFETY: the caller promises LANES writable values.
        unsafe { p.cast::<[f32; LANES]>().write(x) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, x: Self::F, n: usize) {
        for (i, lane) in x.iter().enumerate().take(n) {
            // SAFETY: i < min(n, LANES), which the caller promises to be writable.
            unsafe { *p.add(i) = *lane }
        }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, unknown(b), |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, unknown(b), |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        map(a, f32::sqrt)
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        map(a, f32::round_ties_even)
    }
    #[inline(always)]
    fn floor(self, a: Self::F) -> Self::F {
        map(a, f32::floor)
    }
    #[inline(always)]
    fn ceil(self, a: Self::F) -> Self::F {
        map(a, f32::ceil)
    }
    #[inline(always)]
    fn lt(self, a: Self::F, b: Self::F) -> Self::M {
        zip(a, b, |a, b| a < b)
    }
    #[inline(always)]
    fn le(self, a: Self::F, b: Self::F) -> Self::M {
        zip(a, b, |a, b| a <= b)
    }
    #[inline(always)]
    fn eq(self, a: Self::F, b: Self::F) -> Self::M {
        zip(a, b, |a, b| a == b)
    }
    #[inline(always)]
    fn select(self, mask: Self::M, yes: Self::F, no: Self::F) -> Self::F {
        std::array::from_fn(|i| if mask[i] { yes[i] } else { no[i] })
    }
    #[inline(always)]
    fn to_int(self, a: Self::F) -> Self::I {
        std::array::from_fn(|i| a[i].round_ties_even() as i32)
    }
    #[inline(always)]
    fn to_float(self, a: Self::I) -> Self::F {
        std::array::from_fn(|i| a[i] as f32)
    }
    #[inline(always)]
    fn bits(self, a: Self::F) -> Self::I {
        std::array::from_fn(|i| a[i].to_bits() as i32)
    }
    #[inline(always)]
    fn to_floats(self, a: Self::I) -> Self::F {
        std::array::from_fn(|i| f32::from_bits(a[i] as u32))
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        zip(a, b, i32::wrapping_add)
    }
    #[inline(always)]
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I {
        zip(a, b, i32::wrapping_sub)
    }
    #[inline(always)]
    fn and_i(self, a: Self::I, b: Self::I) -> Self::I {
        zip(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn or_i(self, a: Self::I, b: Self::I) -> Self::I {
        zip(a, b, |a, b| a | b)
    }
    #[inline(always)]
    fn shl_i<const N: u32>(self, a: Self::I) -> Self::I {
        std::array::from_fn(|i| a[i] << N)
    }
    #[inline(always)]
    fn shr_i<const N: u32>(self, a: Self::I) -> Self::I {
        std::array::from_fn(|i| a[i] >> N)
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        (a[0] + a[2]) + (a[1] + a[3])
    }
    #[inline(always)]
    fn max_lane(self, a: Self::F) -> f32 {
        let pair = |a: f32, b: f32| if a > b { a } else { b };
        pair(pair(a[0], a[2]), pair(a[1], a[3]))
    }
    #[inline(always)]
    fn prefetch(self, _: *const f32) {}
}
