//! Depthwise convolutions of codes: one output pixel at a time, four taps per product.
//!
//! 1. Channels go in blocks of four vectors. A block is `[bias][factor][shift]` and one group of words per four taps,
//!    each four vectors, in the order that [`Bytes::interleave`] gives.
//! 2. Taps outside the image, and the ones that fill the last group, read the input's zero; the weights of the latter
//!    are zeros.
//!
//! 3. Between two pixels whose taps are all within the width, every pointer moves by the same distance, but for the
//!    rows outside the image, which stay at the zeros.
//!
//! Not here: channel multipliers, which are grouped products.
#![allow(unsafe_code)]

use super::tile::{Finish, Kind};
use super::weights::Weights;
use crate::conv::ConvParams;
use crate::isa::Simd;
use crate::isa::dot::{ByteKernel, Bytes, Rounding};
use crate::schedule::Scratch;
use crate::threads::{Address, share};
use crate::{Isa, ThreadPool};
use std::mem::MaybeUninit;

/// Vectors of a block.
const VECTORS: usize = 4;
/// Rows of a block in front of its words.
const HEADER: usize = 3;
/// The most lanes of a vector.
const MOST_LANES: usize = 16;

/// A depthwise convolution of codes, worked out once.
#[derive(Debug, Clone)]
pub(super) struct Depthwise {
    isa: Isa,
    params: ConvParams,
    lanes: usize,
    /// Groups of four taps.
    quads: usize,
    /// Groups along a row of three taps that two neighbouring pixels share; then `quads` counts them twice.
    paired: bool,
}

impl Depthwise {
    pub(super) fn new(isa: Isa, params: ConvParams) -> Self {
        let window = params.window;
        let [depth, height, width] = window.kernel;
        let paired = width == 3 && window.strides[2] == 1 && window.dilations[2] == 1;
        Self {
            isa,
            params,
            lanes: isa.lanes(),
            quads: if paired {
                2 * depth * height
            } else {
                window.taps().div_ceil(4)
            },
            paired,
        }
    }

    fn block(&self) -> usize {
        self.lanes * VECTORS * (HEADER + self.quads)
    }

    fn blocks(&self) -> usize {
        self.params.in_channels.div_ceil(self.lanes * VECTORS)
    }

    pub(super) fn packed_len(&self) -> usize {
        self.blocks() * self.block()
    }

    /// The tap at byte `i` of a group of four, if there is one.
    fn tap(&self, quad: usize, i: usize) -> Option<usize> {
        if !self.paired {
            return Some(quad * 4 + i).filter(|&tap| tap < self.params.window.taps());
        }
        // columns x - 1 to x + 2 of a row: the first pixel takes the first three, the second the last three
        let (row, second) = (quad / 2, quad % 2);
        let column = i.checked_sub(second).filter(|&column| column < 3)?;
        Some(row * 3 + column)
    }

    pub(super) fn pack(&self, weights: &Weights<'_>, bias: impl Fn(usize) -> i32, packed: &mut [f32]) {
        let (channels, taps) = (self.params.in_channels, self.params.window.taps());
        packed.fill(0.0);
        for (index, block) in packed.chunks_exact_mut(self.block()).enumerate() {
            let first = index * self.lanes * VECTORS;
            for (at, x) in block.iter_mut().enumerate() {
                let (row, column) = (at / (self.lanes * VECTORS), at % (self.lanes * VECTORS));
                let (vector, lane) = (column / self.lanes, column % self.lanes);
                // the order of `interleave`
                let channel = first + lane / 4 * 16 + vector * 4 + lane % 4;
                if channel >= channels {
                    continue;
                }
                *x = match row {
                    0 => f32::from_bits(bias(channel) as u32),
                    1 => weights.factor[channel],
                    2 => weights.shift[channel],
                    _ => {
                        let bytes: [u8; 4] = std::array::from_fn(|i| {
                            let tap = self.tap(row - HEADER, i);
                            tap.map_or(0, |tap| weights.values[channel * taps + tap] as u8)
                        });
                        f32::from_bits(u32::from_le_bytes(bytes))
                    }
                };
            }
        }
    }

    /// Floats of scratch for all threads (zeros) and for each (the pointers of one pixel or two, and how they move).
    fn scratch(&self) -> (usize, usize) {
        (self.params.in_channels.div_ceil(4), 2 * 2 * 4 * self.quads)
    }

    pub(super) fn scratch_len(&self, pool: &ThreadPool) -> usize {
        let (shared, own) = self.scratch();
        Scratch::len(shared, own, pool.threads())
    }

