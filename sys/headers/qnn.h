/* The binary interface of Qualcomm's QNN libraries (core API 2.x, LP64), in our own words.
 *
 * This is not a vendor file: it was written from facts (sizes, offsets, slot numbers, codes), under names of
 * our own. Only the two exported symbols at the end of this comment bear the vendor's names, because
 * `dlsym` needs them. `cargo xtask bindgen` generates sys/src/qnn/bindings.rs.
 *
 * The source of each fact is marked beside it:
 *   [M]  measured, or known from the published interface and confirmed, by calls of the vendor's x86 libraries
 *        (QAIRT 2.47 to 2.51).
 *   [C]  written in a public client: ONNX Runtime (MIT; gen_qnn_ctx_onnx_model.py, the QNN provider) or
 *        ExecuTorch (BSD; the Qualcomm delegate, qcir.fbs).
 *   [U]  uncertain: general knowledge that we have not measured. With QNN_SDK_ROOT set, the test
 *        `sys/tests/qnn_layout.rs` compares sizes, offsets and codes with the user's own SDK.
 * A block's letter holds for all of the block unless a line says otherwise.
 *
 * Exported symbols: QnnInterface_getProviders (libQnnHtp.so), QnnSystemInterface_getProviders
 * (libQnnSystem.so).
 */
#ifndef POLYCHIP_QNN_H
#define POLYCHIP_QNN_H

#include <stddef.h>
#include <stdint.h>

/* ---- Codes -------------------------------------------------------------------------------------- */

/* What each call returns; 0 is success and the low 16 bits hold the code [M]. */
typedef uint64_t polychip_qnn_error;

enum {
  POLYCHIP_QNN_SUCCESS = 0,
  POLYCHIP_QNN_ERROR_CODE_MASK = 0xFFFF,
  POLYCHIP_QNN_ERROR_NOT_SUPPORTED = 1000,       /* [M] */
  POLYCHIP_QNN_ERROR_MEMORY = 1002,              /* [M] also a finalize that fails */
  POLYCHIP_QNN_ERROR_GRAPH_NOT_ENABLED = 1100,   /* [M] execute of a graph left out at load */
  POLYCHIP_QNN_ERROR_OP_REJECTED = 3110,         /* [M] validate says no */
  POLYCHIP_QNN_ERROR_CREATE = 4000,              /* [M] backendCreate refuses this machine */
  POLYCHIP_QNN_ERROR_GRAPH_FIRST = 6000,         /* [M] codes of graph calls start here */
  POLYCHIP_QNN_ERROR_TENSOR_ID = 6004,           /* [M] execute with a tensor id 0 */
  POLYCHIP_QNN_ERROR_DEVICE_CONFIG = 14001,      /* [M] device config refused */
  POLYCHIP_QNN_ERROR_BINARY_ZEROED = 30001,      /* [M] context binary of zeros */
  POLYCHIP_QNN_ERROR_BINARY_TRUNCATED = 30010    /* [M] context binary cut short */
};

/* Element types [C]: 0xKKBB, kind and decimal bits written as hexadecimal digits. */
enum {
  POLYCHIP_QNN_TYPE_I8 = 0x0008,
  POLYCHIP_QNN_TYPE_I16 = 0x0016,
  POLYCHIP_QNN_TYPE_I32 = 0x0032,
  POLYCHIP_QNN_TYPE_I64 = 0x0064,
  POLYCHIP_QNN_TYPE_U8 = 0x0108,
  POLYCHIP_QNN_TYPE_U16 = 0x0116,
  POLYCHIP_QNN_TYPE_U32 = 0x0132,
  POLYCHIP_QNN_TYPE_U64 = 0x0164,
  POLYCHIP_QNN_TYPE_F16 = 0x0216,
  POLYCHIP_QNN_TYPE_F32 = 0x0232,
  POLYCHIP_QNN_TYPE_SFIXED4 = 0x0304,            /* [U] by the pattern */
  POLYCHIP_QNN_TYPE_SFIXED8 = 0x0308,
  POLYCHIP_QNN_TYPE_SFIXED16 = 0x0316,
  POLYCHIP_QNN_TYPE_SFIXED32 = 0x0332,
  POLYCHIP_QNN_TYPE_UFIXED4 = 0x0404,            /* [U] by the pattern */
  POLYCHIP_QNN_TYPE_UFIXED8 = 0x0408,
  POLYCHIP_QNN_TYPE_UFIXED16 = 0x0416,
  POLYCHIP_QNN_TYPE_UFIXED32 = 0x0432,
  POLYCHIP_QNN_TYPE_BOOL8 = 0x0508,
  POLYCHIP_QNN_TYPE_UNDEFINED = 0x7FFFFFFF       /* [U] by the pattern of the other enums */
};

