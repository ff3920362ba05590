//! Convolutions of channels-last images: indirect products by row pointers, no image is ever unfolded.
//!
//! 1. Images are `[batch, depth, height, width, channels]`; fewer spatial dimensions are given as leading ones.
//! 2. A tap outside the image reads a row of zeros.
//!
//! Not here: depthwise kernels, which [`crate::depthwise`] has and [`ConvPlan`] chooses by itself.
#![allow(unsafe_code)]

use crate::depthwise::Depthwise;
use crate::error::product;
use crate::schedule::{Cut, Extent, Scratch};
use crate::threads::{Address, Parts, share};
use crate::tile::{self, Block, Panels, Right, multiply};
use crate::{Epilogue, Error, Isa, ThreadPool};
use std::ops::Range;

/// Where a window of taps goes over an image, per spatial dimension `[depth, height, width]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Input sizes.
    pub input: [usize; 3],
    /// Output sizes.
    pub output: [usize; 3],
    /// Taps.
    pub kernel: [usize; 3],
    /// Input pixels between two output pixels.
    pub strides: [usize; 3],
    /// Input pixels between two taps.
    pub dilations: [usize; 3],
    /// Padding before the first pixel. Padding at the end follows from the output size.
    pub pads: [usize; 3],
}

impl Window {
    /// A window over `[height, width]`.
    #[must_use]
    pub const fn new_2d(
        input: [usize; 2],
        output: [usize; 2],
        kernel: [usize; 2],
        strides: [usize; 2],
        dilations: [usize; 2],
        pads: [usize; 2],
    ) -> Self {
        Self {
            input: [1, input[0], input[1]],
            output: [1, output[0], output[1]],
            kernel: [1, kernel[0], kernel[1]],
            strides: [1, strides[0], strides[1]],
            dilations: [1, dilations[0], dilations[1]],
            pads: [0, pads[0], pads[1]],
        }
    }

    /// Taps of the window.
    pub(crate) fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    pub(crate) fn in_pixels(&self) -> usize {
        self.input.iter().product()
    }

    pub(crate) fn out_pixels(&self) -> usize {
        self.output.iter().product()
    }

    /// Refuses zero taps, strides and dilations, and sizes that overflow.
    pub(crate) fn check(&self, name: &'static str) -> Result<(), Error> {
        for (what, values) in [
            ("kernel", self.kernel),
            ("stride", self.strides),
            ("dilation", self.dilations),
        ] {
            if let Some(&zero) = values.iter().find(|&&value| value == 0) {
                return Err(Error::parameter(name, what, zero, "it must not be zero"));
            }
        }
        product(name, "the kernel", &self.kernel)?;
        product(name, "the input", &self.input)?;
        product(name, "the output", &self.output)?;
        for i in 0..3 {
            // the farthest coordinate that a tap computes
            let reach = product(name, "the window", &[self.output[i], self.strides[i]])?
                .checked_add(product(name, "the window", &[self.kernel[i], self.dilations[i]])?)
                .and_then(|reach| reach.checked_add(self.pads[i]))
                .filter(|&reach| reach <= isize::MAX as usize / 2);
            reach.ok_or_else(|| Error::too_large(name, "the window"))?;
        }
        Ok(())
    }

    /// Whether output pixels are input pixels, in order.
    fn is_pointwise(&self) -> bool {
        self.kernel == [1; 3] && self.strides == [1; 3] && self.pads == [0; 3] && self.input == self.output
    }

    /// The input coordinate of tap 0 of output pixel `pixel` of an image.
    pub(crate) fn first_tap(&self, pixel: usize) -> [isize; 3] {
        let [_, height, width] = self.output;
        let index = [pixel / width / height, pixel / width % height, pixel % width];
        std::array::from_fn(|i| (index[i] * self.strides[i]) as isize - self.pads[i] as isize)
    }
}

/// Shape of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvParams {
    /// Images.
    pub batch: usize,
    /// Input channels, of all groups together.
    pub in_channels: usize,
    /// Output channels, of all groups together.
    pub out_channels: usize,
    /// Groups; both channel counts are multiples.
    pub groups: usize,
    /// The window.
    pub window: Window,
    /// Elements between two input pixels: `in_channels`, or more where the image is a part of a wider one.
    pub in_stride: usize,
    /// Elements between two output pixels: `out_channels`, or more where the image is a part of a wider one.
    pub out_stride: usize,
}

