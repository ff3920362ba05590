//! Products of words: the operations that the multiplication tile needs for an element type, and
//! further ones for byte kernels.
//!
//! 1. A word is 32 bits of a row: one `f32`, two 16-bit floats or four bytes along the depth of a product. A panel
//!    holds as many elements per column, so one tile serves every element type ([`Product`]).
//! 2. A token of this module is built of a token of [`Simd`] and, where it uses an extension, of its detection.
//! 3. Bytes of rows are unsigned and bytes of panels signed. If hardware requires both signed, [`Bytes::OFFSET`] is
//!    subtracted from the rows; packing compensates for it.
//! 4. All tokens give the same sums, exactly: none saturates on the way.
//!
//! Not here: kernels.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod scalar;

use super::simd::{Dispatch, Kernel, Load, Simd};
use half::{bf16, f16};
use std::marker::PhantomData;

/// The vector of `i32` of a product's instruction set.
pub(crate) type I<P> = <<P as Product>::S as Simd>::I;

/// Words of rows times words of panels.
pub(crate) trait Product: Copy + Send + Sync + 'static {
    /// The instruction set without extensions.
    type S: Simd;
    /// A word of a row in every lane.
    type Row: Copy;
    /// A word of each of [`Simd::LANES`] columns.
    type Panel: Copy;
    /// Sums of [`Simd::LANES`] columns.
    type Sum: Copy;
    /// Bytes that a word of a column takes in a panel: fewer than a row's where a panel is widened as it is read.
    const PANEL_BYTES: usize = 4;

    fn simd(self) -> Self::S;
    /// # Safety
    /// A word is readable at `p`, which need not be aligned.
    unsafe fn broadcast(self, p: *const u8) -> Self::Row;
    /// # Safety
    /// [`Simd::LANES`] words are readable at `p`, which is aligned to elements of panels that are widened, and else need not be.
    unsafe fn panel(self, p: *const u8) -> Self::Panel;
    /// The first element of a word whose other elements lie beyond the row, and zeros for those.
    /// # Safety
    /// An element is readable at `p`.
    unsafe fn broadcast_first(self, p: *const u8) -> Self::Row {
        // SAFETY: the element is the word, where this is not overridden.
        unsafe { self.broadcast(p) }
    }
    /// `sum + a · b` in each lane.
    fn dot(self, sum: Self::Sum, a: Self::Row, b: Self::Panel) -> Self::Sum;
}

/// The product of `f32`s: one fused multiplication and addition.
#[derive(Clone, Copy)]
pub(crate) struct Fma<S>(pub(crate) S);

