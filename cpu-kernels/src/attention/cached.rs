//! Attention of new queries over a KV cache and over the new positions themselves, as in language model decoding.
//!
//! 1. The cache is read in place, each row once for all query heads that share it and for a block
//!    of queries; elements of 16 bits are widened in registers or tile by tile.
//! 2. New keys and new values are rounded to the cache's element first: apart from the rounding of
//!    sums, a result depends neither on how a prompt was cut into chunks nor on whether a position
//!    is new or past.
//! 3. Scores, exponentials and sums are `f32`. Positions are processed in tiles with a running
//!    maximum (Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018), so no
//!    row of scores is as long as the context. If there are too few heads to keep all threads busy,
//!    ranges of positions are summed separately (Dao et al., *Flash-Decoding*, 2023). The thread
//!    that ends the last range of a unit merges them, in the order of the ranges, so no single
//!    thread merges everything while others wait.
//! 4. A NaN among a query's scores gives NaN; if no score is above minus infinity, the result is
//!    zeros. Values must be finite: another value affects queries of its tile even if they do not
//!    see it.
//!
//! Not here: writing to the cache, masks, windows of positions ([`super::AttentionPlan`]).
#![allow(unsafe_code)]

mod many;
mod tile;

use super::NAME;
use crate::error::product;
use crate::isa::{Kernel, Load, Simd};
use crate::schedule::Scratch;
use crate::threads::{Address, Parts, share};
use crate::{Error, Isa, ThreadPool};
use half::f16;
pub(super) use many::unit_scratch;
use std::sync::atomic::{AtomicU32, Ordering::AcqRel};
use tile::Merge;
pub(super) use tile::{MANY, Unit};

/// Multiplications below which a run is left to one thread (some microseconds).
const ONE_THREAD: usize = 100_000;

/// Queries, of all heads that share keys, that a unit has at most, unless one row alone has more.
const QUERIES: usize = 64;

/// The fewest positions that are summed apart from others.
const RANGE: usize = 128;

/// Ranges begin at multiples of this: half of a tile, so that they can be nearly as long as each other.
const ALIGN: usize = 32;

/// Units that each thread has at least, where there are enough positions: what a slower thread leaves, others take.
const UNITS_EACH: usize = 4;

/// What a unit costs beside its positions, in positions: queries brought into lanes, a partial result written and merged.
const UNIT: usize = 24;

/// Keys or values of the positions before the new ones, `[kv_heads, capacity, size]`.
#[derive(Debug, Clone, Copy)]
pub enum Cache<'a> {
    /// Unrounded, as computed.
    F32(&'a [f32]),
    /// Rounded to 16-bit floats.
    F16(&'a [f16]),
}

impl<'a> From<&'a [f32]> for Cache<'a> {
    fn from(x: &'a [f32]) -> Self {
        Cache::F32(x)
    }
}

impl<'a> From<&'a [f16]> for Cache<'a> {
    fn from(x: &'a [f16]) -> Self {
        Cache::F16(x)
    }
}

/// Causal attention over a cache, planned for its shape.
///
/// ```
/// use half::f16;
/// use polychip_cpu_kernels::attention::CachedAttentionPlan;
/// use polychip_cpu_kernels::{Isa, ThreadPool};
///
/// // one head of one value; one position in the cache, and one new one that is as near to the query
/// let plan = CachedAttentionPlan::new(Isa::detect(), 1, 1, 1, 1, 8)?;
/// let pool = ThreadPool::new(1);
/// let (mut y, mut scratch) = ([0.0f32], vec![0.0; plan.scratch_len(&pool)]);
/// let (keys, values) = ([f16::ONE; 8], [f16::from_f32(2.0); 8]);
/// plan.run(&pool, &[1.0], &[1.0], &[4.0], &keys[..], &values[..], 1, &mut y, &mut scratch);
/// assert_eq!(y, [3.0]);
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct CachedAttentionPlan {
    isa: Isa,
    heads: usize,
    kv_heads: usize,
    size: usize,
    rows: usize,
    capacity: usize,
    scale: f32,
    /// Floats of a query in scratch: whole vectors.
    wide: usize,
    /// New rows of a unit.
    block: usize,
}

