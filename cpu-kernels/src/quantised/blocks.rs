//! Products with weights in blocks: ggml's, or codes with a scale and a zero point. Weights keep their size; the rows are
//! rounded to bytes, and sums of a group are integers.
//!
//! 1. Rows are rounded to signed bytes with a scale for each 32 values; a group with an infinity or a NaN gives NaN.
//! 2. Products with codes are exact in integers; they are scaled and summed in `f32`. A result differs from the `f32` product of
//!    the decoded weights with the rounded rows by `f32` rounding alone, and does not depend on the other rows.
//!    Rows in two pieces ([`BlockPlan::precise`]) have an error of at most 2^-16 of a group's largest magnitude, at twice the
//!    arithmetic. For a single row, which is bound by reading the weights, that takes little longer.
//! 3. Packed weights take at most 3 % more than the blocks, where columns fill whole vectors.
//! 4. [`run_all`] rounds the rows once for several products, which share one step of the threads.
//!
//! Not here: files ([`BlockPlan::pack`] takes blocks as they lie in one), and other layouts of blocks.
//!
//! Start reading at [`layout`], then [`tile`].
#![allow(unsafe_code)]

mod layout;
mod pack;
mod rows;
mod tile;

pub use layout::BlockLayout;

use crate::error::product;
use crate::schedule::Scratch;
use crate::threads::{Address, Parts, share};
use crate::{Error, Isa, ThreadPool};
use layout::{GROUP, Layout};
use std::marker::PhantomData;
use std::ops::Range;

const NAME: &str = "product with blocks of weights";

/// Multiplications below which a run is left to one thread (some microseconds).
const ONE_THREAD: usize = 100_000;

/// Values below which one thread rounds all rows (some ten microseconds).
const ROUND_ALONE: usize = 32 * 1024;

/// Chunks per thread, so that other threads can take the chunks of a delayed one.
const CHUNKS_EACH: usize = 8;

/// Bytes of weights of a chunk: claiming smaller ones costs more than it balances, and larger ones leave the second-level
/// cache between two tiles of rows.
const CHUNK_BYTES: Range<usize> = 16 * 1024..256 * 1024;

/// `$call` with `$w` as the layout's type.
macro_rules! with_layout {
    ($layout:expr, $w:ident => $call:expr) => {
        match $layout {
            BlockLayout::Q4_0 => {
                type $w = layout::Q4_0;
                $call
            }
            BlockLayout::Q4_1 => {
                type $w = layout::Q4_1;
                $call
            }
            BlockLayout::Q8_0 => {
                type $w = layout::Q8_0;
                $call
            }
            BlockLayout::Q4_K => {
                type $w = layout::Q4K;
                $call
            }
            BlockLayout::Q5_K => {
                type $w = layout::Q5K;
                $call
            }
            BlockLayout::Q6_K => {
                type $w = layout::Q6K;
                $call
            }
            BlockLayout::U4 => {
                type $w = layout::U4;
                $call
            }
            BlockLayout::U8 => {
                type $w = layout::U8;
                $call
            }
            BlockLayout::Q5_1 => {
                type $w = layout::Q5_1;
                $call
            }
            BlockLayout::Q2_K => {
                type $w = layout::Q2K;
                $call
            }
        }
    };
}

/// The plan of a product of `f32` rows with weights in blocks.
///
/// ```
/// use polychip_cpu_kernels::quantised::{BlockLayout, BlockPlan};
/// use polychip_cpu_kernels::{Isa, ThreadPool};
///
/// // one column of 32 weights: a scale of 1 (f16), and 9 - 8 everywhere
/// let mut block = [0x99; 18];
/// block[..2].copy_from_slice(&[0x00, 0x3c]);
/// let plan = BlockPlan::new(Isa::detect(), BlockLayout::Q4_0, 32, 1)?;
/// let mut packed = vec![0.0; plan.packed_len()];
/// plan.pack(&block, &mut packed);
/// let pool = ThreadPool::new(1);
/// let (mut y, mut scratch) = ([0.0], vec![0.0; plan.scratch_len(1, &pool)]);
/// plan.run(&pool, 1, &[127.0; 32], &packed, &mut y, &mut scratch);
/// assert_eq!(y, [32.0 * 127.0]);
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct BlockPlan {
    isa: Isa,
    layout: BlockLayout,
    depth: usize,
    columns: usize,
    lanes: usize,
    /// Pieces that a row is rounded to.
    pieces: usize,
}

