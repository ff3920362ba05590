//! The attribute names by code and text: every attribute of the ops of ONNX opset 28, and
//! of the known ops of `ai.onnx.ml`.
//!
//! Invariants:
//! 1. The code of a name is its code in the plugin ABI.
//! 2. `from_code` and `from_name` undo `code` and `name`.
//!
//! Not here: the values of a node (`attributes`), types and defaults per op (`table`).

use std::fmt;
use std::sync::LazyLock;

use polychip_abi::attribute as codes;

macro_rules! attrs {
    ($($attr:ident = $code:ident $name:literal),* $(,)?) => {
        /// The name of an attribute. The variants are the ONNX names in upper camel case.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u32)]
        #[allow(missing_docs)] // each variant is the ONNX attribute of that name
        pub enum Attr {
            $($attr = codes::$code,)*
        }

        impl Attr {
            /// Every name, in the order of their codes.
            pub const ALL: &'static [Attr] = &[$(Attr::$attr),*];

            /// The ONNX name, as `axis`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Attr::$attr => $name,)*
                }
            }
        }
    };
}

attrs! {
    Activation = POLYCHIP_ATTRIBUTE_ACTIVATION "activation",
    ActivationAlpha = POLYCHIP_ATTRIBUTE_ACTIVATION_ALPHA "activation_alpha",
    ActivationBeta = POLYCHIP_ATTRIBUTE_ACTIVATION_BETA "activation_beta",
    Activations = POLYCHIP_ATTRIBUTE_ACTIVATIONS "activations",
    AlignCorners = POLYCHIP_ATTRIBUTE_ALIGN_CORNERS "align_corners",
    Allowzero = POLYCHIP_ATTRIBUTE_ALLOWZERO "allowzero",
    Alpha = POLYCHIP_ATTRIBUTE_ALPHA "alpha",
    Antialias = POLYCHIP_ATTRIBUTE_ANTIALIAS "antialias",
    Approximate = POLYCHIP_ATTRIBUTE_APPROXIMATE "approximate",
    AutoPad = POLYCHIP_ATTRIBUTE_AUTO_PAD "auto_pad",
    Axes = POLYCHIP_ATTRIBUTE_AXES "axes",
    Axis = POLYCHIP_ATTRIBUTE_AXIS "axis",
    BatchAxis = POLYCHIP_ATTRIBUTE_BATCH_AXIS "batch_axis",
    BatchDims = POLYCHIP_ATTRIBUTE_BATCH_DIMS "batch_dims",
    Beta = POLYCHIP_ATTRIBUTE_BETA "beta",
    Bias = POLYCHIP_ATTRIBUTE_BIAS "bias",
    BlockSize = POLYCHIP_ATTRIBUTE_BLOCK_SIZE "block_size",
    Blocksize = POLYCHIP_ATTRIBUTE_BLOCKSIZE "blocksize",
    Body = POLYCHIP_ATTRIBUTE_BODY "body",
    CaseChangeAction = POLYCHIP_ATTRIBUTE_CASE_CHANGE_ACTION "case_change_action",
    CeilMode = POLYCHIP_ATTRIBUTE_CEIL_MODE "ceil_mode",
    CenterPointBox = POLYCHIP_ATTRIBUTE_CENTER_POINT_BOX "center_point_box",
    ChunkSize = POLYCHIP_ATTRIBUTE_CHUNK_SIZE "chunk_size",
    Clip = POLYCHIP_ATTRIBUTE_CLIP "clip",
    CoordinateTransformationMode = POLYCHIP_ATTRIBUTE_COORDINATE_TRANSFORMATION_MODE "coordinate_transformation_mode",
    CountIncludePad = POLYCHIP_ATTRIBUTE_COUNT_INCLUDE_PAD "count_include_pad",
    CubicCoeffA = POLYCHIP_ATTRIBUTE_CUBIC_COEFF_A "cubic_coeff_a",
    Delimiter = POLYCHIP_ATTRIBUTE_DELIMITER "delimiter",
    DetectNegative = POLYCHIP_ATTRIBUTE_DETECT_NEGATIVE "detect_negative",
    DetectPositive = POLYCHIP_ATTRIBUTE_DETECT_POSITIVE "detect_positive",
    Dilations = POLYCHIP_ATTRIBUTE_DILATIONS "dilations",
    Direction = POLYCHIP_ATTRIBUTE_DIRECTION "direction",
    Dtype = POLYCHIP_ATTRIBUTE_DTYPE "dtype",
    ElseBranch = POLYCHIP_ATTRIBUTE_ELSE_BRANCH "else_branch",
    End = POLYCHIP_ATTRIBUTE_END "end",
    Epsilon = POLYCHIP_ATTRIBUTE_EPSILON "epsilon",
    Equation = POLYCHIP_ATTRIBUTE_EQUATION "equation",
    ExcludeOutside = POLYCHIP_ATTRIBUTE_EXCLUDE_OUTSIDE "exclude_outside",
    Exclusive = POLYCHIP_ATTRIBUTE_EXCLUSIVE "exclusive",
    ExtrapolationValue = POLYCHIP_ATTRIBUTE_EXTRAPOLATION_VALUE "extrapolation_value",
    Fmod = POLYCHIP_ATTRIBUTE_FMOD "fmod",
    Gamma = POLYCHIP_ATTRIBUTE_GAMMA "gamma",
    Group = POLYCHIP_ATTRIBUTE_GROUP "group",
    HiddenSize = POLYCHIP_ATTRIBUTE_HIDDEN_SIZE "hidden_size",
    High = POLYCHIP_ATTRIBUTE_HIGH "high",
    IgnoreIndex = POLYCHIP_ATTRIBUTE_IGNORE_INDEX "ignore_index",
    InputForget = POLYCHIP_ATTRIBUTE_INPUT_FORGET "input_forget",
    Interleaved = POLYCHIP_ATTRIBUTE_INTERLEAVED "interleaved",
    Inverse = POLYCHIP_ATTRIBUTE_INVERSE "inverse",
    IsCaseSensitive = POLYCHIP_ATTRIBUTE_IS_CASE_SENSITIVE "is_case_sensitive",
    IsCausal = POLYCHIP_ATTRIBUTE_IS_CAUSAL "is_causal",
    K = POLYCHIP_ATTRIBUTE_K "k",
    KeepAspectRatioPolicy = POLYCHIP_ATTRIBUTE_KEEP_ASPECT_RATIO_POLICY "keep_aspect_ratio_policy",
    Keepdims = POLYCHIP_ATTRIBUTE_KEEPDIMS "keepdims",
    KernelShape = POLYCHIP_ATTRIBUTE_KERNEL_SHAPE "kernel_shape",
    KvNumHeads = POLYCHIP_ATTRIBUTE_KV_NUM_HEADS "kv_num_heads",
    Lambd = POLYCHIP_ATTRIBUTE_LAMBD "lambd",
    Largest = POLYCHIP_ATTRIBUTE_LARGEST "largest",
    Layout = POLYCHIP_ATTRIBUTE_LAYOUT "layout",
    LeftWindowSize = POLYCHIP_ATTRIBUTE_LEFT_WINDOW_SIZE "left_window_size",
    LinearBeforeReset = POLYCHIP_ATTRIBUTE_LINEAR_BEFORE_RESET "linear_before_reset",
    Locale = POLYCHIP_ATTRIBUTE_LOCALE "locale",
    Low = POLYCHIP_ATTRIBUTE_LOW "low",
    MaxGramLength = POLYCHIP_ATTRIBUTE_MAX_GRAM_LENGTH "max_gram_length",
    MaxSkipCount = POLYCHIP_ATTRIBUTE_MAX_SKIP_COUNT "max_skip_count",
    Maxsplit = POLYCHIP_ATTRIBUTE_MAXSPLIT "maxsplit",
    Mean = POLYCHIP_ATTRIBUTE_MEAN "mean",
    MinGramLength = POLYCHIP_ATTRIBUTE_MIN_GRAM_LENGTH "min_gram_length",
    Mode = POLYCHIP_ATTRIBUTE_MODE "mode",
    Momentum = POLYCHIP_ATTRIBUTE_MOMENTUM "momentum",
    NearestMode = POLYCHIP_ATTRIBUTE_NEAREST_MODE "nearest_mode",
    NewAxis = POLYCHIP_ATTRIBUTE_NEW_AXIS "new_axis",
    NgramCounts = POLYCHIP_ATTRIBUTE_NGRAM_COUNTS "ngram_counts",
    NgramIndexes = POLYCHIP_ATTRIBUTE_NGRAM_INDEXES "ngram_indexes",
    NoopWithEmptyAxes = POLYCHIP_ATTRIBUTE_NOOP_WITH_EMPTY_AXES "noop_with_empty_axes",
    NumGroups = POLYCHIP_ATTRIBUTE_NUM_GROUPS "num_groups",
    NumHeads = POLYCHIP_ATTRIBUTE_NUM_HEADS "num_heads",
    NumOutputs = POLYCHIP_ATTRIBUTE_NUM_OUTPUTS "num_outputs",
    NumScanInputs = POLYCHIP_ATTRIBUTE_NUM_SCAN_INPUTS "num_scan_inputs",
    OffsetGroup = POLYCHIP_ATTRIBUTE_OFFSET_GROUP "offset_group",
    Onesided = POLYCHIP_ATTRIBUTE_ONESIDED "onesided",
    OutputDatatype = POLYCHIP_ATTRIBUTE_OUTPUT_DATATYPE "output_datatype",
    OutputDtype = POLYCHIP_ATTRIBUTE_OUTPUT_DTYPE "output_dtype",
    OutputHeight = POLYCHIP_ATTRIBUTE_OUTPUT_HEIGHT "output_height",
    OutputPadding = POLYCHIP_ATTRIBUTE_OUTPUT_PADDING "output_padding",
    OutputShape = POLYCHIP_ATTRIBUTE_OUTPUT_SHAPE "output_shape",
    OutputWidth = POLYCHIP_ATTRIBUTE_OUTPUT_WIDTH "output_width",
    P = POLYCHIP_ATTRIBUTE_P "p",
    PaddingMode = POLYCHIP_ATTRIBUTE_PADDING_MODE "padding_mode",
    Pads = POLYCHIP_ATTRIBUTE_PADS "pads",
    Pattern = POLYCHIP_ATTRIBUTE_PATTERN "pattern",
    Periodic = POLYCHIP_ATTRIBUTE_PERIODIC "periodic",
    Perm = POLYCHIP_ATTRIBUTE_PERM "perm",
    PixelFormat = POLYCHIP_ATTRIBUTE_PIXEL_FORMAT "pixel_format",
    PoolInt64s = POLYCHIP_ATTRIBUTE_POOL_INT64S "pool_int64s",
    PoolStrings = POLYCHIP_ATTRIBUTE_POOL_STRINGS "pool_strings",
    PooledShape = POLYCHIP_ATTRIBUTE_POOLED_SHAPE "pooled_shape",
    Precision = POLYCHIP_ATTRIBUTE_PRECISION "precision",
    QNumHeads = POLYCHIP_ATTRIBUTE_Q_NUM_HEADS "q_num_heads",
    QkMatmulOutputMode = POLYCHIP_ATTRIBUTE_QK_MATMUL_OUTPUT_MODE "qk_matmul_output_mode",
    Reduction = POLYCHIP_ATTRIBUTE_REDUCTION "reduction",
    Reverse = POLYCHIP_ATTRIBUTE_REVERSE "reverse",
    RightWindowSize = POLYCHIP_ATTRIBUTE_RIGHT_WINDOW_SIZE "right_window_size",
    RotaryEmbeddingDim = POLYCHIP_ATTRIBUTE_ROTARY_EMBEDDING_DIM "rotary_embedding_dim",
    RoundMode = POLYCHIP_ATTRIBUTE_ROUND_MODE "round_mode",
    SampleSize = POLYCHIP_ATTRIBUTE_SAMPLE_SIZE "sample_size",
    SamplingRatio = POLYCHIP_ATTRIBUTE_SAMPLING_RATIO "sampling_ratio",
    Saturate = POLYCHIP_ATTRIBUTE_SATURATE "saturate",
    Scale = POLYCHIP_ATTRIBUTE_SCALE "scale",
    ScanInputAxes = POLYCHIP_ATTRIBUTE_SCAN_INPUT_AXES "scan_input_axes",
    ScanInputDirections = POLYCHIP_ATTRIBUTE_SCAN_INPUT_DIRECTIONS "scan_input_directions",
    ScanOutputAxes = POLYCHIP_ATTRIBUTE_SCAN_OUTPUT_AXES "scan_output_axes",
    ScanOutputDirections = POLYCHIP_ATTRIBUTE_SCAN_OUTPUT_DIRECTIONS "scan_output_directions",
    Seed = POLYCHIP_ATTRIBUTE_SEED "seed",
    SelectLastIndex = POLYCHIP_ATTRIBUTE_SELECT_LAST_INDEX "select_last_index",
    Shape = POLYCHIP_ATTRIBUTE_SHAPE "shape",
    Size = POLYCHIP_ATTRIBUTE_SIZE "size",
    Softcap = POLYCHIP_ATTRIBUTE_SOFTCAP "softcap",
    SoftmaxPrecision = POLYCHIP_ATTRIBUTE_SOFTMAX_PRECISION "softmax_precision",
    Sorted = POLYCHIP_ATTRIBUTE_SORTED "sorted",
    SparseValue = POLYCHIP_ATTRIBUTE_SPARSE_VALUE "sparse_value",
    SpatialScale = POLYCHIP_ATTRIBUTE_SPATIAL_SCALE "spatial_scale",
    Start = POLYCHIP_ATTRIBUTE_START "start",
    StashType = POLYCHIP_ATTRIBUTE_STASH_TYPE "stash_type",
    Stopwords = POLYCHIP_ATTRIBUTE_STOPWORDS "stopwords",
    StorageOrder = POLYCHIP_ATTRIBUTE_STORAGE_ORDER "storage_order",
    Strides = POLYCHIP_ATTRIBUTE_STRIDES "strides",
    ThenBranch = POLYCHIP_ATTRIBUTE_THEN_BRANCH "then_branch",
    TimeAxis = POLYCHIP_ATTRIBUTE_TIME_AXIS "time_axis",
    To = POLYCHIP_ATTRIBUTE_TO "to",
    TrainingMode = POLYCHIP_ATTRIBUTE_TRAINING_MODE "training_mode",
    TransA = POLYCHIP_ATTRIBUTE_TRANS_A "transA",
    TransB = POLYCHIP_ATTRIBUTE_TRANS_B "transB",
    Type = POLYCHIP_ATTRIBUTE_TYPE "type",
    UpdateRule = POLYCHIP_ATTRIBUTE_UPDATE_RULE "update_rule",
    Upper = POLYCHIP_ATTRIBUTE_UPPER "upper",
    Value = POLYCHIP_ATTRIBUTE_VALUE "value",
    ValueFloat = POLYCHIP_ATTRIBUTE_VALUE_FLOAT "value_float",
    ValueFloats = POLYCHIP_ATTRIBUTE_VALUE_FLOATS "value_floats",
    ValueInt = POLYCHIP_ATTRIBUTE_VALUE_INT "value_int",
    ValueInts = POLYCHIP_ATTRIBUTE_VALUE_INTS "value_ints",
    ValueString = POLYCHIP_ATTRIBUTE_VALUE_STRING "value_string",
    ValueStrings = POLYCHIP_ATTRIBUTE_VALUE_STRINGS "value_strings",
    Weights = POLYCHIP_ATTRIBUTE_WEIGHTS "weights",
    AggregateFunction = POLYCHIP_ATTRIBUTE_AGGREGATE_FUNCTION "aggregate_function",
    BaseValues = POLYCHIP_ATTRIBUTE_BASE_VALUES "base_values",
    BaseValuesAsTensor = POLYCHIP_ATTRIBUTE_BASE_VALUES_AS_TENSOR "base_values_as_tensor",
    DefaultTensor = POLYCHIP_ATTRIBUTE_DEFAULT_TENSOR "default_tensor",
    KeysTensor = POLYCHIP_ATTRIBUTE_KEYS_TENSOR "keys_tensor",
    LeafTargetids = POLYCHIP_ATTRIBUTE_LEAF_TARGETIDS "leaf_targetids",
    LeafWeights = POLYCHIP_ATTRIBUTE_LEAF_WEIGHTS "leaf_weights",
    MembershipValues = POLYCHIP_ATTRIBUTE_MEMBERSHIP_VALUES "membership_values",
    NTargets = POLYCHIP_ATTRIBUTE_N_TARGETS "n_targets",
    NodesFalseleafs = POLYCHIP_ATTRIBUTE_NODES_FALSELEAFS "nodes_falseleafs",
    NodesFalsenodeids = POLYCHIP_ATTRIBUTE_NODES_FALSENODEIDS "nodes_falsenodeids",
    NodesFeatureids = POLYCHIP_ATTRIBUTE_NODES_FEATUREIDS "nodes_featureids",
    NodesMissingValueTracksTrue = POLYCHIP_ATTRIBUTE_NODES_MISSING_VALUE_TRACKS_TRUE "nodes_missing_value_tracks_true",
    NodesModes = POLYCHIP_ATTRIBUTE_NODES_MODES "nodes_modes",
    NodesNodeids = POLYCHIP_ATTRIBUTE_NODES_NODEIDS "nodes_nodeids",
    NodesSplits = POLYCHIP_ATTRIBUTE_NODES_SPLITS "nodes_splits",
    NodesTreeids = POLYCHIP_ATTRIBUTE_NODES_TREEIDS "nodes_treeids",
    NodesTrueleafs = POLYCHIP_ATTRIBUTE_NODES_TRUELEAFS "nodes_trueleafs",
    NodesTruenodeids = POLYCHIP_ATTRIBUTE_NODES_TRUENODEIDS "nodes_truenodeids",
    NodesValues = POLYCHIP_ATTRIBUTE_NODES_VALUES "nodes_values",
    NodesValuesAsTensor = POLYCHIP_ATTRIBUTE_NODES_VALUES_AS_TENSOR "nodes_values_as_tensor",
    PostTransform = POLYCHIP_ATTRIBUTE_POST_TRANSFORM "post_transform",
    TargetIds = POLYCHIP_ATTRIBUTE_TARGET_IDS "target_ids",
    TargetNodeids = POLYCHIP_ATTRIBUTE_TARGET_NODEIDS "target_nodeids",
    TargetTreeids = POLYCHIP_ATTRIBUTE_TARGET_TREEIDS "target_treeids",
    TargetWeights = POLYCHIP_ATTRIBUTE_TARGET_WEIGHTS "target_weights",
    TargetWeightsAsTensor = POLYCHIP_ATTRIBUTE_TARGET_WEIGHTS_AS_TENSOR "target_weights_as_tensor",
    TreeRoots = POLYCHIP_ATTRIBUTE_TREE_ROOTS "tree_roots",
    ValuesTensor = POLYCHIP_ATTRIBUTE_VALUES_TENSOR "values_tensor",
}

