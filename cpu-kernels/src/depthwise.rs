//! Depthwise convolutions of channels-last images, a few neighbouring output pixels at a time, over
//! all channels. Also convolutions in small groups of channels that fit into one vector.
//!
//! 1. Packed weights are `[bias][tap][channel of the group]` groups of the channels rounded up to whole vectors.
//! 2. Neighbouring pixels share loads: a row of `P` outputs reads each of its input columns once.
//!
//! Not here: channel multipliers and larger groups, which are grouped products.
#![allow(unsafe_code)]

use crate::conv::params::ConvParams;
use crate::elementwise::unary::apply_rows;
use crate::isa::{Kernel, Load, MOST_LANES, Simd};
use crate::schedule::Scratch;
use crate::threads::{Address, Parts, share};
use crate::{Epilogue, Isa, Residual, ThreadPool, Unary};
use std::ops::Range;

/// Output pixels that are computed together: enough independent sums to hide the latency of an addition, and a
/// divisor of the widths 7, 14, 28, 56 and 112 that image models have.
const PIXELS: usize = 7;

/// As many where no more remain, as in the narrow spectrograms of models for speech.
const FEW_PIXELS: usize = 5;

/// A depthwise convolution, worked out once.
#[derive(Debug, Clone)]
pub(crate) struct Depthwise {
    isa: Isa,
    params: ConvParams,
    /// Channels rounded up to whole vectors.
    padded: usize,
    /// Channels of a group.
    mates: usize,
    /// Input columns that one row of taps of `PIXELS` outputs reads, where outputs share them; 0 where they do not.
    shared_columns: usize,
}

impl Depthwise {
    /// Whether these kernels are those of a convolution: as many channels out as in, in groups of which vectors hold whole ones.
    pub(crate) fn fits(isa: Isa, params: &ConvParams) -> bool {
        let ConvParams {
            in_channels,
            out_channels,
            groups,
            ..
        } = *params;
        let mates = in_channels / groups;
        groups > 1
            && in_channels == out_channels
            && in_channels == groups * mates
            && (mates == 1 || (2..isa.lanes()).contains(&mates) && isa.lanes().is_multiple_of(mates))
    }

    pub(crate) fn new(isa: Isa, params: ConvParams) -> Self {
        let window = params.window;
        let mates = (params.in_channels / params.groups).max(1);
        let shares =
            mates == 1 && window.kernel[2] == 3 && window.dilations[2] == 1 && window.strides[2] <= 2;
        let shared_columns = if shares {
            (PIXELS - 1) * window.strides[2] + 3
        } else {
            0
        };
        Self {
            isa,
            params,
            padded: params.in_channels.next_multiple_of(isa.lanes()),
            mates,
            shared_columns,
        }
    }

    pub(crate) fn packed_len(&self) -> usize {
        self.padded * (self.params.window.taps() * self.mates + 1)
    }

    pub(crate) fn pack(&self, weights: &[f32], bias: Option<&[f32]>, packed: &mut [f32]) {
        let (channels, taps) = (self.params.in_channels, self.params.window.taps());
        packed.fill(0.0);
        if let Some(bias) = bias {
            packed[..channels].copy_from_slice(bias);
        }
        for (row, weights) in weights.chunks_exact(taps).enumerate() {
            let (c, mate) = (row / self.mates, row % self.mates);
            for (tap, &weight) in weights.iter().enumerate() {
                packed[(tap * self.mates + mate + 1) * self.padded + c] = weight;
            }
        }
    }

    /// Floats of scratch for all threads (zeros) and for each (the pointers of one group of pixels, and where the rows of
    /// its taps start).
    fn scratch(&self) -> (usize, usize) {
        let [depth, height, width] = self.params.window.kernel;
        let columns = self.shared_columns.max(width * PIXELS);
        (self.params.in_channels, 2 * depth * height * (columns + 1))
    }

    pub(crate) fn scratch_len(&self, pool: &ThreadPool) -> usize {
        let (shared, own) = self.scratch();
        Scratch::len(shared, own, pool.threads())
    }

