//! The largest elements of regions of images.
//!
//! Invariant: cells are those of the scalar reference, with positions in `f64`; a NaN counts only where a cell has nothing
//! else, and a cell without elements is zero.

use std::ops::Range;

use crate::isa::{Kernel, Simd};
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

/// The largest element in each cell of regions.
#[derive(Debug, Clone, Copy)]
pub struct LargestPlan {
    /// Images and their planes.
    pub images: [usize; 2],
    /// Height and width of an image.
    pub size: [usize; 2],
    /// Cells of a region.
    pub output: [usize; 2],
    /// From coordinates of regions to pixels.
    pub scale: f64,
}

impl LargestPlan {
    /// `y` `[regions, c, cells]` of `x` `[n, c, h, w]`, at regions `[regions, 5]` of an image, x, y, x and y.
    ///
    /// # Errors
    /// The index of an image that does not exist.
    ///
    /// # Panics
    /// If a slice is too short.
    pub fn run(
        &self,
        isa: Isa,
        pool: &ThreadPool,
        x: &[f32],
        regions: &[f32],
        y: &mut [f32],
    ) -> Result<(), f32> {
        let ([n, c], [h, w], [rows, columns]) = (self.images, self.size, self.output);
        let (cells, pixels) = (rows * columns, h * w);
        if cells == 0 || c == 0 {
            return Ok(());
        }
        let (mut down, mut across) = (Vec::with_capacity(rows), Vec::with_capacity(columns));
        for (region, y) in regions.chunks_exact(5).zip(y.chunks_exact_mut(c * cells)) {
            if !(region[0] >= 0.0 && (region[0] as usize) < n) {
                return Err(region[0]);
            }
            let image = &x[region[0] as usize * c * pixels..][..c * pixels];
            self.ranges(0, [region[2], region[4]], &mut down);
            self.ranges(1, [region[1], region[3]], &mut across);
            let seen = |ranges: &[Range<usize>]| ranges.iter().map(ExactSizeIterator::len).sum::<usize>();
            let work = c * (cells + seen(&down) * seen(&across));
            let chunks = work.div_ceil(CHUNK).clamp(1, pool.threads() * 4).min(c);
            let (out, down, across) = (Parts::new(y), &down, &across);
            pool.run(chunks, &|chunk| {
                let own = share(c, chunks, chunk, 1);
                isa.run(Cells {
                    planes: &image[own.start * pixels..own.end * pixels],
                    size: self.size,
                    down,
                    across,
                    // SAFETY: chunks share the planes out.
                    y: unsafe { out.part(own.start * cells, own.len() * cells) },
                });
            });
        }
        Ok(())
    }

    /// The elements that each cell along a side has, of a region between two coordinates.
    fn ranges(&self, side: usize, ends: [f32; 2], ranges: &mut Vec<Range<usize>>) {
        let (size, cells) = (self.size[side], self.output[side]);
        let [first, last] = ends.map(|end| (f64::from(end) * self.scale).round());
        let cell = (last - first + 1.0).max(1.0) / cells as f64;
        let inside = |at: f64| at.clamp(0.0, size as f64) as usize;
        ranges.clear();
        ranges.extend((0..cells).map(|i| {
            let (start, end) = ((i as f64 * cell).floor(), ((i + 1) as f64 * cell).ceil());
            inside(start + first)..inside(end + first)
        }));
    }
}

/// Cells of one region in some planes.
struct Cells<'a> {
    planes: &'a [f32],
    size: [usize; 2],
    down: &'a [Range<usize>],
    across: &'a [Range<usize>],
    y: &'a mut [f32],
}

impl Kernel for Cells<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Cells {
            planes,
            size: [h, w],
            down,
            across,
            y,
        } = self;
        // what the region has of a line
        let left = across.iter().map(|cell| cell.start).min().unwrap_or(0);
        let right = across.iter().map(|cell| cell.end).max().unwrap_or(0).max(left);
        let mut line = vec![0.0; right - left];
        let mut y = y.chunks_exact_mut(across.len());
        for plane in 0..y.len() / down.len() {
            let plane = &planes[plane * h * w..][..h * w];
            for (rows, y) in down.iter().zip(&mut y) {
                if rows.is_empty() {
                    y.fill(0.0);
                    continue;
                }
                // the largest of each column, then of each cell
                line.copy_from_slice(&plane[rows.start * w..][left..right]);
                for row in rows.start + 1..rows.end {
                    for (line, &x) in line.iter_mut().zip(&plane[row * w..][left..right]) {
                        *line = line.max(x);
                    }
                }
                for (y, cell) in y.iter_mut().zip(across) {
                    let cell = line.get(cell.start.wrapping_sub(left)..cell.end.wrapping_sub(left));
                    *y = match cell {
                        Some(&[first, ref rest @ ..]) => rest.iter().fold(first, |most, &x| most.max(x)),
                        _ => 0.0,
                    };
                }
            }
        }
    }
}