impl ConvParams {
    /// A convolution of dense images.
    #[must_use]
    pub const fn dense(
        batch: usize,
        in_channels: usize,
        out_channels: usize,
        groups: usize,
        window: Window,
    ) -> Self {
        Self {
            batch,
            in_channels,
            out_channels,
            groups,
            window,
            in_stride: in_channels,
            out_stride: out_channels,
        }
    }
}

/// The most input channels for which rows of taps are merged: a vector's worth of taps per pointer is enough above.
const MERGED_CHANNELS: usize = 8;

/// The size of the padded image that every tap of the window stays in.
fn padded(window: &Window) -> Option<[usize; 3]> {
    let mut size = [0; 3];
    for (i, size) in size.iter_mut().enumerate() {
        let reach = window.output[i].checked_sub(1)?.checked_mul(window.strides[i])?;
        let reach = reach
            .checked_add((window.kernel[i] - 1).checked_mul(window.dilations[i])?)?
            .checked_add(1)?;
        *size = reach.max(window.input[i].checked_add(window.pads[i])?);
    }
    Some(size)
}

/// A convolution with constant weights, worked out once.
///
/// ```
/// use polychip_cpu_kernels::conv::{ConvParams, ConvPlan, Window};
/// use polychip_cpu_kernels::{Epilogue, Isa, ThreadPool, Unary};
///
/// // a 3x3 box sum over one 4x4 channel, padded by one pixel
/// let window = Window::new_2d([4, 4], [4, 4], [3, 3], [1, 1], [1, 1], [1, 1]);
/// let plan = ConvPlan::new(Isa::detect(), ConvParams::dense(1, 1, 1, 1, window))?;
/// let mut packed = vec![0.0; plan.packed_len()];
/// plan.pack(&[1.0; 9], None, &mut packed);
/// let pool = ThreadPool::new(1);
/// let (mut output, mut scratch) = (vec![0.0; 16], vec![0.0; plan.scratch_len(&pool)]);
/// let relu = Epilogue::activation(Unary::Relu);
/// plan.run(&pool, &packed, &[1.0; 16], None, relu, &mut output, &mut scratch);
/// assert_eq!(output[..4], [4.0, 6.0, 6.0, 4.0]);
/// # Ok::<(), polychip_cpu_kernels::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ConvPlan {
    isa: Isa,
    params: ConvParams,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// One group of channels at a time, by row pointers.
    Indirect(Panels),
    /// Few input channels: the input is copied into a padded image once, so that a row of taps is one tap with the
    /// channels of all of them. Packed as [`Kind::Indirect`].
    Merged(Panels),
    Depthwise(Depthwise),
}

impl ConvPlan {
    /// Plans a convolution and chooses its kernel.
    ///
    /// # Errors
    /// If a kernel size, stride, dilation or group count is zero, channels are not multiples of the groups, a stride
    /// between pixels is smaller than the channels, or a size does not fit the address space.
    pub fn new(isa: Isa, params: ConvParams) -> Result<Self, Error> {
        const NAME: &str = "conv";
        let ConvParams {
            batch,
            in_channels,
            out_channels,
            groups,
            window,
            in_stride,
            out_stride,
        } = params;
        window.check(NAME)?;
        if groups == 0 {
            return Err(Error::parameter(NAME, "groups", 0, "it must not be zero"));
        }
        for (name, channels, stride) in [
            ("input channels", in_channels, in_stride),
            ("output channels", out_channels, out_stride),
        ] {
            if !channels.is_multiple_of(groups) {
                let rule = "they must be a multiple of the groups";
                return Err(Error::parameter(NAME, name, channels, rule));
            }
            if stride < channels {
                return Err(Error::parameter(
                    NAME,
                    "pixel stride",
                    stride,
                    "it must not be below the channels",
                ));
            }
        }
        let [id, ih, iw] = window.input;
        let [od, oh, ow] = window.output;
        product(NAME, "the input", &[batch, id, ih, iw, in_stride])?;
        product(NAME, "the output", &[batch, od, oh, ow, out_stride])?;
        let depth = product(NAME, "the weights", &[in_channels / groups, window.taps()])?;
        // panels and vectors are at most 64 wide
        let width = (out_channels / groups).saturating_add(64);
        product(NAME, "the weights", &[groups, width, depth.saturating_add(1)])?;
        let kind = if groups > 1 && in_channels == groups && out_channels == groups {
            Kind::Depthwise(Depthwise::new(isa, params))
        } else if groups == 1
            && in_channels <= MERGED_CHANNELS
            && window.kernel[2] > 1
            && window.dilations[2] == 1
            && padded(&window)
                .and_then(|size| {
                    size.iter()
                        .try_fold(batch * in_channels, |n, &size| n.checked_mul(size))
                })
                .is_some_and(|floats| floats <= isize::MAX as usize / 16)
        {
            Kind::Merged(Panels::new(isa, depth, out_channels))
        } else {
            Kind::Indirect(Panels::new(isa, depth, out_channels / groups))
        };
        Ok(Self { isa, params, kind })
    }

