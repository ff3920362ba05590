//! The transforms of image tiles, vectorised over channels: input tiles to points, products at points to output.
//!
//! 1. An input tile is `N` by `N` pixels, of which neighbours share two rows or columns; pixels outside the image
//!    are zeros. An output tile is `N - 2` by `N - 2` pixels, of which only those inside the output are written.
//! 2. Values at point `(i, j)` of all tiles of a block are one matrix `[tile][channel]`, `point_stride` floats
//!    behind the one before.
//! 3. A transform mixes pixels, so one infinity or NaN would spread over its tile: an output tile that is not
//!    finite is computed again, directly, from the weights that their own transform still holds.
//!
//! Not here: the multiplication, and how tiles are dealt out.
#![allow(unsafe_code)]

use super::points;
use crate::elementwise::unary::apply_rows;
use crate::isa::{Kernel, Simd};
use crate::math;
use crate::{Epilogue, Residual, Unary};

/// How tiles lie in images `[image][height][width]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    /// Input height and width.
    pub(super) input: [usize; 2],
    /// Output height and width.
    pub(super) output: [usize; 2],
    pub(super) pads: [usize; 2],
    /// Tiles down and across an image.
    pub(super) tiles: [usize; 2],
    /// Elements between two input pixels.
    pub(super) in_stride: usize,
    /// Elements between two output pixels.
    pub(super) out_stride: usize,
}

impl Grid {
    /// Image, and place in the grid.
    #[inline(always)]
    fn place(&self, tile: usize) -> (usize, [usize; 2]) {
        let [down, across] = self.tiles;
        (tile / across / down, [tile / across % down, tile % across])
    }

    /// The first input pixel of a tile (perhaps outside the image), and the rows and columns that are inside.
    #[inline(always)]
    fn patch<const N: usize>(&self, tile: usize) -> (isize, [[usize; 2]; 2]) {
        let (image, place) = self.place(tile);
        let [height, width] = self.input;
        let mut first = [0isize; 2];
        let mut inside = [[0; 2]; 2];
        for d in 0..2 {
            first[d] = (place[d] * (N - 2)) as isize - self.pads[d] as isize;
            let before = first[d].min(0).unsigned_abs().min(N);
            let end = (self.input[d] as isize - first[d]).clamp(before as isize, N as isize) as usize;
            inside[d] = [before, end];
        }
        let row = (image * height) as isize + first[0];
        let pixel = row * width as isize + first[1];
        (pixel * self.in_stride as isize, inside)
    }
}

/// Transforms `count` input tiles from tile `first` on.
pub(super) struct Input<const N: usize> {
    pub(super) grid: Grid,
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) channels: usize,
    pub(super) image: *const f32,
    /// `[point][tile][channel]`, of whole vectors of channels.
    pub(super) values: *mut f32,
    pub(super) tile_stride: usize,
    pub(super) point_stride: usize,
}

impl<const N: usize> Kernel for &Input<N> {
    type Output = ();
    /// The maker has promised an image of the grid's shape and room for the values.
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let zero = s.splat(0.0);
        let (line, pixel) = (self.grid.input[1] * self.grid.in_stride, self.grid.in_stride);
        // every element is written before it is read, anew for each tile
        let mut half = [[zero; N]; N];
        for tile in 0..self.count {
            let (at, [rows, columns]) = self.grid.patch::<N>(self.first + tile);
            let whole = rows == [0, N] && columns == [0, N];
            let patch = self.image.wrapping_offset(at);
            let to = self.values.wrapping_add(tile * self.tile_stride);
            let mut c = 0;
            while c < self.channels {
                let left = self.channels - c;
                for j in 0..N {
                    let from = patch.wrapping_add(j * pixel + c);
                    let mut x = [zero; N];
                    if whole && left >= S::LANES {
                        for (i, x) in x.iter_mut().enumerate() {
                            // SAFETY: the whole patch lies in the image, and a vector of channels remains.
                            *x = unsafe { s.load(from.wrapping_add(i * line)) };
                        }
                    } else if columns[0] <= j && j < columns[1] {
                        for (i, x) in x.iter_mut().enumerate() {
                            if rows[0] <= i && i < rows[1] {
                                // SAFETY: this pixel lies in the image, and `left` channels remain.
                                *x = unsafe { s.read(from.wrapping_add(i * line), left) };
                            }
                        }
                    }
                    let y = points::input::<S, N>(s, x);
                    for (half, &y) in half.iter_mut().zip(&y) {
                        half[j] = y;
                    }
                }
                for (i, &half) in half.iter().enumerate() {
                    let y = points::input::<S, N>(s, half);
                    for (j, &y) in y.iter().enumerate() {
                        // SAFETY: the values have whole vectors of channels for each tile and point.
                        unsafe { s.store(to.wrapping_add((i * N + j) * self.point_stride + c), y) };
                    }
                }
                c += S::LANES;
            }
        }
    }
}

