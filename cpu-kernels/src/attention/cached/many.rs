//! A unit of many queries, one per lane: all of them use the same key at once, read in place, and
//! maxima, sums and masking need no operation across a vector.

use super::tile::{self, Unit, shares};
use crate::isa::{Load, MOST_LANES, Simd};
use crate::math;

/// Positions of a tile.
const KEYS: usize = 32;

/// The most keys, or numbers of a value, that are computed side by side.
const SIDE: usize = 8;

/// Floats of a thread's scratch for many queries.
fn scratch(queries: usize, wide: usize) -> usize {
    let padded = queries.next_multiple_of(MOST_LANES);
    padded * (2 * wide + KEYS + 4) + 2 * KEYS * wide
}

/// Floats of a thread's scratch for a unit.
pub(in super::super) fn unit_scratch(queries: usize, wide: usize) -> usize {
    tile::scratch(queries, wide).max(scratch(queries, wide))
}

/// A thread's scratch, in its parts.
#[derive(Clone, Copy)]
struct Space {
    /// Queries, padded.
    padded: usize,
    /// `[size, padded]`.
    queries: *mut f32,
    /// `[wide, padded]`.
    sums: *mut f32,
    /// `[KEYS, padded]`.
    scores: *mut f32,
    /// `[KEYS, wide]` both.
    keys: *mut f32,
    values: *mut f32,
    /// `[padded]` each: the last position that a query sees, its maximum, its sum, what its sums shrink by.
    last: *mut f32,
    maxima: *mut f32,
    totals: *mut f32,
    factors: *mut f32,
}

/// Calls `$call` with `$n` vectors of queries at a time and `$side` keys or numbers: as many sums as registers hold, and never
/// so few that each waits for the one before it.
macro_rules! by_vectors {
    ($s:ty, $padded:expr, $m:ident, $n:ident, $side:ident => $call:expr) => {{
        let mut $m = 0;
        while $m < $padded {
            // sixteen registers hold half as many sums; queries are padded to two vectors of eight lanes, or four of fewer
            let left = if <$s>::LANES < MOST_LANES { 0 } else { ($padded - $m) / <$s>::LANES };
            $m += <$s>::LANES * match left {
                0 if <$s>::LANES == 8 => by_vectors!(@ 2, 4, $n, $side => $call),
                0 => by_vectors!(@ 4, 4, $n, $side => $call),
                1 => by_vectors!(@ 1, 8, $n, $side => $call),
                2 => by_vectors!(@ 2, 8, $n, $side => $call),
                3 => by_vectors!(@ 3, 4, $n, $side => $call),
                _ => by_vectors!(@ 4, 4, $n, $side => $call),
            };
        }
    }};
    (@ $vectors:literal, $keys:literal, $n:ident, $side:ident => $call:expr) => {{
        const $n: usize = $vectors;
        const $side: usize = $keys;
        $call;
        $n
    }};
}

impl<E: Load> Unit<E> {
    /// Computes the unit.
    ///
    /// # Safety
    /// Operands of the unit's sizes, and [`scratch`] floats.
    #[inline(always)]
    pub(super) unsafe fn many<S: Simd>(&self, s: S) {
        let padded = self.queries.next_multiple_of(MOST_LANES);
        let after = |p: *mut f32, n: usize| p.wrapping_add(n);
        let queries = self.scratch;
        let sums = after(queries, padded * self.wide);
        let scores = after(sums, padded * self.wide);
        let keys = after(scores, padded * KEYS);
        let values = after(keys, KEYS * self.wide);
        let last = after(values, KEYS * self.wide);
        let maxima = after(last, padded);
        let totals = after(maxima, padded);
        let space = Space {
            padded,
            queries,
            sums,
            scores,
            keys,
            values,
            last,
            maxima,
            totals,
            factors: after(totals, padded),
        };
        // SAFETY: the caller promises operands and scratch.
        unsafe {
            self.transpose_queries(s, space);
            let mut at = self.range.start;
            while at < self.range.end {
                let ([k, v], stride, count) = self.rows_at(at, KEYS);
                self.widen(s, space.keys, k, stride, count);
                self.widen(s, space.values, v, stride, count);
                by_vectors!(S, padded, m, N, K => for key in (0..count).step_by(K) {
                    self.score::<S, N, K>(s, space, key, m);
                });
                for m in (0..padded).step_by(S::LANES) {
                    self.weigh_lanes(s, space, at, count, m);
                }
                by_vectors!(S, padded, m, N, K => for d in (0..self.wide).step_by(K) {
                    self.add_lanes::<S, N, K>(s, space, d, count, m);
                });
                at += count;
            }
            self.write_back(space);
        }
    }

