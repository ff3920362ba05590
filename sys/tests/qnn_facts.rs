//! Sizes and offsets of the QNN interface as measured on the vendor's x86 libraries, against our declarations.
//!
//! Invariant: every number here is a measured fact, written down before the header was; none was copied from
//! what a compiler made of the header. The slots' numbers are the ones counted in the vendor's table.

#![cfg(all(feature = "qnn", target_pointer_width = "64"))]

use std::mem::{offset_of, size_of};

use polychip_sys::qnn::{self, *};

#[test]
fn sizes() {
    for (name, found, fact) in [
        ("tensor", size_of::<Tensor>(), 144),
        ("tensor v1", size_of::<TensorV1>(), 112),
        ("tensor v2", size_of::<TensorV2>(), 136),
        ("quantisation", size_of::<Quant>(), 40),
        ("sparse parameters", size_of::<polychip_qnn_sparse>(), 12),
        ("op config", size_of::<OpConfig>(), 80),
        ("parameter", size_of::<Param>(), 160),
        ("scalar", size_of::<Scalar>(), 16),
        ("entry of a config list", size_of::<Config>(), 16),
        ("HTP device config", size_of::<HtpDeviceConfig>(), 32),
        ("platform info", size_of::<PlatformInfo>(), 24),
        ("hardware device", size_of::<HardwareDevice>(), 40),
        ("core info", size_of::<CoreInfo>(), 24),
        ("profile event", size_of::<EventData>(), 24),
        ("table", size_of::<Table>(), 68 * 8),
        ("system table", size_of::<SystemTable>(), 13 * 8),
        ("a version", size_of::<Version>(), 12),
    ] {
        assert_eq!(found, fact, "{name}");
    }
}

#[test]
fn offsets() {
    for (name, found, fact) in [
        ("provider name", offset_of!(Provider, name), 8),
        ("core version", offset_of!(Provider, core_api), 16),
        ("library version", offset_of!(Provider, library_api), 28),
        ("table", offset_of!(Provider, table), 40),
        ("system table", offset_of!(SystemProvider, table), 32),
        ("tensor union", offset_of!(Tensor, tensor), 8),
        ("v1 id", offset_of!(TensorV1, id), 0),
        ("v1 name", offset_of!(TensorV1, name), 8),
        ("v1 type", offset_of!(TensorV1, kind), 16),
        ("v1 format", offset_of!(TensorV1, format), 20),
        ("v1 data type", offset_of!(TensorV1, data_type), 24),
        ("v1 quantisation", offset_of!(TensorV1, quant), 32),
        ("v1 rank", offset_of!(TensorV1, rank), 72),
        ("v1 dimensions", offset_of!(TensorV1, dimensions), 80),
        ("v1 memory type", offset_of!(TensorV1, memory_type), 88),
        ("v1 memory", offset_of!(TensorV1, memory), 96),
        ("buffer size", offset_of!(ClientBuffer, size), 8),
        ("v2 memory", offset_of!(TensorV2, memory), 96),
        (
            "v2 dynamic dimensions",
            offset_of!(TensorV2, dynamic_dimensions),
            112,
        ),
        ("v2 sparse", offset_of!(TensorV2, sparse), 120),
        ("v2 produced", offset_of!(TensorV2, produced), 132),
        ("quantisation encoding", offset_of!(Quant, encoding), 4),
        ("quantisation union", offset_of!(Quant, values), 8),
        ("parameter name", offset_of!(Param, name), 8),
        ("parameter union", offset_of!(Param, value), 16),
        ("config union", offset_of!(Config, value), 8),
        ("SoC, one layout", offset_of!(HtpDeviceConfig, soc_at_4), 4),
        ("SoC, other layout", offset_of!(HtpDeviceConfig, soc_at_8), 8),
        ("platform info v1", offset_of!(PlatformInfo, info), 8),
        ("hardware device v1", offset_of!(HardwareDevice, device), 8),
        ("core info v1", offset_of!(CoreInfo, info), 8),
    ] {
        assert_eq!(found, fact, "{name}");
    }
}

macro_rules! slots {
    ($table:ty, $($number:literal $name:ident)*) => {
        $(assert_eq!(offset_of!($table, $name), $number * 8, stringify!($name));)*
    };
}

#[test]
fn slots_of_the_tables() {
    slots!(Table,
        0 has_capability 1 backend_create 4 build_id 6 supported_operations 7 validate_op_config
        8 backend_free 9 context_create 11 binary_size 12 get_binary 13 create_from_binary 14 context_free
        15 graph_create 18 add_node 19 finalize 20 retrieve 21 execute 22 execute_async
        24 create_graph_tensor 25 log_create 26 log_set_level 27 log_free 28 profile_create
        30 profile_events 31 profile_sub_events 32 profile_event_data 34 profile_free
        35 memory_register 36 memory_deregister 37 platform_info 38 platform_info_free 39 infrastructure
        40 device_create 42 device_info 43 device_free 44 signal_create 45 signal_set_config
        46 signal_trigger 47 signal_free 48 error_message 54 validate_binary);
    slots!(SystemTable, 0 create 1 get_binary_info 2 get_metadata 3 free);
}

#[test]
fn a_version_2_tensor_reads_as_version_1() {
    assert_eq!(offset_of!(TensorV2, id), offset_of!(TensorV1, id));
    assert_eq!(offset_of!(TensorV2, name), offset_of!(TensorV1, name));
    assert_eq!(offset_of!(TensorV2, kind), offset_of!(TensorV1, kind));
    assert_eq!(offset_of!(TensorV2, quant), offset_of!(TensorV1, quant));
    assert_eq!(offset_of!(TensorV2, rank), offset_of!(TensorV1, rank));
    assert_eq!(offset_of!(TensorV2, dimensions), offset_of!(TensorV1, dimensions));
    assert_eq!(
        offset_of!(TensorV2, memory_type),
        offset_of!(TensorV1, memory_type)
    );
}

#[test]
fn codes() {
    assert_eq!(qnn::POLYCHIP_QNN_ERROR_OP_REJECTED, 3110);
    assert_eq!(qnn::POLYCHIP_QNN_QUANT_NONE, 0x7FFF_FFFF);
    // the digits encode kind and bits
    assert_eq!(
        qnn::POLYCHIP_QNN_TYPE_UFIXED8 - qnn::POLYCHIP_QNN_TYPE_SFIXED8,
        0x100
    );
}
