//! Typed attributes of ops that compute: elementwise ops, casts, quantisation, normalisations, matrices, attention.
//!
//! Invariant: no default is written here.
//! Not here: how a field reads (`attributes`), which op has which struct (`operator`).

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::operator::read::{Field, Reader, Result};
use crate::operator::words::*;
use crate::{Attr, DType};

// Elementwise ops.
attributes! {
    /// The slope or limit of an activation: Celu, Elu, LeakyRelu, SwiGLU, Swish, ThresholdedRelu.
    #[derive(Copy)]
    Alpha {
        /// `alpha`.
        alpha: f32 = Alpha,
    }

    /// HardSigmoid: `max(0, min(1, alpha * x + beta))`.
    #[derive(Copy)]
    HardSigmoid {
        /// Slope.
        alpha: f32 = Alpha,
        /// Offset.
        beta: f32 = Beta,
    }

    /// Selu: `gamma * (alpha * e^x - alpha)` below zero, `gamma * x` above.
    #[derive(Copy)]
    Selu {
        /// Factor below zero.
        alpha: f32 = Alpha,
        /// Factor everywhere.
        gamma: f32 = Gamma,
    }

    /// Shrink: `x + bias` below `-lambda`, `x - bias` above `lambda`, else 0.
    #[derive(Copy)]
    Shrink {
        /// Distance that a value moves.
        bias: f32 = Bias,
        /// Limit of what becomes 0 (`lambd`).
        lambda: f32 = Lambd,
    }

    /// Gelu.
    #[derive(Copy)]
    Gelu {
        /// The exact form or its approximation.
        form: GeluForm = Approximate,
    }

    /// BitShift.
    #[derive(Copy)]
    BitShift {
        /// Where the bits go.
        direction: Shift = Direction,
    }

    /// IsInf.
    #[derive(Copy)]
    IsInf {
        /// Whether negative infinity counts.
        negative: bool = DetectNegative,
        /// Whether positive infinity counts.
        positive: bool = DetectPositive,
    }

    /// Mod.
    #[derive(Copy)]
    Mod {
        /// Whether the result has the sign of the dividend, as C's `fmod`; else that of the divisor.
        fmod: bool = Fmod,
    }
}

// Changes of element type.
attributes! {
    /// BitCast.
    #[derive(Copy)]
    BitCast {
        /// The type of the result.
        to: DType = To,
    }

    /// Cast.
    #[derive(Copy)]
    Cast {
        /// The type of the result.
        to: DType = To,
        /// Whether values beyond a range of 8-bit floats become its ends.
        saturate: bool = Saturate,
        /// Rounding to F8E8M0.
        rounding: CastRounding = RoundMode,
    }

    /// CastLike: the type comes from its second input.
    #[derive(Copy)]
    CastLike {
        /// As of [`Cast`].
        saturate: bool = Saturate,
        /// As of [`Cast`].
        rounding: CastRounding = RoundMode,
    }
}

// Quantisation.
attributes! {
    /// DequantizeLinear.
    #[derive(Copy)]
    Dequantize {
        /// The axis of scales and zero points.
        axis: i64 = Axis,
        /// Elements per scale along the axis; 0 for all.
        block: usize = BlockSize,
        /// The type of the result; none for that of the scale.
        output: Option<DType> = OutputDtype,
    }

    /// QuantizeLinear.
    #[derive(Copy)]
    Quantize {
        /// The axis of scales and zero points.
        axis: i64 = Axis,
        /// Elements per scale along the axis; 0 for all.
        block: usize = BlockSize,
        /// The type of the result; none for that of the zero point.
        output: Option<DType> = OutputDtype,
        /// The type of the division; none for that of the scale.
        precision: Option<DType> = Precision,
        /// Whether values beyond a range of 8-bit floats become its ends.
        saturate: bool = Saturate,
    }
}

