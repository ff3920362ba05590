/* The C library of Polychip, libpolychip: runs one neural network across every chip of a device. docs/c.md is the guide,
 * examples/c has programs in C and C++.
 *
 * Rules for every call; the comment of a call says what differs.
 *
 * 1. Status. A call returns POLYCHIP_OK or a POLYCHIP_ERROR_*. It writes its results (`out_...`) only with POLYCHIP_OK.
 * 2. Failures. `failure` is null or a record whose `struct_size` is set. A call that fails fills it in: what is wrong with
 *    which thing. A call that succeeds leaves it alone. There is no error state in the library, so threads and coroutines
 *    never see each other's.
 * 3. Arguments are valid during the call, unless its comment says longer. Text is UTF-8 and ends with a zero byte. Null, text
 *    that is no UTF-8, codes and sizes that are none are answered with POLYCHIP_ERROR_BAD_ARGUMENT. Beside a count of 0 a
 *    pointer may be null.
 * 4. Sizes. A struct that begins with `struct_size` grows at its end with later minor versions. The caller sets the size, also of
 *    a struct to be filled in, to the sizeof of its header; a library that knows less of it leaves the rest alone.
 * 5. Handles are 64-bit numbers, and 0 is none. Each is checked at every use, in release builds too: one that was destroyed,
 *    that was never made or that is of another kind is answered with POLYCHIP_ERROR_BAD_HANDLE. Handles may be destroyed in
 *    any order, also while another thread makes a call with them: what is in use stays until that call has ended.
 * 6. Threads. Every call may come from any thread, from several at once, on the same handles too. Callbacks come from any
 *    thread and must not throw: in C++17 their types say noexcept, so that others do not compile. No lock of the library is
 *    held while a callback is called.
 * 7. Nothing unwinds out of a call. After fork a child may not use the library (POLYCHIP_ERROR_FORKED) before it calls exec.
 *    The library is never unloaded.
 */

#ifndef POLYCHIP_H
#define POLYCHIP_H

/* Made by cbindgen from capi: `cargo xtask header`. Do not edit. */

#include <stdint.h>
#include <stddef.h>

#if defined(__cpp_noexcept_function_type)
#define POLYCHIP_NOEXCEPT noexcept
#else
#define POLYCHIP_NOEXCEPT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What the app has called once its memory is not used any more. */
typedef void (*polychip_release_callback_t)(void *user) POLYCHIP_NOEXCEPT;

/* What the app has called when a run has ended, with what polychip_run_wait then returns. */
typedef void (*polychip_done_callback_t)(void *user, uint32_t status) POLYCHIP_NOEXCEPT;

/* What the app has called with each record of the library: its level (POLYCHIP_LOG_*), the part of the library that it comes
 * from, and what it says. Both texts live during the call. */
typedef void (*polychip_log_callback_t)(void *user, uint32_t level, const char *source, const char *message) POLYCHIP_NOEXCEPT;

/* What the app has called while polychip_runtime_measure measures, from its thread: so many parts of all are known well enough, and
 * this one is measured now on this device. Both texts live during the call. With anything but 0 it ends there. */
typedef uint32_t (*polychip_progress_callback_t)(void *user, uint64_t done, uint64_t total, const char *part,
                                                 const char *device) POLYCHIP_NOEXCEPT;

#ifdef __cplusplus
}
#endif


// Bytes of `message`, its last zero byte among them.
#define POLYCHIP_FAILURE_MESSAGE_BYTES 1936

// Bytes of `device`, its last zero byte among them.
#define POLYCHIP_FAILURE_DEVICE_BYTES 96

// Nothing is added to times that were not measured.
#define POLYCHIP_MARGIN_NONE UINT32_MAX

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

// The models as wholes on each device, and parts of the plans that are chosen.
#define POLYCHIP_MEASURE_WHOLES 1

// What the models consist of: fusion groups, and nodes by themselves.
#define POLYCHIP_MEASURE_OPS 2

// The plan, for people and for polychip_plan_read.
#define POLYCHIP_PLAN_FILE 0

// The same as a lock: also with what launches, links and whole parts cost when it was made.
#define POLYCHIP_PLAN_LOCK 1

// As long as it takes.
#define POLYCHIP_FOREVER UINT64_MAX

// What becomes of a late run: as the policy says.
#define POLYCHIP_LATE_BY_POLICY 0

// It goes on.
#define POLYCHIP_LATE_FINISH 1

// It is dropped once its deadline has passed before all of its parts were with their devices.
#define POLYCHIP_LATE_DROP 2