impl CachedAttentionPlan {
    /// Plans the attention of `rows` new rows of `heads` query heads and `kv_heads` KV heads of `size` values, over a
    /// cache of `capacity` positions. The scale is `1 / sqrt(size)`, unless [`with_scale`](Self::with_scale) sets
    /// another.
    ///
    /// # Errors
    /// If `heads` is no multiple of `kv_heads`, or a size does not fit the address space.
    pub fn new(
        isa: Isa,
        heads: usize,
        kv_heads: usize,
        size: usize,
        rows: usize,
        capacity: usize,
    ) -> Result<Self, Error> {
        if kv_heads == 0 && heads > 0 || kv_heads > 0 && !heads.is_multiple_of(kv_heads) {
            let rule = "they must be shared by as many heads of queries each";
            return Err(Error::parameter(NAME, "heads of the keys", kv_heads, rule));
        }
        let wide = size
            .checked_next_multiple_of(isa.lanes())
            .ok_or_else(|| Error::too_large(NAME, "a head"))?;
        product(NAME, "the cache", &[kv_heads, capacity, size])?;
        product(
            NAME,
            "the queries",
            &[
                heads,
                rows.saturating_add(QUERIES),
                wide.saturating_add(tile::KEYS),
            ],
        )?;
        let group = heads.checked_div(kv_heads).unwrap_or(0);
        Ok(Self {
            isa,
            heads,
            kv_heads,
            size,
            rows,
            capacity,
            scale: 1.0 / (size.max(1) as f32).sqrt(),
            wide,
            block: (QUERIES / group.max(1)).clamp(1, rows.max(1)),
        })
    }

    /// The same with another factor of the products of queries and keys.
    #[must_use]
    pub fn with_scale(self, scale: f32) -> Self {
        Self { scale, ..self }
    }

    /// Heads of the queries that share a head of the keys.
    fn group(&self) -> usize {
        self.heads.checked_div(self.kv_heads).unwrap_or(0)
    }

    /// Queries of a unit.
    fn queries(&self) -> usize {
        self.block * self.group()
    }

    fn blocks(&self) -> usize {
        self.rows.div_ceil(self.block)
    }

    /// Units of one range each.
    fn whole_units(&self) -> usize {
        self.kv_heads * self.blocks()
    }

    /// Ranges that give each thread [`UNITS_EACH`] units.
    fn wanted_ranges(&self, threads: usize) -> usize {
        if threads == 1 {
            1
        } else {
            (threads * UNITS_EACH).div_ceil(self.whole_units().max(1))
        }
    }

    /// The most ranges that any number of positions is cut into.
    fn most_ranges(&self, threads: usize) -> usize {
        match self.wanted_ranges(threads) {
            1 => 1,
            wanted => (2 * wanted).min((self.capacity + self.rows) / RANGE).max(1),
        }
    }

    /// Ranges that `positions` are cut into: of numbers around what is wanted the one with which all ends first, were all
    /// threads as fast as each other.
    fn ranges(&self, positions: usize, threads: usize) -> usize {
        let most = self.most_ranges(threads).min(positions / RANGE).max(1);
        let least = self.wanted_ranges(threads).min(most).div_ceil(2);
        let time = |&ranges: &usize| {
            let turns = (self.whole_units() * ranges).div_ceil(threads);
            turns * (longest(positions, ranges) + UNIT)
        };
        (least..=most).min_by_key(time).unwrap_or(1)
    }

    /// Floats of a query's partial result: its values, its maximum and its sum.
    fn partial(&self) -> usize {
        self.wide + 2
    }

    /// Floats of all partial results, and of how many of a unit's ranges have ended.
    fn partials(&self, threads: usize) -> usize {
        match self.most_ranges(threads) {
            1 => 0,
            ranges => self.whole_units() * (1 + ranges * self.queries() * self.partial()),
        }
    }

    /// Floats that all threads share: new keys, new values, then what [`partials`](Self::partials) counts.
    fn shared(&self, threads: usize) -> usize {
        2 * self.rows * self.kv_heads * self.size + self.partials(threads)
    }

