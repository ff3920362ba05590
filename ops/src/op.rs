//! The operators by code and name: every op of the default ONNX domain at opset 28, and `Custom`.
//!
//! Invariants:
//! 1. The code of an op is its code in the plugin ABI.
//! 2. `from_code` and `from_name` undo `code` and `name`; each op has a row in the op table.
//!
//! Not here: what an op takes and gives (`table`), what shapes come out (`infer`).

use std::fmt;

use polychip_abi::op as codes;

macro_rules! ops {
    ($($op:ident = $code:ident),* $(,)?) => {
        /// An operator. The variants carry the ONNX op type as their name.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u32)]
        #[allow(missing_docs)] // each variant is the ONNX op of that name
        pub enum Op {
            /// An op outside the list, named by its domain and op type.
            Custom = codes::POLYCHIP_OP_CUSTOM,
            $($op = codes::$code,)*
        }

        impl Op {
            /// Every op but `Custom`, in the order of their codes.
            pub const ALL: &'static [Op] = &[$(Op::$op),*];

            /// The ONNX op type; `Custom` for a custom op, whose own name stands in its node.
            pub const fn name(self) -> &'static str {
                match self {
                    Op::Custom => "Custom",
                    $(Op::$op => stringify!($op),)*
                }
            }
        }
    };
}