    /// The caller has checked every operand against the shape, and the output is not empty; `residual` may be null.
    pub(crate) fn run<E: Load>(
        &self,
        pool: &ThreadPool,
        packed: &[f32],
        input: &[E],
        residual: *const E,
        epilogue: Epilogue,
        output: Parts<'_, E>,
        scratch: &mut [f32],
    ) {
        let ConvParams {
            batch,
            in_channels,
            window,
            ..
        } = self.params;
        let (shared, own) = self.scratch();
        let scratch = Scratch::new(scratch, shared, own, pool.threads());
        // SAFETY: no chunk runs yet.
        let zeros = unsafe { scratch.shared() };
        zeros.fill(0.0);
        // zeros of four bytes are zeros of two
        let zeros = Address(zeros.as_ptr().cast::<E>());
        let (input, packed) = (Address(input.as_ptr()), Address(packed.as_ptr()));
        let added = Address(residual);
        let lines = batch * window.output[0] * window.output[1];
        let flops = lines * window.output[2] * in_channels * window.taps() * self.mates * 2;
        let chunks = match flops {
            ..100_000 => 1,
            // as the products beside it cut their rows, which each thread then finds in its cache
            100_000..4_000_000 => lines.min(pool.threads()),
            _ => lines.min(pool.threads() * 4),
        };
        pool.run_indexed(chunks, &|thread, chunk| {
            // SAFETY: this thread's own part, asked for once.
            let pointers = unsafe { scratch.own(thread) }.as_mut_ptr().cast::<*const E>();
            E::enter(
                self.isa,
                &Lines {
                    plan: self,
                    lines: share(lines, chunks, chunk, 1),
                    pointers,
                    packed: packed.at(0),
                    input: input.at(0),
                    zeros: zeros.at(0),
                    output: output.as_ptr(),
                    residual: added.at(0),
                    epilogue,
                },
            );
        });
    }
}

/// Rows of output pixels.
struct Lines<'a, E> {
    plan: &'a Depthwise,
    lines: Range<usize>,
    pointers: *mut *const E,
    packed: *const f32,
    input: *const E,
    zeros: *const E,
    output: *mut E,
    residual: *const E,
    epilogue: Epilogue,
}

/// A group of pixels, all of whose operands are known.
#[derive(Clone, Copy)]
struct Group<E> {
    pointers: *const *const E,
    /// Rows of taps.
    tap_rows: usize,
    /// Taps in a row.
    tap_columns: usize,
    packed: *const f32,
    padded: usize,
    channels: usize,
    pixels: usize,
    out: *mut E,
    out_stride: usize,
    residual: *const E,
    residual_last: bool,
    low: f32,
    high: f32,
}