    /// Floats of scratch that a run needs.
    #[must_use]
    pub fn scratch_len(&self, pool: &ThreadPool) -> usize {
        let threads = pool.threads();
        let own = unit_scratch(self.queries(), self.wide);
        Scratch::len(self.shared(threads), own, threads)
    }

    /// Runs the attention of `q` (`[rows, heads, size]`) over the first `past` positions of the cache and over `k` and `v`
    /// (`[rows, kv_heads, size]`), of which row `r` sees the new rows up to itself, into `out` (`[rows, heads, size]`).
    ///
    /// # Panics
    /// If a slice's length is not that of its shape, the key and value caches differ in element type, `past` is
    /// beyond the capacity, or scratch is too short.
    pub fn run<'a>(
        &self,
        pool: &ThreadPool,
        q: &[f32],
        k: &[f32],
        v: &[f32],
        past_k: impl Into<Cache<'a>>,
        past_v: impl Into<Cache<'a>>,
        past: usize,
        out: &mut [f32],
        scratch: &mut [f32],
    ) {
        match (past_k.into(), past_v.into()) {
            (Cache::F32(keys), Cache::F32(values)) => {
                self.typed(pool, [q, k, v], [keys, values], past, out, scratch);
            }
            (Cache::F16(keys), Cache::F16(values)) => {
                self.typed(pool, [q, k, v], [keys, values], past, out, scratch);
            }
            _ => panic!("{NAME}: the key and value caches differ in element type"),
        }
    }

    fn typed<E: Load>(
        &self,
        pool: &ThreadPool,
        [q, k, v]: [&[f32]; 3],
        cache: [&[E]; 2],
        past: usize,
        out: &mut [f32],
        scratch: &mut [f32],
    ) {
        let (rows, size, group) = (self.rows, self.size, self.group());
        let new = rows * self.kv_heads * size;
        assert_eq!(q.len(), rows * self.heads * size, "{NAME}: length of the queries");
        assert_eq!(out.len(), q.len(), "{NAME}: length of the result");
        for (name, new_rows, cached) in [("keys", k, cache[0]), ("values", v, cache[1])] {
            assert_eq!(new_rows.len(), new, "{NAME}: length of the new {name}");
            let cached_len = self.kv_heads * self.capacity * size;
            assert_eq!(cached.len(), cached_len, "{NAME}: length of the cached {name}");
        }
        assert!(
            past <= self.capacity,
            "{NAME}: {past} positions are more than the cache holds"
        );
        if out.is_empty() {
            return;
        }
        let (threads, wide) = (pool.threads(), self.wide);
        let positions = past + rows;
        let own = unit_scratch(self.queries(), wide);
        let scratch = Scratch::new(scratch, self.shared(threads), own, threads);
        // SAFETY: no chunk runs yet.
        let (rounded, partials) = unsafe { scratch.shared() }.split_at_mut(2 * new);
        let (new_keys, new_values) = rounded.split_at_mut(new);
        for (from, to) in [(k, &mut *new_keys), (v, &mut *new_values)] {
            let to = to.as_mut_ptr().cast::<E>();
            // an element takes no more than a float
            E::enter(self.isa, Round { from, to });
        }
        let new = [new_keys, new_values].map(|new| Address(new.as_ptr().cast::<E>()));
        let cache = cache.map(|cache| Address(cache.as_ptr()));
        let (q, out) = (Address(q.as_ptr()), Parts::new(out));
        let blocks = self.blocks();
        let work = (self.heads * rows).saturating_mul(positions * size);
        let ranges = if work < ONE_THREAD {
            1
        } else {
            self.ranges(positions, threads)
        };
        let whole_units = self.whole_units();
        let units = whole_units * ranges;
        let per_unit = self.queries() * self.partial();
        let ended = if ranges == 1 { 0 } else { whole_units };
        let (ended, partials) = partials.split_at_mut(ended);
        // zero of either type has the same bits
        ended.fill(0.0);
        let (ended, partials) = (Parts::new(ended), Parts::new(partials));
        let one = |thread: usize, unit: usize| {
            let (range, rest) = (unit % ranges, unit / ranges);
            let (block, head) = (rest % blocks, rest / blocks);
            let block = share(rows, blocks, block, 1);
            let queries = block.len() * group;
            let to = if ranges == 1 {
                std::ptr::null_mut()
            } else {
                // SAFETY: each unit has a part of its own.
                unsafe { partials.part(unit * per_unit, per_unit) }.as_mut_ptr()
            };
            // positions that the last of the block sees
            let seen = past + block.end;
            let first_query = (block.start * self.heads + head * group) * size;
            let unit = Unit {
                queries,
                group,
                size,
                wide,
                scale: self.scale,
                q: q.at(first_query),
                row: self.heads * size,
                cache: cache.map(|cache| cache.at(head * self.capacity * size)),
                new: new.map(|new| new.at(head * size)),
                new_row: self.kv_heads * size,
                past,
                first: past + block.start,
                mask: std::ptr::null(),
                mask_strides: [0; 2],
                range: share(seen, ranges, range, ALIGN),
                out: out.as_ptr().wrapping_add(first_query),
                partial: to,
                // SAFETY: this thread's own part, asked for once.
                scratch: unsafe { scratch.own(thread) }.as_mut_ptr(),
            };
            E::enter(self.isa, unit);
            if ranges == 1 {
                return;
            }
            // SAFETY: a word as large and as aligned as a float, which nothing else reaches while units run.
            let ended = unsafe { AtomicU32::from_ptr(ended.as_ptr().wrapping_add(rest).cast()) };
            // what others wrote before their additions is seen after the last one
            if ended.fetch_add(1, AcqRel) as usize + 1 == ranges {
                self.isa.run(Merge {
                    queries,
                    group,
                    size,
                    wide,
                    partials: partials.as_ptr().wrapping_add(rest * ranges * per_unit),
                    stride: per_unit,
                    count: ranges,
                    row: self.heads * size,
                    out: out.as_ptr().wrapping_add(first_query),
                });
            }
        };
        if work < ONE_THREAD {
            for unit in 0..units {
                one(0, unit);
            }
        } else {
            pool.run_indexed(units, &one);
        }
    }
}