    /// The caller has checked every slice against the shape, and the output is not empty.
    pub(super) fn run(
        &self,
        pool: &ThreadPool,
        packed: &[f32],
        input: &[u8],
        input_zero: u8,
        finish: Finish,
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
        zeros.fill(f32::from_bits(u32::from_le_bytes([input_zero; 4])));
        let zeros = Address(zeros.as_ptr());
        let (input, packed) = (Address(input.as_ptr()), Address(packed.as_ptr()));
        let lines = batch * window.output[0] * window.output[1];
        let products = lines * window.output[2] * in_channels * window.taps();
        let chunks = if products < 400_000 {
            1
        } else {
            lines.min(pool.threads() * 4)
        };
        pool.run_indexed(chunks, &|thread, chunk| {
            // SAFETY: this thread's own part, asked for once.
            let pointers = unsafe { scratch.own(thread) }.as_mut_ptr().cast::<*const u8>();
            self.isa.run_bytes(&Lines {
                plan: self,
                lines: share(lines, chunks, chunk, 1),
                pointers,
                packed: packed.at(0),
                input: input.at(0),
                zeros: zeros.at(0).cast(),
                finish,
            });
        });
    }
}

/// Rows of output pixels.
struct Lines<'a> {
    plan: &'a Depthwise,
    lines: std::ops::Range<usize>,
    pointers: *mut *const u8,
    packed: *const f32,
    input: *const u8,
    zeros: *const u8,
    finish: Finish,
}

impl ByteKernel for &Lines<'_> {
    type Output = ();
    #[inline(always)]
    fn run<B: Bytes>(self, b: B) {
        let ConvParams {
            window, in_stride, ..
        } = self.plan.params;
        let width = window.output[2];
        let lines_per_image = window.output[0] * window.output[1];
        let [kernel_d, kernel_h, kernel_w] = window.kernel;
        for line in self.lines.clone() {
            let image = self
                .input
                .wrapping_add(line / lines_per_image * window.in_pixels() * in_stride);
            let start = window.first_tap(line % lines_per_image * width);
            let (step, columns) = if self.plan.paired { (2, 4) } else { (1, kernel_w) };
            let count = (kernel_d * kernel_h * columns).next_multiple_of(4);
            let moves = self.pointers.wrapping_add(count).cast::<usize>();
            let reach = (columns - 1) * window.dilations[2];
            let (mut x, mut was_inside) = (0, false);
            while x < width {
                let left = (x * window.strides[2]) as isize - window.pads[2] as isize;
                let first = [start[0], start[1], left];
                let inside = left >= 0 && left as usize + reach < window.input[2];
                if inside && was_inside {
                    for i in 0..count {
                        // SAFETY: the scratch has room for the pointers of all groups of taps, and as many moves.
                        unsafe {
                            let pointer = self.pointers.add(i);
                            *pointer = (*pointer).wrapping_add(*moves.add(i));
                        }
                    }
                } else {
                    let mut i = 0;
                    for kd in 0..kernel_d {
                        for kh in 0..kernel_h {
                            for kw in 0..columns {
                                let tap = window.tap(first, [kd, kh, kw], image, self.zeros, in_stride);
                                let by = if tap == self.zeros {
                                    0
                                } else {
                                    step * window.strides[2] * in_stride
                                };
                                // SAFETY: as above.
                                unsafe { (self.pointers.add(i).write(tap), moves.add(i).write(by)) };
                                i += 1;
                            }
                        }
                    }
                    for i in i..count {
                        // SAFETY: as above.
                        unsafe { (self.pointers.add(i).write(self.zeros), moves.add(i).write(0)) };
                    }
                }
                was_inside = inside;
                let out = self.finish.skip((line * width + x) * self.finish.stride);
                if step == 2 && x + 1 < width {
                    self.pixels::<B, 2>(b, count / 4, out);
                } else {
                    self.pixels::<B, 1>(b, count / 4, out);
                }
                x += step;
            }
        }
    }
}