impl<E: Load> Kernel for &Lines<'_, E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ConvParams {
            in_channels: channels,
            window,
            in_stride,
            out_stride,
            ..
        } = self.plan.params;
        let width = window.output[2];
        let lines_per_image = window.output[0] * window.output[1];
        let (low, high, later) = match self.epilogue.activation {
            Unary::Identity => (f32::NEG_INFINITY, f32::INFINITY, false),
            Unary::Relu => (0.0, f32::INFINITY, false),
            Unary::Clip { low, high } => (low, high, false),
            _ => (f32::NEG_INFINITY, f32::INFINITY, true),
        };
        let after = self.epilogue.residual == Residual::AfterActivation;
        let shares = self.plan.shared_columns > 0;
        let [kernel_d, kernel_h, kernel_w] = window.kernel;
        let tap_rows = kernel_d * kernel_h;
        // behind the pointers of a group
        let starts = self
            .pointers
            .wrapping_add(tap_rows * self.plan.shared_columns.max(kernel_w * PIXELS));
        let image_len = window.in_pixels() * in_stride;
        let mut image = self
            .input
            .wrapping_add(self.lines.start / lines_per_image * image_len);
        let mut at = window.place(self.lines.start % lines_per_image * width);
        for line in self.lines.clone() {
            let first = window.first_of(at);
            // the last column, so that advancing goes to the next line
            at[2] = width - 1;
            let line_image = image;
            if window.advance(&mut at) {
                image = image.wrapping_add(image_len);
            }
            if shares {
                self.point_starts(line_image, [first[0] as usize, first[1] as usize], starts);
            }
            let mut x = 0;
            while x < width {
                let few = shares && width - x <= FEW_PIXELS;
                let together = if few { FEW_PIXELS } else { PIXELS };
                let pixels = together.min(width - x);
                let left = (x * window.strides[2]) as isize - window.pads[2] as isize;
                if !shares {
                    self.point_taps(line_image, [first[0], first[1], left], pixels);
                }
                let offset = (line * width + x) * out_stride;
                let residual = if self.residual.is_null() {
                    self.residual
                } else {
                    self.residual.wrapping_add(offset)
                };
                let group = Group {
                    pointers: self.pointers,
                    tap_rows,
                    tap_columns: kernel_w,
                    packed: self.packed,
                    padded: self.plan.padded,
                    channels,
                    pixels,
                    out: self.output.wrapping_add(offset),
                    out_stride,
                    residual: if later && after {
                        std::ptr::null()
                    } else {
                        residual
                    },
                    residual_last: after,
                    low,
                    high,
                };
                macro_rules! three_taps {
                    ($stride:literal, $columns:literal, $pixels:expr) => {{
                        self.point_shared::<$columns>(starts, tap_rows, left);
                        three_taps::<S, E, $stride, $columns, $pixels>(s, group);
                    }};
                }
                match (shares, window.strides[2], few) {
                    (false, _, _) if self.plan.mates > 1 => grouped_taps(s, group, self.plan.mates),
                    (false, _, _) => any_taps(s, group),
                    (_, 1, false) => three_taps!(1, 9, PIXELS),
                    (_, 1, true) => three_taps!(1, 7, FEW_PIXELS),
                    (_, _, false) => three_taps!(2, 15, PIXELS),
                    (_, _, true) => three_taps!(2, 11, FEW_PIXELS),
                }
                if later {
                    let added = if after { residual } else { std::ptr::null() };
                    // SAFETY: these outputs were just stored; the residual has their shape.
                    unsafe {
                        apply_rows(
                            s,
                            self.epilogue.activation,
                            group.out,
                            pixels,
                            channels,
                            out_stride,
                            added,
                            out_stride,
                        )
                    };
                }
                x += pixels;
            }
        }
    }
}

