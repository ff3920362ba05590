/* Where the fields of the library's structs are, on systems of 64 bits: it does not compile where one has moved. Within a
 * version a struct only grows at its end: a new field is a new line, and the size behind it another. */
#include <polychip.h>

#include <assert.h>
#include <stddef.h>

#define AT(type, field, offset) static_assert(offsetof(struct type, field) == (offset), #type "." #field " has moved")
#define SIZE(type, bytes) static_assert(sizeof(struct type) == (bytes), #type " has another size")

AT(polychip_failure, struct_size, 0);
AT(polychip_failure, status, 4);
AT(polychip_failure, message_bytes, 8);
AT(polychip_failure, reserved, 12);
AT(polychip_failure, device, 16);
AT(polychip_failure, message, 112);
SIZE(polychip_failure, 2048);

AT(polychip_run_options, struct_size, 0);
AT(polychip_run_options, late, 4);
AT(polychip_run_options, deadline_ns, 8);
AT(polychip_run_options, queue_timeout_ns, 16);
AT(polychip_run_options, on_done, 24);
AT(polychip_run_options, user, 32);
SIZE(polychip_run_options, 40);

AT(polychip_tensor_info, struct_size, 0);
AT(polychip_tensor_info, dtype, 4);
AT(polychip_tensor_info, rank, 8);
AT(polychip_tensor_info, flags, 12);
AT(polychip_tensor_info, open_axes, 16);
AT(polychip_tensor_info, reserved, 20);
AT(polychip_tensor_info, bytes, 24);
AT(polychip_tensor_info, name, 32);
AT(polychip_tensor_info, shape, 40);
SIZE(polychip_tensor_info, 168);

AT(polychip_listed_device, struct_size, 0);
AT(polychip_listed_device, reserved, 4);
AT(polychip_listed_device, name, 8);
AT(polychip_listed_device, description, 16);
AT(polychip_listed_device, kind, 24);
SIZE(polychip_listed_device, 32);

AT(polychip_tensor_desc, struct_size, 0);
AT(polychip_tensor_desc, dtype, 4);
AT(polychip_tensor_desc, rank, 8);
AT(polychip_tensor_desc, reserved, 12);
AT(polychip_tensor_desc, shape, 16);
AT(polychip_tensor_desc, strides, 24);
SIZE(polychip_tensor_desc, 32);

AT(polychip_import, struct_size, 0);
AT(polychip_import, kind, 4);
AT(polychip_import, descriptor, 8);
AT(polychip_import, reserved, 12);
AT(polychip_import, offset, 16);
SIZE(polychip_import, 24);

AT(polychip_wanted, struct_size, 0);
AT(polychip_wanted, margin_permille, 4);
AT(polychip_wanted, name, 8);
AT(polychip_wanted, model, 16);
AT(polychip_wanted, policy, 24);
SIZE(polychip_wanted, 32);

AT(polychip_measure_options, struct_size, 0);
AT(polychip_measure_options, what, 4);
AT(polychip_measure_options, time_ns, 8);
AT(polychip_measure_options, goal_ppm, 16);
AT(polychip_measure_options, on_progress, 24);
AT(polychip_measure_options, user, 32);
SIZE(polychip_measure_options, 40);
