//! Convolutions and matrix products of codes: rows by pointers, weights packed once, the result rounded in place.
//!
//! 1. A tap outside the image reads a row of the input's zero.
//! 2. Rows are read four codes (one word) at a time. Where the channels are not whole words, the input is copied
//!    first, so that the last word of the last row is readable; its extra bytes are multiplied by zeros.
//! 3. A dilation of zero along the depth reads the same pixels again, for weights that are sums of several bytes.
//! 4. The zero point of the input, and the offset that the instruction set subtracts from each
//!    code, are folded into the packed bias.
#![allow(unsafe_code)]

use super::depthwise::Depthwise;
use super::tile::{self, Added, Block, Finish, HEADER, Output, RowSums, multiply};
use super::weights::Weights;
use crate::conv::{ConvParams, Inner, MERGED_CHANNELS, MOST_ROWS, Window, padded};
use crate::error::product;
use crate::schedule::{Cut, Extent, Scratch};
use crate::threads::{Address, Parts, share};
use crate::tile::Panels;
use crate::{Error, Isa, ThreadPool};

/// A convolution of codes with constant weights, planned for its shape.
///
/// ```
/// use polychip_cpu_kernels::conv::{ConvParams, Window};
/// use polychip_cpu_kernels::quantised::{CodeRange, ConvPlan, Output, Weights};
/// use polychip_cpu_kernels::{Isa, ThreadPool};
///
/// // one pixel of two channels, zero at code 128, times [3, -1], halved
/// let window = Window::new_2d([1, 1], [1, 1], [1, 1], [1, 1], [1, 1], [0, 0]);
/// let plan = ConvPlan::new(Isa::detect(), ConvParams::dense(1, 2, 1, 1, window))?;
/// let weights = Weights { values: &[3, -1], input_zero: 128, bias: &[0], factor: &[0.5], shift: &[0.0], zeros: &[] };
/// let mut packed = vec![0.0; plan.packed_len()];
/// plan.pack(&weights, &mut packed);
/// let pool = ThreadPool::new(1);
/// let (mut out, mut scratch) = ([0], vec![0.0; plan.scratch_len(&pool)]);
/// let output = Output::Codes(&mut out, CodeRange::all(10));
/// plan.run(&pool, &packed, &[138, 118], 128, None, output, &mut scratch);
/// assert_eq!(out, [30]); // (10 * 3 + 10) / 2 + 10
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ConvPlan {
    isa: Isa,
    params: ConvParams,
    kind: Kind,
    /// Weights keep a zero of their own, which is taken off with the sums of rows.
    keeps_zeros: bool,
}

#[derive(Debug, Clone)]
enum Kind {
    Indirect(Panels),
    /// The input is copied behind which spare bytes follow.
    Copied(Panels),
    /// The input is copied into a padded image, whose rows of taps are one tap.
    Merged(Panels),
    Depthwise(Depthwise),
}

/// The deepest sum of products that 32 bits hold: `255 * 128` each, and a bias as large again.
const DEEPEST: usize = i32::MAX as usize / (255 * 128) / 2;

impl ConvPlan {
    /// Plans a convolution and chooses its kernel.
    ///
    /// # Errors
    /// If a kernel size, stride, dilation or group count is zero, channels are not multiples of the groups, a stride
    /// between pixels is smaller than the channels, the sums could overflow, or a size does not fit the address space.
    pub fn new(isa: Isa, params: ConvParams) -> Result<Self, Error> {
        const NAME: &str = "quantised conv";
        // the same checks, of the same sizes
        let mut distinct = params;
        distinct.window.dilations[0] = distinct.window.dilations[0].max(1);
        crate::conv::ConvPlan::new(Isa::SCALAR, distinct)?;
        let ConvParams {
            batch,
            in_channels,
            out_channels,
            groups,
            window,
            in_stride,
            ..
        } = params;
        let depth = product(NAME, "the weights", &[in_channels / groups, window.taps()])?;
        if depth > DEEPEST {
            let rule = "sums of more products do not fit 32 bits";
            return Err(Error::parameter(NAME, "the depth", depth, rule));
        }
        let bytes = |size: [usize; 3]| {
            product(
                NAME,
                "the input",
                &[batch, in_channels, size[0], size[1], size[2]],
            )
        };
        let mut plan = Self {
            isa,
            params,
            kind: Kind::Indirect(Panels::new(isa, 0, 0)),
            keeps_zeros: false,
        };
        let panels = |taps: usize, k: usize| {
            Panels::new(isa, taps * k.div_ceil(4) + HEADER - 1, out_channels / groups)
        };
        let k = in_channels / groups;
        plan.kind = if groups > 1 && in_channels == groups && out_channels == groups {
            Kind::Depthwise(Depthwise::new(isa, params))
        } else if groups == 1
            && in_channels <= MERGED_CHANNELS
            && window.kernel[2] > 1
            && window.dilations[2] == 1
            && padded(&window).is_some_and(|size| bytes(size).is_ok())
        {
            let width = window.kernel[2];
            Kind::Merged(panels(window.taps() / width, in_channels * width))
        } else if k.is_multiple_of(4) {
            Kind::Indirect(panels(window.taps(), k))
        } else {
            product(NAME, "the input", &[batch, in_stride, window.in_pixels()])?;
            Kind::Copied(panels(window.taps(), k))
        };
        Ok(plan)
    }

