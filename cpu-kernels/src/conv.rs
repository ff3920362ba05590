//! Convolutions of channels-last images: indirect products by row pointers, no image is ever unfolded.
//!
//! 1. Images are `[batch, depth, height, width, channels]`; fewer spatial dimensions are given as leading ones.
//! 2. A tap outside the image reads a row of zeros.
//!
//! Not here: depthwise kernels, which [`crate::depthwise`] has and [`ConvPlan`] chooses by itself.
#![allow(unsafe_code)]

use crate::{Epilogue, Error, Isa, ThreadPool};

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

/// A convolution with constant weights, worked out once.
#[derive(Debug, Clone)]
pub struct ConvPlan {
    isa: Isa,
    params: ConvParams,
}

impl ConvPlan {
    /// Plans a convolution and chooses its kernel.
    ///
    /// # Errors
    /// If a kernel size, stride, dilation or group count is zero, channels are not multiples of the groups, a stride
    /// between pixels is smaller than the channels, or a size does not fit the address space.
    pub fn new(isa: Isa, params: ConvParams) -> Result<Self, Error> {
        Ok(Self { isa, params })
    }

    /// The shape this was planned for.
    #[must_use]
    pub fn params(&self) -> &ConvParams {
        &self.params
    }

    /// Floats of the packed weights. It depends on the parameters and [`Isa::code`] alone, as does their layout.
    #[must_use]
    pub fn packed_len(&self) -> usize {
        let _ = self.isa;
        unimplemented!("lands next")
    }

    /// Packs weights `[out_channels, in_channels / groups, kernel...]` (ONNX order) and the bias `[out_channels]`.
    ///
    /// # Panics
    /// If a slice's length is not that of its shape.
    pub fn pack(&self, weights: &[f32], bias: Option<&[f32]>, packed: &mut [f32]) {
        let _ = (weights, bias, packed);
        unimplemented!("lands next")
    }

    /// Floats of scratch that a run needs.
    #[must_use]
    pub fn scratch_len(&self, pool: &ThreadPool) -> usize {
        let _ = pool;
        unimplemented!("lands next")
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
        let _ = (pool, packed, input, residual, epilogue, output, scratch);
        unimplemented!("lands next")
    }
}
