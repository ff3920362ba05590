//! QNN: Qualcomm's libraries for its neural processors (libQnnHtp.so, libQnnSystem.so), core API
//! 2.x.
//!
//! Invariants:
//! 1. The declarations hold only for 64-bit systems (LP64), like the vendor's.
//! 2. One set of libraries per process: the vendor's state is global to it.
//! 3. A function that the library lacks is `None` in its table; [`slot!`](crate::slot) names it.
//!
//! Not here: call order, buffer sizes, threads. The library checks little of it; the plugin does.
//! `sys/headers/qnn.h` names the source of each declaration.

mod library;

/// The declarations as bindgen makes them from `sys/headers/qnn.h`, where each is explained.
#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all
)]
#[rustfmt::skip]
mod bindings;

pub use bindings::*;
pub use bindings::{
    polychip_qnn_backend as Backend, polychip_qnn_binary_info as BinaryInfo,
    polychip_qnn_client_buffer as ClientBuffer, polychip_qnn_config as Config,
    polychip_qnn_context as Context, polychip_qnn_core_info as CoreInfo, polychip_qnn_device as Device,
    polychip_qnn_encoding as Encoding, polychip_qnn_error as Code, polychip_qnn_event as Event,
    polychip_qnn_event_data as EventData, polychip_qnn_graph as Graph, polychip_qnn_graph_info as GraphInfo,
    polychip_qnn_hardware_device as HardwareDevice, polychip_qnn_htp_device_config as HtpDeviceConfig,
    polychip_qnn_htp_graph_config as HtpGraphConfig, polychip_qnn_htp_infrastructure as HtpInfrastructure,
    polychip_qnn_htp_memory as HtpMemory, polychip_qnn_htp_power_config as HtpPowerConfig,
    polychip_qnn_htp_shared as HtpShared, polychip_qnn_log as Log, polychip_qnn_log_callback as LogCallback,
    polychip_qnn_memory as Memory, polychip_qnn_memory_descriptor as MemoryDescriptor,
    polychip_qnn_op_config as OpConfig, polychip_qnn_op_config_v1 as OpConfigV1,
    polychip_qnn_operation_name as OperationName, polychip_qnn_param as Param,
    polychip_qnn_platform_info as PlatformInfo, polychip_qnn_profile as Profile,
    polychip_qnn_provider as Provider, polychip_qnn_quant as Quant, polychip_qnn_scalar as Scalar,
    polychip_qnn_scale_offset as ScaleOffset, polychip_qnn_signal as Signal, polychip_qnn_system as System,
    polychip_qnn_system_provider as SystemProvider, polychip_qnn_system_table as SystemTable,
    polychip_qnn_table as Table, polychip_qnn_tensor as Tensor, polychip_qnn_tensor_v1 as TensorV1,
    polychip_qnn_tensor_v2 as TensorV2, polychip_qnn_version as Version,
};
pub use library::{LIB_DIR, Qnn, SDK_ROOT};

/// A call from a library's table, or the error that names the empty slot: `slot!(table, execute)?`.
#[macro_export]
macro_rules! slot {
    ($table:expr, $name:ident) => {
        $table
            .$name
            .ok_or_else(|| $crate::Error::missing_call(stringify!($name)))
    };
}
