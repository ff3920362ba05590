//! Winograd's convolutions: 3×3 windows of stride 1 in 16 products per 4 results, or 36 per 16, instead of 36 or 144.
//!
//! 1. Tiles of the image are transformed to `N`² points, each point is one matrix product of tiles
//!    and packed panels, and the products are transformed to output tiles, epilogue included. The
//!    length of a block of tiles is chosen so that its points and products stay in L2 while all
//!    panels are read.
//! 2. With up to 512 channels, the largest error stays below 1e-5 of the largest result (tested).
//!    Results that are not finite are computed directly (`transform`).
//! 3. Packed weights are `[bias][panel][point][zeros, channel][column]`: points of a panel follow each other, so that
//!    the tile's prefetch of the next panel fetches the next point.
//! 4. Weights that are not finite, or larger than about 1e38, are not supported and give NaN.
//!
//! Not here: the choice between this and an indirect product, which [`crate::conv`] makes by [`fits`] and [`gain`].
#![allow(unsafe_code)]

mod points;
mod transform;

use crate::conv::params::ConvParams;
use crate::conv::window::Window;
use crate::schedule::Scratch;
use crate::threads::{Address, Parts, share};
use crate::tile::{self, Block, Panels, Right, multiply};
use crate::{Epilogue, Isa, ThreadPool};
use std::ops::Range;
use transform::{Grid, Input, Output};

/// Bytes of a block's points and products: with a panel of weights they stay in an L2 of 1 MiB.
const BLOCK_BYTES: usize = 448 * 1024;

/// Floats between the end of one point's matrix and the next: without them, rows of all points would often fall
/// into the same set of L1.
const GAP: usize = 16;

/// Floating-point operations below which a step is left to one thread (about 5 µs, some ten times what a fork and a join cost).
const ONE_THREAD: usize = 250_000;

/// Whether a convolution can be computed by Winograd's algorithm.
pub(crate) fn fits(params: &ConvParams) -> bool {
    let ConvParams {
        groups,
        window: w,
        out_channels,
        in_channels,
        ..
    } = *params;
    groups == 1
        && w.kernel == [1, 3, 3]
        && w.strides == [1; 3]
        && w.dilations == [1; 3]
        && w.pads[0] == 0
        && w.input[0] == w.output[0]
        && w.out_pixels() > 0
        && in_channels > 0
        && out_channels > 0
}

/// Bytes of weights that are taken to be in a cache when their layer's turn comes.
const CACHED_WEIGHTS: f64 = 2e6;

/// Time of the direct product over the time with `points` points per dimension, roughly, for `params` that
/// [`fits`].
///
/// In units of a vector's multiply and add: products are done at full rate, a transform costs about three units
/// per point and vector, and large weights come from memory at 6 bytes per unit.
pub(crate) fn gain(isa: Isa, params: &ConvParams, points: usize) -> f64 {
    let lanes = isa.lanes() as f64;
    let (inner, outer) = (params.in_channels as f64, params.out_channels as f64);
    let w = &params.window;
    let images = (params.batch * w.input[0]) as f64;
    let vectors = |channels: f64| (channels / lanes).ceil();
    let time = |rows: f64, weights: f64| {
        let bytes = 4.0 * weights * inner * outer;
        images * rows * weights * inner * vectors(outer) + (bytes - CACHED_WEIGHTS).max(0.0) / 6.0
    };
    let direct = time((w.output[1] * w.output[2]) as f64, 9.0);
    let m = points - 2;
    let tiles = (w.output[1].div_ceil(m) * w.output[2].div_ceil(m)) as f64;
    let squares = (points * points) as f64;
    let transforms = 3.0 * images * tiles * squares * (vectors(inner) + vectors(outer));
    direct / (time(tiles, squares) + transforms)
}

/// A Winograd convolution, worked out once.
#[derive(Debug, Clone)]
pub(crate) struct Winograd {
    isa: Isa,
    params: ConvParams,
    /// Points per dimension: 4 or 6.
    points: usize,
    panels: Panels,
}

