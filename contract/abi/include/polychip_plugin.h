/* The plugin contract of Polychip. A plugin is a shared library named libpolychip_plugin_NAME.so with the one
 * export that is declared first. docs/adding-a-plugin.md is the guide, with a plugin in C.
 *
 * Rules for every call; the comment of a call says what differs.
 *
 * 1. Status. A call that returns uint32_t returns a POLYCHIP_STATUS_*. It writes its results (`out_...`) only with
 *    POLYCHIP_STATUS_OK; after anything else the host reads none of them.
 * 2. Errors. `error` may be null. A call that fails fills the record: the status that it returns, the vendor's
 *    code, the node and tensor or port concerned or POLYCHIP_NO_INDEX, words. A call that succeeds leaves it alone.
 * 3. Null. Handles and other pointers are not null unless their comment says so; a plugin answers null with
 *    POLYCHIP_STATUS_BAD_ARGUMENT. Beside a count or length of 0 a pointer may be null and is not followed.
 * 4. Sizes. A struct that begins with `struct_size` grows at its end with later minor versions. Whoever makes or
 *    owns it sets the size, also of a record to be filled in; the other side reads or writes only the bytes that
 *    both know, leaves `struct_size` alone, and takes what it was not given as absent. A size that ends inside a
 *    field is refused with POLYCHIP_STATUS_BAD_ARGUMENT; one below the struct of version 1.0, which nobody sends,
 *    may be. Arrays of such structs are stepped through by their stride. Structs without the field never grow.
 * 5. Threads. Calls come from any thread. "Thread-safe" calls come from several threads at once, on one object
 *    too. Any other call comes on one object from one thread at a time, while others use other objects of the same
 *    device. Nothing is destroyed while another thread makes a call with it. The host's services are thread-safe.
 * 6. Life. Arguments are valid during the call. What a result points to lives as long as the object that it came
 *    from. Children are destroyed before parents: fences, executables, buffers and blobs before their device,
 *    devices before their instance. Who makes an object or a block of memory destroys it; the other side never does.
 * 7. Nothing unwinds out of a call or into one: C++ catches everything at each entry.
 * 8. Codes and bits that a plugin does not know come from a later minor version: it refuses the node, the memory or
 *    the call in words, and ignores hints (priorities, groups, layouts wanted). Fields that say "Zero" are written
 *    as 0 and not read.
 */

#ifndef POLYCHIP_PLUGIN_H
#define POLYCHIP_PLUGIN_H

/* Made by cbindgen from contract/abi: `cargo xtask header`. Do not edit. */

#include <stdint.h>
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif

