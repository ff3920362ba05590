//! Bytes on AVX-512: `vpdpbusd` where the CPU has VNNI, else products of bytes widened to 16 bits.

use super::super::avx512::Avx512;
use super::{ByteKernel, Bytes, Product, Rounding, pairs_in_16_bits};
use crate::isa::simd::Simd;
use std::arch::x86_64::*;

/// The token of bytes on AVX-512, with VNNI or without.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Avx512Bytes<const VNNI: bool>(Avx512);

impl Avx512Bytes<true> {
    /// The token, where the CPU has VNNI.
    pub(crate) fn detect(base: Avx512) -> Option<Self> {
        is_x86_feature_detected!("avx512vnni").then_some(Self(base))
    }
}

impl Avx512Bytes<false> {
    pub(crate) fn new(base: Avx512) -> Self {
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

#[inline(always)]
fn first_words(n: usize) -> __mmask16 {
    if n >= 16 { !0 } else { (1u16 << n) - 1 }
}

#[inline(always)]
fn first_bytes(n: usize) -> __mmask64 {
    if n >= 64 { !0 } else { (1u64 << n) - 1 }
}

impl<const VNNI: bool> Product for Avx512Bytes<VNNI> {
    type S = Avx512;
    type Row = __m512i;
    type Panel = __m512i;
    type Sum = __m512i;

    #[inline(always)]
    fn simd(self) -> Avx512 {
        self.0
    }
    #[inline(always)]
    unsafe fn broadcast(self, p: *const u8) -> __m512i {
        // SAFETY: the caller promises one readable word.
        let word = unsafe { p.cast::<i32>().read_unaligned() };
        self.0.splat_i(word)
    }
    #[inline(always)]
    unsafe fn panel(self, p: *const u8) -> __m512i {
        // SAFETY: the caller promises 64 readable bytes.
        unsafe { _mm512_loadu_si512(p.cast()) }
    }
    #[inline(always)]
    fn dot(self, sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        if VNNI {
            return op!(_mm512_dpbusd_epi32(sum, a, b));
        }
        op!({
            // bytes 0 and 2 of each word, then 1 and 3, as pairs of 16 bits
            let low = _mm512_set1_epi16(255);
            let even = _mm512_madd_epi16(
                _mm512_and_si512(a, low),
                _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(b)),
            );
            let odd = _mm512_madd_epi16(_mm512_srli_epi16::<8>(a), _mm512_srai_epi16::<8>(b));
            _mm512_add_epi32(_mm512_add_epi32(sum, even), odd)
        })
    }
}

impl<const VNNI: bool> Bytes for Avx512Bytes<VNNI> {
    const OFFSET: i32 = 0;
    const ROWS: usize = 12;
    const SIDE_BY_SIDE: bool = VNNI;

