//! Sampling of images between pixels: by grids, regions and offsets. Also affine grids, and columns
//! added back into images.
//!
//! 1. The position of a point is computed in `f64`, as in the scalar reference, so that both round
//!    to the same pixel; weights and sums are `f32`.
//! 2. A point has the same number of taps in all planes of an image: offsets into a plane, and
//!    weights. A tap outside the image has weight zero.
//!
//! Start reading at [`GridPlan`]; affine grids, columns added back, sums along axes and
//! the largest elements of regions have files of their own.
#![allow(unsafe_code)]

mod affine;
mod axis;
mod columns;
mod largest;

pub use affine::affine_grid;
pub use axis::{AxisPlan, repeat};
pub use columns::ColumnsPlan;
pub use largest::LargestPlan;

use crate::isa::{Kernel, Simd};
pub use crate::reference::resize::Outside;
use crate::threads::{CHUNK, Parts, share};
use crate::{Isa, ThreadPool};

/// How values between pixels are interpolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// The nearest pixel.
    Nearest,
    /// Linear: two neighbours along each axis.
    Linear,
    /// Cubic: four neighbours along each axis, with the coefficient -0.75.
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

impl<'a> Taps<'a> {
    /// Taps in planes of so many pixels.
    fn new(isa: Isa, pixels: usize, each: usize, offsets: &'a [u32], weights: &'a [f32]) -> Self {
        struct Most<'a>(&'a [u32]);
        impl Kernel for Most<'_> {
            type Output = u32;
            #[inline(always)]
            fn run<S: Simd>(self, _: S) -> u32 {
                self.0.iter().fold(0, |most, &offset| most.max(offset))
            }
        }
        assert!(
            offsets.is_empty() || (isa.run(Most(offsets)) as usize) < pixels && i32::try_from(pixels).is_ok(),
            "taps: a place outside its plane"
        );
        Self {
            each,
            offsets,
            weights,
        }
    }
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
    fn run<S: Simd>(self, s: S) {
        let Plane { x, taps, y } = self;
        let (points, zero) = (y.len(), s.splat(0.0));
        for point in (0..points).step_by(S::LANES) {
            let left = points - point;
            let mut sum = zero;
            for tap in 0..taps.each {
                let at = tap * points + point;
                let (offsets, weights) = (&taps.offsets[at..][..left], &taps.weights[at..][..left]);
                // SAFETY: `left` offsets and weights remain of this tap. `Taps::new` saw that each offset is one of a pixel of the
                // plane, and the lanes behind them are numbered 0.
                let (value, weight) = unsafe {
                    let offset = s.bits(s.read(offsets.as_ptr().cast::<f32>(), left));
                    (s.gather(x.as_ptr(), offset), s.read(weights.as_ptr(), left))
                };
                // what lies outside is not looked at: the pixel at its offset may be infinite
                let value = s.select(s.eq(weight, zero), zero, value);
                sum = s.mul_add(value, weight, sum);
            }
            // SAFETY: `left` points remain.
            unsafe { s.write(y[point..].as_mut_ptr(), sum, left) };
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
    /// The interpolation.
    pub between: Between,
    /// The values outside the image.
    pub outside: Outside,
    /// Whether -1 and 1 are the centres of the outermost pixels instead of their edges.
    pub align_corners: bool,
}

impl GridPlan {
    fn taps(&self) -> usize {
        self.between.side() * self.between.side()
    }

    /// Length of each of the two scratch buffers, in units of 32 bits.
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
                    for (row, &share_down) in down.iter().enumerate().take(side) {
                        let at_row = self.pixel(top + row as f64, h);
                        for (tap, &share_across) in across.iter().enumerate().take(side) {
                            let at = at_row.zip(self.pixel(left + tap as f64, w));
                            let (offsets, weights) = column(row * side + tap);
                            offsets[i] = at.map_or(0, |(row, column)| (row * w + column) as u32);
                            weights[i] = at.map_or(0.0, |_| (share_down * share_across) as f32);
                        }
                    }
                }
            });
            let pixels = h * w;
            let (offsets, weights) = (&offsets[..each * points], &weights[..each * points]);
            let taps = Taps::new(isa, pixels, each, offsets, weights);
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

/// Points whose taps are found at a time.
const POINTS: usize = 64;

/// The taps of points between four pixels, where a pixel outside counts as zero; a factor of each point weighs all of its taps.
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
    /// Strides of the window.
    pub strides: [usize; 2],
    /// Dilations of the window.
    pub dilations: [usize; 2],
    /// Padding before the image.
    pub pads: [i64; 2],
}

impl DeformPlan {
    fn points(&self) -> usize {
        self.output[0] * self.output[1]
    }

    fn window(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// Length of each of the two scratch buffers, in units of 32 bits.
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
                let taps = Taps::new(isa, pixels, 4, &at[..4 * points], &weights[..4 * points]);
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
    /// Whether coordinates refer to the centres of pixels.
    pub half_pixel: bool,
}

impl RegionPlan {
    fn taps(&self) -> usize {
        4 * self.samples * self.samples
    }

    /// Length of each of the two scratch buffers, in units of 32 bits.
    #[must_use]
    pub fn scratch_len(&self) -> usize {
        self.taps() * self.output[0] * self.output[1]
    }

    /// `y` `[regions, c, cells]` of `x` `[n, c, h, w]`, at regions `[regions, 4]` of x, y, x and y.
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
            let samples = self.samples;
            let share_of = 1.0 / (samples * samples) as f32;
            let along = |i: usize, sample: usize| i as f64 + (sample as f64 + 0.5) / samples as f64;
            for sample in 0..samples * samples {
                let own = sample * 4 * cells..(sample + 1) * 4 * cells;
                for start in (0..cells).step_by(POINTS) {
                    let len = POINTS.min(cells - start);
                    let (mut at_y, mut at_x) = ([0.0; POINTS], [0.0; POINTS]);
                    for i in 0..len {
                        let (row, column) = ((start + i) / columns, (start + i) % columns);
                        let y = top + along(row, sample / samples) * height;
                        let x = left + along(column, sample % samples) * width;
                        (at_y[i], at_x[i]) = self.inside(y, x);
                    }
                    isa.run(Corners {
                        size: self.size,
                        y: &at_y[..len],
                        x: &at_x[..len],
                        factor: Some(&[share_of; POINTS][..len]),
                        offsets: four(&mut offsets[own.clone()], cells, start, len),
                        weights: four(&mut weights[own.clone()], cells, start, len),
                    });
                }
            }
            let (offsets, weights) = (&offsets[..each * cells], &weights[..each * cells]);
            let taps = Taps::new(isa, pixels, each, offsets, weights);
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

    /// Where a point is sampled: clamped to the image, or far outside where it is a whole pixel outside.
    fn inside(&self, y: f64, x: f64) -> (f64, f64) {
        let [h, w] = self.size;
        if !(-1.0..=h as f64).contains(&y) || !(-1.0..=w as f64).contains(&x) {
            return (-9.0, -9.0);
        }
        let clamped = |v: f64, n: usize| v.max(0.0).min(n as f64 - 1.0);
        (clamped(y, h), clamped(x, w))
    }
}
