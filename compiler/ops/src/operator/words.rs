//! Text attributes as enumerations, one variant per word of the specification.
//!
//! Invariant: each word is listed once; `text` returns it in ONNX's spelling.
//! Not here: the defaults (`table`).

use super::read::{Field, Reader, Result};
use crate::Attr;

macro_rules! words {
    ($(
        $(#[$meta:meta])*
        $name:ident { $($(#[$word_meta:meta])* $word:ident = $text:literal $(| $alias:literal)*),* $(,)? }
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
            pub enum $name {
                $($(#[$word_meta])* $word,)*
            }

            impl $name {
                const WORDS: &'static [($name, &'static str)] =
                    &[$(($name::$word, $text), $(($name::$word, $alias),)*)*];

                /// The word as ONNX spells it.
                #[must_use]
                pub const fn text(self) -> &'static str {
                    match self {
                        $($name::$word => $text,)*
                    }
                }
            }

            impl Field for $name {
                fn read(reader: &Reader<'_>, attr: Attr) -> Result<$name> {
                    reader.word(attr, $name::WORDS)
                }
            }
        )*
    };
}

words! {
    /// How a window is padded (`auto_pad`); `NotSet` leaves it to `pads`.
    AutoPad {
        /// By `pads`.
        NotSet = "NOTSET" | "",
        /// Enough for `ceil(input / stride)` windows; an odd element goes after.
        SameUpper = "SAME_UPPER",
        /// The same; an odd element goes before.
        SameLower = "SAME_LOWER",
        /// Not at all.
        Valid = "VALID",
    }

    /// Which Gelu (`approximate`).
    GeluForm {
        /// By the error function.
        Exact = "none",
        /// By a hyperbolic tangent.
        Tanh = "tanh",
    }

    /// Which way bits move (`direction`).
    Shift {
        /// Towards the most significant bit.
        Left = "LEFT",
        /// Towards the least significant bit; zeros follow.
        Right = "RIGHT",
    }

    /// Which way a recurrent layer reads its sequence (`direction`).
    Direction {
        /// From the first step.
        Forward = "forward",
        /// From the last step.
        Reverse = "reverse",
        /// Both, as two layers side by side.
        Bidirectional = "bidirectional",
    }

    /// How an update combines with the value at its index (`reduction` of the scatter ops).
    ScatterReduction {
        /// The update replaces the value.
        None = "none",
        /// Sum.
        Add = "add",
        /// Product.
        Mul = "mul",
        /// Maximum.
        Max = "max",
        /// Minimum.
        Min = "min",
    }

    /// Whether a cache wraps around (`mode` of TensorScatter).
    CacheMode {
        /// An update past the end is an error.
        Linear = "linear",
        /// Indices are taken modulo the length of the axis.
        Circular = "circular",
    }

    /// What a loss gives back (`reduction` of the loss ops).
    LossReduction {
        /// Every loss.
        None = "none",
        /// Their weighted mean.
        Mean = "mean",
        /// Their sum.
        Sum = "sum",
    }

    /// What stands outside the data (`mode` of Pad).
    PadMode {
        /// A constant.
        Constant = "constant",
        /// The data mirrored at its edge, the edge once.
        Reflect = "reflect",
        /// The edge repeated.
        Edge = "edge",
        /// The data repeated.
        Wrap = "wrap",
    }

    /// The order of blocks and channels (`mode` of DepthToSpace and SpaceToDepth).
    BlockMode {
        /// Depth, column, row: the block is the outer part of the channel.
        Dcr = "DCR",
        /// Column, row, depth: the block is the inner part of the channel.
        Crd = "CRD",
    }

    /// How samples are interpolated (`mode` of Resize, Upsample and GridSample).
    Interpolation {
        /// The nearest element.
        Nearest = "nearest",
        /// Between the two nearest per axis.
        Linear = "linear" | "bilinear",
        /// Between the four nearest per axis.
        Cubic = "cubic" | "bicubic",
    }

    /// How a coordinate of the output becomes one of the input (`coordinate_transformation_mode` of Resize).
    Coordinates {
        /// `(x + 0.5) / scale - 0.5`.
        HalfPixel = "half_pixel",
        /// The same around the middle of the image, whatever the rounding of its size.
        HalfPixelSymmetric = "half_pixel_symmetric",
        /// As `HalfPixel`; 0 where the output has one element.
        PytorchHalfPixel = "pytorch_half_pixel",
        /// Corners lie on corners.
        AlignCorners = "align_corners",
        /// `x / scale`.
        Asymmetric = "asymmetric",
        /// `(x + 0.5) / scale`; of opset 11 alone.
        TfHalfPixelForNn = "tf_half_pixel_for_nn",
        /// Over the region that the `roi` input names.
        TfCropAndResize = "tf_crop_and_resize",
    }

    /// Which element is the nearest (`nearest_mode` of Resize).
    Rounding {
        /// Halves go down.
        RoundPreferFloor = "round_prefer_floor",
        /// Halves go up.
        RoundPreferCeil = "round_prefer_ceil",
        /// Always down.
        Floor = "floor",
        /// Always up.
        Ceil = "ceil",
    }

    /// How `sizes` bind the scales (`keep_aspect_ratio_policy` of Resize).
    AspectRatio {
        /// They do not: each axis has its own scale.
        Ignored = "stretch",
        /// One scale, the largest whose output fits the sizes.
        NotLarger = "not_larger",
        /// One scale, the smallest whose output covers the sizes.
        NotSmaller = "not_smaller",
    }

    /// What stands outside an image (`padding_mode` of GridSample).
    Outside {
        /// Zeros.
        Zeros = "zeros",
        /// The nearest element of the border.
        Border = "border",
        /// The image mirrored.
        Reflection = "reflection",
    }

    /// How samples of a region join (`mode` of RoiAlign).
    RegionMode {
        /// Their mean.
        Average = "avg",
        /// Their maximum.
        Max = "max",
    }

    /// Where the pixels of a region lie (`coordinate_transformation_mode` of RoiAlign).
    RegionCoordinates {
        /// Moved by half a pixel of the input.
        HalfPixel = "half_pixel",
        /// Not moved.
        OutputHalfPixel = "output_half_pixel",
    }

    /// The colours of a decoded image (`pixel_format`).
    PixelFormat {
        /// Red, green, blue.
        Rgb = "RGB",
        /// Blue, green, red.
        Bgr = "BGR",
        /// One channel.
        Grayscale = "Grayscale",
    }

    /// How a cast rounds to F8E8M0 (`round_mode`).
    CastRounding {
        /// Up.
        Up = "up",
        /// Down.
        Down = "down",
        /// To the nearest.
        Nearest = "nearest",
    }

    /// The activation behind a causal convolution (`activation`).
    CausalActivation {
        /// None.
        None = "none",
        /// `x * sigmoid(x)`.
        Silu = "silu" | "swish",
    }

    /// How a linear attention updates its state (`update_rule`).
    UpdateRule {
        /// By the outer product of key and value.
        Linear = "linear",
        /// The same after a decay.
        Gated = "gated",
        /// By what the state predicts wrongly of the value.
        Delta = "delta",
        /// The same after a decay.
        GatedDelta = "gated_delta",
    }

    /// Which product of query and key an attention gives back (`qk_matmul_output_mode`, 0 to 3).
    Scores {
        /// The scaled product.
        Raw = "raw",
        /// After the soft cap.
        Capped = "capped",
        /// After mask and bias.
        Biased = "biased",
        /// After the softmax.
        Probabilities = "probabilities",
    }

    /// How the leaves of trees join (`aggregate_function`, 0 to 3).
    Aggregate {
        /// Mean.
        Average = "AVERAGE",
        /// Sum.
        Sum = "SUM",
        /// Minimum.
        Min = "MIN",
        /// Maximum.
        Max = "MAX",
    }

    /// What is done to joined leaves (`post_transform`, 0 to 4).
    PostTransform {
        /// Nothing.
        None = "NONE",
        /// Softmax.
        Softmax = "SOFTMAX",
        /// Logistic function.
        Logistic = "LOGISTIC",
        /// Softmax of what is not zero.
        SoftmaxZero = "SOFTMAX_ZERO",
        /// Inverse of the normal distribution.
        Probit = "PROBIT",
    }

    /// What becomes of letters (`case_change_action`).
    CaseChange {
        /// Nothing.
        None = "NONE",
        /// Lower case.
        Lower = "LOWER",
        /// Upper case.
        Upper = "UPPER",
    }

    /// How n-grams are weighted (`mode` of TfIdfVectorizer).
    Weighting {
        /// By how often they occur.
        TermFrequency = "TF",
        /// By `weights` where they occur.
        Inverse = "IDF",
        /// By both.
        Both = "TFIDF",
    }
}