/* The one export of a plugin, called before anything else. Pure: loads nothing, returns a static table, or null for
 * another major version than the plugin's own. The host's minor version may be lower or higher: both sides keep to
 * the common prefix. Visible also in a library that is built with -fvisibility=hidden. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct polychip_plugin_table *polychip_plugin_query(uint32_t host_major, uint32_t host_minor);

#ifdef __cplusplus
}
#endif


// An attribute outside this list, named by its text.
#define POLYCHIP_ATTRIBUTE_CUSTOM 0

// The attribute `activation`.
#define POLYCHIP_ATTRIBUTE_ACTIVATION 1

// The attribute `activation_alpha`.
#define POLYCHIP_ATTRIBUTE_ACTIVATION_ALPHA 2

// The attribute `activation_beta`.
#define POLYCHIP_ATTRIBUTE_ACTIVATION_BETA 3

// The attribute `activations`.
#define POLYCHIP_ATTRIBUTE_ACTIVATIONS 4

// The attribute `align_corners`.
#define POLYCHIP_ATTRIBUTE_ALIGN_CORNERS 5

// The attribute `allowzero`.
#define POLYCHIP_ATTRIBUTE_ALLOWZERO 6

// The attribute `alpha`.
#define POLYCHIP_ATTRIBUTE_ALPHA 7

// The attribute `antialias`.
#define POLYCHIP_ATTRIBUTE_ANTIALIAS 8

// The attribute `approximate`.
#define POLYCHIP_ATTRIBUTE_APPROXIMATE 9

// The attribute `auto_pad`.
#define POLYCHIP_ATTRIBUTE_AUTO_PAD 10

// The attribute `axes`.
#define POLYCHIP_ATTRIBUTE_AXES 11

// The attribute `axis`.
#define POLYCHIP_ATTRIBUTE_AXIS 12

// The attribute `batch_axis`.
#define POLYCHIP_ATTRIBUTE_BATCH_AXIS 13

// The attribute `batch_dims`.
#define POLYCHIP_ATTRIBUTE_BATCH_DIMS 14

// The attribute `beta`.
#define POLYCHIP_ATTRIBUTE_BETA 15

// The attribute `bias`.
#define POLYCHIP_ATTRIBUTE_BIAS 16

// The attribute `block_size`.
#define POLYCHIP_ATTRIBUTE_BLOCK_SIZE 17

// The attribute `blocksize`.
#define POLYCHIP_ATTRIBUTE_BLOCKSIZE 18

// The attribute `body`.
#define POLYCHIP_ATTRIBUTE_BODY 19

// The attribute `case_change_action`.
#define POLYCHIP_ATTRIBUTE_CASE_CHANGE_ACTION 20

// The attribute `ceil_mode`.
#define POLYCHIP_ATTRIBUTE_CEIL_MODE 21

// The attribute `center_point_box`.
#define POLYCHIP_ATTRIBUTE_CENTER_POINT_BOX 22

// The attribute `chunk_size`.
#define POLYCHIP_ATTRIBUTE_CHUNK_SIZE 23

// The attribute `clip`.
#define POLYCHIP_ATTRIBUTE_CLIP 24

// The attribute `coordinate_transformation_mode`.
#define POLYCHIP_ATTRIBUTE_COORDINATE_TRANSFORMATION_MODE 25

// The attribute `count_include_pad`.
#define POLYCHIP_ATTRIBUTE_COUNT_INCLUDE_PAD 26

// The attribute `cubic_coeff_a`.
#define POLYCHIP_ATTRIBUTE_CUBIC_COEFF_A 27

// The attribute `delimiter`.
#define POLYCHIP_ATTRIBUTE_DELIMITER 28

// The attribute `detect_negative`.
#define POLYCHIP_ATTRIBUTE_DETECT_NEGATIVE 29

// The attribute `detect_positive`.
#define POLYCHIP_ATTRIBUTE_DETECT_POSITIVE 30

// The attribute `dilations`.
#define POLYCHIP_ATTRIBUTE_DILATIONS 31

// The attribute `direction`.
#define POLYCHIP_ATTRIBUTE_DIRECTION 32

// The attribute `dtype`.
#define POLYCHIP_ATTRIBUTE_DTYPE 33

// The attribute `else_branch`.
#define POLYCHIP_ATTRIBUTE_ELSE_BRANCH 34

// The attribute `end`.
#define POLYCHIP_ATTRIBUTE_END 35

// The attribute `epsilon`.
#define POLYCHIP_ATTRIBUTE_EPSILON 36

// The attribute `equation`.
#define POLYCHIP_ATTRIBUTE_EQUATION 37

// The attribute `exclude_outside`.
#define POLYCHIP_ATTRIBUTE_EXCLUDE_OUTSIDE 38

// The attribute `exclusive`.
#define POLYCHIP_ATTRIBUTE_EXCLUSIVE 39

// The attribute `extrapolation_value`.
#define POLYCHIP_ATTRIBUTE_EXTRAPOLATION_VALUE 40

// The attribute `fmod`.
#define POLYCHIP_ATTRIBUTE_FMOD 41

// The attribute `gamma`.
#define POLYCHIP_ATTRIBUTE_GAMMA 42

// The attribute `group`.
#define POLYCHIP_ATTRIBUTE_GROUP 43

// The attribute `hidden_size`.
#define POLYCHIP_ATTRIBUTE_HIDDEN_SIZE 44

// The attribute `high`.
#define POLYCHIP_ATTRIBUTE_HIGH 45

// The attribute `ignore_index`.
#define POLYCHIP_ATTRIBUTE_IGNORE_INDEX 46

// The attribute `input_forget`.
#define POLYCHIP_ATTRIBUTE_INPUT_FORGET 47

// The attribute `interleaved`.
#define POLYCHIP_ATTRIBUTE_INTERLEAVED 48

// The attribute `inverse`.
#define POLYCHIP_ATTRIBUTE_INVERSE 49

// The attribute `is_case_sensitive`.
#define POLYCHIP_ATTRIBUTE_IS_CASE_SENSITIVE 50

// The attribute `is_causal`.
#define POLYCHIP_ATTRIBUTE_IS_CAUSAL 51

// The attribute `k`.
#define POLYCHIP_ATTRIBUTE_K 52

// The attribute `keep_aspect_ratio_policy`.
#define POLYCHIP_ATTRIBUTE_KEEP_ASPECT_RATIO_POLICY 53

// The attribute `keepdims`.
#define POLYCHIP_ATTRIBUTE_KEEPDIMS 54

// The attribute `kernel_shape`.
#define POLYCHIP_ATTRIBUTE_KERNEL_SHAPE 55

// The attribute `kv_num_heads`.
#define POLYCHIP_ATTRIBUTE_KV_NUM_HEADS 56

// The attribute `lambd`.
#define POLYCHIP_ATTRIBUTE_LAMBD 57

// The attribute `largest`.
#define POLYCHIP_ATTRIBUTE_LARGEST 58

// The attribute `layout`.
#define POLYCHIP_ATTRIBUTE_LAYOUT 59

// The attribute `left_window_size`.
#define POLYCHIP_ATTRIBUTE_LEFT_WINDOW_SIZE 60

// The attribute `linear_before_reset`.
#define POLYCHIP_ATTRIBUTE_LINEAR_BEFORE_RESET 61

// The attribute `locale`.
#define POLYCHIP_ATTRIBUTE_LOCALE 62

// The attribute `low`.
#define POLYCHIP_ATTRIBUTE_LOW 63

// The attribute `max_gram_length`.
#define POLYCHIP_ATTRIBUTE_MAX_GRAM_LENGTH 64

// The attribute `max_skip_count`.
#define POLYCHIP_ATTRIBUTE_MAX_SKIP_COUNT 65

// The attribute `maxsplit`.
#define POLYCHIP_ATTRIBUTE_MAXSPLIT 66

// The attribute `mean`.
#define POLYCHIP_ATTRIBUTE_MEAN 67

// The attribute `min_gram_length`.
#define POLYCHIP_ATTRIBUTE_MIN_GRAM_LENGTH 68

// The attribute `mode`.
#define POLYCHIP_ATTRIBUTE_MODE 69

// The attribute `momentum`.
#define POLYCHIP_ATTRIBUTE_MOMENTUM 70

// The attribute `nearest_mode`.
#define POLYCHIP_ATTRIBUTE_NEAREST_MODE 71

// The attribute `new_axis`.
#define POLYCHIP_ATTRIBUTE_NEW_AXIS 72

// The attribute `ngram_counts`.
#define POLYCHIP_ATTRIBUTE_NGRAM_COUNTS 73

// The attribute `ngram_indexes`.
#define POLYCHIP_ATTRIBUTE_NGRAM_INDEXES 74

// The attribute `noop_with_empty_axes`.
#define POLYCHIP_ATTRIBUTE_NOOP_WITH_EMPTY_AXES 75

// The attribute `num_groups`.
#define POLYCHIP_ATTRIBUTE_NUM_GROUPS 76

// The attribute `num_heads`.
#define POLYCHIP_ATTRIBUTE_NUM_HEADS 77

// The attribute `num_outputs`.
#define POLYCHIP_ATTRIBUTE_NUM_OUTPUTS 78

// The attribute `num_scan_inputs`.
#define POLYCHIP_ATTRIBUTE_NUM_SCAN_INPUTS 79

// The attribute `offset_group`.
#define POLYCHIP_ATTRIBUTE_OFFSET_GROUP 80

// The attribute `onesided`.
#define POLYCHIP_ATTRIBUTE_ONESIDED 81

// The attribute `output_datatype`.
#define POLYCHIP_ATTRIBUTE_OUTPUT_DATATYPE 82

// The attribute `output_dtype`.
#define POLYCHIP_ATTRIBUTE_OUTPUT_DTYPE 83

// The attribute `output_height`.
#define POLYCHIP_ATTRIBUTE_OUTPUT_HEIGHT 84

// The attribute `output_padding`.
#define POLYCHIP_ATTRIBUTE_OUTPUT_PADDING 85

// The attribute `output_shape`.
#define POLYCHIP_ATTRIBUTE_OUTPUT_SHAPE 86

// The attribute `output_width`.
#define POLYCHIP_ATTRIBUTE_OUTPUT_WIDTH 87

// The attribute `p`.
#define POLYCHIP_ATTRIBUTE_P 88

// The attribute `padding_mode`.
#define POLYCHIP_ATTRIBUTE_PADDING_MODE 89

// The attribute `pads`.
#define POLYCHIP_ATTRIBUTE_PADS 90

// The attribute `pattern`.
#define POLYCHIP_ATTRIBUTE_PATTERN 91

// The attribute `periodic`.
#define POLYCHIP_ATTRIBUTE_PERIODIC 92

// The attribute `perm`.
#define POLYCHIP_ATTRIBUTE_PERM 93

// The attribute `pixel_format`.
#define POLYCHIP_ATTRIBUTE_PIXEL_FORMAT 94

// The attribute `pool_int64s`.
#define POLYCHIP_ATTRIBUTE_POOL_INT64S 95

// The attribute `pool_strings`.
#define POLYCHIP_ATTRIBUTE_POOL_STRINGS 96

// The attribute `pooled_shape`.
#define POLYCHIP_ATTRIBUTE_POOLED_SHAPE 97

// The attribute `precision`.
#define POLYCHIP_ATTRIBUTE_PRECISION 98

// The attribute `q_num_heads`.
#define POLYCHIP_ATTRIBUTE_Q_NUM_HEADS 99

// The attribute `qk_matmul_output_mode`.
#define POLYCHIP_ATTRIBUTE_QK_MATMUL_OUTPUT_MODE 100

// The attribute `reduction`.
#define POLYCHIP_ATTRIBUTE_REDUCTION 101

// The attribute `reverse`.
#define POLYCHIP_ATTRIBUTE_REVERSE 102

// The attribute `right_window_size`.
#define POLYCHIP_ATTRIBUTE_RIGHT_WINDOW_SIZE 103

// The attribute `rotary_embedding_dim`.
#define POLYCHIP_ATTRIBUTE_ROTARY_EMBEDDING_DIM 104

// The attribute `round_mode`.
#define POLYCHIP_ATTRIBUTE_ROUND_MODE 105

// The attribute `sample_size`.
#define POLYCHIP_ATTRIBUTE_SAMPLE_SIZE 106

// The attribute `sampling_ratio`.
#define POLYCHIP_ATTRIBUTE_SAMPLING_RATIO 107

// The attribute `saturate`.
#define POLYCHIP_ATTRIBUTE_SATURATE 108

// The attribute `scale`.
#define POLYCHIP_ATTRIBUTE_SCALE 109

// The attribute `scan_input_axes`.
#define POLYCHIP_ATTRIBUTE_SCAN_INPUT_AXES 110

// The attribute `scan_input_directions`.
#define POLYCHIP_ATTRIBUTE_SCAN_INPUT_DIRECTIONS 111

// The attribute `scan_output_axes`.
#define POLYCHIP_ATTRIBUTE_SCAN_OUTPUT_AXES 112

// The attribute `scan_output_directions`.
#define POLYCHIP_ATTRIBUTE_SCAN_OUTPUT_DIRECTIONS 113

// The attribute `seed`.
#define POLYCHIP_ATTRIBUTE_SEED 114

// The attribute `select_last_index`.
#define POLYCHIP_ATTRIBUTE_SELECT_LAST_INDEX 115

// The attribute `shape`.
#define POLYCHIP_ATTRIBUTE_SHAPE 116

// The attribute `size`.
#define POLYCHIP_ATTRIBUTE_SIZE 117

// The attribute `softcap`.
#define POLYCHIP_ATTRIBUTE_SOFTCAP 118

// The attribute `softmax_precision`.
#define POLYCHIP_ATTRIBUTE_SOFTMAX_PRECISION 119

// The attribute `sorted`.
#define POLYCHIP_ATTRIBUTE_SORTED 120

// The attribute `sparse_value`.
#define POLYCHIP_ATTRIBUTE_SPARSE_VALUE 121

// The attribute `spatial_scale`.
#define POLYCHIP_ATTRIBUTE_SPATIAL_SCALE 122

// The attribute `start`.
#define POLYCHIP_ATTRIBUTE_START 123

// The attribute `stash_type`.
#define POLYCHIP_ATTRIBUTE_STASH_TYPE 124

// The attribute `stopwords`.
#define POLYCHIP_ATTRIBUTE_STOPWORDS 125

// The attribute `storage_order`.
#define POLYCHIP_ATTRIBUTE_STORAGE_ORDER 126

// The attribute `strides`.
#define POLYCHIP_ATTRIBUTE_STRIDES 127

// The attribute `then_branch`.
#define POLYCHIP_ATTRIBUTE_THEN_BRANCH 128

// The attribute `time_axis`.
#define POLYCHIP_ATTRIBUTE_TIME_AXIS 129

// The attribute `to`.
#define POLYCHIP_ATTRIBUTE_TO 130

// The attribute `training_mode`.
#define POLYCHIP_ATTRIBUTE_TRAINING_MODE 131

// The attribute `transA`.
#define POLYCHIP_ATTRIBUTE_TRANS_A 132

// The attribute `transB`.
#define POLYCHIP_ATTRIBUTE_TRANS_B 133

// The attribute `type`.
#define POLYCHIP_ATTRIBUTE_TYPE 134

// The attribute `update_rule`.
#define POLYCHIP_ATTRIBUTE_UPDATE_RULE 135

// The attribute `upper`.
#define POLYCHIP_ATTRIBUTE_UPPER 136

// The attribute `value`.
#define POLYCHIP_ATTRIBUTE_VALUE 137

// The attribute `value_float`.
#define POLYCHIP_ATTRIBUTE_VALUE_FLOAT 138

// The attribute `value_floats`.
#define POLYCHIP_ATTRIBUTE_VALUE_FLOATS 139

// The attribute `value_int`.
#define POLYCHIP_ATTRIBUTE_VALUE_INT 140

// The attribute `value_ints`.
#define POLYCHIP_ATTRIBUTE_VALUE_INTS 141

// The attribute `value_string`.
#define POLYCHIP_ATTRIBUTE_VALUE_STRING 142

// The attribute `value_strings`.
#define POLYCHIP_ATTRIBUTE_VALUE_STRINGS 143

// The attribute `weights`.
#define POLYCHIP_ATTRIBUTE_WEIGHTS 144

// The attribute `aggregate_function`.
#define POLYCHIP_ATTRIBUTE_AGGREGATE_FUNCTION 145

// The attribute `base_values`.
#define POLYCHIP_ATTRIBUTE_BASE_VALUES 146

// The attribute `base_values_as_tensor`.
#define POLYCHIP_ATTRIBUTE_BASE_VALUES_AS_TENSOR 147

// The attribute `default_tensor`.
#define POLYCHIP_ATTRIBUTE_DEFAULT_TENSOR 148

// The attribute `keys_tensor`.
#define POLYCHIP_ATTRIBUTE_KEYS_TENSOR 149

// The attribute `leaf_targetids`.
#define POLYCHIP_ATTRIBUTE_LEAF_TARGETIDS 150

// The attribute `leaf_weights`.
#define POLYCHIP_ATTRIBUTE_LEAF_WEIGHTS 151

// The attribute `membership_values`.
#define POLYCHIP_ATTRIBUTE_MEMBERSHIP_VALUES 152

// The attribute `n_targets`.
#define POLYCHIP_ATTRIBUTE_N_TARGETS 153

// The attribute `nodes_falseleafs`.
#define POLYCHIP_ATTRIBUTE_NODES_FALSELEAFS 154

// The attribute `nodes_falsenodeids`.
#define POLYCHIP_ATTRIBUTE_NODES_FALSENODEIDS 155

// The attribute `nodes_featureids`.
#define POLYCHIP_ATTRIBUTE_NODES_FEATUREIDS 156

// The attribute `nodes_missing_value_tracks_true`.
#define POLYCHIP_ATTRIBUTE_NODES_MISSING_VALUE_TRACKS_TRUE 157

// The attribute `nodes_modes`.
#define POLYCHIP_ATTRIBUTE_NODES_MODES 158

// The attribute `nodes_nodeids`.
#define POLYCHIP_ATTRIBUTE_NODES_NODEIDS 159

// The attribute `nodes_splits`.
#define POLYCHIP_ATTRIBUTE_NODES_SPLITS 160

// The attribute `nodes_treeids`.
#define POLYCHIP_ATTRIBUTE_NODES_TREEIDS 161

// The attribute `nodes_trueleafs`.
#define POLYCHIP_ATTRIBUTE_NODES_TRUELEAFS 162

// The attribute `nodes_truenodeids`.
#define POLYCHIP_ATTRIBUTE_NODES_TRUENODEIDS 163

// The attribute `nodes_values`.
#define POLYCHIP_ATTRIBUTE_NODES_VALUES 164

// The attribute `nodes_values_as_tensor`.
#define POLYCHIP_ATTRIBUTE_NODES_VALUES_AS_TENSOR 165

// The attribute `post_transform`.
#define POLYCHIP_ATTRIBUTE_POST_TRANSFORM 166

// The attribute `target_ids`.
#define POLYCHIP_ATTRIBUTE_TARGET_IDS 167

// The attribute `target_nodeids`.
#define POLYCHIP_ATTRIBUTE_TARGET_NODEIDS 168

// The attribute `target_treeids`.
#define POLYCHIP_ATTRIBUTE_TARGET_TREEIDS 169

// The attribute `target_weights`.
#define POLYCHIP_ATTRIBUTE_TARGET_WEIGHTS 170

// The attribute `target_weights_as_tensor`.
#define POLYCHIP_ATTRIBUTE_TARGET_WEIGHTS_AS_TENSOR 171

// The attribute `tree_roots`.
#define POLYCHIP_ATTRIBUTE_TREE_ROOTS 172

// The attribute `values_tensor`.
#define POLYCHIP_ATTRIBUTE_VALUES_TENSOR 173

// Plain host memory.
#define POLYCHIP_MEMORY_HOST 0

// An anonymous memory file (`memfd_create`).
#define POLYCHIP_MEMORY_MEMFD 1

// A Linux dma-buf.
#define POLYCHIP_MEMORY_DMA_BUF 2

// An Android `AHardwareBuffer`.
#define POLYCHIP_MEMORY_HARDWARE_BUFFER 3

// An Apple `IOSurface`.
#define POLYCHIP_MEMORY_IO_SURFACE 4

// The vendor's own memory; only the same plugin binds it.
#define POLYCHIP_MEMORY_VENDOR 5

// The host will read.
#define POLYCHIP_ACCESS_READ 1

// The host will write. Without `POLYCHIP_ACCESS_READ` it writes the whole range.
#define POLYCHIP_ACCESS_WRITE 2

// Compute as the model says.
#define POLYCHIP_PRECISION_EXACT 0

// The device may compute f32 in a 16-bit float type.
#define POLYCHIP_PRECISION_REDUCED 1

// `time_ns` holds a value.
#define POLYCHIP_COST_TIME 1

// `launch_ns` holds a value.
#define POLYCHIP_COST_LAUNCH 2

// `energy_uj` holds a value.
#define POLYCHIP_COST_ENERGY 4

// `power_mw` holds a value.
#define POLYCHIP_COST_POWER 8

// `memory_bytes` holds a value.
#define POLYCHIP_COST_MEMORY 16

// `error_permille` holds a value.
#define POLYCHIP_COST_ERROR 32

// The figures come from an emulated device.
#define POLYCHIP_COST_EMULATED 1

// A general-purpose processor.
#define POLYCHIP_DEVICE_CPU 1

// A graphics processor.
#define POLYCHIP_DEVICE_GPU 2

// A processor for neural networks.
#define POLYCHIP_DEVICE_NPU 3

// A digital signal processor.
#define POLYCHIP_DEVICE_DSP 4

// The device is emulated: its figures are not a real chip's.
#define POLYCHIP_DEVICE_EMULATED 1

// Runs use host memory that was imported in place, without a copy anywhere.
#define POLYCHIP_DEVICE_SHARES_HOST_MEMORY 2

// Runs of the device end one after the other, in the order of their `execute`.
#define POLYCHIP_DEVICE_SERIAL 4

// It is not known whether a part that the device has begun gives way to a more urgent one.
#define POLYCHIP_PREEMPTION_UNKNOWN 0

// A part that the device has begun runs to its end.
#define POLYCHIP_PREEMPTION_NONE 1

// A part that the device has begun gives way to a more urgent one between two of its commands.
#define POLYCHIP_PREEMPTION_COMMANDS 2

// A part that the device has begun gives way to a more urgent one at any time.
#define POLYCHIP_PREEMPTION_ANY_TIME 3

// No element type is known.
#define POLYCHIP_DTYPE_UNDEFINED 0

// ONNX `float`: 32-bit IEEE float.
#define POLYCHIP_DTYPE_F32 1

// ONNX `uint8`: unsigned 8-bit integer.
#define POLYCHIP_DTYPE_U8 2

// ONNX `int8`: signed 8-bit integer.
#define POLYCHIP_DTYPE_I8 3

// ONNX `uint16`: unsigned 16-bit integer.
#define POLYCHIP_DTYPE_U16 4

// ONNX `int16`: signed 16-bit integer.
#define POLYCHIP_DTYPE_I16 5

// ONNX `int32`: signed 32-bit integer.
#define POLYCHIP_DTYPE_I32 6

// ONNX `int64`: signed 64-bit integer.
#define POLYCHIP_DTYPE_I64 7

// ONNX `string`: text, one UTF-8 string per element.
#define POLYCHIP_DTYPE_STRING 8

// ONNX `bool`: truth value, one byte of 0 or 1.
#define POLYCHIP_DTYPE_BOOL 9

// ONNX `float16`: 16-bit IEEE float.
#define POLYCHIP_DTYPE_F16 10

// ONNX `double`: 64-bit IEEE float.
#define POLYCHIP_DTYPE_F64 11

// ONNX `uint32`: unsigned 32-bit integer.
#define POLYCHIP_DTYPE_U32 12

// ONNX `uint64`: unsigned 64-bit integer.
#define POLYCHIP_DTYPE_U64 13

// ONNX `complex64`: complex number of two 32-bit floats.
#define POLYCHIP_DTYPE_C64 14

// ONNX `complex128`: complex number of two 64-bit floats.
#define POLYCHIP_DTYPE_C128 15

// ONNX `bfloat16`: 16-bit float with the exponent range of 32-bit floats.
#define POLYCHIP_DTYPE_BF16 16

// ONNX `float8e4m3fn`: 8-bit float, 4 exponent bits, finite values and NaN only.
#define POLYCHIP_DTYPE_F8E4M3FN 17

// ONNX `float8e4m3fnuz`: 8-bit float, 4 exponent bits, finite values, NaN and one zero.
#define POLYCHIP_DTYPE_F8E4M3FNUZ 18

// ONNX `float8e5m2`: 8-bit float, 5 exponent bits.
#define POLYCHIP_DTYPE_F8E5M2 19

// ONNX `float8e5m2fnuz`: 8-bit float, 5 exponent bits, finite values, NaN and one zero.
#define POLYCHIP_DTYPE_F8E5M2FNUZ 20

// ONNX `uint4`: unsigned 4-bit integer, two per byte, low half first.
#define POLYCHIP_DTYPE_U4 21

// ONNX `int4`: signed 4-bit integer, two per byte, low half first.
#define POLYCHIP_DTYPE_I4 22

// ONNX `float4e2m1`: 4-bit float, two per byte, low half first.
#define POLYCHIP_DTYPE_F4E2M1 23

// ONNX `float8e8m0`: 8-bit power-of-two scale without sign.
#define POLYCHIP_DTYPE_F8E8M0 24

// ONNX `uint2`: unsigned 2-bit integer, four per byte, low bits first.
#define POLYCHIP_DTYPE_U2 25

// ONNX `int2`: signed 2-bit integer, four per byte, low bits first.
#define POLYCHIP_DTYPE_I2 26

// ONNX `float6e2m3`: 6-bit float, 2 exponent bits.
#define POLYCHIP_DTYPE_F6E2M3 27

// ONNX `float6e3m2`: 6-bit float, 3 exponent bits.
#define POLYCHIP_DTYPE_F6E3M2 28

// One scale and zero point for the whole tensor.
#define POLYCHIP_ENCODING_PER_TENSOR 1

// One scale and zero point per index of `axis`.
#define POLYCHIP_ENCODING_PER_AXIS 2

// One scale and zero point per block of `block_size` elements along `axis`; the arrays are in
// row-major order of the tensor's shape with `axis` divided by `block_size`, rounded up.
#define POLYCHIP_ENCODING_PER_BLOCK 3

// Blocks that hold their scales beside their values, laid out as `block_layout` says, along the last axis, whose extent is
// a multiple of the values of a block. Of constants only: `data` is whole blocks, `dtype` is `POLYCHIP_DTYPE_U8`, `dims`
// count values and not bytes, and there are no scales and zero points. Where precision may be
// reduced, a product with such a constant may round the values that it multiplies to 8 bits, each 32 neighbours of the axis
// by a scale of their own. A device that does not know the layout refuses the nodes that read it. Since 1.2.
#define POLYCHIP_ENCODING_BLOCKS 4

// 18 bytes of 32 values: f16 scale `d`; 16 bytes, whose low halves `q` are values 0 to 15 and whose high halves are values
// 16 to 31. Value: (q - 8) d. This layout and the others are ggml's, numbers are little-endian.
#define POLYCHIP_BLOCKS_Q4_0 1

// 20 bytes of 32 values: f16 `d`, f16 `m`, 16 bytes as in Q4_0. Value: q d + m.
#define POLYCHIP_BLOCKS_Q4_1 2

// 34 bytes of 32 values: f16 `d`, 32 signed bytes `q`. Value: q d.
#define POLYCHIP_BLOCKS_Q8_0 3

// 144 bytes of 256 values in 8 groups: f16 `d`, f16 `dmin`, 12 bytes with a scale `s` and a minimum `m` of 6 bits per group
// (of group g < 4: the low 6 bits of bytes g and g + 4; of others: the low and the high half of byte g + 4, above them the
// two high bits of bytes g - 4 and g), 128 bytes: 32 for two groups each, low halves the first one's. Value: q d s - dmin m.
#define POLYCHIP_BLOCKS_Q4_K 4

// 176 bytes of 256 values: as Q4_K, with 32 bytes before the last 128: bit g of byte i is the fifth bit of value i of group g.
#define POLYCHIP_BLOCKS_Q5_K 5

// 210 bytes of 256 values: 128 bytes of low halves (64 for 128 values each: low halves first), 64 bytes of two high bits (32
// for 128 values each: bits 2k and 2k + 1 of byte i belong to value 32 k + i), 16 signed scales `s` of 16 values each, f16
// `d`. Value: (q - 32) d s.
#define POLYCHIP_BLOCKS_Q6_K 6

// The call did what was asked.
#define POLYCHIP_STATUS_OK 0

// An argument breaks the contract; the same call will fail again.
#define POLYCHIP_STATUS_BAD_ARGUMENT 1

// The device cannot do this; another device may.
#define POLYCHIP_STATUS_UNSUPPORTED 2

// A passing fault; the same call may succeed later.
#define POLYCHIP_STATUS_TRANSIENT 3

// The device failed and will fail again with this executable.
#define POLYCHIP_STATUS_PERSISTENT 4

// The device is gone until it is reset or opened anew.
#define POLYCHIP_STATUS_DEVICE_LOST 5

// The run was cancelled on request.
#define POLYCHIP_STATUS_CANCELLED 6

// A wait ran out of time; the work goes on.
#define POLYCHIP_STATUS_TIMEOUT 7

// Host or device memory ran out.
#define POLYCHIP_STATUS_OUT_OF_MEMORY 8

// A blob is torn, stale or made by another build.
#define POLYCHIP_STATUS_BAD_BLOB 9

// No node or tensor is concerned.
#define POLYCHIP_NO_INDEX UINT32_MAX

// Bytes of message that an error record holds.
#define POLYCHIP_ERROR_MESSAGE_BYTES 992

// A frame that someone waits for.
#define POLYCHIP_PRIORITY_URGENT 2

// The usual.
#define POLYCHIP_PRIORITY_NORMAL 1

// Work that nobody waits for.
#define POLYCHIP_PRIORITY_BATCH 0

// Since 1.2. The device measures every step of the run (`fence_steps`), where it can.
#define POLYCHIP_SUBMIT_STEPS 1

// No deadline.
#define POLYCHIP_NO_DEADLINE UINT64_MAX

// `start_ns` and `end_ns` hold values.
#define POLYCHIP_TIMING_SPAN 1

// `queued_ns` holds a value.
#define POLYCHIP_TIMING_QUEUED 2

// `energy_uj` holds a value.
#define POLYCHIP_TIMING_ENERGY 4

// `copied_bytes` holds a value.
#define POLYCHIP_TIMING_COPIED 8

// `data` points to `i64` values.
#define POLYCHIP_ATTRIBUTE_TYPE_INTS 1

// `data` points to `f32` values.
#define POLYCHIP_ATTRIBUTE_TYPE_FLOATS 2

// `data` points to `polychip_text` values.
#define POLYCHIP_ATTRIBUTE_TYPE_TEXTS 3

// `data` points to one `polychip_tensor` with constant data.
#define POLYCHIP_ATTRIBUTE_TYPE_TENSOR 4

// The value is a list even where `count` is 1.
#define POLYCHIP_ATTRIBUTE_LIST 1

// Convolution with bias, activation or residual sum behind it.
#define POLYCHIP_GROUP_CONV 1

// Matrix product (MatMul, Gemm) with bias, activation or residual sum behind it.
#define POLYCHIP_GROUP_MATMUL 2

// A chain of elementwise ops.
#define POLYCHIP_GROUP_ELEMENTWISE 3

// Residual sum with the normalisation behind it.
#define POLYCHIP_GROUP_NORMALISATION 4

// Something failed.
#define POLYCHIP_LOG_ERROR 1

// Something looks wrong.
#define POLYCHIP_LOG_WARN 2

// Worth telling a user who asks.
#define POLYCHIP_LOG_INFO 3

// Worth telling an author.
#define POLYCHIP_LOG_DEBUG 4

// Every step.
#define POLYCHIP_LOG_TRACE 5

// An op outside this list, named by its domain and op type.
#define POLYCHIP_OP_CUSTOM 0

// ONNX `Abs`.
#define POLYCHIP_OP_ABS 1

// ONNX `Acos`.
#define POLYCHIP_OP_ACOS 2

// ONNX `Acosh`.
#define POLYCHIP_OP_ACOSH 3

// ONNX `Add`.
#define POLYCHIP_OP_ADD 4

// ONNX `AffineGrid`.
#define POLYCHIP_OP_AFFINE_GRID 5

// ONNX `And`.
#define POLYCHIP_OP_AND 6

// ONNX `ArgMax`.
#define POLYCHIP_OP_ARG_MAX 7

// ONNX `ArgMin`.
#define POLYCHIP_OP_ARG_MIN 8

// ONNX `Asin`.
#define POLYCHIP_OP_ASIN 9

// ONNX `Asinh`.
#define POLYCHIP_OP_ASINH 10

// ONNX `Atan`.
#define POLYCHIP_OP_ATAN 11

// ONNX `Atanh`.
#define POLYCHIP_OP_ATANH 12

// ONNX `Attention`.
#define POLYCHIP_OP_ATTENTION 13

// ONNX `AveragePool`.
#define POLYCHIP_OP_AVERAGE_POOL 14

// ONNX `BatchNormalization`.
#define POLYCHIP_OP_BATCH_NORMALIZATION 15

// ONNX `Bernoulli`.
#define POLYCHIP_OP_BERNOULLI 16

// ONNX `BitCast`.
#define POLYCHIP_OP_BIT_CAST 17

// ONNX `BitShift`.
#define POLYCHIP_OP_BIT_SHIFT 18

// ONNX `BitwiseAnd`.
#define POLYCHIP_OP_BITWISE_AND 19

// ONNX `BitwiseNot`.
#define POLYCHIP_OP_BITWISE_NOT 20

// ONNX `BitwiseOr`.
#define POLYCHIP_OP_BITWISE_OR 21

// ONNX `BitwiseXor`.
#define POLYCHIP_OP_BITWISE_XOR 22

// ONNX `BlackmanWindow`.
#define POLYCHIP_OP_BLACKMAN_WINDOW 23

// ONNX `Cast`.
#define POLYCHIP_OP_CAST 24

// ONNX `CastLike`.
#define POLYCHIP_OP_CAST_LIKE 25

// ONNX `CausalConvWithState`.
#define POLYCHIP_OP_CAUSAL_CONV_WITH_STATE 26

// ONNX `Ceil`.
#define POLYCHIP_OP_CEIL 27

// ONNX `Celu`.
#define POLYCHIP_OP_CELU 28

// ONNX `CenterCropPad`.
#define POLYCHIP_OP_CENTER_CROP_PAD 29

// ONNX `Clip`.
#define POLYCHIP_OP_CLIP 30

// ONNX `Col2Im`.
#define POLYCHIP_OP_COL2IM 31

// ONNX `Compress`.
#define POLYCHIP_OP_COMPRESS 32

// ONNX `Concat`.
#define POLYCHIP_OP_CONCAT 33

// ONNX `ConcatFromSequence`.
#define POLYCHIP_OP_CONCAT_FROM_SEQUENCE 34

// ONNX `Constant`.
#define POLYCHIP_OP_CONSTANT 35

// ONNX `ConstantOfShape`.
#define POLYCHIP_OP_CONSTANT_OF_SHAPE 36

// ONNX `Conv`.
#define POLYCHIP_OP_CONV 37

// ONNX `ConvInteger`.
#define POLYCHIP_OP_CONV_INTEGER 38

// ONNX `ConvTranspose`.
#define POLYCHIP_OP_CONV_TRANSPOSE 39

// ONNX `Cos`.
#define POLYCHIP_OP_COS 40

// ONNX `Cosh`.
#define POLYCHIP_OP_COSH 41

// ONNX `CumProd`.
#define POLYCHIP_OP_CUM_PROD 42

// ONNX `CumSum`.
#define POLYCHIP_OP_CUM_SUM 43

// ONNX `DFT`.
#define POLYCHIP_OP_DFT 44

// ONNX `DeformConv`.
#define POLYCHIP_OP_DEFORM_CONV 45

// ONNX `DepthToSpace`.
#define POLYCHIP_OP_DEPTH_TO_SPACE 46

// ONNX `DequantizeLinear`.
#define POLYCHIP_OP_DEQUANTIZE_LINEAR 47

// ONNX `Det`.
#define POLYCHIP_OP_DET 48

// ONNX `Div`.
#define POLYCHIP_OP_DIV 49

// ONNX `Dropout`.
#define POLYCHIP_OP_DROPOUT 50

// ONNX `DynamicQuantizeLinear`.
#define POLYCHIP_OP_DYNAMIC_QUANTIZE_LINEAR 51

// ONNX `Einsum`.
#define POLYCHIP_OP_EINSUM 52

// ONNX `Elu`.
#define POLYCHIP_OP_ELU 53

// ONNX `Equal`.
#define POLYCHIP_OP_EQUAL 54

// ONNX `Erf`.
#define POLYCHIP_OP_ERF 55

// ONNX `Exp`.
#define POLYCHIP_OP_EXP 56

// ONNX `Expand`.
#define POLYCHIP_OP_EXPAND 57

// ONNX `EyeLike`.
#define POLYCHIP_OP_EYE_LIKE 58

// ONNX `Flatten`.
#define POLYCHIP_OP_FLATTEN 59

// ONNX `Floor`.
#define POLYCHIP_OP_FLOOR 60

// ONNX `GRU`.
#define POLYCHIP_OP_GRU 61

// ONNX `Gather`.
#define POLYCHIP_OP_GATHER 62

// ONNX `GatherElements`.
#define POLYCHIP_OP_GATHER_ELEMENTS 63

// ONNX `GatherND`.
#define POLYCHIP_OP_GATHER_ND 64

// ONNX `Gelu`.
#define POLYCHIP_OP_GELU 65

// ONNX `Gemm`.
#define POLYCHIP_OP_GEMM 66

// ONNX `GlobalAveragePool`.
#define POLYCHIP_OP_GLOBAL_AVERAGE_POOL 67

// ONNX `GlobalLpPool`.
#define POLYCHIP_OP_GLOBAL_LP_POOL 68

// ONNX `GlobalMaxPool`.
#define POLYCHIP_OP_GLOBAL_MAX_POOL 69

// ONNX `Greater`.
#define POLYCHIP_OP_GREATER 70

// ONNX `GreaterOrEqual`.
#define POLYCHIP_OP_GREATER_OR_EQUAL 71

// ONNX `GridSample`.
#define POLYCHIP_OP_GRID_SAMPLE 72

// ONNX `GroupNormalization`.
#define POLYCHIP_OP_GROUP_NORMALIZATION 73

// ONNX `HammingWindow`.
#define POLYCHIP_OP_HAMMING_WINDOW 74

// ONNX `HannWindow`.
#define POLYCHIP_OP_HANN_WINDOW 75

// ONNX `HardSigmoid`.
#define POLYCHIP_OP_HARD_SIGMOID 76

// ONNX `HardSwish`.
#define POLYCHIP_OP_HARD_SWISH 77

// ONNX `Hardmax`.
#define POLYCHIP_OP_HARDMAX 78

// ONNX `Identity`.
#define POLYCHIP_OP_IDENTITY 79

// ONNX `If`.
#define POLYCHIP_OP_IF 80

// ONNX `ImageDecoder`.
#define POLYCHIP_OP_IMAGE_DECODER 81

// ONNX `InstanceNormalization`.
#define POLYCHIP_OP_INSTANCE_NORMALIZATION 82

// ONNX `IsInf`.
#define POLYCHIP_OP_IS_INF 83

// ONNX `IsNaN`.
#define POLYCHIP_OP_IS_NAN 84

// ONNX `LRN`.
#define POLYCHIP_OP_LRN 85

// ONNX `LSTM`.
#define POLYCHIP_OP_LSTM 86

// ONNX `LayerNormalization`.
#define POLYCHIP_OP_LAYER_NORMALIZATION 87

// ONNX `LeakyRelu`.
#define POLYCHIP_OP_LEAKY_RELU 88

// ONNX `Less`.
#define POLYCHIP_OP_LESS 89

// ONNX `LessOrEqual`.
#define POLYCHIP_OP_LESS_OR_EQUAL 90

// ONNX `LinearAttention`.
#define POLYCHIP_OP_LINEAR_ATTENTION 91

// ONNX `Log`.
#define POLYCHIP_OP_LOG 92

// ONNX `LogSoftmax`.
#define POLYCHIP_OP_LOG_SOFTMAX 93

// ONNX `Loop`.
#define POLYCHIP_OP_LOOP 94

// ONNX `LpNormalization`.
#define POLYCHIP_OP_LP_NORMALIZATION 95

// ONNX `LpPool`.
#define POLYCHIP_OP_LP_POOL 96

// ONNX `MatMul`.
#define POLYCHIP_OP_MATMUL 97

// ONNX `MatMulInteger`.
#define POLYCHIP_OP_MATMUL_INTEGER 98

// ONNX `Max`.
#define POLYCHIP_OP_MAX 99

// ONNX `MaxPool`.
#define POLYCHIP_OP_MAX_POOL 100

// ONNX `MaxRoiPool`.
#define POLYCHIP_OP_MAX_ROI_POOL 101

// ONNX `MaxUnpool`.
#define POLYCHIP_OP_MAX_UNPOOL 102

// ONNX `Mean`.
#define POLYCHIP_OP_MEAN 103

// ONNX `MeanVarianceNormalization`.
#define POLYCHIP_OP_MEAN_VARIANCE_NORMALIZATION 104

// ONNX `MelWeightMatrix`.
#define POLYCHIP_OP_MEL_WEIGHT_MATRIX 105

// ONNX `Min`.
#define POLYCHIP_OP_MIN 106

// ONNX `Mish`.
#define POLYCHIP_OP_MISH 107

// ONNX `Mod`.
#define POLYCHIP_OP_MOD 108

// ONNX `Mul`.
#define POLYCHIP_OP_MUL 109

// ONNX `Multinomial`.
#define POLYCHIP_OP_MULTINOMIAL 110

// ONNX `Neg`.
#define POLYCHIP_OP_NEG 111

// ONNX `NegativeLogLikelihoodLoss`.
#define POLYCHIP_OP_NEGATIVE_LOG_LIKELIHOOD_LOSS 112

// ONNX `NonMaxSuppression`.
#define POLYCHIP_OP_NON_MAX_SUPPRESSION 113

// ONNX `NonZero`.
#define POLYCHIP_OP_NON_ZERO 114

// ONNX `Not`.
#define POLYCHIP_OP_NOT 115

// ONNX `OneHot`.
#define POLYCHIP_OP_ONE_HOT 116

// ONNX `Optional`.
#define POLYCHIP_OP_OPTIONAL 117

// ONNX `OptionalGetElement`.
#define POLYCHIP_OP_OPTIONAL_GET_ELEMENT 118

// ONNX `OptionalHasElement`.
#define POLYCHIP_OP_OPTIONAL_HAS_ELEMENT 119

// ONNX `Or`.
#define POLYCHIP_OP_OR 120

// ONNX `PRelu`.
#define POLYCHIP_OP_PRELU 121

// ONNX `Pad`.
#define POLYCHIP_OP_PAD 122

// ONNX `Pow`.
#define POLYCHIP_OP_POW 123

// ONNX `QLinearConv`.
#define POLYCHIP_OP_QLINEAR_CONV 124

// ONNX `QLinearMatMul`.
#define POLYCHIP_OP_QLINEAR_MATMUL 125

// ONNX `QuantizeLinear`.
#define POLYCHIP_OP_QUANTIZE_LINEAR 126

// ONNX `RMSNormalization`.
#define POLYCHIP_OP_RMS_NORMALIZATION 127

// ONNX `RNN`.
#define POLYCHIP_OP_RNN 128

// ONNX `RandomNormal`.
#define POLYCHIP_OP_RANDOM_NORMAL 129

// ONNX `RandomNormalLike`.
#define POLYCHIP_OP_RANDOM_NORMAL_LIKE 130

// ONNX `RandomUniform`.
#define POLYCHIP_OP_RANDOM_UNIFORM 131

// ONNX `RandomUniformLike`.
#define POLYCHIP_OP_RANDOM_UNIFORM_LIKE 132

// ONNX `Range`.
#define POLYCHIP_OP_RANGE 133

// ONNX `Reciprocal`.
#define POLYCHIP_OP_RECIPROCAL 134

// ONNX `ReduceL1`.
#define POLYCHIP_OP_REDUCE_L1 135

// ONNX `ReduceL2`.
#define POLYCHIP_OP_REDUCE_L2 136

// ONNX `ReduceLogSum`.
#define POLYCHIP_OP_REDUCE_LOG_SUM 137

// ONNX `ReduceLogSumExp`.
#define POLYCHIP_OP_REDUCE_LOG_SUM_EXP 138

// ONNX `ReduceMax`.
#define POLYCHIP_OP_REDUCE_MAX 139

// ONNX `ReduceMean`.
#define POLYCHIP_OP_REDUCE_MEAN 140

// ONNX `ReduceMin`.
#define POLYCHIP_OP_REDUCE_MIN 141

// ONNX `ReduceProd`.
#define POLYCHIP_OP_REDUCE_PROD 142

// ONNX `ReduceSum`.
#define POLYCHIP_OP_REDUCE_SUM 143

// ONNX `ReduceSumSquare`.
#define POLYCHIP_OP_REDUCE_SUM_SQUARE 144

// ONNX `RegexFullMatch`.
#define POLYCHIP_OP_REGEX_FULL_MATCH 145

// ONNX `Relu`.
#define POLYCHIP_OP_RELU 146

// ONNX `Reshape`.
#define POLYCHIP_OP_RESHAPE 147

// ONNX `Resize`.
#define POLYCHIP_OP_RESIZE 148

// ONNX `ReverseSequence`.
#define POLYCHIP_OP_REVERSE_SEQUENCE 149

// ONNX `RoiAlign`.
#define POLYCHIP_OP_ROI_ALIGN 150

// ONNX `RotaryEmbedding`.
#define POLYCHIP_OP_ROTARY_EMBEDDING 151

// ONNX `Round`.
#define POLYCHIP_OP_ROUND 152

// ONNX `STFT`.
#define POLYCHIP_OP_STFT 153

// ONNX `Scan`.
#define POLYCHIP_OP_SCAN 154

// ONNX `Scatter`.
#define POLYCHIP_OP_SCATTER 155

// ONNX `ScatterElements`.
#define POLYCHIP_OP_SCATTER_ELEMENTS 156

// ONNX `ScatterND`.
#define POLYCHIP_OP_SCATTER_ND 157

// ONNX `Selu`.
#define POLYCHIP_OP_SELU 158

// ONNX `SequenceAt`.
#define POLYCHIP_OP_SEQUENCE_AT 159

// ONNX `SequenceConstruct`.
#define POLYCHIP_OP_SEQUENCE_CONSTRUCT 160

// ONNX `SequenceEmpty`.
#define POLYCHIP_OP_SEQUENCE_EMPTY 161

// ONNX `SequenceErase`.
#define POLYCHIP_OP_SEQUENCE_ERASE 162

// ONNX `SequenceInsert`.
#define POLYCHIP_OP_SEQUENCE_INSERT 163

// ONNX `SequenceLength`.
#define POLYCHIP_OP_SEQUENCE_LENGTH 164

// ONNX `SequenceMap`.
#define POLYCHIP_OP_SEQUENCE_MAP 165

// ONNX `Shape`.
#define POLYCHIP_OP_SHAPE 166

// ONNX `Shrink`.
#define POLYCHIP_OP_SHRINK 167

// ONNX `Sigmoid`.
#define POLYCHIP_OP_SIGMOID 168

// ONNX `Sign`.
#define POLYCHIP_OP_SIGN 169

// ONNX `Sin`.
#define POLYCHIP_OP_SIN 170

// ONNX `Sinh`.
#define POLYCHIP_OP_SINH 171

// ONNX `Size`.
#define POLYCHIP_OP_SIZE 172

// ONNX `Slice`.
#define POLYCHIP_OP_SLICE 173

// ONNX `Softmax`.
#define POLYCHIP_OP_SOFTMAX 174

// ONNX `SoftmaxCrossEntropyLoss`.
#define POLYCHIP_OP_SOFTMAX_CROSS_ENTROPY_LOSS 175

// ONNX `Softplus`.
#define POLYCHIP_OP_SOFTPLUS 176

// ONNX `Softsign`.
#define POLYCHIP_OP_SOFTSIGN 177

// ONNX `SpaceToDepth`.
#define POLYCHIP_OP_SPACE_TO_DEPTH 178

// ONNX `Split`.
#define POLYCHIP_OP_SPLIT 179

// ONNX `SplitToSequence`.
#define POLYCHIP_OP_SPLIT_TO_SEQUENCE 180

// ONNX `Sqrt`.
#define POLYCHIP_OP_SQRT 181

// ONNX `Squeeze`.
#define POLYCHIP_OP_SQUEEZE 182

// ONNX `StringConcat`.
#define POLYCHIP_OP_STRING_CONCAT 183

// ONNX `StringNormalizer`.
#define POLYCHIP_OP_STRING_NORMALIZER 184

// ONNX `StringSplit`.
#define POLYCHIP_OP_STRING_SPLIT 185

// ONNX `Sub`.
#define POLYCHIP_OP_SUB 186

// ONNX `Sum`.
#define POLYCHIP_OP_SUM 187

// ONNX `SwiGLU`.
#define POLYCHIP_OP_SWIGLU 188

// ONNX `Swish`.
#define POLYCHIP_OP_SWISH 189

// ONNX `Tan`.
#define POLYCHIP_OP_TAN 190

// ONNX `Tanh`.
#define POLYCHIP_OP_TANH 191

// ONNX `TensorScatter`.
#define POLYCHIP_OP_TENSOR_SCATTER 192

// ONNX `TfIdfVectorizer`.
#define POLYCHIP_OP_TF_IDF_VECTORIZER 193

// ONNX `ThresholdedRelu`.
#define POLYCHIP_OP_THRESHOLDED_RELU 194

// ONNX `Tile`.
#define POLYCHIP_OP_TILE 195

// ONNX `TopK`.
#define POLYCHIP_OP_TOP_K 196

// ONNX `Transpose`.
#define POLYCHIP_OP_TRANSPOSE 197

// ONNX `Trilu`.
#define POLYCHIP_OP_TRILU 198

// ONNX `Unique`.
#define POLYCHIP_OP_UNIQUE 199

// ONNX `Unsqueeze`.
#define POLYCHIP_OP_UNSQUEEZE 200

// ONNX `Upsample`.
#define POLYCHIP_OP_UPSAMPLE 201

// ONNX `Where`.
#define POLYCHIP_OP_WHERE 202

// ONNX `Xor`.
#define POLYCHIP_OP_XOR 203

// ONNX `ai.onnx.ml.LabelEncoder`.
#define POLYCHIP_OP_LABEL_ENCODER 204

// ONNX `ai.onnx.ml.TreeEnsemble`.
#define POLYCHIP_OP_TREE_ENSEMBLE 205

// ONNX `ai.onnx.ml.TreeEnsembleRegressor`.
#define POLYCHIP_OP_TREE_ENSEMBLE_REGRESSOR 206

// Any layout will do.
#define POLYCHIP_LAYOUT_ANY 0

// Row-major in the order of the ONNX shape (`[n, c, h, w]`).
#define POLYCHIP_LAYOUT_ROW_MAJOR 1

// Channels last (`[n, h, w, c]` in memory; the shape stays in ONNX order).
#define POLYCHIP_LAYOUT_CHANNELS_LAST 2

// By the strides of the port.
#define POLYCHIP_LAYOUT_STRIDED 3

// The vendor's own; only the same plugin reads it.
#define POLYCHIP_LAYOUT_VENDOR 4

// The port is an output.
#define POLYCHIP_PORT_OUTPUT 1

// The extents are upper bounds; `fence_output_shape` tells the actual ones. Where the graph has no bound for an extent, the
// port may state one extent in place of all: the elements that there is room for.
#define POLYCHIP_PORT_UPPER_BOUND 2

// The port is half of an in-out pair: port `state_port` may be bound to the same memory.
#define POLYCHIP_PORT_STATE 4

// Extents that a port record holds.
#define POLYCHIP_MAX_RANK 16

// The step is computed by plain loops that stand in for a kernel.
#define POLYCHIP_STEP_REFERENCE 1

// `operations` holds a value.
#define POLYCHIP_STEP_OPERATIONS 2

// `moved_bytes` holds a value.
#define POLYCHIP_STEP_BYTES 4

// The device runs the node.
#define POLYCHIP_SUPPORT_YES 0

// The op is not offered.
#define POLYCHIP_SUPPORT_OP 1

// A data type is not offered.
#define POLYCHIP_SUPPORT_DTYPE 2

// A shape or extent is out of bounds.
#define POLYCHIP_SUPPORT_SHAPE 3

// A rank is not offered.
#define POLYCHIP_SUPPORT_RANK 4

// An attribute value is not offered.
#define POLYCHIP_SUPPORT_ATTRIBUTE 5

// A memory layout is not offered.
#define POLYCHIP_SUPPORT_LAYOUT 6

// An input would have to be a constant.
#define POLYCHIP_SUPPORT_NOT_CONSTANT 7

// A shape is known only after the run.
#define POLYCHIP_SUPPORT_DYNAMIC_SHAPE 8

// A body graph (If, Loop, Scan) is not offered.
#define POLYCHIP_SUPPORT_BODY 9

// A quantisation encoding is not offered.
#define POLYCHIP_SUPPORT_ENCODING 10

// The device's memory is too small.
#define POLYCHIP_SUPPORT_MEMORY 11

// The device or its driver is known to be wrong or unstable here.
#define POLYCHIP_SUPPORT_QUARANTINED 12

// The vendor's library refused, for the reason in `detail`.
#define POLYCHIP_SUPPORT_VENDOR 13

// Bytes of detail that a support record holds.
#define POLYCHIP_SUPPORT_DETAIL_BYTES 1008

// Major version of the contract: another one is refused.
#define POLYCHIP_ABI_MAJOR 1

// Minor version of the contract: a higher one only appends. 1 appends to `polychip_device_info` how parts share a device:
// `preemption`, `queue_depth`, `preemption_bound_ns`, `switch_ns`.
#define POLYCHIP_ABI_MINOR 2

// `temperature_mc` holds a value.
#define POLYCHIP_TELEMETRY_TEMPERATURE 1

// `power_mw` holds a value.
#define POLYCHIP_TELEMETRY_POWER 2

// `energy_uj` holds a value.
#define POLYCHIP_TELEMETRY_ENERGY 4

// `frequency_khz` holds a value.
#define POLYCHIP_TELEMETRY_FREQUENCY 8

// `load_permille` holds a value.
#define POLYCHIP_TELEMETRY_LOAD 16

// `throttle` holds a value.
#define POLYCHIP_TELEMETRY_THROTTLE 32

// `memory_used_bytes` holds a value.
#define POLYCHIP_TELEMETRY_MEMORY 64

// Clocks are lowered because of heat.
#define POLYCHIP_THROTTLE_HEAT 1

// Clocks are lowered because of a power limit.
#define POLYCHIP_THROTTLE_POWER 2

// An extent that is not known before the run.
#define POLYCHIP_DIM_UNKNOWN -1

// The tensor is a constant: `data` holds its elements.
#define POLYCHIP_TENSOR_CONSTANT 1

// The extents are upper bounds; the actual ones are known after the run.
#define POLYCHIP_TENSOR_UPPER_BOUND 2

// Not even the rank is known: `rank` is 0 and says nothing.
#define POLYCHIP_TENSOR_UNRANKED 4

// Not even the data type is known: `dtype` says nothing. Comes with `POLYCHIP_TENSOR_UNRANKED`.
#define POLYCHIP_TENSOR_UNTYPED 8

// A sequence or optional of tensors, packed into bytes: `dtype` is `POLYCHIP_DTYPE_U8`, and the one extent is the most
// bytes. Comes with `POLYCHIP_TENSOR_UPPER_BOUND`. The form, little-endian: u32 what it is (0 nothing, 1 a tensor, 2 a
// sequence), u32 how many tensors follow, u64 the bytes of the whole; per tensor u32 `POLYCHIP_DTYPE_*`, u32 rank, as
// many u64 extents, u64 bytes of its elements, the elements as in `polychip_tensor`, and zeros up to a multiple of 8.
// A port of strings carries the same form (1, a tensor).
#define POLYCHIP_TENSOR_CONTAINER 16

// No file stands behind a constant.
#define POLYCHIP_NO_FD -1

// A compiled part.
struct polychip_blob;

// A buffer that a device can bind.
struct polychip_buffer;

// An open device.
struct polychip_device;

// A loaded part, ready to run.
struct polychip_executable;

// The end of one run. Signals once, with the run's status.
struct polychip_fence;

// A plugin instance.
struct polychip_instance;

// UTF-8 text, not zero-terminated.
struct polychip_text {
    // First byte; not followed when `len` is 0, and may be null then.
    const uint8_t *data;
    // Bytes of text.
    uint64_t len;
};

// What a plugin is. Texts are static.
struct polychip_plugin_info {
    // Size of this struct as the caller knows it, in bytes.
    uint32_t struct_size;
    // Zero.
    uint32_t flags;
    // Short name, as in `name:index`: lower-case ASCII letters, digits and `_`. Of two plugins of one
    // name the first found is used.
    struct polychip_text name;
    // Version of the plugin.
    struct polychip_text version;
    // Changes with every build whose blobs or figures may differ; part of every cache key.
    struct polychip_text build_id;
};

// Read-only bytes.
struct polychip_bytes {
    // First byte; not followed when `len` is 0, and may be null then.
    const uint8_t *data;
    // Number of bytes.
    uint64_t len;
};

// Log sink, clock, key-value store and configuration. An absent call is null.
struct polychip_host_services {
    // Size of this struct as the host knows it, in bytes.
    uint32_t struct_size;
    // Zero.
    uint32_t flags;
    // First argument of every call here.
    void *user;
    // Takes a line of log at a level `POLYCHIP_LOG_*`, without a line end. Does not block.
    void (*log)(void *user, uint32_t level, struct polychip_text text);
    // Monotonic time in nanoseconds; virtual in tests, where only `sleep_until_ns` moves it.
    uint64_t (*now_ns)(void *user);
    // Waits until `now_ns` reaches `until_ns`; on virtual time, moves the clock there at once.
    void (*sleep_until_ns)(void *user, uint64_t until_ns);
    // Reads a value of the plugin's store into `out_value` (at most `capacity` bytes) and its full
    // length into `out_len`. Returns `POLYCHIP_STATUS_UNSUPPORTED` where the key is not there.
    uint32_t (*store_read)(void *user,
                           struct polychip_text key,
                           uint8_t *out_value,
                           uint64_t capacity,
                           uint64_t *out_len);
    // Writes a value of the plugin's store; an empty value removes the key.
    uint32_t (*store_write)(void *user, struct polychip_text key, struct polychip_bytes value);
    // Reads a configuration string, which lives as long as the services. Returns
    // `POLYCHIP_STATUS_UNSUPPORTED` where it is not set.
    uint32_t (*configuration)(void *user, struct polychip_text key, struct polychip_text *out_value);
};

// What went wrong. The caller owns the record and sets `struct_size`; the plugin fills the rest.
struct polychip_error {
    // Size of this struct as the caller knows it, in bytes.
    uint32_t struct_size;
    // One of `POLYCHIP_STATUS_*`, equal to the call's return value.
    uint32_t status;
    // The vendor's own code, 0 when there is none.
    int64_t vendor_code;
    // Index of the node concerned in the graph of the call, or `POLYCHIP_NO_INDEX`.
    uint32_t node;
    // Index of the tensor or port concerned, or `POLYCHIP_NO_INDEX`.
    uint32_t tensor;
    // Bytes of `message` in use.
    uint32_t message_len;
    // Zero.
    uint32_t reserved;
    // UTF-8 words, the vendor's where there are any, cut at a character boundary.
    uint8_t message[POLYCHIP_ERROR_MESSAGE_BYTES];
};

// What a device is. Texts live as long as the device is open.
struct polychip_device_info {
    // Size of this struct as the caller knows it, in bytes.
    uint32_t struct_size;
    // `POLYCHIP_DEVICE_CPU`, `_GPU`, `_NPU` or `_DSP`.
    uint32_t kind;
    // Bits `POLYCHIP_DEVICE_EMULATED` and following.
    uint32_t flags;
    // Bits `1 << POLYCHIP_MEMORY_*` of the memory kinds that `buffer_import` takes; 0: none.
    uint32_t import_kinds;
    // Bits `1 << POLYCHIP_MEMORY_*` of the memory kinds that `buffer_export` gives; 0: none.
    uint32_t export_kinds;
    // Alignment that host memory needs to be imported, in bytes: a power of two; 0 and 1: any. The host's
    // own memory starts on a page; a device that needs more gets copies.
    uint32_t import_alignment;
    // Name for people.
    struct polychip_text name;
    // Maker.
    struct polychip_text vendor;
    // System on chip, or empty.
    struct polychip_text soc;
    // Version of the driver or the vendor's library.
    struct polychip_text driver;
    // Memory that parts may use, in bytes; 0 where the device sets no limit.
    uint64_t memory_bytes;
    // Peak arithmetic rate for f32, in multiply-adds per second; 0 where not known, and the host reckons
    // with 10^9.
    uint64_t peak_macs_per_s;
    // Peak memory rate, in bytes per second; 0 where not known, and the host reckons with 10^9.
    uint64_t peak_bytes_per_s;
    // Everything else that changes how fast its parts run or what its blobs hold: cores and threads, instruction
    // set, clock, configuration. Words `key=value` in the order of their keys, separated by spaces; empty where
    // there is nothing. With the texts above it is what measured times and blobs are kept under: two devices or
    // configurations of different speed differ in it.
    struct polychip_text settings;
    // When the peak rates were measured, in seconds since 1970; 0: they are stated, from what identifies the device.
    uint64_t rates_measured_s;
    // Rate between memory of the host and the device's own, in bytes per second, of a device that computes in memory
    // of its own behind a bus; 0: there is no such bus. Tensors that other devices exchange with it cross it, also
    // those that it imports. What is estimated of a part holds this time for the inputs and outputs of the whole graph
    // only.
    uint64_t link_bytes_per_s;
    // Since 1.1. `POLYCHIP_PREEMPTION_*`: when a part that the device has begun gives way to one whose `execute` has a
    // higher priority. What gave way goes on once no more urgent part is with the device.
    uint32_t preemption;
    // Since 1.1. Parts that the device gains from having at once: it computes so many beside each other, or need not
    // wait for the next one. 0 where not known, and the host gives it one at a time.
    uint32_t queue_depth;
    // Since 1.1. Longest time from the `execute` of a part until what is less urgent has given way, in nanoseconds,
    // whatever parts these are; 0 where there is no such bound or it is not known, and where `preemption` is neither
    // `POLYCHIP_PREEMPTION_COMMANDS` nor `POLYCHIP_PREEMPTION_ANY_TIME`.
    uint64_t preemption_bound_ns;
    // Since 1.1. Time that the device loses where it goes from a part of one plan to one of another, in nanoseconds:
    // weights to bring in, contexts to change. It is not in what is estimated and measured of a part by itself. 0 where
    // not known, and the host counts nothing.
    uint64_t switch_ns;
};

// A setting of clocks and voltage that the device can be put to.
struct polychip_operating_point {
    // Size of this struct as the caller knows it, in bytes.
    uint32_t struct_size;
    // Zero.
    uint32_t flags;
    // Name; lives as long as the device is open.
    struct polychip_text name;
    // Clock, in kilohertz; 0 where not known.
    uint64_t frequency_khz;
    // Typical power under load, in milliwatts; 0 where not known.
    uint64_t power_mw;
};

// One attribute of a node.
struct polychip_attribute {
    // Size of this struct as its writer knows it, in bytes.
    uint32_t struct_size;
    // `POLYCHIP_ATTRIBUTE_*` of the name, or 0 for a name outside the ONNX standard.
    uint32_t code;
    // Name, always given.
    struct polychip_text name;
    // `POLYCHIP_ATTRIBUTE_TYPE_*`.
    uint32_t value_type;
    // Bits `POLYCHIP_ATTRIBUTE_LIST`.
    uint32_t flags;
    // The values, of the type that `value_type` says.
    const void *data;
    // Number of values.
    uint64_t count;
};

// A tensor of the outer graph that a body graph reads.
struct polychip_capture {
    // Tensor of the graph that holds the node.
    uint32_t outer;
    // The tensor of the body graph that stands for it; it is an input of the body beyond those that
    // the op itself passes.
    uint32_t inner;
};

// A body graph of a node (If, Loop, Scan).
struct polychip_body {
    // Size of this struct as its writer knows it, in bytes.
    uint32_t struct_size;
    // `POLYCHIP_ATTRIBUTE_*` that held the body: body, then_branch, else_branch.
    uint32_t attribute;
    // The body.
    const struct polychip_graph *graph;
    // Captured tensors.
    const struct polychip_capture *captures;
    // Number of captures.
    uint64_t capture_count;
};

// One operation.
struct polychip_node {
    // Size of this struct as its writer knows it, in bytes.
    uint32_t struct_size;
    // `POLYCHIP_OP_*`, with the meaning of ONNX opset 28: models of older opsets are converted.
    // `POLYCHIP_OP_CUSTOM` for an op known by domain and name only.
    uint32_t op;
    // Domain of the op; empty for the ONNX standard.
    struct polychip_text domain;
    // Op type as the model wrote it.
    struct polychip_text op_name;
    // Name of the node, for messages only.
    struct polychip_text name;
    // Tensor indices; `POLYCHIP_NO_INDEX` for an input left out. Trailing ones may be missing.
    const uint32_t *inputs;
    // Number of inputs.
    uint64_t input_count;
    // Tensor indices; `POLYCHIP_NO_INDEX` for an output nobody wants.
    const uint32_t *outputs;
    // Number of outputs.
    uint64_t output_count;
    // Attributes, sorted by code, then by name. One left out has its default of opset 28; one that is
    // there may have it too.
    const struct polychip_attribute *attributes;
    // Number of attributes.
    uint64_t attribute_count;
    // Bytes from one attribute to the next.
    uint64_t attribute_stride;
    // Body graphs.
    const struct polychip_body *bodies;
    // Number of bodies.
    uint64_t body_count;
    // Bytes from one body to the next.
    uint64_t body_stride;
    // The primitive ops that this node was recomposed from, or null. Its inputs and outputs are those of
    // the node that are present, in order. A plugin that knows `op` need not look at it.
    const struct polychip_graph *decomposition;
};

// Scale and zero point of a quantised tensor.
struct polychip_encoding {
    // Size of this struct as its writer knows it, in bytes.
    uint32_t struct_size;
    // One of `POLYCHIP_ENCODING_*`.
    uint32_t kind;
    // Axis of per-axis and per-block encodings, counted from the front; the last one of `POLYCHIP_ENCODING_BLOCKS`.
    uint32_t axis;
    // Elements in a block; 0 unless there are blocks.
    uint32_t block_size;
    // `scale_count` scales.
    const float *scales;
    // Number of scales.
    uint64_t scale_count;
    // `zero_point_count` zero points; null means all 0.
    const int32_t *zero_points;
    // 0 or `scale_count`.
    uint64_t zero_point_count;
    // Data type of the real value that an op sees (`POLYCHIP_DTYPE_*`, usually F32).
    uint32_t real_dtype;
    // `POLYCHIP_BLOCKS_*` of `POLYCHIP_ENCODING_BLOCKS`, 0 otherwise. Since 1.2.
    uint32_t block_layout;
};

// A tensor. Elements are little-endian in row-major (ONNX) order; types of less than a byte are
// packed, first element in the low bits; a string is its byte count as u32, then UTF-8 text.
struct polychip_tensor {
    // Size of this struct as its writer knows it, in bytes.
    uint32_t struct_size;
    // `POLYCHIP_DTYPE_*` of the stored elements.
    uint32_t dtype;
    // Bits `POLYCHIP_TENSOR_*`.
    uint32_t flags;
    // Number of extents.
    uint32_t rank;
    // `rank` extents; `POLYCHIP_DIM_UNKNOWN` where not known. Not followed when `rank` is 0: a scalar, unless the
    // flags say `POLYCHIP_TENSOR_UNRANKED`.
    const int64_t *dims;
    // Name in the model, for messages only.
    struct polychip_text name;
    // Quantisation, or null.
    const struct polychip_encoding *encoding;
    // Elements of a constant, at an address of any alignment; they stay there as long as an executable
    // that was loaded with the graph, and at least for the call.
    const uint8_t *data;
    // Bytes of `data`.
    uint64_t data_bytes;
    // File that `data` is mapped from, or `POLYCHIP_NO_FD`. The host keeps it open.
    int64_t fd;
    // Offset of `data` in the file, in bytes.
    uint64_t fd_offset;
};

// Nodes that a device may compute as one: a hint, never an obligation.
struct polychip_group {
    // Size of this struct as its writer knows it, in bytes.
    uint32_t struct_size;
    // `POLYCHIP_GROUP_*`.
    uint32_t kind;
    // Node indices, in graph order.
    const uint32_t *nodes;
    // Number of nodes.
    uint64_t node_count;
};

// An input and an output that are one piece of device memory between runs (a KV cache).
struct polychip_state {
    // Tensor read at the start of a run; one of the graph's inputs.
    uint32_t input;
    // Tensor that holds the new value after the run; one of the graph's outputs.
    uint32_t output;
};

// A whole graph, or a part of one.
struct polychip_graph {
    // Size of this struct as its writer knows it, in bytes.
    uint32_t struct_size;
    // Zero.
    uint32_t flags;
    // Name, for messages only.
    struct polychip_text name;
    // Nodes in order of execution: each tensor is an input, a constant, or the output of one earlier
    // node.
    const struct polychip_node *nodes;
    // Number of nodes.
    uint64_t node_count;
    // Bytes from one node to the next.
    uint64_t node_stride;
    // Tensors.
    const struct polychip_tensor *tensors;
    // Number of tensors.
    uint64_t tensor_count;
    // Bytes from one tensor to the next.
    uint64_t tensor_stride;
    // Tensors fed from outside, in port order; none is a constant.
    const uint32_t *inputs;
    // Number of inputs.
    uint64_t input_count;
    // Tensors given back, in port order: of a node, an input or a constant.
    const uint32_t *outputs;
    // Number of outputs.
    uint64_t output_count;
    // Fusion groups; a node is in at most one.
    const struct polychip_group *groups;
    // Number of groups.
    uint64_t group_count;
    // Bytes from one group to the next.
    uint64_t group_stride;
    // In-out pairs. A plugin may treat them as an input and an output like any other.
    const struct polychip_state *states;
    // Number of in-out pairs.
    uint64_t state_count;
    // Hash of ops, attributes, shapes and data types; all zero where the host made none.
    uint8_t structure_fingerprint[32];
    // Hash of structure and constant data; all zero where the host made none.
    uint8_t content_fingerprint[32];
};

// Whether a device runs one node. The caller owns the records and sets `struct_size` of each.
struct polychip_support {
    // Size of this struct as the caller knows it, in bytes.
    uint32_t struct_size;
    // One of `POLYCHIP_SUPPORT_*`; 0 is yes.
    uint32_t reason;
    // Bytes of `detail` in use.
    uint32_t detail_len;
    // Zero.
    uint32_t reserved;
    // UTF-8 words: the attribute, type, limit or value concerned and no more, as the host puts the
    // reason's own words before them; the vendor's own words where there are any. Cut at a character boundary.
    uint8_t detail[POLYCHIP_SUPPORT_DETAIL_BYTES];
};

// What a plugin expects some work to cost.
struct polychip_cost {
    // Size of this struct as the caller knows it, in bytes.
    uint32_t struct_size;
    // Bits `POLYCHIP_COST_*` of the fields that hold a value.
    uint32_t valid;
    // Bits `POLYCHIP_COST_EMULATED`.
    uint32_t flags;
    // Expected relative error of `time_ns`, in thousandths.
    uint32_t error_permille;
    // Time of one run, without launch, in nanoseconds.
    uint64_t time_ns;
    // Time to start one run whatever its size, in nanoseconds.
    uint64_t launch_ns;
    // Energy of one run, in microjoules.
    uint64_t energy_uj;
    // Mean power while running, in milliwatts.
    uint64_t power_mw;
    // Device memory that the loaded part needs, in bytes.
    uint64_t memory_bytes;
};

// A layout that the host asks of a port at `compile`.
struct polychip_port_request {
    // Size of this struct as its writer knows it, in bytes.
    uint32_t struct_size;
    // Number of the port.
    uint32_t port;
    // Wanted layout, `POLYCHIP_LAYOUT_*`. The plugin grants what it can; see `polychip_port::layout`.
    uint32_t layout;
    // Zero.
    uint32_t reserved;
};

// What `compile` should aim at.
struct polychip_compile_options {
    // Size of this struct as the host knows it, in bytes.
    uint32_t struct_size;
    // `POLYCHIP_PRECISION_*`: what the device may do, never what it must.
    uint32_t precision;
    // Threads that the part may use on a CPU; 0 leaves it to the plugin.
    uint32_t threads;
    // Index of the operating point to compile for, or `POLYCHIP_NO_INDEX`.
    uint32_t operating_point;
    // Layouts wanted at ports; a port not listed is `POLYCHIP_LAYOUT_ROW_MAJOR`. Row-major may always be
    // granted instead.
    const struct polychip_port_request *ports;
    // Number of requests.
    uint64_t port_count;
    // Bytes from one request to the next.
    uint64_t port_stride;
};

// Where `load` takes its blob from.
struct polychip_load_source {
    // Size of this struct as the host knows it, in bytes.
    uint32_t struct_size;
    // Threads that the part may use on a CPU; 0 leaves it to the plugin.
    uint32_t threads;
    // A blob just compiled by this instance; `load` may take over its memory without a copy, and the blob
    // can then only be destroyed, whatever `load` returned. Null when `bytes` is used.
    struct polychip_blob *blob;
    // Bytes of a cached blob, valid as long as the executable, at an address of any alignment.
    struct polychip_bytes bytes;
    // The part that the blob was compiled from: its constants are where an executable may point to. Null
    // from a host that has no graph; a blob that holds all it needs loads without.
    const struct polychip_graph *graph;
};

// What a loaded executable is.
struct polychip_executable_info {
    // Size of this struct as the caller knows it, in bytes.
    uint32_t struct_size;
    // Zero.
    uint32_t flags;
    // Number of input ports.
    uint32_t input_count;
    // Number of output ports.
    uint32_t output_count;
    // Device memory of constants and code, in bytes.
    uint64_t constant_bytes;
    // Device memory of intermediate tensors, in bytes.
    uint64_t arena_bytes;
};

// What memory a port wants.
struct polychip_port {
    // Size of this struct as the caller knows it, in bytes.
    uint32_t struct_size;
    // Bits `POLYCHIP_PORT_*`.
    uint32_t flags;
    // `POLYCHIP_DTYPE_*`.
    uint32_t dtype;
    // Granted layout, `POLYCHIP_LAYOUT_*`.
    uint32_t layout;
    // Number of extents.
    uint32_t rank;
    // The other port of an in-out pair that the plugin updates in place, or `POLYCHIP_NO_INDEX`.
    uint32_t state_port;
    // Alignment of the first element, in bytes: a power of two, at most 65536, the largest page. The runtime places
    // tensors at multiples of 256 and of this.
    uint32_t alignment;
    // Bits `1 << POLYCHIP_MEMORY_*` of the kinds that can be bound without a copy.
    uint32_t memory_kinds;
    // Bytes that a bound buffer must hold, at least those of the elements; 0 where an extent is 0.
    uint64_t bytes;
    // The first `rank` are the extents, in ONNX order.
    int64_t dims[POLYCHIP_MAX_RANK];
    // Strides in bytes, in ONNX order; all 0 for a dense port of a named layout.
    int64_t strides[POLYCHIP_MAX_RANK];
    // Quantisation, or null; lives as long as the executable.
    const struct polychip_encoding *encoding;
};

// A piece of memory.
struct polychip_memory {
    // Size of this struct as its writer knows it, in bytes.
    uint32_t struct_size;
    // `POLYCHIP_MEMORY_*`.
    uint32_t kind;
    // Host address, for `POLYCHIP_MEMORY_HOST`; may be given beside a file where it is mapped. Else null.
    uint8_t *data;
    // File descriptor, or `POLYCHIP_NO_FD`. It stays with whoever filled the record.
    int64_t fd;
    // Platform handle (`AHardwareBuffer *`, `IOSurfaceRef`), or 0.
    uint64_t handle;
    // Where the buffer starts in the file or handle, in bytes.
    uint64_t offset;
    // Size, in bytes.
    uint64_t bytes;
    // Alignment wanted by `buffer_create`, in bytes: a power of two, or 0 for any.
    uint64_t alignment;
};

// A buffer for a port.
struct polychip_binding {
    // Size of this struct as its writer knows it, in bytes.
    uint32_t struct_size;
    // Number of the port.
    uint32_t port;
    // Buffer of the same device.
    struct polychip_buffer *buffer;
    // Where the tensor starts in the buffer, in bytes: a multiple of the port's alignment.
    uint64_t offset;
    // Bytes from `offset` that belong to the tensor: inside the buffer, and at least the port's `bytes`
    // (or those of `dims`, where they are given).
    uint64_t bytes;
    // Actual extents of an input whose port states upper bounds, else null.
    const int64_t *dims;
    // Number of extents at `dims`.
    uint64_t rank;
};

// A run.
struct polychip_submit {
    // Size of this struct as the host knows it, in bytes.
    uint32_t struct_size;
    // `POLYCHIP_PRIORITY_*`: a hint for the order of runs.
    uint32_t priority;
    // One binding for each port, in any order. What is bound to an output overlaps no other port's
    // memory, but that of `state_port`; inputs may overlap.
    const struct polychip_binding *bindings;
    // Number of bindings.
    uint64_t binding_count;
    // Bytes from one binding to the next.
    uint64_t binding_stride;
    // Fences of the same plugin instance (or imported by it) that must signal first. The plugin takes
    // what it needs of them before `execute` returns; the host may destroy them then. A run that waits
    // for one that failed computes nothing and ends with that status.
    struct polychip_fence *const *waits;
    // Number of fences to wait for.
    uint64_t wait_count;
    // When the result is worthless, on the host's clock, in nanoseconds; or `POLYCHIP_NO_DEADLINE`. A
    // plugin that drops a run for it ends it as `POLYCHIP_STATUS_CANCELLED`.
    uint64_t deadline_ns;
    // Since 1.2. Bits `POLYCHIP_SUBMIT_*`.
    uint32_t flags;
    // 0.
    uint32_t reserved;
};

// What the device measured of a run. Times are on the host's clock.
struct polychip_timing {
    // Size of this struct as the caller knows it, in bytes.
    uint32_t struct_size;
    // Bits `POLYCHIP_TIMING_*` of the fields that hold a value.
    uint32_t valid;
    // When the device took the run into its queue, in nanoseconds.
    uint64_t queued_ns;
    // When the device began to compute, in nanoseconds.
    uint64_t start_ns;
    // When the device was done, in nanoseconds.
    uint64_t end_ns;
    // Energy of the run, in microjoules.
    uint64_t energy_uj;
    // Bytes of ports that the plugin or its library copied or converted for the run instead of using them where they
    // lie. Copies between the host's and the device's side of a buffer count with the next run that binds it.
    uint64_t copied_bytes;
};

// What the device's sensors say now.
struct polychip_telemetry {
    // Size of this struct as the caller knows it, in bytes.
    uint32_t struct_size;
    // Bits `POLYCHIP_TELEMETRY_*` of the fields that hold a value.
    uint32_t valid;
    // When the sensors were read, on the host's clock, in nanoseconds.
    uint64_t time_ns;
    // Temperature, in thousandths of a degree Celsius.
    int64_t temperature_mc;
    // Power, in milliwatts.
    uint64_t power_mw;
    // Energy since some fixed moment, in microjoules.
    uint64_t energy_uj;
    // Clock, in kilohertz.
    uint64_t frequency_khz;
    // Memory in use, in bytes.
    uint64_t memory_used_bytes;
    // Share of time spent computing, in thousandths.
    uint32_t load_permille;
    // Bits `POLYCHIP_THROTTLE_*`.
    uint32_t throttle;
};

// Since 1.2. One step of a run: what the device does at once, for one node or for several that it fuses. Name and nodes live as long
// as the fence that they came from.
struct polychip_step {
    // Size of this struct as the caller knows it, in bytes.
    uint32_t struct_size;
    // Bits `POLYCHIP_STEP_*`.
    uint32_t flags;
    // The kernel, in the plugin's words.
    struct polychip_text name;
    // Indices in the part's graph of the nodes that the step computes; none where it serves the whole part.
    const uint32_t *nodes;
    // Number of them.
    uint64_t node_count;
    // Time of the step, in nanoseconds.
    uint64_t time_ns;
    // Arithmetic operations: a multiplication and an addition are two.
    uint64_t operations;
    // Bytes read and written.
    uint64_t moved_bytes;
};

// The calls of a plugin.
struct polychip_plugin_table {
    // Size of this struct as the plugin knows it, in bytes.
    uint32_t struct_size;
    // `POLYCHIP_ABI_MAJOR` that the plugin was built for.
    uint32_t abi_major;
    // `POLYCHIP_ABI_MINOR` that the plugin was built for.
    uint32_t abi_minor;
    // Zero.
    uint32_t flags;
    // Required. Says what the plugin is. Pure: comes before `create`, touches nothing but static data.
    // Does not block. Thread-safe.
    uint32_t (*plugin_info)(struct polychip_plugin_info *out_info);
    // Required. Makes an instance and loads the vendor's library; where that is missing or too old, the
    // words name the file and the version wanted. A process may hold several instances: they share no
    // state that matters. `host` stays valid until `destroy` has returned. May block. Thread-safe.
    uint32_t (*create)(const struct polychip_host_services *host,
                       struct polychip_instance **out_instance,
                       struct polychip_error *error);
    // Required. Destroys an instance; its devices are closed before. When it returns, no thread of the
    // plugin calls the host's services any more. Accepts null. May block.
    void (*destroy)(struct polychip_instance *instance);
    // Required. Counts the devices; the number stays the same as long as the instance. 0 is allowed. May
    // block.
    uint32_t (*device_count)(struct polychip_instance *instance,
                             uint32_t *out_count,
                             struct polychip_error *error);
    // Required. Opens device `index`, below the count; the host opens each once. May block.
    uint32_t (*device_open)(struct polychip_instance *instance,
                            uint32_t index,
                            struct polychip_device **out_device,
                            struct polychip_error *error);
    // Required. Says what the device is; the same answer every time. Does not block. Thread-safe.
    uint32_t (*device_info)(struct polychip_device *device,
                            struct polychip_device_info *out_info,
                            struct polychip_error *error);
    // Required. Closes a device; its executables, buffers, blobs and fences are destroyed before. Ends
    // the plugin's threads of this device. Accepts null. May block.
    void (*device_close)(struct polychip_device *device);
    // Optional; null: the device has none. Writes the first `capacity` operating points, `stride` bytes
    // apart, each with its `struct_size` set by the caller, and the number that there are, which may be
    // more. Does not block. Thread-safe.
    uint32_t (*operating_points)(struct polychip_device *device,
                                 struct polychip_operating_point *out_points,
                                 uint64_t capacity,
                                 uint64_t stride,
                                 uint64_t *out_count,
                                 struct polychip_error *error);
    // Optional; null: the host cannot choose. Puts the device to operating point `index`, for all
    // sessions. May block. Thread-safe.
    uint32_t (*set_operating_point)(struct polychip_device *device,
                                    uint32_t index,
                                    struct polychip_error *error);
    // Required. Says for each node of the whole graph whether the device runs it; `out_support` holds one
    // record per node, `stride` bytes apart, each with its `struct_size` set by the caller. A yes is a
    // promise: `compile` then takes any part made of such nodes. A node that the device does not run is
    // an answer, never a failure of the call. Compiles nothing. May block. Thread-safe.
    uint32_t (*query_support)(struct polychip_device *device,
                              const struct polychip_graph *graph,
                              struct polychip_support *out_support,
                              uint64_t stride,
                              struct polychip_error *error);
    // Optional; null, `POLYCHIP_STATUS_UNSUPPORTED` for the whole call, or a record with no bit of
    // `valid` set for one part: the host goes by the rates of `polychip_device_info`. Estimates
    // `part_count` parts of the graph, each run by itself: `nodes` lists their nodes, one part behind
    // the other, each part in ascending order, and `part_ends` where in `nodes` each part ends.
    // `out_costs` holds one record per part, `stride` bytes apart, each with its `struct_size` set by
    // the caller. One call may ask for every node of a graph as a part of its own, so what depends on
    // the graph alone is done once per call. Does not measure and does not block. Thread-safe.
    uint32_t (*estimate)(struct polychip_device *device,
                         const struct polychip_graph *graph,
                         const uint32_t *nodes,
                         const uint64_t *part_ends,
                         uint64_t part_count,
                         struct polychip_cost *out_costs,
                         uint64_t stride,
                         struct polychip_error *error);
    // Required. Compiles a part: a graph of its own with its own numbering, made of nodes that
    // `query_support` said yes to. Nothing of `graph` but its constants' data outlives the call, and a
    // blob points not even to those. A part that turns out not to fit is refused with
    // `POLYCHIP_STATUS_UNSUPPORTED`. May block for long. Thread-safe.
    uint32_t (*compile)(struct polychip_device *device,
                        const struct polychip_graph *graph,
                        const struct polychip_compile_options *options,
                        struct polychip_blob **out_blob,
                        struct polychip_error *error);
    // Required. The bytes of a blob, for a cache; they live as long as the blob and may be made on the
    // first call. They hold no address: another process may load them. Not called after `load` took the
    // blob.
    uint32_t (*blob_bytes)(struct polychip_blob *blob,
                           struct polychip_bytes *out_bytes,
                           struct polychip_error *error);
    // Required. Destroys a blob, loaded or not. Accepts null.
    void (*blob_destroy)(struct polychip_blob *blob);
    // Required. Makes an executable of a blob, or of the bytes of one. Believes neither: bytes that are
    // torn, of another build, of another device or of another part (`content_fingerprint`) are refused
    // with `POLYCHIP_STATUS_BAD_BLOB`, and the host compiles anew. All memory that runs need is made
    // here. May block. Thread-safe.
    uint32_t (*load)(struct polychip_device *device,
                     const struct polychip_load_source *source,
                     struct polychip_executable **out_executable,
                     struct polychip_error *error);
    // Required. Says what an executable is; the same answer every time. Does not block. Thread-safe.
    uint32_t (*executable_info)(struct polychip_executable *executable,
                                struct polychip_executable_info *out_info,
                                struct polychip_error *error);
    // Required. Says what memory port `port` wants. Ports are numbered: the graph's inputs in their
    // order, then its outputs in theirs. A constant has no port. The same answer every time. Does not
    // block. Thread-safe.
    uint32_t (*port_info)(struct polychip_executable *executable,
                          uint32_t port,
                          struct polychip_port *out_port,
                          struct polychip_error *error);
    // Required. Destroys an executable. Its fences have signalled before, and may be destroyed later.
    // Accepts null.
    void (*executable_destroy)(struct polychip_executable *executable);
    // Required. Makes a buffer of `wanted.bytes` bytes (0 is allowed) in memory of `wanted.kind`, aligned
    // to `wanted.alignment` (0: any); `wanted.data`, `fd` and `handle` say nothing.
    // `POLYCHIP_MEMORY_HOST` must be offered: memory that the host can address. Another kind may be
    // refused with `POLYCHIP_STATUS_UNSUPPORTED`. The contents are undefined. May block. Thread-safe.
    uint32_t (*buffer_create)(struct polychip_device *device,
                              const struct polychip_memory *wanted,
                              struct polychip_buffer **out_buffer,
                              struct polychip_error *error);
    // Required. Makes a buffer over memory of the host without a copy, or refuses with
    // `POLYCHIP_STATUS_UNSUPPORTED`: a kind outside `import_kinds`, an address off `import_alignment`.
    // The memory stays the host's and valid until `buffer_destroy`; a descriptor is duplicated where it
    // is needed after the call. Several buffers may lie over one memory, of several devices too. May
    // block. Thread-safe.
    uint32_t (*buffer_import)(struct polychip_device *device,
                              const struct polychip_memory *memory,
                              struct polychip_buffer **out_buffer,
                              struct polychip_error *error);
    // Optional; null: other devices get a copy. Gives a buffer's memory as kind `kind` for another device
    // to import; the memory lives as long as the buffer, and a file descriptor in it stays the plugin's.
    // May block.
    uint32_t (*buffer_export)(struct polychip_buffer *buffer,
                              uint32_t kind,
                              struct polychip_memory *out_memory,
                              struct polychip_error *error);
    // Required. Makes a range inside the buffer readable or writable by the host (`POLYCHIP_ACCESS_*`, at
    // least one) and gives the address of its first byte, which is valid until `buffer_end_access`; for 0
    // bytes any address will do. What the host does not write keeps its value only where reading was
    // asked for too. The host opens one range of a buffer at a time, and none while a run uses the
    // buffer; it starts no such run before `buffer_end_access`. A plugin may refuse a breach with
    // `POLYCHIP_STATUS_BAD_ARGUMENT`. Cache maintenance for reading is here. May block.
    uint32_t (*buffer_begin_access)(struct polychip_buffer *buffer,
                                    uint32_t access,
                                    uint64_t offset,
                                    uint64_t bytes,
                                    uint8_t **out_data,
                                    struct polychip_error *error);
    // Required. Ends the access, so that runs started from now on see what the host wrote: cache
    // maintenance for writing is here. May block.
    uint32_t (*buffer_end_access)(struct polychip_buffer *buffer, struct polychip_error *error);
    // Required. Destroys a buffer that no run uses; imported memory is left as it is. Accepts null.
    void (*buffer_destroy)(struct polychip_buffer *buffer);
    // Required. Starts a run and gives its fence: takes it into the device's queue and returns. Does not
    // wait for the device, nor for `waits`. Does not allocate on the heap when warm, which is after a run
    // of the executable with as many runs in flight. A failure starts nothing and gives no fence. Several
    // runs of one executable may be in flight; runs with no fence between them may end in any order.
    // Thread-safe.
    uint32_t (*execute)(struct polychip_executable *executable,
                        const struct polychip_submit *submit,
                        struct polychip_fence **out_fence,
                        struct polychip_error *error);
    // Optional; null, or `POLYCHIP_STATUS_UNSUPPORTED`: runs end in their own time. Asks a run to end
    // early; its fence then signals `POLYCHIP_STATUS_CANCELLED`, or the run's own status where it was
    // done. Does not block. Thread-safe.
    uint32_t (*cancel)(struct polychip_fence *fence, struct polychip_error *error);
    // Optional; null: a lost or hung device is out of use as long as the instance. Resets the device: all
    // its runs end, with `POLYCHIP_STATUS_DEVICE_LOST` unless they were done; its executables are void
    // and can only be destroyed; its buffers stay. Comes while other threads wait for fences. May block.
    uint32_t (*device_reset)(struct polychip_device *device, struct polychip_error *error);
    // Required. Waits at most `timeout_ns` for the run and returns its status, with the words in `error`;
    // again and again the same. `POLYCHIP_STATUS_TIMEOUT` where the run goes on, and so never the status
    // of a run. 0 asks without waiting, `UINT64_MAX` waits without limit. Counts on the machine's clock,
    // or on `now_ns` where the device itself lives on it. What the run wrote is visible to a thread that
    // has seen it end. Thread-safe.
    uint32_t (*fence_wait)(struct polychip_fence *fence, uint64_t timeout_ns, struct polychip_error *error);
    // Optional; null: the host waits. Calls `signalled(user, status)` exactly once when the run ends, at
    // once where it has, even where the fence is destroyed before; a fence takes any number of calls. The
    // call comes from any thread, while the plugin holds no lock: it must not block, and may call the
    // plugin. Where this call fails, `signalled` is never called. Thread-safe.
    uint32_t (*fence_on_signal)(struct polychip_fence *fence,
                                void (*signalled)(void *user, uint32_t status),
                                void *user,
                                struct polychip_error *error);
    // Optional; null: the host waits in the device's stead. Makes a fence of a sync file; the plugin
    // duplicates the descriptor. Thread-safe.
    uint32_t (*fence_import_fd)(struct polychip_device *device,
                                int64_t fd,
                                struct polychip_fence **out_fence,
                                struct polychip_error *error);
    // Optional; null: as above. Gives a sync file that the caller closes. Thread-safe.
    uint32_t (*fence_export_fd)(struct polychip_fence *fence, int64_t *out_fd, struct polychip_error *error);
    // Optional; null: the host learns nothing of the device's speed, and plans stay on estimates. What
    // the device measured of a run that has ended; `POLYCHIP_STATUS_TIMEOUT` where it goes on. A run that
    // was not measured has no bit set, or gives `POLYCHIP_STATUS_UNSUPPORTED`. Does not block.
    // Thread-safe.
    uint32_t (*fence_timing)(struct polychip_fence *fence,
                             struct polychip_timing *out_timing,
                             struct polychip_error *error);
    // Optional; required of a plugin whose ports state upper bounds. Writes the first `capacity` actual
    // extents of an output port of a run that has ended, and the rank; `POLYCHIP_STATUS_TIMEOUT` where it
    // goes on. Does not block. Thread-safe.
    uint32_t (*fence_output_shape)(struct polychip_fence *fence,
                                   uint32_t port,
                                   int64_t *out_dims,
                                   uint64_t capacity,
                                   uint64_t *out_rank,
                                   struct polychip_error *error);
    // Required. Destroys a fence; the run, where it goes on, is not stopped, and runs that wait for it go
    // on waiting. Accepts null. Does not block.
    void (*fence_destroy)(struct polychip_fence *fence);
    // Optional; null: no sensors. Reads the device's sensors: one that is missing has no bit set. May
    // block for a sensor's time, not for a run. Thread-safe.
    uint32_t (*telemetry)(struct polychip_device *device,
                          struct polychip_telemetry *out_telemetry,
                          struct polychip_error *error);
    // Since 1.2. Optional; null: steps are not measured. Two calls give the same ones. Writes the first `capacity` steps of a run that was started with
    // `POLYCHIP_SUBMIT_STEPS` and has ended, in their order, `stride` bytes apart, each with its `struct_size` set by the
    // caller, and the number that there are; `POLYCHIP_STATUS_TIMEOUT` where the run goes on, and
    // `POLYCHIP_STATUS_UNSUPPORTED` where nothing was measured. Does not block. Thread-safe.
    uint32_t (*fence_steps)(struct polychip_fence *fence,
                            struct polychip_step *out_steps,
                            uint64_t capacity,
                            uint64_t stride,
                            uint64_t *out_count,
                            struct polychip_error *error);
};

#endif  /* POLYCHIP_PLUGIN_H */
