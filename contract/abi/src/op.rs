//! Codes of the operators that a flat graph may name: every op of the default ONNX domain at opset
//! 28, and those of `ai.onnx.ml` that cannot be expressed in ops of the default domain.
//!
//! Invariants:
//! 1. A code never changes its meaning and is never reused: new ops are appended at the end,
//!    whatever their name, and no line is ever renumbered or removed.
//! 2. Zero is a custom op, which travels by the domain and name beside the code.
//! 3. Each constant is a plain literal, so that the generated C header stays plain. `for_each_op`
//!    at the end lists each once, in code order.
//!
//! Not here: arity, dtypes, attributes and shapes of the ops, which are in the op table of `ops`.

/// An op outside this list, identified by its domain and op type.
pub const POLYCHIP_OP_CUSTOM: u32 = 0;
/// ONNX `Abs`.
pub const POLYCHIP_OP_ABS: u32 = 1;
/// ONNX `Acos`.
pub const POLYCHIP_OP_ACOS: u32 = 2;
/// ONNX `Acosh`.
pub const POLYCHIP_OP_ACOSH: u32 = 3;
/// ONNX `Add`.
pub const POLYCHIP_OP_ADD: u32 = 4;
/// ONNX `AffineGrid`.
pub const POLYCHIP_OP_AFFINE_GRID: u32 = 5;
/// ONNX `And`.
pub const POLYCHIP_OP_AND: u32 = 6;
/// ONNX `ArgMax`.
pub const POLYCHIP_OP_ARG_MAX: u32 = 7;
/// ONNX `ArgMin`.
pub const POLYCHIP_OP_ARG_MIN: u32 = 8;
/// ONNX `Asin`.
pub const POLYCHIP_OP_ASIN: u32 = 9;
/// ONNX `Asinh`.
pub const POLYCHIP_OP_ASINH: u32 = 10;
/// ONNX `Atan`.
pub const POLYCHIP_OP_ATAN: u32 = 11;
/// ONNX `Atanh`.
pub const POLYCHIP_OP_ATANH: u32 = 12;
/// ONNX `Attention`.
pub const POLYCHIP_OP_ATTENTION: u32 = 13;
/// ONNX `AveragePool`.
pub const POLYCHIP_OP_AVERAGE_POOL: u32 = 14;
/// ONNX `BatchNormalization`.
pub const POLYCHIP_OP_BATCH_NORMALIZATION: u32 = 15;
/// ONNX `Bernoulli`.
pub const POLYCHIP_OP_BERNOULLI: u32 = 16;
/// ONNX `BitCast`.
pub const POLYCHIP_OP_BIT_CAST: u32 = 17;
/// ONNX `BitShift`.
pub const POLYCHIP_OP_BIT_SHIFT: u32 = 18;
/// ONNX `BitwiseAnd`.
pub const POLYCHIP_OP_BITWISE_AND: u32 = 19;
/// ONNX `BitwiseNot`.
pub const POLYCHIP_OP_BITWISE_NOT: u32 = 20;
/// ONNX `BitwiseOr`.
pub const POLYCHIP_OP_BITWISE_OR: u32 = 21;
/// ONNX `BitwiseXor`.
pub const POLYCHIP_OP_BITWISE_XOR: u32 = 22;
/// ONNX `BlackmanWindow`.
pub const POLYCHIP_OP_BLACKMAN_WINDOW: u32 = 23;
/// ONNX `Cast`.
pub const POLYCHIP_OP_CAST: u32 = 24;
/// ONNX `CastLike`.
pub const POLYCHIP_OP_CAST_LIKE: u32 = 25;
/// ONNX `CausalConvWithState`.
pub const POLYCHIP_OP_CAUSAL_CONV_WITH_STATE: u32 = 26;
/// ONNX `Ceil`.
pub const POLYCHIP_OP_CEIL: u32 = 27;
/// ONNX `Celu`.
pub const POLYCHIP_OP_CELU: u32 = 28;
/// ONNX `CenterCropPad`.
pub const POLYCHIP_OP_CENTER_CROP_PAD: u32 = 29;
/// ONNX `Clip`.
pub const POLYCHIP_OP_CLIP: u32 = 30;
/// ONNX `Col2Im`.
pub const POLYCHIP_OP_COL2IM: u32 = 31;
/// ONNX `Compress`.
pub const POLYCHIP_OP_COMPRESS: u32 = 32;
/// ONNX `Concat`.
pub const POLYCHIP_OP_CONCAT: u32 = 33;
/// ONNX `ConcatFromSequence`.
pub const POLYCHIP_OP_CONCAT_FROM_SEQUENCE: u32 = 34;
/// ONNX `Constant`.
pub const POLYCHIP_OP_CONSTANT: u32 = 35;
/// ONNX `ConstantOfShape`.
pub const POLYCHIP_OP_CONSTANT_OF_SHAPE: u32 = 36;
/// ONNX `Conv`.
pub const POLYCHIP_OP_CONV: u32 = 37;
/// ONNX `ConvInteger`.
pub const POLYCHIP_OP_CONV_INTEGER: u32 = 38;
/// ONNX `ConvTranspose`.
pub const POLYCHIP_OP_CONV_TRANSPOSE: u32 = 39;
/// ONNX `Cos`.
pub const POLYCHIP_OP_COS: u32 = 40;
/// ONNX `Cosh`.
pub const POLYCHIP_OP_COSH: u32 = 41;
/// ONNX `CumProd`.
pub const POLYCHIP_OP_CUM_PROD: u32 = 42;
/// ONNX `CumSum`.
pub const POLYCHIP_OP_CUM_SUM: u32 = 43;
/// ONNX `DFT`.
pub const POLYCHIP_OP_DFT: u32 = 44;
/// ONNX `DeformConv`.
pub const POLYCHIP_OP_DEFORM_CONV: u32 = 45;
/// ONNX `DepthToSpace`.
pub const POLYCHIP_OP_DEPTH_TO_SPACE: u32 = 46;
/// ONNX `DequantizeLinear`.
pub const POLYCHIP_OP_DEQUANTIZE_LINEAR: u32 = 47;
/// ONNX `Det`.
pub const POLYCHIP_OP_DET: u32 = 48;
/// ONNX `Div`.
pub const POLYCHIP_OP_DIV: u32 = 49;
/// ONNX `Dropout`.
pub const POLYCHIP_OP_DROPOUT: u32 = 50;
/// ONNX `DynamicQuantizeLinear`.
pub const POLYCHIP_OP_DYNAMIC_QUANTIZE_LINEAR: u32 = 51;
/// ONNX `Einsum`.
pub const POLYCHIP_OP_EINSUM: u32 = 52;
/// ONNX `Elu`.
pub const POLYCHIP_OP_ELU: u32 = 53;
/// ONNX `Equal`.
pub const POLYCHIP_OP_EQUAL: u32 = 54;
/// ONNX `Erf`.
pub const POLYCHIP_OP_ERF: u32 = 55;
/// ONNX `Exp`.
pub const POLYCHIP_OP_EXP: u32 = 56;
/// ONNX `Expand`.
pub const POLYCHIP_OP_EXPAND: u32 = 57;
/// ONNX `EyeLike`.
pub const POLYCHIP_OP_EYE_LIKE: u32 = 58;
/// ONNX `Flatten`.
pub const POLYCHIP_OP_FLATTEN: u32 = 59;
/// ONNX `Floor`.
pub const POLYCHIP_OP_FLOOR: u32 = 60;
/// ONNX `GRU`.
pub const POLYCHIP_OP_GRU: u32 = 61;
/// ONNX `Gather`.
pub const POLYCHIP_OP_GATHER: u32 = 62;
/// ONNX `GatherElements`.
pub const POLYCHIP_OP_GATHER_ELEMENTS: u32 = 63;
/// ONNX `GatherND`.
pub const POLYCHIP_OP_GATHER_ND: u32 = 64;
/// ONNX `Gelu`.
pub const POLYCHIP_OP_GELU: u32 = 65;
/// ONNX `Gemm`.
pub const POLYCHIP_OP_GEMM: u32 = 66;
/// ONNX `GlobalAveragePool`.
pub const POLYCHIP_OP_GLOBAL_AVERAGE_POOL: u32 = 67;
/// ONNX `GlobalLpPool`.
pub const POLYCHIP_OP_GLOBAL_LP_POOL: u32 = 68;
/// ONNX `GlobalMaxPool`.
pub const POLYCHIP_OP_GLOBAL_MAX_POOL: u32 = 69;
/// ONNX `Greater`.
pub const POLYCHIP_OP_GREATER: u32 = 70;
/// ONNX `GreaterOrEqual`.
pub const POLYCHIP_OP_GREATER_OR_EQUAL: u32 = 71;
/// ONNX `GridSample`.
pub const POLYCHIP_OP_GRID_SAMPLE: u32 = 72;
/// ONNX `GroupNormalization`.
pub const POLYCHIP_OP_GROUP_NORMALIZATION: u32 = 73;
/// ONNX `HammingWindow`.
pub const POLYCHIP_OP_HAMMING_WINDOW: u32 = 74;
/// ONNX `HannWindow`.
pub const POLYCHIP_OP_HANN_WINDOW: u32 = 75;
/// ONNX `HardSigmoid`.
pub const POLYCHIP_OP_HARD_SIGMOID: u32 = 76;
/// ONNX `HardSwish`.
pub const POLYCHIP_OP_HARD_SWISH: u32 = 77;
/// ONNX `Hardmax`.
pub const POLYCHIP_OP_HARDMAX: u32 = 78;
/// ONNX `Identity`.
pub const POLYCHIP_OP_IDENTITY: u32 = 79;
/// ONNX `If`.
pub const POLYCHIP_OP_IF: u32 = 80;
/// ONNX `ImageDecoder`.
pub const POLYCHIP_OP_IMAGE_DECODER: u32 = 81;
/// ONNX `InstanceNormalization`.
pub const POLYCHIP_OP_INSTANCE_NORMALIZATION: u32 = 82;
/// ONNX `IsInf`.
pub const POLYCHIP_OP_IS_INF: u32 = 83;
/// ONNX `IsNaN`.
pub const POLYCHIP_OP_IS_NAN: u32 = 84;
/// ONNX `LRN`.
pub const POLYCHIP_OP_LRN: u32 = 85;
/// ONNX `LSTM`.
pub const POLYCHIP_OP_LSTM: u32 = 86;
/// ONNX `LayerNormalization`.
pub const POLYCHIP_OP_LAYER_NORMALIZATION: u32 = 87;
/// ONNX `LeakyRelu`.
pub const POLYCHIP_OP_LEAKY_RELU: u32 = 88;
/// ONNX `Less`.
pub const POLYCHIP_OP_LESS: u32 = 89;
/// ONNX `LessOrEqual`.
pub const POLYCHIP_OP_LESS_OR_EQUAL: u32 = 90;
/// ONNX `LinearAttention`.
pub const POLYCHIP_OP_LINEAR_ATTENTION: u32 = 91;
/// ONNX `Log`.
pub const POLYCHIP_OP_LOG: u32 = 92;
/// ONNX `LogSoftmax`.
pub const POLYCHIP_OP_LOG_SOFTMAX: u32 = 93;
/// ONNX `Loop`.
pub const POLYCHIP_OP_LOOP: u32 = 94;
/// ONNX `LpNormalization`.
pub const POLYCHIP_OP_LP_NORMALIZATION: u32 = 95;
/// ONNX `LpPool`.
pub const POLYCHIP_OP_LP_POOL: u32 = 96;
/// ONNX `MatMul`.
pub const POLYCHIP_OP_MATMUL: u32 = 97;
/// ONNX `MatMulInteger`.
pub const POLYCHIP_OP_MATMUL_INTEGER: u32 = 98;
/// ONNX `Max`.
pub const POLYCHIP_OP_MAX: u32 = 99;
/// ONNX `MaxPool`.
pub const POLYCHIP_OP_MAX_POOL: u32 = 100;
/// ONNX `MaxRoiPool`.
pub const POLYCHIP_OP_MAX_ROI_POOL: u32 = 101;
/// ONNX `MaxUnpool`.
pub const POLYCHIP_OP_MAX_UNPOOL: u32 = 102;
/// ONNX `Mean`.
pub const POLYCHIP_OP_MEAN: u32 = 103;
/// ONNX `MeanVarianceNormalization`.
pub const POLYCHIP_OP_MEAN_VARIANCE_NORMALIZATION: u32 = 104;
/// ONNX `MelWeightMatrix`.
pub const POLYCHIP_OP_MEL_WEIGHT_MATRIX: u32 = 105;
/// ONNX `Min`.
pub const POLYCHIP_OP_MIN: u32 = 106;
/// ONNX `Mish`.
pub const POLYCHIP_OP_MISH: u32 = 107;
/// ONNX `Mod`.
pub const POLYCHIP_OP_MOD: u32 = 108;
/// ONNX `Mul`.
pub const POLYCHIP_OP_MUL: u32 = 109;
/// ONNX `Multinomial`.
pub const POLYCHIP_OP_MULTINOMIAL: u32 = 110;
/// ONNX `Neg`.
pub const POLYCHIP_OP_NEG: u32 = 111;
/// ONNX `NegativeLogLikelihoodLoss`.
pub const POLYCHIP_OP_NEGATIVE_LOG_LIKELIHOOD_LOSS: u32 = 112;
/// ONNX `NonMaxSuppression`.
pub const POLYCHIP_OP_NON_MAX_SUPPRESSION: u32 = 113;
/// ONNX `NonZero`.
pub const POLYCHIP_OP_NON_ZERO: u32 = 114;
/// ONNX `Not`.
pub const POLYCHIP_OP_NOT: u32 = 115;
/// ONNX `OneHot`.
pub const POLYCHIP_OP_ONE_HOT: u32 = 116;
/// ONNX `Optional`.
pub const POLYCHIP_OP_OPTIONAL: u32 = 117;
/// ONNX `OptionalGetElement`.
pub const POLYCHIP_OP_OPTIONAL_GET_ELEMENT: u32 = 118;
/// ONNX `OptionalHasElement`.
pub const POLYCHIP_OP_OPTIONAL_HAS_ELEMENT: u32 = 119;
/// ONNX `Or`.
pub const POLYCHIP_OP_OR: u32 = 120;
/// ONNX `PRelu`.
pub const POLYCHIP_OP_PRELU: u32 = 121;
/// ONNX `Pad`.
pub const POLYCHIP_OP_PAD: u32 = 122;
/// ONNX `Pow`.
pub const POLYCHIP_OP_POW: u32 = 123;
/// ONNX `QLinearConv`.
pub const POLYCHIP_OP_QLINEAR_CONV: u32 = 124;
/// ONNX `QLinearMatMul`.
pub const POLYCHIP_OP_QLINEAR_MATMUL: u32 = 125;
/// ONNX `QuantizeLinear`.
pub const POLYCHIP_OP_QUANTIZE_LINEAR: u32 = 126;
/// ONNX `RMSNormalization`.
pub const POLYCHIP_OP_RMS_NORMALIZATION: u32 = 127;
/// ONNX `RNN`.
pub const POLYCHIP_OP_RNN: u32 = 128;
/// ONNX `RandomNormal`.
pub const POLYCHIP_OP_RANDOM_NORMAL: u32 = 129;
/// ONNX `RandomNormalLike`.
pub const POLYCHIP_OP_RANDOM_NORMAL_LIKE: u32 = 130;
/// ONNX `RandomUniform`.
pub const POLYCHIP_OP_RANDOM_UNIFORM: u32 = 131;
/// ONNX `RandomUniformLike`.
pub const POLYCHIP_OP_RANDOM_UNIFORM_LIKE: u32 = 132;
/// ONNX `Range`.
pub const POLYCHIP_OP_RANGE: u32 = 133;
/// ONNX `Reciprocal`.
pub const POLYCHIP_OP_RECIPROCAL: u32 = 134;
/// ONNX `ReduceL1`.
pub const POLYCHIP_OP_REDUCE_L1: u32 = 135;
/// ONNX `ReduceL2`.
pub const POLYCHIP_OP_REDUCE_L2: u32 = 136;
/// ONNX `ReduceLogSum`.
pub const POLYCHIP_OP_REDUCE_LOG_SUM: u32 = 137;
/// ONNX `ReduceLogSumExp`.
pub const POLYCHIP_OP_REDUCE_LOG_SUM_EXP: u32 = 138;
/// ONNX `ReduceMax`.
pub const POLYCHIP_OP_REDUCE_MAX: u32 = 139;
/// ONNX `ReduceMean`.
pub const POLYCHIP_OP_REDUCE_MEAN: u32 = 140;
/// ONNX `ReduceMin`.
pub const POLYCHIP_OP_REDUCE_MIN: u32 = 141;
/// ONNX `ReduceProd`.
pub const POLYCHIP_OP_REDUCE_PROD: u32 = 142;
/// ONNX `ReduceSum`.
pub const POLYCHIP_OP_REDUCE_SUM: u32 = 143;
/// ONNX `ReduceSumSquare`.
pub const POLYCHIP_OP_REDUCE_SUM_SQUARE: u32 = 144;
/// ONNX `RegexFullMatch`.
pub const POLYCHIP_OP_REGEX_FULL_MATCH: u32 = 145;
/// ONNX `Relu`.
pub const POLYCHIP_OP_RELU: u32 = 146;
/// ONNX `Reshape`.
pub const POLYCHIP_OP_RESHAPE: u32 = 147;
/// ONNX `Resize`.
pub const POLYCHIP_OP_RESIZE: u32 = 148;
/// ONNX `ReverseSequence`.
pub const POLYCHIP_OP_REVERSE_SEQUENCE: u32 = 149;
/// ONNX `RoiAlign`.
pub const POLYCHIP_OP_ROI_ALIGN: u32 = 150;
/// ONNX `RotaryEmbedding`.
pub const POLYCHIP_OP_ROTARY_EMBEDDING: u32 = 151;
/// ONNX `Round`.
pub const POLYCHIP_OP_ROUND: u32 = 152;
/// ONNX `STFT`.
pub const POLYCHIP_OP_STFT: u32 = 153;
/// ONNX `Scan`.
pub const POLYCHIP_OP_SCAN: u32 = 154;
/// ONNX `Scatter`.
pub const POLYCHIP_OP_SCATTER: u32 = 155;
/// ONNX `ScatterElements`.
pub const POLYCHIP_OP_SCATTER_ELEMENTS: u32 = 156;
/// ONNX `ScatterND`.
pub const POLYCHIP_OP_SCATTER_ND: u32 = 157;
/// ONNX `Selu`.
pub const POLYCHIP_OP_SELU: u32 = 158;
/// ONNX `SequenceAt`.
pub const POLYCHIP_OP_SEQUENCE_AT: u32 = 159;
/// ONNX `SequenceConstruct`.
pub const POLYCHIP_OP_SEQUENCE_CONSTRUCT: u32 = 160;
/// ONNX `SequenceEmpty`.
pub const POLYCHIP_OP_SEQUENCE_EMPTY: u32 = 161;
/// ONNX `SequenceErase`.
pub const POLYCHIP_OP_SEQUENCE_ERASE: u32 = 162;
/// ONNX `SequenceInsert`.
pub const POLYCHIP_OP_SEQUENCE_INSERT: u32 = 163;
/// ONNX `SequenceLength`.
pub const POLYCHIP_OP_SEQUENCE_LENGTH: u32 = 164;
/// ONNX `SequenceMap`.
pub const POLYCHIP_OP_SEQUENCE_MAP: u32 = 165;
/// ONNX `Shape`.
pub const POLYCHIP_OP_SHAPE: u32 = 166;
/// ONNX `Shrink`.
pub const POLYCHIP_OP_SHRINK: u32 = 167;
/// ONNX `Sigmoid`.
pub const POLYCHIP_OP_SIGMOID: u32 = 168;
/// ONNX `Sign`.
pub const POLYCHIP_OP_SIGN: u32 = 169;
/// ONNX `Sin`.
pub const POLYCHIP_OP_SIN: u32 = 170;
/// ONNX `Sinh`.
pub const POLYCHIP_OP_SINH: u32 = 171;
/// ONNX `Size`.
pub const POLYCHIP_OP_SIZE: u32 = 172;
/// ONNX `Slice`.
pub const POLYCHIP_OP_SLICE: u32 = 173;
/// ONNX `Softmax`.
pub const POLYCHIP_OP_SOFTMAX: u32 = 174;
/// ONNX `SoftmaxCrossEntropyLoss`.
pub const POLYCHIP_OP_SOFTMAX_CROSS_ENTROPY_LOSS: u32 = 175;
/// ONNX `Softplus`.
pub const POLYCHIP_OP_SOFTPLUS: u32 = 176;
/// ONNX `Softsign`.
pub const POLYCHIP_OP_SOFTSIGN: u32 = 177;
/// ONNX `SpaceToDepth`.
pub const POLYCHIP_OP_SPACE_TO_DEPTH: u32 = 178;
/// ONNX `Split`.
pub const POLYCHIP_OP_SPLIT: u32 = 179;
/// ONNX `SplitToSequence`.
pub const POLYCHIP_OP_SPLIT_TO_SEQUENCE: u32 = 180;
/// ONNX `Sqrt`.
pub const POLYCHIP_OP_SQRT: u32 = 181;
/// ONNX `Squeeze`.
pub const POLYCHIP_OP_SQUEEZE: u32 = 182;
/// ONNX `StringConcat`.
pub const POLYCHIP_OP_STRING_CONCAT: u32 = 183;
/// ONNX `StringNormalizer`.
pub const POLYCHIP_OP_STRING_NORMALIZER: u32 = 184;
/// ONNX `StringSplit`.
pub const POLYCHIP_OP_STRING_SPLIT: u32 = 185;
/// ONNX `Sub`.
pub const POLYCHIP_OP_SUB: u32 = 186;
/// ONNX `Sum`.
pub const POLYCHIP_OP_SUM: u32 = 187;
/// ONNX `SwiGLU`.
pub const POLYCHIP_OP_SWIGLU: u32 = 188;
/// ONNX `Swish`.
pub const POLYCHIP_OP_SWISH: u32 = 189;
/// ONNX `Tan`.
pub const POLYCHIP_OP_TAN: u32 = 190;
/// ONNX `Tanh`.
pub const POLYCHIP_OP_TANH: u32 = 191;
/// ONNX `TensorScatter`.
pub const POLYCHIP_OP_TENSOR_SCATTER: u32 = 192;
/// ONNX `TfIdfVectorizer`.
pub const POLYCHIP_OP_TF_IDF_VECTORIZER: u32 = 193;
/// ONNX `ThresholdedRelu`.
pub const POLYCHIP_OP_THRESHOLDED_RELU: u32 = 194;
/// ONNX `Tile`.
pub const POLYCHIP_OP_TILE: u32 = 195;
/// ONNX `TopK`.
pub const POLYCHIP_OP_TOP_K: u32 = 196;
/// ONNX `Transpose`.
pub const POLYCHIP_OP_TRANSPOSE: u32 = 197;
/// ONNX `Trilu`.
pub const POLYCHIP_OP_TRILU: u32 = 198;
/// ONNX `Unique`.
pub const POLYCHIP_OP_UNIQUE: u32 = 199;
/// ONNX `Unsqueeze`.
pub const POLYCHIP_OP_UNSQUEEZE: u32 = 200;
/// ONNX `Upsample`.
pub const POLYCHIP_OP_UPSAMPLE: u32 = 201;
/// ONNX `Where`.
pub const POLYCHIP_OP_WHERE: u32 = 202;
/// ONNX `Xor`.
pub const POLYCHIP_OP_XOR: u32 = 203;
/// ONNX `ai.onnx.ml.LabelEncoder`.
pub const POLYCHIP_OP_LABEL_ENCODER: u32 = 204;
/// ONNX `ai.onnx.ml.TreeEnsemble`.
pub const POLYCHIP_OP_TREE_ENSEMBLE: u32 = 205;
/// ONNX `ai.onnx.ml.TreeEnsembleRegressor`.
pub const POLYCHIP_OP_TREE_ENSEMBLE_REGRESSOR: u32 = 206;

/// Calls a macro with every op but the custom one: its ONNX name and the name of its code, in the order of
/// the codes.
#[macro_export]
macro_rules! for_each_op {
    ($macro:ident) => {
        $macro! {
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
            LabelEncoder = POLYCHIP_OP_LABEL_ENCODER,
            TreeEnsemble = POLYCHIP_OP_TREE_ENSEMBLE,
            TreeEnsembleRegressor = POLYCHIP_OP_TREE_ENSEMBLE_REGRESSOR,
        }
    };
}