/* What a tensor is to its graph [C]. */
enum {
  POLYCHIP_QNN_TENSOR_INPUT = 0,
  POLYCHIP_QNN_TENSOR_OUTPUT = 1,
  POLYCHIP_QNN_TENSOR_INPUT_OUTPUT = 2,
  POLYCHIP_QNN_TENSOR_NATIVE = 3,                /* between nodes */
  POLYCHIP_QNN_TENSOR_STATIC = 4,                /* constant, or a tensor parameter */
  POLYCHIP_QNN_TENSOR_ABSENT = 5                 /* an optional operand left out */
};

enum {
  POLYCHIP_QNN_FORMAT_DENSE = 0,                 /* [U] 0 worked wherever we called [M] */
  POLYCHIP_QNN_MEMORY_RAW = 0,                   /* [M] client buffer: pointer and size */
  POLYCHIP_QNN_MEMORY_HANDLE = 1                 /* [U] registered memory */
};

/* Versions of the versioned structs [M]. */
enum {
  POLYCHIP_QNN_TENSOR_V1 = 1,
  POLYCHIP_QNN_TENSOR_V2 = 2,
  POLYCHIP_QNN_OP_CONFIG_V1 = 1
};

/* Quantisation [M] for 0, 1, 3 and "none"; [C] for 2. */
enum {
  POLYCHIP_QNN_QUANT_DEFINED = 1,
  POLYCHIP_QNN_QUANT_NONE = 0x7FFFFFFF,          /* both words of a tensor without encoding */
  POLYCHIP_QNN_ENCODING_PER_TENSOR = 0,
  POLYCHIP_QNN_ENCODING_PER_AXIS = 1,
  POLYCHIP_QNN_ENCODING_BITS_PER_TENSOR = 2,
  POLYCHIP_QNN_ENCODING_BITS_PER_AXIS = 3
};

enum {
  POLYCHIP_QNN_PARAM_SCALAR = 0,                 /* [U] */
  POLYCHIP_QNN_PARAM_TENSOR = 1                  /* [U] */
};

/* Log levels [U]; a lower one is more severe. */
enum {
  POLYCHIP_QNN_LOG_ERROR = 1,
  POLYCHIP_QNN_LOG_WARN = 2,
  POLYCHIP_QNN_LOG_INFO = 3,
  POLYCHIP_QNN_LOG_VERBOSE = 4,
  POLYCHIP_QNN_LOG_DEBUG = 5
};

/* Kind of the library, field `library_id` of a provider [M]. */
enum {
  POLYCHIP_QNN_LIBRARY_SAVER = 2,
  POLYCHIP_QNN_LIBRARY_CPU = 3,
  POLYCHIP_QNN_LIBRARY_GPU = 4,
  POLYCHIP_QNN_LIBRARY_HTP = 6,
  POLYCHIP_QNN_LIBRARY_IR = 9
};

/* ---- Handles ------------------------------------------------------------------------------------ */

typedef struct polychip_qnn_log_object *polychip_qnn_log;
typedef struct polychip_qnn_backend_object *polychip_qnn_backend;
typedef struct polychip_qnn_device_object *polychip_qnn_device;
typedef struct polychip_qnn_context_object *polychip_qnn_context;
typedef struct polychip_qnn_graph_object *polychip_qnn_graph;
typedef struct polychip_qnn_profile_object *polychip_qnn_profile;
typedef struct polychip_qnn_signal_object *polychip_qnn_signal;
typedef struct polychip_qnn_memory_object *polychip_qnn_memory;
typedef struct polychip_qnn_system_object *polychip_qnn_system;
typedef uint64_t polychip_qnn_event;

/* ---- Tensors [M] -------------------------------------------------------------------------------- */

typedef struct polychip_qnn_version {
  uint32_t major;
  uint32_t minor;
  uint32_t patch;
} polychip_qnn_version;

/* real = (stored + offset) * scale, that is offset = -zero_point. */
typedef struct polychip_qnn_scale_offset {
  float scale;
  int32_t offset;
} polychip_qnn_scale_offset;

typedef struct polychip_qnn_per_axis {
  int32_t axis;
  uint32_t count;
  polychip_qnn_scale_offset *pairs;
} polychip_qnn_per_axis;

typedef struct polychip_qnn_bits_per_tensor {    /* [C] fields, [U] offsets */
  uint32_t bits;
  float scale;
  int32_t offset;
} polychip_qnn_bits_per_tensor;

typedef struct polychip_qnn_bits_per_axis {
  uint32_t bits;
  int32_t axis;
  uint32_t count;
  float *scales;
  int32_t *offsets;                              /* may be null: all zero */
} polychip_qnn_bits_per_axis;