ops! {
    Abs = POLYCHIP_OP_ABS,
    Acos = POLYCHIP_OP_ACOS,
    Acosh = POLYCHIP_OP_ACOSH,
    Add = POLYCHIP_OP_ADD,
    AffineGrid = POLYCHIP_OP_AFFINE_GRID,
    And = POLYCHIP_OP_AND,
    ArgMax = POLYCHIP_OP_ARG_MAX,
    ArgMin = POLYCHIP_OP_ARG_MIN,
    Asin = POLYCHIP_OP_ASIN,
    Asinh = POLYCHIP_OP_ASINH,
    Atan = POLYCHIP_OP_ATAN,
    Atanh = POLYCHIP_OP_ATANH,
    Attention = POLYCHIP_OP_ATTENTION,
    AveragePool = POLYCHIP_OP_AVERAGE_POOL,
    BatchNormalization = POLYCHIP_OP_BATCH_NORMALIZATION,
    Bernoulli = POLYCHIP_OP_BERNOULLI,
    BitCast = POLYCHIP_OP_BIT_CAST,
    BitShift = POLYCHIP_OP_BIT_SHIFT,
    BitwiseAnd = POLYCHIP_OP_BITWISE_AND,
    BitwiseNot = POLYCHIP_OP_BITWISE_NOT,
    BitwiseOr = POLYCHIP_OP_BITWISE_OR,
    BitwiseXor = POLYCHIP_OP_BITWISE_XOR,
    BlackmanWindow = POLYCHIP_OP_BLACKMAN_WINDOW,
    Cast = POLYCHIP_OP_CAST,
    CastLike = POLYCHIP_OP_CAST_LIKE,
    CausalConvWithState = POLYCHIP_OP_CAUSAL_CONV_WITH_STATE,
    Ceil = POLYCHIP_OP_CEIL,
    Celu = POLYCHIP_OP_CELU,
    CenterCropPad = POLYCHIP_OP_CENTER_CROP_PAD,
    Clip = POLYCHIP_OP_CLIP,
    Col2Im = POLYCHIP_OP_COL2IM,
    Compress = POLYCHIP_OP_COMPRESS,
    Concat = POLYCHIP_OP_CONCAT,
    ConcatFromSequence = POLYCHIP_OP_CONCAT_FROM_SEQUENCE,
    Constant = POLYCHIP_OP_CONSTANT,
    ConstantOfShape = POLYCHIP_OP_CONSTANT_OF_SHAPE,
    Conv = POLYCHIP_OP_CONV,
    ConvInteger = POLYCHIP_OP_CONV_INTEGER,
    ConvTranspose = POLYCHIP_OP_CONV_TRANSPOSE,
    Cos = POLYCHIP_OP_COS,
    Cosh = POLYCHIP_OP_COSH,
    CumProd = POLYCHIP_OP_CUM_PROD,
    CumSum = POLYCHIP_OP_CUM_SUM,
    DFT = POLYCHIP_OP_DFT,
    DeformConv = POLYCHIP_OP_DEFORM_CONV,
    DepthToSpace = POLYCHIP_OP_DEPTH_TO_SPACE,
    DequantizeLinear = POLYCHIP_OP_DEQUANTIZE_LINEAR,
    Det = POLYCHIP_OP_DET,
    Div = POLYCHIP_OP_DIV,
    Dropout = POLYCHIP_OP_DROPOUT,
    DynamicQuantizeLinear = POLYCHIP_OP_DYNAMIC_QUANTIZE_LINEAR,
    Einsum = POLYCHIP_OP_EINSUM,
    Elu = POLYCHIP_OP_ELU,
    Equal = POLYCHIP_OP_EQUAL,
    Erf = POLYCHIP_OP_ERF,
    Exp = POLYCHIP_OP_EXP,
    Expand = POLYCHIP_OP_EXPAND,
    EyeLike = POLYCHIP_OP_EYE_LIKE,
    Flatten = POLYCHIP_OP_FLATTEN,
    Floor = POLYCHIP_OP_FLOOR,
    GRU = POLYCHIP_OP_GRU,
    Gather = POLYCHIP_OP_GATHER,
    GatherElements = POLYCHIP_OP_GATHER_ELEMENTS,
    GatherND = POLYCHIP_OP_GATHER_ND,
    Gelu = POLYCHIP_OP_GELU,
    Gemm = POLYCHIP_OP_GEMM,
    GlobalAveragePool = POLYCHIP_OP_GLOBAL_AVERAGE_POOL,
    GlobalLpPool = POLYCHIP_OP_GLOBAL_LP_POOL,
    GlobalMaxPool = POLYCHIP_OP_GLOBAL_MAX_POOL,
    Greater = POLYCHIP_OP_GREATER,
    GreaterOrEqual = POLYCHIP_OP_GREATER_OR_EQUAL,
    GridSample = POLYCHIP_OP_GRID_SAMPLE,
    GroupNormalization = POLYCHIP_OP_GROUP_NORMALIZATION,
    HammingWindow = POLYCHIP_OP_HAMMING_WINDOW,
    HannWindow = POLYCHIP_OP_HANN_WINDOW,
    HardSigmoid = POLYCHIP_OP_HARD_SIGMOID,
    HardSwish = POLYCHIP_OP_HARD_SWISH,
    Hardmax = POLYCHIP_OP_HARDMAX,
    Identity = POLYCHIP_OP_IDENTITY,
    If = POLYCHIP_OP_IF,
    ImageDecoder = POLYCHIP_OP_IMAGE_DECODER,
    InstanceNormalization = POLYCHIP_OP_INSTANCE_NORMALIZATION,
    IsInf = POLYCHIP_OP_IS_INF,
    IsNaN = POLYCHIP_OP_IS_NAN,
    LRN = POLYCHIP_OP_LRN,
    LSTM = POLYCHIP_OP_LSTM,
    LayerNormalization = POLYCHIP_OP_LAYER_NORMALIZATION,
    LeakyRelu = POLYCHIP_OP_LEAKY_RELU,
    Less = POLYCHIP_OP_LESS,
    LessOrEqual = POLYCHIP_OP_LESS_OR_EQUAL,
    LinearAttention = POLYCHIP_OP_LINEAR_ATTENTION,
    Log = POLYCHIP_OP_LOG,
    LogSoftmax = POLYCHIP_OP_LOG_SOFTMAX,
    Loop = POLYCHIP_OP_LOOP,
    LpNormalization = POLYCHIP_OP_LP_NORMALIZATION,
    LpPool = POLYCHIP_OP_LP_POOL,
    MatMul = POLYCHIP_OP_MATMUL,
    MatMulInteger = POLYCHIP_OP_MATMUL_INTEGER,
    Max = POLYCHIP_OP_MAX,
    MaxPool = POLYCHIP_OP_MAX_POOL,
    MaxRoiPool = POLYCHIP_OP_MAX_ROI_POOL,
    MaxUnpool = POLYCHIP_OP_MAX_UNPOOL,
    Mean = POLYCHIP_OP_MEAN,
    MeanVarianceNormalization = POLYCHIP_OP_MEAN_VARIANCE_NORMALIZATION,
    MelWeightMatrix = POLYCHIP_OP_MEL_WEIGHT_MATRIX,
    Min = POLYCHIP_OP_MIN,
    Mish = POLYCHIP_OP_MISH,
    Mod = POLYCHIP_OP_MOD,
    Mul = POLYCHIP_OP_MUL,
    Multinomial = POLYCHIP_OP_MULTINOMIAL,
    Neg = POLYCHIP_OP_NEG,
    NegativeLogLikelihoodLoss = POLYCHIP_OP_NEGATIVE_LOG_LIKELIHOOD_LOSS,
    NonMaxSuppression = POLYCHIP_OP_NON_MAX_SUPPRESSION,
    NonZero = POLYCHIP_OP_NON_ZERO,
    Not = POLYCHIP_OP_NOT,
    OneHot = POLYCHIP_OP_ONE_HOT,
    Optional = POLYCHIP_OP_OPTIONAL,
    OptionalGetElement = POLYCHIP_OP_OPTIONAL_GET_ELEMENT,
    OptionalHasElement = POLYCHIP_OP_OPTIONAL_HAS_ELEMENT,
    Or = POLYCHIP_OP_OR,
    PRelu = POLYCHIP_OP_PRELU,
    Pad = POLYCHIP_OP_PAD,
    Pow = POLYCHIP_OP_POW,
    QLinearConv = POLYCHIP_OP_QLINEAR_CONV,
    QLinearMatMul = POLYCHIP_OP_QLINEAR_MATMUL,
    QuantizeLinear = POLYCHIP_OP_QUANTIZE_LINEAR,
    RMSNormalization = POLYCHIP_OP_RMS_NORMALIZATION,
    RNN = POLYCHIP_OP_RNN,
    RandomNormal = POLYCHIP_OP_RANDOM_NORMAL,
    RandomNormalLike = POLYCHIP_OP_RANDOM_NORMAL_LIKE,
    RandomUniform = POLYCHIP_OP_RANDOM_UNIFORM,
    RandomUniformLike = POLYCHIP_OP_RANDOM_UNIFORM_LIKE,
    Range = POLYCHIP_OP_RANGE,
    Reciprocal = POLYCHIP_OP_RECIPROCAL,
    ReduceL1 = POLYCHIP_OP_REDUCE_L1,
    ReduceL2 = POLYCHIP_OP_REDUCE_L2,
    ReduceLogSum = POLYCHIP_OP_REDUCE_LOG_SUM,
    ReduceLogSumExp = POLYCHIP_OP_REDUCE_LOG_SUM_EXP,
    ReduceMax = POLYCHIP_OP_REDUCE_MAX,
    ReduceMean = POLYCHIP_OP_REDUCE_MEAN,
    ReduceMin = POLYCHIP_OP_REDUCE_MIN,
    ReduceProd = POLYCHIP_OP_REDUCE_PROD,
    ReduceSum = POLYCHIP_OP_REDUCE_SUM,
    ReduceSumSquare = POLYCHIP_OP_REDUCE_SUM_SQUARE,
    RegexFullMatch = POLYCHIP_OP_REGEX_FULL_MATCH,
    Relu = POLYCHIP_OP_RELU,
    Reshape = POLYCHIP_OP_RESHAPE,
    Resize = POLYCHIP_OP_RESIZE,
    ReverseSequence = POLYCHIP_OP_REVERSE_SEQUENCE,
    RoiAlign = POLYCHIP_OP_ROI_ALIGN,
    RotaryEmbedding = POLYCHIP_OP_ROTARY_EMBEDDING,
    Round = POLYCHIP_OP_ROUND,
    STFT = POLYCHIP_OP_STFT,
    Scan = POLYCHIP_OP_SCAN,
    Scatter = POLYCHIP_OP_SCATTER,
    ScatterElements = POLYCHIP_OP_SCATTER_ELEMENTS,
    ScatterND = POLYCHIP_OP_SCATTER_ND,
    Selu = POLYCHIP_OP_SELU,
    SequenceAt = POLYCHIP_OP_SEQUENCE_AT,
    SequenceConstruct = POLYCHIP_OP_SEQUENCE_CONSTRUCT,
    SequenceEmpty = POLYCHIP_OP_SEQUENCE_EMPTY,
    SequenceErase = POLYCHIP_OP_SEQUENCE_ERASE,
    SequenceInsert = POLYCHIP_OP_SEQUENCE_INSERT,
    SequenceLength = POLYCHIP_OP_SEQUENCE_LENGTH,
    SequenceMap = POLYCHIP_OP_SEQUENCE_MAP,
    Shape = POLYCHIP_OP_SHAPE,
    Shrink = POLYCHIP_OP_SHRINK,
    Sigmoid = POLYCHIP_OP_SIGMOID,
    Sign = POLYCHIP_OP_SIGN,
    Sin = POLYCHIP_OP_SIN,
    Sinh = POLYCHIP_OP_SINH,
    Size = POLYCHIP_OP_SIZE,
    Slice = POLYCHIP_OP_SLICE,
    Softmax = POLYCHIP_OP_SOFTMAX,
    SoftmaxCrossEntropyLoss = POLYCHIP_OP_SOFTMAX_CROSS_ENTROPY_LOSS,
    Softplus = POLYCHIP_OP_SOFTPLUS,
    Softsign = POLYCHIP_OP_SOFTSIGN,
    SpaceToDepth = POLYCHIP_OP_SPACE_TO_DEPTH,
    Split = POLYCHIP_OP_SPLIT,
    SplitToSequence = POLYCHIP_OP_SPLIT_TO_SEQUENCE,
    Sqrt = POLYCHIP_OP_SQRT,
    Squeeze = POLYCHIP_OP_SQUEEZE,
    StringConcat = POLYCHIP_OP_STRING_CONCAT,
    StringNormalizer = POLYCHIP_OP_STRING_NORMALIZER,
    StringSplit = POLYCHIP_OP_STRING_SPLIT,
    Sub = POLYCHIP_OP_SUB,
    Sum = POLYCHIP_OP_SUM,
    SwiGLU = POLYCHIP_OP_SWIGLU,
    Swish = POLYCHIP_OP_SWISH,
    Tan = POLYCHIP_OP_TAN,
    Tanh = POLYCHIP_OP_TANH,
    TensorScatter = POLYCHIP_OP_TENSOR_SCATTER,
    TfIdfVectorizer = POLYCHIP_OP_TF_IDF_VECTORIZER,
    ThresholdedRelu = POLYCHIP_OP_THRESHOLDED_RELU,
    Tile = POLYCHIP_OP_TILE,
    TopK = POLYCHIP_OP_TOP_K,
    Transpose = POLYCHIP_OP_TRANSPOSE,
    Trilu = POLYCHIP_OP_TRILU,
    Unique = POLYCHIP_OP_UNIQUE,
    Unsqueeze = POLYCHIP_OP_UNSQUEEZE,
    Upsample = POLYCHIP_OP_UPSAMPLE,
    Where = POLYCHIP_OP_WHERE,
    Xor = POLYCHIP_OP_XOR,
}