/// Transforms the products of `count` tiles from tile `first` on, over one panel of output channels, and stores
/// `epilogue(products + bias, residual)`.
#[derive(Clone, Copy)]
pub(super) struct Output<const N: usize> {
    pub(super) grid: Grid,
    pub(super) first: usize,
    pub(super) count: usize,
    /// Output channels of the panel.
    pub(super) columns: usize,
    /// `[point][tile][column]`, of whole vectors of columns.
    pub(super) products: *const f32,
    pub(super) tile_stride: usize,
    pub(super) point_stride: usize,
    /// Whole vectors.
    pub(super) bias: *const f32,
    /// First output channel of the panel, pixel 0.
    pub(super) out: *mut f32,
    /// As `out`, or null.
    pub(super) residual: *const f32,
    pub(super) epilogue: Epilogue,
    /// What was multiplied, should it have to be done again: the image and its channels,
    pub(super) image: *const f32,
    pub(super) channels: usize,
    /// and the weights of the panel, `[point][channel][column]`, with the floats from one point to the next.
    pub(super) weights: *const f32,
    pub(super) weights_stride: usize,
}

/// What is applied in registers.
#[derive(Clone, Copy)]
struct Early {
    low: f32,
    high: f32,
    /// `-alpha` of a swish.
    swish: f32,
}

impl<const N: usize> Kernel for &Output<N> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (low, high) = (f32::NEG_INFINITY, f32::INFINITY);
        let none = Early {
            low,
            high,
            swish: 0.0,
        };
        match self.epilogue.activation {
            Unary::Identity => self.tiles::<S, false>(s, none, false),
            Unary::Relu => self.tiles::<S, false>(s, Early { low: 0.0, ..none }, false),
            Unary::Clip { low, high } => self.tiles::<S, false>(s, Early { low, high, ..none }, false),
            Unary::Swish { alpha } => self.tiles::<S, true>(
                s,
                Early {
                    swish: -alpha,
                    ..none
                },
                false,
            ),
            _ => self.tiles::<S, false>(s, none, true),
        }
    }
}

impl<const N: usize> Output<N> {
    #[inline(always)]
    fn tiles<S: Simd, const SWISH: bool>(&self, s: S, early: Early, later: bool) {
        let Grid {
            output: [height, width],
            out_stride,
            ..
        } = self.grid;
        let zero = s.splat(0.0);
        let residual_last = self.epilogue.residual == Residual::AfterActivation;
        let mut half = [[zero; N]; N];
        for tile in 0..self.count {
            let (image, [down, across]) = self.grid.place(self.first + tile);
            let (y0, x0) = (down * (N - 2), across * (N - 2));
            let (rows, columns) = ((height - y0).min(N - 2), (width - x0).min(N - 2));
            let pixel = ((image * height + y0) * width + x0) * out_stride;
            let out = self.out.wrapping_add(pixel);
            let residual = if self.residual.is_null() {
                self.residual
            } else {
                self.residual.wrapping_add(pixel)
            };
            let mut check = zero;
            let mut c = 0;
            while c < self.columns {
                let left = self.columns - c;
                let from = self.products.wrapping_add(tile * self.tile_stride + c);
                for j in 0..N {
                    let mut x = [zero; N];
                    for (i, x) in x.iter_mut().enumerate() {
                        // SAFETY: the products have whole vectors of columns for each tile and point.
                        *x = unsafe { s.load(from.wrapping_add((i * N + j) * self.point_stride)) };
                    }
                    let y = points::output::<S, N>(s, x);
                    for (half, &y) in half.iter_mut().zip(&y) {
                        half[j] = y;
                    }
                }
                // SAFETY: the bias has whole vectors.
                let bias = unsafe { s.load(self.bias.wrapping_add(c)) };
                for (i, &half) in half.iter().enumerate().take(rows) {
                    let y = points::output::<S, N>(s, half);
                    for (j, &y) in y.iter().enumerate().take(N - 2) {
                        if j < columns {
                            let at = (i * width + j) * out_stride + c;
                            let mut y = s.add(y, bias);
                            check = s.add(check, y);
                            let mut added = zero;
                            if !(residual.is_null() || later && residual_last) {
                                // SAFETY: the residual has this pixel, where `left` columns remain.
                                added = unsafe { s.read(residual.wrapping_add(at), left) };
                                if !residual_last {
                                    y = s.add(y, added);
                                }
                            }
                            if SWISH {
                                let e = math::exp(s, s.mul(s.splat(early.swish), y));
                                y = s.div(y, s.add(s.splat(1.0), e));
                            } else {
                                // operand order: a NaN in y stays
                                y = s.min(s.splat(early.high), s.max(s.splat(early.low), y));
                            }
                            if residual_last {
                                y = s.add(y, added);
                            }
                            // SAFETY: the output has this pixel, where `left` columns remain.
                            unsafe { s.write(out.wrapping_add(at), y, left) };
                        }
                    }
                }
                c += S::LANES;
            }
            if !s.sum(check).is_finite() {
                s.enter(&Again {
                    of: *self,
                    tile: self.first + tile,
                    out,
                    residual,
                    rows,
                    columns,
                });
            } else if later {
                let added = if residual_last { residual } else { std::ptr::null() };
                // SAFETY: this tile's pixels were just stored; the residual has the same shape.
                unsafe { self.late(s, out, added, rows, columns) };
            }
        }
    }

