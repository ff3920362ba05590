//! Attention: `softmax(scale · Q Kᵀ + mask) V`, per head and block of queries, so that scores stay in the caches.
//!
//! 1. Operands are read and written through strides: no head is ever copied or transposed in memory, except for
//!    packing its keys and its values into panels, once per head and chunk; a few queries need no packing.
//! 2. The result of a query that sees no key is zeros; a NaN among its scores gives NaN.
//! 3. Scores, mask, maximum, exponentials and their sum are `f32` whatever the operands are;
//!    weights are divided by their sum and then rounded to the operands' element type.
//!
//! Attention over a KV cache and new positions has a plan of its own, [`CachedAttentionPlan`].
//!
//! Not here: writing to caches, which callers do.
#![allow(unsafe_code)]

mod cached;
mod few;
mod rotary;

pub use cached::{Cache, CachedAttentionPlan};
pub use rotary::{Rotary, rotary};

use crate::gemm::{Elements, Panel, row_pointers};
use crate::isa::{Kernel, Load, Simd};
use crate::math;
use crate::schedule::Scratch;
use crate::threads::{Address, Parts, share};
use crate::tile::{self, Block, Panels, Right, multiply};
use crate::{Epilogue, Error, Isa, Slice, SliceMut, ThreadPool};

const NAME: &str = "attention";

/// Floats of scores that a block of queries may have: half of the smallest L1 data cache of today's CPUs.
const BLOCK: usize = 4096;

/// Multiplications below which a step is left to one thread (about 5 µs).
const ONE_THREAD: usize = 250_000;

/// The strides of an operand's heads, in elements; the values of a row are contiguous. A stride of
/// 0 repeats the operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeadStrides {
    /// Between batch entries.
    pub batch: usize,
    /// Between heads.
    pub head: usize,
    /// Between rows.
    pub row: usize,
}

impl HeadStrides {
    /// `[batch, heads, rows, size]` without gaps.
    #[must_use]
    pub const fn heads_outside(heads: usize, rows: usize, size: usize) -> Self {
        Self {
            batch: heads * rows * size,
            head: rows * size,
            row: size,
        }
    }

    /// `[batch, rows, heads, size]` without gaps.
    #[must_use]
    pub const fn heads_inside(heads: usize, rows: usize, size: usize) -> Self {
        Self {
            batch: heads * rows * size,
            head: size,
            row: heads * size,
        }
    }

    /// Elements up to the last of `[batch, heads, rows, size]`, and whether no two of them are the same.
    fn reach(&self, [batch, heads, rows, size]: [usize; 4]) -> Option<(usize, bool)> {
        if [batch, heads, rows, size].contains(&0) {
            return Some((0, true));
        }
        let mut dims = [
            (1, size),
            (self.row, rows),
            (self.head, heads),
            (self.batch, batch),
        ];
        dims.sort_unstable();
        let (mut last, mut apart) = (0usize, true);
        for (stride, size) in dims.into_iter().filter(|dim| dim.1 > 1) {
            apart &= stride > last;
            last = last.checked_add(stride.checked_mul(size - 1)?)?;
        }
        let len = last
            .checked_add(1)
            .filter(|&len| len <= isize::MAX as usize / 8)?;
        Some((len, apart))
    }

    /// The index of the first element of a head.
    #[must_use]
    pub fn at(&self, batch: usize, head: usize) -> usize {
        batch * self.batch + head * self.head
    }
}