impl BlockPlan {
    /// Plans a product of rows of `depth` values with `columns` columns.
    ///
    /// # Errors
    /// If the depth is not a multiple of the block size, or a size does not fit the address space.
    pub fn new(isa: Isa, layout: BlockLayout, depth: usize, columns: usize) -> Result<Self, Error> {
        if !depth.is_multiple_of(layout.elements()) {
            let rule =
                "it must be a multiple of the weights of a block (32, or 256 of Q2_K, Q4_K, Q5_K and Q6_K)";
            return Err(Error::parameter(NAME, "the depth", depth, rule));
        }
        let lanes = isa.lanes();
        // no layout takes more than two bytes a weight
        product(NAME, "the weights", &[depth, columns.saturating_add(lanes), 2])?;
        Ok(Self {
            isa,
            layout,
            depth,
            columns,
            lanes,
            pieces: 1,
        })
    }

    /// The same with rows in two pieces: rounded bytes, and the rounding error, as bytes again.
    #[must_use]
    pub fn precise(self) -> Self {
        Self { pieces: 2, ..self }
    }

    /// The layout of the blocks.
    #[must_use]
    pub fn layout(&self) -> BlockLayout {
        self.layout
    }

    /// Values of a row.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Columns of the weights, the values of a result's row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Blocks of a column.
    fn blocks(&self) -> usize {
        self.depth / self.layout.elements()
    }

    fn panels(&self) -> usize {
        self.columns.div_ceil(self.lanes)
    }

    /// Bytes of one panel's codes and scales.
    fn panel_bytes(&self) -> [usize; 2] {
        let block = with_layout!(self.layout, W => [W::GROUPS * W::WORDS * 4, W::SCALES]);
        block.map(|bytes| bytes * self.lanes * self.blocks())
    }

    /// Words of the packed weights. Their number and order depend only on layout, sizes and [`Isa::code`].
    #[must_use]
    pub fn packed_len(&self) -> usize {
        let [codes, scales] = self.panel_bytes();
        // lanes are a multiple of four
        self.panels() * (codes + scales) / 4
    }

    /// Packs `[columns, depth]` weights, row by row as a file has them.
    ///
    /// # Panics
    /// If a slice's length is not that of its shape.
    pub fn pack(&self, blocks: &[u8], packed: &mut [f32]) {
        let bytes = self.columns * self.column_bytes();
        assert_eq!(blocks.len(), bytes, "blocks: bytes of the weights");
        assert_eq!(packed.len(), self.packed_len(), "blocks: packed weights");
        packed.fill(0.0);
        self.pack_columns(0, blocks, packed);
    }

    /// Columns that are packed together: [`pack_columns`](Self::pack_columns) begins at a multiple of them.
    #[must_use]
    pub fn panel_columns(&self) -> usize {
        self.lanes
    }

    /// Bytes of one column's blocks.
    #[must_use]
    pub fn column_bytes(&self) -> usize {
        self.blocks() * self.layout.bytes()
    }

    /// Packs the columns from `first` on into their place in `packed`, which must be zeros before the first call.
    ///
    /// # Panics
    /// If `first` is not a multiple of [`panel_columns`](Self::panel_columns), the blocks are not whole columns or too many, or
    /// `packed` has not the length for all columns.
    pub fn pack_columns(&self, first: usize, blocks: &[u8], packed: &mut [f32]) {
        assert!(
            first.is_multiple_of(self.lanes),
            "blocks: columns of whole panels"
        );
        assert_eq!(packed.len(), self.packed_len(), "blocks: packed weights");
        if blocks.is_empty() {
            return;
        }
        assert!(
            blocks.len().is_multiple_of(self.column_bytes()),
            "blocks: bytes of whole columns"
        );
        assert!(
            first + blocks.len() / self.column_bytes() <= self.columns,
            "blocks: more columns than there are"
        );
        let packed: &mut [u8] = bytemuck::cast_slice_mut(packed);
        let bytes = self.panel_bytes();
        let (codes, scales) = packed.split_at_mut(self.panels() * bytes[0]);
        let from = |section: &'_ mut [u8], bytes: usize| first / self.lanes * bytes..section.len();
        let (codes_from, scales_from) = (from(codes, bytes[0]), from(scales, bytes[1]));
        let (codes, scales) = (&mut codes[codes_from], &mut scales[scales_from]);
        with_layout!(self.layout, W => pack::pack::<W>(blocks, self.blocks(), self.lanes, codes, scales));
    }

    /// Floats of scratch that all threads share: the rounded rows.
    fn shared(&self, rows: usize) -> usize {
        self.pieces * rows * self.depth / GROUP * (rows::LINE / 4)
    }

    /// Floats of scratch that a run over `rows` rows needs, for one product or for all of [`run_all`].
    #[must_use]
    pub fn scratch_len(&self, rows: usize, pool: &ThreadPool) -> usize {
        Scratch::len(self.shared(rows), 0, pool.threads())
    }