typedef union polychip_qnn_encoding {
  polychip_qnn_scale_offset per_tensor;
  polychip_qnn_per_axis per_axis;
  polychip_qnn_bits_per_tensor bits_per_tensor;
  polychip_qnn_bits_per_axis bits_per_axis;
} polychip_qnn_encoding;

typedef struct polychip_qnn_quant {
  uint32_t definition;
  uint32_t encoding;
  polychip_qnn_encoding values;
} polychip_qnn_quant;

typedef struct polychip_qnn_client_buffer {
  void *data;
  uint32_t size;                                 /* bytes; the library does not check it */
} polychip_qnn_client_buffer;

typedef union polychip_qnn_tensor_memory {
  polychip_qnn_client_buffer buffer;
  polychip_qnn_memory handle;
} polychip_qnn_tensor_memory;

typedef struct polychip_qnn_tensor_v1 {
  uint32_t id;                                   /* set by the library at creation; what execute matches by */
  const char *name;
  uint32_t kind;
  uint32_t format;
  uint32_t data_type;
  polychip_qnn_quant quant;
  uint32_t rank;
  uint32_t *dimensions;
  uint32_t memory_type;
  polychip_qnn_tensor_memory memory;
} polychip_qnn_tensor_v1;

typedef struct polychip_qnn_sparse {             /* 12 bytes [M]; their meaning [U]; zero for dense */
  uint32_t words[3];
} polychip_qnn_sparse;

/* A strict extension of version 1: shared fields can be read through version 1. */
typedef struct polychip_qnn_tensor_v2 {
  uint32_t id;
  const char *name;
  uint32_t kind;
  uint32_t format;
  uint32_t data_type;
  polychip_qnn_quant quant;
  uint32_t rank;
  uint32_t *dimensions;
  uint32_t memory_type;
  polychip_qnn_tensor_memory memory;
  uint8_t *dynamic_dimensions;
  polychip_qnn_sparse sparse;
  uint8_t produced;
} polychip_qnn_tensor_v2;

typedef union polychip_qnn_tensor_versions {
  polychip_qnn_tensor_v1 v1;
  polychip_qnn_tensor_v2 v2;
} polychip_qnn_tensor_versions;

typedef struct polychip_qnn_tensor {
  uint32_t version;
  polychip_qnn_tensor_versions tensor;
} polychip_qnn_tensor;

/* ---- Nodes [M] ---------------------------------------------------------------------------------- */

typedef union polychip_qnn_scalar_value {        /* at byte 8 [U]; size of the scalar [M] */
  float float32;
  double float64;
  uint64_t unsigned64;
  int64_t signed64;
  uint32_t unsigned32;
  int32_t signed32;
  uint16_t unsigned16;
  int16_t signed16;
  uint8_t unsigned8;
  int8_t signed8;
  uint8_t boolean;
  const char *text;
} polychip_qnn_scalar_value;

typedef struct polychip_qnn_scalar {
  uint32_t data_type;
  polychip_qnn_scalar_value value;
} polychip_qnn_scalar;

typedef union polychip_qnn_param_value {
  polychip_qnn_scalar scalar;
  polychip_qnn_tensor tensor;
} polychip_qnn_param_value;

typedef struct polychip_qnn_param {
  uint32_t kind;
  const char *name;
  polychip_qnn_param_value value;
} polychip_qnn_param;

typedef struct polychip_qnn_op_config_v1 {
  const char *name;
  const char *package_name;                      /* "qti.aisw" */
  const char *type_name;
  uint32_t param_count;
  polychip_qnn_param *params;
  uint32_t input_count;
  polychip_qnn_tensor *inputs;
  uint32_t output_count;
  polychip_qnn_tensor *outputs;
} polychip_qnn_op_config_v1;

typedef union polychip_qnn_op_config_versions {
  polychip_qnn_op_config_v1 v1;
} polychip_qnn_op_config_versions;

/* Travels by value in validateOpConfig and addNode. */
typedef struct polychip_qnn_op_config {
  uint32_t version;
  polychip_qnn_op_config_versions op;
} polychip_qnn_op_config;

typedef struct polychip_qnn_operation_name {     /* [U]; an entry of supportedOperations */
  const char *package_name;
  const char *name;
  const char *target;
} polychip_qnn_operation_name;

/* ---- Configurations: null-terminated arrays of pointers to {option, union} [M] ------------------ */

typedef union polychip_qnn_config_value {
  const void *custom;                            /* a struct of the library's own */
  const char *text;
  const char *const *texts;                      /* null-terminated */
  uint64_t unsigned64;
  uint32_t unsigned32;
  uint8_t unsigned8;
} polychip_qnn_config_value;