impl<E: Load> Lines<'_, E> {
    /// Writes where each row of taps of a line starts, whose first ones have these coordinates, negative ones huge.
    #[inline(always)]
    fn point_starts(&self, image: *const E, [d, h]: [usize; 2], mut starts: *mut *const E) {
        let ConvParams {
            window, in_stride, ..
        } = self.plan.params;
        let [depth, height, width] = window.input;
        for kd in 0..window.kernel[0] {
            let d = d.wrapping_add(kd * window.dilations[0]);
            for kh in 0..window.kernel[1] {
                let h = h.wrapping_add(kh * window.dilations[1]);
                let start = if d < depth && h < height {
                    image.wrapping_add((d * height + h) * width * in_stride)
                } else {
                    self.zeros
                };
                // SAFETY: the scratch has room for the starts of all rows of taps.
                unsafe { starts.write(start) };
                starts = starts.wrapping_add(1);
            }
        }
    }

    /// Writes the pointers of a group whose pixels share columns: `[row of taps][column]`, from column `left` on.
    #[inline(always)]
    fn point_shared<const COLUMNS: usize>(&self, starts: *const *const E, tap_rows: usize, left: isize) {
        let ConvParams {
            window, in_stride, ..
        } = self.plan.params;
        let inside = left >= 0 && left as usize + COLUMNS <= window.input[2];
        // loops of a known length become vector instructions
        let mut distances = [0usize; COLUMNS];
        for (i, distance) in distances.iter_mut().enumerate() {
            *distance = (left as usize).wrapping_add(i).wrapping_mul(in_stride);
        }
        for row in 0..tap_rows {
            // SAFETY: the caller wrote a start for each row of taps.
            let start = unsafe { *starts.add(row) };
            let mut pointers = [self.zeros; COLUMNS];
            if start != self.zeros {
                for (i, (to, distance)) in pointers.iter_mut().zip(distances).enumerate() {
                    // dilation is 1 here, so column i of the group is tap i of its first pixel; a negative one is huge
                    if inside || (left as usize).wrapping_add(i) < window.input[2] {
                        *to = start.wrapping_add(distance);
                    }
                }
            }
            // SAFETY: the scratch has room for the pointers of one group.
            unsafe {
                self.pointers
                    .add(row * COLUMNS)
                    .cast::<[*const E; COLUMNS]>()
                    .write(pointers)
            };
        }
    }

    /// Writes the pointers of a group whose pixels share nothing: `[tap][pixel]`.
    #[inline(always)]
    fn point_taps(&self, image: *const E, first: [isize; 3], pixels: usize) {
        let ConvParams {
            window, in_stride, ..
        } = self.plan.params;
        let [kernel_d, kernel_h, kernel_w] = window.kernel;
        let mut to = self.pointers;
        for kd in 0..kernel_d {
            for kh in 0..kernel_h {
                for kw in 0..kernel_w {
                    for p in 0..PIXELS {
                        // missing pixels repeat the last one, whose result is stored once
                        let step = (p.min(pixels - 1) * window.strides[2]) as isize;
                        let first = [first[0], first[1], first[2] + step];
                        let from = window.tap(first, [kd, kh, kw], image, self.zeros, in_stride);
                        // SAFETY: the scratch has room for the pointers of one group.
                        unsafe { to.write(from) };
                        to = to.wrapping_add(1);
                    }
                }
            }
        }
    }
}

/// Stores the sums of `n` channels from `c` on.
#[inline(always)]
fn finish<S: Simd, E: Load, const P: usize>(s: S, g: &Group<E>, c: usize, n: usize, sums: &[S::F; P]) {
    let (low, high) = (s.splat(g.low), s.splat(g.high));
    // loops of a known length, whose indices stay constants: sums that are indexed otherwise leave their registers
    if g.residual.is_null() {
        for (p, &sum) in sums.iter().enumerate() {
            if p < g.pixels {
                let x = s.min(high, s.max(low, sum));
                // SAFETY: `n` output values remain in this pixel.
                unsafe { s.write(g.out.add(p * g.out_stride + c), x, n) };
            }
        }
        return;
    }
    for (p, &sum) in sums.iter().enumerate() {
        if p < g.pixels {
            let at = p * g.out_stride + c;
            // SAFETY: `n` residual values remain in this pixel.
            let residual = unsafe { s.read(g.residual.add(at), n) };
            let mut x = sum;
            if !g.residual_last {
                x = s.add(x, residual);
            }
            x = s.min(high, s.max(low, x));
            if g.residual_last {
                x = s.add(x, residual);
            }
            // SAFETY: `n` output values remain in this pixel.
            unsafe { s.write(g.out.add(at), x, n) };
        }
    }
}

/// Any number of taps: pointers `[tap][pixel]`.
#[inline(always)]
fn any_taps<S: Simd, E: Load>(s: S, g: Group<E>) {
    for c in (0..g.channels).step_by(S::LANES) {
        let n = g.channels - c;
        // SAFETY: groups of packed values are whole vectors.
        let mut sums = [unsafe { s.load(g.packed.add(c)) }; PIXELS];
        for tap in 0..g.tap_rows * g.tap_columns {
            // SAFETY: as above.
            let weight = unsafe { s.load(g.packed.add((tap + 1) * g.padded + c)) };
            for (p, sum) in sums.iter_mut().enumerate() {
                // SAFETY: PIXELS pointers per tap.
                let from = unsafe { *g.pointers.add(tap * PIXELS + p) };
                // SAFETY: `n` channels remain at every row pointer.
                let x = unsafe { s.read(from.add(c), n) };
                *sum = s.mul_add(x, weight, *sum);
            }
        }
        finish(s, &g, c, n, &sums);
    }
}

