//! AVX-512 F, BW, DQ and VL: sixteen lanes, 32 registers, masks in registers of their own.

use super::simd::{Kernel, Simd};
use half::f16;
use std::arch::x86_64::*;

/// The token of AVX-512 F, BW, DQ and VL; with `BF16`, of the extension of that name too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Avx512<const BF16: bool = false>(Proof);

/// What a token of AVX-512 is made of. Without the feature `avx512` there can be none: such kernels are dead code, which
/// compilers leave out.
#[cfg(feature = "avx512")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Proof;
#[cfg(not(feature = "avx512"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {}

/// The proof that a token needs, for feature detection.
pub(crate) const PROOF: Option<Proof> = {
    #[cfg(feature = "avx512")]
    let proof = Some(Proof);
    #[cfg(not(feature = "avx512"))]
    let proof = None;
    proof
};

impl Avx512<true> {
    /// The token with BF16, where the CPU has it.
    pub(crate) fn detect_bf16(_: Avx512) -> Option<Self> {
        PROOF.filter(|_| is_x86_feature_detected!("avx512bf16")).map(Self)
    }
}

impl Avx512 {
    /// The token, where the CPU has the features.
    pub(crate) fn detect() -> Option<Self> {
        let has_all = || {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("fma")
        };
        PROOF.filter(|_| has_all()).map(Self)
    }
}

#[inline(always)]
fn first(n: usize) -> __mmask16 {
    if n >= 16 { !0 } else { (1u16 << n) - 1 }
}

/// An intrinsic without memory operands.
macro_rules! op {
    ($e:expr) => {{
        // SAFETY: the token that the caller holds proves the feature; the operation touches no memory.
        unsafe { $e }
    }};
}

// SAFETY: the private field makes `detect` and `detect_bf16` the only constructors.
unsafe impl<const BF16: bool> Simd for Avx512<BF16> {
    const LANES: usize = 16;
    const BF16: bool = BF16;
    const ROWS: usize = 12;
    const COLUMNS: usize = 2;
    type F = __m512;
    type I = __m512i;
    type M = __mmask16;

