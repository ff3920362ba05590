//! The one multiplication tile: rows by pointers times a packed panel, kept in registers until the epilogue.
//!
//! 1. A tile reads rows through pointers, `taps` of them per row, `k` values at each: a matrix product has one tap,
//!    a convolution one per kernel element, and neither copies its input.
//! 2. Accumulators start at the bias and are stored once; column edges are masked, never stored to a spare tile.
//! 3. A panel is `[bias][taps * k]` groups of one panel width; the next panel follows it, so that prefetching the
//!    successor is pointer arithmetic (facts section 5: the second largest gain on whole sequences).
//! 4. Rows of a block are cut into tiles of nearly equal height, because a last tile of one row costs as much
//!    time as a full one.
#![allow(unsafe_code)]

use crate::elementwise::unary::apply_rows;
use crate::isa::{Kernel, Simd};
use crate::{Epilogue, Isa, Residual, Unary};
use std::ops::Range;

/// Zeros that stand for a missing bias; as wide as the widest panel.
pub(crate) static ZEROS: [f32; 64] = [0.0; 64];

/// Width of a full panel of `isa`.
pub(crate) fn panel_width(isa: Isa) -> usize {
    struct Width;
    impl Kernel for Width {
        type Output = usize;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> usize {
            S::LANES * S::COLUMNS
        }
    }
    isa.run(Width)
}

/// Rows of a full tile of `isa`.
pub(crate) fn tile_rows(isa: Isa) -> usize {
    struct Rows;
    impl Kernel for Rows {
        type Output = usize;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> usize {
            S::ROWS
        }
    }
    isa.run(Rows)
}

/// How an operand `[depth, n]` lies in packed panels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Panels {
    /// Width of all panels but the last.
    pub(crate) width: usize,
    lanes: usize,
    /// Columns in all.
    pub(crate) n: usize,
    /// Rows of each panel (without the bias).
    pub(crate) depth: usize,
}

impl Panels {
    pub(crate) fn new(isa: Isa, depth: usize, n: usize) -> Self {
        Self {
            width: panel_width(isa),
            lanes: isa.lanes(),
            n,
            depth,
        }
    }

    /// The same panels over `n` columns.
    pub(crate) fn with_columns(self, n: usize) -> Self {
        Self { n, ..self }
    }

    pub(crate) fn count(&self) -> usize {
        self.n.div_ceil(self.width)
    }

    /// Columns of panel `p`.
    pub(crate) fn columns(&self, p: usize) -> usize {
        (self.n - p * self.width).min(self.width)
    }

    /// Width of panel `p`: its columns rounded up to whole vectors.
    pub(crate) fn width_of(&self, p: usize) -> usize {
        self.columns(p).next_multiple_of(self.lanes)
    }

    /// Where panel `p` starts.
    pub(crate) fn offset(&self, p: usize) -> usize {
        p * self.width * (self.depth + 1)
    }

    /// Floats of all panels.
    pub(crate) fn len(&self) -> usize {
        let full = self.n / self.width;
        let rest = (self.n % self.width).next_multiple_of(self.lanes);
        (full * self.width + rest) * (self.depth + 1)
    }

    /// Packs element `(row, column)` of `value` and the bias into `packed`.
    pub(crate) fn pack(
        &self,
        packed: &mut [f32],
        bias: impl Fn(usize) -> f32,
        value: impl Fn(usize, usize) -> f32,
    ) {
        assert_eq!(packed.len(), self.len(), "pack: length of the packed operand");
        for p in 0..self.count() {
            let (width, columns, first) = (self.width_of(p), self.columns(p), p * self.width);
            let panel = &mut packed[self.offset(p)..][..width * (self.depth + 1)];
            for (row, group) in panel.chunks_exact_mut(width).enumerate() {
                for (column, x) in group.iter_mut().enumerate() {
                    *x = match (column < columns, row) {
                        (false, _) => 0.0,
                        (true, 0) => bias(first + column),
                        (true, _) => value(row - 1, first + column),
                    };
                }
            }
        }
    }
}

/// What a tile needs beside its const parameters.
#[derive(Clone, Copy)]
struct Args {
    rows: *const *const f32,
    taps: usize,
    k: usize,
    a_step: usize,
    panel: *const f32,
    b_step: usize,
    bias: *const f32,
    /// From an address in this panel to the one to prefetch, in bytes.
    ahead: usize,
    out: *mut f32,
    out_stride: usize,
    residual: *const f32,
    residual_stride: usize,
    residual_last: bool,
    columns: usize,
    scale: f32,
    low: f32,
    high: f32,
}

/// A tile of `MR` rows and `NV` vectors of columns.
struct Tile<const MR: usize, const NV: usize>(Args);

