//! Bytes on AVX2: `vpdpbusd` where the CPU has AVX-VNNI, else products of bytes widened to 16 bits.
//!
//! `vpmaddubsw`, whose sums saturate at 16 bits, is used only where codes are too small for that.

use super::super::avx2::Avx2;
use super::{ByteKernel, Bytes, Product, Rounding, pairs_in_16_bits};
use crate::isa::simd::Simd;
use std::arch::x86_64::*;

/// The token of bytes on AVX2, with AVX-VNNI or without.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Avx2Bytes<const VNNI: bool>(Avx2);

impl Avx2Bytes<true> {
    /// The token, where the CPU has AVX-VNNI.
    pub(crate) fn detect(base: Avx2) -> Option<Self> {
        is_x86_feature_detected!("avxvnni").then_some(Self(base))
    }
}

impl Avx2Bytes<false> {
    pub(crate) fn new(base: Avx2) -> Self {
        Self(base)
    }
}

/// An intrinsic without memory operands.
macro_rules! op {
    ($e:expr) => {{
        // SAFETY: the token that the caller holds proves the feature; the operation touches no memory.
        unsafe { $e }
    }};
}

impl<const VNNI: bool> Product for Avx2Bytes<VNNI> {
    type S = Avx2;
    type Row = __m256i;
    type Panel = __m256i;
    type Sum = __m256i;

    #[inline(always)]
    fn simd(self) -> Avx2 {
        self.0
    }
    #[inline(always)]
    unsafe fn broadcast(self, p: *const u8) -> __m256i {
        // SAFETY: the caller promises one readable word.
        let word = unsafe { p.cast::<i32>().read_unaligned() };
        self.0.splat_i(word)
    }
    #[inline(always)]
    unsafe fn panel(self, p: *const u8) -> __m256i {
        // SAFETY: the caller promises 32 readable bytes.
        unsafe { _mm256_loadu_si256(p.cast()) }
    }
    #[inline(always)]
    fn dot(self, sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
        if VNNI {
            return op!(_mm256_dpbusd_avx_epi32(sum, a, b));
        }
        op!({
            // bytes 0 and 2 of each word, then 1 and 3, as pairs of 16 bits
            let low = _mm256_set1_epi16(255);
            let even = _mm256_madd_epi16(
                _mm256_and_si256(a, low),
                _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(b)),
            );
            let odd = _mm256_madd_epi16(_mm256_srli_epi16::<8>(a), _mm256_srai_epi16::<8>(b));
            _mm256_add_epi32(_mm256_add_epi32(sum, even), odd)
        })
    }
}

impl<const VNNI: bool> Bytes for Avx2Bytes<VNNI> {
    const OFFSET: i32 = 0;
    // without VNNI a panel's vector takes two registers of the sixteen
    const ROWS: usize = if VNNI { 6 } else { 4 };