    /// Scaled queries in lanes; no sums yet.
    #[inline(always)]
    unsafe fn transpose_queries<S: Simd>(&self, s: S, space: Space) {
        // SAFETY: scratch holds all queries, their sums and what is kept of each.
        unsafe {
            for m in 0..self.queries {
                let from = self
                    .q
                    .wrapping_add(m / self.group * self.row + m % self.group * self.size);
                for d in 0..self.size {
                    *space.queries.add(d * space.padded + m) = *from.add(d) * self.scale;
                }
                *space.last.add(m) = (self.first + m / self.group) as f32;
            }
            // queries that fill the last vector up see what the last one sees, and are zeros
            for m in self.queries..space.padded {
                for d in 0..self.size {
                    *space.queries.add(d * space.padded + m) = 0.0;
                }
                *space.last.add(m) = *space.last.add(self.queries - 1);
            }
            for at in (0..self.wide * space.padded).step_by(S::LANES) {
                s.store(space.sums.add(at), s.splat(0.0));
            }
            for m in (0..space.padded).step_by(S::LANES) {
                s.store(space.maxima.add(m), s.splat(f32::NEG_INFINITY));
                s.store(space.totals.add(m), s.splat(0.0));
            }
        }
    }

    /// Rows of a tile as floats, `[KEYS, wide]`, and zeros up to whole sides.
    #[inline(always)]
    unsafe fn widen<S: Simd>(&self, s: S, to: *mut f32, from: *const E, stride: usize, count: usize) {
        for row in 0..count.next_multiple_of(SIDE) {
            for d in (0..self.wide).step_by(S::LANES) {
                // SAFETY: a row has as many numbers left; the tile has room for `KEYS` of them.
                unsafe {
                    let x = if row < count {
                        s.read(from.add(row * stride + d), self.size - d)
                    } else {
                        s.splat(0.0)
                    };
                    s.store(to.add(row * self.wide + d), x);
                }
            }
        }
    }

    /// Scores of `K` keys and `N` vectors of queries.
    #[inline(always)]
    unsafe fn score<S: Simd, const N: usize, const K: usize>(
        &self,
        s: S,
        space: Space,
        key: usize,
        m: usize,
    ) {
        let mut sums = [[s.splat(0.0); N]; K];
        for d in 0..self.size {
            let q = space.queries.wrapping_add(d * space.padded + m);
            let mut queries = [s.splat(0.0); N];
            for (n, query) in queries.iter_mut().enumerate() {
                // SAFETY: queries are padded to whole vectors.
                *query = unsafe { s.load(q.add(n * S::LANES)) };
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                // SAFETY: keys are padded to whole sides.
                let k = s.splat(unsafe { *space.keys.add((key + i) * self.wide + d) });
                for (sum, query) in sums.iter_mut().zip(queries) {
                    *sum = s.mul_add(k, query, *sum);
                }
            }
        }
        for (i, sums) in sums.into_iter().enumerate() {
            for (n, sum) in sums.into_iter().enumerate() {
                let to = space
                    .scores
                    .wrapping_add((key + i) * space.padded + m + n * S::LANES);
                // SAFETY: there are scores of whole sides and vectors.
                unsafe { s.store(to, sum) };
            }
        }
    }

