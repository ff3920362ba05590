//! Multiplies some panels with all rows: codes are unpacked once per tile of rows, and multiplied
//! with each row's bytes in integers.
//!
//! A group's sum is exact, then scaled and added in `f32`, group after group along the depth, whatever the tile: a row's
//! result does not depend on the rows beside it.

use super::layout::{F, Factors, GROUP, Layout, Start};
use super::rows::{EIGHT, HALF, HALF_SUMS, LINE, SCALE, SUM, THIRTY_TWO, tile_at};
use crate::isa::Simd;
use crate::isa::dot::{ByteKernel, Bytes, I};
use std::marker::PhantomData;
use std::ops::Range;

/// Bytes ahead of its codes that one row asks for.
const AHEAD: usize = 2048;

/// The product of some panels.
pub(super) struct Tiles<W> {
    pub(super) panels: Range<usize>,
    /// Blocks of a column.
    pub(super) blocks: usize,
    /// All panels' codes and scales.
    pub(super) codes: *const u8,
    pub(super) scales: *const u8,
    /// All rows, rounded, in their pieces.
    pub(super) x: *const u8,
    /// Pieces of all rows.
    pub(super) rows: usize,
    /// Pieces of a row: one, or two.
    pub(super) pieces: usize,
    pub(super) columns: usize,
    /// `[rows, columns]`, one for all pieces of a row.
    pub(super) out: *mut f32,
    pub(super) layout: PhantomData<W>,
}

impl<W: Layout> ByteKernel for Tiles<W> {
    type Output = ();
    #[inline(always)]
    fn run<B: Bytes>(self, b: B) {
        let mut first = 0;
        while first < self.rows {
            let count = tile_at::<B>(self.rows - first);
            // SAFETY: the creator of the panels' part promises all operands; the tile's rows are among them.
            unsafe {
                match count {
                    12 => self.tile::<B, 12>(b, first),
                    8 => self.tile::<B, 8>(b, first),
                    4 => self.tile::<B, 4>(b, first),
                    2 => self.tile::<B, 2>(b, first),
                    _ => self.tile::<B, 1>(b, first),
                }
            }
            first += count;
        }
    }
}

impl<W: Layout> Tiles<W> {
    /// # Safety
    /// Panels, rows and results are there, and no other thread uses these columns' results.
    #[inline(always)]
    unsafe fn tile<B: Bytes, const MR: usize>(&self, b: B, first: usize) {
        let (s, lanes) = (b.simd(), <B::S as Simd>::LANES);
        let code_bytes = W::WORDS * 4 * lanes;
        let scale_bytes = W::SCALES * lanes;
        let groups = self.blocks * W::GROUPS;
        for panel in self.panels.clone() {
            let mut codes = self.codes.wrapping_add(panel * groups * code_bytes);
            let mut scales = self.scales.wrapping_add(panel * self.blocks * scale_bytes);
            let mut x = self.x.wrapping_add(first * groups * LINE);
            let mut sums = [s.splat(0.0); MR];
            for _ in 0..self.blocks {
                // SAFETY: a panel has scales and codes of all blocks; each row has as many groups.
                unsafe {
                    let block = W::block(b, scales);
                    for group in 0..W::GROUPS {
                        if MR <= 2 {
                            for line in (0..code_bytes).step_by(LINE) {
                                s.prefetch(codes.wrapping_add(AHEAD + line).cast());
                            }
                        }
                        let unpacked = W::codes(b, codes);
                        let factors = W::factors(b, block, scales, group);
                        if B::SIDE_BY_SIDE {
                            Self::together(b, &unpacked, &factors, x, &mut sums);
                        } else {
                            Self::one_by_one(b, unpacked, &factors, x, &mut sums);
                        }
                        codes = codes.wrapping_add(code_bytes);
                        x = x.wrapping_add(MR * LINE);
                    }
                    scales = scales.wrapping_add(scale_bytes);
                }
            }
            let column = panel * lanes;
            for r in (0..MR).step_by(self.pieces) {
                let sum = match self.pieces {
                    2 => s.add(sums[r], sums[r + 1]),
                    _ => sums[r],
                };
                let to = self
                    .out
                    .wrapping_add((first + r) / self.pieces * self.columns + column);
                // SAFETY: the row has as many columns left.
                unsafe { s.write(to, sum, self.columns - column) };
            }
        }
    }