    /// The shape this was planned for.
    #[must_use]
    pub fn params(&self) -> &ConvParams {
        &self.params
    }

    /// Floats of the packed weights. It depends on the parameters and [`Isa::code`] alone, as does their layout.
    #[must_use]
    pub fn packed_len(&self) -> usize {
        match &self.kind {
            Kind::Indirect(panels) | Kind::Merged(panels) => panels.len() * self.params.groups,
            Kind::Depthwise(depthwise) => depthwise.packed_len(),
        }
    }

    /// Packs weights `[out_channels, in_channels / groups, kernel...]` (ONNX order) and the bias `[out_channels]`.
    ///
    /// # Panics
    /// If a slice's length is not that of its shape.
    pub fn pack(&self, weights: &[f32], bias: Option<&[f32]>, packed: &mut [f32]) {
        let ConvParams {
            in_channels,
            out_channels,
            groups,
            ..
        } = self.params;
        let (inner, taps) = (in_channels / groups, self.params.window.taps());
        assert_eq!(
            weights.len(),
            out_channels * inner * taps,
            "conv: length of the weights"
        );
        assert!(
            bias.is_none_or(|bias| bias.len() == out_channels),
            "conv: length of the bias"
        );
        assert_eq!(
            packed.len(),
            self.packed_len(),
            "conv: length of the packed weights"
        );
        match &self.kind {
            Kind::Depthwise(depthwise) => depthwise.pack(weights, bias, packed),
            Kind::Indirect(panels) | Kind::Merged(panels) => {
                if panels.len() == 0 {
                    return;
                }
                for (group, packed) in packed.chunks_exact_mut(panels.len()).enumerate() {
                    let first = group * panels.n;
                    panels.pack(
                        packed,
                        |column| bias.map_or(0.0, |bias| bias[first + column]),
                        |row, column| weights[((first + column) * inner + row % inner) * taps + row / inner],
                    );
                }
            }
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
            let window = Window {
                input,
                pads: [0; 3],
                ..window
            };
            let width = window.kernel[2];
            return Inner {
                window,
                stride: in_channels,
                k: in_channels * width,
                taps: taps / width,
                step: width,
            };
        }
        Inner {
            window,
            stride: in_stride,
            k: in_channels / groups,
            taps,
            step: 1,
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
            row_bytes: in_channels / groups * 4 * stride.min(window.taps()),
            panel_bytes: panels.len() * 4,
            flops: rows.saturating_mul(2 * panels.n).saturating_mul(panels.depth),
            repeats: groups,
            tile_rows: tile::tile_rows(self.isa),
            threads,
        }
        .cut()
    }

    /// Floats of scratch for all threads (a row of zeros, or the padded image) and for each (row pointers).
    fn scratch(&self, cut: Cut) -> (usize, usize) {
        let inner = self.inner();
        let shared = match self.kind {
            Kind::Merged(_) => self.params.batch * inner.window.in_pixels() * inner.stride,
            _ => inner.k,
        };
        (shared, 2 * cut.block_rows * inner.taps)
    }