/// How a run is dealt out.
struct Deal {
    /// Blocks of tiles.
    blocks: usize,
    /// The most tiles of a block.
    block_tiles: usize,
    /// All tiles are transformed first, then blocks and panels are dealt out; else each thread has its own blocks.
    shared: bool,
    threads: bool,
}

impl Winograd {
    /// A plan for parameters that [`fits`], with 4 or 6 `points`.
    pub(crate) fn new(isa: Isa, params: ConvParams, points: usize) -> Self {
        let panels = Panels::new(isa, params.in_channels, params.out_channels);
        Self {
            isa,
            params,
            points,
            panels,
        }
    }

    /// Points per dimension.
    pub(crate) fn points(&self) -> usize {
        self.points
    }

    fn squares(&self) -> usize {
        self.points * self.points
    }

    /// Floats of the bias in front of the panels.
    fn bias_len(&self) -> usize {
        self.params.out_channels.next_multiple_of(64)
    }

    /// Floats of the packed weights.
    pub(crate) fn packed_len(&self) -> usize {
        self.bias_len() + self.squares() * self.panels.len()
    }

    /// Where the points of panel `panel` start, and the floats of each.
    fn panel(&self, panel: usize) -> (usize, usize) {
        let point = self.panels.width_of(panel) * (self.panels.depth + 1);
        (
            self.bias_len() + self.squares() * self.panels.offset(panel),
            point,
        )
    }

    /// Packs weights `[out_channels, in_channels, 3, 3]` and the bias.
    pub(crate) fn pack(&self, weights: &[f32], bias: Option<&[f32]>, packed: &mut [f32]) {
        let (n, inner) = (self.points, self.params.in_channels);
        packed.fill(0.0);
        if let Some(bias) = bias {
            packed[..bias.len()].copy_from_slice(bias);
        }
        for p in 0..self.panels.count() {
            let (start, point) = self.panel(p);
            let width = self.panels.width_of(p);
            let points = &mut packed[start..][..point * self.squares()];
            for column in 0..self.panels.columns(p) {
                let oc = p * self.panels.width + column;
                for (channel, window) in weights[oc * inner * 9..][..inner * 9].chunks_exact(9).enumerate() {
                    let line =
                        |i: usize| points::taps(n, std::array::from_fn(|tap| f64::from(window[i * 3 + tap])));
                    let lines = [line(0), line(1), line(2)];
                    for j in 0..n {
                        let down = points::taps(n, std::array::from_fn(|i| lines[i][j]));
                        for (i, &value) in down.iter().enumerate().take(n) {
                            points[(i * n + j) * point + (channel + 1) * width + column] = value as f32;
                        }
                    }
                }
            }
        }
    }

    fn grid(&self) -> Grid {
        let ConvParams {
            window,
            in_stride,
            out_stride,
            ..
        } = self.params;
        let Window {
            input: [_, ih, iw],
            output: [_, oh, ow],
            pads: [_, ph, pw],
            ..
        } = window;
        let m = self.points - 2;
        Grid {
            input: [ih, iw],
            output: [oh, ow],
            pads: [ph, pw],
            tiles: [oh.div_ceil(m), ow.div_ceil(m)],
            in_stride,
            out_stride,
        }
    }

    fn tiles(&self) -> usize {
        let [down, across] = self.grid().tiles;
        self.params.batch * self.params.window.input[0] * down * across
    }

    /// Floats between two tiles of one point.
    fn tile_stride(&self) -> usize {
        self.params.in_channels.next_multiple_of(self.isa.lanes())
    }

    fn deal(&self, threads: usize) -> Deal {
        let (tiles, rows) = (self.tiles(), tile::tile_rows(self.isa));
        let stride = self.tile_stride();
        let panel = self.panels.width.min(self.params.out_channels);
        let most = BLOCK_BYTES / (4 * self.squares() * (stride + panel));
        let most = (most / rows * rows).clamp(rows, 8 * rows);
        let mut blocks = tiles.div_ceil(most);
        let flops = 2 * tiles * self.squares() * self.params.in_channels * self.params.out_channels;
        let threads = if flops < ONE_THREAD { 1 } else { threads };
        let mut shared = false;
        if threads > 1 {
            let points = tiles * stride;
            // where there are few tiles for many panels, reading all panels twice costs more than sharing tiles
            shared = blocks < 2 * threads && self.panels.count() >= threads && self.panels.len() > points;
            if !shared {
                // of equal length for all
                blocks = blocks.max((2 * threads).min(tiles.div_ceil(rows.div_ceil(2))));
                blocks = blocks.next_multiple_of(threads).min(tiles);
            }
        }
        Deal {
            blocks,
            block_tiles: tiles.div_ceil(blocks),
            shared,
            threads: threads > 1,
        }
    }

