//! Values between the pixels of images: grids, regions, offsets; and what is like them: affine grids, columns added to images.
//!
//! 1. Where a point lies is computed in `f64`, as the scalar reference does, so that both round to the same pixel; weights
//!    and sums are `f32`.
//! 2. A point is as many taps for all planes of an image: offsets into a plane, and weights. A tap outside weighs nothing.
//!
//! Not here: resizing by constant factors along axes.
#![allow(unsafe_code)]

use crate::isa::{Kernel, Simd};
pub use crate::reference::resize::Outside;
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

/// How values between pixels come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// The nearest pixel.
    Nearest,
    /// Of two neighbours along each side.
    Linear,
    /// Of four neighbours along each side, with the coefficient -0.75.
    Cubic,
}

impl Between {
    /// Taps along a side.
    fn side(self) -> usize {
        match self {
            Between::Nearest => 1,
            Between::Linear => 2,
            Between::Cubic => 4,
        }
    }

    /// The first pixel of a point's taps, and the weight of each.
    fn weights(self, point: f64, weights: &mut [f64; 4]) -> f64 {
        let base = point.floor();
        match self {
            Between::Nearest => {
                weights[0] = 1.0;
                point.round_ties_even()
            }
            Between::Linear => {
                let part = point - base;
                (weights[0], weights[1]) = (1.0 - part, part);
                base
            }
            Between::Cubic => {
                let a = -0.75;
                for (i, weight) in weights.iter_mut().enumerate() {
                    let d = (point - (base + i as f64 - 1.0)).abs();
                    *weight = if d <= 1.0 {
                        ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
                    } else if d < 2.0 {
                        ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
                    } else {
                        0.0
                    };
                }
                base - 1.0
            }
        }
    }
}

/// Taps of as many points, the same number for each.
struct Taps<'a> {
    each: usize,
    /// `[tap, point]`, so that neighbours are points.
    offsets: &'a [u32],
    weights: &'a [f32],
}

/// `y[plane, point]` is the sum of the taps of each point, over planes of `pixels` elements.
fn gather(
    isa: Isa,
    pool: &ThreadPool,
    x: &[f32],
    pixels: usize,
    points: usize,
    taps: &Taps<'_>,
    y: &mut [f32],
) {
    if points == 0 {
        return;
    }
    let planes = y.len() / points;
    let out = Parts::new(y);
    let chunks = (planes * points * taps.each)
        .div_ceil(CHUNK)
        .clamp(1, pool.threads() * 4)
        .min(planes.max(1));
    pool.run(chunks, &|chunk| {
        for plane in share(planes, chunks, chunk, 1) {
            isa.run(Plane {
                x: &x[plane * pixels..][..pixels],
                taps,
                // SAFETY: chunks share the planes out.
                y: unsafe { out.part(plane * points, points) },
            });
        }
    });
}

struct Plane<'a> {
    x: &'a [f32],
    taps: &'a Taps<'a>,
    y: &'a mut [f32],
}

impl Kernel for Plane<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Plane { x, taps, y } = self;
        let points = y.len();
        let row = |tap: usize| {
            let own = tap * points..(tap + 1) * points;
            taps.offsets[own.clone()].iter().zip(&taps.weights[own])
        };
        // what lies outside is not looked at: the pixel at its offset may be infinite
        let at = |(&offset, &weight): (&u32, &f32)| {
            let value = x[offset as usize];
            if weight == 0.0 { 0.0 } else { weight * value }
        };
        if taps.each == 4 {
            let ((r0, r1), (r2, r3)) = ((row(0), row(1)), (row(2), row(3)));
            for ((((y, a), b), c), d) in y.iter_mut().zip(r0).zip(r1).zip(r2).zip(r3) {
                *y = (at(a) + at(b)) + (at(c) + at(d));
            }
            return;
        }
        for tap in 0..taps.each {
            if tap == 0 {
                for (y, tap) in y.iter_mut().zip(row(0)) {
                    *y = at(tap);
                }
            } else {
                for (y, tap) in y.iter_mut().zip(row(tap)) {
                    *y += at(tap);
                }
            }
        }
    }
}

