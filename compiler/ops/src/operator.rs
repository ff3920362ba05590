//! Operators with typed attributes, decoded once, with the defaults of the op table.
//!
//! [`Operator`] has one variant per op, of the op's name; an op with attributes carries a struct of them. Nodes of a graph,
//! of a part and of a plugin's view hand it out (`node.operator()`), so that no consumer names an attribute or a default.
//!
//! Invariants:
//! 1. Every op has a variant: [`Operator::decode`] matches [`Op`] without a `_` arm.
//! 2. Defaults come from the op table ([`OpSpec`](crate::OpSpec)).
//! 3. An attribute that the op lacks, of another kind or out of its range is an error, never a default.
//!
//! Not here: body graphs, tensors of `Constant` and of trees, which stay in the node; the flat attributes of the C contract.
//!
//! ```
//! use polychip_ops::{Attr, Attributes, Op, Operator, operator};
//!
//! let attributes = Attributes::new().with_float(Attr::Alpha, 0.5).with_int(Attr::TransB, 1);
//! match Operator::decode(Op::Gemm, &attributes)? {
//!     Operator::Gemm(gemm) => assert!(gemm.alpha == 0.5 && gemm.beta == 1.0 && gemm.trans_b),
//!     other => unreachable!("{other:?}"),
//! }
//! // where the op is known, its attributes alone
//! let norm: operator::Norm = Operator::attributes(Op::LayerNormalization, &Attributes::new())?;
//! assert_eq!((norm.axis, norm.epsilon), (-1, 1e-5));
//! # Ok::<(), polychip_ops::InferError>(())
//! ```

mod attributes;
mod read;
mod window;
mod words;

#[cfg(test)]
mod tests;

pub use crate::geometry::{TransposedSpec, WindowSpec};
pub use attributes::*;
pub(crate) use window::{transposed_window, window};
pub use words::*;

use read::Reader;

use crate::{Attributes, InferError, Op};

/// The typed attributes of some ops.
pub trait OperatorAttributes: Sized {
    /// The attributes, where the operator has these.
    fn of(operator: Operator) -> Option<Self>;
}

macro_rules! operators {
    (
        plain: $($plain:ident),* ;
        $($attributes:ident: $($op:ident),+ ;)*
    ) => {
        /// An op with its typed attributes. The variants carry the ONNX op type as their name.
        #[derive(Clone, PartialEq, Debug)]
        #[allow(missing_docs)] // each variant is the ONNX op of that name
        pub enum Operator {
            /// An op outside the list: its attributes stay as they are.
            Custom,
            $($plain,)*
            $($($op($attributes),)+)*
        }

        impl Operator {
            /// The operator of a node with these attributes.
            ///
            /// # Errors
            /// Where an attribute is missing, none of the op's, of another kind, or out of its range.
            pub fn decode(op: Op, attributes: &Attributes) -> Result<Operator, InferError> {
                Operator::read(&Reader::new(op, attributes)?)
            }

            fn read(reader: &Reader<'_>) -> Result<Operator, InferError> {
                Ok(match reader.op {
                    Op::Custom => Operator::Custom,
                    $(Op::$plain => Operator::$plain,)*
                    $($(Op::$op => Operator::$op($attributes::read(reader)?),)+)*
                })
            }

            /// The op without its attributes.
            #[must_use]
            pub const fn op(&self) -> Op {
                match self {
                    Operator::Custom => Op::Custom,
                    $(Operator::$plain => Op::$plain,)*
                    $($(Operator::$op(_) => Op::$op,)+)*
                }
            }
        }

        $(impl OperatorAttributes for $attributes {
            fn of(operator: Operator) -> Option<Self> {
                match operator {
                    $(Operator::$op(attributes))|+ => Some(attributes),
                    _ => None,
                }
            }
        })*
    };
}