impl<const MR: usize, const NV: usize> Kernel for Tile<MR, NV> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Args {
            taps,
            k,
            a_step,
            b_step,
            ahead,
            columns,
            ..
        } = self.0;
        let t = self.0;
        let mut start = [s.splat(0.0); NV];
        for (v, x) in start.iter_mut().enumerate() {
            // SAFETY: the bias of a panel is NV vectors wide.
            *x = unsafe { s.load(t.bias.add(v * S::LANES)) };
        }
        let mut acc = [start; MR];
        // what the epilogue will touch arrives while the product runs
        for r in 0..MR {
            for v in 0..NV {
                s.prefetch(t.out.cast_const().wrapping_add(r * t.out_stride + v * S::LANES));
                s.prefetch(t.residual.wrapping_add(r * t.residual_stride + v * S::LANES));
            }
        }
        let mut b = t.panel;
        for tap in 0..taps {
            // SAFETY: the block holds MR pointers per tap.
            let a: [*const f32; MR] = unsafe { t.rows.add(tap * MR).cast::<[*const f32; MR]>().read() };
            let mut at = 0;
            for _ in 0..k {
                let mut bv = start;
                for (v, x) in bv.iter_mut().enumerate() {
                    // SAFETY: the panel has taps * k groups of NV vectors, b_step apart.
                    *x = unsafe { s.load(b.add(v * S::LANES)) };
                }
                s.prefetch(b.wrapping_byte_add(ahead));
                for (row, acc) in a.iter().zip(&mut acc) {
                    // SAFETY: k values, a_step apart, are readable at each row pointer.
                    let x = s.splat(unsafe { *row.add(at) });
                    for (acc, &b) in acc.iter_mut().zip(&bv) {
                        *acc = s.mul_add(x, b, *acc);
                    }
                }
                at += a_step;
                b = b.wrapping_add(b_step);
            }
        }
        // Each pass over the accumulators is short enough to be unrolled whole: an index that is not a constant
        // would move them from registers to memory, in the loop above too.
        if t.scale != 1.0 {
            let scale = s.splat(t.scale);
            for acc in &mut acc {
                for x in acc {
                    *x = s.mul(*x, scale);
                }
            }
        }
        let full = columns == NV * S::LANES;
        // only the last vector of a tile may be partly filled
        let last = columns - (NV - 1) * S::LANES;
        if !t.residual.is_null() && !t.residual_last {
            add_residual(s, &t, full, last, &mut acc);
        }
        let (low, high) = (s.splat(t.low), s.splat(t.high));
        for acc in &mut acc {
            for x in acc {
                // operand order: a NaN in x stays
                *x = s.min(high, s.max(low, *x));
            }
        }
        if t.residual_last && !t.residual.is_null() {
            add_residual(s, &t, full, last, &mut acc);
        }
        let mut out = t.out;
        if full {
            for acc in &acc {
                for (v, &x) in acc.iter().enumerate() {
                    // SAFETY: the block has MR output rows of NV vectors.
                    unsafe { s.store(out.add(v * S::LANES), x) };
                }
                out = out.wrapping_add(t.out_stride);
            }
        } else {
            for acc in &acc {
                for (v, &x) in acc.iter().enumerate() {
                    let n = if v + 1 == NV { last } else { S::LANES };
                    // SAFETY: the block has MR output rows of `columns` values.
                    unsafe { s.store_first(out.add(v * S::LANES), x, n) };
                }
                out = out.wrapping_add(t.out_stride);
            }
        }
    }
}

/// Adds the residual's tile to the accumulators.
#[inline(always)]
fn add_residual<S: Simd, const MR: usize, const NV: usize>(
    s: S,
    t: &Args,
    full: bool,
    last: usize,
    acc: &mut [[S::F; NV]; MR],
) {
    let mut from = t.residual;
    if full {
        for acc in acc {
            for (v, x) in acc.iter_mut().enumerate() {
                // SAFETY: the residual has MR rows of NV vectors.
                *x = s.add(*x, unsafe { s.load(from.add(v * S::LANES)) });
            }
            from = from.wrapping_add(t.residual_stride);
        }
    } else {
        for acc in acc {
            for (v, x) in acc.iter_mut().enumerate() {
                let n = if v + 1 == NV { last } else { S::LANES };
                // SAFETY: the residual has MR rows of `columns` values.
                *x = s.add(*x, unsafe { s.load_first(from.add(v * S::LANES), n) });
            }
            from = from.wrapping_add(t.residual_stride);
        }
    }
}

#[inline(always)]
fn tile<S: Simd, const NV: usize>(s: S, rows: usize, args: Args) {
    macro_rules! rows {
        ($($n:literal)*) => {
            match rows {
                $($n if $n <= S::ROWS => s.enter(Tile::<$n, NV>(args)),)*
                _ => unreachable!("a tile has 1 to ROWS rows"),
            }
        };
    }
    rows!(1 2 3 4 5 6 7 8 9 10 11 12)
}

/// Tiles of a block of `rows` rows.
pub(crate) fn tiles(rows: usize, tile_rows: usize) -> usize {
    rows.div_ceil(tile_rows)
}