/// Shape of an attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionParams {
    /// Batch entries.
    pub batch: usize,
    /// Heads of the queries.
    pub heads: usize,
    /// KV heads; `heads` is a multiple of this number. Neighbouring query heads share a KV head.
    pub kv_heads: usize,
    /// Queries of each head.
    pub queries: usize,
    /// Keys of each head.
    pub keys: usize,
    /// Elements of a query and of a key.
    pub size: usize,
    /// Elements of a value and of a result.
    pub value_size: usize,
    /// Strides of the queries.
    pub q: HeadStrides,
    /// Strides of the keys.
    pub k: HeadStrides,
    /// Strides of the values.
    pub v: HeadStrides,
    /// Strides of the mask `[batch, heads, queries, keys]`, which is added to the scaled and capped product.
    pub mask: Option<HeadStrides>,
    /// Strides of the result.
    pub out: HeadStrides,
    /// Factor of the product.
    pub scale: f32,
    /// Limit `c` of the scores, `c · tanh(score / c)`; 0 for none.
    pub softcap: f32,
    /// Number of keys before the first query's own key.
    pub past: usize,
    /// Number of keys before its own that a query sees, if limited.
    pub left: Option<usize>,
    /// Number of keys after its own that a query sees, if limited; 0 for causal attention.
    pub right: Option<usize>,
}

impl AttentionParams {
    /// Attention without a mask over dense operands, with heads outside the rows
    /// ([`HeadStrides::heads_outside`]).
    #[must_use]
    pub const fn dense(batch: usize, heads: usize, queries: usize, keys: usize, size: usize) -> Self {
        let strides = HeadStrides::heads_outside(heads, keys, size);
        Self {
            batch,
            heads,
            kv_heads: heads,
            queries,
            keys,
            size,
            value_size: size,
            q: HeadStrides::heads_outside(heads, queries, size),
            k: strides,
            v: strides,
            mask: None,
            out: HeadStrides::heads_outside(heads, queries, size),
            scale: 1.0,
            softcap: 0.0,
            past: 0,
            left: None,
            right: None,
        }
    }

    /// The keys that query `query` may see, as far as past, left and right say.
    fn seen(&self, query: usize) -> (usize, usize) {
        let own = self.past.saturating_add(query);
        let first = self.left.map_or(0, |left| own.saturating_sub(left));
        let end = self
            .right
            .map_or(self.keys, |right| own.saturating_add(right).saturating_add(1));
        let end = end.min(self.keys);
        (first.min(end), end)
    }
}

/// An attention, planned for its shape.
///
/// ```
/// use polychip_cpu_kernels::attention::{AttentionParams, AttentionPlan};
/// use polychip_cpu_kernels::{Isa, ThreadPool, gemm::Elements};
///
/// // one query that is equally far from two keys
/// let plan = AttentionPlan::of(Elements::F32, Isa::detect(), AttentionParams::dense(1, 1, 1, 2, 1))?;
/// let pool = ThreadPool::new(1);
/// let (mut y, mut scratch) = ([0.0f32], vec![0.0; plan.scratch_len(&pool)]);
/// plan.run(&pool, &[1.0f32], &[1.0f32, 1.0], &[2.0f32, 4.0], None, &mut y, &mut scratch);
/// assert_eq!(y, [3.0]);
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct AttentionPlan {
    isa: Isa,
    elements: Elements,
    params: AttentionParams,
    /// Panels of the keys, a column each, and of the values, a row each.
    keys: Panels,
    values: Panels,
    /// Queries of a block.
    block: usize,
    /// Floats between rows of scores.
    stride: usize,
    /// Elements that q, k, v, the mask and the result must have.
    needed: [usize; 5],
    /// Floats of a thread's scratch, where nothing is packed.
    few: Option<usize>,
}

impl AttentionPlan {
    /// Elements of the queries, the keys, the values, the mask and the result.
    #[must_use]
    pub fn lengths(&self) -> [usize; 5] {
        self.needed
    }

    /// Whether the operands are read in place, without packing, because there are few queries.
    #[must_use]
    pub fn is_for_few_queries(&self) -> bool {
        self.few.is_some()
    }