typedef struct polychip_qnn_config {
  uint32_t option;
  polychip_qnn_config_value value;
} polychip_qnn_config;

typedef polychip_qnn_config polychip_qnn_backend_config;
typedef polychip_qnn_config polychip_qnn_context_config;
typedef polychip_qnn_config polychip_qnn_graph_config;
typedef polychip_qnn_config polychip_qnn_device_config;
typedef polychip_qnn_config polychip_qnn_signal_config;

/* Option numbers [U]. */
enum {
  POLYCHIP_QNN_CONFIG_CUSTOM = 0,                /* of every list */
  POLYCHIP_QNN_CONTEXT_CONFIG_PRIORITY = 1,      /* value unsigned32 */
  POLYCHIP_QNN_CONTEXT_CONFIG_ENABLE_GRAPHS = 5, /* value texts */
  POLYCHIP_QNN_DEVICE_CONFIG_PLATFORM_INFO = 1   /* value custom: polychip_qnn_platform_info */
};

/* ---- The HTP library's own configuration -------------------------------------------------------- */

/* Device: the value lies at byte 8 in HTP API 5.47, 5.48, 5.50 and 5.51, at byte 4 in 5.49, and no version
 * tells which: the SoC id is written at both, the rest of the 32 bytes stays zero [M]. The number of the
 * option is [U]. The ARCH option is left out on purpose: with the other offset it is silently ignored [M]. */
enum { POLYCHIP_QNN_HTP_DEVICE_SOC = 0 };

typedef struct polychip_qnn_htp_device_config {
  uint32_t option;
  uint32_t soc_at_4;
  uint32_t soc_at_8;
  uint32_t zero[5];
} polychip_qnn_htp_device_config;

/* Graph [U], all of it; unknown options are silently ignored by the library [M]. */
enum {
  POLYCHIP_QNN_HTP_GRAPH_OPTIMIZATION = 1,       /* value: type and number */
  POLYCHIP_QNN_HTP_GRAPH_PRECISION = 2,          /* value: polychip_qnn precision */
  POLYCHIP_QNN_HTP_GRAPH_VTCM_MB = 3,
  POLYCHIP_QNN_HTP_PRECISION_F32 = 0,
  POLYCHIP_QNN_HTP_PRECISION_F16 = 1
};

typedef struct polychip_qnn_htp_optimization {
  uint32_t kind;
  float number;
} polychip_qnn_htp_optimization;

typedef union polychip_qnn_htp_graph_value {
  uint64_t unsigned64;
  uint32_t unsigned32;
  polychip_qnn_htp_optimization optimization;
} polychip_qnn_htp_graph_value;

typedef struct polychip_qnn_htp_graph_config {
  uint32_t option;
  uint32_t zero;                                 /* the value lies at byte 8 */
  polychip_qnn_htp_graph_value value;
} polychip_qnn_htp_graph_config;

/* Power: field names [C], order and numbers [U]. On x86 the calls succeed without effect [M]. */
enum {
  POLYCHIP_QNN_HTP_INFRASTRUCTURE_PERF = 0,
  POLYCHIP_QNN_HTP_POWER_DCVS_V3 = 1,
  POLYCHIP_QNN_HTP_POWER_RPC_CONTROL_LATENCY = 2,
  POLYCHIP_QNN_HTP_POWER_RPC_POLLING_TIME = 3,
  POLYCHIP_QNN_HTP_POWER_MODE_PERFORMANCE = 0x10,
  POLYCHIP_QNN_HTP_POWER_MODE_POWER_SAVER = 0x01,
  POLYCHIP_QNN_HTP_VOLTAGE_DISABLE = 0x10,
  POLYCHIP_QNN_HTP_VOLTAGE_SVS2 = 0x30,
  POLYCHIP_QNN_HTP_VOLTAGE_SVS = 0x40,
  POLYCHIP_QNN_HTP_VOLTAGE_SVS_PLUS = 0x50,
  POLYCHIP_QNN_HTP_VOLTAGE_NOM = 0x60,
  POLYCHIP_QNN_HTP_VOLTAGE_NOM_PLUS = 0x70,
  POLYCHIP_QNN_HTP_VOLTAGE_TURBO = 0x80,
  POLYCHIP_QNN_HTP_VOLTAGE_TURBO_PLUS = 0x90,
  POLYCHIP_QNN_HTP_VOLTAGE_MAX = 0xA0
};

