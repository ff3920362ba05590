//! The row pointers of a convolution: where each tap of each output pixel reads its channels.
//!
//! Invariant: a pixel whose taps all lie in the image has the pointers of its first tap plus a distance per tap, which
//! depends on the window alone; only pixels at the border are looked at tap by tap.
#![allow(unsafe_code)]

use super::Window;
use crate::tile;
use std::ops::Range;

/// A convolution as the tile sees it.
pub(crate) struct Inner {
    pub(crate) window: Window,
    /// Elements between two input pixels.
    pub(crate) stride: usize,
    /// Values per tap.
    pub(crate) k: usize,
    pub(crate) taps: usize,
    /// Taps of the window, along the width, that one tap stands for.
    pub(crate) step: usize,
    /// Images of one channel each, one behind the other, whose taps follow each other; else 1.
    pub(crate) planes: usize,
}

/// An output pixel of a tile.
#[derive(Clone, Copy)]
struct Pixel<T> {
    image: *const T,
    /// Input coordinates of its first tap.
    first: [isize; 3],
    /// The address of its first tap, meaningful where all taps are inside the image.
    start: *const T,
    inside: bool,
}

/// The most rows of a tile.
const MOST_ROWS: usize = 16;

impl Inner {
    /// Writes the row pointers `[tile][tap][row]` of the output pixels `rows`.
    ///
    /// # Safety
    /// `to` has room for `rows.len() * taps` pointers.
    pub(crate) unsafe fn row_pointers<T: Copy>(
        &self,
        mut to: *mut *const T,
        rows: Range<usize>,
        input: *const T,
        zeros: *const T,
        tile_rows: usize,
    ) {
        let Inner {
            window,
            stride,
            step,
            planes,
            ..
        } = *self;
        if window.is_pointwise() && planes == 1 {
            for row in rows {
                // SAFETY: one pointer per row.
                unsafe { to.write(input.wrapping_add(row * stride)) };
                to = to.wrapping_add(1);
            }
            return;
        }
        if rows.is_empty() {
            return;
        }
        let (out_pixels, plane) = (window.out_pixels(), window.in_pixels() * stride);
        let image_len = plane * planes;
        let tiles = tile::tiles(rows.len(), tile_rows);
        let mut image = input.wrapping_add(rows.start / out_pixels * image_len);
        let mut at = window.place(rows.start % out_pixels);
        let outside = Pixel {
            image,
            first: [0; 3],
            start: zeros,
            inside: false,
        };
        let mut pixels = [outside; MOST_ROWS];
        for index in 0..tiles {
            let tile = tile::tile_range(rows.len(), tiles, index);
            let pixels = &mut pixels[..tile.len()];
            for pixel in pixels.iter_mut() {
                let first = window.first_of(at);
                let [d, h, w] = first.map(|first| first as usize);
                let start = (d.wrapping_mul(window.input[1]).wrapping_add(h))
                    .wrapping_mul(window.input[2])
                    .wrapping_add(w);
                *pixel = Pixel {
                    image,
                    first,
                    start: image.wrapping_add(start.wrapping_mul(stride)),
                    inside: window.holds(first),
                };
                if window.advance(&mut at) {
                    image = image.wrapping_add(image_len);
                }
            }
            let inside = pixels.iter().all(|pixel| pixel.inside);
            for slice in 0..planes * window.kernel[0] {
                let (behind, kd) = (slice / window.kernel[0] * plane, slice % window.kernel[0]);
                for kh in 0..window.kernel[1] {
                    for kw in (0..window.kernel[2]).step_by(step) {
                        let tap = [kd, kh, kw];
                        let distance = window.distance(tap).wrapping_mul(stride).wrapping_add(behind);
                        if inside {
                            for (i, pixel) in pixels.iter().enumerate() {
                                // SAFETY: one pointer per row and tap.
                                unsafe { to.wrapping_add(i).write(pixel.start.wrapping_add(distance)) };
                            }
                        } else {
                            for (i, pixel) in pixels.iter().enumerate() {
                                let from = if pixel.inside {
                                    pixel.start.wrapping_add(distance)
                                } else {
                                    let image = pixel.image.wrapping_add(behind);
                                    window.tap(pixel.first, tap, image, zeros, stride)
                                };
                                // SAFETY: one pointer per row and tap.
                                unsafe { to.wrapping_add(i).write(from) };
                            }
                        }
                        to = to.wrapping_add(pixels.len());
                    }
                }
            }
        }
    }
}
