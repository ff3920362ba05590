//! Maxima of windows over images in ONNX order, for any number type, and their positions.
//!
//! 1. Among equal elements, the first one's position counts. NaN wins only as the first element of
//!    a window, because no number compares larger. Without positions, only integers are supported.
//! 2. An empty window gives the smallest number, at position 0.
//!
//! Not here: windows over images whose channels lie last ([`crate::pool`]).
#![allow(unsafe_code)]

use crate::argreduce::Extreme;
use crate::isa::dot::{ByteKernel, Bytes};
use crate::isa::{Kernel, Simd};
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

/// A window over images of two dimensions.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Height and width of an image.
    pub input: [usize; 2],
    /// Height and width of the result.
    pub output: [usize; 2],
    /// Height and width of the window.
    pub kernel: [usize; 2],
    /// Strides of the window.
    pub strides: [usize; 2],
    /// Dilations of the window.
    pub dilations: [usize; 2],
    /// Padding before the image.
    pub pads: [usize; 2],
}

impl Window {
    /// The pixels along a side that a tap of the window sees: the first window that sees one, its pixel, and how many do.
    fn seen(&self, side: usize, tap: usize) -> (usize, usize, usize) {
        let (n, stride) = (self.input[side] as i64, self.strides[side] as i64);
        let shift = (tap * self.dilations[side]) as i64 - self.pads[side] as i64;
        // 0 <= i * stride + shift < n
        let first = if shift < 0 {
            (-shift + stride - 1) / stride
        } else {
            0
        };
        let end = if n > shift {
            (n - shift + stride - 1) / stride
        } else {
            0
        };
        let end = end.min(self.output[side] as i64);
        let count = (end - first).max(0) as usize;
        if count == 0 {
            // no window reaches the image with this tap
            return (0, 0, 0);
        }
        (first as usize, (first * stride + shift).max(0) as usize, count)
    }
}

/// Computes `y` `[planes, output]` from `x` `[planes, input]` and, if requested, the position of
/// each maximum within all planes.
///
/// # Panics
/// If a length is not that of its shape.
pub fn max_windows<T: Extreme>(
    isa: Isa,
    pool: &ThreadPool,
    planes: usize,
    window: &Window,
    x: &[T],
    y: &mut [T],
    places: Option<&mut [i64]>,
) {
    let (pixels, results) = (
        window.input[0] * window.input[1],
        window.output[0] * window.output[1],
    );
    assert_eq!(
        (x.len(), y.len()),
        (planes * pixels, planes * results),
        "max windows: lengths"
    );
    let taps = window.kernel[0] * window.kernel[1];
    let chunks = (planes * results * taps)
        .div_ceil(CHUNK)
        .min(pool.threads() * 4)
        .min(planes);
    let y = Parts::new(y);
    let places = places.map(|places| {
        assert_eq!(places.len(), planes * results, "max windows: places");
        Parts::new(places)
    });
    pool.run(chunks, &|chunk| {
        for plane in share(planes, chunks, chunk, 1) {
            isa.run(Plane {
                window,
                first: plane * pixels,
                x: &x[plane * pixels..][..pixels],
                // SAFETY: chunks share the planes out.
                y: unsafe { y.part(plane * results, results) },
                // SAFETY: as above.
                places: places
                    .as_ref()
                    .map(|places| unsafe { places.part(plane * results, results) }),
            });
        }
    });
}

/// Bytes of rows that [`max_windows_of_bytes`] keeps on the way.
const ROWS: usize = 4096;

/// As [`max_windows`], of unsigned bytes without places: rows first, which vectors of bytes are made of, then along them.
///
/// # Panics
/// As [`max_windows`].
pub fn max_windows_of_bytes(
    isa: Isa,
    pool: &ThreadPool,
    planes: usize,
    window: &Window,
    x: &[u8],
    y: &mut [u8],
) {
    let (pixels, results) = (
        window.input[0] * window.input[1],
        window.output[0] * window.output[1],
    );
    if window.input[1] == 0 || window.input[1] > ROWS || results == 0 {
        return max_windows(isa, pool, planes, window, x, y, None);
    }
    assert_eq!(
        (x.len(), y.len()),
        (planes * pixels, planes * results),
        "max windows: lengths"
    );
    let taps = window.kernel[0] * window.kernel[1];
    let chunks = (planes * results * taps)
        .div_ceil(4 * CHUNK)
        .min(pool.threads() * 4)
        .min(planes);
    let y = Parts::new(y);
    pool.run(chunks, &|chunk| {
        let own = share(planes, chunks, chunk, 1);
        isa.run_bytes(BytePlanes {
            window,
            x: &x[own.start * pixels..own.end * pixels],
            // SAFETY: chunks share the planes out.
            y: unsafe { y.part(own.start * results, own.len() * results) },
        });
    });
}

struct BytePlanes<'a> {
    window: &'a Window,
    x: &'a [u8],
    y: &'a mut [u8],
}

