//! One unit: the queries that share a head's keys, over a range of positions, tile by tile.
//!
//! With few queries, keys are read in place and a score is a sum across a vector; many queries are
//! computed by [`super::many`]. A single query is computed alone, others four at a time.

use crate::isa::{Kernel, Load, Simd};
use crate::math;
use std::ops::Range;

/// Positions of a tile.
pub(super) const KEYS: usize = 64;

/// The least number of queries that are computed one per lane.
pub(in super::super) const MANY: usize = 12;

/// Queries that are computed side by side.
const SIDE: usize = 4;

/// Floats of a thread's scratch for few queries.
pub(super) fn scratch(queries: usize, wide: usize) -> usize {
    let few = queries.min(MANY - 1).next_multiple_of(SIDE);
    few * (2 * wide + KEYS + 2)
}

/// What a unit works on; elements of the cache are of `E`.
pub(in super::super) struct Unit<E> {
    pub(in super::super) queries: usize,
    /// Queries of a row.
    pub(in super::super) group: usize,
    pub(in super::super) size: usize,
    /// The size in whole vectors.
    pub(in super::super) wide: usize,
    pub(in super::super) scale: f32,
    /// The first query, and floats from a row to the next.
    pub(in super::super) q: *const f32,
    pub(in super::super) row: usize,
    /// The head's keys and its values in the cache, each position behind the last; then, in `new`, those of the new
    /// positions.
    pub(in super::super) cache: [*const E; 2],
    pub(in super::super) new: [*const E; 2],
    pub(in super::super) new_row: usize,
    pub(in super::super) past: usize,
    /// The position of the first row.
    pub(in super::super) first: usize,
    /// What is added to the first query's scores, unless null, and floats to that of the next row and of the next query of a
    /// row. Few queries only.
    pub(in super::super) mask: *const f32,
    pub(in super::super) mask_strides: [usize; 2],
    /// Positions to look at.
    pub(in super::super) range: Range<usize>,
    /// Where the first query's result goes, in the order of the queries.
    pub(in super::super) out: *mut f32,
    /// Where instead a partial result goes, unless null: sums of `wide` values, maximum, sum of exponentials.
    pub(in super::super) partial: *mut f32,
    pub(in super::super) scratch: *mut f32,
}

/// A thread's scratch, in its parts.
#[derive(Clone, Copy)]
struct Space {
    queries: *mut f32,
    sums: *mut f32,
    scores: *mut f32,
    maxima: *mut f32,
    totals: *mut f32,
}

impl<E: Load> Kernel for Unit<E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if self.queries >= MANY {
            // SAFETY: as below.
            return unsafe { self.many(s) };
        }
        let alone = self.queries == 1;
        let padded = self.queries.next_multiple_of(SIDE);
        let after = |p: *mut f32, n: usize| p.wrapping_add(n);
        let queries = self.scratch;
        let sums = after(queries, padded * self.wide);
        let scores = after(sums, padded * self.wide);
        let maxima = after(scores, padded * KEYS);
        let space = Space {
            queries,
            sums,
            scores,
            maxima,
            totals: after(maxima, padded),
        };
        // SAFETY: the unit's creator promises operands of its sizes and as many floats of scratch as `unit_scratch`
        // returns.
        unsafe {
            self.begin(s, space, padded);
            let mut at = self.range.start;
            while at < self.range.end {
                let ([k, v], stride, count) = self.rows_at(at, KEYS);
                if alone {
                    self.score_few::<S, 1, 4>(s, space, k, stride, count);
                    self.weigh(s, space, at, count);
                    self.add::<S, 1, 4>(s, space, v, stride, count);
                } else {
                    self.score_few::<S, SIDE, 2>(s, space, k, stride, count);
                    self.weigh(s, space, at, count);
                    self.add::<S, SIDE, 2>(s, space, v, stride, count);
                }
                at += count;
            }
            self.end(s, space);
        }
    }
}