    /// Plans an attention whose operands have this element type; the result has the same type or
    /// `f32`.
    ///
    /// # Errors
    /// If `heads` is no multiple of `kv_heads`, two results share an element, or a size does not fit the address
    /// space.
    pub fn of(elements: Elements, isa: Isa, params: AttentionParams) -> Result<Self, Error> {
        let (p, isa) = (&params, elements.isa(isa));
        if p.kv_heads == 0 && p.heads > 0 || p.kv_heads > 0 && !p.heads.is_multiple_of(p.kv_heads) {
            let rule = "they must be shared by as many heads of queries each";
            return Err(Error::parameter(NAME, "heads of the keys", p.kv_heads, rule));
        }
        let too_large = || Error::too_large(NAME, "an operand");
        let keys_of = |size: usize| [p.batch, p.kv_heads, p.keys, size];
        let queries_of = |size: usize| [p.batch, p.heads, p.queries, size];
        let reach = |strides: HeadStrides, dims| strides.reach(dims).ok_or_else(too_large);
        let (out, apart) = reach(p.out, queries_of(p.value_size))?;
        if !apart {
            let rule = "no two results may share an element";
            return Err(Error::parameter(NAME, "stride of the result", p.out.row, rule));
        }
        let needed = [
            reach(p.q, queries_of(p.size))?.0,
            reach(p.k, keys_of(p.size))?.0,
            reach(p.v, keys_of(p.value_size))?.0,
            match p.mask {
                Some(strides) => reach(strides, queries_of(p.keys))?.0,
                None => 0,
            },
            out,
        ];
        let stride = p.keys.checked_add(64).ok_or_else(too_large)? / 16 * 16;
        for rows in [
            p.queries,
            p.size.saturating_add(1),
            p.value_size.saturating_add(64),
        ] {
            crate::error::product(NAME, "the scores", &[rows, stride])?;
        }
        crate::error::product(NAME, "the heads", &[p.batch, p.heads, p.queries])?;
        let tile_rows = tile::tile_rows(isa);
        let block = (BLOCK / stride / tile_rows).clamp(1, 8) * tile_rows;
        Ok(Self {
            isa,
            elements,
            params,
            keys: elements.panels(isa, p.size, p.keys),
            values: elements.panels(isa, p.keys, p.value_size),
            block: block.min(p.queries.max(1)),
            stride,
            needed,
            few: few::scratch(elements, isa, &params),
        })
    }

    /// Floats of one thread's scratch: row pointers, packed keys, packed values, scores.
    fn own(&self) -> [usize; 4] {
        [
            (2 * self.block).next_multiple_of(16),
            self.keys.len(),
            self.values.len(),
            self.block * self.stride,
        ]
    }

    /// Floats of scratch that a run needs.
    #[must_use]
    pub fn scratch_len(&self, pool: &ThreadPool) -> usize {
        let own = self.few.unwrap_or_else(|| self.own().iter().sum());
        Scratch::len(0, own, pool.threads())
    }