typedef struct polychip_qnn_htp_dcvs_v3 {
  uint32_t context_id;
  uint32_t set_dcvs_enable;
  uint32_t dcvs_enable;
  uint32_t power_mode;
  uint32_t set_sleep_latency;
  uint32_t sleep_latency_us;
  uint32_t set_sleep_disable;
  uint32_t sleep_disable;
  uint32_t set_bus;
  uint32_t bus_min;
  uint32_t bus_target;
  uint32_t bus_max;
  uint32_t set_core;
  uint32_t core_min;
  uint32_t core_target;
  uint32_t core_max;
} polychip_qnn_htp_dcvs_v3;

typedef union polychip_qnn_htp_power_value {
  polychip_qnn_htp_dcvs_v3 dcvs_v3;
  uint32_t microseconds;
} polychip_qnn_htp_power_value;

typedef struct polychip_qnn_htp_power_config {
  uint32_t option;
  polychip_qnn_htp_power_value value;
} polychip_qnn_htp_power_config;

typedef struct polychip_qnn_htp_infrastructure {
  uint32_t kind;
  polychip_qnn_error (*create_power_config)(uint32_t device_id, uint32_t core_id, uint32_t *out_id);
  polychip_qnn_error (*destroy_power_config)(uint32_t id);
  polychip_qnn_error (*set_power_config)(uint32_t id, const polychip_qnn_htp_power_config *const *list);
  void *reserved_memory_config;
} polychip_qnn_htp_infrastructure;

/* ---- Platform ----------------------------------------------------------------------------------- */

/* Sizes 24, 40, 24 and the version-first layout [M]; order inside a version [C] and [U]. */
typedef struct polychip_qnn_core_info_v1 {
  uint32_t id;
  uint32_t kind;
  const void *extension;
} polychip_qnn_core_info_v1;

typedef union polychip_qnn_core_info_versions {
  polychip_qnn_core_info_v1 v1;
} polychip_qnn_core_info_versions;

typedef struct polychip_qnn_core_info {
  uint32_t version;
  polychip_qnn_core_info_versions info;
} polychip_qnn_core_info;

/* What `extension` of a hardware device of the HTP library points to [U]. */
typedef struct polychip_qnn_htp_on_chip {
  uint64_t vtcm_mb;
  uint32_t soc;
  uint8_t signed_pd;
  uint8_t dlbc;
  uint32_t arch;
} polychip_qnn_htp_on_chip;

typedef struct polychip_qnn_htp_device_extension {
  uint32_t kind;
  polychip_qnn_htp_on_chip on_chip;
} polychip_qnn_htp_device_extension;

typedef struct polychip_qnn_hardware_device_v1 {
  uint32_t id;
  uint32_t kind;
  uint32_t core_count;
  polychip_qnn_core_info *cores;
  const void *extension;
} polychip_qnn_hardware_device_v1;

typedef union polychip_qnn_hardware_device_versions {
  polychip_qnn_hardware_device_v1 v1;
} polychip_qnn_hardware_device_versions;

typedef struct polychip_qnn_hardware_device {
  uint32_t version;
  polychip_qnn_hardware_device_versions device;
} polychip_qnn_hardware_device;

typedef struct polychip_qnn_platform_info_v1 {
  uint32_t device_count;
  polychip_qnn_hardware_device *devices;
} polychip_qnn_platform_info_v1;

typedef union polychip_qnn_platform_info_versions {
  polychip_qnn_platform_info_v1 v1;
} polychip_qnn_platform_info_versions;

typedef struct polychip_qnn_platform_info {
  uint32_t version;
  polychip_qnn_platform_info_versions info;
} polychip_qnn_platform_info;

/* ---- Profile ------------------------------------------------------------------------------------ */

/* Levels [U]; event types [M]. */
enum {
  POLYCHIP_QNN_PROFILE_BASIC = 1,
  POLYCHIP_QNN_PROFILE_DETAILED = 2,
  POLYCHIP_QNN_EVENT_ESTIMATED_CYCLES = 2006,
  POLYCHIP_QNN_EVENT_ESTIMATED_CYCLES_LOWER = 2007,
  POLYCHIP_QNN_EVENT_ESTIMATED_CYCLES_UPPER = 2008,
  POLYCHIP_QNN_EVENT_DDR_BYTES_FIRST = 2011,
  POLYCHIP_QNN_EVENT_DDR_BYTES_LAST = 2016
};

typedef struct polychip_qnn_event_data {         /* 24 bytes; order [U] */
  uint32_t kind;
  uint32_t unit;
  uint64_t value;
  const char *identifier;
} polychip_qnn_event_data;

/* ---- Registered memory [C] fields, [U] offsets --------------------------------------------------- */

enum {
  POLYCHIP_QNN_MEMORY_ION = 1,
  POLYCHIP_QNN_MEMORY_CUSTOM = 2,
  POLYCHIP_QNN_MEMORY_DMA_BUF = 3
};