// It is dropped once another run of its session comes before one of its parts was with a device.
#define POLYCHIP_LATE_LATEST 3

// Most axes of a tensor.
#define POLYCHIP_MAX_RANK 16

// Elements are read.
#define POLYCHIP_ACCESS_READ 1

// Elements are written, and perhaps read.
#define POLYCHIP_ACCESS_WRITE 2

// A file of memory (memfd), or any that can be mapped shared.
#define POLYCHIP_IMPORT_FILE 1

// A dma-buf, such as a frame of a camera.
#define POLYCHIP_IMPORT_DMA_BUF 2

// The true shape is known after the run; the shape is an upper bound.
#define POLYCHIP_INFO_UPPER_BOUND 1

// A sequence, an optional or strings, packed into bytes: the type is u8, and the shape is the most bytes.
#define POLYCHIP_INFO_PACKED 2

// Major version of this header. While it is 0, a library of another minor version is not compatible.
#define POLYCHIP_VERSION_MAJOR 0

// Minor version of this header.
#define POLYCHIP_VERSION_MINOR 1

// Patch version of this header.
#define POLYCHIP_VERSION_PATCH 0

// No records.
#define POLYCHIP_LOG_OFF 0

// What failed and is told to nobody else.
#define POLYCHIP_LOG_ERROR 1

// What did not go as it should.
#define POLYCHIP_LOG_WARN 2

// What happened.
#define POLYCHIP_LOG_INFO 3

// What happened, in detail.
#define POLYCHIP_LOG_DEBUG 4

// Everything.
#define POLYCHIP_LOG_TRACE 5

// The call did what was asked.
#define POLYCHIP_OK 0

// An argument breaks the rules of the call: null, a size, a code, text that is not UTF-8.
#define POLYCHIP_ERROR_BAD_ARGUMENT 1

// A handle was destroyed, was never made, or is of another kind.
#define POLYCHIP_ERROR_BAD_HANDLE 2

// The model cannot be read, is malformed, or breaks the ONNX standard.
#define POLYCHIP_ERROR_BAD_MODEL 3

// A tensor has the wrong name, shape, type or size, or a setting is not known.
#define POLYCHIP_ERROR_BAD_INPUT 4

// No device that was asked for can run some part of the model.
#define POLYCHIP_ERROR_NO_DEVICE 5

// A plan is malformed, or for another model or device.
#define POLYCHIP_ERROR_BAD_PLAN 6

// A plugin or device that was asked for is not there, or a library was refused.
#define POLYCHIP_ERROR_BAD_PLUGIN 7

// A device failed while compiling, loading or running.
#define POLYCHIP_ERROR_DEVICE_FAILED 8

// A device was lost, or hung.
#define POLYCHIP_ERROR_DEVICE_LOST 9

// Memory is in use by a run in flight or mapped, or as many runs are in flight as the policy allows.
#define POLYCHIP_ERROR_IN_FLIGHT 10

// The wait ran out of time; the run goes on.
#define POLYCHIP_ERROR_TIMEOUT 11

// The run was cancelled.
#define POLYCHIP_ERROR_CANCELLED 12

// The run was late, or overtaken, and was dropped as the policy says.
#define POLYCHIP_ERROR_DROPPED 13

// Admission refused the session.
#define POLYCHIP_ERROR_NOT_ADMITTED 14

// The profile is foreign, corrupt, of another version, or cannot be written.
#define POLYCHIP_ERROR_BAD_PROFILE 15

// A file cannot be read or written.
#define POLYCHIP_ERROR_IO 16

// The process was forked after the library was first used; a child must call `exec` before it uses the library.
#define POLYCHIP_ERROR_FORKED 17

// A fault of the library itself; please report its words.
#define POLYCHIP_ERROR_INTERNAL 18

// The session was closed and starts no more runs.
#define POLYCHIP_ERROR_CLOSED 19

// Text for people.
#define POLYCHIP_FORMAT_TEXT 0

// JSON.
#define POLYCHIP_FORMAT_JSON 1

// What a call answers: POLYCHIP_OK, or a POLYCHIP_ERROR_*.
typedef uint32_t polychip_status_t;

// Plugins, their devices and the profile, shared by all models and sessions.
typedef uint64_t polychip_runtime_t;

// A model, ready to be planned.
typedef uint64_t polychip_model_t;

// What an app asks of a session: the aim, the limits, the devices, the threads.
typedef uint64_t polychip_policy_t;

