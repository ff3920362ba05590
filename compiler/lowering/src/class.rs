//! The class of each op: what sort of work it is, and so which lowering it is given to.
//!
//! Invariant: each op is in one class; the compiler holds that the table is whole.
//!
//! Not here: whether a device lowers a node of a class (its own dry run says so).

use polychip_ops::Op;

/// What sort of work an op is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpClass {
    /// A window of weights over an image.
    Convolution,
    /// A product of matrices, or a contraction of tensors.
    Product,
    /// Softmax of a product of computed tensors, times a third; and the positions that go into it.
    Attention,
    /// Each output element depends on one element of each input; changes of element type included.
    ElementWise,
    /// Elements are passed on, whole or in part, in another order.
    Movement,
    /// Elements are chosen or placed by indices among the inputs.
    Gather,
    /// Elements over statistics of their neighbours, softmax included.
    Normalisation,
    /// An axis becomes one number, or the sums before each of its elements.
    Reduction,
    /// A window over an image, without weights.
    Pooling,
    /// An image of another size, or points sampled of one.
    Resize,
    /// Between real values and integers that stand for them.
    Quantise,
    /// A state that is handed from step to step of an axis.
    Recurrent,
    /// Body graphs, run by a condition or over and over.
    Control,
    /// Sequences and optionals.
    Container,
    /// Tensors out of nothing but a shape or a few numbers.
    Generate,
    /// Elements in an order of their values, or those of them that pass a test.
    Sort,
    /// Fourier transforms.
    Signal,
    /// Strings.
    Text,
    /// What fits no other class.
    Other,
}