impl<E: Load> Unit<E> {
    /// The keys and the values of a tile of at most `most` positions from `at` on, the stride between positions in
    /// floats, and the number of positions. A tile lies either in the cache or in the new positions.
    #[inline(always)]
    pub(super) fn rows_at(&self, at: usize, most: usize) -> ([*const E; 2], usize, usize) {
        if at < self.past {
            let count = most.min(self.past.min(self.range.end) - at);
            (
                self.cache.map(|p| p.wrapping_add(at * self.size)),
                self.size,
                count,
            )
        } else {
            let row = (at - self.past) * self.new_row;
            let count = most.min(self.range.end - at);
            (self.new.map(|p| p.wrapping_add(row)), self.new_row, count)
        }
    }

    /// Scaled queries; no sums yet. Queries that fill the last ones up are zeros.
    #[inline(always)]
    unsafe fn begin<S: Simd>(&self, s: S, space: Space, padded: usize) {
        let scale = s.splat(self.scale);
        for m in 0..padded {
            for d in (0..self.wide).step_by(S::LANES) {
                let at = m * self.wide + d;
                let x = if m < self.queries {
                    let from = self
                        .q
                        .wrapping_add(m / self.group * self.row + m % self.group * self.size + d);
                    // SAFETY: the query has as many values left.
                    s.mul(unsafe { s.read(from, self.size - d) }, scale)
                } else {
                    s.splat(0.0)
                };
                // SAFETY: scratch holds all queries and their sums.
                unsafe {
                    s.store(space.queries.add(at), x);
                    s.store(space.sums.add(at), s.splat(0.0));
                }
            }
            // SAFETY: scratch holds a value of each query.
            unsafe {
                *space.maxima.add(m) = f32::NEG_INFINITY;
                *space.totals.add(m) = 0.0;
            }
            for at in (0..KEYS).step_by(S::LANES) {
                // SAFETY: and a tile's scores.
                unsafe { s.store(space.scores.add(m * KEYS + at), s.splat(0.0)) };
            }
        }
    }

    /// Scores of keys as they lie, of `M` queries and `N` keys at a time.
    #[inline(always)]
    unsafe fn score_few<S: Simd, const M: usize, const N: usize>(
        &self,
        s: S,
        space: Space,
        k: *const E,
        stride: usize,
        count: usize,
    ) {
        let mut key = 0;
        while key < count {
            // SAFETY: the tile's keys, and the unit's queries.
            key += unsafe {
                if count - key >= N {
                    self.score_keys::<S, M, N>(s, space, k, stride, key)
                } else {
                    self.score_keys::<S, M, 1>(s, space, k, stride, key)
                }
            };
        }
    }

    #[inline(always)]
    unsafe fn score_keys<S: Simd, const M: usize, const N: usize>(
        &self,
        s: S,
        space: Space,
        k: *const E,
        stride: usize,
        key: usize,
    ) -> usize {
        for m in (0..self.queries).step_by(M) {
            let mut sums = [[s.splat(0.0); M]; N];
            for d in (0..self.wide).step_by(S::LANES) {
                // SAFETY: queries are padded to whole sides and vectors; a key has as many values left as are read.
                unsafe {
                    let q: [S::F; M] =
                        std::array::from_fn(|i| s.load(space.queries.add((m + i) * self.wide + d)));
                    for (n, sums) in sums.iter_mut().enumerate() {
                        let k = s.read(k.add((key + n) * stride + d), self.size - d);
                        for (sum, &q) in sums.iter_mut().zip(&q) {
                            *sum = s.mul_add(q, k, *sum);
                        }
                    }
                }
            }
            for (n, sums) in sums.iter().enumerate() {
                for (i, &sum) in sums.iter().enumerate() {
                    // SAFETY: scores are padded as queries are.
                    unsafe { *space.scores.add((m + i) * KEYS + key + n) = s.sum(sum) };
                }
            }
        }
        N
    }

