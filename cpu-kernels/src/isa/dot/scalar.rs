//! Bytes in portable code.

use super::super::scalar::Scalar;
use super::{ByteKernel, Bytes, Product};

/// The token of bytes in portable code; always available.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScalarBytes;

type I = [i32; 4];

fn bytes(x: I) -> [u8; 16] {
    std::array::from_fn(|i| x[i / 4].to_le_bytes()[i % 4])
}

fn words(bytes: [u8; 16]) -> I {
    std::array::from_fn(|i| i32::from_le_bytes(std::array::from_fn(|j| bytes[i * 4 + j])))
}

impl Product for ScalarBytes {
    type S = Scalar;
    type Row = I;
    type Panel = I;
    type Sum = I;

    #[inline(always)]
    fn simd(self) -> Scalar {
        Scalar
    }
    #[inline(always)]
    unsafe fn broadcast(self, p: *const u8) -> I {
        // SAFETY: the caller promises one readable word.
        [i32::from_le(unsafe { p.cast::<i32>().read_unaligned() }); 4]
    }
    #[inline(always)]
    unsafe fn panel(self, p: *const u8) -> I {
        // SAFETY: the caller promises 16 readable bytes.
        unsafe { p.cast::<I>().read_unaligned() }.map(i32::from_le)
    }
    #[inline(always)]
    fn dot(self, sum: I, a: I, b: I) -> I {
        std::array::from_fn(|i| {
            let (a, b) = (a[i].to_le_bytes(), b[i].to_le_bytes());
            (0..4).fold(sum[i], |sum, j| {
                sum.wrapping_add(i32::from(a[j]) * i32::from(b[j] as i8))
            })
        })
    }
}

impl Bytes for ScalarBytes {
    const OFFSET: i32 = 0;
    const ROWS: usize = 4;

    #[inline]
    fn enter<K: ByteKernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
    #[inline(always)]
    unsafe fn widen(self, p: *const u8, n: usize) -> I {
        let mut x = [0; 4];
        for (i, lane) in x.iter_mut().enumerate().take(n) {
            // SAFETY: i < min(n, 4), which the caller promises to be readable.
            *lane = i32::from(unsafe { *p.add(i) });
        }
        x
    }
    #[inline(always)]
    unsafe fn narrow(self, p: *mut u8, x: I, n: usize) {
        for (i, &lane) in x.iter().enumerate().take(n) {
            // SAFETY: i < min(n, 4), which the caller promises to be writable.
            unsafe { *p.add(i) = lane as u8 };
        }
    }
    #[inline(always)]
    unsafe fn read(self, p: *const u8, n: usize) -> I {
        let mut bytes = [0; 16];
        for (i, byte) in bytes.iter_mut().enumerate().take(n) {
            // SAFETY: i < min(n, 16), which the caller promises to be readable.
            *byte = unsafe { *p.add(i) };
        }
        words(bytes)
    }
    #[inline(always)]
    unsafe fn write(self, p: *mut u8, x: I, n: usize) {
        for (i, byte) in bytes(x).into_iter().enumerate().take(n) {
            // SAFETY: i < min(n, 16), which the caller promises to be writable.
            unsafe { *p.add(i) = byte };
        }
    }
    #[inline(always)]
    fn interleave(self, rows: [I; 4]) -> [I; 4] {
        let rows = rows.map(bytes);
        std::array::from_fn(|q| {
            std::array::from_fn(|i| i32::from_le_bytes(std::array::from_fn(|r| rows[r][q * 4 + i])))
        })
    }
    #[inline(always)]
    fn pack(self, x: [I; 4]) -> I {
        words(std::array::from_fn(|i| x[i / 4][i % 4] as u8))
    }
    #[inline(always)]
    fn max_bytes(self, a: I, b: I) -> I {
        let (a, b) = (bytes(a), bytes(b));
        words(std::array::from_fn(|i| a[i].max(b[i])))
    }
}