impl OpClass {
    /// Every class.
    pub const ALL: &'static [OpClass] = &[
        OpClass::Convolution,
        OpClass::Product,
        OpClass::Attention,
        OpClass::ElementWise,
        OpClass::Movement,
        OpClass::Gather,
        OpClass::Normalisation,
        OpClass::Reduction,
        OpClass::Pooling,
        OpClass::Resize,
        OpClass::Quantise,
        OpClass::Recurrent,
        OpClass::Control,
        OpClass::Container,
        OpClass::Generate,
        OpClass::Sort,
        OpClass::Signal,
        OpClass::Text,
        OpClass::Other,
    ];

    /// The class of an op.
    pub const fn of(op: Op) -> OpClass {
        match op {
            Op::Conv
            | Op::ConvInteger
            | Op::ConvTranspose
            | Op::CausalConvWithState
            | Op::DeformConv
            | Op::QLinearConv => OpClass::Convolution,

            Op::Einsum | Op::Gemm | Op::MatMul | Op::MatMulInteger | Op::QLinearMatMul => OpClass::Product,

            Op::Attention | Op::LinearAttention | Op::RotaryEmbedding => OpClass::Attention,

            Op::Abs
            | Op::Acos
            | Op::Acosh
            | Op::Add
            | Op::And
            | Op::Asin
            | Op::Asinh
            | Op::Atan
            | Op::Atanh
            | Op::BitCast
            | Op::BitShift
            | Op::BitwiseAnd
            | Op::BitwiseNot
            | Op::BitwiseOr
            | Op::BitwiseXor
            | Op::Cast
            | Op::CastLike
            | Op::Ceil
            | Op::Celu
            | Op::Clip
            | Op::Cos
            | Op::Cosh
            | Op::Div
            | Op::Elu
            | Op::Equal
            | Op::Erf
            | Op::Exp
            | Op::Floor
            | Op::Gelu
            | Op::Greater
            | Op::GreaterOrEqual
            | Op::HardSigmoid
            | Op::HardSwish
            | Op::IsInf
            | Op::IsNaN
            | Op::LeakyRelu
            | Op::Less
            | Op::LessOrEqual
            | Op::Log
            | Op::Max
            | Op::Mean
            | Op::Min
            | Op::Mish
            | Op::Mod
            | Op::Mul
            | Op::Neg
            | Op::Not
            | Op::Or
            | Op::PRelu
            | Op::Pow
            | Op::Reciprocal
            | Op::Relu
            | Op::Round
            | Op::Selu
            | Op::Shrink
            | Op::Sigmoid
            | Op::Sign
            | Op::Sin
            | Op::Sinh
            | Op::Softplus
            | Op::Softsign
            | Op::Sqrt
            | Op::Sub
            | Op::Sum
            | Op::SwiGLU
            | Op::Swish
            | Op::Tan
            | Op::Tanh
            | Op::ThresholdedRelu
            | Op::Where
            | Op::Xor => OpClass::ElementWise,

            Op::CenterCropPad
            | Op::Concat
            | Op::DepthToSpace
            | Op::Dropout
            | Op::Expand
            | Op::Flatten
            | Op::Identity
            | Op::Pad
            | Op::Reshape
            | Op::ReverseSequence
            | Op::Shape
            | Op::Size
            | Op::Slice
            | Op::SpaceToDepth
            | Op::Split
            | Op::Squeeze
            | Op::Tile
            | Op::Transpose
            | Op::Trilu
            | Op::Unsqueeze => OpClass::Movement,

            Op::Gather
            | Op::GatherElements
            | Op::GatherND
            | Op::OneHot
            | Op::Scatter
            | Op::ScatterElements
            | Op::ScatterND
            | Op::TensorScatter => OpClass::Gather,

            Op::BatchNormalization
            | Op::GroupNormalization
            | Op::Hardmax
            | Op::InstanceNormalization
            | Op::LRN
            | Op::LayerNormalization
            | Op::LogSoftmax
            | Op::LpNormalization
            | Op::MeanVarianceNormalization
            | Op::RMSNormalization
            | Op::Softmax => OpClass::Normalisation,

            Op::ArgMax
            | Op::ArgMin
            | Op::CumProd
            | Op::CumSum
            | Op::NegativeLogLikelihoodLoss
            | Op::ReduceL1
            | Op::ReduceL2
            | Op::ReduceLogSum
            | Op::ReduceLogSumExp
            | Op::ReduceMax
            | Op::ReduceMean
            | Op::ReduceMin
            | Op::ReduceProd
            | Op::ReduceSum
            | Op::ReduceSumSquare
            | Op::SoftmaxCrossEntropyLoss => OpClass::Reduction,

            Op::AveragePool
            | Op::Col2Im
            | Op::GlobalAveragePool
            | Op::GlobalLpPool
            | Op::GlobalMaxPool
            | Op::LpPool
            | Op::MaxPool
            | Op::MaxUnpool => OpClass::Pooling,

            Op::AffineGrid | Op::GridSample | Op::MaxRoiPool | Op::Resize | Op::RoiAlign | Op::Upsample => {
                OpClass::Resize
            }

            Op::DequantizeLinear | Op::DynamicQuantizeLinear | Op::QuantizeLinear => OpClass::Quantise,

            Op::GRU | Op::LSTM | Op::RNN => OpClass::Recurrent,

            Op::If | Op::Loop | Op::Scan | Op::SequenceMap => OpClass::Control,

            Op::ConcatFromSequence
            | Op::Optional
            | Op::OptionalGetElement
            | Op::OptionalHasElement
            | Op::SequenceAt
            | Op::SequenceConstruct
            | Op::SequenceEmpty
            | Op::SequenceErase
            | Op::SequenceInsert
            | Op::SequenceLength
            | Op::SplitToSequence => OpClass::Container,

            Op::Bernoulli
            | Op::BlackmanWindow
            | Op::Constant
            | Op::ConstantOfShape
            | Op::EyeLike
            | Op::HammingWindow
            | Op::HannWindow
            | Op::MelWeightMatrix
            | Op::Multinomial
            | Op::RandomNormal
            | Op::RandomNormalLike
            | Op::RandomUniform
            | Op::RandomUniformLike
            | Op::Range => OpClass::Generate,

            Op::Compress | Op::NonMaxSuppression | Op::NonZero | Op::TopK | Op::Unique => OpClass::Sort,

            Op::DFT | Op::STFT => OpClass::Signal,

            Op::RegexFullMatch | Op::StringConcat | Op::StringNormalizer | Op::StringSplit => OpClass::Text,

            Op::Custom
            | Op::Det
            | Op::ImageDecoder
            | Op::LabelEncoder
            | Op::TfIdfVectorizer
            | Op::TreeEnsemble
            | Op::TreeEnsembleRegressor => OpClass::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_ops() {
        for &class in OpClass::ALL {
            let mut ops = Op::ALL.iter().chain(&[Op::Custom]);
            assert!(ops.any(|&op| OpClass::of(op) == class), "{class:?}");
        }
    }

    #[test]
    fn relatives_share_a_class() {
        assert_eq!(OpClass::of(Op::QLinearConv), OpClass::of(Op::Conv));
        assert_eq!(OpClass::of(Op::QLinearMatMul), OpClass::of(Op::MatMul));
        assert_eq!(OpClass::of(Op::Softmax), OpClass::Normalisation);
        assert_eq!(OpClass::of(Op::Cast), OpClass::ElementWise);
        assert_eq!(OpClass::of(Op::Custom), OpClass::Other);
    }
}