    /// Applies the activation to a tile's pixels, and adds what is added last.
    ///
    /// # Safety
    /// The pixels exist at `out` and, unless null, at `added`.
    #[inline(always)]
    unsafe fn late<S: Simd>(&self, s: S, out: *mut f32, added: *const f32, rows: usize, columns: usize) {
        let stride = self.grid.out_stride;
        for row in 0..rows {
            let line = row * self.grid.output[1] * stride;
            let plus = if added.is_null() {
                added
            } else {
                added.wrapping_add(line)
            };
            // SAFETY: the caller promises these pixels.
            unsafe {
                apply_rows(
                    s,
                    self.epilogue.activation,
                    out.wrapping_add(line),
                    columns,
                    self.columns,
                    stride,
                    plus,
                    stride,
                )
            };
        }
    }
}

/// Computes one output tile directly, pixel by pixel.
struct Again<const N: usize> {
    of: Output<N>,
    tile: usize,
    out: *mut f32,
    residual: *const f32,
    rows: usize,
    columns: usize,
}

impl<const N: usize> Kernel for &Again<N> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Output {
            grid,
            columns,
            channels,
            weights,
            weights_stride,
            ..
        } = self.of;
        let (at, [rows_in, columns_in]) = grid.patch::<N>(self.tile);
        let patch = self.of.image.wrapping_offset(at);
        let (width, line) = (grid.output[1] * grid.out_stride, grid.input[1] * grid.in_stride);
        let residual_last = self.of.epilogue.residual == Residual::AfterActivation;
        // the points from which taps can be had again
        let from = [0, 1, 2, N - 1];
        for c in (0..columns).step_by(S::LANES) {
            let left = columns - c;
            // SAFETY: the bias has whole vectors.
            let bias = unsafe { s.load(self.of.bias.wrapping_add(c)) };
            let mut sums = [[bias; N]; N];
            for channel in 0..channels {
                let weights = weights.wrapping_add(channel * self.of.tile_stride + c);
                let mut half = [[bias; 3]; N];
                for &j in &from {
                    let mut u = [bias; N];
                    for &i in &from {
                        // SAFETY: the panel has whole vectors for each point and channel.
                        u[i] = unsafe { s.load(weights.wrapping_add((i * N + j) * weights_stride)) };
                    }
                    half[j] = points::taps_again::<S, N>(s, u);
                }
                for tap in 0..9 {
                    let mut u = [bias; N];
                    for &j in &from {
                        u[j] = half[j][tap / 3];
                    }
                    let weight = points::taps_again::<S, N>(s, u)[tap % 3];
                    for (i, sums) in sums.iter_mut().enumerate().take(self.rows) {
                        for (j, sum) in sums.iter_mut().enumerate().take(self.columns) {
                            let (y, x) = (i + tap / 3, j + tap % 3);
                            if (rows_in[0]..rows_in[1]).contains(&y)
                                && (columns_in[0]..columns_in[1]).contains(&x)
                            {
                                let from = patch.wrapping_add(y * line + x * grid.in_stride + channel);
                                // SAFETY: this pixel lies in the image.
                                *sum = s.mul_add(s.splat(unsafe { *from }), weight, *sum);
                            }
                        }
                    }
                }
            }
            for (i, sums) in sums.iter().enumerate().take(self.rows) {
                for (j, &sum) in sums.iter().enumerate().take(self.columns) {
                    let at = i * width + j * grid.out_stride + c;
                    let mut y = sum;
                    if !self.residual.is_null() && !residual_last {
                        // SAFETY: the residual has this pixel, where `left` columns remain.
                        y = s.add(y, unsafe { s.read(self.residual.wrapping_add(at), left) });
                    }
                    // SAFETY: the output has this pixel, where `left` columns remain.
                    unsafe { s.write(self.out.wrapping_add(at), y, left) };
                }
            }
        }
        let added = if residual_last {
            self.residual
        } else {
            std::ptr::null()
        };
        // SAFETY: this tile's pixels were just stored; the residual has the same shape.
        unsafe { self.of.late(s, self.out, added, self.rows, self.columns) };
    }
}