    /// Scores of a tile that starts at position `at` as exponentials, below the running maximum, which is raised; what a query
    /// does not see becomes zero.
    #[inline(always)]
    unsafe fn weigh<S: Simd>(&self, s: S, space: Space, at: usize, count: usize) {
        for m in 0..self.queries {
            let seen = (self.first + m / self.group + 1).saturating_sub(at).min(count);
            // SAFETY: scratch holds the query's scores, sums, maximum and sum.
            unsafe {
                let scores = space.scores.add(m * KEYS);
                let (max, total) = (space.maxima.add(m), space.totals.add(m));
                for key in seen..KEYS {
                    *scores.add(key) = f32::NEG_INFINITY;
                }
                if seen == 0 {
                    for key in (0..KEYS).step_by(S::LANES) {
                        s.store(scores.add(key), s.splat(0.0));
                    }
                    continue;
                }
                if !self.mask.is_null() {
                    let [row, next] = self.mask_strides;
                    let mask = self.mask.add(m / self.group * row + m % self.group * next + at);
                    for key in (0..seen).step_by(S::LANES) {
                        let score = s.read(scores.add(key), seen - key);
                        let x = s.add(score, s.read(mask.add(key), seen - key));
                        s.write(scores.add(key), x, seen - key);
                    }
                }
                let mut largest = s.splat(*max);
                for key in (0..KEYS).step_by(S::LANES) {
                    // operand order: NaN is passed over, and met below
                    largest = s.max(s.load(scores.add(key)), largest);
                }
                let new = s.max_lane(largest);
                // without a score above it, the shift may be any number
                let shift = if new == f32::NEG_INFINITY { 0.0 } else { new };
                let mut all = s.splat(0.0);
                for key in (0..KEYS).step_by(S::LANES) {
                    let e = math::exp_below_zero(s, s.sub(s.load(scores.add(key)), s.splat(shift)));
                    all = s.add(all, e);
                    s.store(scores.add(key), e);
                }
                if new != *max {
                    let by = exp_one(s, *max - shift);
                    *total *= by;
                    for d in (0..self.wide).step_by(S::LANES) {
                        let sum = space.sums.add(m * self.wide + d);
                        s.store(sum, s.mul(s.load(sum), s.splat(by)));
                    }
                    *max = new;
                }
                *total += s.sum(all);
            }
        }
    }

    /// Adds a tile of weighed values, of `M` queries and `NV` vectors at a time.
    #[inline(always)]
    unsafe fn add<S: Simd, const M: usize, const NV: usize>(
        &self,
        s: S,
        space: Space,
        v: *const E,
        stride: usize,
        count: usize,
    ) {
        for m in (0..self.queries).step_by(M) {
            let mut d = 0;
            while d < self.wide {
                // SAFETY: as many vectors are left; values have `size` numbers.
                d += unsafe {
                    if self.wide - d >= NV * S::LANES {
                        self.add_part::<S, M, NV>(s, space, v, stride, count, m, d)
                    } else {
                        self.add_part::<S, M, 1>(s, space, v, stride, count, m, d)
                    }
                };
            }
        }
    }