typedef struct polychip_qnn_memory_shape {
  uint32_t rank;
  uint32_t *dimensions;
  const char *shape_config;
} polychip_qnn_memory_shape;

typedef struct polychip_qnn_dma_buf {
  int32_t fd;
  void *data;
} polychip_qnn_dma_buf;

typedef union polychip_qnn_memory_source {
  int32_t ion_fd;
  polychip_qnn_dma_buf dma_buf;
  const void *custom;
} polychip_qnn_memory_source;

typedef struct polychip_qnn_memory_descriptor {
  polychip_qnn_memory_shape shape;
  uint32_t data_type;
  uint32_t kind;
  polychip_qnn_memory_source source;
} polychip_qnn_memory_descriptor;

/* What `custom` points to for the HTP [C]: memory behind a descriptor, from `offset` on; `size` is that of all of it. Public
 * clients find that the HTP takes dma-bufs in this form and in no other. */
enum {
  POLYCHIP_QNN_HTP_MEMORY_QURT = 0,
  POLYCHIP_QNN_HTP_MEMORY_SHARED = 1
};

typedef struct polychip_qnn_htp_shared {
  int32_t fd;
  uint64_t offset;
} polychip_qnn_htp_shared;

typedef struct polychip_qnn_htp_memory {
  uint32_t kind;
  uint64_t size;
  polychip_qnn_htp_shared shared;
} polychip_qnn_htp_memory;

/* ---- Callbacks [M] ------------------------------------------------------------------------------ */

/* `arguments` is a va_list; on x86_64 and AArch64 Linux it travels as one opaque pointer, which vsnprintf
 * takes. Called from several threads; `timestamp` in an unknown unit [U]. */
typedef void (*polychip_qnn_log_callback)(const char *format, uint32_t level, uint64_t timestamp,
                                          void *arguments);

/* The status is a struct of one field, which equals a 64-bit integer to the ABI. */
typedef void (*polychip_qnn_notify)(void *parameter, uint64_t status);

/* ---- The library's table: 68 slots [M], signatures [C] ------------------------------------------ */

