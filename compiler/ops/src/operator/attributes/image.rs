//! Typed attributes of ops on images: convolutions, pools, resampling.
//!
//! Invariant: no default is written here.
//! Not here: how a field reads (`attributes`), which op has which struct (`operator`).

use std::num::NonZeroUsize;

use crate::Attr;
use crate::geometry::{TransposedSpec, WindowSpec};
use crate::operator::read::{Field, Reader, Result};
use crate::operator::words::*;

// Convolutions.
attributes! {
    /// Conv, ConvInteger and QLinearConv.
    Conv {
        /// Independent groups of channels.
        groups: NonZeroUsize = Group,
        /// The window.
        window: WindowSpec = KernelShape,
    }

    /// ConvTranspose.
    ConvTranspose {
        /// Independent groups of channels.
        groups: NonZeroUsize = Group,
        /// The window, with what the output has beyond it.
        window: TransposedSpec = KernelShape,
    }

    /// DeformConv.
    DeformConv {
        /// Independent groups of channels.
        groups: NonZeroUsize = Group,
        /// Groups of channels that share offsets.
        offset_groups: NonZeroUsize = OffsetGroup,
        /// The window.
        window: WindowSpec = KernelShape,
    }

    /// Col2Im: the kernel is an input.
    Col2Im {
        /// Strides, dilations and pads.
        window: WindowSpec = KernelShape,
    }

    /// CausalConvWithState.
    #[derive(Copy)]
    CausalConv {
        /// What follows the convolution.
        activation: CausalActivation = Activation,
    }
}

// Pools.
attributes! {
    /// MaxPool.
    MaxPool {
        /// The window.
        window: WindowSpec = KernelShape,
        /// Whether indices count columns first (`storage_order` 1).
        column_major: bool = StorageOrder,
    }

    /// AveragePool.
    AveragePool {
        /// The window.
        window: WindowSpec = KernelShape,
        /// Whether elements of the padding count.
        count_include_pad: bool = CountIncludePad,
    }

    /// LpPool.
    LpPool {
        /// The window.
        window: WindowSpec = KernelShape,
        /// The order of the norm.
        p: i64 = P,
    }

    /// GlobalLpPool.
    #[derive(Copy)]
    GlobalLpPool {
        /// The order of the norm.
        p: i64 = P,
    }

    /// MaxUnpool.
    MaxUnpool {
        /// Kernel, strides and pads.
        window: WindowSpec = KernelShape,
    }

    /// MaxRoiPool.
    MaxRoiPool {
        /// Height and width of the output.
        pooled_shape: Vec<i64> = PooledShape,
        /// From coordinates of a region to elements of the image.
        spatial_scale: f32 = SpatialScale,
    }

    /// RoiAlign.
    #[derive(Copy)]
    RoiAlign {
        /// Where the pixels of a region lie.
        coordinates: RegionCoordinates = CoordinateTransformationMode,
        /// How samples join.
        mode: RegionMode = Mode,
        /// Height of the output, in elements.
        output_height: usize = OutputHeight,
        /// Width of the output, in elements.
        output_width: usize = OutputWidth,
        /// Samples per output element and axis; 0 for as many as elements lie under it.
        sampling_ratio: usize = SamplingRatio,
        /// From coordinates of a region to elements of the image.
        spatial_scale: f32 = SpatialScale,
    }
}

// Images.
attributes! {
    /// AffineGrid.
    #[derive(Copy)]
    AffineGrid {
        /// Whether -1 and 1 are the middles of the corner pixels; else their outer edges.
        align_corners: bool = AlignCorners,
    }

    /// GridSample.
    #[derive(Copy)]
    GridSample {
        /// As of [`AffineGrid`].
        align_corners: bool = AlignCorners,
        /// How samples are interpolated.
        interpolation: Interpolation = Mode,
        /// What stands outside the image.
        outside: Outside = PaddingMode,
    }

    /// ImageDecoder.
    #[derive(Copy)]
    ImageDecoder {
        /// The colours of the result.
        format: PixelFormat = PixelFormat,
    }

    /// NonMaxSuppression.
    #[derive(Copy)]
    Suppression {
        /// Whether boxes are a middle and sizes; else two corners.
        center_point_box: bool = CenterPointBox,
    }

    /// Resize.
    Resize {
        /// How samples are interpolated.
        interpolation: Interpolation = Mode,
        /// From coordinates of the output to those of the input.
        coordinates: Coordinates = CoordinateTransformationMode,
        /// Which element is the nearest.
        rounding: Rounding = NearestMode,
        /// Whether a shrunk image is filtered.
        antialias: bool = Antialias,
        /// The axes that `scales`, `sizes` and `roi` name; none for all.
        axes: Option<Vec<i64>> = Axes,
        /// The coefficient of cubic interpolation.
        cubic: f32 = CubicCoeffA,
        /// Whether samples outside the image have no weight.
        exclude_outside: bool = ExcludeOutside,
        /// The value outside, of `TfCropAndResize`.
        extrapolation: f32 = ExtrapolationValue,
        /// How `sizes` bind the scales.
        aspect: AspectRatio = KeepAspectRatioPolicy,
    }

    /// Upsample.
    #[derive(Copy)]
    Upsample {
        /// How samples are interpolated.
        interpolation: Interpolation = Mode,
    }
}