/// Every attribute by name: those that later opsets add stand at the end of the codes.
static BY_NAME: LazyLock<Vec<Attr>> = LazyLock::new(|| {
    let mut names = Attr::ALL.to_vec();
    names.sort_by_key(|attr| attr.name());
    names
});

impl Attr {
    /// The code of this name in the plugin ABI, never zero.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The name with this code, or `None` for a code this build does not know.
    pub fn from_code(code: u32) -> Option<Self> {
        let index = usize::try_from(code.checked_sub(1)?).ok()?;
        Self::ALL.get(index).copied()
    }

    /// The attribute with this ONNX name.
    pub fn from_name(name: &str) -> Option<Self> {
        let by_name = &*BY_NAME;
        let index = by_name.binary_search_by(|attr| attr.name().cmp(name)).ok()?;
        Some(by_name[index])
    }
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_round_trip() {
        for (index, &attr) in Attr::ALL.iter().enumerate() {
            assert_eq!(attr.code() as usize, index + 1);
            assert_eq!(Attr::from_code(attr.code()), Some(attr));
            assert_eq!(Attr::from_name(attr.name()), Some(attr));
        }
        assert_eq!(Attr::TransA.name(), "transA");
        assert_eq!(Attr::Weights.code(), codes::POLYCHIP_ATTRIBUTE_WEIGHTS);
        assert_eq!(Attr::from_code(0), None);
        assert_eq!(Attr::from_code(Attr::ALL.len() as u32 + 1), None);
        assert_eq!(Attr::from_name("nothing"), None);
    }
}
