//! Products with blocks of 4-bit weights: the weights stay in 4 bits and become floats in registers.
//!
//! 1. Columns go in panels of one vector. A panel is, per block along the depth, `[scale][zero]` and one word per
//!    eight values of each column, the first in the lowest bits.
//! 2. A block's sum is `scale * (Σ x * code - zero * Σ x)`, in `f32`.
//! 3. Codes are masked in place instead of being shifted down; scaled rows compensate for that,
//!    exactly except for values near the smallest normal number.
//!
//! Products of few rows are memory-bound; these weights take an eighth of the bytes of `f32`.
#![allow(unsafe_code)]

use crate::error::product;
use crate::isa::{Kernel, Simd};
use crate::schedule::Scratch;
use crate::threads::{Address, Parts, share};
use crate::{Error, Isa, ThreadPool};
use std::ops::Range;

/// Codes of a word.
const WORD: usize = 8;
/// The most rows of a tile.
const ROWS: usize = 8;
/// Products below which a run is left to one thread.
const ONE_THREAD: usize = 100_000;

/// 4-bit weights `[depth, columns]`.
#[derive(Debug, Clone, Copy)]
pub struct Int4Weights<'a> {
    /// Codes in `0..=15`, `[depth, columns]`.
    pub codes: &'a [u8],
    /// Scales, `[blocks, columns]`.
    pub scales: &'a [f32],
    /// The zero point of each block and column, `[blocks, columns]`.
    pub zeros: &'a [u8],
}

/// A product of `f32` rows with 4-bit weights, planned once.
///
/// ```
/// use polychip_cpu_kernels::quantised::{Int4Plan, Int4Weights};
/// use polychip_cpu_kernels::{Isa, ThreadPool};
///
/// // two values deep, one column, one block
/// let plan = Int4Plan::new(Isa::detect(), 2, 1, 8)?;
/// let mut packed = vec![0.0; plan.packed_len()];
/// plan.pack(Int4Weights { codes: &[9, 3], scales: &[0.5], zeros: &[8] }, &mut packed);
/// let pool = ThreadPool::new(1);
/// let (mut y, mut scratch) = ([0.0], vec![0.0; plan.scratch_len(1, &pool)]);
/// plan.run(&pool, 1, &[4.0, 1.0], &packed, &mut y, &mut scratch);
/// assert_eq!(y, [-0.5]); // (4 * (9 - 8) + 1 * (3 - 8)) / 2
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Int4Plan {
    isa: Isa,
    depth: usize,
    columns: usize,
    block: usize,
    lanes: usize,
}

impl Int4Plan {
    /// Plans a product of rows of `depth` values with `columns` columns, whose scales hold for `block` values each.
    ///
    /// # Errors
    /// If there are several blocks that do not fill whole words, or a size does not fit the address
    /// space.
    pub fn new(isa: Isa, depth: usize, columns: usize, block: usize) -> Result<Self, Error> {
        const NAME: &str = "product with 4-bit weights";
        if block == 0 || (block < depth && !block.is_multiple_of(WORD)) {
            let rule = "it must be a multiple of 8, unless there is but one block";
            return Err(Error::parameter(NAME, "the block", block, rule));
        }
        let lanes = isa.lanes();
        // scales and zeros are at most two words per word of codes
        product(
            NAME,
            "the weights",
            &[depth.saturating_add(WORD), columns.saturating_add(lanes)],
        )?;
        Ok(Self {
            isa,
            depth,
            columns,
            block: block.min(depth.max(1)).next_multiple_of(WORD),
            lanes,
        })
    }

    fn blocks(&self) -> usize {
        self.depth.div_ceil(self.block)
    }

    fn words(&self) -> usize {
        self.depth.div_ceil(WORD)
    }

    fn panels(&self) -> usize {
        self.columns.div_ceil(self.lanes)
    }

    fn panel_len(&self) -> usize {
        (2 * self.blocks() + self.words()) * self.lanes
    }

    /// Floats of the packed weights. It depends on the sizes and [`Isa::code`] alone, as does their layout.
    #[must_use]
    pub fn packed_len(&self) -> usize {
        self.panels() * self.panel_len()
    }