    #[inline]
    fn enter<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn go<K: Kernel>(s: Avx512, kernel: K) -> K::Output {
            kernel.run(s)
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
        fn go_bf16<K: Kernel>(s: Avx512<true>, kernel: K) -> K::Output {
            kernel.run(s)
        }
        if BF16 {
            // SAFETY: the token proves the features.
            unsafe { go_bf16(Avx512(self.0), kernel) }
        } else {
            // SAFETY: as above.
            unsafe { go(Avx512(self.0), kernel) }
        }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        op!(_mm512_set1_ps(x))
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> Self::I {
        op!(_mm512_set1_epi32(x))
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> Self::F {
        // SAFETY: the caller promises 16 readable values; unaligned loads are allowed.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn load_first(self, p: *const f32, n: usize) -> Self::F {
        // SAFETY: masked lanes are not accessed; the caller promises the others.
        unsafe { _mm512_maskz_loadu_ps(first(n), p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, x: Self::F) {
        // SAFETY: the caller promises 16 writable values.
        unsafe { _mm512_storeu_ps(p, x) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, x: Self::F, n: usize) {
        // SAFETY: masked lanes are not accessed; the caller promises the others.
        unsafe { _mm512_mask_storeu_ps(p, first(n), x) }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        op!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        op!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        op!(_mm512_sqrt_ps(a))
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        op!(_mm512_roundscale_ps::<
            { _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC },
        >(a))
    }
    #[inline(always)]
    fn floor(self, a: Self::F) -> Self::F {
        op!(_mm512_roundscale_ps::<
            { _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC },
        >(a))
    }
    #[inline(always)]
    fn ceil(self, a: Self::F) -> Self::F {
        op!(_mm512_roundscale_ps::<
            { _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC },
        >(a))
    }
    #[inline(always)]
    fn lt(self, a: Self::F, b: Self::F) -> Self::M {
        op!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b))
    }
    #[inline(always)]
    fn le(self, a: Self::F, b: Self::F) -> Self::M {
        op!(_mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b))
    }
    #[inline(always)]
    fn eq(self, a: Self::F, b: Self::F) -> Self::M {
        op!(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b))
    }
    #[inline(always)]
    fn select(self, mask: Self::M, yes: Self::F, no: Self::F) -> Self::F {
        op!(_mm512_mask_blend_ps(mask, no, yes))
    }
    #[inline(always)]
    fn to_int(self, a: Self::F) -> Self::I {
        op!(_mm512_cvtps_epi32(a))
    }
    #[inline(always)]
    fn to_float(self, a: Self::I) -> Self::F {
        op!(_mm512_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn bits(self, a: Self::F) -> Self::I {
        op!(_mm512_castps_si512(a))
    }
    #[inline(always)]
    fn to_floats(self, a: Self::I) -> Self::F {
        op!(_mm512_castsi512_ps(a))
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        op!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I {
        op!(_mm512_sub_epi32(a, b))
    }
    #[inline(always)]
    fn and_i(self, a: Self::I, b: Self::I) -> Self::I {
        op!(_mm512_and_si512(a, b))
    }
    #[inline(always)]
    fn or_i(self, a: Self::I, b: Self::I) -> Self::I {
        op!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn shl_i<const N: u32>(self, a: Self::I) -> Self::I {
        op!(_mm512_slli_epi32::<N>(a))
    }
    #[inline(always)]
    fn shr_i<const N: u32>(self, a: Self::I) -> Self::I {
        op!(_mm512_srai_epi32::<N>(a))
    }
    #[inline(always)]
    fn scale(self, a: Self::F, n: Self::F) -> Self::F {
        op!(_mm512_scalef_ps(a, n))
    }
    #[inline(always)]
    fn splat_double(self, x: f64) -> Self::F {
        op!(_mm512_castpd_ps(_mm512_set1_pd(x)))
    }
    #[inline(always)]
    fn mul_add_doubles(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        op!(_mm512_castpd_ps(_mm512_fmadd_pd(
            _mm512_castps_pd(a),
            _mm512_castps_pd(b),
            _mm512_castps_pd(c)
        )))
    }
    #[inline(always)]
    fn permute(self, a: Self::F, lanes: Self::I) -> Self::F {
        op!(_mm512_permutexvar_ps(lanes, a))
    }
    #[inline(always)]
    unsafe fn gather(self, p: *const f32, at: Self::I) -> Self::F {
        // SAFETY: the caller promises the values.
        unsafe { _mm512_i32gather_ps::<4>(at, p) }
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        op!(_mm512_reduce_add_ps(a))
    }
    #[inline(always)]
    fn max_lane(self, a: Self::F) -> f32 {
        op!(_mm512_reduce_max_ps(a))
    }
    #[inline(always)]
    fn dot_pairs(self, sum: Self::I, a: Self::I, b: Self::I) -> Self::I {
        op!(_mm512_add_epi32(sum, _mm512_madd_epi16(a, b)))
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const f16, n: usize) -> Self::F {
        // SAFETY: masked lanes are not accessed; the caller promises the others.
        let halves = unsafe {
            if n >= 16 {
                _mm256_loadu_si256(p.cast())
            } else {
                _mm256_maskz_loadu_epi16(first(n), p.cast())
            }
        };
        op!(_mm512_cvtph_ps(halves))
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut f16, x: Self::F, n: usize) {
        let halves = op!(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x));
        // SAFETY: masked lanes are not accessed; the caller promises the others.
        unsafe {
            if n >= 16 {
                _mm256_storeu_si256(p.cast(), halves);
            } else {
                _mm256_mask_storeu_epi16(p.cast(), first(n), halves);
            }
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u16, n: usize) -> Self::F {
        // SAFETY: masked lanes are not accessed; the caller promises the others.
        let halves = unsafe {
            if n >= 16 {
                _mm256_loadu_si256(p.cast())
            } else {
                _mm256_maskz_loadu_epi16(first(n), p.cast())
            }
        };
        op!(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(
            _mm512_cvtepu16_epi32(halves)
        )))
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16, x: Self::F, n: usize) {
        assert!(BF16, "invariant: as in `Load::write`");
        // SAFETY: the token proves the feature; both types are 32 bytes of integers.
        let halves = op!(std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(x)));
        // SAFETY: masked lanes are not accessed; the caller promises the others.
        unsafe {
            if n >= 16 {
                _mm256_storeu_si256(p.cast(), halves);
            } else {
                _mm256_mask_storeu_epi16(p.cast(), first(n), halves);
            }
        }
    }
    #[inline(always)]
    fn dot_bf16(self, sum: Self::F, a: Self::I, b: Self::I) -> Self::F {
        assert!(BF16, "invariant: as in `Load::write`");
        op!(_mm512_dpbf16_ps(
            sum,
            std::mem::transmute::<__m512i, __m512bh>(a),
            std::mem::transmute::<__m512i, __m512bh>(b)
        ))
    }
    #[inline(always)]
    fn prefetch(self, p: *const f32) {
        op!(_mm_prefetch::<_MM_HINT_T0>(p.cast()))
    }
}