    #[inline(always)]
    unsafe fn add_part<S: Simd, const M: usize, const NV: usize>(
        &self,
        s: S,
        space: Space,
        v: *const E,
        stride: usize,
        count: usize,
        m: usize,
        d: usize,
    ) -> usize {
        let mut sums = [[s.splat(0.0); NV]; M];
        let at = |i: usize, n: usize| (m + i) * self.wide + d + n * S::LANES;
        // SAFETY: sums are padded as queries are.
        unsafe {
            for (i, sums) in sums.iter_mut().enumerate() {
                for (n, sum) in sums.iter_mut().enumerate() {
                    *sum = s.load(space.sums.add(at(i, n)));
                }
            }
        }
        for key in 0..count {
            // SAFETY: the tile's values have as many numbers left as are read; scores are padded as queries are.
            unsafe {
                let from = v.add(key * stride + d);
                let v: [S::F; NV] = std::array::from_fn(|n| {
                    let n = n * S::LANES;
                    s.read(from.add(n), self.size - d - n)
                });
                for (i, sums) in sums.iter_mut().enumerate() {
                    let weight = s.splat(*space.scores.add((m + i) * KEYS + key));
                    for (sum, &v) in sums.iter_mut().zip(&v) {
                        *sum = s.mul_add(weight, v, *sum);
                    }
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            for (n, &sum) in sums.iter().enumerate() {
                // SAFETY: as above.
                unsafe { s.store(space.sums.add(at(i, n)), sum) };
            }
        }
        NV * S::LANES
    }

    /// Results, or partial ones.
    #[inline(always)]
    unsafe fn end<S: Simd>(&self, s: S, space: Space) {
        for m in 0..self.queries {
            // SAFETY: the query's sums, and as much room for them.
            unsafe {
                let sums = space.sums.add(m * self.wide);
                let total = *space.totals.add(m);
                if self.partial.is_null() {
                    let to = self
                        .out
                        .add(m / self.group * self.row + m % self.group * self.size);
                    let by = s.splat(shares(total));
                    for d in (0..self.size).step_by(S::LANES) {
                        let x = s.mul(s.load(sums.add(d)), by);
                        s.write(to.add(d), x, self.size - d);
                    }
                } else {
                    let to = self.partial.add(m * (self.wide + 2));
                    std::ptr::copy_nonoverlapping(sums, to, self.wide);
                    *to.add(self.wide) = *space.maxima.add(m);
                    *to.add(self.wide + 1) = total;
                }
            }
        }
    }
}

/// What sums are divided by, as a factor: those of a query that sees nothing are zeros, and stay so.
#[inline(always)]
pub(super) fn shares(total: f32) -> f32 {
    if total == 0.0 { 0.0 } else { 1.0 / total }
}

/// `e^x` of one number up to 0, as vectors have it.
#[inline(always)]
fn exp_one<S: Simd>(s: S, x: f32) -> f32 {
    s.max_lane(math::exp_below_zero(s, s.splat(x)))
}

/// Partial results of a unit's ranges, which become its results.
pub(super) struct Merge {
    pub(super) queries: usize,
    /// Queries of a row.
    pub(super) group: usize,
    pub(super) size: usize,
    pub(super) wide: usize,
    /// Those of the first range, and floats from a range's to the next one's; what is written here is of no use afterwards.
    pub(super) partials: *mut f32,
    pub(super) stride: usize,
    pub(super) count: usize,
    /// Where the first query's result goes, and floats from a row to the next.
    pub(super) row: usize,
    pub(super) out: *mut f32,
}

impl Kernel for Merge {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for m in 0..self.queries {
            let first = self.partials.wrapping_add(m * (self.wide + 2));
            let to = self
                .out
                .wrapping_add(m / self.group * self.row + m % self.group * self.size);
            // SAFETY: the creator promises partial results of all ranges and queries, each `wide` sums, a maximum and
            // a sum, and room for the results.
            unsafe {
                let mut max = f32::NEG_INFINITY;
                for index in 0..self.count {
                    max = max.max(*first.add(index * self.stride + self.wide));
                }
                let mut total = 0.0;
                for index in 0..self.count {
                    let of_range = first.add(index * self.stride + self.wide);
                    // a range of which the query sees nothing counts nothing
                    let by = if *of_range == max {
                        1.0
                    } else {
                        exp_one(s, *of_range - max)
                    };
                    total += by * *of_range.add(1);
                    *of_range = by;
                }
                let one = s.splat(shares(total));
                for d in (0..self.size).step_by(S::LANES) {
                    let mut sum = s.splat(0.0);
                    for index in 0..self.count {
                        let of_range = first.add(index * self.stride);
                        let by = s.splat(*of_range.add(self.wide));
                        sum = s.mul_add(s.load(of_range.add(d)), by, sum);
                    }
                    s.write(to.add(d), s.mul(sum, one), self.size - d);
                }
            }
        }
    }
}
