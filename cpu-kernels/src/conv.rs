//! Convolutions of channels-last images: indirect products by row pointers, no image is ever unfolded.
//!
//! 1. Images are `[batch, depth, height, width, channels]`; fewer spatial dimensions are given as leading ones.
//! 2. A tap outside the image reads a row of zeros.
//!
//! Not here: depthwise kernels and Winograd's, which have modules of their own and which [`ConvPlan`] chooses by itself.
#![allow(unsafe_code)]

mod algorithm;
mod window;

pub use algorithm::Algorithm;
pub use window::Window;

use crate::depthwise::Depthwise;
use crate::elementwise::unary::Rows;
use crate::error::product;
use crate::gemm::{Elements, bf16_word};
use crate::isa::dot::Element;
use crate::schedule::{Cut, Extent, Scratch};
use crate::stored::Load;
use crate::threads::{Address, Parts, share};
use crate::tile::{self, Block, Panels, Right, multiply};
use crate::winograd::Winograd;
use crate::{Epilogue, Error, Isa, Slice, SliceMut, ThreadPool, Unary};
use half::bf16;
use std::ops::Range;

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
pub(crate) const MERGED_CHANNELS: usize = 8;

/// The size of the padded image that every tap of the window stays in.
pub(crate) fn padded(window: &Window) -> Option<[usize; 3]> {
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
    elements: Elements,
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
    Winograd(Winograd),
}

