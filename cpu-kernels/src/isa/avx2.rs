//! AVX2 with FMA and F16C: eight lanes, sixteen registers, masks as vectors.

use super::simd::{Kernel, Simd};
use half::f16;
use std::arch::x86_64::*;

/// The token of AVX2, FMA and F16C.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The token, where the CPU has the features.
    pub(crate) fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Self(()))
    }
}

/// Eight lanes of all ones, then eight of zeros: a load at `8 - n` is the mask of the first `n` lanes.
static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// An intrinsic without memory operands.
macro_rules! op {
    ($e:expr) => {{
        // SAFETY: the token that the caller holds proves the feature; the operation touches no memory.
        unsafe { $e }
    }};
}

impl Avx2 {
    #[inline(always)]
    fn first(self, n: usize) -> __m256i {
        let start = 8 - n.min(8);
        // SAFETY: 0 <= start <= 8 and MASKS holds 16 values; the token proves AVX.
        unsafe { _mm256_loadu_si256(MASKS.as_ptr().add(start).cast()) }
    }
}

// SAFETY: the private field makes `detect` the only constructor.
unsafe impl Simd for Avx2 {
    const LANES: usize = 8;
    const ROWS: usize = 6;
    const COLUMNS: usize = 2;
    type F = __m256;
    type I = __m256i;
    type M = __m256;

