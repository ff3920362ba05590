//! Bytes on NEON: `sdot` where the CPU has it, else widening products; both take signed bytes on both sides.
//!
//! `sdot` is reached by assembly, because its intrinsic is not stable in the oldest Rust that this builds with.

use super::super::neon::Neon;
use super::{ByteKernel, Bytes, Product};
use crate::isa::simd::Simd;
use std::arch::aarch64::*;

/// The token of bytes on NEON, with dot products or without.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct NeonBytes<const DOT: bool>(Neon);

impl NeonBytes<true> {
    /// The token, where the CPU has the dot products.
    pub(crate) fn detect(base: Neon) -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("dotprod").then_some(Self(base))
    }
}

impl NeonBytes<false> {
    pub(crate) fn new(base: Neon) -> Self {
        Self(base)
    }
}

/// An intrinsic without memory operands.
macro_rules! op {
    ($e:expr) => {{
        // SAFETY: the token that the caller holds proves the feature; the operation touches no memory.
        #[allow(unused_unsafe)] // some of these intrinsics are safe where NEON is part of the target
        unsafe {
            $e
        }
    }};
}

/// `sum + a · b` by `sdot`.
#[inline(always)]
fn sdot(mut sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: only a token whose constructor has detected the feature leads here; registers only.
    unsafe {
        std::arch::asm!(
            ".arch_extension dotprod",
            "sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// `sum + a · b`, of signed bytes.
#[inline(always)]
fn signed<const DOT: bool>(sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    if DOT {
        return sdot(sum, a, b);
    }
    op!({
        let low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
        let high = vpaddlq_s16(vmull_high_s8(a, b));
        vaddq_s32(sum, vpaddq_s32(low, high))
    })
}

impl<const DOT: bool> Product for NeonBytes<DOT> {
    type S = Neon;
    type Row = int32x4_t;
    type Panel = int32x4_t;
    type Sum = int32x4_t;

    #[inline(always)]
    fn simd(self) -> Neon {
        self.0
    }
    #[inline(always)]
    unsafe fn broadcast(self, p: *const u8) -> int32x4_t {
        // SAFETY: the caller promises one readable word.
        let word = unsafe { p.cast::<i32>().read_unaligned() };
        self.0.splat_i(word)
    }
    #[inline(always)]
    unsafe fn panel(self, p: *const u8) -> int32x4_t {
        // SAFETY: the caller promises 16 readable bytes.
        unsafe { vreinterpretq_s32_u8(vld1q_u8(p)) }
    }
    #[inline(always)]
    fn dot(self, sum: int32x4_t, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        // an unsigned byte less 128 is the signed byte with the top bit flipped; once per row, not per vector
        let a = op!(vreinterpretq_s8_u8(veorq_u8(
            vreinterpretq_u8_s32(a),
            vdupq_n_u8(128)
        )));
        signed::<DOT>(sum, a, op!(vreinterpretq_s8_s32(b)))
    }
}

impl<const DOT: bool> Bytes for NeonBytes<DOT> {
    const OFFSET: i32 = 128;
    const ROWS: usize = 8;

    #[inline]
    fn enter<K: ByteKernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
    #[inline(always)]
    unsafe fn dot_codes<const N: usize, const MOST: i32>(
        self,
        mut sum: int32x4_t,
        codes: [int32x4_t; N],
        words: *const u8,
    ) -> int32x4_t {
        const { assert!(MOST <= 127) };
        for (i, codes) in codes.into_iter().enumerate() {
            // SAFETY: the caller promises the words.
            let word = unsafe { self.broadcast(words.add(4 * i)) };
            // such codes are signed bytes too
            let (codes, word) = op!((vreinterpretq_s8_s32(codes), vreinterpretq_s8_s32(word)));
            sum = signed::<DOT>(sum, codes, word);
        }
        sum
    }
    #[inline(always)]
    unsafe fn widen(self, p: *const u8, n: usize) -> int32x4_t {
        let mut bytes = [0u8; 4];
        if n >= 4 {
            // SAFETY: the caller promises four readable bytes.
            bytes = unsafe { p.cast::<[u8; 4]>().read() };
        } else {
            for (i, byte) in bytes.iter_mut().enumerate().take(n) {
                // SAFETY: i < n, which the caller promises to be readable.
                *byte = unsafe { *p.add(i) };
            }
        }
        op!({
            let word = vcreate_u8(u64::from(u32::from_le_bytes(bytes)));
            vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(word))))
        })
    }
    #[inline(always)]
    unsafe fn narrow(self, p: *mut u8, x: int32x4_t, n: usize) {
        let word = op!({
            let pairs = vmovn_u32(vreinterpretq_u32_s32(x));
            let bytes = vmovn_u16(vcombine_u16(pairs, pairs));
            vget_lane_u32::<0>(vreinterpret_u32_u8(bytes))
        });
        if n >= 4 {
            // SAFETY: the caller promises four writable bytes.
            unsafe { p.cast::<u32>().write_unaligned(word) };
            return;
        }
        for (i, byte) in word.to_le_bytes().into_iter().enumerate().take(n) {
            // SAFETY: i < n, which the caller promises to be writable.
            unsafe { *p.add(i) = byte };
        }
    }
    #[inline(always)]
    unsafe fn read(self, p: *const u8, n: usize) -> int32x4_t {
        if n >= 16 {
            // SAFETY: the caller promises 16 readable bytes.
            return unsafe { self.panel(p) };
        }
        let mut bytes = [0u8; 16];
        for (i, byte) in bytes.iter_mut().enumerate().take(n) {
            // SAFETY: i < n, which the caller promises to be readable.
            *byte = unsafe { *p.add(i) };
        }
        // SAFETY: the array holds 16 bytes.
        unsafe { self.panel(bytes.as_ptr()) }
    }
    #[inline(always)]
    unsafe fn write(self, p: *mut u8, x: int32x4_t, n: usize) {
        let x = op!(vreinterpretq_u8_s32(x));
        if n >= 16 {
            // SAFETY: the caller promises 16 writable bytes.
            unsafe { vst1q_u8(p, x) };
            return;
        }
        let mut bytes = [0u8; 16];
        // SAFETY: the array holds 16 bytes.
        unsafe { vst1q_u8(bytes.as_mut_ptr(), x) };
        for (i, &byte) in bytes.iter().enumerate().take(n) {
            // SAFETY: i < n, which the caller promises to be writable.
            unsafe { *p.add(i) = byte };
        }
    }
    #[inline(always)]
    fn interleave(self, rows: [int32x4_t; 4]) -> [int32x4_t; 4] {
        op!({
            let [r0, r1, r2, r3] = rows.map(|row| vreinterpretq_u8_s32(row));
            let (low, high) = (vzip1q_u8(r0, r1), vzip2q_u8(r0, r1));
            let (low2, high2) = (vzip1q_u8(r2, r3), vzip2q_u8(r2, r3));
            let [low, high, low2, high2] = [low, high, low2, high2].map(|x| vreinterpretq_u16_u8(x));
            [
                vreinterpretq_s32_u16(vzip1q_u16(low, low2)),
                vreinterpretq_s32_u16(vzip2q_u16(low, low2)),
                vreinterpretq_s32_u16(vzip1q_u16(high, high2)),
                vreinterpretq_s32_u16(vzip2q_u16(high, high2)),
            ]
        })
    }
    #[inline(always)]
    fn pack(self, [a, b, c, d]: [int32x4_t; 4]) -> int32x4_t {
        op!({
            let low = vcombine_s16(vmovn_s32(a), vmovn_s32(b));
            let high = vcombine_s16(vmovn_s32(c), vmovn_s32(d));
            vreinterpretq_s32_s8(vcombine_s8(vmovn_s16(low), vmovn_s16(high)))
        })
    }
    #[inline(always)]
    fn max_bytes(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        op!(vreinterpretq_s32_u8(vmaxq_u8(
            vreinterpretq_u8_s32(a),
            vreinterpretq_u8_s32(b)
        )))
    }
}