// A session that is to be admitted.
struct polychip_wanted {
    // Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_wanted).
    uint32_t struct_size;
    // What is added to the predicted times of parts that were not measured, in thousandths; 0 is the usual half, and
    // POLYCHIP_MARGIN_NONE nothing.
    uint32_t margin_permille;
    // What reports call it.
    const char *name;
    // Its model.
    polychip_model_t model;
    // Its policy, of which `priority`, `period` and `deadline` count; without a period its runs come without end.
    polychip_policy_t policy;
};

// A model compiled for its devices, ready to run.
typedef uint64_t polychip_session_t;

// A text that the library made: a report, a list.
typedef uint64_t polychip_text_t;

// Why a call failed. The caller owns the record and sets `struct_size` before the call; a call that fails fills in the
// rest, a call that succeeds leaves it alone.
struct polychip_failure {
    // Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_failure).
    uint32_t struct_size;
    // What the call returned.
    polychip_status_t status;
    // Bytes of `message` in use, without the zero byte.
    uint32_t message_bytes;
    // Zero.
    uint32_t reserved;
    // The device or plugin that failed, as `cpu:0`; empty where none did. Ends with a zero byte.
    char device[POLYCHIP_FAILURE_DEVICE_BYTES];
    // What is wrong with which thing, in UTF-8; ends with a zero byte, cut between two characters where it is longer.
    char message[POLYCHIP_FAILURE_MESSAGE_BYTES];
};

// What is to be measured, and how well. All zeros but `struct_size` is what null says.
struct polychip_measure_options {
    // Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_measure_options).
    uint32_t struct_size;
    // POLYCHIP_MEASURE_* together; 0 is POLYCHIP_MEASURE_WHOLES.
    uint32_t what;
    // Ends after this time, in nanoseconds; 0 when all is known.
    uint64_t time_ns;
    // Half the width of a median's interval over the median, in millionths, below which a part is known well enough; 0 is
    // 30,000 (3 %).
    uint64_t goal_ppm;
    // Says how far it is, and may end it; null calls nobody. It may call the library.
    polychip_progress_callback_t on_progress;
    // Handed to `on_progress`.
    void *user;
};

// A plan: which nodes run on which device, and why.
typedef uint64_t polychip_plan_t;

// Memory with a type and a shape.
typedef uint64_t polychip_tensor_t;

// What is said of one run alone. All zeros but `struct_size` is what null says.
struct polychip_run_options {
    // Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_run_options).
    uint32_t struct_size;
    // One of POLYCHIP_LATE_*.
    uint32_t late;
    // The run is late where it takes longer, in nanoseconds; 0 leaves it to the policy.
    uint64_t deadline_ns;
    // Where as many runs are in flight as the policy allows, waits for a place at most so long, in nanoseconds; 0 does not
    // wait.
    uint64_t queue_timeout_ns;
    // Called once when the run has ended, on a thread of the library; null calls nobody. It may call the library.
    polychip_done_callback_t on_done;
    // Handed to `on_done`.
    void *user;
};

// A run in flight, or one that has ended, with its outputs.
typedef uint64_t polychip_run_t;

// Type and shape of a tensor, or of an input or output of a session.
struct polychip_tensor_info {
    // Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_tensor_info).
    uint32_t struct_size;
    // One of POLYCHIP_DTYPE_*.
    uint32_t dtype;
    // Number of axes.
    uint32_t rank;
    // POLYCHIP_INFO_* in which this differs from a plain tensor.
    uint32_t flags;
    // Bit i is set where the model leaves the size of axis i open: each run gives it.
    uint32_t open_axes;
    // Zero.
    uint32_t reserved;
    // Bytes of all elements; 0 where a size is open.
    uint64_t bytes;
    // Name in the model, valid until the session is destroyed; null of a tensor.
    const char *name;
    // Size of each axis, in ONNX order; 0 where it is open, and behind the last axis.
    uint64_t shape[POLYCHIP_MAX_RANK];
};

// What a runtime is made of, in words.
typedef uint64_t polychip_builder_t;

// A device of a runtime. The texts are valid until the runtime is destroyed.
struct polychip_listed_device {
    // Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_listed_device).
    uint32_t struct_size;
    // Zero.
    uint32_t reserved;
    // Its name in policies and reports, as `cpu:0`.
    const char *name;
    // Its name for people.
    const char *description;
    // `cpu`, `gpu`, `npu`, `dsp` or `other`.
    const char *kind;
};

// Type and shape of a tensor that is to be made.
struct polychip_tensor_desc {
    // Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_tensor_desc).
    uint32_t struct_size;
    // One of POLYCHIP_DTYPE_*.
    uint32_t dtype;
    // Number of axes, at most POLYCHIP_MAX_RANK.
    uint32_t rank;
    // Zero.
    uint32_t reserved;
    // Size of each axis, in ONNX order.
    const uint64_t *shape;
    // Elements between two neighbours of each axis, or null for row-major order without gaps; other orders are refused.
    const int64_t *strides;
};

