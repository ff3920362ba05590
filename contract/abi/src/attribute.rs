//! Codes of the attribute names that a flat graph may carry: every attribute of the ops in `op`.
//!
//! Invariants:
//! 1. A code never changes its meaning and is never reused: new names are appended at the end, and
//!    no line is ever renumbered or removed.
//! 2. Zero is an attribute outside this list, which travels by the name beside the code.
//! 3. A code identifies a name only; its type and default depend on the op that carries it.
//!
//! Not here: the attributes of each op, which are in the op table of `ops`.

/// An attribute outside this list, identified by its name.
pub const POLYCHIP_ATTRIBUTE_CUSTOM: u32 = 0;
/// The attribute `activation`.
pub const POLYCHIP_ATTRIBUTE_ACTIVATION: u32 = 1;
/// The attribute `activation_alpha`.
pub const POLYCHIP_ATTRIBUTE_ACTIVATION_ALPHA: u32 = 2;
/// The attribute `activation_beta`.
pub const POLYCHIP_ATTRIBUTE_ACTIVATION_BETA: u32 = 3;
/// The attribute `activations`.
pub const POLYCHIP_ATTRIBUTE_ACTIVATIONS: u32 = 4;
/// The attribute `align_corners`.
pub const POLYCHIP_ATTRIBUTE_ALIGN_CORNERS: u32 = 5;
/// The attribute `allowzero`.
pub const POLYCHIP_ATTRIBUTE_ALLOWZERO: u32 = 6;
/// The attribute `alpha`.
pub const POLYCHIP_ATTRIBUTE_ALPHA: u32 = 7;
/// The attribute `antialias`.
pub const POLYCHIP_ATTRIBUTE_ANTIALIAS: u32 = 8;
/// The attribute `approximate`.
pub const POLYCHIP_ATTRIBUTE_APPROXIMATE: u32 = 9;
/// The attribute `auto_pad`.
pub const POLYCHIP_ATTRIBUTE_AUTO_PAD: u32 = 10;
/// The attribute `axes`.
pub const POLYCHIP_ATTRIBUTE_AXES: u32 = 11;
/// The attribute `axis`.
pub const POLYCHIP_ATTRIBUTE_AXIS: u32 = 12;
/// The attribute `batch_axis`.
pub const POLYCHIP_ATTRIBUTE_BATCH_AXIS: u32 = 13;
/// The attribute `batch_dims`.
pub const POLYCHIP_ATTRIBUTE_BATCH_DIMS: u32 = 14;
/// The attribute `beta`.
pub const POLYCHIP_ATTRIBUTE_BETA: u32 = 15;
/// The attribute `bias`.
pub const POLYCHIP_ATTRIBUTE_BIAS: u32 = 16;
/// The attribute `block_size`.
pub const POLYCHIP_ATTRIBUTE_BLOCK_SIZE: u32 = 17;
/// The attribute `blocksize`.
pub const POLYCHIP_ATTRIBUTE_BLOCKSIZE: u32 = 18;
/// The attribute `body`.
pub const POLYCHIP_ATTRIBUTE_BODY: u32 = 19;
/// The attribute `case_change_action`.
pub const POLYCHIP_ATTRIBUTE_CASE_CHANGE_ACTION: u32 = 20;
/// The attribute `ceil_mode`.
pub const POLYCHIP_ATTRIBUTE_CEIL_MODE: u32 = 21;
/// The attribute `center_point_box`.
pub const POLYCHIP_ATTRIBUTE_CENTER_POINT_BOX: u32 = 22;
/// The attribute `chunk_size`.
pub const POLYCHIP_ATTRIBUTE_CHUNK_SIZE: u32 = 23;
/// The attribute `clip`.
pub const POLYCHIP_ATTRIBUTE_CLIP: u32 = 24;
/// The attribute `coordinate_transformation_mode`.
pub const POLYCHIP_ATTRIBUTE_COORDINATE_TRANSFORMATION_MODE: u32 = 25;
/// The attribute `count_include_pad`.
pub const POLYCHIP_ATTRIBUTE_COUNT_INCLUDE_PAD: u32 = 26;
/// The attribute `cubic_coeff_a`.
pub const POLYCHIP_ATTRIBUTE_CUBIC_COEFF_A: u32 = 27;
/// The attribute `delimiter`.
pub const POLYCHIP_ATTRIBUTE_DELIMITER: u32 = 28;
/// The attribute `detect_negative`.
pub const POLYCHIP_ATTRIBUTE_DETECT_NEGATIVE: u32 = 29;
/// The attribute `detect_positive`.
pub const POLYCHIP_ATTRIBUTE_DETECT_POSITIVE: u32 = 30;
/// The attribute `dilations`.
pub const POLYCHIP_ATTRIBUTE_DILATIONS: u32 = 31;
/// The attribute `direction`.
pub const POLYCHIP_ATTRIBUTE_DIRECTION: u32 = 32;
/// The attribute `dtype`.
pub const POLYCHIP_ATTRIBUTE_DTYPE: u32 = 33;
/// The attribute `else_branch`.
pub const POLYCHIP_ATTRIBUTE_ELSE_BRANCH: u32 = 34;
/// The attribute `end`.
pub const POLYCHIP_ATTRIBUTE_END: u32 = 35;
/// The attribute `epsilon`.
pub const POLYCHIP_ATTRIBUTE_EPSILON: u32 = 36;
/// The attribute `equation`.
pub const POLYCHIP_ATTRIBUTE_EQUATION: u32 = 37;
/// The attribute `exclude_outside`.
pub const POLYCHIP_ATTRIBUTE_EXCLUDE_OUTSIDE: u32 = 38;
/// The attribute `exclusive`.
pub const POLYCHIP_ATTRIBUTE_EXCLUSIVE: u32 = 39;
/// The attribute `extrapolation_value`.
pub const POLYCHIP_ATTRIBUTE_EXTRAPOLATION_VALUE: u32 = 40;
/// The attribute `fmod`.
pub const POLYCHIP_ATTRIBUTE_FMOD: u32 = 41;
/// The attribute `gamma`.
pub const POLYCHIP_ATTRIBUTE_GAMMA: u32 = 42;
/// The attribute `group`.
pub const POLYCHIP_ATTRIBUTE_GROUP: u32 = 43;
/// The attribute `hidden_size`.
pub const POLYCHIP_ATTRIBUTE_HIDDEN_SIZE: u32 = 44;
/// The attribute `high`.
pub const POLYCHIP_ATTRIBUTE_HIGH: u32 = 45;
/// The attribute `ignore_index`.
pub const POLYCHIP_ATTRIBUTE_IGNORE_INDEX: u32 = 46;
/// The attribute `input_forget`.
pub const POLYCHIP_ATTRIBUTE_INPUT_FORGET: u32 = 47;
/// The attribute `interleaved`.
pub const POLYCHIP_ATTRIBUTE_INTERLEAVED: u32 = 48;
/// The attribute `inverse`.
pub const POLYCHIP_ATTRIBUTE_INVERSE: u32 = 49;
/// The attribute `is_case_sensitive`.
pub const POLYCHIP_ATTRIBUTE_IS_CASE_SENSITIVE: u32 = 50;
/// The attribute `is_causal`.
pub const POLYCHIP_ATTRIBUTE_IS_CAUSAL: u32 = 51;
/// The attribute `k`.
pub const POLYCHIP_ATTRIBUTE_K: u32 = 52;
/// The attribute `keep_aspect_ratio_policy`.
pub const POLYCHIP_ATTRIBUTE_KEEP_ASPECT_RATIO_POLICY: u32 = 53;
/// The attribute `keepdims`.
pub const POLYCHIP_ATTRIBUTE_KEEPDIMS: u32 = 54;
/// The attribute `kernel_shape`.
pub const POLYCHIP_ATTRIBUTE_KERNEL_SHAPE: u32 = 55;
/// The attribute `kv_num_heads`.
pub const POLYCHIP_ATTRIBUTE_KV_NUM_HEADS: u32 = 56;
/// The attribute `lambd`.
pub const POLYCHIP_ATTRIBUTE_LAMBD: u32 = 57;
/// The attribute `largest`.
pub const POLYCHIP_ATTRIBUTE_LARGEST: u32 = 58;
/// The attribute `layout`.
pub const POLYCHIP_ATTRIBUTE_LAYOUT: u32 = 59;
/// The attribute `left_window_size`.
pub const POLYCHIP_ATTRIBUTE_LEFT_WINDOW_SIZE: u32 = 60;
/// The attribute `linear_before_reset`.
pub const POLYCHIP_ATTRIBUTE_LINEAR_BEFORE_RESET: u32 = 61;
/// The attribute `locale`.
pub const POLYCHIP_ATTRIBUTE_LOCALE: u32 = 62;
/// The attribute `low`.
pub const POLYCHIP_ATTRIBUTE_LOW: u32 = 63;
/// The attribute `max_gram_length`.
pub const POLYCHIP_ATTRIBUTE_MAX_GRAM_LENGTH: u32 = 64;
/// The attribute `max_skip_count`.
pub const POLYCHIP_ATTRIBUTE_MAX_SKIP_COUNT: u32 = 65;
/// The attribute `maxsplit`.
pub const POLYCHIP_ATTRIBUTE_MAXSPLIT: u32 = 66;
/// The attribute `mean`.
pub const POLYCHIP_ATTRIBUTE_MEAN: u32 = 67;
/// The attribute `min_gram_length`.
pub const POLYCHIP_ATTRIBUTE_MIN_GRAM_LENGTH: u32 = 68;
/// The attribute `mode`.
pub const POLYCHIP_ATTRIBUTE_MODE: u32 = 69;
/// The attribute `momentum`.
pub const POLYCHIP_ATTRIBUTE_MOMENTUM: u32 = 70;
/// The attribute `nearest_mode`.
pub const POLYCHIP_ATTRIBUTE_NEAREST_MODE: u32 = 71;
/// The attribute `new_axis`.
pub const POLYCHIP_ATTRIBUTE_NEW_AXIS: u32 = 72;
/// The attribute `ngram_counts`.
pub const POLYCHIP_ATTRIBUTE_NGRAM_COUNTS: u32 = 73;
/// The attribute `ngram_indexes`.
pub const POLYCHIP_ATTRIBUTE_NGRAM_INDEXES: u32 = 74;
/// The attribute `noop_with_empty_axes`.
pub const POLYCHIP_ATTRIBUTE_NOOP_WITH_EMPTY_AXES: u32 = 75;
/// The attribute `num_groups`.
pub const POLYCHIP_ATTRIBUTE_NUM_GROUPS: u32 = 76;
/// The attribute `num_heads`.
pub const POLYCHIP_ATTRIBUTE_NUM_HEADS: u32 = 77;
/// The attribute `num_outputs`.
pub const POLYCHIP_ATTRIBUTE_NUM_OUTPUTS: u32 = 78;
/// The attribute `num_scan_inputs`.
pub const POLYCHIP_ATTRIBUTE_NUM_SCAN_INPUTS: u32 = 79;
/// The attribute `offset_group`.
pub const POLYCHIP_ATTRIBUTE_OFFSET_GROUP: u32 = 80;
/// The attribute `onesided`.
pub const POLYCHIP_ATTRIBUTE_ONESIDED: u32 = 81;
/// The attribute `output_datatype`.
pub const POLYCHIP_ATTRIBUTE_OUTPUT_DATATYPE: u32 = 82;
/// The attribute `output_dtype`.
pub const POLYCHIP_ATTRIBUTE_OUTPUT_DTYPE: u32 = 83;
/// The attribute `output_height`.
pub const POLYCHIP_ATTRIBUTE_OUTPUT_HEIGHT: u32 = 84;
/// The attribute `output_padding`.
pub const POLYCHIP_ATTRIBUTE_OUTPUT_PADDING: u32 = 85;
/// The attribute `output_shape`.
pub const POLYCHIP_ATTRIBUTE_OUTPUT_SHAPE: u32 = 86;
/// The attribute `output_width`.
pub const POLYCHIP_ATTRIBUTE_OUTPUT_WIDTH: u32 = 87;
/// The attribute `p`.
pub const POLYCHIP_ATTRIBUTE_P: u32 = 88;
/// The attribute `padding_mode`.
pub const POLYCHIP_ATTRIBUTE_PADDING_MODE: u32 = 89;
/// The attribute `pads`.
pub const POLYCHIP_ATTRIBUTE_PADS: u32 = 90;
/// The attribute `pattern`.
pub const POLYCHIP_ATTRIBUTE_PATTERN: u32 = 91;
/// The attribute `periodic`.
pub const POLYCHIP_ATTRIBUTE_PERIODIC: u32 = 92;
/// The attribute `perm`.
pub const POLYCHIP_ATTRIBUTE_PERM: u32 = 93;
/// The attribute `pixel_format`.
pub const POLYCHIP_ATTRIBUTE_PIXEL_FORMAT: u32 = 94;
/// The attribute `pool_int64s`.
pub const POLYCHIP_ATTRIBUTE_POOL_INT64S: u32 = 95;
/// The attribute `pool_strings`.
pub const POLYCHIP_ATTRIBUTE_POOL_STRINGS: u32 = 96;
/// The attribute `pooled_shape`.
pub const POLYCHIP_ATTRIBUTE_POOLED_SHAPE: u32 = 97;
/// The attribute `precision`.
pub const POLYCHIP_ATTRIBUTE_PRECISION: u32 = 98;
/// The attribute `q_num_heads`.
pub const POLYCHIP_ATTRIBUTE_Q_NUM_HEADS: u32 = 99;
/// The attribute `qk_matmul_output_mode`.
pub const POLYCHIP_ATTRIBUTE_QK_MATMUL_OUTPUT_MODE: u32 = 100;
/// The attribute `reduction`.
pub const POLYCHIP_ATTRIBUTE_REDUCTION: u32 = 101;
/// The attribute `reverse`.
pub const POLYCHIP_ATTRIBUTE_REVERSE: u32 = 102;
/// The attribute `right_window_size`.
pub const POLYCHIP_ATTRIBUTE_RIGHT_WINDOW_SIZE: u32 = 103;
/// The attribute `rotary_embedding_dim`.
pub const POLYCHIP_ATTRIBUTE_ROTARY_EMBEDDING_DIM: u32 = 104;
/// The attribute `round_mode`.
pub const POLYCHIP_ATTRIBUTE_ROUND_MODE: u32 = 105;
/// The attribute `sample_size`.
pub const POLYCHIP_ATTRIBUTE_SAMPLE_SIZE: u32 = 106;
/// The attribute `sampling_ratio`.
pub const POLYCHIP_ATTRIBUTE_SAMPLING_RATIO: u32 = 107;
/// The attribute `saturate`.
pub const POLYCHIP_ATTRIBUTE_SATURATE: u32 = 108;
/// The attribute `scale`.
pub const POLYCHIP_ATTRIBUTE_SCALE: u32 = 109;
/// The attribute `scan_input_axes`.
pub const POLYCHIP_ATTRIBUTE_SCAN_INPUT_AXES: u32 = 110;
/// The attribute `scan_input_directions`.
pub const POLYCHIP_ATTRIBUTE_SCAN_INPUT_DIRECTIONS: u32 = 111;
/// The attribute `scan_output_axes`.
pub const POLYCHIP_ATTRIBUTE_SCAN_OUTPUT_AXES: u32 = 112;
/// The attribute `scan_output_directions`.
pub const POLYCHIP_ATTRIBUTE_SCAN_OUTPUT_DIRECTIONS: u32 = 113;
/// The attribute `seed`.
pub const POLYCHIP_ATTRIBUTE_SEED: u32 = 114;
/// The attribute `select_last_index`.
pub const POLYCHIP_ATTRIBUTE_SELECT_LAST_INDEX: u32 = 115;
/// The attribute `shape`.
pub const POLYCHIP_ATTRIBUTE_SHAPE: u32 = 116;
/// The attribute `size`.
pub const POLYCHIP_ATTRIBUTE_SIZE: u32 = 117;
/// The attribute `softcap`.
pub const POLYCHIP_ATTRIBUTE_SOFTCAP: u32 = 118;
/// The attribute `softmax_precision`.
pub const POLYCHIP_ATTRIBUTE_SOFTMAX_PRECISION: u32 = 119;
/// The attribute `sorted`.
pub const POLYCHIP_ATTRIBUTE_SORTED: u32 = 120;
/// The attribute `sparse_value`.
pub const POLYCHIP_ATTRIBUTE_SPARSE_VALUE: u32 = 121;
/// The attribute `spatial_scale`.
pub const POLYCHIP_ATTRIBUTE_SPATIAL_SCALE: u32 = 122;
/// The attribute `start`.
pub const POLYCHIP_ATTRIBUTE_START: u32 = 123;
/// The attribute `stash_type`.
pub const POLYCHIP_ATTRIBUTE_STASH_TYPE: u32 = 124;
/// The attribute `stopwords`.
pub const POLYCHIP_ATTRIBUTE_STOPWORDS: u32 = 125;
/// The attribute `storage_order`.
pub const POLYCHIP_ATTRIBUTE_STORAGE_ORDER: u32 = 126;
/// The attribute `strides`.
pub const POLYCHIP_ATTRIBUTE_STRIDES: u32 = 127;
/// The attribute `then_branch`.
pub const POLYCHIP_ATTRIBUTE_THEN_BRANCH: u32 = 128;
/// The attribute `time_axis`.
pub const POLYCHIP_ATTRIBUTE_TIME_AXIS: u32 = 129;
/// The attribute `to`.
pub const POLYCHIP_ATTRIBUTE_TO: u32 = 130;
/// The attribute `training_mode`.
pub const POLYCHIP_ATTRIBUTE_TRAINING_MODE: u32 = 131;
/// The attribute `transA`.
pub const POLYCHIP_ATTRIBUTE_TRANS_A: u32 = 132;
/// The attribute `transB`.
pub const POLYCHIP_ATTRIBUTE_TRANS_B: u32 = 133;
/// The attribute `type`.
pub const POLYCHIP_ATTRIBUTE_TYPE: u32 = 134;
/// The attribute `update_rule`.
pub const POLYCHIP_ATTRIBUTE_UPDATE_RULE: u32 = 135;
/// The attribute `upper`.
pub const POLYCHIP_ATTRIBUTE_UPPER: u32 = 136;
/// The attribute `value`.
pub const POLYCHIP_ATTRIBUTE_VALUE: u32 = 137;
/// The attribute `value_float`.
pub const POLYCHIP_ATTRIBUTE_VALUE_FLOAT: u32 = 138;
/// The attribute `value_floats`.
pub const POLYCHIP_ATTRIBUTE_VALUE_FLOATS: u32 = 139;
/// The attribute `value_int`.
pub const POLYCHIP_ATTRIBUTE_VALUE_INT: u32 = 140;
/// The attribute `value_ints`.
pub const POLYCHIP_ATTRIBUTE_VALUE_INTS: u32 = 141;
/// The attribute `value_string`.
pub const POLYCHIP_ATTRIBUTE_VALUE_STRING: u32 = 142;
/// The attribute `value_strings`.
pub const POLYCHIP_ATTRIBUTE_VALUE_STRINGS: u32 = 143;
/// The attribute `weights`.
pub const POLYCHIP_ATTRIBUTE_WEIGHTS: u32 = 144;
/// The attribute `aggregate_function`.
pub const POLYCHIP_ATTRIBUTE_AGGREGATE_FUNCTION: u32 = 145;
/// The attribute `base_values`.
pub const POLYCHIP_ATTRIBUTE_BASE_VALUES: u32 = 146;
/// The attribute `base_values_as_tensor`.
pub const POLYCHIP_ATTRIBUTE_BASE_VALUES_AS_TENSOR: u32 = 147;
/// The attribute `default_tensor`.
pub const POLYCHIP_ATTRIBUTE_DEFAULT_TENSOR: u32 = 148;
/// The attribute `keys_tensor`.
pub const POLYCHIP_ATTRIBUTE_KEYS_TENSOR: u32 = 149;
/// The attribute `leaf_targetids`.
pub const POLYCHIP_ATTRIBUTE_LEAF_TARGETIDS: u32 = 150;
/// The attribute `leaf_weights`.
pub const POLYCHIP_ATTRIBUTE_LEAF_WEIGHTS: u32 = 151;
/// The attribute `membership_values`.
pub const POLYCHIP_ATTRIBUTE_MEMBERSHIP_VALUES: u32 = 152;
/// The attribute `n_targets`.
pub const POLYCHIP_ATTRIBUTE_N_TARGETS: u32 = 153;
/// The attribute `nodes_falseleafs`.
pub const POLYCHIP_ATTRIBUTE_NODES_FALSELEAFS: u32 = 154;
/// The attribute `nodes_falsenodeids`.
pub const POLYCHIP_ATTRIBUTE_NODES_FALSENODEIDS: u32 = 155;
/// The attribute `nodes_featureids`.
pub const POLYCHIP_ATTRIBUTE_NODES_FEATUREIDS: u32 = 156;
/// The attribute `nodes_missing_value_tracks_true`.
pub const POLYCHIP_ATTRIBUTE_NODES_MISSING_VALUE_TRACKS_TRUE: u32 = 157;
/// The attribute `nodes_modes`.
pub const POLYCHIP_ATTRIBUTE_NODES_MODES: u32 = 158;
/// The attribute `nodes_nodeids`.
pub const POLYCHIP_ATTRIBUTE_NODES_NODEIDS: u32 = 159;
/// The attribute `nodes_splits`.
pub const POLYCHIP_ATTRIBUTE_NODES_SPLITS: u32 = 160;
/// The attribute `nodes_treeids`.
pub const POLYCHIP_ATTRIBUTE_NODES_TREEIDS: u32 = 161;
/// The attribute `nodes_trueleafs`.
pub const POLYCHIP_ATTRIBUTE_NODES_TRUELEAFS: u32 = 162;
/// The attribute `nodes_truenodeids`.
pub const POLYCHIP_ATTRIBUTE_NODES_TRUENODEIDS: u32 = 163;
/// The attribute `nodes_values`.
pub const POLYCHIP_ATTRIBUTE_NODES_VALUES: u32 = 164;
/// The attribute `nodes_values_as_tensor`.
pub const POLYCHIP_ATTRIBUTE_NODES_VALUES_AS_TENSOR: u32 = 165;
/// The attribute `post_transform`.
pub const POLYCHIP_ATTRIBUTE_POST_TRANSFORM: u32 = 166;
/// The attribute `target_ids`.
pub const POLYCHIP_ATTRIBUTE_TARGET_IDS: u32 = 167;
/// The attribute `target_nodeids`.
pub const POLYCHIP_ATTRIBUTE_TARGET_NODEIDS: u32 = 168;
/// The attribute `target_treeids`.
pub const POLYCHIP_ATTRIBUTE_TARGET_TREEIDS: u32 = 169;
/// The attribute `target_weights`.
pub const POLYCHIP_ATTRIBUTE_TARGET_WEIGHTS: u32 = 170;
/// The attribute `target_weights_as_tensor`.
pub const POLYCHIP_ATTRIBUTE_TARGET_WEIGHTS_AS_TENSOR: u32 = 171;
/// The attribute `tree_roots`.
pub const POLYCHIP_ATTRIBUTE_TREE_ROOTS: u32 = 172;
/// The attribute `values_tensor`.
pub const POLYCHIP_ATTRIBUTE_VALUES_TENSOR: u32 = 173;