    /// Floats of scratch that a run needs.
    #[must_use]
    pub fn scratch_len(&self, pool: &ThreadPool) -> usize {
        match &self.kind {
            Kind::Depthwise(depthwise) => depthwise.scratch_len(pool),
            Kind::Indirect(panels) | Kind::Merged(panels) => {
                let (shared, own) = self.scratch(self.cut(panels, pool.threads()));
                Scratch::len(shared, own, pool.threads())
            }
        }
    }

    /// `output = epilogue(conv(input) + bias, residual)`; the residual has the shape and strides of the output.
    ///
    /// # Panics
    /// If a slice is too short for its shape, or scratch is shorter than [`scratch_len`](Self::scratch_len).
    pub fn run(
        &self,
        pool: &ThreadPool,
        packed: &[f32],
        input: &[f32],
        residual: Option<&[f32]>,
        epilogue: Epilogue,
        output: &mut [f32],
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
        let rows = batch * window.out_pixels();
        let out_len = needed(rows, out_stride, out_channels);
        assert_eq!(
            packed.len(),
            self.packed_len(),
            "conv: length of the packed weights"
        );
        let in_len = needed(batch * window.in_pixels(), in_stride, in_channels);
        assert!(input.len() >= in_len, "conv: the input is shorter than its shape");
        assert!(
            output.len() >= out_len,
            "conv: the output is shorter than its shape"
        );
        assert!(
            residual.is_none_or(|r| r.len() >= out_len),
            "conv: the residual is shorter than its shape"
        );
        if out_len == 0 {
            return;
        }
        match &self.kind {
            Kind::Indirect(panels) | Kind::Merged(panels) => {
                self.run_indirect(pool, panels, packed, input, residual, epilogue, output, scratch);
            }
            Kind::Depthwise(depthwise) => {
                depthwise.run(pool, packed, input, residual, epilogue, output, scratch);
            }
        }
    }

    fn run_indirect(
        &self,
        pool: &ThreadPool,
        panels: &Panels,
        packed: &[f32],
        input: &[f32],
        residual: Option<&[f32]>,
        epilogue: Epilogue,
        output: &mut [f32],
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
        let tile_rows = tile::tile_rows(self.isa);
        let cut = self.cut(panels, pool.threads());
        let (shared, own) = self.scratch(cut);
        let scratch = Scratch::new(scratch, shared, own, pool.threads());
        // SAFETY: no chunk runs yet.
        let shared = unsafe { scratch.shared() };
        let merged = matches!(self.kind, Kind::Merged(_));
        if merged {
            self.pad(&inner.window, input, shared);
        } else {
            shared.fill(0.0);
        }
        let zeros = Address(shared.as_ptr());
        let input = if merged { shared } else { input };
        let (input, right, output) = (
            Address(input.as_ptr()),
            Address(packed.as_ptr()),
            Parts::new(output),
        );
        let added = Address(residual.map_or(std::ptr::null(), <[f32]>::as_ptr));
        let per_group = cut.row_blocks * cut.panel_groups;
        pool.run_indexed(groups * per_group, &|thread, chunk| {
            let (group, part) = (chunk / per_group, chunk % per_group);
            let block = share(rows, cut.row_blocks, part / cut.panel_groups, tile_rows);
            let range = share(panels.count(), cut.panel_groups, part % cut.panel_groups, 1);
            // SAFETY: this thread's own part, asked for once.
            let pointers = unsafe { scratch.own(thread) }.as_mut_ptr().cast::<*const f32>();
            // SAFETY: the part has room for the pointers of the longest block.
            unsafe {
                inner.row_pointers(
                    pointers,
                    block.clone(),
                    input.at(group * inner.k),
                    zeros.at(0),
                    tile_rows,
                )
            };
            let first = block.start * out_stride + group * panels.n;
            let block = Block {
                rows: block.len(),
                pointers,
                taps: inner.taps,
                k: inner.k,
                a_step: 1,
                panels: *panels,
                range,
                right: Right::Packed(right.at(group * panels.len())),
                out: output.as_ptr().wrapping_add(first),
                out_stride,
                residual: added.at_unless_null(first),
                residual_stride: out_stride,
                scale: 1.0,
                epilogue,
            };
            // SAFETY: `run` checked every operand against the shape; chunks write disjoint pixels or channels.
            unsafe { multiply(self.isa, &block) };
        });
    }