/// Points of a grid on images of two dimensions.
#[derive(Debug, Clone, Copy)]
pub struct GridPlan {
    /// Images and their planes.
    pub images: [usize; 2],
    /// Height and width of an image.
    pub size: [usize; 2],
    /// Points of a grid.
    pub points: usize,
    /// Which pixels.
    pub between: Between,
    /// What lies outside.
    pub outside: Outside,
    /// Whether -1 and 1 are the middles of the outermost pixels, not their edges.
    pub align_corners: bool,
}

impl GridPlan {
    fn taps(&self) -> usize {
        self.between.side() * self.between.side()
    }

    /// Words of each of the two scratches.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        self.taps() * self.points
    }

    /// Samples `x` `[n, c, h, w]` at `grid` `[n, points, 2]`, whose coordinates are x and y from -1 to 1.
    ///
    /// # Panics
    /// If a slice is too short, or an image has no pixels.
    pub fn run(
        &self,
        isa: Isa,
        pool: &ThreadPool,
        x: &[f32],
        grid: &[f32],
        (offsets, weights): (&mut [u32], &mut [f32]),
        y: &mut [f32],
    ) {
        let ([n, c], [h, w], points) = (self.images, self.size, self.points);
        let each = self.taps();
        for image in 0..n {
            let grid = &grid[image * points * 2..][..points * 2];
            let fast = self.between == Between::Linear && self.outside == Outside::Zeros;
            if fast {
                for start in (0..points).step_by(POINTS) {
                    let len = POINTS.min(points - start);
                    let (mut down, mut across) = ([0.0; POINTS], [0.0; POINTS]);
                    for (i, point) in grid[start * 2..][..len * 2].chunks_exact(2).enumerate() {
                        across[i] = self.place(point[0], w);
                        down[i] = self.place(point[1], h);
                    }
                    isa.run(Corners {
                        size: self.size,
                        y: &down[..len],
                        x: &across[..len],
                        factor: None,
                        offsets: four(offsets, points, start, len),
                        weights: four(weights, points, start, len),
                    });
                }
            }
            let (to, of) = (
                Parts::new(&mut offsets[..each * points]),
                Parts::new(&mut weights[..each * points]),
            );
            let chunks = if fast {
                0
            } else {
                points.div_ceil(2048).min(pool.threads() * 4)
            };
            pool.run(chunks, &|chunk| {
                let own = share(points, chunks, chunk, 16);
                let column = |tap: usize| {
                    let start = tap * points + own.start;
                    // SAFETY: chunks share the points out, and a column of a tap is taken once by one of them.
                    unsafe { (to.part(start, own.len()), of.part(start, own.len())) }
                };
                let side = self.between.side();
                for (i, point) in grid[own.start * 2..own.end * 2].chunks_exact(2).enumerate() {
                    let (mut across, mut down) = ([0.0; 4], [0.0; 4]);
                    let left = self.between.weights(self.place(point[0], w), &mut across);
                    let top = self.between.weights(self.place(point[1], h), &mut down);
                    for row in 0..side {
                        let at_row = self.pixel(top + row as f64, h);
                        for tap in 0..side {
                            let at = at_row.zip(self.pixel(left + tap as f64, w));
                            let (offsets, weights) = column(row * side + tap);
                            offsets[i] = at.map_or(0, |(row, column)| (row * w + column) as u32);
                            weights[i] = at.map_or(0.0, |_| (down[row] * across[tap]) as f32);
                        }
                    }
                }
            });
            let taps = Taps {
                each,
                offsets: &offsets[..each * points],
                weights: &weights[..each * points],
            };
            let pixels = h * w;
            let own = &mut y[image * c * points..][..c * points];
            gather(
                isa,
                pool,
                &x[image * c * pixels..][..c * pixels],
                pixels,
                points,
                &taps,
                own,
            );
        }
    }

    fn place(&self, unit: f32, size: usize) -> f64 {
        let (unit, size) = (f64::from(unit), size as f64);
        if self.align_corners {
            (unit + 1.0) / 2.0 * (size - 1.0)
        } else {
            ((unit + 1.0) * size - 1.0) / 2.0
        }
    }

    fn pixel(&self, i: f64, n: usize) -> Option<usize> {
        let last = n as f64 - 1.0;
        if (0.0..=last).contains(&i) {
            return Some(i as usize);
        }
        match self.outside {
            Outside::Zeros => None,
            Outside::Border => Some(i.clamp(0.0, last) as usize),
            Outside::Reflection => {
                let period = if self.align_corners {
                    2.0 * last
                } else {
                    2.0 * n as f64
                };
                if period == 0.0 {
                    return Some(0);
                }
                let j = i.rem_euclid(period);
                let j = match (j > last, self.align_corners) {
                    (false, _) => j,
                    (true, true) => period - j,
                    (true, false) => period - 1.0 - j,
                };
                Some(j.clamp(0.0, last) as usize)
            }
        }
    }
}