    #[inline]
    fn enter<K: ByteKernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
        fn vnni<K: ByteKernel, B: Bytes>(b: B, kernel: K) -> K::Output {
            kernel.run(b)
        }
        #[target_feature(enable = "avx2,fma,f16c")]
        fn plain<K: ByteKernel, B: Bytes>(b: B, kernel: K) -> K::Output {
            kernel.run(b)
        }
        if VNNI {
            // SAFETY: the token proves the features.
            unsafe { vnni(self, kernel) }
        } else {
            // SAFETY: the token proves the features.
            unsafe { plain(self, kernel) }
        }
    }
    #[inline(always)]
    unsafe fn dot_codes<const N: usize, const MOST: i32>(
        self,
        mut sum: __m256i,
        codes: [__m256i; N],
        words: *const u8,
    ) -> __m256i {
        let most = const { pairs_in_16_bits(MOST) };
        let mut pairs = self.0.splat_i(0);
        for (i, codes) in codes.into_iter().enumerate() {
            // SAFETY: the caller promises the words.
            let word = unsafe { self.broadcast(words.add(4 * i)) };
            if VNNI {
                sum = self.dot(sum, codes, word);
                continue;
            }
            // codes are too small for these to saturate
            let products = op!(_mm256_maddubs_epi16(codes, word));
            pairs = if i % most == 0 {
                products
            } else {
                op!(_mm256_add_epi16(pairs, products))
            };
            if i % most == most - 1 || i == N - 1 {
                sum = op!(_mm256_add_epi32(
                    sum,
                    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
                ));
            }
        }
        sum
    }
    #[inline(always)]
    unsafe fn widen(self, p: *const u8, n: usize) -> __m256i {
        if n >= 8 {
            // SAFETY: the caller promises eight readable bytes.
            let word = unsafe { p.cast::<i64>().read_unaligned() };
            return op!(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(word)));
        }
        let mut bytes = [0u8; 8];
        for (i, byte) in bytes.iter_mut().enumerate().take(n) {
            // SAFETY: i < n, which the caller promises to be readable.
            *byte = unsafe { *p.add(i) };
        }
        op!(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(bytes))))
    }
    #[inline(always)]
    unsafe fn narrow(self, p: *mut u8, x: __m256i, n: usize) {
        let word = op!({
            let pairs = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            _mm_cvtsi128_si64(_mm_packus_epi16(pairs, pairs))
        });
        if n >= 8 {
            // SAFETY: the caller promises eight writable bytes.
            unsafe { p.cast::<i64>().write_unaligned(word) };
            return;
        }
        for (i, byte) in word.to_le_bytes().into_iter().enumerate().take(n) {
            // SAFETY: i < n, which the caller promises to be writable.
            unsafe { *p.add(i) = byte };
        }
    }
    #[inline(always)]
    unsafe fn read(self, p: *const u8, n: usize) -> __m256i {
        if n >= 32 {
            // SAFETY: the caller promises 32 readable bytes.
            return unsafe { _mm256_loadu_si256(p.cast()) };
        }
        let mut bytes = [0u8; 32];
        for (i, byte) in bytes.iter_mut().enumerate().take(n) {
            // SAFETY: i < n, which the caller promises to be readable.
            *byte = unsafe { *p.add(i) };
        }
        // SAFETY: the array holds 32 bytes.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }
    #[inline(always)]
    unsafe fn write(self, p: *mut u8, x: __m256i, n: usize) {
        if n >= 32 {
            // SAFETY: the caller promises 32 writable bytes.
            unsafe { _mm256_storeu_si256(p.cast(), x) };
            return;
        }
        let mut bytes = [0u8; 32];
        // SAFETY: the array holds 32 bytes.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), x) };
        for (i, &byte) in bytes.iter().enumerate().take(n) {
            // SAFETY: i < n, which the caller promises to be writable.
            unsafe { *p.add(i) = byte };
        }
    }
    #[inline(always)]
    fn interleave(self, [r0, r1, r2, r3]: [__m256i; 4]) -> [__m256i; 4] {
        op!({
            let (low, high) = (_mm256_unpacklo_epi8(r0, r1), _mm256_unpackhi_epi8(r0, r1));
            let (low2, high2) = (_mm256_unpacklo_epi8(r2, r3), _mm256_unpackhi_epi8(r2, r3));
            [
                _mm256_unpacklo_epi16(low, low2),
                _mm256_unpackhi_epi16(low, low2),
                _mm256_unpacklo_epi16(high, high2),
                _mm256_unpackhi_epi16(high, high2),
            ]
        })
    }
    #[inline(always)]
    fn pack(self, [a, b, c, d]: [__m256i; 4]) -> __m256i {
        op!(_mm256_packus_epi16(
            _mm256_packs_epi32(a, b),
            _mm256_packs_epi32(c, d)
        ))
    }
    #[inline(always)]
    fn max_bytes(self, a: __m256i, b: __m256i) -> __m256i {
        op!(_mm256_max_epu8(a, b))
    }
    #[inline(always)]
    fn round(self, [a, b, c, d]: [__m256; 4], by: Rounding<Avx2>) -> __m256i {
        // what is too small saturates on the way to bytes; what is too large would wrap around
        macro_rules! round {
            ($x:expr) => {
                _mm256_cvtps_epi32(_mm256_min_ps(by.high, $x))
            };
        }
        op!({
            let zero = _mm256_packs_epi32(by.zero, by.zero);
            let low = _mm256_add_epi32(_mm256_cvtps_epi32(by.low), by.zero);
            let low = _mm256_packus_epi16(_mm256_packs_epi32(low, low), _mm256_packs_epi32(low, low));
            let first = _mm256_adds_epi16(_mm256_packs_epi32(round!(a), round!(b)), zero);
            let second = _mm256_adds_epi16(_mm256_packs_epi32(round!(c), round!(d)), zero);
            _mm256_max_epu8(_mm256_packus_epi16(first, second), low)
        })
    }
    #[inline(always)]
    unsafe fn store_codes<const NV: usize>(
        self,
        to: *mut u8,
        stride: usize,
        x: [__m256; 4],
        by: Rounding<Avx2>,
        columns: usize,
        count: usize,
    ) {
        let bytes = self.round(x, by);
        let bytes = op!({
            // packing keeps to parts of 128 bits
            _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
        });
        let row = NV * 8;
        if NV == 2 && columns == row {
            // SAFETY: the caller promises 16 bytes in each row.
            unsafe {
                _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(bytes));
                if count > 2 {
                    _mm_storeu_si128(to.add(stride).cast(), _mm256_extracti128_si256::<1>(bytes));
                }
            }
            return;
        }
        let mut spare = [0u8; 32];
        // SAFETY: the array holds 32 bytes.
        unsafe { _mm256_storeu_si256(spare.as_mut_ptr().cast(), bytes) };
        for i in 0..count / NV {
            // SAFETY: the caller promises `columns` bytes in each row; the array holds as many from there on.
            unsafe {
                std::ptr::copy_nonoverlapping(spare.as_ptr().add(i * row), to.add(i * stride), columns)
            };
        }
    }
}
