//! Pooling of channels-last images: maximum, average and norms, also over the whole image.
//!
//! Taps outside the image are skipped, never read as zeros.
//!
//! Not here: indices of maxima, and norms of other orders than 1 and 2 (`LpPool`).
#![allow(unsafe_code)]

use crate::conv::Window;
use crate::error::product;
use crate::isa::{Kernel, Load, Simd};
use crate::threads::{Address, Parts, share};
use crate::{Error, Isa, Slice, SliceMut, ThreadPool};
use std::ops::Range;

/// The kind of pooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// The largest value inside the image; NaN if any value is NaN.
    Max,
    /// The largest value inside the image, found by comparisons: NaN only if the first tap is NaN,
    /// because no value compares larger.
    MaxByComparing,
    /// The mean of the values inside the image.
    Average,
    /// The sum of the values inside the image over the count of taps that lie inside the image or its padding
    /// (ONNX `count_include_pad`; taps that only `ceil_mode` reaches are not counted).
    AverageCountPadding,
    /// The sum of the absolute values inside the image.
    Norm1,
    /// The root of the sum of the squares inside the image.
    Norm2,
}

/// Shape of a pooling: `[batch, depth, height, width, channels]`, unused spatial dimensions first and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolParams {
    /// Images.
    pub batch: usize,
    /// Channels.
    pub channels: usize,
    /// The window and the spatial sizes, see [`Window`].
    pub window: Window,
    /// Padding after the end, which only [`Pooling::AverageCountPadding`] needs to know.
    pub pads_end: [usize; 3],
}

impl PoolParams {
    /// For the window whose first tap is at `first`: per dimension the taps inside the image, and how many count.
    #[inline(always)]
    pub(crate) fn taps(&self, first: [isize; 3], pooling: Pooling) -> ([(usize, usize); 3], usize) {
        let window = &self.window;
        let mut taps = [(0usize, 0usize); 3];
        let (mut inside, mut counted) = (1usize, 1usize);
        for i in 0..3 {
            let step = window.dilations[i] as isize;
            let end = window.input[i] as isize;
            let before = |limit: isize| {
                // taps whose coordinate is below `limit`
                let count = (limit - first[i] + step - 1).div_euclid(step);
                count.clamp(0, window.kernel[i] as isize) as usize
            };
            taps[i] = (before(0), before(end));
            inside *= taps[i].1 - taps[i].0;
            counted *= before(end + self.pads_end[i] as isize) - before(-(window.pads[i] as isize));
        }
        let counted = if pooling == Pooling::AverageCountPadding {
            counted
        } else {
            inside
        };
        (taps, counted)
    }
}

/// A pooling, planned for its shape.
///
/// ```
/// use polychip_cpu_kernels::{Isa, ThreadPool, pool::{PoolPlan, Pooling}};
///
/// let plan = PoolPlan::global(1, 3, 2)?; // three pixels of two channels
/// let mut mean = [0.0f32; 2];
/// let image = [1.0f32, 10.0, 2.0, 20.0, 3.0, 30.0];
/// plan.run(Isa::detect(), &ThreadPool::new(1), Pooling::Average, &image, &mut mean);
/// assert!((mean[0] - 2.0).abs() < 1e-6 && (mean[1] - 20.0).abs() < 1e-5);
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PoolPlan {
    params: PoolParams,
    /// Elements between two input pixels, and between two output pixels.
    in_stride: usize,
    out_stride: usize,
    in_len: usize,
    out_len: usize,
}