    /// The same plan with per-output zero points of weights ([`Weights::zeros`]), for results in
    /// codes or floats; sums beyond 24 bits are rounded.
    ///
    /// # Panics
    /// If the convolution has groups.
    #[must_use]
    pub fn keeping_zeros(self) -> Self {
        assert!(self.params.groups == 1, "quantised conv: zeros of groups");
        Self {
            keeps_zeros: true,
            ..self
        }
    }

    /// Length of the packed weights in floats. Length and layout depend only on the parameters and
    /// [`Isa::code`].
    #[must_use]
    pub fn packed_len(&self) -> usize {
        match &self.kind {
            Kind::Indirect(panels) | Kind::Copied(panels) | Kind::Merged(panels) => {
                panels.len() * self.params.groups
            }
            Kind::Depthwise(depthwise) => depthwise.packed_len(),
        }
    }

    /// Multiply-adds of a run, padding included.
    #[must_use]
    pub fn multiply_adds(&self) -> usize {
        let rows = self.params.batch.saturating_mul(self.params.window.out_pixels());
        // four codes in a word
        rows.saturating_mul(4 * self.packed_len())
    }

    /// Whether the depthwise kernel computes each output channel from one input channel.
    #[must_use]
    pub fn is_depthwise(&self) -> bool {
        matches!(self.kind, Kind::Depthwise(_))
    }

    /// Whether AMX tiles compute it, which multiply several times as fast as vectors.
    #[must_use]
    pub fn uses_tiles(&self) -> bool {
        !self.is_depthwise() && self.tiles().is_some()
    }

    /// Bytes of rows that a run copies for AMX tiles: rows whose taps are not evenly spaced or do
    /// not fill whole tiles.
    #[must_use]
    pub fn gathered_bytes(&self) -> usize {
        let inner = self.inner();
        let words = inner.taps * inner.k.div_ceil(4);
        if !self.uses_tiles() || (inner.taps == 1 && words.is_multiple_of(16)) {
            return 0;
        }
        let rows = self.params.batch.saturating_mul(self.params.window.out_pixels());
        rows.saturating_mul(self.params.groups).saturating_mul(4 * words)
    }

