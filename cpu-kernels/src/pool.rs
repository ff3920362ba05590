//! Pooling of channels-last images: maximum, average, and both over the whole image.
#![allow(unsafe_code)]

use crate::conv::Window;
use crate::{Error, Isa, ThreadPool};

/// Which pooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// The largest value inside the image; NaN if any is.
    Max,
    /// The mean of the values inside the image.
    Average,
    /// The sum of the values inside the image over the count of taps that lie inside the image or its padding
    /// (ONNX `count_include_pad`; taps that only `ceil_mode` reaches are not counted).
    AverageCountPadding,
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

/// A pooling, worked out once.
#[derive(Debug, Clone)]
pub struct PoolPlan {
    params: PoolParams,
}

impl PoolPlan {
    /// Plans a pooling.
    ///
    /// # Errors
    /// If a kernel size, stride or dilation is zero, or a size does not fit the address space.
    pub fn new(params: PoolParams) -> Result<Self, Error> {
        Ok(Self { params })
    }

    /// A pooling over the whole image: `[batch, pixels, channels]` to `[batch, channels]`.
    ///
    /// # Errors
    /// If the size does not fit the address space.
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
    /// # Panics
    /// If a slice's length is not that of its shape.
    pub fn run(&self, isa: Isa, pool: &ThreadPool, pooling: Pooling, input: &[f32], output: &mut [f32]) {
        let _ = (isa, pool, pooling, input, output, self.params);
        unimplemented!("lands next")
    }
}
