//! The multiplication tile of codes: the product of [`crate::tile::accumulate`], and the conversion
//! of its sums.
//!
//! 1. A panel is `[bias as i32][factor][shift][minus the zero that weights keep]`, then one group of words per four values of each tap.
//! 2. Sums become codes in registers. Where something is added, and floats and sums, go over a small array, so that the
//!    code for each height of a tile stays short.
#![allow(unsafe_code)]

use super::int8::CodeRange;
use crate::Isa;
use crate::isa::Simd;
use crate::isa::dot::{ByteKernel, Bytes, Rounding};
use crate::tile::{Ahead, Panels, accumulate, tile_range, tiles};
use std::mem::MaybeUninit;
use std::ops::Range;

/// The most rows of a tile.
const MOST_ROWS: usize = 12;
/// The most columns of a tile.
const MOST_COLUMNS: usize = 32;

/// Rows of a panel in front of its words.
pub(crate) const HEADER: usize = 4;

/// Rows of a full tile.
pub(crate) fn tile_rows(isa: Isa) -> usize {
    struct Rows;
    impl ByteKernel for Rows {
        type Output = usize;
        #[inline(always)]
        fn run<B: Bytes>(self, _: B) -> usize {
            B::ROWS
        }
    }
    isa.run_bytes(Rows)
}

/// What [`crate::isa::dot::Product::dot`] takes off each code.
pub(crate) fn offset(isa: Isa) -> i32 {
    struct Offset;
    impl ByteKernel for Offset {
        type Output = i32;
        #[inline(always)]
        fn run<B: Bytes>(self, _: B) -> i32 {
            B::OFFSET
        }
    }
    isa.run_bytes(Offset)
}

/// A tensor that is added to a product before its result is rounded.
#[derive(Debug, Clone, Copy)]
pub struct Added<'a> {
    /// Its codes, of the result's shape and stride.
    pub codes: &'a [u8],
    /// Its scale relative to the result's.
    pub factor: f32,
    /// A constant added, too: minus `factor` times its zero point.
    pub shift: f32,
    /// The codes to which the product itself is rounded first, and their scale relative to the
    /// result's.
    pub rounded: (CodeRange, f32),
}