    #[inline]
    fn enter<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn go<K: Kernel>(s: Avx2, kernel: K) -> K::Output {
            kernel.run(s)
        }
        // SAFETY: the token proves the features.
        unsafe { go(self, kernel) }
    }
    #[inline(always)]
    fn dot_pairs(self, sum: Self::I, a: Self::I, b: Self::I) -> Self::I {
        op!(_mm256_add_epi32(sum, _mm256_madd_epi16(a, b)))
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const f16, n: usize) -> Self::F {
        let mut few = [f16::ZERO; 8];
        let from = if n >= 8 {
            p
        } else {
            for (i, lane) in few.iter_mut().enumerate().take(n) {
                // SAFETY: i < n, which the caller promises to be readable.
                *lane = unsafe { *p.add(i) };
            }
            few.as_ptr()
        };
        // SAFETY: 8 values are readable there: the caller's, or the array's.
        op!(_mm256_cvtph_ps(_mm_loadu_si128(from.cast())))
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u16, n: usize) -> Self::F {
        let mut few = [0u16; 8];
        let from = if n >= 8 {
            p
        } else {
            for (i, lane) in few.iter_mut().enumerate().take(n) {
                // SAFETY: i < n, which the caller promises to be readable.
                *lane = unsafe { *p.add(i) };
            }
            few.as_ptr()
        };
        // SAFETY: 8 values are readable there: the caller's, or the array's.
        let halves = op!(_mm_loadu_si128(from.cast()));
        op!(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(
            _mm256_cvtepu16_epi32(halves)
        )))
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut f16, x: Self::F, n: usize) {
        let halves = op!(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x));
        if n >= 8 {
            // SAFETY: the caller promises 8 writable values.
            unsafe { _mm_storeu_si128(p.cast(), halves) };
            return;
        }
        let mut few = [f16::ZERO; 8];
        // SAFETY: the array holds 8 values.
        unsafe { _mm_storeu_si128(few.as_mut_ptr().cast(), halves) };
        for (i, lane) in few.iter().enumerate().take(n) {
            // SAFETY: i < n, which the caller promises to be writable.
            unsafe { *p.add(i) = *lane };
        }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        op!(_mm256_set1_ps(x))
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> Self::I {
        op!(_mm256_set1_epi32(x))
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> Self::F {
        // SAFETY: the caller promises 8 readable values; unaligned loads are allowed.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn load_first(self, p: *const f32, n: usize) -> Self::F {
        // SAFETY: masked lanes are not accessed; the caller promises the others.
        unsafe { _mm256_maskload_ps(p, self.first(n)) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, x: Self::F) {
        // SAFETY: the caller promises 8 writable values.
        unsafe { _mm256_storeu_ps(p, x) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, x: Self::F, n: usize) {
        // SAFETY: masked lanes are not accessed; the caller promises the others.
        unsafe { _mm256_maskstore_ps(p, self.first(n), x) }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm256_div_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        op!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm256_min_ps(a, b))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm256_max_ps(a, b))
    }
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        op!(_mm256_sqrt_ps(a))
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        op!(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
    }
    #[inline(always)]
    fn floor(self, a: Self::F) -> Self::F {
        op!(_mm256_floor_ps(a))
    }
    #[inline(always)]
    fn ceil(self, a: Self::F) -> Self::F {
        op!(_mm256_ceil_ps(a))
    }
    #[inline(always)]
    fn lt(self, a: Self::F, b: Self::F) -> Self::M {
        op!(_mm256_cmp_ps::<_CMP_LT_OQ>(a, b))
    }
    #[inline(always)]
    fn le(self, a: Self::F, b: Self::F) -> Self::M {
        op!(_mm256_cmp_ps::<_CMP_LE_OQ>(a, b))
    }
    #[inline(always)]
    fn eq(self, a: Self::F, b: Self::F) -> Self::M {
        op!(_mm256_cmp_ps::<_CMP_EQ_OQ>(a, b))
    }
    #[inline(always)]
    fn select(self, mask: Self::M, yes: Self::F, no: Self::F) -> Self::F {
        op!(_mm256_blendv_ps(no, yes, mask))
    }
    #[inline(always)]
    fn to_int(self, a: Self::F) -> Self::I {
        op!(_mm256_cvtps_epi32(a))
    }
    #[inline(always)]
    fn to_float(self, a: Self::I) -> Self::F {
        op!(_mm256_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn bits(self, a: Self::F) -> Self::I {
        op!(_mm256_castps_si256(a))
    }
    #[inline(always)]
    fn to_floats(self, a: Self::I) -> Self::F {
        op!(_mm256_castsi256_ps(a))
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        op!(_mm256_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I {
        op!(_mm256_sub_epi32(a, b))
    }
    #[inline(always)]
    fn and_i(self, a: Self::I, b: Self::I) -> Self::I {
        op!(_mm256_and_si256(a, b))
    }
    #[inline(always)]
    fn or_i(self, a: Self::I, b: Self::I) -> Self::I {
        op!(_mm256_or_si256(a, b))
    }
    #[inline(always)]
    fn shl_i<const N: u32>(self, a: Self::I) -> Self::I {
        op!(_mm256_sll_epi32(a, _mm_cvtsi32_si128(N as i32)))
    }
    #[inline(always)]
    fn shr_i<const N: u32>(self, a: Self::I) -> Self::I {
        op!(_mm256_sra_epi32(a, _mm_cvtsi32_si128(N as i32)))
    }
    #[inline(always)]
    fn splat_double(self, x: f64) -> Self::F {
        op!(_mm256_castpd_ps(_mm256_set1_pd(x)))
    }
    #[inline(always)]
    fn mul_add_doubles(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        op!(_mm256_castpd_ps(_mm256_fmadd_pd(
            _mm256_castps_pd(a),
            _mm256_castps_pd(b),
            _mm256_castps_pd(c)
        )))
    }
    #[inline(always)]
    fn permute(self, a: Self::F, lanes: Self::I) -> Self::F {
        op!(_mm256_permutevar8x32_ps(a, lanes))
    }
    #[inline(always)]
    unsafe fn gather(self, p: *const f32, at: Self::I) -> Self::F {
        // SAFETY: the caller promises the values.
        unsafe { _mm256_i32gather_ps::<4>(p, at) }
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        op!({
            let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        })
    }
    #[inline(always)]
    fn max_lane(self, a: Self::F) -> f32 {
        op!({
            let four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
        })
    }
    #[inline(always)]
    fn prefetch(self, p: *const f32) {
        op!(_mm_prefetch::<_MM_HINT_T0>(p.cast()))
    }
}
