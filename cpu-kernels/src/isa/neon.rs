//! NEON: four lanes, 32 registers; written for AArch64, where every CPU has it.

use super::simd::{Kernel, Simd};
use half::f16;
use std::arch::aarch64::*;

/// The token of NEON.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Neon(());

impl Neon {
    /// The token, where the CPU has the feature.
    pub(crate) fn detect() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
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

/// The same values, of which the compiler knows nothing any more.
///
/// It makes `fminnm` and `fmaxnm` of a comparison and a choice once it knows that what is chosen beside a NaN is a number, and
/// these answer NaN where one operand is a signalling NaN.
#[inline(always)]
pub(super) fn unknown(x: float32x4_t) -> float32x4_t {
    let mut x = x;
    // Miri reads no assembly, and chooses no instructions
    if !cfg!(miri) {
        // SAFETY: no instruction is executed.
        unsafe {
            std::arch::asm!("/* {0:v} */", inout(vreg) x, options(pure, nomem, nostack, preserves_flags));
        }
    }
    x
}

/// The first `n` of four values, or all where `n` is larger; zero in the others.
///
/// # Safety
/// `min(n, 4)` values are readable at `p`.
#[inline(always)]
unsafe fn four(p: *const u16, n: usize) -> uint16x4_t {
    let mut few = [0u16; 4];
    let from = if n >= 4 {
        p
    } else {
        for (i, lane) in few.iter_mut().enumerate().take(n) {
            // SAFETY: i < n, which the caller promises to be readable.
            *lane = unsafe { *p.add(i) };
        }
        few.as_ptr()
    };
    // SAFETY: 4 values are readable there: the caller's, or the array's.
    unsafe { vld1_u16(from) }
}

// SAFETY: the private field makes `detect` the only constructor.
unsafe impl Simd for Neon {
    const LANES: usize = 4;
    const ROWS: usize = 8;
    const COLUMNS: usize = 2;
    type F = float32x4_t;
    type I = int32x4_t;
    type M = uint32x4_t;