    /// Packs the weights.
    ///
    /// # Panics
    /// If a slice's length is not that of its shape.
    pub fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) {
        let ConvParams {
            in_channels,
            out_channels,
            groups,
            window,
            ..
        } = self.params;
        let (inner, taps) = (in_channels / groups, window.taps());
        assert_eq!(
            weights.values.len(),
            out_channels * inner * taps,
            "quantised conv: weights"
        );
        for len in [weights.bias.len(), weights.factor.len(), weights.shift.len()] {
            assert_eq!(len, out_channels, "quantised conv: values per output channel");
        }
        let zeros = if self.keeps_zeros { out_channels } else { 0 };
        assert_eq!(weights.zeros.len(), zeros, "quantised conv: zeros of the weights");
        assert_eq!(packed.len(), self.packed_len(), "quantised conv: packed weights");
        let off = tile::offset(self.isa) - i32::from(weights.input_zero);
        let bias = |channel: usize| -> i32 {
            let own = &weights.values[channel * inner * taps..][..inner * taps];
            let sum: i32 = own.iter().map(|&w| i32::from(w)).sum();
            weights.bias[channel].wrapping_add(off.wrapping_mul(sum))
        };
        let panels = match &self.kind {
            Kind::Depthwise(depthwise) => return depthwise.pack(weights, bias, packed),
            Kind::Indirect(panels) | Kind::Copied(panels) | Kind::Merged(panels) => panels,
        };
        if panels.len() == 0 {
            return;
        }
        let shape = self.inner();
        let words = shape.k.div_ceil(4);
        for (group, packed) in packed.chunks_exact_mut(panels.len()).enumerate() {
            let first = group * panels.n;
            panels.pack(
                packed,
                |column| f32::from_bits(bias(first + column) as u32),
                |row, column| match row {
                    0 => weights.factor[first + column],
                    1 => weights.shift[first + column],
                    2 => weights
                        .zeros
                        .get(first + column)
                        .map_or(0.0, |&zero| -zero as f32),
                    _ => {
                        let (tap, word) = ((row + 1 - HEADER) / words, (row + 1 - HEADER) % words);
                        let bytes: [u8; 4] = std::array::from_fn(|i| {
                            let at = word * 4 + i;
                            if at >= shape.k {
                                return 0;
                            }
                            // a merged tap holds the channels of a row of taps
                            let (tap, channel) = (tap * shape.step + at / inner, at % inner);
                            weights.values[((first + column) * inner + channel) * taps + tap] as u8
                        });
                        f32::from_bits(u32::from_le_bytes(bytes))
                    }
                },
            );
        }
    }

    /// The convolution that runs: of the padded image where rows of taps are merged.
    fn inner(&self) -> Inner {
        let ConvParams {
            in_channels,
            groups,
            window,
            in_stride,
            ..
        } = self.params;
        let taps = window.taps();
        if matches!(self.kind, Kind::Merged(_)) {
            let input = padded(&window).expect("invariant: `new` computed the padded size");
            let width = window.kernel[2];
            return Inner {
                window: Window {
                    input,
                    pads: [0; 3],
                    ..window
                },
                stride: in_channels,
                k: in_channels * width,
                taps: taps / width,
                step: width,
                planes: 1,
            };
        }
        Inner {
            window,
            stride: in_stride,
            k: in_channels / groups,
            taps,
            step: 1,
            planes: 1,
        }
    }

    /// The token of tiles, where they are worth filling: their depth, and a good part of their rows and columns.
    #[cfg(target_arch = "x86_64")]
    fn tiles(&self) -> Option<crate::isa::dot::amx::Amx> {
        const DEEP: usize = 24;
        let (inner, p) = (self.inner(), &self.params);
        let words = inner.taps * inner.k.div_ceil(4);
        let worth = words >= DEEP && p.batch * p.window.out_pixels() >= 12 && p.out_channels / p.groups >= 12;
        self.isa.tiles().filter(|_| worth)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn tiles(&self) -> Option<std::convert::Infallible> {
        None
    }

    /// Floats that two tiles of copied rows take.
    #[cfg(target_arch = "x86_64")]
    fn copied_rows(&self) -> usize {
        let inner = self.inner();
        super::amx::scratch_len(inner.taps * inner.k.div_ceil(4))
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn copied_rows(&self) -> usize {
        0
    }

    /// Rows of the tiles that a block is cut into.
    fn tile_rows(&self) -> usize {
        match self.tiles() {
            Some(_) => MOST_ROWS,
            None => tile::tile_rows(self.isa),
        }
    }

    fn cut(&self, panels: &Panels, threads: usize) -> Cut {
        let ConvParams {
            batch,
            in_channels,
            groups,
            window,
            ..
        } = self.params;
        let rows = batch * window.out_pixels();
        let stride: usize = window.strides.iter().product();
        Extent {
            rows,
            panels: panels.count(),
            taps: self.inner().taps,
            row_bytes: in_channels / groups * stride.min(window.taps()),
            panel_bytes: panels.len() * 4,
            // four products are one operation
            flops: rows.saturating_mul(2 * panels.n).saturating_mul(panels.depth),
            repeats: groups,
            tile_rows: self.tile_rows(),
            threads,
        }
        .cut()
    }

    /// Bytes of the input that are copied: all of it, or the padded image.
    fn copied(&self) -> usize {
        let ConvParams {
            batch,
            window,
            in_stride,
            ..
        } = self.params;
        let inner = self.inner();
        match &self.kind {
            Kind::Merged(_) => batch * inner.window.in_pixels() * inner.stride + 4,
            Kind::Copied(_) => batch * window.in_pixels() * in_stride + 4,
            _ => 0,
        }
    }

    /// Floats of scratch for all threads (a row of zeros, then the copied input) and for each (row pointers).
    fn scratch(&self, cut: Cut) -> (usize, usize) {
        let inner = self.inner();
        let zeros = inner.k.div_ceil(4);
        let own = self.pointers(cut) + self.row_sums(cut) + self.tiles().map_or(0, |_| self.copied_rows());
        (zeros + self.copied().div_ceil(4), own)
    }

    /// Floats that the row pointers of a block take, in whole cache lines.
    fn pointers(&self, cut: Cut) -> usize {
        (2 * (cut.block_rows * self.inner().taps + MOST_ROWS)).next_multiple_of(16)
    }

    /// Floats that the sums of a block's rows take, in whole cache lines.
    fn row_sums(&self, cut: Cut) -> usize {
        if self.keeps_zeros {
            cut.block_rows.next_multiple_of(16)
        } else {
            0
        }
    }

    /// Floats of scratch that a run needs.
    #[must_use]
    pub fn scratch_len(&self, pool: &ThreadPool) -> usize {
        match &self.kind {
            Kind::Depthwise(depthwise) => depthwise.scratch_len(pool),
            Kind::Indirect(panels) | Kind::Copied(panels) | Kind::Merged(panels) => {
                let (shared, own) = self.scratch(self.cut(panels, pool.threads()));
                Scratch::len(shared, own, pool.threads())
            }
        }
    }

    /// Convolves the codes `input`, whose zero point is `input_zero`, adds another tensor if given,
    /// and writes `output`.
    ///
    /// # Panics
    /// If a slice is too short for its shape, scratch is shorter than [`scratch_len`](Self::scratch_len), something is
    /// added to floats or sums.
    pub fn run(
        &self,
        pool: &ThreadPool,
        packed: &[f32],
        input: &[u8],
        input_zero: u8,
        added: Option<Added<'_>>,
        mut output: Output<'_>,
        scratch: &mut [f32],
    ) {
        let ConvParams {
            batch,
            in_channels,
            out_channels,
            window,
            in_stride,
            out_stride,
            ..
        } = self.params;
        let needed = |pixels: usize, stride: usize, channels: usize| match (pixels, channels) {
            (0, _) | (_, 0) => 0,
            _ => (pixels - 1) * stride + channels,
        };
        let out_len = needed(batch * window.out_pixels(), out_stride, out_channels);
        let in_len = needed(batch * window.in_pixels(), in_stride, in_channels);
        assert_eq!(packed.len(), self.packed_len(), "quantised conv: packed weights");
        assert!(input.len() >= in_len, "quantised conv: the input is too short");
        let (len, plain) = match &output {
            Output::Codes(out, _) => (out.len(), true),
            Output::Floats(out, ..) => (out.len(), false),
            Output::Sums(out) => (out.len(), false),
        };
        assert!(len >= out_len, "quantised conv: the output is too short");
        assert!(
            added.is_none_or(|added| plain && added.codes.len() >= out_len),
            "quantised conv: what is added is too short, or the output is not codes"
        );
        if out_len == 0 {
            return;
        }
        let finish = Finish::new(&mut output, added, out_stride);
        match &self.kind {
            Kind::Depthwise(depthwise) => {
                assert!(
                    added.is_none(),
                    "quantised conv: nothing is added to depthwise results"
                );
                depthwise.run(pool, packed, input, input_zero, finish, scratch);
            }
            Kind::Indirect(panels) | Kind::Copied(panels) | Kind::Merged(panels) => {
                self.run_indirect(
                    pool,
                    panels,
                    packed,
                    &input[..in_len],
                    input_zero,
                    finish,
                    scratch,
                );
            }
        }
    }

    fn run_indirect(
        &self,
        pool: &ThreadPool,
        panels: &Panels,
        packed: &[f32],
        input: &[u8],
        input_zero: u8,
        finish: Finish,
        scratch: &mut [f32],
    ) {
        let ConvParams {
            batch,
            groups,
            window,
            out_stride,
            ..
        } = self.params;
        let inner = self.inner();
        let rows = batch * window.out_pixels();
        let (tile_rows, amx) = (self.tile_rows(), self.tiles());
        let cut = self.cut(panels, pool.threads());
        let (of_pointers, of_sums) = (self.pointers(cut), self.row_sums(cut));
        let (shared, own) = self.scratch(cut);
        let scratch = Scratch::new(scratch, shared, own, pool.threads());
        // SAFETY: no chunk runs yet.
        let shared = unsafe { scratch.shared() };
        let bytes = shared.len() * 4;
        // SAFETY: floats are bytes, and `shared` is not used beside.
        let shared = unsafe { std::slice::from_raw_parts_mut(shared.as_mut_ptr().cast::<u8>(), bytes) };
        let (zeros, copy) = shared.split_at_mut(inner.k.div_ceil(4) * 4);
        let mut start = input.as_ptr();
        match &self.kind {
            Kind::Merged(_) => {
                self.pad(pool, &inner.window, input, input_zero, copy);
                start = copy.as_ptr();
            }
            Kind::Copied(_) => {
                copy[..input.len()].copy_from_slice(input);
                zeros.fill(input_zero);
                start = copy.as_ptr();
            }
            _ => zeros.fill(input_zero),
        }
        let (input, zeros) = (Address(start), Address(zeros.as_ptr()));
        let right = Address(packed.as_ptr());
        let per_group = cut.row_blocks * cut.panel_groups;
        pool.run_indexed(groups * per_group, &|thread, chunk| {
            let (group, part) = (chunk / per_group, chunk % per_group);
            let block = cut.block(rows, part / cut.panel_groups);
            let range = share(panels.count(), cut.panel_groups, part % cut.panel_groups, 1);
            // SAFETY: this thread's own part, asked for once.
            let own = unsafe { scratch.own(thread) };
            let (pointers, own) = own.split_at_mut(of_pointers);
            let (sums, copied) = own.split_at_mut(of_sums);
            let pointers = pointers.as_mut_ptr().cast::<*const u8>();
            let first = input.at(group * inner.k);
            // SAFETY: the part has room for the pointers of the longest block and a tile's more.
            unsafe { inner.row_pointers(self.isa, pointers, block.clone(), first, zeros.at(0), tile_rows) };
            let mut finish = finish.skip(block.start * out_stride + group * panels.n);
            if self.keeps_zeros {
                let sums = sums.as_mut_ptr().cast::<i32>();
                let rows = RowSums {
                    rows: block.len(),
                    tile_rows,
                    pointers,
                    taps: inner.taps,
                    k: inner.k,
                    input_zero,
                    sums,
                };
                // the pointers were just made, and the scratch has room for a sum of each row
                self.isa.run_bytes(rows);
                finish.row_sums = sums;
            }
            let block = Block {
                rows: block.len(),
                pointers,
                taps: inner.taps,
                words: inner.k.div_ceil(4),
                panels: *panels,
                range,
                right: right.at(group * panels.len()),
                finish,
            };
            // SAFETY: `run` checked every operand against the shape; chunks write disjoint pixels or channels. Words
            // past the end of a row lie in the next pixel, or in the spare bytes of the copy.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                if let Some(amx) = amx {
                    return super::amx::multiply(self.isa, amx, &block, copied);
                }
                let _ = (amx, copied);
                multiply(self.isa, &block);
            }
        });
    }

    /// Copies the input into the middle of a padded image of the input's zero.
    fn pad(&self, pool: &ThreadPool, window: &Window, input: &[u8], input_zero: u8, image: &mut [u8]) {
        let ConvParams {
            batch,
            in_channels: channels,
            in_stride,
            window: from,
            ..
        } = self.params;
        let [depth, height, width] = window.input;
        let (lines, len) = (batch * depth * height, width * channels);
        let (image, spare) = image.split_at_mut(lines * len);
        spare.fill(input_zero);
        let chunks = if lines * len < PAD_ALONE {
            1
        } else {
            lines.min(pool.threads())
        };
        let image = Parts::new(image);
        pool.run(chunks, &|chunk| {
            for line in share(lines, chunks, chunk, 1) {
                // SAFETY: lines are disjoint, and each belongs to one chunk.
                let to = unsafe { image.part(line * len, len) };
                let (d, h) = (line / height % depth, line % height);
                let (d, h) = (d.wrapping_sub(from.pads[0]), h.wrapping_sub(from.pads[1]));
                if d >= from.input[0] || h >= from.input[1] {
                    to.fill(input_zero);
                    continue;
                }
                let (left, rest) = to.split_at_mut(from.pads[2] * channels);
                let (to, right) = rest.split_at_mut(from.input[2] * channels);
                left.fill(input_zero);
                right.fill(input_zero);
                let line = (line / height / depth * from.input[0] + d) * from.input[1] + h;
                let first = line * from.input[2] * in_stride;
                if in_stride == channels {
                    to.copy_from_slice(&input[first..][..to.len()]);
                } else {
                    for (i, pixel) in to.chunks_exact_mut(channels).enumerate() {
                        pixel.copy_from_slice(&input[first + i * in_stride..][..channels]);
                    }
                }
            }
        });
    }
}

/// Bytes of a padded image below which one thread makes it: some microseconds.
const PAD_ALONE: usize = 128 * 1024;