    /// `y = x * weights`, of `rows` rows: `[rows, depth]` to `[rows, columns]`.
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
        let product = BlockProduct::new(self, packed, y);
        run_all(pool, rows, x, &mut [product], scratch);
    }

    /// Chunks of a run over `rows` rows that has `bytes` of weights in all.
    fn chunks(&self, bytes: usize, threads: usize) -> usize {
        let most = bytes / (threads * CHUNKS_EACH);
        let chunk = most.clamp(CHUNK_BYTES.start, CHUNK_BYTES.end);
        let all = self.packed_len() * 4;
        all.div_ceil(chunk).min(self.panels())
    }

    /// One chunk.
    ///
    /// # Safety
    /// All operands are valid, and no other thread uses the results of these panels.
    unsafe fn chunk(
        &self,
        panels: Range<usize>,
        rows: usize,
        x: *const u8,
        packed: *const f32,
        out: *mut f32,
    ) {
        let codes = packed.cast::<u8>();
        let scales = codes.wrapping_add(self.panels() * self.panel_bytes()[0]);
        with_layout!(self.layout, W => self.isa.run_bytes(tile::Tiles::<W> {
            panels,
            blocks: self.blocks(),
            codes,
            scales,
            x,
            rows: rows * self.pieces,
            pieces: self.pieces,
            columns: self.columns,
            out,
            layout: PhantomData,
        }));
    }
}

/// One of the products of [`run_all`].
pub struct BlockProduct<'a> {
    plan: &'a BlockPlan,
    packed: &'a [f32],
    out: Parts<'a, f32>,
    len: usize,
}

impl<'a> BlockProduct<'a> {
    /// A product into `out`, `[rows, columns]`.
    ///
    /// # Panics
    /// If the length of the packed weights is not the plan's.
    #[must_use]
    pub fn new(plan: &'a BlockPlan, packed: &'a [f32], out: &'a mut [f32]) -> Self {
        assert_eq!(packed.len(), plan.packed_len(), "blocks: packed weights");
        let len = out.len();
        Self {
            plan,
            packed,
            out: Parts::new(out),
            len,
        }
    }
}

/// Several products of the same rows `[rows, depth]`, such as the query, key and value projections of attention: the
/// rows are rounded once, and the threads synchronize once.
///
/// # Panics
/// If plans differ in depth, instruction set or pieces of rows, a slice's length is not that of its shape, or scratch is shorter than
/// [`BlockPlan::scratch_len`] of any of the plans.
pub fn run_all(
    pool: &ThreadPool,
    rows: usize,
    x: &[f32],
    products: &mut [BlockProduct<'_>],
    scratch: &mut [f32],
) {
    let Some(first) = products.first() else { return };
    let BlockPlan {
        isa, depth, pieces, ..
    } = *first.plan;
    assert_eq!(x.len(), rows * depth, "blocks: length of the rows");
    for product in &*products {
        let plan = product.plan;
        assert!(plan.isa == isa, "blocks: plans differ in their instruction set");
        assert_eq!(plan.depth, depth, "blocks: plans differ in their depth");
        assert_eq!(plan.pieces, pieces, "blocks: plans differ in the pieces of rows");
        assert_eq!(product.len, rows * plan.columns, "blocks: length of a result");
    }
    if rows == 0 {
        return;
    }
    let groups = depth / GROUP;
    let threads = pool.threads();
    let shared = first.plan.shared(rows);
    let scratch = Scratch::new(scratch, shared, 0, threads);
    // SAFETY: no chunk runs yet.
    let rounded = Parts::new(unsafe { scratch.shared() });
    let rounds = if rows * depth < ROUND_ALONE {
        1
    } else {
        rows.min(threads * CHUNKS_EACH)
    };
    pool.run(rounds, &|chunk| {
        isa.run_bytes(rows::Round {
            rows,
            pieces,
            range: share(rows, rounds, chunk, 1),
            groups,
            x: x.as_ptr(),
            to: rounded.as_ptr().cast(),
        });
    });
    let rounded = Address(rounded.as_ptr().cast_const());
    let mut bytes = 0;
    let mut columns = 0;
    for product in &*products {
        bytes += product.packed.len() * 4;
        columns += product.plan.columns;
    }
    let alone = rows.saturating_mul(depth).saturating_mul(columns) < ONE_THREAD;
    let chunks_of = |product: &BlockProduct<'_>| {
        if alone {
            product.plan.panels().min(1)
        } else {
            product.plan.chunks(bytes, threads)
        }
    };
    let products = &*products;
    let run = |mut chunk: usize| {
        for product in products {
            let chunks = chunks_of(product);
            if chunk < chunks {
                let panels = share(product.plan.panels(), chunks, chunk, 1);
                let (packed, out) = (product.packed.as_ptr(), product.out.as_ptr());
                // SAFETY: lengths were checked above; panels of different chunks have different columns.
                unsafe {
                    product
                        .plan
                        .chunk(panels, rows, rounded.at(0).cast(), packed, out)
                };
                return;
            }
            chunk -= chunks;
        }
    };
    let chunks = products.iter().map(chunks_of).sum();
    if alone {
        for chunk in 0..chunks {
            run(chunk);
        }
    } else {
        pool.run(chunks, &run);
    }
}
