/* The part of Intel's OpenVINO C library (libopenvino_c) that we call: names, types and codes from its
 * public documentation. `cargo xtask bindgen` generates the Rust declarations.
 *
 * Codes are those of releases 2025.0 and later. Older releases have other numbers for element types,
 * which the loader detects (sys/src/openvino/library.rs).
 */
#ifndef POLYCHIP_SYS_OPENVINO_H
#define POLYCHIP_SYS_OPENVINO_H

#include <stddef.h>
#include <stdint.h>

/* status of every call */
typedef enum {
    OV_STATUS_OK = 0,
    OV_STATUS_GENERAL_ERROR = -1,
    OV_STATUS_NOT_IMPLEMENTED = -2,
    OV_STATUS_NETWORK_NOT_LOADED = -3,
    OV_STATUS_PARAMETER_MISMATCH = -4,
    OV_STATUS_NOT_FOUND = -5,
    OV_STATUS_OUT_OF_BOUNDS = -6,
    OV_STATUS_UNEXPECTED = -7,
    OV_STATUS_REQUEST_BUSY = -8,
    OV_STATUS_RESULT_NOT_READY = -9,
    OV_STATUS_NOT_ALLOCATED = -10,
    OV_STATUS_INFER_NOT_STARTED = -11,
    OV_STATUS_NETWORK_NOT_READ = -12,
    OV_STATUS_INFER_CANCELLED = -13,
    OV_STATUS_INVALID_C_PARAM = -14,
    OV_STATUS_UNKNOWN_C_ERROR = -15,
    OV_STATUS_NOT_IMPLEMENT_C_METHOD = -16,
    OV_STATUS_UNKNOWN_EXCEPTION = -17,
} ov_status_e;

/* element types */
typedef enum {
    OV_ELEMENT_DYNAMIC = 0,
    OV_ELEMENT_BOOLEAN = 1,
    OV_ELEMENT_BF16 = 2,
    OV_ELEMENT_F16 = 3,
    OV_ELEMENT_F32 = 4,
    OV_ELEMENT_F64 = 5,
    OV_ELEMENT_I4 = 6,
    OV_ELEMENT_I8 = 7,
    OV_ELEMENT_I16 = 8,
    OV_ELEMENT_I32 = 9,
    OV_ELEMENT_I64 = 10,
    OV_ELEMENT_U1 = 11,
    OV_ELEMENT_U2 = 12,
    OV_ELEMENT_U3 = 13,
    OV_ELEMENT_U4 = 14,
    OV_ELEMENT_U6 = 15,
    OV_ELEMENT_U8 = 16,
    OV_ELEMENT_U16 = 17,
    OV_ELEMENT_U32 = 18,
    OV_ELEMENT_U64 = 19,
    OV_ELEMENT_NF4 = 20,
    OV_ELEMENT_F8E4M3 = 21,
    OV_ELEMENT_F8E5M2 = 22,
    OV_ELEMENT_STRING = 23,
    OV_ELEMENT_F4E2M1 = 24,
    OV_ELEMENT_F8E8M0 = 25,
} ov_element_type_e;

typedef struct ov_core ov_core_t;
typedef struct ov_model ov_model_t;
typedef struct ov_compiled_model ov_compiled_model_t;
typedef struct ov_infer_request ov_infer_request_t;
typedef struct ov_tensor ov_tensor_t;
typedef struct ov_output_const_port ov_output_const_port_t;

typedef struct ov_version {
    const char *buildNumber;
    const char *description;
} ov_version_t;

typedef struct ov_core_version {
    const char *device_name;
    ov_version_t version;
} ov_core_version_t;

typedef struct ov_core_version_list {
    ov_core_version_t *versions;
    size_t size;
} ov_core_version_list_t;

typedef struct ov_available_devices {
    char **devices;
    size_t size;
} ov_available_devices_t;

typedef struct ov_shape {
    int64_t rank;
    int64_t *dims;
} ov_shape_t;

typedef struct ov_callback {
    void (*callback_func)(void *args);
    void *args;
} ov_callback_t;

/* status of a layer, in ov_profiling_info_t */
typedef enum {
    OV_PROFILING_NOT_RUN = 0,
    OV_PROFILING_OPTIMIZED_OUT = 1,
    OV_PROFILING_EXECUTED = 2,
} ov_profiling_status_e;

/* times in microseconds */
typedef struct ov_profiling_info {
    ov_profiling_status_e status;
    int64_t real_time;
    int64_t cpu_time;
    const char *node_name;
    const char *exec_type;
    const char *node_type;
} ov_profiling_info_t;

typedef struct ov_profiling_info_list {
    ov_profiling_info_t *profiling_infos;
    size_t size;
} ov_profiling_info_list_t;

ov_status_e ov_get_openvino_version(ov_version_t *version);
void ov_version_free(ov_version_t *version);
const char *ov_get_error_info(ov_status_e status);
/* message of the last failed call of any thread; free with ov_free */
const char *ov_get_last_err_msg(void);
void ov_free(const char *content);