    /// Packs the weights.
    ///
    /// # Panics
    /// If a slice's length is not that of its shape.
    pub fn pack(&self, weights: Int4Weights<'_>, packed: &mut [f32]) {
        let (n, lanes) = (self.columns, self.lanes);
        assert_eq!(weights.codes.len(), self.depth * n, "nibbles: codes");
        for len in [weights.scales.len(), weights.zeros.len()] {
            assert_eq!(len, self.blocks() * n, "nibbles: values per block");
        }
        assert_eq!(packed.len(), self.packed_len(), "nibbles: packed weights");
        if packed.is_empty() {
            return;
        }
        let per_block = self.block / WORD;
        for (panel, packed) in packed.chunks_exact_mut(self.panel_len()).enumerate() {
            let mut rows = packed.chunks_exact_mut(lanes);
            let columns = panel * lanes..((panel + 1) * lanes).min(n);
            let mut row = |value: &dyn Fn(usize) -> f32| {
                let row = rows.next().expect("invariant: a panel has room for its rows");
                row.fill(0.0);
                for (x, column) in row.iter_mut().zip(columns.clone()) {
                    *x = value(column);
                }
            };
            for word in 0..self.words() {
                if word % per_block == 0 {
                    let first = word / per_block * n;
                    row(&|column| weights.scales[first + column]);
                    row(&|column| f32::from(weights.zeros[first + column]));
                }
                row(&|column| {
                    let code = |i: usize| {
                        let code = weights.codes.get((word * WORD + i) * n + column);
                        u32::from(code.copied().unwrap_or(0) & 15) << (4 * i)
                    };
                    f32::from_bits((0..WORD).map(code).sum())
                });
            }
        }
    }

    /// Floats of scratch that all threads share: the scaled rows, then the sums of each block of them.
    fn shared(&self, rows: usize) -> usize {
        rows * (self.words() * WORD + self.blocks())
    }

    /// Floats of scratch that a run over `rows` rows needs.
    #[must_use]
    pub fn scratch_len(&self, rows: usize, pool: &ThreadPool) -> usize {
        Scratch::len(self.shared(rows), 0, pool.threads())
    }

    /// `y = x * weights`, of `rows` rows.
    ///
    /// # Panics
    /// If a slice's length is not that of its shape, or scratch is shorter than [`scratch_len`](Self::scratch_len).
    pub fn run(
        &self,
        pool: &ThreadPool,
        rows: usize,
        x: &[f32],
        packed: &[f32],
        y: &mut [f32],
        scratch: &mut [f32],
    ) {
        assert_eq!(x.len(), rows * self.depth, "nibbles: length of the rows");
        assert_eq!(packed.len(), self.packed_len(), "nibbles: packed weights");
        assert_eq!(y.len(), rows * self.columns, "nibbles: length of the result");
        if y.is_empty() {
            return;
        }
        if self.depth == 0 {
            return y.fill(0.0);
        }
        let (deep, blocks) = (self.words() * WORD, self.blocks());
        let scratch = Scratch::new(scratch, self.shared(rows), 0, pool.threads());
        // SAFETY: no chunk runs yet.
        let shared = unsafe { scratch.shared() };
        let (scaled, sums) = shared.split_at_mut(rows * deep);
        for (r, x) in x.chunks_exact(self.depth).enumerate() {
            let scaled = &mut scaled[r * deep..][..deep];
            scaled[self.depth..].fill(0.0);
            for (words, x) in scaled.chunks_mut(WORD).zip(x.chunks(WORD)) {
                for ((scaled, &x), by) in words.iter_mut().zip(x).zip(PLACES) {
                    *scaled = x * by;
                }
            }
            for (sum, x) in sums[r * blocks..].iter_mut().zip(x.chunks(self.block)) {
                *sum = x.iter().sum();
            }
        }
        let (scaled, sums) = (Address(scaled.as_ptr()), Address(sums.as_ptr()));
        let (right, out) = (Address(packed.as_ptr()), Parts::new(y));
        let panels = self.panels();
        let chunks = if rows * self.depth * self.columns < ONE_THREAD {
            1
        } else {
            panels.min(pool.threads() * 4)
        };
        pool.run(chunks, &|chunk| {
            let range = share(panels, chunks, chunk, 1);
            let mut row = 0;
            while row < rows {
                let tile = Args {
                    plan: self,
                    panels: range.clone(),
                    right: right.at(0),
                    x: scaled.at(row * deep),
                    sums: sums.at(row * blocks),
                    out: out.as_ptr().wrapping_add(row * self.columns),
                };
                row += match rows - row {
                    ROWS.. => self.isa.run(Tile::<ROWS, 1>(tile)),
                    4.. => self.isa.run(Tile::<4, 1>(tile)),
                    _ => self.isa.run(Tile::<1, 4>(tile)),
                };
            }
        });
    }
}