    /// Adds a group's products to the sums of rows, row after row.
    ///
    /// # Safety
    /// Each row has a line of [`LINE`] bytes from `x` on.
    #[inline(always)]
    unsafe fn one_by_one<B: Bytes, const MR: usize>(
        b: B,
        codes: [I<B>; 8],
        factors: &Factors<F<B>>,
        x: *const u8,
        sums: &mut [F<B>; MR],
    ) {
        let s = b.simd();
        for (r, sum) in sums.iter_mut().enumerate() {
            let x = x.wrapping_add(r * LINE);
            let word = |at: usize| x.wrapping_add(4 * at);
            // SAFETY: the caller promises the line.
            unsafe {
                let start = |at: usize| b.broadcast(word(at));
                let dots = match W::START {
                    Start::ThirtyTwo => {
                        let [low, high] = halves(codes);
                        [
                            b.dot_codes::<4, 63>(start(THIRTY_TWO), low, x),
                            b.dot_codes::<4, 63>(start(THIRTY_TWO + 1), high, word(4)),
                        ]
                    }
                    Start::Halves => {
                        let ([low, high], zero) = (halves(codes), s.splat_i(0));
                        [
                            b.dot_codes::<4, 3>(zero, low, x),
                            b.dot_codes::<4, 3>(zero, high, word(4)),
                        ]
                    }
                    Start::Zero => [dot::<B, W>(b, s.splat_i(0), codes, x); 2],
                    Start::Eight => [dot::<B, W>(b, start(EIGHT), codes, x); 2],
                    Start::Half => [dot::<B, W>(b, start(HALF), codes, x); 2],
                };
                *sum = Self::scaled(b, *sum, dots, factors, x);
            }
        }
    }