typedef struct polychip_qnn_table {
  /* 0 */ polychip_qnn_error (*has_capability)(uint32_t key);
  /* 1 */ polychip_qnn_error (*backend_create)(polychip_qnn_log log,
                                               const polychip_qnn_backend_config *const *config,
                                               polychip_qnn_backend *out_backend);
  void *reserved_2;
  void *reserved_3;
  /* 4 */ polychip_qnn_error (*build_id)(const char **out_id);
  void *reserved_5;
  /* 6 */ polychip_qnn_error (*supported_operations)(polychip_qnn_backend backend, uint32_t *out_count,
                                                     const polychip_qnn_operation_name **out_operations);
  /* 7 */ polychip_qnn_error (*validate_op_config)(polychip_qnn_backend backend,
                                                   polychip_qnn_op_config op);
  /* 8 */ polychip_qnn_error (*backend_free)(polychip_qnn_backend backend);
  /* 9 */ polychip_qnn_error (*context_create)(polychip_qnn_backend backend, polychip_qnn_device device,
                                               const polychip_qnn_context_config *const *config,
                                               polychip_qnn_context *out_context);
  void *reserved_10;
  /* 11 */ polychip_qnn_error (*binary_size)(polychip_qnn_context context, uint64_t *out_bytes);
  /* 12 */ polychip_qnn_error (*get_binary)(polychip_qnn_context context, void *buffer, uint64_t bytes,
                                            uint64_t *out_written);
  /* 13 */ polychip_qnn_error (*create_from_binary)(polychip_qnn_backend backend,
                                                    polychip_qnn_device device,
                                                    const polychip_qnn_context_config *const *config,
                                                    const void *binary, uint64_t bytes,
                                                    polychip_qnn_context *out_context,
                                                    polychip_qnn_profile profile);
  /* 14 */ polychip_qnn_error (*context_free)(polychip_qnn_context context, polychip_qnn_profile profile);
  /* 15 */ polychip_qnn_error (*graph_create)(polychip_qnn_context context, const char *name,
                                              const polychip_qnn_graph_config *const *config,
                                              polychip_qnn_graph *out_graph);
  void *reserved_16;
  void *reserved_17;
  /* 18 */ polychip_qnn_error (*add_node)(polychip_qnn_graph graph, polychip_qnn_op_config op);
  /* 19 */ polychip_qnn_error (*finalize)(polychip_qnn_graph graph, polychip_qnn_profile profile,
                                          polychip_qnn_signal signal);
  /* 20 */ polychip_qnn_error (*retrieve)(polychip_qnn_context context, const char *name,
                                          polychip_qnn_graph *out_graph);
  /* 21 */ polychip_qnn_error (*execute)(polychip_qnn_graph graph, const polychip_qnn_tensor *inputs,
                                         uint32_t input_count, polychip_qnn_tensor *outputs,
                                         uint32_t output_count, polychip_qnn_profile profile,
                                         polychip_qnn_signal signal);
  /* 22 */ polychip_qnn_error (*execute_async)(polychip_qnn_graph graph, const polychip_qnn_tensor *inputs,
                                               uint32_t input_count, polychip_qnn_tensor *outputs,
                                               uint32_t output_count, polychip_qnn_profile profile,
                                               polychip_qnn_signal signal, polychip_qnn_notify notify,
                                               void *notify_parameter);
  void *reserved_23;
  /* 24 */ polychip_qnn_error (*create_graph_tensor)(polychip_qnn_graph graph, polychip_qnn_tensor *tensor);
  /* 25 */ polychip_qnn_error (*log_create)(polychip_qnn_log_callback callback, uint32_t max_level,
                                            polychip_qnn_log *out_log);
  /* 26 */ polychip_qnn_error (*log_set_level)(polychip_qnn_log log, uint32_t max_level);
  /* 27 */ polychip_qnn_error (*log_free)(polychip_qnn_log log);
  /* 28 */ polychip_qnn_error (*profile_create)(polychip_qnn_backend backend, uint32_t level,
                                                polychip_qnn_profile *out_profile);
  void *reserved_29;
  /* 30 */ polychip_qnn_error (*profile_events)(polychip_qnn_profile profile,
                                                const polychip_qnn_event **out_events, uint32_t *out_count);
  /* 31 */ polychip_qnn_error (*profile_sub_events)(polychip_qnn_event event,
                                                    const polychip_qnn_event **out_events,
                                                    uint32_t *out_count);
  /* 32 */ polychip_qnn_error (*profile_event_data)(polychip_qnn_event event,
                                                    polychip_qnn_event_data *out_data);
  void *reserved_33;
  /* 34 */ polychip_qnn_error (*profile_free)(polychip_qnn_profile profile);
  /* 35 */ polychip_qnn_error (*memory_register)(polychip_qnn_context context,
                                                 const polychip_qnn_memory_descriptor *descriptors,
                                                 uint32_t count, polychip_qnn_memory *out_handles);
  /* 36 */ polychip_qnn_error (*memory_deregister)(const polychip_qnn_memory *handles, uint32_t count);
  /* 37 */ polychip_qnn_error (*platform_info)(polychip_qnn_log log,
                                               const polychip_qnn_platform_info **out_info);
  /* 38 */ polychip_qnn_error (*platform_info_free)(polychip_qnn_log log,
                                                    const polychip_qnn_platform_info *info);
  /* 39 */ polychip_qnn_error (*infrastructure)(const polychip_qnn_htp_infrastructure **out_infrastructure);
  /* 40 */ polychip_qnn_error (*device_create)(polychip_qnn_log log,
                                               const polychip_qnn_device_config *const *config,
                                               polychip_qnn_device *out_device);
  void *reserved_41;
  /* 42 */ polychip_qnn_error (*device_info)(polychip_qnn_device device,
                                             const polychip_qnn_platform_info **out_info);
  /* 43 */ polychip_qnn_error (*device_free)(polychip_qnn_device device);
  /* 44 */ polychip_qnn_error (*signal_create)(polychip_qnn_backend backend,
                                               const polychip_qnn_signal_config *const *config,
                                               polychip_qnn_signal *out_signal);
  /* 45 */ polychip_qnn_error (*signal_set_config)(polychip_qnn_signal signal,
                                                   const polychip_qnn_signal_config *const *config);
  /* 46 */ polychip_qnn_error (*signal_trigger)(polychip_qnn_signal signal);
  /* 47 */ polychip_qnn_error (*signal_free)(polychip_qnn_signal signal);
  /* 48 */ polychip_qnn_error (*error_message)(polychip_qnn_error error, const char **out_message);
  void *reserved_49[5];
  /* 54 */ polychip_qnn_error (*validate_binary)(polychip_qnn_backend backend, polychip_qnn_device device,
                                                 const polychip_qnn_context_config *const *config,
                                                 const void *binary, uint64_t bytes);
  void *reserved_55[13];
} polychip_qnn_table;

/* An entry of the list that QnnInterface_getProviders gives [M]. */
typedef struct polychip_qnn_provider {
  uint32_t library_id;
  const char *name;
  polychip_qnn_version core_api;
  polychip_qnn_version library_api;
  polychip_qnn_table table;
} polychip_qnn_provider;

