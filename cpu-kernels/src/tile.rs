//! The multiplication tile of all products: rows, given by pointers, times a packed panel; sums
//! stay in registers until the epilogue.
//!
//! 1. A tile reads rows through pointers, `taps` of them per row, `k` values at each: a matrix product has one tap,
//!    a convolution one per kernel element, and neither copies its input.
//! 2. Accumulators start at the bias and are stored once; column edges are masked, never stored to a spare tile.
//! 3. A panel is `[bias][taps * k]` groups of one panel width; the next panel follows it, so that prefetching the
//!    successor is pointer arithmetic (the second largest gain on whole sequences, behind huge pages).
//! 4. The product itself ([`accumulate`]) is the same for every element type: words of 32 bits.
//! 5. Rows of a block are cut into tiles of nearly equal height, because a last tile of one row costs as much
//!    time as a full one.
#![allow(unsafe_code)]

use crate::elementwise::unary::Rows;
use crate::isa::dot::{Element, Product};
use crate::isa::{Kernel, Load, Simd};
use crate::{Epilogue, Isa, Residual, Unary};
use std::ops::Range;

/// Zeros in place of a missing bias; as wide as the widest panel.
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

/// How an operand `[depth, n]` of words lies in packed panels.
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

    /// Panels of as many operands, one below the other.
    pub(crate) fn times(self, operands: usize) -> Self {
        Self {
            depth: self.depth * operands,
            ..self
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

    /// Panels of an operand of `depth` elements, of which a word holds `A::PER_WORD`.
    pub(crate) fn of<A: Element>(isa: Isa, depth: usize, n: usize) -> Self {
        Self::new(isa, depth.div_ceil(A::PER_WORD), n)
    }

    /// Packs word `(row, column)` of `value` and the bias into `packed`.
    pub(crate) fn pack(
        &self,
        packed: &mut [f32],
        bias: impl Fn(usize) -> f32,
        value: impl Fn(usize, usize) -> f32,
    ) {
        self.pack_panels(packed, bias, |rows, width, columns| {
            for (row, group) in rows.chunks_exact_mut(width).enumerate() {
                for (x, column) in group.iter_mut().zip(columns.clone()) {
                    *x = value(row, column);
                }
            }
        });
    }

    /// Packs the bias, zeros beside the columns, and by `fill(rows, width, columns)` the columns of each panel.
    fn pack_panels(
        &self,
        packed: &mut [f32],
        bias: impl Fn(usize) -> f32,
        fill: impl Fn(&mut [f32], usize, std::ops::Range<usize>),
    ) {
        assert_eq!(packed.len(), self.len(), "pack: length of the packed operand");
        for p in 0..self.count() {
            let (width, columns, first) = (self.width_of(p), self.columns(p), p * self.width);
            let panel = &mut packed[self.offset(p)..][..width * (self.depth + 1)];
            if columns < width {
                for row in panel.chunks_exact_mut(width) {
                    row[columns..].fill(0.0);
                }
            }
            let (head, rows) = panel.split_at_mut(width);
            for (column, x) in head[..columns].iter_mut().enumerate() {
                *x = bias(first + column);
            }
            fill(rows, width, first..first + columns);
        }
    }

    /// Packs an operand in memory: element `(tap * inner + at, column)` lies at `strides · [tap, at, column]`.
    ///
    /// As [`pack`](Self::pack), but in the order of the source, which is read from memory once: packing is most of
    /// what loading a model takes.
    pub(crate) fn pack_strided(
        &self,
        packed: &mut [f32],
        bias: impl Fn(usize) -> f32,
        source: &[f32],
        [taps, inner]: [usize; 2],
        strides: [usize; 3],
    ) {
        let [tap_stride, stride, column_stride] = strides;
        debug_assert_eq!(taps * inner, self.depth);
        self.pack_panels(packed, bias, |rows, width, columns| {
            if column_stride == 1 {
                for (row, group) in rows.chunks_exact_mut(width).enumerate() {
                    let start = row / inner * tap_stride + row % inner * stride + columns.start;
                    group[..columns.len()].copy_from_slice(&source[start..][..columns.len()]);
                }
                return;
            }
            // as many rows at a time as stay in the first-level cache
            for first in (0..inner).step_by(PACKED_ROWS.div_ceil(taps)) {
                let block = first..inner.min(first + PACKED_ROWS.div_ceil(taps));
                for (x, column) in columns.clone().enumerate() {
                    let source = &source[column * column_stride..];
                    for at in block.clone() {
                        for tap in 0..taps {
                            rows[(tap * inner + at) * width + x] = source[tap * tap_stride + at * stride];
                        }
                    }
                }
            }
        });
    }
}

/// Rows of a panel that packing writes at a time: with cache lines of two vectors each, half of a first-level cache.
const PACKED_ROWS: usize = 128;

/// What a tile prefetches while it computes: its part of the next panel, some of it at each word of the product, so that
/// all tiles of a block together fetch it no faster than it is needed.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    at: *const u8,
    /// Bytes at every second word.
    step: usize,
}