impl Op {
    /// The code of this op in the plugin ABI.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The op with this code, `Custom` for zero, or `None` for a code this build does not know.
    pub fn from_code(code: u32) -> Option<Self> {
        match code.checked_sub(1) {
            None => Some(Op::Custom),
            Some(index) => Self::ALL.get(usize::try_from(index).ok()?).copied(),
        }
    }

    /// The op of the default ONNX domain with this op type; never `Custom`.
    pub fn from_name(name: &str) -> Option<Self> {
        let index = Self::ALL.binary_search_by(|op| op.name().cmp(name)).ok()?;
        Some(Self::ALL[index])
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_round_trip() {
        assert_eq!(Op::ALL.len(), 203);
        assert_eq!(Op::from_code(0), Some(Op::Custom));
        for (index, &op) in Op::ALL.iter().enumerate() {
            assert_eq!(op.code() as usize, index + 1);
            assert_eq!(Op::from_code(op.code()), Some(op));
            assert_eq!(Op::from_name(op.name()), Some(op));
        }
        assert_eq!(Op::Conv.code(), codes::POLYCHIP_OP_CONV);
        assert_eq!(Op::Xor.code(), codes::POLYCHIP_OP_XOR);
        assert_eq!(Op::from_code(204), None);
        assert_eq!(Op::from_name("Custom"), None);
        assert_eq!(Op::from_name("conv"), None);
    }
}