impl ByteKernel for BytePlanes<'_> {
    type Output = ();
    #[inline(always)]
    fn run<B: Bytes>(self, b: B) {
        let BytePlanes { window, x, y } = self;
        let ([height, width], [down, across]) = (window.input, window.output);
        let stride = window.strides[1];
        // where windows fill their row, rows that lie one behind the other are one
        let fills = window.pads[1] == 0
            && across * stride == width
            && (window.kernel[1] - 1) * window.dilations[1] < stride;
        let most = (ROWS / width).min(down);
        let mut rows = [0u8; ROWS];
        for (x, y) in x
            .chunks_exact(height * width)
            .zip(y.chunks_exact_mut(down * across))
        {
            for first in (0..down).step_by(most) {
                let count = most.min(down - first);
                let rows = &mut rows[..count * width];
                for (i, row) in rows.chunks_exact_mut(width).enumerate() {
                    window.largest_of_rows(b, first + i, x, row);
                }
                let y = &mut y[first * across..][..count * across];
                y.fill(0);
                for right in 0..window.kernel[1] {
                    let (column, start, count) = window.seen(1, right);
                    if fills {
                        larger(y, &rows[start..], stride);
                        continue;
                    }
                    for (row, y) in rows.chunks_exact(width).zip(y.chunks_exact_mut(across)) {
                        larger(&mut y[column..column + count], &row[start.min(width)..], stride);
                    }
                }
            }
        }
    }
}

impl Window {
    /// The largest bytes of each column that a row of windows sees.
    #[inline(always)]
    fn largest_of_rows<B: Bytes>(&self, b: B, at: usize, x: &[u8], row: &mut [u8]) {
        let [height, width] = self.input;
        let mut column = 0;
        while column < width {
            let left = width - column;
            let mut most = b.simd().splat_i(0);
            for tap in 0..self.kernel[0] {
                let pixel = (at * self.strides[0] + tap * self.dilations[0]).wrapping_sub(self.pads[0]);
                if pixel < height {
                    let from = &x[pixel * width + column..][..left];
                    // SAFETY: as many bytes of the row of pixels are left.
                    most = b.max_bytes(most, unsafe { b.read(from.as_ptr(), left) });
                }
            }
            // SAFETY: as many bytes of the row are left.
            unsafe { b.write(row[column..].as_mut_ptr(), most, left) };
            column += 4 * B::S::LANES;
        }
    }
}

struct Plane<'a, T> {
    window: &'a Window,
    /// The number of its first element among those of all planes.
    first: usize,
    x: &'a [T],
    y: &'a mut [T],
    places: Option<&'a mut [i64]>,
}

impl<T: Extreme> Kernel for Plane<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Plane {
            window,
            first,
            x,
            y,
            places,
        } = self;
        let ([_, width], [_, across]) = (window.input, window.output);
        y.fill(T::LOWEST);
        let Some(places) = places else {
            for down in 0..window.kernel[0] {
                let (row, pixel, rows) = window.seen(0, down);
                for right in 0..window.kernel[1] {
                    let (column, start, count) = window.seen(1, right);
                    for i in 0..rows {
                        let x = &x[(pixel + i * window.strides[0]) * width..][..width];
                        let y = &mut y[(row + i) * across..][..across];
                        larger(
                            &mut y[column..column + count],
                            &x[start.min(width)..],
                            window.strides[1],
                        );
                    }
                }
            }
            return;
        };
        places.fill(-1);
        for down in 0..window.kernel[0] {
            let (row, pixel, rows) = window.seen(0, down);
            for i in 0..rows {
                let from = (pixel + i * window.strides[0]) * width;
                let own = (row + i) * across..(row + i + 1) * across;
                let (y, places) = (&mut y[own.clone()], &mut places[own]);
                for right in 0..window.kernel[1] {
                    let (column, start, count) = window.seen(1, right);
                    let (y, places) = (
                        &mut y[column..column + count],
                        &mut places[column..column + count],
                    );
                    for (i, (y, place)) in y.iter_mut().zip(places).enumerate() {
                        let at = from + start + i * window.strides[1];
                        let new = x[at];
                        if *place < 0 || new > *y {
                            (*y, *place) = (new, (first + at) as i64);
                        }
                    }
                }
            }
        }
        for place in places {
            *place = (*place).max(0);
        }
    }
}

/// Each result, or the element that a window away sees where that is larger.
#[inline(always)]
fn larger<T: Extreme>(y: &mut [T], x: &[T], stride: usize) {
    macro_rules! each {
        ($x:expr) => {
            for (y, &new) in y.iter_mut().zip($x) {
                *y = if new > *y { new } else { *y };
            }
        };
    }
    match stride {
        1 => each!(x),
        2 => {
            let (pairs, last) = x.as_chunks::<2>();
            each!(pairs.iter().map(|pair| &pair[0]).chain(last));
        }
        _ => each!(x.iter().step_by(stride)),
    }
}