impl Ahead {
    /// The part of tile `tile` of `tiles` of `bytes` at `next`, in a product of `words` words.
    #[inline(always)]
    pub(crate) fn part(next: *const f32, bytes: usize, words: usize, tile: usize, tiles: usize) -> Self {
        let step = (2 * bytes).div_ceil((words * tiles).max(1));
        let at = next.cast::<u8>().wrapping_add(tile * words * step / 2);
        Self { at, step }
    }

    /// Nothing but what the tile reads anyway.
    #[inline(always)]
    pub(crate) fn nothing(panel: *const f32) -> Self {
        let at = panel.cast();
        Self { at, step: 0 }
    }

    /// From word `words` on.
    #[inline(always)]
    fn after(self, words: usize) -> Self {
        let at = self.at.wrapping_add(words * self.step / 2);
        Self { at, ..self }
    }
}

/// What a tile needs beside its const parameters.
#[derive(Clone, Copy)]
struct Args<A, E> {
    rows: *const *const A,
    taps: usize,
    k: usize,
    /// In elements; 1 where a word holds several.
    a_step: usize,
    panel: *const f32,
    /// The unit is a word.
    b_step: usize,
    bias: *const f32,
    ahead: Ahead,
    out: *mut E,
    out_stride: usize,
    residual: *const A,
    residual_stride: usize,
    residual_last: bool,
    columns: usize,
    scale: f32,
    low: f32,
    high: f32,
}

impl<A, E> Args<A, E> {
    /// The same with results elsewhere.
    #[inline(always)]
    fn to<F>(self, out: *mut F, out_stride: usize) -> Args<A, F> {
        Args {
            rows: self.rows,
            taps: self.taps,
            k: self.k,
            a_step: self.a_step,
            panel: self.panel,
            b_step: self.b_step,
            bias: self.bias,
            ahead: self.ahead,
            out,
            out_stride,
            residual: self.residual,
            residual_stride: self.residual_stride,
            residual_last: self.residual_last,
            columns: self.columns,
            scale: self.scale,
            low: self.low,
            high: self.high,
        }
    }
}

/// Results of the largest tile: 12 rows of two vectors of 16.
const MOST_SUMS: usize = 12 * 32;

/// A tile of `MR` rows and `NV` vectors of columns.
struct Tile<A, E, const MR: usize, const NV: usize>(Args<A, E>);

impl<A: Element, E: Load, const MR: usize, const NV: usize> Kernel for Tile<A, E, MR, NV> {
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
            for column in (0..NV * S::LANES).step_by(64 / size_of::<E>()) {
                s.prefetch(t.out.wrapping_add(r * t.out_stride + column).cast_const().cast());
            }
        }
        if !t.residual.is_null() {
            for r in 0..MR {
                for column in (0..NV * S::LANES).step_by(64 / size_of::<A>()) {
                    s.prefetch(t.residual.wrapping_add(r * t.residual_stride + column).cast());
                }
            }
        }
        // SAFETY: the block holds MR pointers per tap to k values, a_step apart; the panel has a group of NV vectors,
        // b_step apart, for each word of each tap.
        unsafe {
            let (p, rows, panel) = (A::product(s), t.rows.cast(), t.panel.cast());
            let depth = (taps, k / A::PER_WORD, a_step * 4);
            let b_step = b_step * <A::Product<S> as Product>::PANEL_BYTES;
            let rest = !k.is_multiple_of(A::PER_WORD);
            accumulate_in_pieces(p, rows, depth, rest, panel, b_step, ahead, &mut acc);
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
                    unsafe { s.write(out.add(v * S::LANES), x, S::LANES) };
                }
                out = out.wrapping_add(t.out_stride);
            }
        } else {
            for acc in &acc {
                for (v, &x) in acc.iter().enumerate() {
                    let n = if v + 1 == NV { last } else { S::LANES };
                    // SAFETY: the block has MR output rows of `columns` values.
                    unsafe { s.write(out.add(v * S::LANES), x, n) };
                }
                out = out.wrapping_add(t.out_stride);
            }
        }
    }
}