impl Lines<'_> {
    /// One pixel, or two that share their groups of taps.
    #[inline(always)]
    fn pixels<B: Bytes, const P: usize>(&self, b: B, quads: usize, out: Finish) {
        let (s, lanes) = (b.simd(), B::S::LANES);
        let channels = self.plan.params.in_channels;
        let by = Rounding {
            low: s.splat(out.low),
            high: s.splat(out.high),
            zero: s.splat_i(out.zero),
        };
        let (mut packed, mut c) = (self.packed, 0);
        // a count that is known makes loads and stores plain ones
        let whole = VECTORS * lanes;
        while c + whole <= channels {
            // SAFETY: a block of channels remains.
            unsafe { self.block::<B, P>(b, quads, packed, c, whole, by, out.skip(c)) };
            packed = packed.wrapping_add(self.plan.block());
            c += whole;
        }
        if c < channels {
            // SAFETY: the channels that remain.
            unsafe { self.block::<B, P>(b, quads, packed, c, channels - c, by, out.skip(c)) };
        }
    }

    /// Channels `c..c + n` of one pixel or two.
    ///
    /// # Safety
    /// `n` channels, at most a block's, remain; `packed` is the block's.
    #[inline(always)]
    unsafe fn block<B: Bytes, const P: usize>(
        &self,
        b: B,
        quads: usize,
        packed: *const f32,
        c: usize,
        n: usize,
        by: Rounding<B::S>,
        out: Finish,
    ) {
        let (s, lanes) = (b.simd(), B::S::LANES);
        // weights of a group of taps, for each of the pixels that share it
        let sets = if self.plan.paired { 2 } else { 1 };
        let mut acc = [[s.splat_i(0); VECTORS]; P];
        for v in 0..VECTORS {
            // SAFETY: the header of a block is HEADER rows of VECTORS vectors.
            let bias = s.bits(unsafe { s.load(packed.add(v * lanes)) });
            for acc in &mut acc {
                acc[v] = bias;
            }
        }
        let mut words = packed.wrapping_add(HEADER * VECTORS * lanes);
        for quad in 0..quads {
            let mut rows = [s.splat_i(0); 4];
            for (i, row) in rows.iter_mut().enumerate() {
                // SAFETY: four pointers per group of taps.
                let from = unsafe { *self.pointers.add(quad * 4 + i) };
                // SAFETY: n channels remain at every row pointer.
                *row = unsafe { b.read(from.add(c), n) };
            }
            let rows = b.interleave(rows);
            for (p, acc) in acc.iter_mut().enumerate() {
                for v in 0..VECTORS {
                    // SAFETY: a group of taps has `sets` rows of VECTORS vectors of words.
                    let w = unsafe { b.panel(words.add((p * VECTORS + v) * lanes).cast()) };
                    acc[v] = b.dot(acc[v], rows[v], w);
                }
            }
            words = words.wrapping_add(sets * VECTORS * lanes);
        }
        for (p, acc) in acc.iter().enumerate() {
            let to = out.skip(p * out.stride);
            if let Kind::Sums(to) = to.kind {
                // SAFETY: n output channels remain in this pixel; a float is as wide as a sum, and its bits are only moved.
                unsafe { put(b, acc.map(|x| s.to_floats(x)), to.cast(), n) };
                continue;
            }
            let mut x = [by.low; VECTORS];
            for (v, x) in x.iter_mut().enumerate() {
                // SAFETY: as for the bias.
                let factor = unsafe { s.load(packed.add((VECTORS + v) * lanes)) };
                // SAFETY: as above.
                let shift = unsafe { s.load(packed.add((2 * VECTORS + v) * lanes)) };
                *x = s.mul_add(s.to_float(acc[v]), factor, shift);
            }
            match to.kind {
                // SAFETY: n output channels remain in this pixel.
                Kind::Codes(to) => unsafe { b.write(to, b.round(x, by), n) },
                // SAFETY: as above.
                Kind::Floats(to) => unsafe { put(b, x.map(|x| s.min(s.max(x, by.low), by.high)), to, n) },
                Kind::Sums(_) => unreachable!("invariant: sums were stored"),
            }
        }
    }
}

/// Stores the first `n` values of vectors that are in the order of [`Bytes::interleave`] in the order of their channels.
///
/// # Safety
/// `n` values, at most those of the vectors, are writable at `to`.
#[inline(always)]
unsafe fn put<B: Bytes>(b: B, x: [<B::S as Simd>::F; VECTORS], to: *mut f32, n: usize) {
    let lanes = B::S::LANES;
    let mut spare = [MaybeUninit::<f32>::uninit(); VECTORS * MOST_LANES];
    for (v, x) in x.into_iter().enumerate() {
        // SAFETY: the spare memory has room for all vectors.
        unsafe { b.simd().store(spare.as_mut_ptr().add(v * lanes).cast(), x) };
    }
    for (i, four) in spare[..VECTORS * lanes].chunks_exact(4).enumerate() {
        let (vector, group) = (i / (lanes / 4), i % (lanes / 4));
        let at = group * 16 + vector * 4;
        if at >= n {
            continue;
        }
        // SAFETY: channels `at` to `n` remain.
        unsafe {
            let (from, to) = (four.as_ptr().cast::<f32>(), to.add(at));
            if at + 4 <= n {
                to.cast::<[f32; 4]>()
                    .write_unaligned(from.cast::<[f32; 4]>().read());
            } else {
                std::ptr::copy_nonoverlapping(from, to, n - at);
            }
        }
    }
}