    #[inline]
    fn enter<K: ByteKernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
        fn vnni<K: ByteKernel, B: Bytes>(b: B, kernel: K) -> K::Output {
            kernel.run(b)
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
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
        mut sum: __m512i,
        codes: [__m512i; N],
        words: *const u8,
    ) -> __m512i {
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
            let products = op!(_mm512_maddubs_epi16(codes, word));
            pairs = if i % most == 0 {
                products
            } else {
                op!(_mm512_add_epi16(pairs, products))
            };
            if i % most == most - 1 || i == N - 1 {
                sum = op!(_mm512_add_epi32(
                    sum,
                    _mm512_madd_epi16(pairs, _mm512_set1_epi16(1))
                ));
            }
        }
        sum
    }
    #[inline(always)]
    unsafe fn widen(self, p: *const u8, n: usize) -> __m512i {
        // SAFETY: masked bytes are not accessed; the caller promises the others.
        let bytes = unsafe { _mm_maskz_loadu_epi8(first_words(n), p.cast()) };
        op!(_mm512_cvtepu8_epi32(bytes))
    }
    #[inline(always)]
    unsafe fn narrow(self, p: *mut u8, x: __m512i, n: usize) {
        let bytes = op!(_mm512_cvtepi32_epi8(x));
        if n >= 16 {
            // SAFETY: the caller promises 16 bytes.
            unsafe { _mm_storeu_si128(p.cast(), bytes) };
        } else {
            // SAFETY: masked bytes are not accessed; the caller promises the others.
            unsafe { _mm_mask_storeu_epi8(p.cast(), first_words(n), bytes) };
        }
    }
    #[inline(always)]
    unsafe fn read(self, p: *const u8, n: usize) -> __m512i {
        // SAFETY: masked bytes are not accessed; the caller promises the others.
        unsafe { _mm512_maskz_loadu_epi8(first_bytes(n), p.cast()) }
    }
    #[inline(always)]
    unsafe fn write(self, p: *mut u8, x: __m512i, n: usize) {
        // SAFETY: masked bytes are not accessed; the caller promises the others.
        unsafe { _mm512_mask_storeu_epi8(p.cast(), first_bytes(n), x) }
    }
    #[inline(always)]
    fn interleave(self, [r0, r1, r2, r3]: [__m512i; 4]) -> [__m512i; 4] {
        op!({
            let (low, high) = (_mm512_unpacklo_epi8(r0, r1), _mm512_unpackhi_epi8(r0, r1));
            let (low2, high2) = (_mm512_unpacklo_epi8(r2, r3), _mm512_unpackhi_epi8(r2, r3));
            [
                _mm512_unpacklo_epi16(low, low2),
                _mm512_unpackhi_epi16(low, low2),
                _mm512_unpacklo_epi16(high, high2),
                _mm512_unpackhi_epi16(high, high2),
            ]
        })
    }
    #[inline(always)]
    fn pack(self, [a, b, c, d]: [__m512i; 4]) -> __m512i {
        op!(_mm512_packus_epi16(
            _mm512_packs_epi32(a, b),
            _mm512_packs_epi32(c, d)
        ))
    }
    #[inline(always)]
    fn max_bytes(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_max_epu8(a, b))
    }
    #[inline(always)]
    fn round(self, [a, b, c, d]: [__m512; 4], by: Rounding<Avx512>) -> __m512i {
        // what is too small saturates on the way to bytes; what is too large would wrap around
        macro_rules! round {
            ($x:expr) => {
                _mm512_cvtps_epi32(_mm512_min_ps(by.high, $x))
            };
        }
        op!({
            let zero = _mm512_packs_epi32(by.zero, by.zero);
            let low = _mm512_add_epi32(_mm512_cvtps_epi32(by.low), by.zero);
            let low = _mm512_packus_epi16(_mm512_packs_epi32(low, low), _mm512_packs_epi32(low, low));
            let first = _mm512_adds_epi16(_mm512_packs_epi32(round!(a), round!(b)), zero);
            let second = _mm512_adds_epi16(_mm512_packs_epi32(round!(c), round!(d)), zero);
            _mm512_max_epu8(_mm512_packus_epi16(first, second), low)
        })
    }
    #[inline(always)]
    unsafe fn store_codes<const NV: usize>(
        self,
        to: *mut u8,
        stride: usize,
        x: [__m512; 4],
        by: Rounding<Avx512>,
        columns: usize,
        count: usize,
    ) {
        let bytes = self.round(x, by);
        let bytes = op!({
            // packing keeps to parts of 128 bits
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            _mm512_permutexvar_epi32(order, bytes)
        });
        if NV == 2 {
            let rows = op!([
                _mm512_castsi512_si256(bytes),
                _mm512_extracti64x4_epi64::<1>(bytes)
            ]);
            // SAFETY: masked bytes are not accessed; the caller promises the others.
            unsafe {
                if columns == 32 {
                    _mm256_storeu_si256(to.cast(), rows[0]);
                    if count > 2 {
                        _mm256_storeu_si256(to.add(stride).cast(), rows[1]);
                    }
                } else {
                    let mask = first_bytes(columns) as __mmask32;
                    _mm256_mask_storeu_epi8(to.cast(), mask, rows[0]);
                    if count > 2 {
                        _mm256_mask_storeu_epi8(to.add(stride).cast(), mask, rows[1]);
                    }
                }
            }
            return;
        }
        let rows = op!([
            _mm512_castsi512_si128(bytes),
            _mm512_extracti32x4_epi32::<1>(bytes),
            _mm512_extracti32x4_epi32::<2>(bytes),
            _mm512_extracti32x4_epi32::<3>(bytes)
        ]);
        for (i, &row) in rows.iter().enumerate().take(count) {
            // SAFETY: as above.
            unsafe {
                if columns == 16 {
                    _mm_storeu_si128(to.add(i * stride).cast(), row);
                } else {
                    _mm_mask_storeu_epi8(to.add(i * stride).cast(), first_words(columns), row);
                }
            }
        }
    }
}