/// Words that are summed up in one chain: longer ones in pieces, so that rounding errors grow with the root of the depth.
pub(crate) const LONGEST_CHAIN: usize = 256;

/// [`accumulate`] in pieces, whose sums are added up. With `rest`, each tap ends with the first element of one more word,
/// which has a group of its own.
///
/// # Safety
/// As [`accumulate`], with that element and group.
#[inline(always)]
unsafe fn accumulate_in_pieces<S: Simd, P: Product<S = S, Sum = S::F>, const MR: usize, const NV: usize>(
    p: P,
    rows: *const *const u8,
    (taps, words, a_step): (usize, usize, usize),
    rest: bool,
    panel: *const u8,
    b_step: usize,
    ahead: Ahead,
    acc: &mut [[S::F; NV]; MR],
) {
    let s = p.simd();
    let (tap_step, word_step) = if words > LONGEST_CHAIN {
        (1, words.div_ceil(words.div_ceil(LONGEST_CHAIN)))
    } else {
        (LONGEST_CHAIN / words.max(1), words)
    };
    let in_pieces = taps > tap_step || words > word_step;
    let groups = words + usize::from(rest);
    let mut total = [[s.splat(0.0); NV]; MR];
    let (mut tap, mut word) = (0, 0);
    loop {
        let (some_taps, some_words) = (tap_step.min(taps - tap), word_step.min(words - word));
        let ends_tap = word + some_words == words;
        // SAFETY: the piece lies within what the caller promises.
        unsafe {
            let rows = rows.add(tap * MR);
            let panel = panel.wrapping_add((tap * groups + word) * b_step);
            let depth = (some_taps, some_words, a_step);
            let ahead = ahead.after(tap * words + word);
            accumulate_from(
                p,
                rows,
                depth,
                word * a_step,
                rest && ends_tap,
                panel,
                b_step,
                ahead,
                acc,
            );
        }
        word += some_words;
        if ends_tap {
            (tap, word) = (tap + some_taps, 0);
        }
        if tap >= taps {
            break;
        }
        for (total, acc) in total.iter_mut().zip(acc.iter()) {
            for (total, x) in total.iter_mut().zip(acc) {
                *total = s.add(*total, *x);
            }
        }
        *acc = [[s.splat(0.0); NV]; MR];
    }
    if in_pieces {
        for (total, acc) in total.iter().zip(acc) {
            for (total, x) in total.iter().zip(acc) {
                *x = s.add(*total, *x);
            }
        }
    }
}

/// The product of a tile: adds `taps` times `words` products of row words and panel words to `acc`.
///
/// # Safety
/// `rows` holds `MR` pointers per tap, each to `words` words `a_step` bytes apart; `panel` holds a group of `NV`
/// vectors of words for each of them, `b_step` bytes apart.
#[inline(always)]
pub(crate) unsafe fn accumulate<P: Product, const MR: usize, const NV: usize>(
    p: P,
    rows: *const *const u8,
    (taps, words, a_step): (usize, usize, usize),
    panel: *const u8,
    b_step: usize,
    ahead: Ahead,
    acc: &mut [[P::Sum; NV]; MR],
) {
    // SAFETY: as the caller promises.
    unsafe {
        accumulate_from(
            p,
            rows,
            (taps, words, a_step),
            0,
            false,
            panel,
            b_step,
            ahead,
            acc,
        )
    };
}