impl PoolPlan {
    /// Elements of the input.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.in_len
    }

    /// Elements of the output.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.out_len
    }

    /// Plans a pooling.
    ///
    /// # Errors
    /// If a kernel size, stride or dilation is zero, or a size does not fit the address space.
    pub fn new(params: PoolParams) -> Result<Self, Error> {
        const NAME: &str = "pool";
        let PoolParams {
            batch,
            channels,
            window,
            pads_end,
        } = params;
        window.check(NAME)?;
        for ((input, before), after) in window.input.iter().zip(window.pads).zip(pads_end) {
            input
                .checked_add(before)
                .and_then(|size| size.checked_add(after))
                .ok_or_else(|| Error::too_large(NAME, "the padded input"))?;
        }
        let [id, ih, iw] = window.input;
        let [od, oh, ow] = window.output;
        Ok(Self {
            params,
            in_stride: channels,
            out_stride: channels,
            in_len: product(NAME, "the input", &[batch, id, ih, iw, channels])?,
            out_len: product(NAME, "the output", &[batch, od, oh, ow, channels])?,
        })
    }

    /// The same pooling for images that are parts of wider ones: neighbouring pixels are
    /// `in_stride` and `out_stride` elements apart.
    ///
    /// # Errors
    /// If a stride is smaller than the channels or a size does not fit the address space.
    pub fn with_strides(mut self, in_stride: usize, out_stride: usize) -> Result<Self, Error> {
        const NAME: &str = "pool";
        let PoolParams {
            batch,
            channels,
            window,
            ..
        } = self.params;
        let len = |size: [usize; 3], stride: usize| {
            if stride < channels {
                let rule = "it must not be below the channels";
                return Err(Error::parameter(NAME, "pixel stride", stride, rule));
            }
            let all = product(NAME, "an image", &[batch, size[0], size[1], size[2], stride])?;
            // the last pixel is no longer than its channels
            Ok(if all == 0 || channels == 0 {
                0
            } else {
                all - stride + channels
            })
        };
        self.in_len = len(window.input, in_stride)?;
        self.out_len = len(window.output, out_stride)?;
        (self.in_stride, self.out_stride) = (in_stride, out_stride);
        Ok(self)
    }

    /// A pooling over the whole image: `[batch, pixels, channels]` to `[batch, channels]`.
    ///
    /// # Errors
    /// If `pixels` is zero or the size does not fit the address space.
    pub fn global(batch: usize, pixels: usize, channels: usize) -> Result<Self, Error> {
        Self::new(PoolParams {
            batch,
            channels,
            window: Window::new_2d([1, pixels], [1, 1], [1, pixels], [1, 1], [1, 1], [0, 0]),
            pads_end: [0; 3],
        })
    }

    /// Pools `input` `[batch, in spatial, channels]` to `output` `[batch, out spatial, channels]`.
    ///
    /// A window that lies outside the image gives minus infinity as its maximum and zero as its average.
    ///
    /// # Panics
    /// If a slice's length is not that of its shape (with strides: is below it), or element types differ.
    pub fn run<'a>(
        &self,
        isa: Isa,
        pool: &ThreadPool,
        pooling: Pooling,
        input: impl Into<Slice<'a>>,
        output: impl Into<SliceMut<'a>>,
    ) {
        self.slices(isa, pool, pooling, input.into(), output.into());
    }

    fn slices(&self, isa: Isa, pool: &ThreadPool, pooling: Pooling, input: Slice<'_>, output: SliceMut<'_>) {
        match (input, output) {
            (Slice::F32(x), SliceMut::F32(y)) => self.typed(isa, pool, pooling, x, y),
            (Slice::Bf16(x), SliceMut::Bf16(y)) => self.typed(isa, pool, pooling, x, y),
            _ => panic!("pool: element types differ"),
        }
    }

    fn typed<E: Load>(&self, isa: Isa, pool: &ThreadPool, pooling: Pooling, input: &[E], output: &mut [E]) {
        let channels = self.params.channels;
        let fits = |len: usize, own: usize, stride: usize| len == own || stride > channels && len > own;
        assert!(
            fits(input.len(), self.in_len, self.in_stride),
            "pool: length of the input"
        );
        assert!(
            fits(output.len(), self.out_len, self.out_stride),
            "pool: length of the output"
        );
        if self.out_len == 0 {
            return;
        }
        let PoolParams {
            batch,
            channels,
            window,
            ..
        } = self.params;
        let pixels = batch * window.out_pixels();
        let work = pixels.saturating_mul(channels).saturating_mul(window.taps());
        // few pixels with many taps (global pooling) are cut by channels instead
        let cuts = if pixels < pool.threads() {
            channels.div_ceil(256).min(pool.threads())
        } else {
            1
        };
        let chunks = if work < 100_000 {
            1
        } else {
            pixels.min(pool.threads() * 4)
        };
        let cuts = if chunks == 1 && work < 100_000 { 1 } else { cuts };
        let (input, output) = (Address(input.as_ptr()), Parts::new(output));
        pool.run(chunks * cuts, &|chunk| {
            E::enter(
                isa,
                &Pixels {
                    plan: self,
                    pixels: share(pixels, chunks, chunk / cuts, 1),
                    channels: share(channels, cuts, chunk % cuts, 16),
                    pooling,
                    input: input.at(0),
                    output: output.as_ptr(),
                },
            );
        });
    }
}