impl ConvPlan {
    /// Plans a convolution of `f32` and chooses its kernel.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn new(isa: Isa, params: ConvParams) -> Result<Self, Error> {
        Self::of(Elements::F32, isa, params)
    }

    /// Plans a convolution and chooses its kernel.
    ///
    /// # Errors
    /// If a kernel size, stride, dilation or group count is zero, channels are not multiples of the groups, a stride
    /// between pixels is smaller than the channels, or a size does not fit the address space.
    pub fn of(elements: Elements, isa: Isa, params: ConvParams) -> Result<Self, Error> {
        let plan = Self::plan(elements, isa, params, Algorithm::Direct)?;
        match Algorithm::expected(isa, &params) {
            // the transforms need more bits than bf16 has
            other if other != Algorithm::Direct && elements == Elements::F32 => {
                Self::plan(elements, isa, params, other)
            }
            _ => Ok(plan),
        }
    }

    /// Plans a convolution of `f32` by a given algorithm; the direct one where the algorithm does not
    /// [fit](Algorithm::fits).
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn with_algorithm(isa: Isa, params: ConvParams, algorithm: Algorithm) -> Result<Self, Error> {
        Self::plan(Elements::F32, isa, params, algorithm)
    }

    fn plan(elements: Elements, isa: Isa, params: ConvParams, algorithm: Algorithm) -> Result<Self, Error> {
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
        let kind = if let Some(points) = algorithm.points()
            && algorithm.fits(&params)
        {
            // points and tiles at their ends are at most nine times a 2-by-2 tile's pixels
            product(NAME, "the weights", &[9, width, depth.saturating_add(64)])?;
            product(
                NAME,
                "the points",
                &[9, batch, id, oh + 4, ow + 4, in_channels + 64],
            )?;
            Kind::Winograd(Winograd::new(isa, params, points))
        } else if groups > 1 && in_channels == groups && out_channels == groups {
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
            let width = window.kernel[2];
            let rows = elements.panels(isa, in_channels * width, out_channels);
            Kind::Merged(rows.times(window.taps() / width))
        } else {
            let rows = elements.panels(isa, in_channels / groups, out_channels / groups);
            Kind::Indirect(rows.times(window.taps()))
        };
        Ok(Self {
            isa,
            params,
            elements,
            kind,
        })
    }

    /// How it is computed.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match &self.kind {
            Kind::Winograd(winograd) if winograd.points() == 4 => Algorithm::WinogradTwo,
            Kind::Winograd(_) => Algorithm::WinogradFour,
            _ => Algorithm::Direct,
        }
    }

    /// The shape this was planned for.
    #[must_use]
    pub fn params(&self) -> &ConvParams {
        &self.params
    }

    /// Whether an input of `f32` is taken too, where the product is of `bf16`: the image of a few channels is copied
    /// anyway.
    #[must_use]
    pub fn reads_f32(&self) -> bool {
        self.elements == Elements::F32 || matches!(self.kind, Kind::Merged(_))
    }

    /// Floats of the packed weights. It depends on the elements, the parameters, [`Isa::code`] and
    /// [`Algorithm::code`] alone, as does their layout.
    #[must_use]
    pub fn packed_len(&self) -> usize {
        match &self.kind {
            Kind::Indirect(panels) | Kind::Merged(panels) => panels.len() * self.params.groups,
            Kind::Depthwise(depthwise) => depthwise.packed_len(),
            Kind::Winograd(winograd) => winograd.packed_len(),
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
            Kind::Winograd(winograd) => winograd.pack(weights, bias, packed),
            Kind::Indirect(panels) | Kind::Merged(panels) => {
                if panels.len() == 0 {
                    return;
                }
                for (group, packed) in packed.chunks_exact_mut(panels.len()).enumerate() {
                    let first = group * panels.n;
                    let bias = |column: usize| bias.map_or(0.0, |bias| bias[first + column]);
                    // rows are the channels of one tap after the other
                    let value = |row: usize, column: usize| {
                        weights[((first + column) * inner + row % inner) * taps + row / inner]
                    };
                    match self.elements {
                        Elements::F32 => panels.pack_strided(
                            packed,
                            bias,
                            &weights[first * inner * taps..],
                            [taps, inner],
                            [1, taps, inner * taps],
                        ),
                        Elements::Bf16 => {
                            let depth = self.inner().k;
                            panels.pack(packed, bias, |word, column| {
                                bf16_word(depth, word, |tap, at| value(tap * depth + at, column))
                            });
                        }
                    }
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
            row_bytes: in_channels / groups * self.elements.bytes() * stride.min(window.taps()),
            panel_bytes: panels.len() * 4,
            flops: rows
                .saturating_mul(2 * panels.n)
                .saturating_mul(in_channels / groups * window.taps()),
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
            Kind::Winograd(winograd) => winograd.scratch_len(pool),
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
    pub fn run<'a>(
        &self,
        pool: &ThreadPool,
        packed: &[f32],
        input: impl Into<Slice<'a>>,
        residual: Option<Slice<'_>>,
        epilogue: Epilogue,
        output: impl Into<SliceMut<'a>>,
        scratch: &mut [f32],
    ) {
        self.slices(
            pool,
            packed,
            input.into(),
            residual,
            epilogue,
            output.into(),
            scratch,
        );
    }

    fn slices(
        &self,
        pool: &ThreadPool,
        packed: &[f32],
        input: Slice<'_>,
        residual: Option<Slice<'_>>,
        epilogue: Epilogue,
        output: SliceMut<'_>,
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
        match (self.elements, input, output) {
            (Elements::F32, Slice::F32(x), SliceMut::F32(y)) => {
                let residual = residual.map(Slice::f32s);
                match &self.kind {
                    Kind::Winograd(winograd) => {
                        winograd.run(pool, packed, x, residual, epilogue, y, scratch);
                    }
                    _ => self.typed(pool, packed, x, residual, epilogue, y, scratch),
                }
            }
            (Elements::Bf16, Slice::Bf16(x), SliceMut::Bf16(y)) => {
                let residual = residual.map(Slice::bf16s);
                self.typed(pool, packed, x, residual, epilogue, y, scratch);
            }
            // `reads_f32`
            (Elements::Bf16, Slice::F32(x), SliceMut::Bf16(y)) => match &self.kind {
                Kind::Merged(panels) => {
                    let residual = residual.map(Slice::bf16s);
                    self.run_indirect::<f32, bf16>(pool, panels, packed, x, residual, epilogue, y, scratch);
                }
                _ => panic!("conv: element types differ"),
            },
            _ => panic!("conv: element types differ"),
        }
    }

    fn typed<E: Element>(
        &self,
        pool: &ThreadPool,
        packed: &[f32],
        input: &[E],
        residual: Option<&[E]>,
        epilogue: Epilogue,
        output: &mut [E],
        scratch: &mut [f32],
    ) {
        match &self.kind {
            Kind::Indirect(panels) | Kind::Merged(panels) => {
                self.run_indirect::<E, E>(pool, panels, packed, input, residual, epilogue, output, scratch);
            }
            Kind::Depthwise(depthwise) => {
                depthwise.run(pool, packed, input, residual, epilogue, output, scratch);
            }
            Kind::Winograd(_) => unreachable!("invariant: planned for f32 only, which `slices` runs"),
        }
    }

    /// `I` is `E`, or the element type from which a padded image is made.
    fn run_indirect<I: Load, E: Element>(
        &self,
        pool: &ThreadPool,
        panels: &Panels,
        packed: &[f32],
        input: &[I],
        residual: Option<&[E]>,
        epilogue: Epilogue,
        output: &mut [E],
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
        shared.fill(0.0);
        let zeros: *const E = shared.as_ptr().cast();
        let input = if matches!(self.kind, Kind::Merged(_)) {
            // SAFETY: the shared part is the image's size and starts on a cache line; zeros of 32 bits are also zeros
            // of 16.
            let image = unsafe {
                std::slice::from_raw_parts_mut(
                    shared.as_mut_ptr().cast::<E>(),
                    shared.len() * 4 / size_of::<E>(),
                )
            };
            self.pad(&inner.window, input, image);
            zeros
        } else {
            input.as_ptr().cast::<E>()
        };
        let (input, zeros, right, output) = (
            Address(input),
            Address(zeros),
            Address(packed.as_ptr()),
            Parts::new(output),
        );
        let added = Address(residual.map_or(std::ptr::null(), <[E]>::as_ptr));
        let per_group = cut.row_blocks * cut.panel_groups;
        pool.run_indexed(groups * per_group, &|thread, chunk| {
            let (group, part) = (chunk / per_group, chunk % per_group);
            let block = share(rows, cut.row_blocks, part / cut.panel_groups, tile_rows);
            let range = share(panels.count(), cut.panel_groups, part % cut.panel_groups, 1);
            // SAFETY: this thread's own part, asked for once.
            let pointers = unsafe { scratch.own(thread) }.as_mut_ptr().cast::<*const E>();
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

    /// Copies the input into the middle of a padded image, which holds zeros.
    fn pad<I: Load, E: Element>(&self, window: &Window, input: &[I], image: &mut [E]) {
        let ConvParams {
            batch,
            in_channels: channels,
            in_stride,
            window: from,
            ..
        } = self.params;
        let [_, height, width] = window.input;
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
                    E::enter(
                        self.isa,
                        &Rows {
                            f: Unary::Identity,
                            rows: 1,
                            columns: to.len(),
                            input: input[first..][..to.len()].as_ptr(),
                            input_stride: 0,
                            out: to.as_mut_ptr(),
                            out_stride: 0,
                            added: std::ptr::null::<E>(),
                            added_stride: 0,
                        },
                    );
                } else {
                    for (i, pixel) in to.chunks_exact_mut(channels).enumerate() {
                        let from = &input[first + i * in_stride..][..channels];
                        for (to, from) in pixel.iter_mut().zip(from) {
                            *to = E::nearest(from.value());
                        }
                    }
                }
            }
        }
    }
}

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
}

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
        /// An output pixel: its image, its first tap, where that would be, and whether all taps are in the image.
        #[derive(Clone, Copy)]
        struct Pixel<T> {
            image: *const T,
            first: [isize; 3],
            base: *const T,
            inside: bool,
        }
        // Divisions, and the tests of every tap, would cost as much as a short product: pixels are counted up, and
        // the taps of one inside the image lie at the same distances from its first.
        let [depth, height, width] = window.output;
        let [_, in_height, in_width] = window.input;
        let pixel = rows.start % window.out_pixels().max(1);
        let mut image =
            input.wrapping_add(rows.start / window.out_pixels().max(1) * window.in_pixels() * in_stride);
        let mut at = [
            pixel / width.max(1) / height.max(1),
            pixel / width.max(1) % height.max(1),
            pixel % width.max(1),
        ];
        let reach: [usize; 3] = std::array::from_fn(|i| (window.kernel[i] - 1) * window.dilations[i]);
        let tiles = tile::tiles(rows.len(), tile_rows);
        let mut pixels = [Pixel {
            image,
            first: [0; 3],
            base: image,
            inside: false,
        }; 16];
        for index in 0..tiles {
            let pixels = &mut pixels[..tile::tile_range(rows.len(), tiles, index).len()];
            for pixel in &mut *pixels {
                let first: [isize; 3] =
                    std::array::from_fn(|i| (at[i] * window.strides[i]) as isize - window.pads[i] as isize);
                let place = (first[0] * in_height as isize + first[1]) * in_width as isize + first[2];
                *pixel = Pixel {
                    image,
                    first,
                    base: image.wrapping_offset(place.wrapping_mul(in_stride as isize)),
                    inside: (0..3).all(|i| first[i] >= 0 && first[i] as usize + reach[i] < window.input[i]),
                };
                at[2] += 1;
                if at[2] == width {
                    (at[1], at[2]) = (at[1] + 1, 0);
                }
                if at[1] == height {
                    (at[0], at[1]) = (at[0] + 1, 0);
                }
                if at[0] == depth {
                    at[0] = 0;
                    image = image.wrapping_add(window.in_pixels() * in_stride);
                }
            }
            for kd in 0..window.kernel[0] {
                for kh in 0..window.kernel[1] {
                    for kw in (0..window.kernel[2]).step_by(step) {
                        let tap = [kd, kh, kw];
                        let [d, h, w]: [usize; 3] = std::array::from_fn(|i| tap[i] * window.dilations[i]);
                        let distance = ((d * in_height + h) * in_width + w).wrapping_mul(in_stride);
                        for pixel in pixels.iter() {
                            let place = if pixel.inside {
                                pixel.base.wrapping_add(distance)
                            } else {
                                window.tap(pixel.first, tap, pixel.image, zeros, in_stride)
                            };
                            // SAFETY: one pointer per row and tap.
                            unsafe { to.write(place) };
                            to = to.wrapping_add(1);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