    /// Runs the attention. `mask` must be given if the parameters have strides for it.
    ///
    /// # Panics
    /// If an operand is missing, too short for its shape and strides or of another element type, or scratch is too
    /// short.
    pub fn run<'a>(
        &self,
        pool: &ThreadPool,
        q: impl Into<Slice<'a>>,
        k: impl Into<Slice<'a>>,
        v: impl Into<Slice<'a>>,
        mask: Option<&[f32]>,
        out: impl Into<SliceMut<'a>>,
        scratch: &mut [f32],
    ) {
        self.slices(pool, [q.into(), k.into(), v.into()], mask, out.into(), scratch);
    }

    fn slices(
        &self,
        pool: &ThreadPool,
        operands: [Slice<'_>; 3],
        mask: Option<&[f32]>,
        out: SliceMut<'_>,
        scratch: &mut [f32],
    ) {
        match (self.elements, operands, out) {
            (Elements::F32, [Slice::F32(q), Slice::F32(k), Slice::F32(v)], SliceMut::F32(out)) => {
                if let Some(own) = self.few {
                    self.check([q, k, v], mask, out);
                    if self.needed[4] > 0 {
                        self.few([q, k, v], mask, out, pool, (scratch, own));
                    }
                } else {
                    self.typed([q, k, v], mask, out, pool, scratch);
                }
            }
            (Elements::Bf16, [Slice::Bf16(q), Slice::Bf16(k), Slice::Bf16(v)], SliceMut::F32(out)) => {
                self.typed([q, k, v], mask, out, pool, scratch);
            }
            (Elements::Bf16, [Slice::Bf16(q), Slice::Bf16(k), Slice::Bf16(v)], SliceMut::Bf16(out)) => {
                self.typed([q, k, v], mask, out, pool, scratch);
            }
            _ => panic!("{NAME}: element types differ"),
        }
    }

    /// Panics where an operand is too short for its shape and strides.
    fn check<A, E>(&self, [q, k, v]: [&[A]; 3], mask: Option<&[f32]>, out: &[E]) {
        let lengths = [q.len(), k.len(), v.len(), mask.map_or(0, <[f32]>::len), out.len()];
        let names = ["q", "k", "v", "the mask", "the result"];
        for ((len, needed), name) in lengths.iter().zip(&self.needed).zip(names) {
            assert!(len >= needed, "{NAME}: {name} is shorter than its shape");
        }
    }

    fn typed<A: Panel, E: Load>(
        &self,
        [q, k, v]: [&[A]; 3],
        mask: Option<&[f32]>,
        out: &mut [E],
        pool: &ThreadPool,
        scratch: &mut [f32],
    ) {
        let p = &self.params;
        self.check([q, k, v], mask, out);
        if self.needed[4] == 0 {
            return;
        }
        let own = self.own();
        let scratch = Scratch::new(scratch, 0, own.iter().sum(), pool.threads());
        let (q, k, v) = (Address(q.as_ptr()), Address(k.as_ptr()), Address(v.as_ptr()));
        let mask = Address(mask.map_or(std::ptr::null(), <[f32]>::as_ptr));
        let out = Parts::new(out);
        let blocks = p.queries.div_ceil(self.block);
        // the blocks of all heads that share keys are neighbours
        let per_pack = p.heads / p.kv_heads * blocks;
        let units = p.batch * p.kv_heads * per_pack;
        let work = (p.queries * p.keys * (p.size + p.value_size)).saturating_mul(p.batch * p.heads);
        let chunks = match work {
            0..ONE_THREAD => 1,
            _ => units.min(pool.threads() * 4),
        };
        let align = if p.batch * p.kv_heads >= chunks {
            per_pack
        } else {
            1
        };
        pool.run_indexed(chunks, &|thread, chunk| {
            // SAFETY: this thread's own part, asked for once.
            let (pointers, rest) = unsafe { scratch.own(thread) }.split_at_mut(own[0]);
            let (keys, rest) = rest.split_at_mut(own[1]);
            let (values, scores) = rest.split_at_mut(own[2]);
            let pointers = pointers.as_mut_ptr().cast::<*const A>();
            let mut packed = None;
            for unit in share(units, chunks, chunk, align) {
                let (pair, rest) = (unit / per_pack, unit % per_pack);
                let (batch, kv_head) = (pair / p.kv_heads, pair % p.kv_heads);
                let head = kv_head * (p.heads / p.kv_heads) + rest / blocks;
                let rows = share(p.queries, blocks, rest % blocks, 1);
                if packed != Some(pair) {
                    packed = Some(pair);
                    let k = k.at(p.k.at(batch, kv_head));
                    let v = v.at(p.v.at(batch, kv_head));
                    // SAFETY: the operands were checked against their strides.
                    unsafe {
                        pack(keys, self.keys, p.size, k, (1, p.k.row));
                        pack(values, self.values, p.keys, v, (p.v.row, 1));
                    }
                }
                // the block sees nothing from here on
                let end = p.seen(rows.end - 1).1;
                let first = q.at(p.q.at(batch, head) + rows.start * p.q.row);
                // SAFETY: the part holds as many pointers as a block has rows and starts on a cache line.
                unsafe { row_pointers(pointers, rows.len(), first, p.q.row) };
                let scored = Block {
                    rows: rows.len(),
                    pointers,
                    taps: 1,
                    k: p.size,
                    a_step: 1,
                    panels: self.keys,
                    range: 0..end.div_ceil(self.keys.width),
                    right: Right::Own(keys.as_ptr()),
                    out: scores.as_mut_ptr(),
                    out_stride: self.stride,
                    residual: std::ptr::null(),
                    residual_stride: 0,
                    scale: p.scale,
                    epilogue: Epilogue::NONE,
                };
                // SAFETY: queries and panels cover the shape, and scores are this thread's own.
                unsafe { multiply(self.isa, &scored) };
                let weights = Weights::<A> {
                    params: p,
                    rows: rows.clone(),
                    end,
                    scores: scores.as_mut_ptr(),
                    stride: self.stride,
                    mask: match p.mask {
                        Some(strides) => mask.at(strides.at(batch, head)),
                        None => std::ptr::null(),
                    },
                    element: std::marker::PhantomData,
                };
                A::enter(self.isa, &weights);
                let step = self.stride * size_of::<f32>() / size_of::<A>();
                // SAFETY: as for the queries; each row of scores begins with its weights.
                unsafe { row_pointers(pointers, rows.len(), scores.as_ptr().cast::<A>(), step) };
                let result = p.out.at(batch, head) + rows.start * p.out.row;
                let summed = Block {
                    rows: rows.len(),
                    pointers,
                    taps: 1,
                    k: end,
                    a_step: 1,
                    panels: self.values,
                    range: 0..self.values.count(),
                    right: Right::Own(values.as_ptr()),
                    out: out.as_ptr().wrapping_add(result),
                    out_stride: p.out.row,
                    residual: std::ptr::null(),
                    residual_stride: 0,
                    scale: 1.0,
                    epilogue: Epilogue::NONE,
                };
                // SAFETY: weights and panels cover the shape; `of` made sure that results do not overlap.
                unsafe { multiply(self.isa, &summed) };
            }
        });
    }
}