operators! {
    plain:
        Abs, Acos, Acosh, Add, And, Asin, Asinh, Atan, Atanh, BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor, Ceil, Clip,
        Constant, Cos, Cosh, Det, Div, DynamicQuantizeLinear, Equal, Erf, Exp, Expand, Floor, GlobalAveragePool,
        GlobalMaxPool, Greater, GreaterOrEqual, HardSwish, Identity, If, IsNaN, LabelEncoder, Less, LessOrEqual, Log, Loop,
        MatMul, MatMulInteger, Max, Mean, Min, Mish, Mul, Neg, NonZero, Not, Optional, OptionalGetElement,
        OptionalHasElement, Or, PRelu, Pow, QLinearMatMul, Reciprocal, Relu, Round, SequenceAt, SequenceConstruct,
        SequenceErase, SequenceInsert, SequenceLength, SequenceMap, Sigmoid, Sign, Sin, Sinh, Size, Slice, Softplus,
        Softsign, Sqrt, Squeeze, StringConcat, Sub, Sum, Tan, Tanh, Tile, Unsqueeze, Where, Xor;
    AffineGrid: AffineGrid;
    Along: Concat, Flatten, Gather, GatherElements, Hardmax, LogSoftmax, OneHot, Scatter, Softmax;
    Alpha: Celu, Elu, LeakyRelu, SwiGLU, Swish, ThresholdedRelu;
    ArgReduce: ArgMax, ArgMin;
    Attention: Attention;
    AveragePool: AveragePool;
    BatchNorm: BatchNormalization;
    Bernoulli: Bernoulli;
    BitCast: BitCast;
    BitShift: BitShift;
    Blocks: DepthToSpace, SpaceToDepth;
    Cast: Cast;
    CastLike: CastLike;
    CausalConv: CausalConvWithState;
    CenterCropPad: CenterCropPad;
    Col2Im: Col2Im;
    Compress: Compress;
    ConcatFromSequence: ConcatFromSequence;
    ConstantOfShape: ConstantOfShape;
    Conv: Conv, ConvInteger, QLinearConv;
    ConvTranspose: ConvTranspose;
    Cumulative: CumProd, CumSum;
    DeformConv: DeformConv;
    Dequantize: DequantizeLinear;
    Dft: DFT;
    Dropout: Dropout;
    Einsum: Einsum;
    EyeLike: EyeLike;
    GatherNd: GatherND;
    Gelu: Gelu;
    Gemm: Gemm;
    GlobalLpPool: GlobalLpPool;
    GridSample: GridSample;
    GroupNorm: GroupNormalization;
    Gru: GRU;
    HardSigmoid: HardSigmoid;
    ImageDecoder: ImageDecoder;
    InstanceNorm: InstanceNormalization;
    IsInf: IsInf;
    LinearAttention: LinearAttention;
    Loss: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss;
    LpNorm: LpNormalization;
    LpPool: LpPool;
    Lrn: LRN;
    Lstm: LSTM;
    MaxPool: MaxPool;
    MaxRoiPool: MaxRoiPool;
    MaxUnpool: MaxUnpool;
    MeanVariance: MeanVarianceNormalization;
    MelWeights: MelWeightMatrix;
    Mod: Mod;
    Multinomial: Multinomial;
    Norm: LayerNormalization, RMSNormalization;
    Pad: Pad;
    Quantize: QuantizeLinear;
    RandomNormal: RandomNormal;
    RandomNormalLike: RandomNormalLike;
    RandomUniform: RandomUniform;
    RandomUniformLike: RandomUniformLike;
    Range: Range;
    Reduce:
        ReduceL1, ReduceL2, ReduceLogSum, ReduceLogSumExp, ReduceMax, ReduceMean, ReduceMin, ReduceProd, ReduceSum,
        ReduceSumSquare;
    RegexFullMatch: RegexFullMatch;
    Reshape: Reshape;
    Resize: Resize;
    ReverseSequence: ReverseSequence;
    Rnn: RNN;
    RoiAlign: RoiAlign;
    Rotary: RotaryEmbedding;
    Scan: Scan;
    ScatterElements: ScatterElements;
    ScatterNd: ScatterND;
    Selu: Selu;
    SequenceEmpty: SequenceEmpty;
    Shape: Shape;
    Shrink: Shrink;
    SignalWindow: BlackmanWindow, HammingWindow, HannWindow;
    Split: Split;
    SplitToSequence: SplitToSequence;
    Stft: STFT;
    StringNormalizer: StringNormalizer;
    StringSplit: StringSplit;
    Suppression: NonMaxSuppression;
    TensorScatter: TensorScatter;
    TfIdf: TfIdfVectorizer;
    TopK: TopK;
    Transpose: Transpose;
    TreeEnsemble: TreeEnsemble, TreeEnsembleRegressor;
    Trilu: Trilu;
    Unique: Unique;
    Upsample: Upsample;
}

impl Operator {
    /// The attributes of a matrix product: those of a Gemm, and of a MatMul the factors and orders that it has as a Gemm.
    #[must_use]
    pub fn product(&self) -> Option<Gemm> {
        match self {
            Operator::Gemm(gemm) => Some(*gemm),
            Operator::MatMul => Some(Gemm::PRODUCT),
            _ => None,
        }
    }

    /// The typed attributes of a node whose op is known to have these.
    ///
    /// # Errors
    /// As [`Operator::decode`], and where the op has other attributes.
    pub fn attributes<T: OperatorAttributes>(op: Op, attributes: &Attributes) -> Result<T, InferError> {
        let reader = Reader::new(op, attributes)?;
        let operator = Operator::read(&reader)?;
        T::of(operator).ok_or_else(|| reader.error("has other attributes".to_owned()))
    }
}