typedef polychip_qnn_error (*polychip_qnn_get_providers)(const polychip_qnn_provider *const **out_list,
                                                         uint32_t *out_count);

/* ---- The System library ------------------------------------------------------------------------- */

/* Field names [C], their order [U]; versions 2 and 3 of both are taken to be extensions of version 1, as
 * far as the graph list is concerned. */
enum {
  POLYCHIP_QNN_BINARY_INFO_V1 = 1,
  POLYCHIP_QNN_BINARY_INFO_V2 = 2,
  POLYCHIP_QNN_BINARY_INFO_V3 = 3,
  POLYCHIP_QNN_GRAPH_INFO_V1 = 1,
  POLYCHIP_QNN_GRAPH_INFO_V2 = 2,
  POLYCHIP_QNN_GRAPH_INFO_V3 = 3
};

typedef struct polychip_qnn_graph_info_v1 {
  const char *name;
  uint32_t input_count;
  polychip_qnn_tensor *inputs;
  uint32_t output_count;
  polychip_qnn_tensor *outputs;
} polychip_qnn_graph_info_v1;

typedef struct polychip_qnn_graph_info_v2 {
  polychip_qnn_graph_info_v1 v1;
  uint32_t updateable_count;
  polychip_qnn_tensor *updateable;
} polychip_qnn_graph_info_v2;

typedef struct polychip_qnn_graph_info_v3 {
  polychip_qnn_graph_info_v2 v2;
  uint32_t extra_bytes;
  const void *extra;
} polychip_qnn_graph_info_v3;

typedef union polychip_qnn_graph_info_versions {
  polychip_qnn_graph_info_v1 v1;
  polychip_qnn_graph_info_v2 v2;
  polychip_qnn_graph_info_v3 v3;
} polychip_qnn_graph_info_versions;

typedef struct polychip_qnn_graph_info {
  uint32_t version;
  polychip_qnn_graph_info_versions info;
} polychip_qnn_graph_info;

typedef struct polychip_qnn_binary_info_v1 {
  uint32_t library_id;
  const char *build_id;
  polychip_qnn_version core_api;
  polychip_qnn_version library_api;
  const char *soc_version;
  polychip_qnn_version hardware_blob_version;
  polychip_qnn_version context_blob_version;
  uint32_t hardware_blob_bytes;
  const void *hardware_blob;
  uint32_t context_blob_bytes;
  const void *context_blob;
  uint32_t tensor_count;
  polychip_qnn_tensor *tensors;
  uint32_t graph_count;
  polychip_qnn_graph_info *graphs;
} polychip_qnn_binary_info_v1;

typedef struct polychip_qnn_binary_info_v2 {
  polychip_qnn_binary_info_v1 v1;
  uint32_t extra_bytes;
  const void *extra;
} polychip_qnn_binary_info_v2;

typedef struct polychip_qnn_binary_info_v3 {
  polychip_qnn_binary_info_v2 v2;
  uint32_t soc;                                  /* recorded [M]; where [U] */
} polychip_qnn_binary_info_v3;

typedef union polychip_qnn_binary_info_versions {
  polychip_qnn_binary_info_v1 v1;
  polychip_qnn_binary_info_v2 v2;
  polychip_qnn_binary_info_v3 v3;
} polychip_qnn_binary_info_versions;

typedef struct polychip_qnn_binary_info {
  uint32_t version;
  polychip_qnn_binary_info_versions info;
} polychip_qnn_binary_info;

/* 13 slots [M], signatures [C]. */
typedef struct polychip_qnn_system_table {
  /* 0 */ polychip_qnn_error (*create)(polychip_qnn_system *out_system);
  /* 1 */ polychip_qnn_error (*get_binary_info)(polychip_qnn_system system, void *binary, uint64_t bytes,
                                                const polychip_qnn_binary_info **out_info,
                                                uint64_t *out_info_bytes);
  /* 2 */ polychip_qnn_error (*get_metadata)(polychip_qnn_system system, const void *binary, uint64_t bytes,
                                             const polychip_qnn_binary_info **out_info);
  /* 3 */ polychip_qnn_error (*free)(polychip_qnn_system system);
  void *reserved_4[9];
} polychip_qnn_system_table;

/* An entry of the list that QnnSystemInterface_getProviders gives [M]. */
typedef struct polychip_qnn_system_provider {
  uint32_t library_id;
  const char *name;
  polychip_qnn_version system_api;
  polychip_qnn_system_table table;
} polychip_qnn_system_provider;

typedef polychip_qnn_error (*polychip_qnn_system_get_providers)(
    const polychip_qnn_system_provider *const **out_list, uint32_t *out_count);

#endif