    /// Floats of scratch: for all threads, and of each: points, products, pointers.
    fn scratch(&self, deal: &Deal) -> (usize, [usize; 3]) {
        let squares = self.squares();
        let tiles = if deal.shared {
            self.tiles()
        } else {
            deal.block_tiles
        };
        let points = squares * (tiles * self.tile_stride() + GAP);
        let products = squares * (deal.block_tiles * self.panels.width + GAP);
        let pointers = (2 * deal.block_tiles).next_multiple_of(GAP);
        if deal.shared {
            (points, [0, products, pointers])
        } else {
            (0, [points, products, pointers])
        }
    }

    /// Floats of scratch that a run needs.
    pub(crate) fn scratch_len(&self, pool: &ThreadPool) -> usize {
        let (shared, own) = self.scratch(&self.deal(pool.threads()));
        Scratch::len(shared, own.iter().sum(), pool.threads())
    }

    /// Runs over operands that the caller has checked against the shape; `residual` may be null.
    pub(crate) fn run(
        &self,
        pool: &ThreadPool,
        packed: &[f32],
        input: &[f32],
        residual: *const f32,
        epilogue: Epilogue,
        output: Parts<'_, f32>,
        scratch: &mut [f32],
    ) {
        match self.points {
            4 => self.run_points::<4>(pool, packed, input, residual, epilogue, output, scratch),
            _ => self.run_points::<6>(pool, packed, input, residual, epilogue, output, scratch),
        }
    }

    fn run_points<const N: usize>(
        &self,
        pool: &ThreadPool,
        packed: &[f32],
        input: &[f32],
        residual: *const f32,
        epilogue: Epilogue,
        output: Parts<'_, f32>,
        scratch: &mut [f32],
    ) {
        let deal = self.deal(pool.threads());
        let (shared, own) = self.scratch(&deal);
        let scratch = Scratch::new(scratch, shared, own.iter().sum(), pool.threads());
        let tiles = self.tiles();
        let pass = Pass::<N> {
            plan: self,
            grid: self.grid(),
            epilogue,
            packed: Address(packed.as_ptr()),
            image: Address(input.as_ptr()),
            residual: Address(residual),
            output,
        };
        let run = |chunks: usize, f: &(dyn Fn(usize, usize) + Sync)| {
            if deal.threads {
                pool.run_indexed(chunks, &f);
            } else {
                (0..chunks).for_each(|chunk| f(0, chunk));
            }
        };
        let panels = self.panels.count();
        if deal.shared {
            // SAFETY: no chunk runs yet, and the slice is left before one does.
            let points = Parts::new(unsafe { scratch.shared() });
            let point_stride = tiles * self.tile_stride() + GAP;
            let chunks = (2 * pool.threads()).min(tiles);
            run(chunks, &|_, chunk| {
                let range = share(tiles, chunks, chunk, 1);
                let to = points.as_ptr().wrapping_add(range.start * self.tile_stride());
                // SAFETY: the points have room for every tile; chunks have different tiles.
                unsafe { pass.transform(range, to, point_stride) };
            });
            run(panels * deal.blocks, &|thread, chunk| {
                let (block, panel) = (chunk % deal.blocks, chunk / deal.blocks);
                let range = share(tiles, deal.blocks, block, 1);
                // SAFETY: this thread's own part, asked for once.
                let (products, pointers) = unsafe { scratch.own(thread) }.split_at_mut(own[1]);
                let from = points.as_ptr().wrapping_add(range.start * self.tile_stride());
                // SAFETY: all tiles are transformed; chunks have different tiles or panels.
                unsafe { pass.panel(range, from, point_stride, panel, products, pointers) };
            });
        } else {
            run(deal.blocks, &|thread, chunk| {
                let range = share(tiles, deal.blocks, chunk, 1);
                // SAFETY: this thread's own part, asked for once.
                let (points, rest) = unsafe { scratch.own(thread) }.split_at_mut(own[0]);
                let (products, pointers) = rest.split_at_mut(own[1]);
                let point_stride = deal.block_tiles * self.tile_stride() + GAP;
                // SAFETY: the points have room for a block.
                unsafe { pass.transform(range.clone(), points.as_mut_ptr(), point_stride) };
                for panel in 0..panels {
                    // SAFETY: the block is transformed; chunks have different tiles.
                    unsafe {
                        pass.panel(
                            range.clone(),
                            points.as_ptr(),
                            point_stride,
                            panel,
                            products,
                            pointers,
                        )
                    };
                }
            });
        }
    }
}