/// The factor of a row's value by the position of its code in a word; the last code is shifted down, for the sign.
const PLACES: [f32; WORD] = [
    1.0,
    1.0 / 16.0,
    1.0 / 256.0,
    1.0 / 4096.0,
    1.0 / 65_536.0,
    1.0 / 1_048_576.0,
    1.0 / 16_777_216.0,
    1.0,
];

struct Args<'a> {
    plan: &'a Int4Plan,
    panels: Range<usize>,
    right: *const f32,
    x: *const f32,
    sums: *const f32,
    out: *mut f32,
}

/// `MR` rows, each with `PARTS` sums that hide the latency of additions; gives the number of rows.
struct Tile<'a, const MR: usize, const PARTS: usize>(Args<'a>);

impl<const MR: usize, const PARTS: usize> Kernel for Tile<'_, MR, PARTS> {
    type Output = usize;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> usize {
        let t = self.0;
        let (deep, blocks) = (t.plan.words() * WORD, t.plan.blocks());
        let (per_block, words) = (t.plan.block / WORD, t.plan.words());
        for panel in t.panels {
            let mut p = t.right.wrapping_add(panel * t.plan.panel_len());
            let mut total = [s.splat(0.0); MR];
            for block in 0..blocks {
                // SAFETY: a block of a panel starts with its scales and zeros.
                let (scale, zero) = unsafe { (s.load(p), s.load(p.add(S::LANES))) };
                p = p.wrapping_add(2 * S::LANES);
                let mut acc = [[s.splat(0.0); PARTS]; MR];
                for word in block * per_block..((block + 1) * per_block).min(words) {
                    // SAFETY: a panel has a vector of words for each eight values of the depth.
                    let codes = s.bits(unsafe { s.load(p) });
                    p = p.wrapping_add(S::LANES);
                    macro_rules! place {
                        ($i:literal, $codes:expr) => {
                            let w = s.to_float($codes);
                            for (r, acc) in acc.iter_mut().enumerate() {
                                // SAFETY: the scaled rows are `deep` long.
                                let x = s.splat(unsafe { *t.x.add(r * deep + word * WORD + $i) });
                                acc[$i % PARTS] = s.mul_add(x, w, acc[$i % PARTS]);
                            }
                        };
                    }
                    place!(0, s.and_i(codes, s.splat_i(0xf)));
                    place!(1, s.and_i(codes, s.splat_i(0xf0)));
                    place!(2, s.and_i(codes, s.splat_i(0xf00)));
                    place!(3, s.and_i(codes, s.splat_i(0xf000)));
                    place!(4, s.and_i(codes, s.splat_i(0xf_0000)));
                    place!(5, s.and_i(codes, s.splat_i(0xf0_0000)));
                    place!(6, s.and_i(codes, s.splat_i(0xf00_0000)));
                    place!(7, s.and_i(s.shr_i::<28>(codes), s.splat_i(0xf)));
                }
                for (r, (acc, total)) in acc.iter().zip(&mut total).enumerate() {
                    let mut sum = acc[0];
                    for &part in &acc[1..] {
                        sum = s.add(sum, part);
                    }
                    // SAFETY: there is a sum per row and block.
                    let x = s.splat(unsafe { *t.sums.add(r * blocks + block) });
                    *total = s.mul_add(scale, s.sub(sum, s.mul(x, zero)), *total);
                }
            }
            let first = panel * S::LANES;
            for (r, &total) in total.iter().enumerate() {
                let n = t.plan.columns - first;
                // SAFETY: MR rows of the result, of which n columns remain.
                unsafe { s.write(t.out.add(r * t.plan.columns + first), total, n) };
            }
        }
        MR
    }
}