/// [`accumulate`] from so many bytes behind each row pointer on, and with `rest` the first element of one more word a tap.
///
/// # Safety
/// As [`accumulate`], of the words from there on, with that element and its group.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn accumulate_from<P: Product, const MR: usize, const NV: usize>(
    p: P,
    rows: *const *const u8,
    (taps, words, a_step): (usize, usize, usize),
    first: usize,
    rest: bool,
    panel: *const u8,
    b_step: usize,
    ahead: Ahead,
    acc: &mut [[P::Sum; NV]; MR],
) {
    let s = p.simd();
    let mut b = panel;
    let Ahead { at: mut next, step } = ahead;
    for tap in 0..taps {
        // SAFETY: the caller promises MR pointers per tap.
        let a: [*const u8; MR] = unsafe { rows.add(tap * MR).cast::<[*const u8; MR]>().read() };
        let mut at = first;
        macro_rules! word {
            ($at:expr, $b:expr) => {
                // SAFETY: the caller promises a group of NV vectors for each word.
                let mut bv = [unsafe { p.panel($b) }; NV];
                for (v, x) in bv.iter_mut().enumerate().skip(1) {
                    // SAFETY: as above.
                    *x = unsafe { p.panel($b.add(v * P::S::LANES * P::PANEL_BYTES)) };
                }
                for (row, acc) in a.iter().zip(acc.iter_mut()) {
                    // SAFETY: the caller promises `words` words, a_step bytes apart, at each row pointer.
                    let x = unsafe { p.broadcast(row.add($at)) };
                    for (acc, &b) in acc.iter_mut().zip(&bv) {
                        *acc = p.dot(*acc, x, b);
                    }
                }
            };
        }
        let mut left = words;
        let group = NV * P::S::LANES * P::PANEL_BYTES;
        if a_step == 4 && b_step == group {
            // distances that the compiler knows take no instructions
            while left >= 4 {
                s.prefetch(next.cast());
                word!(at, b);
                word!(at + 4, b.wrapping_add(group));
                s.prefetch(next.wrapping_add(step).cast());
                word!(at + 8, b.wrapping_add(2 * group));
                word!(at + 12, b.wrapping_add(3 * group));
                next = next.wrapping_add(2 * step);
                at = unfolded(at + 16);
                b = b.wrapping_add(4 * group);
                left -= 4;
            }
        }
        for _ in 0..left {
            word!(at, b);
            at = unfolded(at + a_step);
            b = b.wrapping_add(b_step);
        }
        if rest {
            for (row, acc) in a.iter().zip(acc.iter_mut()) {
                // SAFETY: the caller promises one more element.
                let x = unsafe { p.broadcast_first(row.add(at)) };
                for (v, acc) in acc.iter_mut().enumerate() {
                    // SAFETY: the caller promises a group of NV vectors for it.
                    let b = unsafe { p.panel(b.add(v * P::S::LANES * P::PANEL_BYTES)) };
                    *acc = p.dot(*acc, x, b);
                }
            }
            b = b.wrapping_add(b_step);
        }
    }
}

/// The same number, of which the compiler knows nothing. It would otherwise step a pointer a row instead of the one
/// offset that they share, and those additions take the ports that multiply: 10 to 20 % of a product's time.
#[inline(always)]
fn unfolded(mut offset: usize) -> usize {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: no instruction is in it.
    unsafe {
        std::arch::asm!("/* {} */", inout(reg) offset, options(pure, nomem, nostack, preserves_flags));
    }
    offset
}

/// Adds the residual's tile to the accumulators.
#[inline(always)]
fn add_residual<S: Simd, A: Load, E, const MR: usize, const NV: usize>(
    s: S,
    t: &Args<A, E>,
    full: bool,
    last: usize,
    acc: &mut [[S::F; NV]; MR],
) {
    let mut from = t.residual;
    if full {
        for acc in acc {
            for (v, x) in acc.iter_mut().enumerate() {
                // SAFETY: the residual has MR rows of NV vectors.
                *x = s.add(*x, unsafe { s.read(from.add(v * S::LANES), S::LANES) });
            }
            from = from.wrapping_add(t.residual_stride);
        }
    } else {
        for acc in acc {
            for (v, x) in acc.iter_mut().enumerate() {
                let n = if v + 1 == NV { last } else { S::LANES };
                // SAFETY: the residual has MR rows of `columns` values.
                *x = s.add(*x, unsafe { s.read(from.add(v * S::LANES), n) });
            }
            from = from.wrapping_add(t.residual_stride);
        }
    }
}