/// The output of a product.
#[derive(Debug)]
pub enum Output<'a> {
    /// Rounded codes.
    Codes(&'a mut [u8], CodeRange),
    /// `sum * factor + shift`, not below and not above the limits.
    Floats(&'a mut [f32], f32, f32),
    /// The sums.
    Sums(&'a mut [i32]),
}

/// [`Output`] and [`Added`] as addresses and factors.
#[derive(Clone, Copy)]
pub(crate) struct Finish {
    pub(crate) kind: Kind,
    /// Limits of the product in its own steps, less its zero; of the floats otherwise.
    pub(crate) low: f32,
    pub(crate) high: f32,
    /// Limits of the result less its zero.
    pub(crate) out_low: f32,
    pub(crate) out_high: f32,
    pub(crate) zero: i32,
    /// Codes to add, or null.
    pub(crate) added: *const u8,
    pub(crate) factor: f32,
    pub(crate) shift: f32,
    /// Step of the product in steps of the result.
    pub(crate) own: f32,
    /// Elements between two rows, of the output and of what is added.
    pub(crate) stride: usize,
    /// The sum of each row less its zeros, where weights keep a zero; or null.
    pub(crate) row_sums: *const i32,
}

// SAFETY: addresses and numbers only; code that writes through the addresses has its own proof.
unsafe impl Sync for Finish {}

/// The element type of the output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Codes(*mut u8),
    Floats(*mut f32),
    Sums(*mut i32),
}

impl Finish {
    /// The same from element `by` of output and addend on.
    pub(crate) fn skip(self, by: usize) -> Self {
        let kind = match self.kind {
            Kind::Codes(p) => Kind::Codes(p.wrapping_add(by)),
            Kind::Floats(p) => Kind::Floats(p.wrapping_add(by)),
            Kind::Sums(p) => Kind::Sums(p.wrapping_add(by)),
        };
        let added = if self.added.is_null() {
            self.added
        } else {
            self.added.wrapping_add(by)
        };
        Self { kind, added, ..self }
    }

    /// The same from a row on, of the sums of rows.
    pub(crate) fn skip_row_sums(self, rows: usize) -> Self {
        let row_sums = if self.row_sums.is_null() {
            self.row_sums
        } else {
            self.row_sums.wrapping_add(rows)
        };
        Self { row_sums, ..self }
    }

    /// Where codes go to which nothing is added.
    fn plain_codes(&self) -> Option<*mut u8> {
        match self.kind {
            Kind::Codes(out) if self.added.is_null() => Some(out),
            _ => None,
        }
    }

    pub(crate) fn new(output: &mut Output<'_>, added: Option<Added<'_>>, stride: usize) -> Self {
        let (kind, codes) = match output {
            Output::Codes(out, codes) => (Kind::Codes(out.as_mut_ptr()), *codes),
            Output::Floats(out, low, high) => {
                let codes = CodeRange::all(0);
                let (low, high, kind) = (*low, *high, Kind::Floats(out.as_mut_ptr()));
                return Self {
                    low,
                    high,
                    ..Self::of(kind, codes, added, stride)
                };
            }
            Output::Sums(out) => (Kind::Sums(out.as_mut_ptr()), CodeRange::all(0)),
        };
        Self::of(kind, codes, added, stride)
    }

    fn of(kind: Kind, codes: CodeRange, added: Option<Added<'_>>, stride: usize) -> Self {
        let (out_low, out_high) = codes.limits();
        let (low, high) = added.map_or((out_low, out_high), |added| added.rounded.0.limits());
        Self {
            kind,
            low,
            high,
            out_low,
            out_high,
            zero: i32::from(codes.zero),
            added: added.map_or(std::ptr::null(), |added| added.codes.as_ptr()),
            factor: added.map_or(0.0, |added| added.factor),
            shift: added.map_or(0.0, |added| added.shift),
            own: added.map_or(1.0, |added| added.rounded.1),
            stride,
            row_sums: std::ptr::null(),
        }
    }
}

/// The sums of rows less their zeros, by the pointers that [`Block`] has.
pub(crate) struct RowSums {
    pub(crate) rows: usize,
    pub(crate) tile_rows: usize,
    pub(crate) pointers: *const *const u8,
    pub(crate) taps: usize,
    /// Codes of a tap.
    pub(crate) k: usize,
    pub(crate) input_zero: u8,
    /// Room for a sum of each row.
    pub(crate) sums: *mut i32,
}

impl ByteKernel for RowSums {
    type Output = ();
    #[inline(always)]
    fn run<B: Bytes>(self, b: B) {
        let (s, width) = (b.simd(), 4 * B::S::LANES);
        let ones = s.splat_i(0x0101_0101);
        let reads = (self.taps * self.k.div_ceil(width) * width) as i32;
        let zeros = (self.taps * self.k) as i32 * i32::from(self.input_zero);
        let tiles = tiles(self.rows, self.tile_rows);
        let mut pointers = self.pointers;
        for index in 0..tiles {
            let rows = tile_range(self.rows, tiles, index);
            for r in 0..rows.len() {
                let mut acc = s.splat_i(0);
                for tap in 0..self.taps {
                    // SAFETY: a tile has a pointer for each tap and row, to `k` codes.
                    let from = unsafe { *pointers.add(tap * rows.len() + r) };
                    let mut i = 0;
                    while i < self.k {
                        // SAFETY: as above.
                        acc = b.dot(acc, unsafe { b.read(from.add(i), self.k - i) }, ones);
                        i += width;
                    }
                }
                let mut lanes = [0f32; 16];
                // SAFETY: no vector has more lanes.
                unsafe { s.store(lanes.as_mut_ptr(), s.to_floats(acc)) };
                let sum: i32 = lanes[..B::S::LANES].iter().map(|x| x.to_bits() as i32).sum();
                // SAFETY: there is room for each row's sum.
                unsafe {
                    self.sums
                        .add(rows.start + r)
                        .write(sum + B::OFFSET * reads - zeros)
                };
            }
            pointers = pointers.wrapping_add(self.taps * rows.len());
        }
    }
}

#[derive(Clone, Copy)]
struct Args {
    rows: *const *const u8,
    taps: usize,
    words: usize,
    /// The panel's header.
    panel: *const f32,
    width: usize,
    columns: usize,
    ahead: Ahead,
    finish: Finish,
    /// Room for a full tile of floats.
    spare: *mut f32,
}

/// A tile of `MR` rows and `NV` vectors of columns.
struct Tile<const MR: usize, const NV: usize>(Args);

impl<const MR: usize, const NV: usize> ByteKernel for Tile<MR, NV> {
    type Output = ();
    #[inline(always)]
    fn run<B: Bytes>(self, b: B) {
        let s = b.simd();
        let (t, lanes) = (self.0, B::S::LANES);
        let finish = t.finish;
        let mut start = [s.splat_i(0); NV];
        for (v, x) in start.iter_mut().enumerate() {
            // SAFETY: the header of a panel is HEADER rows of NV vectors.
            *x = s.bits(unsafe { s.load(t.panel.add(v * lanes)) });
        }
        let mut acc = [start; MR];
        if !finish.row_sums.is_null() {
            for (v, start) in start.into_iter().enumerate() {
                // SAFETY: the header of a panel is HEADER rows of NV vectors.
                let zero = unsafe { s.load(t.panel.add(3 * t.width + v * lanes)) };
                for (r, acc) in acc.iter_mut().enumerate() {
                    // SAFETY: there is a sum for each row.
                    let sum = unsafe { *finish.row_sums.add(r) };
                    acc[v] = s.add_i(start, s.to_int(s.mul(zero, s.splat(sum as f32))));
                }
            }
        }
        if !finish.added.is_null() {
            for r in 0..MR {
                s.prefetch(finish.added.wrapping_add(r * finish.stride).cast());
            }
        }
        // SAFETY: the block holds MR pointers per tap, each to `words` words; the panel has as many groups.
        unsafe {
            accumulate(
                b,
                t.rows,
                (t.taps, t.words, 4),
                t.panel.add(HEADER * t.width).cast(),
                t.width * 4,
                t.ahead,
                &mut acc,
            );
        }
        // Short passes with constant indices only: an index that is not constant would keep the accumulators in memory,
        // in the product's loop too.
        let mut to = t.spare;
        if matches!(finish.kind, Kind::Sums(_)) {
            // an addition, because a plain copy would be a copy of memory
            let none = s.splat_i(finish.zero);
            for acc in &acc {
                for &x in acc {
                    // SAFETY: the spare memory holds a full tile.
                    unsafe { s.store(to, s.to_floats(s.add_i(x, none))) };
                    to = to.wrapping_add(lanes);
                }
            }
            return;
        }
        let (low, high) = (s.splat(finish.low), s.splat(finish.high));
        let zero = s.splat_i(finish.zero);
        let mut factors = [low; NV];
        let mut shifts = [low; NV];
        for (v, (factor, shift)) in factors.iter_mut().zip(&mut shifts).enumerate() {
            // SAFETY: the header of a panel is HEADER rows of NV vectors.
            *factor = unsafe { s.load(t.panel.add(t.width + v * lanes)) };
            // SAFETY: as above.
            *shift = unsafe { s.load(t.panel.add(2 * t.width + v * lanes)) };
        }
        if let Some(out) = finish.plain_codes() {
            let by = Rounding { low, high, zero };
            for first in 0..(MR * NV).div_ceil(4) {
                let mut x = [low; 4];
                for (i, x) in x.iter_mut().enumerate() {
                    let at = (first * 4 + i).min(MR * NV - 1);
                    let (sum, v) = (acc[at / NV][at % NV], at % NV);
                    *x = s.mul_add(s.to_float(sum), factors[v], shifts[v]);
                }
                let (row, count) = (first * 4 / NV, (MR * NV - first * 4).min(4));
                // SAFETY: the output has MR rows of `columns` codes.
                unsafe {
                    let to = out.add(row * finish.stride);
                    b.store_codes::<NV>(to, finish.stride, x, by, t.columns, count);
                }
            }
            return;
        }
        for acc in &acc {
            for ((&x, &factor), &shift) in acc.iter().zip(&factors).zip(&shifts) {
                let x = s.mul_add(s.to_float(x), factor, shift);
                // SAFETY: the spare memory holds a full tile.
                unsafe { s.store(to, s.min(s.max(x, low), high)) };
                to = to.wrapping_add(lanes);
            }
        }
    }
}

/// Brings a tile's floats or sums to their output: `rows` rows of `NV` vectors, of which `columns` values count.
///
/// # Safety
/// `from` holds the rows, and the output, and what is added, have as many rows of `columns` values.
#[inline(always)]
unsafe fn finish_tile<B: Bytes, const NV: usize>(
    b: B,
    finish: &Finish,
    from: *const f32,
    rows: usize,
    columns: usize,
) {
    let (s, lanes, width) = (b.simd(), B::S::LANES, NV * B::S::LANES);
    let rounding = Rounding {
        low: s.splat(finish.out_low),
        high: s.splat(finish.out_high),
        zero: s.splat_i(finish.zero),
    };
    let (own, by, plus) = (s.splat(finish.own), s.splat(finish.factor), s.splat(finish.shift));
    // a macro and not a closure: only code that is part of this function is compiled for the instruction set
    macro_rules! each {
        (|$at:ident, $x:ident, $n:ident| $put:expr) => {
            for r in 0..rows {
                let (row, first) = (from.wrapping_add(r * width), r * finish.stride);
                let mut c = 0;
                while c + lanes <= columns {
                    // SAFETY: rows of `width` values, a multiple of the lanes.
                    let ($at, $n, $x) = (first + c, lanes, unsafe { s.load(row.add(c)) });
                    $put;
                    c += lanes;
                }
                if c < columns {
                    // SAFETY: as above.
                    let ($at, $n, $x) = (first + c, columns - c, unsafe { s.load(row.add(c)) });
                    $put;
                }
            }
        };
    }
    match finish.kind {
        Kind::Codes(out) => {
            macro_rules! sums {
                (|$column:ident| $n:expr) => {
                    for first in (0..rows * NV).step_by(4) {
                        let mut x = [plus; 4];
                        for (i, x) in x.iter_mut().enumerate() {
                            let at = (first + i).min(rows * NV - 1);
                            let $column = at % NV * lanes;
                            let more = finish.added.wrapping_add(at / NV * finish.stride + $column);
                            // SAFETY: what is added has the output's shape.
                            let more = unsafe { b.widen(more, $n) };
                            // SAFETY: rows of NV vectors follow each other.
                            let own_steps = unsafe { s.load(from.add(at * lanes)) };
                            let more = s.mul_add(s.to_float(more), by, plus);
                            *x = s.mul_add(s.round(own_steps), own, more);
                        }
                        let (row, count) = (first / NV, (rows * NV - first).min(4));
                        // SAFETY: the output has `rows` rows of `columns` codes.
                        unsafe {
                            let to = out.add(row * finish.stride);
                            b.store_codes::<NV>(to, finish.stride, x, rounding, columns, count);
                        }
                    }
                };
            }
            if columns == width {
                sums!(|_column| lanes);
            } else {
                sums!(|column| columns - column);
            }
        }
        Kind::Floats(out) => each!(|at, x, n| {
            // SAFETY: n values of this row remain.
            unsafe { s.write(out.add(at), x, n) }
        }),
        Kind::Sums(out) => each!(|at, x, n| {
            // SAFETY: n values of this row remain; a float is as wide as a sum, and its bits are only moved.
            unsafe { s.write(out.add(at).cast::<f32>(), x, n) }
        }),
    }
}

#[inline(always)]
fn tile<B: Bytes, const NV: usize>(b: B, rows: usize, args: Args) {
    macro_rules! rows {
        ($($n:literal)*) => {
            match rows {
                $($n if const { $n <= B::ROWS } => b.enter(Tile::<$n, NV>(args)),)*
                _ => unreachable!("a tile has 1 to ROWS rows"),
            }
        };
    }
    rows!(1 2 3 4 5 6 7 8 9 10 11 12)
}

/// A tile, and what it left to [`finish_tile`].
///
/// # Safety
/// As [`multiply`], of a tile.
#[inline(always)]
unsafe fn tile_and_finish<B: Bytes, const NV: usize>(b: B, rows: usize, args: Args) {
    tile::<B, NV>(b, rows, args);
    if args.finish.plain_codes().is_none() {
        // SAFETY: the tile stored its rows; the caller promises the outputs.
        unsafe { finish_tile::<B, NV>(b, &args.finish, args.spare, rows, args.columns) };
    }
}

/// Turns sums that the caller computed into results: `rows` rows of `width` columns.
#[cfg(target_arch = "x86_64")]
pub(super) struct FinishRows {
    /// The panel's header.
    pub(super) panel: *const f32,
    pub(super) width: usize,
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// The sums, in whose place floats are put.
    pub(super) sums: *mut f32,
    pub(super) finish: Finish,
}

#[cfg(target_arch = "x86_64")]
impl FinishRows {
    /// # Safety
    /// The sums and the header are there, and the outputs, and what is added, have as many rows of `columns` values.
    pub(super) unsafe fn run_on(self, isa: Isa) {
        isa.run_bytes(self);
    }

    #[inline(always)]
    fn columns_of<B: Bytes, const NV: usize>(self, b: B) {
        let (s, lanes, finish) = (b.simd(), B::S::LANES, self.finish);
        if !matches!(finish.kind, Kind::Sums(_)) {
            let (low, high) = (s.splat(finish.low), s.splat(finish.high));
            let mut header = [[low; NV]; 3];
            for (row, header) in header.iter_mut().enumerate() {
                for (v, x) in header.iter_mut().enumerate() {
                    let at = (row + 1) * self.width + v * lanes;
                    // SAFETY: the header of a panel is HEADER rows of NV vectors.
                    *x = unsafe { s.load(self.panel.add(at)) };
                }
            }
            let [factors, shifts, zeros] = header;
            let plain = finish.plain_codes();
            let by = Rounding {
                low,
                high,
                zero: s.splat_i(finish.zero),
            };
            for first in (0..self.rows * NV).step_by(4) {
                let mut x = [low; 4];
                for (i, x) in x.iter_mut().enumerate() {
                    let at = (first + i).min(self.rows * NV - 1);
                    // SAFETY: rows of NV vectors follow each other.
                    let mut sum = s.bits(unsafe { s.load(self.sums.add(at * lanes)) });
                    if !finish.row_sums.is_null() {
                        // SAFETY: there is a sum for each row.
                        let row = unsafe { *finish.row_sums.add(at / NV) };
                        sum = s.add_i(sum, s.to_int(s.mul(zeros[i % NV], s.splat(row as f32))));
                    }
                    *x = s.mul_add(s.to_float(sum), factors[i % NV], shifts[i % NV]);
                }
                let count = (self.rows * NV - first).min(4);
                if let Some(out) = plain {
                    // SAFETY: the output has `rows` rows of `columns` codes.
                    unsafe {
                        let to = out.add(first / NV * finish.stride);
                        b.store_codes::<NV>(to, finish.stride, x, by, self.columns, count);
                    }
                    continue;
                }
                for (i, &x) in x.iter().enumerate().take(count) {
                    // SAFETY: as above.
                    unsafe { s.store(self.sums.add((first + i) * lanes), s.min(s.max(x, low), high)) };
                }
            }
            if plain.is_some() {
                return;
            }
        }
        // SAFETY: the caller of `run_on` promised the outputs.
        unsafe { finish_tile::<B, NV>(b, &finish, self.sums, self.rows, self.columns) };
    }
}

#[cfg(target_arch = "x86_64")]
impl ByteKernel for FinishRows {
    type Output = ();
    #[inline(always)]
    fn run<B: Bytes>(self, b: B) {
        if self.rows == 0 {
            return;
        }
        if self.width > B::S::LANES {
            self.columns_of::<B, 2>(b);
        } else {
            self.columns_of::<B, 1>(b);
        }
    }
}

/// A block of rows times a range of panels.
pub(crate) struct Block {
    pub(crate) rows: usize,
    /// Row pointers `[tile][tap][row of the tile]`, where tiles are those of [`tile_range`].
    pub(crate) pointers: *const *const u8,
    pub(crate) taps: usize,
    /// Words of a tap.
    pub(crate) words: usize,
    pub(crate) panels: Panels,
    pub(crate) range: Range<usize>,
    pub(crate) right: *const f32,
    /// From row 0 and column 0 of panel 0.
    pub(crate) finish: Finish,
}

impl ByteKernel for &Block {
    type Output = ();
    /// The caller of [`multiply`] has promised what this needs.
    #[inline(always)]
    fn run<B: Bytes>(self, b: B) {
        let tiles = tiles(self.rows, B::ROWS);
        let mut spare = MaybeUninit::<[f32; MOST_ROWS * MOST_COLUMNS]>::uninit();
        for p in self.range.clone() {
            let (columns, width) = (self.panels.columns(p), self.panels.width_of(p));
            let panel = self.right.wrapping_add(self.panels.offset(p));
            let size = width * (self.panels.depth + 1);
            let mut pointers = self.pointers;
            for index in 0..tiles {
                let rows = tile_range(self.rows, tiles, index);
                let finish = self
                    .finish
                    .skip(rows.start * self.finish.stride + p * self.panels.width)
                    .skip_row_sums(rows.start);
                let next = panel.wrapping_add(size);
                let words = self.taps * self.words;
                let ahead = if index < 2 {
                    Ahead::part(next, size * 4, words, index, 2)
                } else {
                    Ahead::nothing(panel)
                };
                let args = Args {
                    rows: pointers,
                    taps: self.taps,
                    words: self.words,
                    panel,
                    width,
                    columns,
                    ahead,
                    finish,
                    spare: spare.as_mut_ptr().cast(),
                };
                // SAFETY: the caller promises the outputs; the tile stored its rows in the spare memory before.
                unsafe {
                    if width > B::S::LANES {
                        tile_and_finish::<B, 2>(b, rows.len(), args);
                    } else {
                        tile_and_finish::<B, 1>(b, rows.len(), args);
                    }
                }
                pointers = pointers.wrapping_add(self.taps * rows.len());
            }
        }
    }
}

/// Multiplies one block.
///
/// # Safety
/// `pointers` holds `rows * taps` pointers, each to `words` readable words; `right` holds the panels of `range`;
/// outputs and, unless null, addends exist for every row and every column of those panels, and no other thread
/// touches these outputs.
pub(crate) unsafe fn multiply(isa: Isa, block: &Block) {
    if block.rows > 0 {
        isa.run_bytes(block);
    }
}