    #[inline]
    fn enter<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        op!(vdupq_n_f32(x))
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> Self::I {
        op!(vdupq_n_s32(x))
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> Self::F {
        // SAFETY: the caller promises 4 readable values.
        unsafe { vld1q_f32(p) }
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const f16, n: usize) -> Self::F {
        // SAFETY: both are 16 bits, and the caller promises as many.
        let halves = unsafe { four(p.cast(), n) };
        if cfg!(miri) {
            // which reads no assembly
            let halves: [u16; 4] = op!(std::mem::transmute(halves));
            return op!(std::mem::transmute(halves.map(|x| f16::from_bits(x).to_f32())));
        }
        let wide: float32x4_t;
        // SAFETY: every AArch64 CPU with NEON has the instruction, which touches no memory. It has no stable intrinsic.
        unsafe {
            std::arch::asm!(
                "fcvtl {wide:v}.4s, {halves:v}.4h",
                wide = lateout(vreg) wide,
                halves = in(vreg) halves,
                // a signalling NaN sets a flag of the floating-point status
                options(pure, nomem, nostack)
            );
        }
        wide
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const u16, n: usize) -> Self::F {
        // SAFETY: the caller promises as many values.
        let halves = unsafe { four(p, n) };
        op!(vreinterpretq_f32_u32(vshlq_n_u32::<16>(vmovl_u16(halves))))
    }
    #[inline(always)]
    unsafe fn load_first(self, p: *const f32, n: usize) -> Self::F {
        let mut x = [0.0f32; 4];
        for (i, lane) in x.iter_mut().enumerate().take(n) {
            // SAFETY: i < min(n, 4), which the caller promises to be readable.
            *lane = unsafe { *p.add(i) };
        }
        // SAFETY: the array holds 4 values.
        unsafe { vld1q_f32(x.as_ptr()) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, x: Self::F) {
        // SAFETY: the caller promises 4 writable values.
        unsafe { vst1q_f32(p, x) }
    }
    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, x: Self::F, n: usize) {
        let mut lanes = [0.0f32; 4];
        // SAFETY: the array holds 4 values.
        unsafe { vst1q_f32(lanes.as_mut_ptr(), x) }
        for (i, lane) in lanes.iter().enumerate().take(n) {
            // SAFETY: i < min(n, 4), which the caller promises to be writable.
            unsafe { *p.add(i) = *lane }
        }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        op!(vaddq_f32(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        op!(vsubq_f32(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        op!(vmulq_f32(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        op!(vdivq_f32(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        op!(vfmaq_f32(c, a, b))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        let b = unknown(b);
        op!(vbslq_f32(vcltq_f32(a, b), a, b))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        let b = unknown(b);
        op!(vbslq_f32(vcgtq_f32(a, b), a, b))
    }
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        op!(vsqrtq_f32(a))
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        op!(vrndnq_f32(a))
    }
    #[inline(always)]
    fn floor(self, a: Self::F) -> Self::F {
        op!(vrndmq_f32(a))
    }
    #[inline(always)]
    fn ceil(self, a: Self::F) -> Self::F {
        op!(vrndpq_f32(a))
    }
    #[inline(always)]
    fn lt(self, a: Self::F, b: Self::F) -> Self::M {
        op!(vcltq_f32(a, b))
    }
    #[inline(always)]
    fn le(self, a: Self::F, b: Self::F) -> Self::M {
        op!(vcleq_f32(a, b))
    }
    #[inline(always)]
    fn eq(self, a: Self::F, b: Self::F) -> Self::M {
        op!(vceqq_f32(a, b))
    }
    #[inline(always)]
    fn select(self, mask: Self::M, yes: Self::F, no: Self::F) -> Self::F {
        op!(vbslq_f32(mask, yes, no))
    }
    #[inline(always)]
    fn to_int(self, a: Self::F) -> Self::I {
        op!(vcvtnq_s32_f32(a))
    }
    #[inline(always)]
    fn to_float(self, a: Self::I) -> Self::F {
        op!(vcvtq_f32_s32(a))
    }
    #[inline(always)]
    fn bits(self, a: Self::F) -> Self::I {
        op!(vreinterpretq_s32_f32(a))
    }
    #[inline(always)]
    fn to_floats(self, a: Self::I) -> Self::F {
        op!(vreinterpretq_f32_s32(a))
    }
    #[inline(always)]
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I {
        op!(vaddq_s32(a, b))
    }
    #[inline(always)]
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I {
        op!(vsubq_s32(a, b))
    }
    #[inline(always)]
    fn and_i(self, a: Self::I, b: Self::I) -> Self::I {
        op!(vandq_s32(a, b))
    }
    #[inline(always)]
    fn or_i(self, a: Self::I, b: Self::I) -> Self::I {
        op!(vorrq_s32(a, b))
    }
    #[inline(always)]
    fn shl_i<const N: u32>(self, a: Self::I) -> Self::I {
        op!(vshlq_s32(a, vdupq_n_s32(N as i32)))
    }
    #[inline(always)]
    fn shr_i<const N: u32>(self, a: Self::I) -> Self::I {
        op!(vshlq_s32(a, vdupq_n_s32(-(N as i32))))
    }
    #[inline(always)]
    fn splat_double(self, x: f64) -> Self::F {
        op!(vreinterpretq_f32_f64(vdupq_n_f64(x)))
    }
    #[inline(always)]
    fn mul_add_doubles(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        op!(vreinterpretq_f32_f64(vfmaq_f64(
            vreinterpretq_f64_f32(c),
            vreinterpretq_f64_f32(a),
            vreinterpretq_f64_f32(b)
        )))
    }
    #[inline(always)]
    fn permute(self, a: Self::F, lanes: Self::I) -> Self::F {
        op!({
            // the bytes of a lane
            let bytes = vmlaq_n_s32(vdupq_n_s32(0x0302_0100), lanes, 0x0404_0404);
            let bytes = vqtbl1q_u8(vreinterpretq_u8_f32(a), vreinterpretq_u8_s32(bytes));
            vreinterpretq_f32_u8(bytes)
        })
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        op!(vaddvq_f32(a))
    }
    #[inline(always)]
    fn max_lane(self, a: Self::F) -> f32 {
        op!(vmaxvq_f32(a))
    }
    #[inline(always)]
    fn prefetch(self, _: *const f32) {}
}