/// A range of output pixels and of channels.
struct Pixels<'a, E> {
    plan: &'a PoolPlan,
    pixels: Range<usize>,
    channels: Range<usize>,
    pooling: Pooling,
    input: *const E,
    output: *mut E,
}

/// The taps of one window that lie in the image, and where they are.
#[derive(Clone, Copy)]
struct Taps<E> {
    /// Channel 0 of the first of them.
    from: *const E,
    /// How many per dimension, and the elements between two.
    counts: [usize; 3],
    steps: [usize; 3],
}

/// What is made of the taps of a window.
const SUM: u8 = 0;
const MAX: u8 = 1;
const MAX_BY_COMPARING: u8 = 2;
const NORM1: u8 = 3;
const NORM2: u8 = 4;

/// Whether what is made of the taps is a sum.
const fn is_sum(how: u8) -> bool {
    !matches!(how, MAX | MAX_BY_COMPARING)
}

/// Vectors of channels that are pooled together: independent results, and one walk over the taps for all of them.
const BLOCK: usize = 4;

impl<E: Load> Kernel for &Pixels<'_, E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.pooling {
            Pooling::Max => self.pixels::<S, MAX>(s),
            Pooling::MaxByComparing => self.pixels::<S, MAX_BY_COMPARING>(s),
            Pooling::Average | Pooling::AverageCountPadding => self.pixels::<S, SUM>(s),
            Pooling::Norm1 => self.pixels::<S, NORM1>(s),
            Pooling::Norm2 => self.pixels::<S, NORM2>(s),
        }
    }
}

impl<E: Load> Pixels<'_, E> {
    #[inline(always)]
    fn pixels<S: Simd, const HOW: u8>(&self, s: S) {
        let PoolPlan {
            params: PoolParams { window, .. },
            in_stride,
            out_stride,
            ..
        } = *self.plan;
        if self.pixels.is_empty() {
            return;
        }
        let (out_pixels, in_pixels) = (window.out_pixels(), window.in_pixels());
        let line = window.input[2] * in_stride;
        let distance = [window.input[1] * line, line, in_stride];
        let steps = std::array::from_fn(|i| distance[i].wrapping_mul(window.dilations[i]));
        let all = window.kernel.map(|taps| (0, taps));
        let mut at = window.place(self.pixels.start % out_pixels);
        let mut image = self
            .input
            .wrapping_add(self.pixels.start / out_pixels * in_pixels * in_stride);
        for pixel in self.pixels.clone() {
            let first = window.first_of(at);
            let (taps, counted) = if window.holds(first) {
                (all, window.taps())
            } else {
                self.plan.params.taps(first, self.pooling)
            };
            let mut from = image;
            for i in 0..3 {
                // inside the image, where there is a tap at all
                let place = first[i].wrapping_add((taps[i].0 * window.dilations[i]) as isize) as usize;
                from = from.wrapping_add(place.wrapping_mul(distance[i]));
            }
            let taps = Taps {
                from,
                counts: taps.map(|(first, end)| end - first),
                steps,
            };
            let scale = s.splat(1.0 / counted.max(1) as f32);
            let out = self.output.wrapping_add(pixel * out_stride);
            let mut c = self.channels.start;
            while c < self.channels.end {
                let left = self.channels.end - c;
                // SAFETY: the taps lie in the image, and `left` channels of them and of this output pixel remain.
                unsafe {
                    if left >= BLOCK * S::LANES {
                        block::<S, E, HOW, BLOCK>(s, taps, c, BLOCK * S::LANES, scale, out);
                        c += BLOCK * S::LANES;
                    } else {
                        block::<S, E, HOW, 1>(s, taps, c, left, scale, out);
                        c += S::LANES;
                    }
                }
            }
            if window.advance(&mut at) {
                image = image.wrapping_add(in_pixels * in_stride);
            }
        }
    }
}