ov_status_e ov_core_create(ov_core_t **core);
void ov_core_free(ov_core_t *core);
ov_status_e ov_core_get_available_devices(const ov_core_t *core, ov_available_devices_t *devices);
void ov_available_devices_free(ov_available_devices_t *devices);
ov_status_e ov_core_get_versions_by_device_name(const ov_core_t *core, const char *device_name,
                                                ov_core_version_list_t *versions);
void ov_core_versions_free(ov_core_version_list_t *versions);
/* followed by pairs of key and value, both char pointers */
ov_status_e ov_core_set_property(const ov_core_t *core, const char *device_name, ...);
/* the value is text; free with ov_free */
ov_status_e ov_core_get_property(const ov_core_t *core, const char *device_name, const char *property_key,
                                 char **property_value);
/* weights may be null; they are not read for ONNX models */
ov_status_e ov_core_read_model_from_memory_buffer(const ov_core_t *core, const char *model_str, const size_t str_len,
                                                  const ov_tensor_t *weights, ov_model_t **model);
/* property_args_size is the number of the following arguments: a key before each value, all char pointers */
ov_status_e ov_core_compile_model(const ov_core_t *core, const ov_model_t *model, const char *device_name,
                                  const size_t property_args_size, ov_compiled_model_t **compiled_model, ...);
ov_status_e ov_core_import_model(const ov_core_t *core, const char *content, const size_t content_size,
                                 const char *device_name, ov_compiled_model_t **compiled_model);

void ov_model_free(ov_model_t *model);
ov_status_e ov_model_inputs_size(const ov_model_t *model, size_t *input_size);
ov_status_e ov_model_outputs_size(const ov_model_t *model, size_t *output_size);
ov_status_e ov_model_const_input_by_index(const ov_model_t *model, const size_t index,
                                          ov_output_const_port_t **input_port);
ov_status_e ov_model_const_output_by_index(const ov_model_t *model, const size_t index,
                                           ov_output_const_port_t **output_port);

ov_status_e ov_compiled_model_inputs_size(const ov_compiled_model_t *compiled_model, size_t *size);
ov_status_e ov_compiled_model_outputs_size(const ov_compiled_model_t *compiled_model, size_t *size);
ov_status_e ov_compiled_model_input_by_index(const ov_compiled_model_t *compiled_model, const size_t index,
                                             ov_output_const_port_t **input_port);
ov_status_e ov_compiled_model_output_by_index(const ov_compiled_model_t *compiled_model, const size_t index,
                                              ov_output_const_port_t **output_port);
ov_status_e ov_compiled_model_create_infer_request(const ov_compiled_model_t *compiled_model,
                                                   ov_infer_request_t **infer_request);
ov_status_e ov_compiled_model_get_property(const ov_compiled_model_t *compiled_model, const char *property_key,
                                           char **property_value);
ov_status_e ov_compiled_model_export_model(const ov_compiled_model_t *compiled_model, const char *export_model_path);
void ov_compiled_model_free(ov_compiled_model_t *compiled_model);

ov_status_e ov_port_get_element_type(const ov_output_const_port_t *port, ov_element_type_e *tensor_type);
/* the text is freed with ov_free */
ov_status_e ov_port_get_any_name(const ov_output_const_port_t *port, char **tensor_name);
/* fails if the shape is unknown; free the shape with ov_shape_free */
ov_status_e ov_const_port_get_shape(const ov_output_const_port_t *port, ov_shape_t *tensor_shape);
void ov_output_const_port_free(ov_output_const_port_t *port);

ov_status_e ov_shape_free(ov_shape_t *shape);

ov_status_e ov_tensor_create(const ov_element_type_e type, const ov_shape_t shape, ov_tensor_t **tensor);
ov_status_e ov_tensor_create_from_host_ptr(const ov_element_type_e type, const ov_shape_t shape, void *host_ptr,
                                           ov_tensor_t **tensor);
ov_status_e ov_tensor_get_byte_size(const ov_tensor_t *tensor, size_t *byte_size);
ov_status_e ov_tensor_get_shape(const ov_tensor_t *tensor, ov_shape_t *shape);
void ov_tensor_free(ov_tensor_t *tensor);

ov_status_e ov_infer_request_set_input_tensor_by_index(ov_infer_request_t *infer_request, const size_t idx,
                                                       const ov_tensor_t *tensor);
ov_status_e ov_infer_request_set_output_tensor_by_index(ov_infer_request_t *infer_request, const size_t idx,
                                                        const ov_tensor_t *tensor);
ov_status_e ov_infer_request_infer(ov_infer_request_t *infer_request);
ov_status_e ov_infer_request_start_async(ov_infer_request_t *infer_request);
ov_status_e ov_infer_request_wait(ov_infer_request_t *infer_request);
/* milliseconds */
ov_status_e ov_infer_request_wait_for(ov_infer_request_t *infer_request, const int64_t timeout);
ov_status_e ov_infer_request_cancel(ov_infer_request_t *infer_request);
ov_status_e ov_infer_request_set_callback(ov_infer_request_t *infer_request, const ov_callback_t *callback);
ov_status_e ov_infer_request_get_profiling_info(ov_infer_request_t *infer_request,
                                                ov_profiling_info_list_t *profiling_infos);
void ov_profiling_info_list_free(ov_profiling_info_list_t *profiling_infos);
void ov_infer_request_free(ov_infer_request_t *infer_request);

#endif