impl<S: Simd> Product for Fma<S> {
    type S = S;
    type Row = S::F;
    type Panel = S::F;
    type Sum = S::F;
    #[inline(always)]
    fn simd(self) -> S {
        self.0
    }
    #[inline(always)]
    unsafe fn broadcast(self, p: *const u8) -> S::F {
        // SAFETY: the caller promises one readable value.
        self.0.splat(unsafe { p.cast::<f32>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn panel(self, p: *const u8) -> S::F {
        // SAFETY: the caller promises LANES readable values.
        unsafe { self.0.load(p.cast()) }
    }
    #[inline(always)]
    fn dot(self, sum: S::F, a: S::F, b: S::F) -> S::F {
        self.0.mul_add(a, b, sum)
    }
}

/// The same product with panels of 16-bit floats: each is widened, which is exact, before it is multiplied.
#[derive(Clone, Copy)]
pub(crate) struct FmaOf<S, H>(S, PhantomData<H>);

impl<S: Simd, H: Half> Product for FmaOf<S, H> {
    type S = S;
    type Row = S::F;
    type Panel = S::F;
    type Sum = S::F;
    const PANEL_BYTES: usize = 2;
    #[inline(always)]
    fn simd(self) -> S {
        self.0
    }
    #[inline(always)]
    unsafe fn broadcast(self, p: *const u8) -> S::F {
        // SAFETY: the caller promises one readable value.
        unsafe { Fma(self.0).broadcast(p) }
    }
    #[inline(always)]
    unsafe fn panel(self, p: *const u8) -> S::F {
        // SAFETY: the caller promises LANES readable values.
        unsafe { H::widen(self.0, p.cast()) }
    }
    #[inline(always)]
    fn dot(self, sum: S::F, a: S::F, b: S::F) -> S::F {
        self.0.mul_add(a, b, sum)
    }
}

/// A 16-bit float.
pub(crate) trait Half: Copy + Send + Sync + 'static {
    /// [`Simd::LANES`] values as `f32`, which holds each of them; a NaN stays one.
    /// # Safety
    /// They are readable at `p`.
    unsafe fn widen<S: Simd>(s: S, p: *const Self) -> S::F;
}

impl Half for f16 {
    #[inline(always)]
    unsafe fn widen<S: Simd>(s: S, p: *const f16) -> S::F {
        // SAFETY: as the caller promises.
        unsafe { s.load_f16(p, S::LANES) }
    }
}

impl Half for bf16 {
    #[inline(always)]
    unsafe fn widen<S: Simd>(s: S, p: *const bf16) -> S::F {
        // SAFETY: as the caller promises; both are 16 bits.
        unsafe { s.load_bf16(p.cast(), S::LANES) }
    }
}

/// How floats become codes: rounded to nearest even, moved by `zero`, between two codes.
#[derive(Clone, Copy)]
pub(crate) struct Rounding<S: Simd> {
    /// The least code less the zero.
    pub(crate) low: S::F,
    /// The greatest code less the zero.
    pub(crate) high: S::F,
    /// The code of zero, in `0..=255`.
    pub(crate) zero: S::I,
}

/// Products of unsigned bytes of rows and signed bytes of panels, and the operations of kernels on bytes.
///
/// A vector of `i32` also represents four times as many bytes in memory order.
pub(crate) trait Bytes: Product<Row = I<Self>, Panel = I<Self>, Sum = I<Self>> {
    /// What [`Product::dot`] takes off each byte of the row before it multiplies.
    const OFFSET: i32;
    /// Rows of the tile.
    const ROWS: usize;
    /// Whether [`Product::dot`] is one instruction that takes nothing off ([`OFFSET`](Self::OFFSET) is 0), and registers hold the sums
    /// of all rows of a tile twice.
    const SIDE_BY_SIDE: bool = false;

    /// Runs `kernel` with the instruction set and its extension switched on.
    fn enter<K: ByteKernel>(self, kernel: K) -> K::Output;

    /// `sum` plus the products of `N` vectors of unsigned codes, which are at most `MOST` and that at most 127, with `N` words of
    /// signed bytes from -127 to 127, each of which meets all lanes. Nothing is taken off the codes, and sums are exact.
    /// # Safety
    /// `N` words are readable at `words`.
    #[inline(always)]
    unsafe fn dot_codes<const N: usize, const MOST: i32>(
        self,
        sum: I<Self>,
        codes: [I<Self>; N],
        words: *const u8,
    ) -> I<Self> {
        const { assert!(Self::OFFSET == 0 && MOST <= 127) };
        let mut sum = sum;
        for (i, codes) in codes.into_iter().enumerate() {
            // SAFETY: the caller promises the words.
            sum = self.dot(sum, codes, unsafe { self.broadcast(words.add(4 * i)) });
        }
        sum
    }

    /// The first `n` bytes (all lanes where `n` is larger) as one `i32` each; zero in the others.
    /// # Safety
    /// `min(n, LANES)` bytes are readable at `p`.
    unsafe fn widen(self, p: *const u8, n: usize) -> I<Self>;
    /// The lanes, which are in `0..=255`, as bytes: the first `n`, or all where `n` is larger.
    /// # Safety
    /// `min(n, LANES)` bytes are writable at `p`.
    unsafe fn narrow(self, p: *mut u8, x: I<Self>, n: usize);
    /// `4 * LANES` bytes, or the first `n` and zeros.
    /// # Safety
    /// `min(n, 4 * LANES)` bytes are readable at `p`.
    unsafe fn read(self, p: *const u8, n: usize) -> I<Self>;
    /// `4 * LANES` bytes, or the first `n` of them.
    /// # Safety
    /// `min(n, 4 * LANES)` bytes are writable at `p`.
    unsafe fn write(self, p: *mut u8, x: I<Self>, n: usize);
    /// Four rows of bytes as words of one byte of each row. Per 16 bytes of a row, the first result holds the words
    /// of its bytes 0 to 3, the second of 4 to 7, and so on.
    fn interleave(self, rows: [I<Self>; 4]) -> [I<Self>; 4];
    /// Lanes in `0..=255` in the order that [`interleave`](Self::interleave) gives, as bytes in the order of its rows.
    fn pack(self, x: [I<Self>; 4]) -> I<Self>;
    /// The larger of each pair of unsigned bytes.
    fn max_bytes(self, a: I<Self>, b: I<Self>) -> I<Self>;
    /// Four vectors as codes, in the order of [`pack`](Self::pack); a NaN gives the least code.
    #[inline(always)]
    fn round(self, x: [<Self::S as Simd>::F; 4], by: Rounding<Self::S>) -> I<Self> {
        let s = self.simd();
        let mut q = [by.zero; 4];
        for (q, x) in q.iter_mut().zip(x) {
            *q = s.add_i(s.to_int(s.min(s.max(x, by.low), by.high)), by.zero);
        }
        self.pack(q)
    }
    /// Four vectors as codes: the first `count` of them, `NV` (1 or 2) to a row, of which `columns` are stored; a NaN
    /// gives the least code.
    /// # Safety
    /// `columns`, at least one of them in a row's last vector and at most `NV * LANES`, are writable at `to` and in
    /// rows `stride` behind it, as many as `count` vectors reach.
    #[inline(always)]
    unsafe fn store_codes<const NV: usize>(
        self,
        to: *mut u8,
        stride: usize,
        x: [<Self::S as Simd>::F; 4],
        by: Rounding<Self::S>,
        columns: usize,
        count: usize,
    ) {
        let s = self.simd();
        for (i, &x) in x.iter().enumerate().take(count) {
            let column = i % NV * Self::S::LANES;
            let q = s.add_i(s.to_int(s.min(s.max(x, by.low), by.high)), by.zero);
            // SAFETY: the caller promises these columns of this row.
            unsafe { self.narrow(to.add(i / NV * stride + column), q, columns - column) };
        }
    }
}

/// Pairs of products of codes up to `most` with bytes up to 127 whose sums 16 bits hold.
#[cfg(target_arch = "x86_64")]
const fn pairs_in_16_bits(most: i32) -> usize {
    assert!(most <= 127);
    (i16::MAX as i32 / (2 * 127 * most)) as usize
}

/// A piece of code that one [`Bytes`] entry runs; `run` is always `#[inline(always)]`.
pub(crate) trait ByteKernel {
    /// What the kernel returns.
    type Output;
    /// The kernel's body for one instruction set.
    fn run<B: Bytes>(self, b: B) -> Self::Output;
}

/// The product of pairs of bf16, summed in `f32`.
#[derive(Clone, Copy)]
pub(crate) struct Pairs<S>(pub(crate) S);

impl<S: Simd> Product for Pairs<S> {
    type S = S;
    type Row = S::I;
    type Panel = S::I;
    type Sum = S::F;
    #[inline(always)]
    fn simd(self) -> S {
        self.0
    }
    #[inline(always)]
    unsafe fn broadcast(self, p: *const u8) -> S::I {
        // SAFETY: the caller promises one readable word.
        self.0.splat_i(unsafe { p.cast::<i32>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn broadcast_first(self, p: *const u8) -> S::I {
        // SAFETY: the caller promises one readable element.
        self.0
            .splat_i(i32::from(unsafe { p.cast::<u16>().read_unaligned() }))
    }
    #[inline(always)]
    unsafe fn panel(self, p: *const u8) -> S::I {
        // SAFETY: the caller promises LANES readable words.
        self.0.bits(unsafe { self.0.load(p.cast()) })
    }
    #[inline(always)]
    fn dot(self, sum: S::F, a: S::I, b: S::I) -> S::F {
        self.0.dot_bf16(sum, a, b)
    }
}

/// An element type of rows and panels.
pub(crate) trait Element: Load {
    /// Elements of a word.
    const PER_WORD: usize;
    /// Its product on an instruction set.
    type Product<S: Simd>: Product<S = S, Sum = S::F>;
    /// Rows of the tallest tile that is compiled for it.
    const MOST_ROWS: usize = usize::MAX;

    fn product<S: Simd>(s: S) -> Self::Product<S>;
}

impl Element for f32 {
    const PER_WORD: usize = 1;
    type Product<S: Simd> = Fma<S>;
    #[inline(always)]
    fn product<S: Simd>(s: S) -> Fma<S> {
        Fma(s)
    }
}

impl Element for bf16 {
    const PER_WORD: usize = 2;
    type Product<S: Simd> = Pairs<S>;
    #[inline(always)]
    fn product<S: Simd>(s: S) -> Pairs<S> {
        Pairs(s)
    }
}

/// An `f32` of a row whose panels are of `H`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Beside<H>(f32, PhantomData<H>);

impl<H: Half> Load for Beside<H> {
    const EXACT: bool = true;
    #[inline(always)]
    unsafe fn read<S: Simd>(s: S, p: *const Self, n: usize) -> S::F {
        // SAFETY: as the caller promises; it is an f32.
        unsafe { f32::read(s, p.cast(), n) }
    }
    #[inline(always)]
    unsafe fn write<S: Simd>(s: S, p: *mut Self, x: S::F, n: usize) {
        // SAFETY: as the caller promises; it is an f32.
        unsafe { f32::write(s, p.cast(), x, n) }
    }
    #[inline(always)]
    fn enter<D: Dispatch, K: Kernel>(isa: D, kernel: K) -> K::Output {
        isa.run(kernel)
    }
    #[inline(always)]
    fn value(self) -> f32 {
        self.0
    }
    #[inline(always)]
    fn nearest(value: f32) -> Self {
        Self(value, PhantomData)
    }
}

impl<H: Half> Element for Beside<H> {
    const PER_WORD: usize = 1;
    type Product<S: Simd> = FmaOf<S, H>;
    // of more rows, panels are widened once for all
    const MOST_ROWS: usize = 4;
    #[inline(always)]
    fn product<S: Simd>(s: S) -> FmaOf<S, H> {
        FmaOf(s, PhantomData)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::isa::MOST_LANES;

    /// Bytes that look random.
    fn bytes(len: usize, seed: u32) -> Vec<u8> {
        let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(99);
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..len).map(next).collect()
    }

    struct Check<'a> {
        a: &'a [u8],
        b: &'a [u8],
    }

    impl Check<'_> {
        /// As many floats as four vectors have at most, some of them extreme.
        fn floats(&self) -> Vec<f32> {
            let mut values: Vec<f32> = (0..64)
                .map(|i| (f32::from(self.a[i]) - 128.0) * 1.25 + f32::from(self.a[i + 1] % 4) / 4.0)
                .collect();
            (values[0], values[1], values[2]) = (f32::NAN, 1e30, f32::NEG_INFINITY);
            values
        }

        #[inline(always)]
        fn check_codes<B: Bytes, const NV: usize>(&self, b: B) {
            let (s, lanes) = (b.simd(), B::S::LANES);
            let values = self.floats();
            // SAFETY: LANES values are readable at each start.
            let x: [_; 4] = std::array::from_fn(|i| unsafe { s.load(values[i * lanes..].as_ptr()) });
            for (zero, low, high) in [(0, 0, 255), (131, 3, 250), (255, 255, 255)] {
                let by = Rounding {
                    low: s.splat((low - zero) as f32),
                    high: s.splat((high - zero) as f32),
                    zero: s.splat_i(zero),
                };
                for columns in (NV - 1) * lanes + 1..=NV * lanes {
                    for count in (NV..=4).step_by(NV) {
                        let stride = NV * lanes + 3;
                        let mut out = vec![7u8; 4 * stride];
                        // SAFETY: four rows of NV * LANES bytes are writable.
                        unsafe { b.store_codes::<NV>(out.as_mut_ptr(), stride, x, by, columns, count) };
                        for (at, &got) in out.iter().enumerate() {
                            let (row, column) = (at / stride, at % stride);
                            if column >= columns || row >= count / NV {
                                assert_eq!(got, 7, "row {row}, column {column}");
                                continue;
                            }
                            let x = values[row * NV * lanes + column];
                            let want =
                                (x.max((low - zero) as f32).min((high - zero) as f32)).round_ties_even();
                            assert_eq!(
                                i32::from(got),
                                want as i32 + zero,
                                "row {row}, column {column}: {x}"
                            );
                        }
                    }
                }
            }
        }
    }

    impl Check<'_> {
        #[inline(always)]
        fn check_codes_of<B: Bytes, const N: usize, const MOST: i32>(&self, b: B) {
            let (s, lanes) = (b.simd(), B::S::LANES);
            // whole masks, so that the largest codes meet the largest bytes
            let codes: Vec<u8> = (0..64 * N).map(|i| self.a[i * 7 % 256] & MOST as u8).collect();
            let words: Vec<u8> = (0..4 * N)
                .map(|i| if self.b[i] == 128 { 129 } else { self.b[i] })
                .collect();
            // SAFETY: 64 bytes are readable from each start, and N words.
            let got = unsafe {
                let vectors = std::array::from_fn(|i| b.panel(codes[i * 64..].as_ptr()));
                b.dot_codes::<N, MOST>(s.splat_i(-5), vectors, words.as_ptr())
            };
            let mut out = [0; MOST_LANES];
            // SAFETY: no vector is longer.
            unsafe { s.store_i(out.as_mut_ptr(), got) };
            for (lane, &got) in out[..lanes].iter().enumerate() {
                let product = |i: usize| {
                    let code = codes[i / 4 * 64 + lane * 4 + i % 4];
                    i32::from(code) * i32::from(words[i] as i8)
                };
                assert_eq!(
                    got,
                    (0..4 * N).map(product).sum::<i32>() - 5,
                    "lane {lane}, up to {MOST}"
                );
            }
        }
    }

    impl ByteKernel for Check<'_> {
        type Output = ();
        #[inline(always)]
        fn run<B: Bytes>(self, b: B) {
            let (s, lanes) = (b.simd(), B::S::LANES);
            let signed = |x: u8| i32::from(x as i8);
            let lane = |x: I<B>| -> Vec<i32> {
                let mut out = vec![0.0f32; lanes];
                // SAFETY: LANES values are writable.
                unsafe { s.store(out.as_mut_ptr(), s.to_floats(x)) };
                out.iter().map(|x| x.to_bits() as i32).collect()
            };
            for word in 0..4 {
                let at = word * 4;
                // SAFETY: both slices hold 16 and 64 bytes from `at` on.
                let (x, y) = unsafe { (b.broadcast(self.a[at..].as_ptr()), b.panel(self.b[at..].as_ptr())) };
                let sum = b.dot(s.splat_i(1000), x, y);
                for (i, got) in lane(sum).into_iter().enumerate() {
                    let want: i32 = (0..4)
                        .map(|j| (i32::from(self.a[at + j]) - B::OFFSET) * signed(self.b[at + i * 4 + j]))
                        .sum();
                    assert_eq!(got, want + 1000, "lane {i}");
                }
            }
            self.check_codes_of::<B, 8, 15>(b);
            self.check_codes_of::<B, 8, 31>(b);
            self.check_codes_of::<B, 4, 63>(b);
            self.check_codes_of::<B, 7, 127>(b);
            for n in 0..=4 * lanes + 1 {
                let mut out = vec![7u8; 4 * lanes + 1];
                let most = n.min(4 * lanes);
                // SAFETY: no more than 4 * LANES bytes are touched.
                unsafe { b.write(out.as_mut_ptr(), b.read(self.a.as_ptr(), n), n) };
                assert_eq!(out[..most], self.a[..most]);
                assert!(out[most..].iter().all(|&x| x == 7));
                let mut out = vec![7u8; lanes + 1];
                let most = n.min(lanes);
                // SAFETY: no more than LANES bytes are touched.
                let wide = unsafe { b.widen(self.a.as_ptr(), n) };
                for (i, x) in lane(wide).into_iter().enumerate() {
                    assert_eq!(x, if i < most { i32::from(self.a[i]) } else { 0 });
                }
                // SAFETY: as above.
                unsafe { b.narrow(out.as_mut_ptr(), wide, n) };
                assert_eq!(out[..most], self.a[..most]);
                assert!(out[most..].iter().all(|&x| x == 7));
            }
            let rows: [I<B>; 4] =
                // SAFETY: 64 bytes are readable at each start.
                std::array::from_fn(|i| unsafe { b.read(self.a[i * 64..].as_ptr(), 64) });
            let quads = b.interleave(rows);
            for (q, &quad) in quads.iter().enumerate() {
                for (i, word) in lane(quad).into_iter().enumerate() {
                    let column = i / 4 * 16 + q * 4 + i % 4;
                    let want: [u8; 4] = std::array::from_fn(|r| self.a[r * 64 + column]);
                    assert_eq!(word.to_le_bytes(), want);
                }
            }
            let low = quads.map(|quad| s.and_i(quad, s.splat_i(255)));
            let mut out = vec![0u8; 4 * lanes];
            // SAFETY: 4 * LANES bytes are writable.
            unsafe { b.write(out.as_mut_ptr(), b.pack(low), 64) };
            assert_eq!(out, self.a[..4 * lanes]);
            let x: [_; 4] =
                // SAFETY: LANES values are readable at each start.
                std::array::from_fn(|i| unsafe { s.load(self.floats()[i * lanes..].as_ptr()) });
            let by = Rounding {
                low: s.splat(-100.0),
                high: s.splat(154.0),
                zero: s.splat_i(101),
            };
            let plain = x.map(|x| s.add_i(s.to_int(s.min(s.max(x, by.low), by.high)), by.zero));
            assert_eq!(lane(b.round(x, by)), lane(b.pack(plain)));
            self.check_codes::<B, 1>(b);
            self.check_codes::<B, 2>(b);
            // SAFETY: as above.
            unsafe { b.write(out.as_mut_ptr(), b.max_bytes(rows[0], rows[1]), 64) };
            for (i, &x) in out.iter().enumerate() {
                assert_eq!(x, self.a[i].max(self.a[64 + i]));
            }
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bytes_and_sums() {
        for isa in Isa::available() {
            for isa in [isa, isa.without_extensions()] {
                for seed in 0..20 {
                    let (mut a, mut b) = (bytes(256, seed), bytes(80, seed + 100));
                    if seed == 0 {
                        a.fill(255);
                        b.fill(128);
                    }
                    isa.run_bytes(Check { a: &a, b: &b });
                }
            }
        }
    }
}