/// The taps of a point between four pixels, where a pixel outside counts as zero.
fn corners([h, w]: [usize; 2], y: f64, x: f64) -> [(u32, f32); 4] {
    let (top, left) = (y.floor(), x.floor());
    let (fy, fx) = (y - top, x - left);
    let corner = |row: f64, column: f64, weight: f64| {
        let inside = row >= 0.0 && column >= 0.0 && row < h as f64 && column < w as f64;
        if inside {
            ((row as usize * w + column as usize) as u32, weight as f32)
        } else {
            (0, 0.0)
        }
    };
    [
        corner(top, left, (1.0 - fy) * (1.0 - fx)),
        corner(top, left + 1.0, (1.0 - fy) * fx),
        corner(top + 1.0, left, fy * (1.0 - fx)),
        corner(top + 1.0, left + 1.0, fy * fx),
    ]
}

/// Points whose taps are found at a time.
const POINTS: usize = 64;

/// The taps of points between four pixels, as [`corners`] finds them; a factor of each weighs all of its taps.
struct Corners<'a> {
    size: [usize; 2],
    y: &'a [f64],
    x: &'a [f64],
    factor: Option<&'a [f32]>,
    /// Of each corner, as many as there are points.
    offsets: [&'a mut [u32]; 4],
    weights: [&'a mut [f32]; 4],
}

impl Kernel for Corners<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Corners {
            size: [h, w],
            y,
            x,
            factor,
            offsets,
            weights,
        } = self;
        for (corner, (offsets, weights)) in offsets.into_iter().zip(weights).enumerate() {
            let (below, right) = ((corner / 2) as f64, (corner % 2) as f64);
            for (((&y, &x), offset), weight) in
                y.iter().zip(x).zip(offsets.iter_mut()).zip(weights.iter_mut())
            {
                let (top, left) = (y.floor(), x.floor());
                let (fy, fx) = (y - top, x - left);
                let (row, column) = (top + below, left + right);
                let inside = (row >= 0.0) & (column >= 0.0) & (row < h as f64) & (column < w as f64);
                // an image has fewer pixels than 2^32, and their numbers are exact
                let at = if inside { row * w as f64 + column } else { 0.0 };
                let down = if below == 0.0 { 1.0 - fy } else { fy };
                let along = if right == 0.0 { 1.0 - fx } else { fx };
                // SAFETY: not negative, and below the number of pixels.
                *offset = unsafe { at.to_int_unchecked::<i32>() } as u32;
                *weight = if inside { (down * along) as f32 } else { 0.0 };
            }
            if let Some(factor) = factor {
                for (weight, &factor) in weights.iter_mut().zip(factor) {
                    *weight *= factor;
                }
            }
        }
    }
}

/// Four rows of as many elements.
fn four<T>(all: &mut [T], points: usize, start: usize, len: usize) -> [&mut [T]; 4] {
    let mut rows = all[..4 * points].chunks_exact_mut(points);
    std::array::from_fn(|_| &mut rows.next().expect("invariant: four rows")[start..start + len])
}

/// The columns of a deformable convolution, one image at a time.
#[derive(Debug, Clone, Copy)]
pub struct DeformPlan {
    /// Channels of an image.
    pub channels: usize,
    /// Channels that have offsets of their own.
    pub groups: usize,
    /// Height and width of an image.
    pub size: [usize; 2],
    /// Height and width of the result.
    pub output: [usize; 2],
    /// Height and width of the window.
    pub kernel: [usize; 2],
    /// Steps of the window.
    pub strides: [usize; 2],
    /// Steps within it.
    pub dilations: [usize; 2],
    /// What is put before the image.
    pub pads: [i64; 2],
}