/// Positions of the longest of so many ranges.
fn longest(positions: usize, ranges: usize) -> usize {
    positions.div_ceil(ALIGN).div_ceil(ranges) * ALIGN
}

/// Values as elements of the cache.
struct Round<'a, E> {
    from: &'a [f32],
    to: *mut E,
}

impl<E: Load> Kernel for Round<'_, E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for at in (0..self.from.len()).step_by(S::LANES) {
            let left = self.from.len() - at;
            // SAFETY: as many values are left on both sides.
            unsafe { s.write(self.to.add(at), s.read(self.from.as_ptr().add(at), left), left) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_shared_out_among_threads() {
        for (kv_heads, rows) in [(1, 1), (3, 1), (3, 8), (3, 32), (3, 128), (8, 1), (8, 100)] {
            let plan = CachedAttentionPlan::new(Isa::SCALAR, 3 * kv_heads, kv_heads, 64, rows, 8192).unwrap();
            for threads in 1..=32 {
                for positions in [1, 127, 128, 300, 1000, 3001, 8192 + rows] {
                    let ranges = plan.ranges(positions, threads);
                    let most = plan.most_ranges(threads);
                    assert!(
                        (1..=most).contains(&ranges),
                        "{ranges} ranges, and room for {most}"
                    );
                    assert!(ranges == 1 || positions / ranges >= RANGE);
                    // what the thread with the most units goes through, against a fair share of all
                    let turns = (plan.whole_units() * ranges).div_ceil(threads);
                    let busiest = turns * longest(positions, ranges);
                    let fair = (plan.whole_units() * positions).div_ceil(threads);
                    if positions >= 1000 && threads <= 4 {
                        assert!(
                            busiest * 3 <= fair * 4,
                            "{kv_heads} heads, {rows} rows, {positions} positions, {threads} threads: {ranges} ranges"
                        );
                    }
                }
            }
        }
    }
}