#[inline(always)]
fn tile<S: Simd, A: Element, E: Load, const NV: usize>(s: S, rows: usize, args: Args<A, E>) {
    macro_rules! rows {
        ($($n:literal)*) => {
            match rows {
                $($n if const { $n <= S::ROWS && $n <= A::MOST_ROWS } => s.enter(Tile::<A, E, $n, NV>(args)),)*
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
    /// The same in a thread's own memory: what follows the last one is another thread's.
    Own(*const f32),
    /// The one panel of the block in place: its first value, and the values between two rows. It has no bias and
    /// must be whole vectors wide.
    InPlace(*const f32, usize),
}

/// A block of rows times a range of panels.
pub(crate) struct Block<A = f32, E = f32> {
    /// Rows of the block.
    pub(crate) rows: usize,
    /// Row pointers `[tile][tap][row of the tile]`, where tiles are those of [`tile_range`].
    pub(crate) pointers: *const *const A,
    pub(crate) taps: usize,
    pub(crate) k: usize,
    /// Elements between two values of a row; 1 for bf16, whose words are pairs of neighbours.
    pub(crate) a_step: usize,
    pub(crate) panels: Panels,
    pub(crate) range: Range<usize>,
    pub(crate) right: Right,
    /// Output of row 0, column 0 of panel 0.
    pub(crate) out: *mut E,
    pub(crate) out_stride: usize,
    /// As `out`, in elements of the operand, or null.
    pub(crate) residual: *const A,
    pub(crate) residual_stride: usize,
    pub(crate) scale: f32,
    pub(crate) epilogue: Epilogue,
}

impl<A: Element, E: Load> Kernel for &Block<A, E> {
    type Output = ();
    /// The caller of [`multiply`] has promised what this needs.
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let tiles = tiles(self.rows, S::ROWS.min(A::MOST_ROWS));
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
                Right::Packed(start) | Right::Own(start) => {
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
            let has_next = p + 1 < self.range.end || matches!(self.right, Right::Packed(_));
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
                // Fetching what another thread is about to write would have it wait for each line.
                let ahead = if has_next {
                    let words = self.taps * (self.k / A::PER_WORD);
                    Ahead::part(panel.wrapping_add(size), size * 4, words, tile_index, tiles)
                } else {
                    Ahead::nothing(panel)
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
                    // the first addend of a late activation joins in the tile
                    residual: if later && residual_last {
                        std::ptr::null()
                    } else {
                        residual
                    },
                    residual_stride: self.residual_stride,
                    residual_last,
                    columns,
                    scale: self.scale,
                    low,
                    high,
                };
                let wide = width > S::LANES;
                let added = if residual_last { residual } else { std::ptr::null() };
                if later {
                    // The sums wait where they are not rounded before the function sees them.
                    let mut sums = [const { std::mem::MaybeUninit::<f32>::uninit() }; MOST_SUMS];
                    let sums = sums.as_mut_ptr().cast::<f32>();
                    let stride = S::LANES * S::COLUMNS;
                    const { assert!(S::ROWS * S::LANES * S::COLUMNS <= MOST_SUMS) };
                    let to_sums = args.to(sums, stride);
                    if wide {
                        tile::<S, A, f32, 2>(s, rows.len(), to_sums);
                    } else {
                        tile::<S, A, f32, 1>(s, rows.len(), to_sums);
                    }
                    s.enter(&Rows {
                        f: activation,
                        rows: rows.len(),
                        columns,
                        input: sums.cast_const(),
                        input_stride: stride,
                        out,
                        out_stride: self.out_stride,
                        added,
                        added_stride: self.residual_stride,
                    });
                } else if wide {
                    tile::<S, A, E, 2>(s, rows.len(), args);
                } else {
                    tile::<S, A, E, 1>(s, rows.len(), args);
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
pub(crate) unsafe fn multiply<A: Element, E: Load>(isa: Isa, block: &Block<A, E>) {
    if block.rows > 0 {
        A::enter_with::<E, _, _>(isa, block);
    }
}