impl DeformPlan {
    fn points(&self) -> usize {
        self.output[0] * self.output[1]
    }

    fn window(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Words of each of the two scratches.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        4 * self.points()
    }

    /// `columns` `[c * window, points]` of an image `x` `[c, h, w]`, with `offsets` `[groups * window * 2, points]` of y and x,
    /// and `mask` `[groups * window, points]`.
    ///
    /// # Panics
    /// If a slice is too short.
    #[allow(clippy::too_many_arguments)]
    pub fn run(
        &self,
        isa: Isa,
        pool: &ThreadPool,
        x: &[f32],
        offsets: &[f32],
        mask: Option<&[f32]>,
        (at, weights): (&mut [u32], &mut [f32]),
        columns: &mut [f32],
    ) {
        let (points, window, pixels) = (self.points(), self.window(), self.size[0] * self.size[1]);
        let per_group = self.channels / self.groups;
        let columns = Parts::new(&mut columns[..self.channels * window * points]);
        for group in 0..self.groups {
            for tap in 0..window {
                let own = group * window + tap;
                let (dy, dx) = (
                    &offsets[own * 2 * points..][..points],
                    &offsets[(own * 2 + 1) * points..][..points],
                );
                let mask = mask.map(|mask| &mask[own * points..][..points]);
                let place = |d: usize, i: usize, tap: usize| {
                    (i * self.strides[d] + tap * self.dilations[d]) as f64 - self.pads[d] as f64
                };
                let (down, across) = (tap / self.kernel[1], tap % self.kernel[1]);
                for start in (0..points).step_by(POINTS) {
                    let len = POINTS.min(points - start);
                    let (mut y, mut x) = ([0.0; POINTS], [0.0; POINTS]);
                    for i in 0..len {
                        let (row, column) = ((start + i) / self.output[1], (start + i) % self.output[1]);
                        y[i] = place(0, row, down) + f64::from(dy[start + i]);
                        x[i] = place(1, column, across) + f64::from(dx[start + i]);
                    }
                    isa.run(Corners {
                        size: self.size,
                        y: &y[..len],
                        x: &x[..len],
                        factor: mask.map(|mask| &mask[start..start + len]),
                        offsets: four(at, points, start, len),
                        weights: four(weights, points, start, len),
                    });
                }
                let taps = Taps {
                    each: 4,
                    offsets: &at[..4 * points],
                    weights: &weights[..4 * points],
                };
                let chunks = (per_group * points * 4).div_ceil(CHUNK).min(pool.threads() * 4);
                pool.run(chunks, &|chunk| {
                    for i in share(per_group, chunks, chunk, 1) {
                        let channel = group * per_group + i;
                        isa.run(Plane {
                            x: &x[channel * pixels..][..pixels],
                            taps: &taps,
                            // SAFETY: each channel and tap has a row of its own.
                            y: unsafe { columns.part((channel * window + tap) * points, points) },
                        });
                    }
                });
            }
        }
    }
}

/// Means of regions.
#[derive(Debug, Clone, Copy)]
pub struct RegionPlan {
    /// Images and their planes.
    pub images: [usize; 2],
    /// Height and width of an image.
    pub size: [usize; 2],
    /// Cells of a region.
    pub output: [usize; 2],
    /// Samples along each side of a cell.
    pub samples: usize,
    /// From coordinates of regions to pixels.
    pub scale: f64,
    /// Whether coordinates mean the middles of pixels.
    pub half_pixel: bool,
}

impl RegionPlan {
    fn taps(&self) -> usize {
        4 * self.samples * self.samples
    }