    /// Copies the input into the middle of a padded image.
    fn pad(&self, window: &Window, input: &[f32], image: &mut [f32]) {
        let ConvParams {
            batch,
            in_channels: channels,
            in_stride,
            window: from,
            ..
        } = self.params;
        let [_, height, width] = window.input;
        image.fill(0.0);
        for b in 0..batch {
            for line in 0..from.input[0] * from.input[1] {
                let (d, h) = (
                    line / from.input[1] + from.pads[0],
                    line % from.input[1] + from.pads[1],
                );
                let to = ((b * window.input[0] + d) * height + h) * width + from.pads[2];
                let to = &mut image[to * channels..][..from.input[2] * channels];
                let first = (b * from.in_pixels() + line * from.input[2]) * in_stride;
                if in_stride == channels {
                    to.copy_from_slice(&input[first..][..to.len()]);
                } else {
                    for (i, pixel) in to.chunks_exact_mut(channels).enumerate() {
                        pixel.copy_from_slice(&input[first + i * in_stride..][..channels]);
                    }
                }
            }
        }
    }
}

/// A convolution as the tile sees it.
struct Inner {
    window: Window,
    /// Elements between two input pixels.
    stride: usize,
    /// Values per tap.
    k: usize,
    taps: usize,
    /// Taps of the window, along the width, that one tap stands for.
    step: usize,
}

impl Inner {
    /// Writes the row pointers `[tile][tap][row]` of the output pixels `rows`.
    ///
    /// # Safety
    /// `to` has room for `rows.len() * taps` pointers.
    unsafe fn row_pointers(
        &self,
        mut to: *mut *const f32,
        rows: Range<usize>,
        input: *const f32,
        zeros: *const f32,
        tile_rows: usize,
    ) {
        let Inner {
            window,
            stride: in_stride,
            step,
            ..
        } = *self;
        if window.is_pointwise() {
            for row in rows {
                // SAFETY: one pointer per row.
                unsafe { to.write(input.wrapping_add(row * in_stride)) };
                to = to.wrapping_add(1);
            }
            return;
        }
        let out_pixels = window.out_pixels();
        let in_pixels = window.in_pixels();
        let tiles = tile::tiles(rows.len(), tile_rows);
        let mut first = [([0isize; 3], input); 16];
        for index in 0..tiles {
            let tile = tile::tile_range(rows.len(), tiles, index);
            let first = &mut first[..tile.len()];
            for (first, row) in first.iter_mut().zip(tile) {
                let row = rows.start + row;
                let image = input.wrapping_add(row / out_pixels * in_pixels * in_stride);
                *first = (window.first_tap(row % out_pixels), image);
            }
            for kd in 0..window.kernel[0] {
                for kh in 0..window.kernel[1] {
                    for kw in (0..window.kernel[2]).step_by(step) {
                        let tap = [kd, kh, kw];
                        for &(start, image) in first.iter() {
                            // SAFETY: one pointer per row and tap.
                            unsafe { to.write(window.tap(start, tap, image, zeros, in_stride)) };
                            to = to.wrapping_add(1);
                        }
                    }
                }
            }
        }
    }
}

impl Window {
    /// The address of a tap's channels: in the image, or the row of zeros outside.
    #[inline]
    pub(crate) fn tap(
        &self,
        first: [isize; 3],
        tap: [usize; 3],
        image: *const f32,
        zeros: *const f32,
        pixel_stride: usize,
    ) -> *const f32 {
        let at: [usize; 3] =
            std::array::from_fn(|i| first[i].wrapping_add((tap[i] * self.dilations[i]) as isize) as usize);
        // a negative coordinate became a huge one
        let inside = at[0] < self.input[0] && at[1] < self.input[1] && at[2] < self.input[2];
        let pixel = at[0].wrapping_mul(self.input[1]).wrapping_add(at[1]);
        let pixel = pixel.wrapping_mul(self.input[2]).wrapping_add(at[2]);
        if inside {
            image.wrapping_add(pixel.wrapping_mul(pixel_stride))
        } else {
            zeros
        }
    }
}

#[cfg(test)]
mod tests;