/// Taps that are summed up in one chain.
const LONGEST_CHAIN: usize = 128;

/// Joins `count` taps, `step` apart, to `N` vectors of sums.
///
/// # Safety
/// The taps are readable for these channels.
#[inline(always)]
unsafe fn chain<S: Simd, E: Load, const HOW: u8, const N: usize>(
    s: S,
    sums: &mut [S::F; N],
    mut from: *const E,
    step: usize,
    count: usize,
    left: usize,
) {
    for _ in 0..count {
        for (v, sum) in sums.iter_mut().enumerate() {
            let n = if N == 1 { left } else { S::LANES };
            // SAFETY: as the caller promises.
            let x = unsafe { s.read(from.wrapping_add(v * S::LANES), n) };
            *sum = match HOW {
                // a NaN on either side stays
                MAX => s.select(s.eq(x, x), s.max(x, *sum), x),
                // what was found stays where either is NaN
                MAX_BY_COMPARING => s.max(x, *sum),
                NORM1 => s.add(*sum, s.abs(x)),
                NORM2 => s.mul_add(x, x, *sum),
                _ => s.add(*sum, x),
            };
        }
        from = from.wrapping_add(step);
    }
}

/// Reads the tap at `from`.
///
/// # Safety
/// The tap is readable for these channels.
#[inline(always)]
unsafe fn first<S: Simd, E: Load, const N: usize>(s: S, sums: &mut [S::F; N], from: *const E, left: usize) {
    for (v, sum) in sums.iter_mut().enumerate() {
        let n = if N == 1 { left } else { S::LANES };
        // SAFETY: as the caller promises.
        *sum = unsafe { s.read(from.wrapping_add(v * S::LANES), n) };
    }
}

/// Pools `N` vectors of channels from channel `c` on, of which `left` channels exist.
///
/// # Safety
/// The taps are readable and `out` is writable for these channels.
#[inline(always)]
unsafe fn block<S: Simd, E: Load, const HOW: u8, const N: usize>(
    s: S,
    taps: Taps<E>,
    c: usize,
    left: usize,
    scale: S::F,
    out: *mut E,
) {
    let mut sums = [s.splat(if is_sum(HOW) { 0.0 } else { f32::NEG_INFINITY }); N];
    if HOW == MAX_BY_COMPARING && !taps.counts.contains(&0) {
        // SAFETY: the first tap is one of those that the caller promises.
        unsafe { first::<S, E, N>(s, &mut sums, taps.from.wrapping_add(c), left) };
    }
    let mut slice = taps.from.wrapping_add(c);
    for _ in 0..taps.counts[0] {
        let mut row = slice;
        for _ in 0..taps.counts[1] {
            let (mut from, mut count) = (row, taps.counts[2]);
            // long chains of sums in pieces, so that rounding errors grow with the root of the count
            while is_sum(HOW) && count > LONGEST_CHAIN {
                let mut parts = [s.splat(0.0); N];
                // SAFETY: as the caller promises.
                unsafe { chain::<S, E, HOW, N>(s, &mut parts, from, taps.steps[2], LONGEST_CHAIN, left) };
                for (sum, part) in sums.iter_mut().zip(parts) {
                    *sum = s.add(*sum, part);
                }
                from = from.wrapping_add(LONGEST_CHAIN * taps.steps[2]);
                count -= LONGEST_CHAIN;
            }
            // SAFETY: as the caller promises.
            unsafe { chain::<S, E, HOW, N>(s, &mut sums, from, taps.steps[2], count, left) };
            row = row.wrapping_add(taps.steps[1]);
        }
        slice = slice.wrapping_add(taps.steps[0]);
    }
    for (v, &sum) in sums.iter().enumerate() {
        let n = if N == 1 { left } else { S::LANES };
        let y = match HOW {
            SUM => s.mul(sum, scale),
            NORM2 => s.sqrt(sum),
            _ => sum,
        };
        // SAFETY: as the caller promises.
        unsafe { s.write(out.add(c + v * S::LANES), y, n) };
    }
}