    /// Words of each of the two scratches.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        self.taps() * self.output[0] * self.output[1]
    }

    /// `y` `[regions, c, cells]` of `x` `[n, c, h, w]`, at regions `[regions, 4]` of x, y, x and y.
    ///
    /// # Errors
    /// The number of an image that there is none of.
    ///
    /// # Panics
    /// If a slice is too short.
    pub fn run(
        &self,
        isa: Isa,
        pool: &ThreadPool,
        x: &[f32],
        (regions, images): (&[f32], &[i64]),
        (offsets, weights): (&mut [u32], &mut [f32]),
        y: &mut [f32],
    ) -> Result<(), i64> {
        let ([n, c], [h, w], [rows, columns]) = (self.images, self.size, self.output);
        let (cells, pixels, each) = (rows * columns, h * w, self.taps());
        if cells == 0 || c == 0 {
            return Ok(());
        }
        let shift = if self.half_pixel { 0.5 } else { 0.0 };
        for ((region, &image), y) in regions
            .chunks_exact(4)
            .zip(images)
            .zip(y.chunks_exact_mut(c * cells))
        {
            let Some(image) = usize::try_from(image).ok().filter(|&image| image < n) else {
                return Err(image);
            };
            let edge = |i: usize| f64::from(region[i]) * self.scale - shift;
            let (left, top) = (edge(0), edge(1));
            let (mut width, mut height) = (edge(2) - left, edge(3) - top);
            if !self.half_pixel {
                (width, height) = (width.max(1.0), height.max(1.0));
            }
            let (height, width) = (height / rows as f64, width / columns as f64);
            let (samples, count) = (self.samples, (self.samples * self.samples) as f32);
            for cell in 0..cells {
                for sample in 0..samples * samples {
                    let along = |i: usize, sample: usize| i as f64 + (sample as f64 + 0.5) / samples as f64;
                    let at_y = top + along(cell / columns, sample / samples) * height;
                    let at_x = left + along(cell % columns, sample % samples) * width;
                    for (corner, (offset, weight)) in self.inside(at_y, at_x).into_iter().enumerate() {
                        let tap = (sample * 4 + corner) * cells + cell;
                        offsets[tap] = offset;
                        weights[tap] = weight / count;
                    }
                }
            }
            let taps = Taps {
                each,
                offsets: &offsets[..each * cells],
                weights: &weights[..each * cells],
            };
            gather(
                isa,
                pool,
                &x[image * c * pixels..][..c * pixels],
                pixels,
                cells,
                &taps,
                y,
            );
        }
        Ok(())
    }

    /// The taps of a point: none a whole pixel outside, else clamped to the image.
    fn inside(&self, y: f64, x: f64) -> [(u32, f32); 4] {
        let [h, w] = self.size;
        if !(-1.0..=h as f64).contains(&y) || !(-1.0..=w as f64).contains(&x) {
            return [(0, 0.0); 4];
        }
        let clamped = |v: f64, n: usize| v.max(0.0).min(n as f64 - 1.0);
        corners(self.size, clamped(y, h), clamped(x, w))
    }
}

/// The sampling grid of affine maps `theta` `[n, 2, 3]` for images of this height and width: `[n, h, w, 2]`.
///
/// # Panics
/// If a slice is too short.
pub fn affine_grid(
    isa: Isa,
    pool: &ThreadPool,
    theta: &[f32],
    [h, w]: [usize; 2],
    align_corners: bool,
    y: &mut [f32],
) {
    if h == 0 || w == 0 {
        return;
    }
    let rows = y.len() / (2 * w);
    let out = Parts::new(y);
    let chunks = (rows * w).div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        for row in share(rows, chunks, chunk, 1) {
            let theta = &theta[row / h * 6..][..6];
            isa.run(AffineRow {
                theta: std::array::from_fn(|i| f64::from(theta[i])),
                at: unit(row % h, h, align_corners),
                align_corners,
                // SAFETY: chunks share the rows out.
                y: unsafe { out.part(row * 2 * w, 2 * w) },
            });
        }
    });
}

#[inline(always)]
fn unit(i: usize, size: usize, align_corners: bool) -> f64 {
    if !align_corners {
        (2.0 * i as f64 + 1.0) / size as f64 - 1.0
    } else if size == 1 {
        0.0
    } else {
        2.0 * i as f64 / (size as f64 - 1.0) - 1.0
    }
}

struct AffineRow<'a> {
    theta: [f64; 6],
    at: f64,
    align_corners: bool,
    y: &'a mut [f32],
}

impl Kernel for AffineRow<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let AffineRow {
            theta: [a, b, c, d, e, f],
            at,
            align_corners,
            y,
        } = self;
        let (points, _) = y.as_chunks_mut::<2>();
        let width = points.len();
        let (first, second) = (b * at, e * at);
        for (i, point) in points.iter_mut().enumerate() {
            let x = unit(i, width, align_corners);
            *point = [(a * x + first + c) as f32, (d * x + second + f) as f32];
        }
    }
}

