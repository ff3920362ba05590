//! Rows rounded to signed bytes, 32 values at a time, with what their products need beside them.
//!
//! 1. A group of a row is one cache line of sixteen words: eight of bytes, then those that the constants below name.
//! 2. Groups are stored tile by tile (see [`tile_at`]), within a tile group by group, and within a
//!    group row by row, so that a tile reads contiguous memory.
//! 3. Bytes are `round(x * (127 / max))`, ties to even, and the scale is `max / 127`, where `max` is the group's largest
//!    magnitude. A group with an infinity or a NaN has a scale of NaN. A group so small that `127 / max` is no number is zero.
//! 4. If rows are kept in two pieces, the rounding error of a row is stored as a second row after
//!    it, rounded in the same way.

use super::layout::GROUP;
use crate::isa::Simd;
use crate::isa::dot::{ByteKernel, Bytes};
use std::ops::Range;

/// Bytes of a group of a row.
pub(super) const LINE: usize = 64;
/// The word with the scale.
pub(super) const SCALE: usize = 8;
/// The word with the scaled sum of the bytes.
pub(super) const SUM: usize = 9;
/// The word with -8 times the sum of the bytes, an integer as those up to [`HALF_SUMS`].
pub(super) const EIGHT: usize = 10;
/// The word with the sum that starts where 128 is taken off codes, less what the instruction takes off.
pub(super) const HALF: usize = 11;
/// The words with -32 times the sum of each half of the bytes.
pub(super) const THIRTY_TWO: usize = 12;
/// The words with the scaled sum of each half of the bytes.
pub(super) const HALF_SUMS: usize = 14;

/// The most rows of a tile: as many as their sums fit the registers beside eight vectors of codes.
const fn most_rows<B: Bytes>() -> usize {
    match B::ROWS {
        12.. => 12,
        8.. => 8,
        _ => 4,
    }
}

/// Rows of the tile that starts at a row behind which `left` are left.
pub(super) fn tile_at<B: Bytes>(left: usize) -> usize {
    let left = left.min(most_rows::<B>());
    match left {
        12.. => 12,
        8.. => 8,
        4.. => 4,
        2.. => 2,
        _ => left.min(1),
    }
}

/// Rounds some of the rows.
pub(super) struct Round {
    /// All rows.
    pub(super) rows: usize,
    /// Pieces of a row: one, or two.
    pub(super) pieces: usize,
    /// Those to round.
    pub(super) range: Range<usize>,
    /// Groups of a row.
    pub(super) groups: usize,
    /// All rows `[rows, 32 * groups]`.
    pub(super) x: *const f32,
    /// All groups `[rows, groups]` of [`LINE`] bytes, `pieces` times as many rows.
    pub(super) to: *mut u8,
}

impl ByteKernel for Round {
    type Output = ();
    #[inline(always)]
    fn run<B: Bytes>(self, b: B) {
        let all = self.rows * self.pieces;
        let mut first = 0;
        while first < all {
            let count = tile_at::<B>(all - first);
            // a tile has whole rows: its pieces are even where rows have two
            let rows = first / self.pieces..(first + count) / self.pieces;
            for row in self.range.start.max(rows.start)..self.range.end.min(rows.end) {
                let place = row * self.pieces - first;
                for group in 0..self.groups {
                    let at = first * self.groups + group * count + place;
                    let x = self.x.wrapping_add((row * self.groups + group) * GROUP);
                    let to = self.to.wrapping_add(at * LINE);
                    // SAFETY: row and group are below their counts, for which both operands are long enough.
                    unsafe {
                        round(b, x, to);
                        if self.pieces == 2 {
                            let left = remainder(x, to);
                            round(b, left.as_ptr(), to.wrapping_add(LINE));
                        }
                    }
                }
            }
            first += count;
        }
    }
}

/// What rounding took off a group.
///
/// # Safety
/// [`GROUP`] values are readable at `x`, and at `line` what [`round`] made of them.
#[inline(always)]
unsafe fn remainder(x: *const f32, line: *const u8) -> [f32; GROUP] {
    // SAFETY: the caller promises a line, which may lie anywhere.
    let scale = unsafe { line.add(4 * SCALE).cast::<f32>().read_unaligned() };
    let mut left = [0.0; GROUP];
    for (at, left) in left.iter_mut().enumerate() {
        // SAFETY: the caller promises values and bytes.
        let (x, byte) = unsafe { (x.add(at).read(), line.add(at).cast::<i8>().read()) };
        *left = (-scale).mul_add(f32::from(byte), x);
    }
    left
}

/// Rounds one group.
///
/// # Safety
/// [`GROUP`] values are readable at `x`, [`LINE`] bytes writable at `to`, and no one else uses them.
#[inline(always)]
unsafe fn round<B: Bytes>(b: B, x: *const f32, to: *mut u8) {
    let (s, lanes) = (b.simd(), <B::S as Simd>::LANES);
    let zero = s.splat(0.0);
    let (mut largest, mut poison) = (zero, zero);
    for at in (0..GROUP).step_by(lanes) {
        // SAFETY: the caller promises the values.
        let x = unsafe { s.load(x.add(at)) };
        // operand order: NaN is passed over, and met in the sum, which is zero otherwise
        largest = s.max(s.abs(x), largest);
        poison = s.mul_add(x, zero, poison);
    }
    let most = s.max_lane(largest);
    let (scale, inverse) = (most / 127.0, 127.0 / most);
    let (scale, inverse) = if s.sum(poison) != 0.0 {
        (f32::NAN, 0.0)
    } else if inverse.is_finite() {
        (scale, inverse)
    } else {
        (0.0, 0.0)
    };
    let finite = !scale.is_nan();
    let by = s.splat(inverse);
    let mut sums = [0.0f32; 2];
    for (half, sum) in sums.iter_mut().enumerate() {
        let mut all = zero;
        for at in (half * GROUP / 2..(half + 1) * GROUP / 2).step_by(lanes) {
            // SAFETY: as above.
            let x = unsafe { s.load(x.add(at)) };
            let q = if finite { s.round(s.mul(x, by)) } else { zero };
            all = s.add(all, q);
            let bytes = s.and_i(s.to_int(q), s.splat_i(255));
            // SAFETY: the caller promises the bytes.
            unsafe { b.narrow(to.add(at), bytes, lanes) };
        }
        // whole numbers, and so exact
        *sum = s.sum(all);
    }
    let halves = sums.map(|sum| sum as i32);
    let both = halves[0] + halves[1];
    let float = |value: f32| value.to_bits() as i32;
    let words = [
        float(scale),
        float(scale * (sums[0] + sums[1])),
        -8 * both,
        (B::OFFSET - 128) * both,
        -32 * halves[0],
        -32 * halves[1],
        float(scale * sums[0]),
        float(scale * sums[1]),
    ];
    // SAFETY: the caller promises a line, of which the bytes are the first half.
    unsafe { to.add(GROUP).cast::<[i32; 8]>().write_unaligned(words) };
}
