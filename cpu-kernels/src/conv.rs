//! Convolutions of channels-last images: indirect products through row pointers, without unfolding
//! the image.
//!
//! 1. Images are `[batch, depth, height, width, channels]`; fewer spatial dimensions are given as leading ones.
//! 2. A tap outside the image reads a row of zeros.
//!
//! Not here: depthwise kernels and Winograd's, which have modules of their own and which [`ConvPlan`] chooses by itself.
#![allow(unsafe_code)]

mod algorithm;
mod pad;
pub(crate) mod params;
mod rows;
pub(crate) mod window;

pub use algorithm::Algorithm;
pub use params::ConvParams;
pub(crate) use rows::{Inner, MOST_ROWS};
pub use window::Window;

use crate::depthwise::Depthwise;
use crate::error::product;
use crate::gemm::{Elements, bf16_word};
use crate::isa::Load;
use crate::isa::dot::Element;
use crate::schedule::{Cut, Extent, Scratch};
use crate::threads::{Address, Parts, share};
use crate::tile::{self, Block, Panels, Right, multiply};
use crate::winograd::Winograd;
use crate::{Epilogue, Error, Isa, Slice, SliceMut, ThreadPool};
use half::bf16;

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

/// A convolution with constant weights, planned for its shape.
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
    /// Like [`Kind::Merged`], for an input in ONNX order, whose channels are separate planes: a row
    /// of taps of one channel is one tap.
    Planar(Panels),
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

    /// Plans a convolution of `f32` with a given algorithm, or with the direct one if the algorithm
    /// does not [fit](Algorithm::fits).
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn with_algorithm(isa: Isa, params: ConvParams, algorithm: Algorithm) -> Result<Self, Error> {
        Self::plan(Elements::F32, isa, params, algorithm)
    }

    fn plan(elements: Elements, isa: Isa, params: ConvParams, algorithm: Algorithm) -> Result<Self, Error> {
        const NAME: &str = "conv";
        let isa = elements.isa(isa);
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
        } else if Depthwise::fits(isa, &params) {
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

    /// The same convolution for an input in ONNX order, `[batch, channels, depth, height, width]`.
    /// `None` unless this plan copies its input anyway.
    #[must_use]
    pub fn planar(&self) -> Option<Self> {
        let Kind::Merged(_) = self.kind else {
            return None;
        };
        let window = &self.params.window;
        let width = window.kernel[2];
        let rows = self.elements.panels(self.isa, width, self.params.out_channels);
        let taps = self.params.in_channels * (window.taps() / width);
        Some(Self {
            kind: Kind::Planar(rows.times(taps)),
            ..self.clone()
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

    /// Whether a product of `bf16` also accepts an input of `f32`, because an image of few channels
    /// is copied anyway.
    #[must_use]
    pub fn reads_f32(&self) -> bool {
        self.elements == Elements::F32 || matches!(self.kind, Kind::Merged(_) | Kind::Planar(_))
    }

    /// Length of the packed weights in floats. Length and layout depend only on the element type,
    /// the parameters, [`Isa::code`] and [`Algorithm::code`].
    #[must_use]
    pub fn packed_len(&self) -> usize {
        match &self.kind {
            Kind::Indirect(panels) | Kind::Merged(panels) | Kind::Planar(panels) => {
                panels.len() * self.params.groups
            }
            Kind::Depthwise(depthwise) => depthwise.packed_len(),
            Kind::Winograd(winograd) => winograd.packed_len(),
        }
    }

    /// Multiply-adds of a run, padding included.
    #[must_use]
    pub fn multiply_adds(&self) -> usize {
        let window = &self.params.window;
        let rows = match self.algorithm().points() {
            None => window.out_pixels(),
            Some(points) => {
                let [depth, height, width] = window.output;
                // a tile of this many results along each side
                let side = points - 2;
                depth * height.div_ceil(side) * width.div_ceil(side)
            }
        };
        let packed = self.elements.per_float() * self.packed_len();
        rows.saturating_mul(self.params.batch).saturating_mul(packed)
    }

    /// Whether a depthwise kernel computes each output channel from one or a few input channels.
    #[must_use]
    pub fn is_depthwise(&self) -> bool {
        matches!(self.kind, Kind::Depthwise(_))
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
            Kind::Indirect(panels) | Kind::Merged(panels) | Kind::Planar(panels) => {
                if panels.len() == 0 {
                    return;
                }
                for (group, packed) in packed.chunks_exact_mut(panels.len()).enumerate() {
                    let first = group * panels.n;
                    let bias = |column: usize| bias.map_or(0.0, |bias| bias[first + column]);
                    // rows are the channels of one tap after the other
                    let planar = matches!(self.kind, Kind::Planar(_));
                    let value = |row: usize, column: usize| {
                        let (channel, tap) = if planar {
                            (row / taps, row % taps)
                        } else {
                            (row % inner, row / inner)
                        };
                        weights[((first + column) * inner + channel) * taps + tap]
                    };
                    match self.elements {
                        Elements::F32 => panels.pack_strided(
                            packed,
                            bias,
                            &weights[first * inner * taps..],
                            // planes are packed in the order of memory
                            if planar { [1, inner * taps] } else { [taps, inner] },
                            [1, if planar { 1 } else { taps }, inner * taps],
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
        let planar = matches!(self.kind, Kind::Planar(_));
        if planar || matches!(self.kind, Kind::Merged(_)) {
            let input = padded(&window).expect("invariant: `new` computed the padded size");
            let window = Window {
                input,
                pads: [0; 3],
                ..window
            };
            let width = window.kernel[2];
            let (planes, channels) = if planar {
                (in_channels, 1)
            } else {
                (1, in_channels)
            };
            return Inner {
                window,
                stride: channels,
                k: channels * width,
                taps: planes * (taps / width),
                step: width,
                planes,
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

    /// Whether the input is copied into a padded image.
    fn pads(&self) -> bool {
        matches!(self.kind, Kind::Merged(_) | Kind::Planar(_))
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
        let shared = if self.pads() {
            self.params.batch * inner.window.in_pixels() * self.params.in_channels
        } else {
            inner.k
        };
        (shared, 2 * (cut.block_rows * inner.taps + MOST_ROWS))
    }

    /// Floats of scratch that a run needs.
    #[must_use]
    pub fn scratch_len(&self, pool: &ThreadPool) -> usize {
        match &self.kind {
            Kind::Depthwise(depthwise) => depthwise.scratch_len(pool),
            Kind::Winograd(winograd) => winograd.scratch_len(pool),
            Kind::Indirect(panels) | Kind::Merged(panels) | Kind::Planar(panels) => {
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
        let output = output.into();
        let (out_len, room) = (self.out_len(), output.len());
        assert!(room >= out_len, "conv: the output is shorter than its shape");
        assert!(
            residual.is_none_or(|r| r.len() >= out_len),
            "conv: the residual is shorter than its shape"
        );
        let input = input.into();
        match output {
            SliceMut::F32(output) => {
                let residual = residual.map_or(std::ptr::null(), |r| r.f32s().as_ptr());
                let output = Parts::new(output);
                self.run_f32(pool, packed, input, residual, epilogue, output, scratch);
            }
            SliceMut::Bf16(output) => {
                let residual = residual.map_or(std::ptr::null(), |r| r.bf16s().as_ptr());
                let output = Parts::new(output);
                self.run_bf16(pool, packed, input, residual, epilogue, output, scratch);
            }
        }
    }

    /// Like [`run`](Self::run), for a residual and an output that are parts of the same wider
    /// image: `image` starts at the residual's first channel, and the output's first channel is
    /// `first` elements after it.
    ///
    /// # Panics
    /// If a slice is too short for its shape, the parts overlap, or scratch is shorter than
    /// [`scratch_len`](Self::scratch_len).
    pub fn run_beside<'a>(
        &self,
        pool: &ThreadPool,
        packed: &[f32],
        input: impl Into<Slice<'a>>,
        epilogue: Epilogue,
        image: impl Into<SliceMut<'a>>,
        first: usize,
        scratch: &mut [f32],
    ) {
        let (channels, stride) = (self.params.out_channels, self.params.out_stride);
        assert!(
            first >= channels && stride - channels >= first,
            "conv: residual and output overlap"
        );
        let (input, image) = (input.into(), image.into());
        assert!(
            image.len() >= self.out_len().saturating_add(first),
            "conv: the output is shorter than its shape"
        );
        match image {
            SliceMut::F32(image) => {
                let image = Parts::new(image);
                let residual = image.as_ptr().cast_const();
                self.run_f32(
                    pool,
                    packed,
                    input,
                    residual,
                    epilogue,
                    image.after(first),
                    scratch,
                );
            }
            SliceMut::Bf16(image) => {
                let image = Parts::new(image);
                let residual = image.as_ptr().cast_const();
                self.run_bf16(
                    pool,
                    packed,
                    input,
                    residual,
                    epilogue,
                    image.after(first),
                    scratch,
                );
            }
        }
    }

    /// Elements of `pixels` pixels of `channels`, `stride` apart.
    fn needed(pixels: usize, stride: usize, channels: usize) -> usize {
        match (pixels, channels) {
            (0, _) | (_, 0) => 0,
            _ => (pixels - 1) * stride + channels,
        }
    }

    /// Elements of the output, from the first to the last.
    fn out_len(&self) -> usize {
        let ConvParams {
            batch,
            out_channels,
            window,
            out_stride,
            ..
        } = self.params;
        Self::needed(batch * window.out_pixels(), out_stride, out_channels)
    }

    /// Checks what does not depend on element types; false where there is nothing to compute.
    fn check(&self, packed: &[f32], input: Slice<'_>) -> bool {
        let ConvParams {
            batch,
            in_channels,
            window,
            in_stride,
            ..
        } = self.params;
        assert_eq!(
            packed.len(),
            self.packed_len(),
            "conv: length of the packed weights"
        );
        let in_stride = match self.kind {
            Kind::Planar(_) => in_channels,
            _ => in_stride,
        };
        let in_len = Self::needed(batch * window.in_pixels(), in_stride, in_channels);
        assert!(input.len() >= in_len, "conv: the input is shorter than its shape");
        self.out_len() > 0
    }

    /// The output and, unless null, the residual are as long as their shape.
    fn run_f32(
        &self,
        pool: &ThreadPool,
        packed: &[f32],
        input: Slice<'_>,
        residual: *const f32,
        epilogue: Epilogue,
        output: Parts<'_, f32>,
        scratch: &mut [f32],
    ) {
        if !self.check(packed, input) {
            return;
        }
        match (self.elements, input, &self.kind) {
            (Elements::F32, Slice::F32(x), Kind::Winograd(winograd)) => {
                winograd.run(pool, packed, x, residual, epilogue, output, scratch);
            }
            (Elements::F32, Slice::F32(x), _) => {
                self.typed(pool, packed, x, residual, epilogue, output, scratch);
            }
            _ => panic!("conv: element types differ"),
        }
    }

    /// As [`run_f32`](Self::run_f32).
    fn run_bf16(
        &self,
        pool: &ThreadPool,
        packed: &[f32],
        input: Slice<'_>,
        residual: *const bf16,
        epilogue: Epilogue,
        output: Parts<'_, bf16>,
        scratch: &mut [f32],
    ) {
        if !self.check(packed, input) {
            return;
        }
        match (self.elements, input, &self.kind) {
            (Elements::Bf16, Slice::Bf16(x), _) => {
                self.typed(pool, packed, x, residual, epilogue, output, scratch);
            }
            // `reads_f32`
            (Elements::Bf16, Slice::F32(x), Kind::Merged(panels) | Kind::Planar(panels)) => {
                self.run_indirect::<f32, bf16>(pool, panels, packed, x, residual, epilogue, output, scratch);
            }
            _ => panic!("conv: element types differ"),
        }
    }

    fn typed<E: Element>(
        &self,
        pool: &ThreadPool,
        packed: &[f32],
        input: &[E],
        residual: *const E,
        epilogue: Epilogue,
        output: Parts<'_, E>,
        scratch: &mut [f32],
    ) {
        match &self.kind {
            Kind::Indirect(panels) | Kind::Merged(panels) | Kind::Planar(panels) => {
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
        residual: *const E,
        epilogue: Epilogue,
        output: Parts<'_, E>,
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
        let zeros: *const E = shared.as_ptr().cast();
        let input = if self.pads() {
            // SAFETY: the shared part is the image's size and starts on a cache line; two elements of 16 bits are one of
            // 32.
            let image = unsafe {
                std::slice::from_raw_parts_mut(
                    shared.as_mut_ptr().cast::<E>(),
                    shared.len() * 4 / size_of::<E>(),
                )
            };
            self.pad(pool, &inner.window, input, image);
            zeros
        } else {
            shared.fill(0.0);
            input.as_ptr().cast::<E>()
        };
        let (input, zeros, right) = (Address(input), Address(zeros), Address(packed.as_ptr()));
        let added = Address(residual);
        let per_group = cut.row_blocks * cut.panel_groups;
        pool.run_indexed(groups * per_group, &|thread, chunk| {
            let (group, part) = (chunk / per_group, chunk % per_group);
            let block = cut.block(rows, part / cut.panel_groups);
            let range = share(panels.count(), cut.panel_groups, part % cut.panel_groups, 1);
            // SAFETY: this thread's own part, asked for once.
            let pointers = unsafe { scratch.own(thread) }.as_mut_ptr().cast::<*const E>();
            let (first, zeros) = (input.at(group * inner.k), zeros.at(0));
            // SAFETY: the part has room for the pointers of the longest block and a tile's more.
            unsafe { inner.row_pointers(self.isa, pointers, block.clone(), first, zeros, tile_rows) };
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
}