/// Windows of images of two dimensions whose elements are added back to where they came from.
#[derive(Debug, Clone, Copy)]
pub struct ColumnsPlan {
    /// Height and width of an image.
    pub size: [usize; 2],
    /// Height and width of the window.
    pub kernel: [usize; 2],
    /// Windows along each side.
    pub windows: [usize; 2],
    /// Steps of the window.
    pub strides: [usize; 2],
    /// Steps within it.
    pub dilations: [usize; 2],
    /// What is put before the image.
    pub pads: [i64; 2],
}

impl ColumnsPlan {
    /// `y` `[planes, h, w]` of columns `[planes, taps, windows]`.
    ///
    /// # Panics
    /// If a slice is too short.
    pub fn run(&self, isa: Isa, pool: &ThreadPool, columns: &[f32], y: &mut [f32]) {
        let pixels = self.size[0] * self.size[1];
        let own = self.kernel.iter().chain(&self.windows).product::<usize>();
        if pixels == 0 {
            return;
        }
        let planes = y.len() / pixels;
        let out = Parts::new(y);
        let chunks = (planes * own)
            .div_ceil(CHUNK)
            .clamp(1, pool.threads() * 4)
            .min(planes.max(1));
        pool.run(chunks, &|chunk| {
            for plane in share(planes, chunks, chunk, 1) {
                isa.run(ColumnsPlane {
                    plan: self,
                    columns: &columns[plane * own..][..own],
                    // SAFETY: chunks share the planes out.
                    y: unsafe { out.part(plane * pixels, pixels) },
                });
            }
        });
    }
}

struct ColumnsPlane<'a> {
    plan: &'a ColumnsPlan,
    columns: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for ColumnsPlane<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let ColumnsPlane { plan, columns, y } = self;
        let ([_, width], [rows, across]) = (plan.size, plan.windows);
        y.fill(0.0);
        if rows * across == 0 {
            return;
        }
        let place = |d: usize, i: usize, tap: usize| {
            let at = (i * plan.strides[d] + tap * plan.dilations[d]) as i64 - plan.pads[d];
            usize::try_from(at).ok().filter(|&at| at < plan.size[d])
        };
        for (tap, columns) in columns.chunks_exact(rows * across).enumerate() {
            let (down, right) = (tap / plan.kernel[1], tap % plan.kernel[1]);
            for (row, columns) in columns.chunks_exact(across).enumerate() {
                let Some(to) = place(0, row, down) else { continue };
                let y = &mut y[to * width..][..width];
                // the windows whose element lies in the image are neighbours
                let first = (0..across).find(|&i| place(1, i, right).is_some());
                let Some(first) = first else { continue };
                let start = place(1, first, right).unwrap_or(0);
                let from = &columns[first..];
                if plan.strides[1] == 1 {
                    for (y, x) in y[start..].iter_mut().zip(from) {
                        *y += x;
                    }
                } else {
                    for (y, x) in y[start..].iter_mut().step_by(plan.strides[1]).zip(from) {
                        *y += x;
                    }
                }
            }
        }
    }
}

/// What an axis of an image becomes: each of its new elements is a weighted sum of as many old ones.
#[derive(Debug, Clone)]
pub struct AxisPlan {
    /// Elements of the axis.
    from: usize,
    each: usize,
    /// `[output, tap]`
    offsets: Vec<usize>,
    weights: Vec<f32>,
}

impl AxisPlan {
    /// Of an axis of `from` elements, by the place and weight of each tap of each new element.
    ///
    /// # Panics
    /// If a place is outside the axis.
    #[must_use]
    pub fn new(from: usize, lines: &[Vec<(usize, f64)>]) -> Self {
        let each = lines.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let (mut offsets, mut weights) = (Vec::new(), Vec::new());
        for line in lines {
            for tap in 0..each {
                let (offset, weight) = line
                    .get(tap)
                    .copied()
                    .unwrap_or((line.first().map_or(0, |tap| tap.0), 0.0));
                assert!(offset < from, "axis: place {offset} of {from}");
                offsets.push(offset);
                weights.push(weight as f32);
            }
        }
        Self {
            from,
            each,
            offsets,
            weights,
        }
    }

    /// New elements.
    #[must_use]
    pub fn output(&self) -> usize {
        self.offsets.len() / self.each
    }

