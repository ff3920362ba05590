//! Sixteen bytes that every processor of an architecture can interleave, and the transposition that is made of it.
//!
//! Invariant: no more than the architecture's own instructions, so no token is needed: SSE2 on x86-64, NEON on AArch64, else
//! portable code.
//!
//! Not here: which blocks of an array are transposed ([`super`]).

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Bytes of a lane.
const BYTES: usize = 16;

/// Elements of so many bytes in a lane; no fewer than one.
pub(super) const fn elements(width: usize) -> usize {
    if width == 0 || width > BYTES {
        1
    } else {
        BYTES / width
    }
}

#[cfg(target_arch = "x86_64")]
type Raw = __m128i;
#[cfg(target_arch = "aarch64")]
type Raw = uint8x16_t;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
type Raw = [u8; BYTES];

/// Sixteen bytes in a register.
#[derive(Clone, Copy)]
struct Lane(Raw);

impl Lane {
    /// # Safety
    /// Sixteen bytes are readable at `p`.
    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: as the caller promises; nothing is aligned.
        Self(unsafe { p.cast::<Raw>().read_unaligned() })
    }

    /// # Safety
    /// Sixteen bytes are writable at `p`.
    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: as the caller promises; nothing is aligned.
        unsafe { p.cast::<Raw>().write_unaligned(self.0) };
    }

    /// The first halves, then the second halves of two lanes, with elements of `W` bytes interleaved.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    fn zip<const W: usize>(self, other: Self) -> (Self, Self) {
        let (a, b) = (self.0, other.0);
        // SAFETY: SSE2 is a part of x86-64, and no memory is touched.
        let (low, high) = unsafe {
            match W {
                1 => (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)),
                2 => (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)),
                4 => (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)),
                _ => (_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)),
            }
        };
        (Self(low), Self(high))
    }

    /// The first halves, then the second halves of two lanes, with elements of `W` bytes interleaved.
    #[inline(always)]
    #[cfg(target_arch = "aarch64")]
    fn zip<const W: usize>(self, other: Self) -> (Self, Self) {
        let (a, b) = (self.0, other.0);
        macro_rules! of {
            ($from:ident $low:ident $high:ident $to:ident) => {{
                let (a, b) = ($from(a), $from(b));
                ($to($low(a, b)), $to($high(a, b)))
            }};
        }
        // SAFETY: NEON is a part of AArch64, and no memory is touched.
        let (low, high) = unsafe {
            match W {
                1 => (vzip1q_u8(a, b), vzip2q_u8(a, b)),
                2 => of!(vreinterpretq_u16_u8 vzip1q_u16 vzip2q_u16 vreinterpretq_u8_u16),
                4 => of!(vreinterpretq_u32_u8 vzip1q_u32 vzip2q_u32 vreinterpretq_u8_u32),
                _ => of!(vreinterpretq_u64_u8 vzip1q_u64 vzip2q_u64 vreinterpretq_u8_u64),
            }
        };
        (Self(low), Self(high))
    }

    /// The first halves, then the second halves of two lanes, with elements of `W` bytes interleaved.
    #[inline(always)]
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn zip<const W: usize>(self, other: Self) -> (Self, Self) {
        let half = |start: usize| {
            std::array::from_fn(|i| {
                let (element, byte) = (i / W, i % W);
                let from = if element % 2 == 0 { self.0 } else { other.0 };
                from[start + element / 2 * W + byte]
            })
        };
        (Self(half(0)), Self(half(BYTES / 2)))
    }
}

/// Transposes `N` rows of as many elements of `W` bytes, each row a lane.
///
/// # Safety
/// `N` lanes are readable at `from`, `from_stride` bytes apart, and writable at `to`, `to_stride` apart; `N * W` is sixteen.
#[inline(always)]
pub(super) unsafe fn transpose<const W: usize, const N: usize>(
    from: *const u8,
    from_stride: usize,
    to: *mut u8,
    to_stride: isize,
) {
    const { assert!(N * W == BYTES, "a row is a lane") };
    // SAFETY: as the caller promises.
    let mut rows: [Lane; N] =
        std::array::from_fn(|i| unsafe { Lane::load(from.wrapping_add(i * from_stride)) });
    // rows half the block apart, over and over: each step puts one bit of the row's number below those of the column's
    let mut half = N;
    while half > 1 {
        half /= 2;
        let before = rows;
        for i in 0..N / 2 {
            (rows[2 * i], rows[2 * i + 1]) = before[i].zip::<W>(before[i + N / 2]);
        }
    }
    for (j, row) in rows.into_iter().enumerate() {
        // SAFETY: as the caller promises.
        unsafe { row.store(to.wrapping_offset(j as isize * to_stride)) };
    }
}