    /// Scores of a tile that starts at position `at` as exponentials, below the running maximum, which is raised; what a query
    /// does not see becomes zero. For one vector of queries.
    #[inline(always)]
    unsafe fn weigh_lanes<S: Simd>(&self, s: S, space: Space, at: usize, count: usize, m: usize) {
        let least = s.splat(f32::NEG_INFINITY);
        let score = |key: usize| space.scores.wrapping_add(key * space.padded + m);
        // SAFETY: scratch holds scores of whole vectors, and what is kept of each query.
        unsafe {
            let old = s.load(space.maxima.add(m));
            let mut new = old;
            if at + count > self.first + 1 {
                // some query does not see some position
                let last = s.load(space.last.add(m));
                for key in 0..count {
                    let seen = s.le(s.splat((at + key) as f32), last);
                    let x = s.select(seen, s.load(score(key)), least);
                    s.store(score(key), x);
                    new = s.max(x, new);
                }
            } else {
                for key in 0..count {
                    // operand order: NaN is passed over, and met below
                    new = s.max(s.load(score(key)), new);
                }
            }
            // without a score above it, the shift may be any number
            let shift = s.select(s.eq(new, least), s.splat(0.0), new);
            let mut sums = [s.splat(0.0); 2];
            for key in 0..count {
                let e = math::exp_below_zero(s, s.sub(s.load(score(key)), shift));
                sums[key % 2] = s.add(sums[key % 2], e);
                s.store(score(key), e);
            }
            let factor = math::exp_below_zero(s, s.sub(old, shift));
            s.store(space.factors.add(m), factor);
            let total = space.totals.add(m);
            let sum = s.add(sums[0], sums[1]);
            s.store(total, s.mul_add(s.load(total), factor, sum));
            s.store(space.maxima.add(m), new);
        }
    }

    /// Adds a tile of weighed values: `K` of their numbers, for `N` vectors of queries.
    #[inline(always)]
    unsafe fn add_lanes<S: Simd, const N: usize, const K: usize>(
        &self,
        s: S,
        space: Space,
        d: usize,
        count: usize,
        m: usize,
    ) {
        let mut sums = [[s.splat(0.0); N]; K];
        let at = |i: usize, n: usize| space.sums.wrapping_add((d + i) * space.padded + m + n * S::LANES);
        // SAFETY: sums are padded to whole vectors of queries and of a value's numbers; so are tiles of values and scores.
        unsafe {
            for n in 0..N {
                let factor = s.load(space.factors.add(m + n * S::LANES));
                for (i, sums) in sums.iter_mut().enumerate() {
                    sums[n] = s.mul(s.load(at(i, n)), factor);
                }
            }
            for key in 0..count {
                let from = space.scores.wrapping_add(key * space.padded + m);
                let mut weights = [s.splat(0.0); N];
                for (n, weight) in weights.iter_mut().enumerate() {
                    *weight = s.load(from.add(n * S::LANES));
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let v = s.splat(*space.values.add(key * self.wide + d + i));
                    for (sum, weight) in sums.iter_mut().zip(weights) {
                        *sum = s.mul_add(v, weight, *sum);
                    }
                }
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (n, sum) in sums.into_iter().enumerate() {
                    s.store(at(i, n), sum);
                }
            }
        }
    }

    /// Results, or partial ones.
    #[inline(always)]
    unsafe fn write_back(&self, space: Space) {
        // SAFETY: the queries' sums, and as much room for them.
        unsafe {
            if self.partial.is_null() {
                for m in 0..self.queries {
                    let total = space.totals.add(m);
                    *total = shares(*total);
                }
            }
            for m in 0..self.queries {
                let total = *space.totals.add(m);
                let sum = |d: usize| *space.sums.add(d * space.padded + m);
                if self.partial.is_null() {
                    let to = self
                        .out
                        .add(m / self.group * self.row + m % self.group * self.size);
                    for d in 0..self.size {
                        *to.add(d) = sum(d) * total;
                    }
                } else {
                    let to = self.partial.add(m * (self.wide + 2));
                    for d in 0..self.wide {
                        *to.add(d) = sum(d);
                    }
                    *to.add(self.wide) = *space.maxima.add(m);
                    *to.add(self.wide + 1) = total;
                }
            }
        }
    }
}