/// Packs all panels of an operand of `k` rows.
///
/// # Safety
/// `k` rows of `panels.n` columns at these strides are readable at `source`.
unsafe fn pack<A: Panel>(
    packed: &mut [f32],
    panels: Panels,
    k: usize,
    source: *const A,
    (row, column): (usize, usize),
) {
    for panel in 0..panels.count() {
        let one = panels.with_columns(panels.columns(panel));
        let from = source.wrapping_add(panel * panels.width * column);
        // SAFETY: the columns of the panel are among those that the caller promises.
        unsafe { A::pack_panel(&mut packed[panels.offset(panel)..], one, k, from, row, column) };
    }
}

/// Makes weights of a block of scores: capped, masked, their exponentials divided by the sum of these. A row of
/// weights starts where its row of scores did, in elements of the operands.
struct Weights<'a, A> {
    params: &'a AttentionParams,
    /// The block's queries.
    rows: std::ops::Range<usize>,
    /// Keys that have scores.
    end: usize,
    scores: *mut f32,
    stride: usize,
    /// Row 0 of the head's mask, or null.
    mask: *const f32,
    element: std::marker::PhantomData<A>,
}

impl<A: Load> Kernel for &Weights<'_, A> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let p = self.params;
        let end = self.end;
        let infinite = s.splat(f32::NEG_INFINITY);
        let (cap, per_cap) = (s.splat(p.softcap), s.splat(1.0 / p.softcap));
        let mask_row = p.mask.map_or(0, |strides| strides.row);
        for (index, query) in self.rows.clone().enumerate() {
            let row = self.scores.wrapping_add(index * self.stride);
            let to = row.cast::<A>();
            let (from, until) = p.seen(query);
            for hidden in (0..from).chain(until..end) {
                // SAFETY: `end` scores of the row exist.
                unsafe { *row.add(hidden) = f32::NEG_INFINITY };
            }
            let mask = self.mask.wrapping_add(query * mask_row);
            let changed = p.softcap != 0.0 || !self.mask.is_null();
            let mut largest = infinite;
            for c in (0..end).step_by(S::LANES) {
                let left = end - c;
                // SAFETY: `left` scores and values of the mask remain.
                unsafe {
                    let mut x = s.read(row.add(c), left);
                    if changed {
                        if p.softcap != 0.0 {
                            let capped = s.mul(cap, math::tanh(s, s.mul(x, per_cap)));
                            // what is hidden stays so
                            x = s.select(s.eq(x, infinite), x, capped);
                        }
                        if !self.mask.is_null() {
                            x = s.add(x, s.read(mask.add(c), left));
                        }
                        s.write(row.add(c), x, left);
                    }
                    if left < S::LANES {
                        // the lanes beyond are zeros, which are no scores
                        s.write(row.add(end), infinite, S::LANES - left);
                        x = s.read(row.add(c), S::LANES);
                    }
                    // operand order: a NaN is passed over here, and met again below
                    largest = s.max(x, largest);
                }
            }
            let max = s.max_lane(largest);
            if max == f32::NEG_INFINITY {
                // SAFETY: the row has `end` scores.
                let scores = unsafe { std::slice::from_raw_parts(row.cast_const(), end) };
                let fill = if scores.iter().any(|x| x.is_nan()) {
                    f32::NAN
                } else {
                    0.0
                };
                for c in 0..end {
                    // SAFETY: the row of weights has `end` elements.
                    unsafe { *to.add(c) = A::nearest(fill) };
                }
                continue;
            }
            let shift = s.splat(max);
            let mut sums = s.splat(0.0);
            for c in (0..end).step_by(S::LANES) {
                // SAFETY: the row has whole vectors of scores, of which those beyond `end` are minus infinity.
                unsafe {
                    let e = math::exp_below_zero(s, s.sub(s.load(row.add(c)), shift));
                    sums = s.add(sums, e);
                    s.store(row.add(c), e);
                }
            }
            let factor = s.splat(1.0 / s.sum(sums));
            for c in (0..end).step_by(S::LANES) {
                // SAFETY: as above; narrower weights are written behind the scores that are still to be read.
                unsafe {
                    let e = s.load(row.add(c));
                    s.write(to.add(c), s.mul(e, factor), S::LANES);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_of_nonpositive_values() {
        struct Exponentials<'a>(&'a mut [f32]);
        impl Kernel for Exponentials<'_> {
            type Output = ();
            #[inline(always)]
            fn run<S: Simd>(self, s: S) {
                for x in self.0.chunks_exact_mut(S::LANES) {
                    let at = x.as_mut_ptr();
                    // SAFETY: a chunk holds LANES values.
                    unsafe { s.store(at, math::exp_below_zero(s, s.load(at))) };
                }
            }
        }
        const COUNT: u16 = 25_600;
        let x: Vec<f32> = (0..COUNT)
            .map(|i| f32::from(i) * (-87.0 / f32::from(COUNT)))
            .collect();
        for isa in Isa::available() {
            let mut y = x.clone();
            isa.run(Exponentials(&mut y));
            let mut worst = 0f64;
            for (&x, &y) in x.iter().zip(&y) {
                let want = f64::from(x).exp();
                worst = worst.max((f64::from(y) - want).abs() / want);
            }
            assert!(worst < 1.5e-7, "{isa:?}: {worst:e}");
            let mut y = vec![f32::NEG_INFINITY; 64];
            y[1..4].copy_from_slice(&[-88.1, -1e30, f32::NAN]);
            isa.run(Exponentials(&mut y));
            assert_eq!(y[..3], [0.0; 3], "{isa:?}");
            assert!(y[3].is_nan(), "{isa:?}");
        }
    }
}