/// As [`any_taps`], where each channel of a group sees all `mates` of them, which lie in one vector.
#[inline(always)]
fn grouped_taps<S: Simd, E: Load>(s: S, g: Group<E>, mates: usize) {
    let first: [i32; MOST_LANES] = std::array::from_fn(|lane| (lane / mates * mates) as i32);
    // SAFETY: there are as many lanes at most.
    let first = unsafe { s.load_i(first.as_ptr()) };
    for c in (0..g.channels).step_by(S::LANES) {
        let n = g.channels - c;
        // SAFETY: groups of packed values are whole vectors.
        let mut sums = [unsafe { s.load(g.packed.add(c)) }; PIXELS];
        for tap in 0..g.tap_rows * g.tap_columns {
            let mut x = [s.splat(0.0); PIXELS];
            for (p, x) in x.iter_mut().enumerate() {
                // SAFETY: PIXELS pointers per tap.
                let from = unsafe { *g.pointers.add(tap * PIXELS + p) };
                // SAFETY: `n` channels remain at every row pointer.
                *x = unsafe { s.read(from.add(c), n) };
            }
            for mate in 0..mates {
                let lanes = s.add_i(first, s.splat_i(mate as i32));
                let at = (tap * mates + mate + 1) * g.padded + c;
                // SAFETY: as above.
                let weight = unsafe { s.load(g.packed.add(at)) };
                for (sum, &x) in sums.iter_mut().zip(&x) {
                    *sum = s.mul_add(s.permute(x, lanes), weight, *sum);
                }
            }
        }
        finish(s, &g, c, n, &sums);
    }
}

/// Rows of three taps, `STRIDE` apart for neighbouring pixels: pointers `[row of taps][column]`.
#[inline(always)]
fn three_taps<S: Simd, E: Load, const STRIDE: usize, const COLUMNS: usize, const P: usize>(
    s: S,
    g: Group<E>,
) {
    const { assert!(COLUMNS == (P - 1) * STRIDE + 3) };
    let mut c = 0;
    // a count that is known makes loads and stores plain ones
    while c + S::LANES <= g.channels {
        // SAFETY: a vector of channels remains.
        unsafe { three_taps_of::<S, E, STRIDE, COLUMNS, P>(s, &g, c, S::LANES) };
        c += S::LANES;
    }
    if c < g.channels {
        // SAFETY: the channels that remain.
        unsafe { three_taps_of::<S, E, STRIDE, COLUMNS, P>(s, &g, c, g.channels - c) };
    }
}

/// Channels `c..c + n` of a group of `P` pixels.
///
/// # Safety
/// So many channels, at most a vector's, remain.
#[inline(always)]
unsafe fn three_taps_of<S: Simd, E: Load, const STRIDE: usize, const COLUMNS: usize, const P: usize>(
    s: S,
    g: &Group<E>,
    c: usize,
    n: usize,
) {
    // SAFETY: groups of packed values are whole vectors.
    let mut sums = [unsafe { s.load(g.packed.add(c)) }; P];
    for row in 0..g.tap_rows {
        let mut columns = [s.splat(0.0); COLUMNS];
        for (i, column) in columns.iter_mut().enumerate() {
            // SAFETY: COLUMNS pointers per row of taps.
            let from = unsafe { *g.pointers.add(row * COLUMNS + i) };
            // SAFETY: n channels remain at every row pointer.
            *column = unsafe { s.read(from.add(c), n) };
        }
        for tap in 0..3 {
            // SAFETY: as above.
            let weight = unsafe { s.load(g.packed.add((row * 3 + tap + 1) * g.padded + c)) };
            for (p, sum) in sums.iter_mut().enumerate() {
                *sum = s.mul_add(columns[p * STRIDE + tap], weight, *sum);
            }
        }
    }
    finish(s, g, c, n, &sums);
}