// Normalisations.
attributes! {
    /// BatchNormalization.
    #[derive(Copy)]
    BatchNorm {
        /// What is added to variances.
        epsilon: f32 = Epsilon,
        /// Share of the running statistics that stays.
        momentum: f32 = Momentum,
        /// Whether the statistics are those of the batch.
        training: bool = TrainingMode,
    }

    /// InstanceNormalization.
    #[derive(Copy)]
    InstanceNorm {
        /// What is added to variances.
        epsilon: f32 = Epsilon,
    }

    /// GroupNormalization.
    #[derive(Copy)]
    GroupNorm {
        /// What is added to variances.
        epsilon: f32 = Epsilon,
        /// Groups of channels.
        groups: NonZeroUsize = NumGroups,
        /// The type of the statistics.
        stash: DType = StashType,
    }

    /// LayerNormalization and RMSNormalization.
    #[derive(Copy)]
    Norm {
        /// The first of the normalised axes.
        axis: i64 = Axis,
        /// What is added to variances.
        epsilon: f32 = Epsilon,
        /// The type of the statistics.
        stash: DType = StashType,
    }

    /// LRN: `x / (bias + alpha / size * sum of squares)^beta` over `size` channels.
    #[derive(Copy)]
    Lrn {
        /// Factor of the sum, before it is divided by `size`.
        alpha: f32 = Alpha,
        /// Exponent.
        beta: f32 = Beta,
        /// Offset.
        bias: f32 = Bias,
        /// Channels of a sum.
        size: NonZeroUsize = Size,
    }

    /// LpNormalization.
    #[derive(Copy)]
    LpNorm {
        /// The axis.
        axis: i64 = Axis,
        /// The order of the norm, 1 or 2.
        p: i64 = P,
    }

    /// MeanVarianceNormalization.
    MeanVariance {
        /// The normalised axes.
        axes: Vec<i64> = Axes,
    }

    /// Dropout.
    #[derive(Copy)]
    Dropout {
        /// The seed of its random numbers.
        seed: Option<i64> = Seed,
    }
}

// Matrices.
attributes! {
    /// Einsum.
    Einsum {
        /// Labels of the axes, as `ij,jk->ik`.
        equation: Arc<str> = Equation,
    }

    /// Gemm: `alpha * a × b + beta * c`.
    #[derive(Copy)]
    Gemm {
        /// Factor of the product.
        alpha: f32 = Alpha,
        /// Factor of the sum.
        beta: f32 = Beta,
        /// Whether the first matrix is transposed.
        trans_a: bool = TransA,
        /// Whether the second matrix is transposed.
        trans_b: bool = TransB,
    }

    /// Trilu.
    #[derive(Copy)]
    Trilu {
        /// Whether the upper triangle stays; else the lower.
        upper: bool = Upper,
    }
}

// Attention.
attributes! {
    /// Attention.
    #[derive(Copy)]
    Attention {
        /// Whether a query sees no later key.
        causal: bool = IsCausal,
        /// Number of key and value heads, for inputs of three axes.
        kv_heads: Option<usize> = KvNumHeads,
        /// Number of query heads, for inputs of three axes.
        q_heads: Option<usize> = QNumHeads,
        /// Keys before its own that a query sees; negative for all.
        left_window: i64 = LeftWindowSize,
        /// Keys behind its own that a query sees; negative for all.
        right_window: i64 = RightWindowSize,
        /// Factor of the scores; none for `1 / sqrt(head size)`.
        scale: Option<f32> = Scale,
        /// Limit of the scores, by a hyperbolic tangent; 0 for none.
        softcap: f32 = Softcap,
        /// What the fourth output holds.
        scores: Scores = QkMatmulOutputMode,
        /// The type of the softmax; none for that of the inputs.
        softmax_precision: Option<DType> = SoftmaxPrecision,
    }

    /// LinearAttention.
    #[derive(Copy)]
    LinearAttention {
        /// Steps that may be computed together.
        chunk_size: i64 = ChunkSize,
        /// Number of key and value heads.
        kv_heads: usize = KvNumHeads,
        /// Number of query heads.
        q_heads: usize = QNumHeads,
        /// Factor of the queries; 0 for `1 / sqrt(head size)`.
        scale: f32 = Scale,
        /// How the state is updated.
        rule: UpdateRule = UpdateRule,
    }

    /// RotaryEmbedding.
    #[derive(Copy)]
    Rotary {
        /// Whether neighbours are pairs; else halves are.
        interleaved: bool = Interleaved,
        /// Heads, where the input has three axes.
        heads: Option<usize> = NumHeads,
        /// Elements of a head that rotate; 0 for all.
        rotated: usize = RotaryEmbeddingDim,
    }
}

impl Gemm {
    /// A product as it is: what MatMul computes of two matrices.
    pub const PRODUCT: Gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: false,
    };

    /// Whether the product is not scaled.
    #[must_use]
    pub fn is_unscaled(&self) -> bool {
        self.alpha == 1.0
    }
}
