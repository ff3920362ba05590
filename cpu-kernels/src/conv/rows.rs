//! The row pointers of a convolution: where each tap of each output pixel reads its channels.
//!
//! Invariant: the pointers of a tap are those of the first tap plus a distance that depends on the window alone, or the
//! zeros; so they are worked out a tile of pixels at a time, in loops of a known length that become vector instructions.
#![allow(unsafe_code)]

use super::window::Window;
use crate::isa::{Kernel, Simd};
use crate::{Isa, tile};
use std::ops::Range;

/// A convolution as the tile sees it.
pub(crate) struct Inner {
    pub(crate) window: Window,
    /// Elements between two input pixels.
    pub(crate) stride: usize,
    /// Values per tap.
    pub(crate) k: usize,
    pub(crate) taps: usize,
    /// Taps of the window, along the width, that one tap covers.
    pub(crate) step: usize,
    /// Images of one channel each, one behind the other, whose taps follow each other; else 1.
    pub(crate) planes: usize,
}

/// The most rows of a tile, and the pointers that are written beyond the last one.
pub(crate) const MOST_ROWS: usize = 16;

/// What writes the row pointers `[tile][tap][row]` of the output pixels `rows`.
struct Pointers<'a, T> {
    inner: &'a Inner,
    to: *mut *const T,
    rows: Range<usize>,
    input: *const T,
    zeros: *const T,
    tile_rows: usize,
}

impl Inner {
    /// Writes the row pointers `[tile][tap][row]` of the output pixels `rows`.
    ///
    /// # Safety
    /// `to` has room for `rows.len() * taps` pointers and [`MOST_ROWS`] more.
    pub(crate) unsafe fn row_pointers<T: Copy>(
        &self,
        isa: Isa,
        to: *mut *const T,
        rows: Range<usize>,
        input: *const T,
        zeros: *const T,
        tile_rows: usize,
    ) {
        if self.window.is_pointwise() && self.planes == 1 {
            for (i, row) in rows.enumerate() {
                // SAFETY: one pointer per row.
                unsafe { to.add(i).write(input.wrapping_add(row * self.stride)) };
            }
        } else if !rows.is_empty() {
            isa.run(Pointers {
                inner: self,
                to,
                rows,
                input,
                zeros,
                tile_rows,
            });
        }
    }
}

impl<T: Copy> Kernel for Pointers<'_, T> {
    type Output = ();
    // an index below a known bound is what makes these loops whole vectors; slices of unknown length are unrolled further
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Inner {
            window,
            stride,
            step,
            planes,
            ..
        } = *self.inner;
        let Window {
            input,
            strides,
            dilations,
            ..
        } = window;
        let [kernel_d, kernel_h, kernel_w] = window.kernel;
        let (out_pixels, plane) = (window.out_pixels(), window.in_pixels() * stride);
        let width = window.output[2];
        let tiles = tile::tiles(self.rows.len(), self.tile_rows);
        // Pixels of a tile in whole vectors. Not a constant: short loops of a known length are unrolled instead.
        let lanes = self.tile_rows.next_multiple_of(8).min(MOST_ROWS);
        let mut to = self.to;
        // coordinates of a first tap below which all taps are in the image; negative ones are huge
        let limits: [usize; 3] = std::array::from_fn(|i| {
            let reach = (window.kernel[i] - 1) * dilations[i];
            input[i].saturating_sub(reach)
        });
        // the image and the place there of the next pixel, and what its line has in common
        let mut image = self.rows.start / out_pixels;
        let mut at = window.place(self.rows.start % out_pixels);
        let line_of = |image: usize, at: [usize; 3]| {
            let [d, h, w] = window.first_of([at[0], at[1], 0]).map(|x| x as usize);
            let before = (d.wrapping_mul(input[1]).wrapping_add(h)).wrapping_mul(input[2]);
            let before = before.wrapping_add(w).wrapping_mul(stride);
            let start = before.wrapping_add(image * planes * plane);
            (start, [d, h, w], d < limits[0] && h < limits[1])
        };
        let mut line = line_of(image, at);
        for index in 0..tiles {
            let len = tile::tile_range(self.rows.len(), tiles, index).len();
            // of each pixel: elements before its first tap, and that tap's coordinates
            let (mut start, mut first) = ([0usize; MOST_ROWS], [[0usize; MOST_ROWS]; 3]);
            let mut inside = true;
            if at[2] + len < width {
                let right = at[2] * strides[2];
                let (start_0, w_0) = (line.0.wrapping_add(right * stride), line.1[2].wrapping_add(right));
                for i in 0..lanes {
                    start[i] = start_0.wrapping_add(i * (strides[2] * stride));
                    first[0][i] = line.1[0];
                    first[1][i] = line.1[1];
                    first[2][i] = w_0.wrapping_add(i * strides[2]);
                }
                // one that is negative is huge, so that the last one alone does not tell
                inside = line.2 && w_0 < limits[2] && w_0 + (len - 1) * strides[2] < limits[2];
                at[2] += len;
            } else {
                for i in 0..len.min(MOST_ROWS) {
                    let right = at[2] * strides[2];
                    let w = line.1[2].wrapping_add(right);
                    (first[0][i], first[1][i], first[2][i]) = (line.1[0], line.1[1], w);
                    start[i] = line.0.wrapping_add(right * stride);
                    inside &= line.2 && w < limits[2];
                    at[2] += 1;
                    if at[2] == width {
                        at[2] -= 1;
                        image += usize::from(window.advance(&mut at));
                        line = line_of(image, at);
                    }
                }
            }
            let next = dilations[2] * step;
            for slice in 0..planes * kernel_d {
                let (behind, kd) = (slice / kernel_d * plane, slice % kernel_d);
                for kh in 0..kernel_h {
                    let before = window.distance([kd, kh, 0]).wrapping_mul(stride);
                    let mut base = self.input.wrapping_add(before.wrapping_add(behind));
                    if inside {
                        for _ in (0..kernel_w).step_by(step) {
                            for i in 0..lanes {
                                // SAFETY: one pointer per row and tap, and MOST_ROWS beyond the last one.
                                unsafe { to.add(i).write(base.wrapping_add(start[i])) };
                            }
                            base = base.wrapping_add(next * stride);
                            to = to.wrapping_add(len);
                        }
                        continue;
                    }
                    // the column, or one outside where the row is
                    let mut column = first[2];
                    for i in 0..lanes {
                        let (d, h) = (
                            first[0][i].wrapping_add(kd * dilations[0]),
                            first[1][i].wrapping_add(kh * dilations[1]),
                        );
                        if d >= input[0] || h >= input[1] {
                            column[i] = usize::MAX / 2;
                        }
                    }
                    for _ in (0..kernel_w).step_by(step) {
                        for i in 0..lanes {
                            let pointer = base.wrapping_add(start[i]);
                            let inside = column[i] < input[2];
                            // SAFETY: as above.
                            unsafe { to.add(i).write(if inside { pointer } else { self.zeros }) };
                            column[i] = column[i].wrapping_add(next);
                        }
                        base = base.wrapping_add(next * stride);
                        to = to.wrapping_add(len);
                    }
                }
            }
        }
    }
}