    /// As [`one_by_one`](Self::one_by_one), a word of all rows after the other: a row's steps depend on each other, and those of
    /// different rows fill the time that each takes.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn together<B: Bytes, const MR: usize>(
        b: B,
        codes: &[I<B>; 8],
        factors: &Factors<F<B>>,
        x: *const u8,
        sums: &mut [F<B>; MR],
    ) {
        let s = b.simd();
        let line = |r: usize| x.wrapping_add(r * LINE);
        let mut dots = [s.splat_i(0); MR];
        macro_rules! start {
            ($at:expr) => {
                for (r, dot) in dots.iter_mut().enumerate() {
                    // SAFETY: the caller promises the line.
                    *dot = unsafe { b.broadcast(line(r).wrapping_add(4 * $at)) };
                }
            };
        }
        macro_rules! words {
            ($($v:literal)*) => {
                $(for (r, dot) in dots.iter_mut().enumerate() {
                    // SAFETY: the caller promises the line.
                    *dot = b.dot(*dot, codes[$v], unsafe { b.broadcast(line(r).wrapping_add(4 * $v)) });
                })*
            };
        }
        macro_rules! scale {
            ($factor:expr) => {
                for (r, (sum, dot)) in sums.iter_mut().zip(dots).enumerate() {
                    let at = line(r).wrapping_add(4 * SCALE).cast::<f32>();
                    // SAFETY: the caller promises the line.
                    let scale = s.splat(unsafe { at.read() });
                    *sum = s.mul_add(s.to_float(dot), s.mul($factor, scale), *sum);
                }
            };
        }
        match W::START {
            Start::Zero | Start::Halves => {}
            Start::Eight => start!(EIGHT),
            Start::Half => start!(HALF),
            Start::ThirtyTwo => start!(THIRTY_TWO),
        }
        words!(0 1 2 3);
        if W::START == Start::ThirtyTwo {
            scale!(factors.scales[0]);
            start!(THIRTY_TWO + 1);
        }
        if W::START == Start::Halves {
            scale!(factors.scales[0]);
            dots = [s.splat_i(0); MR];
        }
        words!(4 5 6 7);
        scale!(factors.scales[1]);
        if W::MINIMA {
            for (r, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the caller promises the line.
                *sum = unsafe { Self::with_minima(b, *sum, factors, line(r)) };
            }
        }
    }

    /// `sum` and the minima times the sums of a row's bytes.
    ///
    /// # Safety
    /// A line of [`LINE`] bytes is readable at `x`.
    #[inline(always)]
    unsafe fn with_minima<B: Bytes>(b: B, sum: F<B>, factors: &Factors<F<B>>, x: *const u8) -> F<B> {
        let s = b.simd();
        // SAFETY: the caller promises the line.
        let float = |at: usize| s.splat(unsafe { x.wrapping_add(4 * at).cast::<f32>().read() });
        if W::START == Start::Halves {
            let sum = s.mul_add(factors.minima[0], float(HALF_SUMS), sum);
            return s.mul_add(factors.minima[1], float(HALF_SUMS + 1), sum);
        }
        s.mul_add(factors.minima[0], float(SUM), sum)
    }

    /// `sum` and the dot products of a group's halves, or twice that of the group.
    ///
    /// # Safety
    /// A line of [`LINE`] bytes is readable at `x`.
    #[inline(always)]
    unsafe fn scaled<B: Bytes>(
        b: B,
        sum: F<B>,
        dots: [I<B>; 2],
        factors: &Factors<F<B>>,
        x: *const u8,
    ) -> F<B> {
        let s = b.simd();
        // SAFETY: the caller promises the line.
        let float = |at: usize| s.splat(unsafe { x.wrapping_add(4 * at).cast::<f32>().read() });
        let mut sum = sum;
        if matches!(W::START, Start::ThirtyTwo | Start::Halves) {
            sum = s.mul_add(s.to_float(dots[0]), s.mul(factors.scales[0], float(SCALE)), sum);
        }
        sum = s.mul_add(s.to_float(dots[1]), s.mul(factors.scales[1], float(SCALE)), sum);
        if W::MINIMA {
            // SAFETY: as above.
            sum = unsafe { Self::with_minima(b, sum, factors, x) };
        }
        sum
    }
}

/// `start` plus the products of a group.
///
/// # Safety
/// [`GROUP`] bytes are readable at `x`.
#[inline(always)]
unsafe fn dot<B: Bytes, W: Layout>(b: B, start: I<B>, codes: [I<B>; 8], x: *const u8) -> I<B> {
    // SAFETY: as the caller promises.
    unsafe {
        match W::MOST {
            15 => b.dot_codes::<8, 15>(start, codes, x),
            31 => b.dot_codes::<8, 31>(start, codes, x),
            _ => full(b, start, codes, x),
        }
    }
}

/// The codes of each half of a group.
#[inline(always)]
fn halves<T: Copy>(codes: [T; 8]) -> [[T; 4]; 2] {
    let [a, b, c, d, e, f, g, h] = codes;
    [[a, b, c, d], [e, f, g, h]]
}

/// `start` plus the products of codes up to 255, less what the instruction takes off.
///
/// # Safety
/// [`GROUP`] bytes are readable at `x`.
#[inline(always)]
unsafe fn full<B: Bytes>(b: B, start: I<B>, codes: [I<B>; 8], x: *const u8) -> I<B> {
    let mut sum = start;
    for (v, codes) in codes.into_iter().enumerate() {
        debug_assert!(4 * v < GROUP);
        // SAFETY: the caller promises the words.
        sum = b.dot(sum, codes, unsafe { b.broadcast(x.add(4 * v)) });
    }
    sum
}