// Memory that lies in a file.
struct polychip_import {
    // Size of this struct as the caller knows it, in bytes: sizeof(struct polychip_import).
    uint32_t struct_size;
    // One of POLYCHIP_IMPORT_*.
    uint32_t kind;
    // The file, which is duplicated: the caller closes its own.
    int32_t descriptor;
    // Zero.
    uint32_t reserved;
    // First byte of the tensor; 0 of a dma-buf.
    uint64_t offset;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Whether sessions of these models meet their deadlines beside each other and all that were admitted before: with POLYCHIP_OK
// they do and are made, in their order, in `out_sessions`, which has a place for each; with POLYCHIP_ERROR_NOT_ADMITTED that
// could not be proved. In both cases `out_text`, where it is not null, is the proof or what stands against it, with a
// POLYCHIP_FORMAT_*. A session is among the admitted ones until it is destroyed. May take seconds. Thread-safe.
polychip_status_t polychip_runtime_admit(polychip_runtime_t runtime,
                                         const struct polychip_wanted *wanted,
                                         uint64_t count,
                                         uint32_t format,
                                         polychip_session_t *out_sessions,
                                         polychip_text_t *out_text,
                                         struct polychip_failure *failure);

// The proof of all sessions that are admitted now, as they run, with a POLYCHIP_FORMAT_*; empty where there are none.
// Thread-safe.
polychip_status_t polychip_runtime_admitted(polychip_runtime_t runtime,
                                            uint32_t format,
                                            polychip_text_t *out_text,
                                            struct polychip_failure *failure);

// Changes a setting while the session runs: `learn` (`no`, `watch`, `yes`, `2%` to `20%`), `deadline` (`33ms` or `no`), and of
// a session whose policy has `governed` or what implies it `background`, `battery-saver`, `frame-period`, `max-power`,
// `max-temperature`, `max-surface`, `thermal-headroom`, `battery`. docs/c.md lists them, and so does the failure of a name that is none. Thread-safe.
polychip_status_t polychip_session_set(polychip_session_t session,
                                       const char *name,
                                       const char *value,
                                       struct polychip_failure *failure);

// Whether the next frame is to run (1) or not (0), where the governor skips some to keep a limit; 1 in a session without one.
// Each call counts a frame. Thread-safe.
polychip_status_t polychip_session_takes_frame(polychip_session_t session,
                                               uint32_t *out_takes,
                                               struct polychip_failure *failure);

// Reads the sensors and lets the governor decide, now, and gives what the sensors said, as JSON: what a governed session does
// by itself, except on virtual time. Thread-safe.
polychip_status_t polychip_session_govern(polychip_session_t session,
                                          polychip_text_t *out_text,
                                          struct polychip_failure *failure);

// What the governor was told and decided until now: JSON, a line each, from which it can be replayed. Thread-safe.
polychip_status_t polychip_session_decisions(polychip_session_t session,
                                             polychip_text_t *out_text,
                                             struct polychip_failure *failure);

// Sends the library's records of a level (POLYCHIP_LOG_*) and of those below it to a callback, in the place of the one
// before; to nobody with null. Calls come from any thread, from several at once, and one that has begun may end after this
// has returned. The callback must not call the library. Thread-safe.
polychip_status_t polychip_log_set(uint32_t level,
                                   polychip_log_callback_t callback,
                                   void *user,
                                   struct polychip_failure *failure);

// Measures what plans for these models rest on: links between devices, models on each device, parts of the plans that are
// chosen; with null as the options, until all is known within 3 %. Plans that are made afterwards go by it, and where the
// builder was given a `profile`, those of later processes too. `out_text` says what was measured and what is chosen now, with a
// POLYCHIP_FORMAT_*. Takes seconds to minutes; the thread waits. Thread-safe.
polychip_status_t polychip_runtime_measure(polychip_runtime_t runtime,
                                           const polychip_model_t *models,
                                           uint64_t count,
                                           polychip_policy_t policy,
                                           const struct polychip_measure_options *options,
                                           uint32_t format,
                                           polychip_text_t *out_text,
                                           struct polychip_failure *failure);

// Reads an ONNX model of a file, whose weights stay in the mapped file: it must not change while the model is used.
// Thread-safe.
polychip_status_t polychip_model_load(polychip_runtime_t runtime,
                                      const char *path,
                                      polychip_model_t *out_model,
                                      struct polychip_failure *failure);

// Reads an ONNX model of memory; messages call it `name`. With a callback the bytes are lent: they are not copied, must
// not change, and are released when neither the model nor a session of it uses them, from any thread. Where this call
// fails, `release` is not called. With null the bytes are copied. Weights in files beside the model are not found.
// Thread-safe.
polychip_status_t polychip_model_load_bytes(polychip_runtime_t runtime,
                                            const char *name,
                                            const void *data,
                                            uint64_t bytes,
                                            polychip_release_callback_t release,
                                            void *user,
                                            polychip_model_t *out_model,
                                            struct polychip_failure *failure);

// Maps an ONNX model that lies in an open file from byte `offset` on and has `bytes` bytes, or with 0 goes to the file's
// end: an asset inside an Android package, say. Messages call it `name`. The descriptor is duplicated: the caller closes
// its own. Weights in files beside the model are not found. Unix only. Thread-safe.
polychip_status_t polychip_model_load_file(polychip_runtime_t runtime,
                                           const char *name,
                                           int32_t descriptor,
                                           uint64_t offset,
                                           uint64_t bytes,
                                           polychip_model_t *out_model,
                                           struct polychip_failure *failure);

// A model with a size for one dimension that this one only names; this one stays as it is. A session does without: there
// the tensors of each run give the sizes. Thread-safe.
polychip_status_t polychip_model_bind(polychip_model_t model,
                                      const char *dimension,
                                      uint64_t size,
                                      polychip_model_t *out_model,
                                      struct polychip_failure *failure);

// Destroys a model; 0 is none, and allowed. Sessions of it stay. Thread-safe.
polychip_status_t polychip_model_destroy(polychip_model_t model, struct polychip_failure *failure);

// Plans a model, and compiles nothing; with 0 as the policy, for the shortest time of a run. May take seconds. Thread-safe.
polychip_status_t polychip_plan_create(polychip_runtime_t runtime,
                                       polychip_model_t model,
                                       polychip_policy_t policy,
                                       polychip_plan_t *out_plan,
                                       struct polychip_failure *failure);

// A plan of a file's text, as polychip_plan_text and `polychip partition -o` write it, checked for this model and these
// devices. A session of it keeps it: nothing else is tried. Thread-safe.
polychip_status_t polychip_plan_read(polychip_runtime_t runtime,
                                     polychip_model_t model,
                                     polychip_policy_t policy,
                                     const char *file,
                                     polychip_plan_t *out_plan,
                                     struct polychip_failure *failure);

// The plan that the session's next run executes. Of a model with open sizes that for the sizes used last; before its first
// run there is none (POLYCHIP_ERROR_BAD_PLAN). Thread-safe.
polychip_status_t polychip_session_plan(polychip_session_t session,
                                        polychip_plan_t *out_plan,
                                        struct polychip_failure *failure);

// The text of the plan's file, of a POLYCHIP_PLAN_*: JSON. Thread-safe.
polychip_status_t polychip_plan_text(polychip_plan_t plan,
                                     uint32_t kind,
                                     polychip_text_t *out_text,
                                     struct polychip_failure *failure);

// For each node its device and cost, and for every other device why it is not there, with a POLYCHIP_FORMAT_*. The JSON is
// what `polychip explain --json` prints, without what `--per-op` adds (apps/cli/schemas/explain.schema.json). May take seconds.
// Thread-safe.
polychip_status_t polychip_plan_explain(polychip_plan_t plan,
                                        uint32_t format,
                                        polychip_text_t *out_text,
                                        struct polychip_failure *failure);

// Destroys a plan; 0 is none, and allowed. Thread-safe.
polychip_status_t polychip_plan_destroy(polychip_plan_t plan, struct polychip_failure *failure);

// Compiles and loads a plan, with the policy that it was made for. May take seconds. Thread-safe.
polychip_status_t polychip_session_create_planned(polychip_runtime_t runtime,
                                                  polychip_plan_t plan,
                                                  polychip_policy_t policy,
                                                  polychip_session_t *out_session,
                                                  struct polychip_failure *failure);

// Makes a policy whose aim is the shortest time of a run. Thread-safe.
polychip_status_t polychip_policy_create(polychip_policy_t *out_policy, struct polychip_failure *failure);

// Sets what is asked, in the words of the command line's options, without their dashes: `policy` (`latency`, `energy`,
// `balanced`, `makespan`, `throughput`), `devices` (`cpu:0,gpu`), `threads`, `deadline` (`33ms`), `in-flight` and others;
// docs/c.md lists them, and so does the failure of a name that is none. A balanced plan is predicted to take at most 1.5
// times as long as the fastest one, unless `energy-price` is set. Sessions that were made before do not change.
// Thread-safe.
polychip_status_t polychip_policy_set(polychip_policy_t policy,
                                      const char *name,
                                      const char *value,
                                      struct polychip_failure *failure);

// Destroys a policy; 0 is none, and allowed. Thread-safe.
polychip_status_t polychip_policy_destroy(polychip_policy_t policy, struct polychip_failure *failure);

// Starts a run and returns while it goes on. `inputs` has a tensor for each input in the model's order, 0 where the input is
// a state. `outputs` likewise: the run writes into the tensors that are given, and has memory of its own where 0 is; with
// an `output_count` of 0 it has so for all. Tensors may be destroyed once this has returned. `options` may be null. A tensor
// that the run reads may be read by others at once; one that it writes is used by nobody else. Thread-safe.
polychip_status_t polychip_session_submit(polychip_session_t session,
                                          const polychip_tensor_t *inputs,
                                          uint64_t input_count,
                                          const polychip_tensor_t *outputs,
                                          uint64_t output_count,
                                          const struct polychip_run_options *options,
                                          polychip_run_t *out_run,
                                          struct polychip_failure *failure);

// Runs and waits, at most `timeout_ns` nanoseconds (POLYCHIP_FOREVER: as long as it takes). As polychip_session_submit and
// polychip_run_wait, without a handle where `out_run` is null: all outputs that are wanted are then given. Where time
// runs out, `out_run` is not written and the run goes on: tensors that it uses stay in use until it has ended. Thread-safe.
polychip_status_t polychip_session_run(polychip_session_t session,
                                       const polychip_tensor_t *inputs,
                                       uint64_t input_count,
                                       const polychip_tensor_t *outputs,
                                       uint64_t output_count,
                                       const struct polychip_run_options *options,
                                       uint64_t timeout_ns,
                                       polychip_run_t *out_run,
                                       struct polychip_failure *failure);

// Waits until a run has ended, at most `timeout_ns` nanoseconds (POLYCHIP_FOREVER: as long as it takes; 0: only looks).
// POLYCHIP_OK: its outputs are there. POLYCHIP_ERROR_TIMEOUT: it goes on. Else: why it failed, the same at every call.
// Thread-safe: several threads may wait for one run, and others cancel it meanwhile.
polychip_status_t polychip_run_wait(polychip_run_t run,
                                    uint64_t timeout_ns,
                                    struct polychip_failure *failure);

// Asks a run to end early, and returns at once. The run then ends as cancelled, or as it would have. Thread-safe.
polychip_status_t polychip_run_cancel(polychip_run_t run,
                                      struct polychip_failure *failure);

// An output of a run that has ended well, from 0 in the model's order: its true type and shape (`out_info` may be null)
// and its elements where the run wrote them, valid until the run is destroyed. An output that was given to the run as a
// tensor is read there. Thread-safe.
polychip_status_t polychip_run_output(polychip_run_t run,
                                      uint64_t index,
                                      struct polychip_tensor_info *out_info,
                                      const void **out_data,
                                      struct polychip_failure *failure);

// How long a run that has ended well took, from submit to the end of its last part, and by how much it was late (0: it was
// in time, or had no deadline), in nanoseconds; either place may be null. Thread-safe.
polychip_status_t polychip_run_timing(polychip_run_t run,
                                      uint64_t *out_latency_ns,
                                      uint64_t *out_late_ns,
                                      struct polychip_failure *failure);

// Destroys a run; 0 is none, and allowed. One that goes on does so, and nobody gets its outputs; its callback is called all
// the same. Thread-safe.
polychip_status_t polychip_run_destroy(polychip_run_t run,
                                       struct polychip_failure *failure);

// Makes a builder with the defaults. Thread-safe.
polychip_status_t polychip_builder_create(polychip_builder_t *out_builder, struct polychip_failure *failure);

// Sets what a runtime is made of, in the words of the command line's options, without their dashes: `plugins` (a folder,
// several times), `profile` (a file, or a bundle of a `trust`ed key), `cache` (a folder), `set` (`PLUGIN.KEY=VALUE`, several
// times), `measure-rates`, `only-given-folders`, `virtual-time` (`yes` or `no`) and others. docs/c.md lists them, and so does
// the failure of a name that is none. Thread-safe.
polychip_status_t polychip_builder_set(polychip_builder_t builder,
                                       const char *name,
                                       const char *value,
                                       struct polychip_failure *failure);

// Destroys a builder; 0 is none, and allowed. Thread-safe.
polychip_status_t polychip_builder_destroy(polychip_builder_t builder, struct polychip_failure *failure);

// Loads the plugins and opens their devices: those of the builder, or with 0 the defaults. A plugin that cannot be used is
// listed by polychip_runtime_refusals and fails nothing. The builder may be used again. May take seconds. Thread-safe.
polychip_status_t polychip_runtime_create(polychip_builder_t builder,
                                          polychip_runtime_t *out_runtime,
                                          struct polychip_failure *failure);

// Destroys a runtime; 0 is none, and allowed. Models and sessions that were made with it stay. Thread-safe.
polychip_status_t polychip_runtime_destroy(polychip_runtime_t runtime, struct polychip_failure *failure);

// Number of devices that are open. Thread-safe.
polychip_status_t polychip_runtime_device_count(polychip_runtime_t runtime,
                                                uint64_t *out_count,
                                                struct polychip_failure *failure);

// A device, from 0. Thread-safe.
polychip_status_t polychip_runtime_device(polychip_runtime_t runtime,
                                          uint64_t index,
                                          struct polychip_listed_device *out_device,
                                          struct polychip_failure *failure);

// Plugins, folders and devices that are not used, a line each with its reason; empty where all are. Thread-safe.
polychip_status_t polychip_runtime_refusals(polychip_runtime_t runtime,
                                            polychip_text_t *out_text,
                                            struct polychip_failure *failure);

// Bundles that the builder was given as `profile`, a line each: with family and version where it is loaded, else why it is not
// used; empty where none was given. Thread-safe.
polychip_status_t polychip_runtime_bundles(polychip_runtime_t runtime,
                                           polychip_text_t *out_text,
                                           struct polychip_failure *failure);

// Plans, compiles and loads a model for the devices of a runtime; with 0 as the policy, for the shortest time of a run. May
// take seconds. Thread-safe.
polychip_status_t polychip_session_create(polychip_runtime_t runtime,
                                          polychip_model_t model,
                                          polychip_policy_t policy,
                                          polychip_session_t *out_session,
                                          struct polychip_failure *failure);

// Destroys a session; 0 is none, and allowed. Runs in flight go on and give their outputs. Thread-safe.
polychip_status_t polychip_session_destroy(polychip_session_t session, struct polychip_failure *failure);

// Numbers of inputs and of outputs; either place may be null. Thread-safe.
polychip_status_t polychip_session_counts(polychip_session_t session,
                                          uint64_t *out_inputs,
                                          uint64_t *out_outputs,
                                          struct polychip_failure *failure);

// Name, type and shape of an input, from 0 in the model's order. Thread-safe.
polychip_status_t polychip_session_input(polychip_session_t session,
                                         uint64_t index,
                                         struct polychip_tensor_info *out_info,
                                         struct polychip_failure *failure);

// Name, type and shape of an output, from 0 in the model's order. Thread-safe.
polychip_status_t polychip_session_output(polychip_session_t session,
                                          uint64_t index,
                                          struct polychip_tensor_info *out_info,
                                          struct polychip_failure *failure);

// The place of the input of this name. Thread-safe.
polychip_status_t polychip_session_input_index(polychip_session_t session,
                                               const char *name,
                                               uint64_t *out_index,
                                               struct polychip_failure *failure);

// The place of the output of this name. Thread-safe.
polychip_status_t polychip_session_output_index(polychip_session_t session,
                                                const char *name,
                                                uint64_t *out_index,
                                                struct polychip_failure *failure);

// Feeds an output back as an input: each run reads what the last one wrote, in place, and the first one zeros. From then on
// runs are given 0 in both places, and follow each other. Thread-safe.
polychip_status_t polychip_session_bind_state(polychip_session_t session,
                                              const char *input,
                                              const char *output,
                                              struct polychip_failure *failure);

// Sets all states to zeros; no run may be in flight. Thread-safe.
polychip_status_t polychip_session_reset_state(polychip_session_t session, struct polychip_failure *failure);

// The state of an input, as a tensor of its own: for polychip_session_set_state of this session or another, now or after the app
// was started again. No run may be in flight. Thread-safe.
polychip_status_t polychip_session_state(polychip_session_t session,
                                         const char *input,
                                         polychip_tensor_t *out_tensor,
                                         struct polychip_failure *failure);

// Sets the state of an input to what a tensor holds, whose shape fits it; it is copied. No run may be in flight. Thread-safe.
polychip_status_t polychip_session_set_state(polychip_session_t session,
                                             const char *input,
                                             polychip_tensor_t tensor,
                                             struct polychip_failure *failure);

// Starts no more runs: later ones fail, and so do threads that wait for a place; those in flight go on to their end.
// Thread-safe.
polychip_status_t polychip_session_close(polychip_session_t session,
                                         struct polychip_failure *failure);

// What runs where, predicted and measured, with a POLYCHIP_FORMAT_*. The JSON is the field `report` of what `polychip run
// --json` prints (apps/cli/schemas/run.schema.json). Thread-safe.
polychip_status_t polychip_session_report(polychip_session_t session,
                                          uint32_t format,
                                          polychip_text_t *out_text,
                                          struct polychip_failure *failure);

// Writes the measured times of the session's parts into the runtime's profile, and forgets them here; the session also does
// so when it goes. Thread-safe.
polychip_status_t polychip_session_record(polychip_session_t session,
                                          struct polychip_failure *failure);

// Makes a tensor of zeros in memory that all devices of the runtime use in place that can. Thread-safe.
polychip_status_t polychip_tensor_create(polychip_runtime_t runtime,
                                         const struct polychip_tensor_desc *desc,
                                         polychip_tensor_t *out_tensor,
                                         struct polychip_failure *failure);

// Makes a tensor of memory of the app: `bytes` bytes from `data` on, at least as many as the tensor takes, at any
// address. A device that can import the memory uses it in place (OpenVINO's at a multiple of 64, GPUs of 4096, the CPU at a
// multiple of an element's size); for any other each run copies it, which the report counts. The memory must stay until `release` is called
// with `user`: when the tensor is destroyed and no run uses it, from any thread. Where this call fails, `release` is not
// called. With null the app sees itself to it that the memory stays until all runs that use it have ended. While a run
// uses the tensor, the app does not write the memory, nor reads it where the run writes. Thread-safe.
polychip_status_t polychip_tensor_lend(const struct polychip_tensor_desc *desc,
                                       void *data,
                                       uint64_t bytes,
                                       polychip_release_callback_t release,
                                       void *user,
                                       polychip_tensor_t *out_tensor,
                                       struct polychip_failure *failure);

// Makes a tensor of memory that lies in a file, which is mapped, and which devices take by its descriptor where they can.
// Linux and Android only. Thread-safe.
polychip_status_t polychip_tensor_import(const struct polychip_tensor_desc *desc,
                                         const struct polychip_import *import,
                                         polychip_tensor_t *out_tensor,
                                         struct polychip_failure *failure);

// Type and shape of a tensor. Thread-safe.
polychip_status_t polychip_tensor_describe(polychip_tensor_t tensor,
                                           struct polychip_tensor_info *out_info,
                                           struct polychip_failure *failure);

// Opens a tensor's memory, with a POLYCHIP_ACCESS_*, until it is unmapped: elements in row-major order, little-endian; types
// of less than a byte packed. Of a lent tensor it is the app's own address. `out_bytes` may be null. While it is open,
// runs on the tensor are refused with POLYCHIP_ERROR_IN_FLIGHT, and so is this call while a run uses it, or while it is
// open already. Thread-safe.
polychip_status_t polychip_tensor_map(polychip_tensor_t tensor,
                                      uint32_t access,
                                      void **out_data,
                                      uint64_t *out_bytes,
                                      struct polychip_failure *failure);

// Closes a tensor's memory to the app. Thread-safe.
polychip_status_t polychip_tensor_unmap(polychip_tensor_t tensor, struct polychip_failure *failure);

// Destroys a tensor; 0 is none, and allowed. Runs that use it go on with its memory. Thread-safe.
polychip_status_t polychip_tensor_destroy(polychip_tensor_t tensor, struct polychip_failure *failure);

// The text: UTF-8 that ends with a zero byte, and its length without that, where `out_bytes` is not null. It is valid until
// the text is destroyed. Thread-safe.
polychip_status_t polychip_text_get(polychip_text_t text,
                                    const char **out_text,
                                    uint64_t *out_bytes,
                                    struct polychip_failure *failure);

// Destroys a text; 0 is no text, and allowed. Thread-safe.
polychip_status_t polychip_text_destroy(polychip_text_t text, struct polychip_failure *failure);

// The version of the library that is loaded: major * 1000000 + minor * 1000 + patch. Thread-safe.
uint32_t polychip_version(void);

// The same as text, `0.1.0`. Static. Thread-safe.
const char *polychip_version_text(void);

// A few words for a status, `bad model`. Static, also of a status that this version does not know. Thread-safe.
const char *polychip_status_text(polychip_status_t status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* POLYCHIP_H */