/// The rows of tile `tile`.
pub(crate) fn tile_range(rows: usize, tiles: usize, tile: usize) -> Range<usize> {
    rows * tile / tiles..rows * (tile + 1) / tiles
}

/// Where the panels of a block come from.
#[derive(Clone, Copy)]
pub(crate) enum Right {
    /// Panels packed by [`Panels::pack`], from the first one on.
    Packed(*const f32),
    /// The one panel of the block in place: its first value, and the values between two rows. It has no bias and
    /// must be whole vectors wide.
    InPlace(*const f32, usize),
}

/// A block of rows times a range of panels.
pub(crate) struct Block {
    /// Rows of the block.
    pub(crate) rows: usize,
    /// Row pointers `[tile][tap][row of the tile]`, where tiles are those of [`tile_range`].
    pub(crate) pointers: *const *const f32,
    pub(crate) taps: usize,
    pub(crate) k: usize,
    /// Elements between two values of a row.
    pub(crate) a_step: usize,
    pub(crate) panels: Panels,
    pub(crate) range: Range<usize>,
    pub(crate) right: Right,
    /// Output of row 0, column 0 of panel 0.
    pub(crate) out: *mut f32,
    pub(crate) out_stride: usize,
    /// As `out`, or null.
    pub(crate) residual: *const f32,
    pub(crate) residual_stride: usize,
    pub(crate) scale: f32,
    pub(crate) epilogue: Epilogue,
}

impl Kernel for &Block {
    type Output = ();
    /// The caller of [`multiply`] has promised what this needs.
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let tiles = tiles(self.rows, S::ROWS);
        let activation = self.epilogue.activation;
        let (low, high, later) = match activation {
            Unary::Identity => (f32::NEG_INFINITY, f32::INFINITY, false),
            Unary::Relu => (0.0, f32::INFINITY, false),
            Unary::Clip { low, high } => (low, high, false),
            _ => (f32::NEG_INFINITY, f32::INFINITY, true),
        };
        let residual_last = self.epilogue.residual == Residual::AfterActivation;
        let with_residual = !self.residual.is_null();
        for p in self.range.clone() {
            let (columns, width) = (self.panels.columns(p), self.panels.width_of(p));
            let (panel, b_step, bias, size) = match self.right {
                Right::Packed(start) => {
                    // SAFETY: panel p is one of the packed panels.
                    let bias = unsafe { start.add(self.panels.offset(p)) };
                    // SAFETY: the panel's rows follow its bias.
                    (
                        unsafe { bias.add(width) },
                        width,
                        bias,
                        width * (self.panels.depth + 1),
                    )
                }
                Right::InPlace(start, step) => (start, step, ZEROS.as_ptr(), 0),
            };
            let mut pointers = self.pointers;
            for tile_index in 0..tiles {
                let rows = tile_range(self.rows, tiles, tile_index);
                let first = p * self.panels.width;
                // SAFETY: row and column lie in the block.
                let out = unsafe { self.out.add(rows.start * self.out_stride + first) };
                let residual = if with_residual {
                    // SAFETY: as for `out`.
                    unsafe { self.residual.add(rows.start * self.residual_stride + first) }
                } else {
                    std::ptr::null()
                };
                // The first tile fetches the first cache line of each group of the next panel, the second tile the
                // second; later ones touch what they read anyway.
                let ahead = if tile_index < 2 {
                    (size + tile_index * 16) * 4
                } else {
                    0
                };
                let args = Args {
                    rows: pointers,
                    taps: self.taps,
                    k: self.k,
                    a_step: self.a_step,
                    panel,
                    b_step,
                    bias,
                    ahead,
                    out,
                    out_stride: self.out_stride,
                    residual: if later { std::ptr::null() } else { residual },
                    residual_stride: self.residual_stride,
                    residual_last: residual_last && !later,
                    columns,
                    scale: self.scale,
                    low,
                    high,
                };
                // the first addend of a late activation joins in the tile
                let args = if later && !residual_last {
                    Args { residual, ..args }
                } else {
                    args
                };
                if width > S::LANES {
                    tile::<S, 2>(s, rows.len(), args);
                } else {
                    tile::<S, 1>(s, rows.len(), args);
                }
                if later {
                    let added = if residual_last { residual } else { std::ptr::null() };
                    // SAFETY: the tile just stored these rows; the residual has the same shape.
                    unsafe {
                        apply_rows(
                            s,
                            activation,
                            out,
                            rows.len(),
                            columns,
                            self.out_stride,
                            added,
                            self.residual_stride,
                        )
                    };
                }
                pointers = pointers.wrapping_add(self.taps * rows.len());
            }
        }
    }
}

/// Multiplies one block.
///
/// # Safety
/// `pointers` holds `rows * taps` pointers, each to `k` readable values `a_step` apart; `right` holds the panels of
/// `range`; outputs and, unless null, residuals exist for every row and every column of those panels, and no other
/// thread touches these outputs.
pub(crate) unsafe fn multiply(isa: Isa, block: &Block) {
    if block.rows > 0 {
        isa.run(block);
    }
}