/// The operands of one run.
struct Pass<'a, const N: usize> {
    plan: &'a Winograd,
    grid: Grid,
    epilogue: Epilogue,
    packed: Address,
    image: Address,
    residual: Address,
    output: Parts<'a, f32>,
}

impl<const N: usize> Pass<'_, N> {
    /// Transforms input tiles.
    ///
    /// # Safety
    /// `values` has room for the tiles at each point, `point_stride` apart, and no other thread touches it.
    unsafe fn transform(&self, tiles: Range<usize>, values: *mut f32, point_stride: usize) {
        self.plan.isa.run(&Input::<N> {
            grid: self.grid,
            first: tiles.start,
            count: tiles.len(),
            channels: self.plan.params.in_channels,
            image: self.image.at(0),
            values,
            tile_stride: self.plan.tile_stride(),
            point_stride,
        });
    }

    /// Multiplies transformed tiles by one panel and writes their output.
    ///
    /// # Safety
    /// `values` holds the tiles at each point, `point_stride` apart, and no other thread writes these tiles of the output.
    unsafe fn panel(
        &self,
        tiles: Range<usize>,
        values: *const f32,
        point_stride: usize,
        panel: usize,
        products: &mut [f32],
        pointers: &mut [f32],
    ) {
        let plan = self.plan;
        let one = plan.panels.with_columns(plan.panels.columns(panel));
        let width = one.width_of(0);
        let (start, point_len) = plan.panel(panel);
        let stride = tiles.len() * width + GAP;
        assert!(
            products.len() >= N * N * stride && pointers.len() >= 2 * tiles.len(),
            "winograd: scratch of a block"
        );
        let (products, pointers) = (products.as_mut_ptr(), pointers.as_mut_ptr().cast::<*const f32>());
        for point in 0..N * N {
            for tile in 0..tiles.len() {
                let row = values.wrapping_add(point * point_stride + tile * plan.tile_stride());
                // SAFETY: the length was asserted; the scratch starts on a cache line.
                unsafe { pointers.wrapping_add(tile).write(row) };
            }
            let block = Block {
                rows: tiles.len(),
                pointers,
                taps: 1,
                k: plan.params.in_channels,
                a_step: 1,
                // whole vectors: products have room for them
                panels: one.with_columns(width),
                range: 0..1,
                right: Right::Packed(self.packed.at(start + point * point_len)),
                out: products.wrapping_add(point * stride),
                out_stride: width,
                residual: std::ptr::null(),
                residual_stride: 0,
                scale: 1.0,
                epilogue: Epilogue::NONE,
            };
            // SAFETY: tiles are transformed, panels packed, and products have room for whole vectors.
            unsafe { multiply(plan.isa, &block) };
        }
        let first = panel * plan.panels.width;
        plan.isa.run(&Output::<N> {
            grid: self.grid,
            first: tiles.start,
            count: tiles.len(),
            columns: one.n,
            products,
            tile_stride: width,
            point_stride: stride,
            bias: self.packed.at(first),
            out: self.output.as_ptr().wrapping_add(first),
            residual: self.residual.at_unless_null(first),
            epilogue: self.epilogue,
            image: self.image.at(0),
            channels: plan.params.in_channels,
            weights: self.packed.at(start + width),
            weights_stride: point_len,
        });
    }
}
