//! The shape of a convolution.
//!
//! Not here: whether it can be computed; `ConvPlan` checks that.

use super::window::Window;

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