    /// Multiply-adds of `[outer, axis, inner]` elements.
    #[must_use]
    pub fn multiply_adds(&self, outer: usize, inner: usize) -> usize {
        outer * inner * self.offsets.len()
    }

    /// `y` `[outer, output, inner]` of `x` `[outer, axis, inner]`.
    ///
    /// # Panics
    /// If a length is not that of its shape.
    pub fn run(&self, isa: Isa, pool: &ThreadPool, inner: usize, x: &[f32], y: &mut [f32]) {
        let output = self.output();
        if y.is_empty() {
            return;
        }
        let outer = y.len() / (output * inner);
        assert_eq!(x.len(), outer * self.from * inner, "axis: length of the input");
        let out = Parts::new(y);
        let chunks = (outer * inner * self.offsets.len())
            .div_ceil(CHUNK)
            .min(pool.threads() * 4);
        pool.run(chunks, &|chunk| {
            for o in share(outer, chunks, chunk, 1) {
                isa.run(AxisLines {
                    plan: self,
                    inner,
                    x: &x[o * self.from * inner..][..self.from * inner],
                    // SAFETY: chunks share the lines out.
                    y: unsafe { out.part(o * output * inner, output * inner) },
                });
            }
        });
    }
}

struct AxisLines<'a> {
    plan: &'a AxisPlan,
    inner: usize,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for AxisLines<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let AxisLines { plan, inner, x, y } = self;
        let lines = plan
            .offsets
            .chunks_exact(plan.each)
            .zip(plan.weights.chunks_exact(plan.each));
        if inner == 1 {
            for (y, (offsets, weights)) in y.iter_mut().zip(lines) {
                let taps = offsets.iter().zip(weights);
                *y = taps.fold(0.0, |sum, (&offset, &weight)| sum + weight * x[offset]);
            }
            return;
        }
        for (y, (offsets, weights)) in y.chunks_exact_mut(inner).zip(lines) {
            for (tap, (&offset, &weight)) in offsets.iter().zip(weights).enumerate() {
                let x = &x[offset * inner..][..inner];
                if tap == 0 {
                    for (y, &x) in y.iter_mut().zip(x) {
                        *y = weight * x;
                    }
                } else {
                    for (y, &x) in y.iter_mut().zip(x) {
                        *y += weight * x;
                    }
                }
            }
        }
    }
}

/// Each pixel of images of these lines and width, repeated down and across.
///
/// # Panics
/// If a length is not that of its shape.
pub fn repeat<T: Copy + Send + Sync>(
    isa: Isa,
    pool: &ThreadPool,
    [lines, width]: [usize; 2],
    [down, across]: [usize; 2],
    x: &[T],
    y: &mut [T],
) {
    let long = width * across;
    assert_eq!(
        (x.len(), y.len()),
        (lines * width, lines * down * long),
        "repeat: lengths"
    );
    let out = Parts::new(y);
    let chunks = (lines * down * long).div_ceil(CHUNK).min(pool.threads() * 4);
    pool.run(chunks, &|chunk| {
        let own = share(lines, chunks, chunk, 1);
        isa.run(Repeat {
            x: &x[own.start * width..own.end * width],
            width,
            down,
            across,
            // SAFETY: chunks share the lines out.
            y: unsafe { out.part(own.start * down * long, own.len() * down * long) },
        });
    });
}

struct Repeat<'a, T> {
    x: &'a [T],
    width: usize,
    down: usize,
    across: usize,
    y: &'a mut [T],
}

impl<T: Copy> Kernel for Repeat<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Repeat {
            x,
            width,
            down,
            across,
            y,
        } = self;
        let long = width * across;
        if long == 0 || down == 0 {
            return;
        }
        for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(down * long)) {
            let (first, rest) = y.split_at_mut(long);
            if across == 2 {
                for (y, &x) in first.as_chunks_mut::<2>().0.iter_mut().zip(x) {
                    *y = [x; 2];
                }
            } else {
                for (y, &x) in first.chunks_exact_mut(across).zip(x) {
                    y.fill(x);
                }
            }
            for y in rest.chunks_exact_mut(long) {
                y.copy_from_slice(first);
            }
        }
    }
}

#[cfg(test)]
mod tests;
