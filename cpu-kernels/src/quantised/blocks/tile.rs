//! Some panels times all rows: codes are unpacked once per tile of rows, and meet each row's bytes in integers.
//!
//! A group's sum is exact, then scaled and added in `f32`, group after group along the depth, whatever the tile: a row's
//! result does not depend on the rows beside it.

use super::layout::{GROUP, Layout, Start};
use super::rows::{EIGHT, HALF, LINE, SCALE, SUM, THIRTY_TWO, tile_at};
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
            // SAFETY: whoever made the panels' part promises all operands; the tile's rows are among them.
            unsafe {
                match count {
                    16 => self.tile::<B, 16>(b, first),
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
    /// Panels, rows and results are there, and nobody else uses these columns' results.
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
                        for (r, sum) in sums.iter_mut().enumerate() {
                            let x = x.wrapping_add(r * LINE);
                            let word = |at: usize| x.wrapping_add(4 * at);
                            let float = |at: usize| s.splat(word(at).cast::<f32>().read());
                            let scale = float(SCALE);
                            if W::START == Start::ThirtyTwo {
                                let [low, high] = halves(unpacked);
                                let low = b.dot_codes::<4, 63>(b.broadcast(word(THIRTY_TWO)), low, x);
                                let high =
                                    b.dot_codes::<4, 63>(b.broadcast(word(THIRTY_TWO + 1)), high, word(4));
                                let both = s.mul(s.to_float(low), factors.scales[0]);
                                let both = s.mul_add(s.to_float(high), factors.scales[1], both);
                                *sum = s.mul_add(both, scale, *sum);
                                continue;
                            }
                            let start = match W::START {
                                Start::Eight => b.broadcast(word(EIGHT)),
                                Start::Half => b.broadcast(word(HALF)),
                                _ => s.splat_i(0),
                            };
                            let dot = match W::MOST {
                                15 => b.dot_codes::<8, 15>(start, unpacked, x),
                                31 => b.dot_codes::<8, 31>(start, unpacked, x),
                                _ => full(b, start, unpacked, x),
                            };
                            *sum = s.mul_add(s.to_float(dot), s.mul(factors.scales[0], scale), *sum);
                            if W::MINIMA {
                                *sum = s.mul_add(factors.minimum, float(SUM), *sum);
                            }
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
