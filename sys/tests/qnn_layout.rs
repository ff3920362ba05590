//! Our declarations of QNN against the headers of the user's own SDK, field by field.
//!
//! With `QNN_SDK_ROOT` set, each pair below becomes a C program of one static assertion that includes our header
//! and the SDK's, and the C compiler judges. Without it the suite is skipped, and says so.
//!
//! Invariants:
//! 1. The SDK's headers are read by the compiler alone; nothing of them is printed or kept.
//! 2. The names on the right stand in public clients of the SDK; a name that an SDK lacks fails its pair.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use polychip_test_requirements::{Need, skipped};

/// What must hold between our header and theirs: a name for the report, the SDK's header, a C expression.
struct Pair {
    name: String,
    header: &'static str,
    holds: String,
}

fn size(header: &'static str, ours: &str, theirs: &str) -> Pair {
    Pair {
        name: format!("size of {ours}"),
        header,
        holds: format!("sizeof(polychip_qnn_{ours}) == sizeof({theirs})"),
    }
}

fn offset(header: &'static str, ours: (&str, &str), theirs: (&str, &str)) -> Pair {
    Pair {
        name: format!("offset of {}.{}", ours.0, ours.1),
        header,
        holds: format!(
            "offsetof(polychip_qnn_{}, {}) == offsetof({}, {})",
            ours.0, ours.1, theirs.0, theirs.1
        ),
    }
}

fn value(header: &'static str, ours: &str, theirs: &str) -> Pair {
    Pair {
        name: format!("value of {ours}"),
        header,
        holds: format!("(uint64_t)POLYCHIP_QNN_{ours} == (uint64_t)({theirs})"),
    }
}

fn fact(header: &'static str, name: &str, holds: &str) -> Pair {
    Pair {
        name: name.to_owned(),
        header,
        holds: holds.to_owned(),
    }
}

/// A struct of ours and of theirs, with the fields in pairs.
fn fields(header: &'static str, ours: &str, theirs: &str, pairs: &[(&str, &str)]) -> Vec<Pair> {
    pairs
        .iter()
        .map(|(one, other)| offset(header, (ours, one), (theirs, other)))
        .chain([size(header, ours, theirs)])
        .collect()
}

const TYPES: &str = "QnnTypes.h";
const INTERFACE: &str = "QnnInterface.h";
const SYSTEM: &str = "System/QnnSystemInterface.h";
const HTP: &str = "HTP/QnnHtpDevice.h";
const HTP_GRAPH: &str = "HTP/QnnHtpGraph.h";
const POWER: &str = "HTP/QnnHtpPerfInfrastructure.h";

fn pairs() -> Vec<Pair> {
    let mut all = types();
    all.extend(values());
    all.extend(tables());
    all.extend(devices());
    all.extend(system());
    all
}

fn types() -> Vec<Pair> {
    let v1: &[(&str, &str)] = &[
        ("id", "id"),
        ("name", "name"),
        ("kind", "type"),
        ("format", "dataFormat"),
        ("data_type", "dataType"),
        ("quant", "quantizeParams"),
        ("rank", "rank"),
        ("dimensions", "dimensions"),
        ("memory_type", "memType"),
        ("memory.buffer", "clientBuf"),
        ("memory.buffer.size", "clientBuf.dataSize"),
        ("memory.handle", "memHandle"),
    ];
    let mut all = fields(TYPES, "tensor_v1", "Qnn_TensorV1_t", v1);
    let mut v2 = v1.to_vec();
    v2.extend([
        ("dynamic_dimensions", "isDynamicDimensions"),
        ("sparse", "sparseParams"),
        ("produced", "isProduced"),
    ]);
    all.extend(fields(TYPES, "tensor_v2", "Qnn_TensorV2_t", &v2));
    for (ours, theirs, pairs) in [
        (
            "tensor",
            "Qnn_Tensor_t",
            &[("version", "version"), ("tensor.v1", "v1"), ("tensor.v2", "v2")][..],
        ),
        (
            "version",
            "Qnn_Version_t",
            &[("major", "major"), ("minor", "minor"), ("patch", "patch")],
        ),
        (
            "scale_offset",
            "Qnn_ScaleOffset_t",
            &[("scale", "scale"), ("offset", "offset")],
        ),
        (
            "quant",
            "Qnn_QuantizeParams_t",
            &[
                ("definition", "encodingDefinition"),
                ("encoding", "quantizationEncoding"),
                ("values.per_tensor", "scaleOffsetEncoding"),
                ("values.per_axis", "axisScaleOffsetEncoding"),
                ("values.per_axis.axis", "axisScaleOffsetEncoding.axis"),
                ("values.per_axis.count", "axisScaleOffsetEncoding.numScaleOffsets"),
                ("values.per_axis.pairs", "axisScaleOffsetEncoding.scaleOffset"),
                ("values.bits_per_tensor.bits", "bwScaleOffsetEncoding.bitwidth"),
                ("values.bits_per_tensor.scale", "bwScaleOffsetEncoding.scale"),
                ("values.bits_per_tensor.offset", "bwScaleOffsetEncoding.offset"),
                ("values.bits_per_axis.bits", "bwAxisScaleOffsetEncoding.bitwidth"),
                ("values.bits_per_axis.axis", "bwAxisScaleOffsetEncoding.axis"),
                (
                    "values.bits_per_axis.count",
                    "bwAxisScaleOffsetEncoding.numElements",
                ),
                ("values.bits_per_axis.scales", "bwAxisScaleOffsetEncoding.scales"),
                (
                    "values.bits_per_axis.offsets",
                    "bwAxisScaleOffsetEncoding.offsets",
                ),
            ],
        ),
        (
            "scalar",
            "Qnn_Scalar_t",
            &[
                ("data_type", "dataType"),
                ("value.float32", "floatValue"),
                ("value.unsigned32", "uint32Value"),
                ("value.signed32", "int32Value"),
                ("value.boolean", "bool8Value"),
            ],
        ),
        (
            "param",
            "Qnn_Param_t",
            &[
                ("kind", "paramType"),
                ("name", "name"),
                ("value.scalar", "scalarParam"),
                ("value.tensor", "tensorParam"),
            ],
        ),
        (
            "op_config_v1",
            "Qnn_OpConfigV1_t",
            &[
                ("name", "name"),
                ("package_name", "packageName"),
                ("type_name", "typeName"),
                ("param_count", "numOfParams"),
                ("params", "params"),
                ("input_count", "numOfInputs"),
                ("inputs", "inputTensors"),
                ("output_count", "numOfOutputs"),
                ("outputs", "outputTensors"),
            ],
        ),
        (
            "op_config",
            "Qnn_OpConfig_t",
            &[("version", "version"), ("op.v1", "v1")],
        ),
        (
            "memory_descriptor",
            "Qnn_MemDescriptor_t",
            &[
                ("shape.rank", "memShape.numDim"),
                ("shape.dimensions", "memShape.dimSize"),
                ("data_type", "dataType"),
                ("kind", "memType"),
                ("source.ion_fd", "ionInfo.fd"),
                ("source.custom", "customInfo"),
            ],
        ),
        (
            "event_data",
            "QnnProfile_EventData_t",
            &[
                ("kind", "type"),
                ("unit", "unit"),
                ("value", "value"),
                ("identifier", "identifier"),
            ],
        ),
        (
            "operation_name",
            "QnnBackend_OperationName_t",
            &[
                ("package_name", "packageName"),
                ("name", "name"),
                ("target", "target"),
            ],
        ),
    ] {
        let header = if theirs.starts_with("Qnn_") {
            TYPES
        } else {
            INTERFACE
        };
        all.extend(fields(header, ours, theirs, pairs));
    }
    for (theirs, member) in [
        ("QnnContext_Config_t", "customConfig"),
        ("QnnContext_Config_t", "enableGraphs"),
        ("QnnGraph_Config_t", "customConfig"),
        ("QnnDevice_Config_t", "customConfig"),
        ("QnnDevice_Config_t", "hardwareInfo"),
    ] {
        all.push(Pair {
            name: format!("an entry of a list of {theirs}, {member}"),
            header: INTERFACE,
            holds: format!(
                "sizeof({theirs}) == sizeof(polychip_qnn_config) && offsetof({theirs}, {member}) == \
                 offsetof(polychip_qnn_config, value)"
            ),
        });
    }
    all
}

fn values() -> Vec<Pair> {
    let mut all: Vec<Pair> = [
        ("TYPE_I8", "QNN_DATATYPE_INT_8"),
        ("TYPE_I16", "QNN_DATATYPE_INT_16"),
        ("TYPE_I32", "QNN_DATATYPE_INT_32"),
        ("TYPE_I64", "QNN_DATATYPE_INT_64"),
        ("TYPE_U8", "QNN_DATATYPE_UINT_8"),
        ("TYPE_U16", "QNN_DATATYPE_UINT_16"),
        ("TYPE_U32", "QNN_DATATYPE_UINT_32"),
        ("TYPE_U64", "QNN_DATATYPE_UINT_64"),
        ("TYPE_F16", "QNN_DATATYPE_FLOAT_16"),
        ("TYPE_F32", "QNN_DATATYPE_FLOAT_32"),
        ("TYPE_SFIXED4", "QNN_DATATYPE_SFIXED_POINT_4"),
        ("TYPE_SFIXED8", "QNN_DATATYPE_SFIXED_POINT_8"),
        ("TYPE_SFIXED16", "QNN_DATATYPE_SFIXED_POINT_16"),
        ("TYPE_SFIXED32", "QNN_DATATYPE_SFIXED_POINT_32"),
        ("TYPE_UFIXED4", "QNN_DATATYPE_UFIXED_POINT_4"),
        ("TYPE_UFIXED8", "QNN_DATATYPE_UFIXED_POINT_8"),
        ("TYPE_UFIXED16", "QNN_DATATYPE_UFIXED_POINT_16"),
        ("TYPE_UFIXED32", "QNN_DATATYPE_UFIXED_POINT_32"),
        ("TYPE_BOOL8", "QNN_DATATYPE_BOOL_8"),
        ("TYPE_UNDEFINED", "QNN_DATATYPE_UNDEFINED"),
        ("TENSOR_INPUT", "QNN_TENSOR_TYPE_APP_WRITE"),
        ("TENSOR_OUTPUT", "QNN_TENSOR_TYPE_APP_READ"),
        ("TENSOR_INPUT_OUTPUT", "QNN_TENSOR_TYPE_APP_READWRITE"),
        ("TENSOR_NATIVE", "QNN_TENSOR_TYPE_NATIVE"),
        ("TENSOR_STATIC", "QNN_TENSOR_TYPE_STATIC"),
        ("TENSOR_ABSENT", "QNN_TENSOR_TYPE_NULL"),
        ("TENSOR_V1", "QNN_TENSOR_VERSION_1"),
        ("TENSOR_V2", "QNN_TENSOR_VERSION_2"),
        ("OP_CONFIG_V1", "QNN_OPCONFIG_VERSION_1"),
        ("MEMORY_RAW", "QNN_TENSORMEMTYPE_RAW"),
        ("MEMORY_HANDLE", "QNN_TENSORMEMTYPE_MEMHANDLE"),
        ("QUANT_DEFINED", "QNN_DEFINITION_DEFINED"),
        ("QUANT_NONE", "QNN_DEFINITION_UNDEFINED"),
        ("QUANT_NONE", "QNN_QUANTIZATION_ENCODING_UNDEFINED"),
        ("ENCODING_PER_TENSOR", "QNN_QUANTIZATION_ENCODING_SCALE_OFFSET"),
        ("ENCODING_PER_AXIS", "QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET"),
        (
            "ENCODING_BITS_PER_TENSOR",
            "QNN_QUANTIZATION_ENCODING_BW_SCALE_OFFSET",
        ),
        (
            "ENCODING_BITS_PER_AXIS",
            "QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET",
        ),
        ("PARAM_SCALAR", "QNN_PARAMTYPE_SCALAR"),
        ("PARAM_TENSOR", "QNN_PARAMTYPE_TENSOR"),
        ("MEMORY_ION", "QNN_MEM_TYPE_ION"),
        ("MEMORY_CUSTOM", "QNN_MEM_TYPE_CUSTOM"),
        ("MEMORY_DMA_BUF", "QNN_MEM_TYPE_DMA_BUF"),
    ]
    .iter()
    .map(|(ours, theirs)| value(TYPES, ours, theirs))
    .collect();
    all.extend(
        [
            ("LOG_ERROR", "QNN_LOG_LEVEL_ERROR"),
            ("LOG_WARN", "QNN_LOG_LEVEL_WARN"),
            ("LOG_INFO", "QNN_LOG_LEVEL_INFO"),
            ("LOG_VERBOSE", "QNN_LOG_LEVEL_VERBOSE"),
            ("LOG_DEBUG", "QNN_LOG_LEVEL_DEBUG"),
            ("PROFILE_BASIC", "QNN_PROFILE_LEVEL_BASIC"),
            ("PROFILE_DETAILED", "QNN_PROFILE_LEVEL_DETAILED"),
            ("CONFIG_CUSTOM", "QNN_CONTEXT_CONFIG_OPTION_CUSTOM"),
            ("CONFIG_CUSTOM", "QNN_GRAPH_CONFIG_OPTION_CUSTOM"),
            ("CONFIG_CUSTOM", "QNN_DEVICE_CONFIG_OPTION_CUSTOM"),
            ("CONTEXT_CONFIG_PRIORITY", "QNN_CONTEXT_CONFIG_OPTION_PRIORITY"),
            ("CONTEXT_CONFIG_ENABLE_GRAPHS", "QNN_CONTEXT_CONFIG_ENABLE_GRAPHS"),
            (
                "DEVICE_CONFIG_PLATFORM_INFO",
                "QNN_DEVICE_CONFIG_OPTION_PLATFORM_INFO",
            ),
        ]
        .iter()
        .map(|(ours, theirs)| value(INTERFACE, ours, theirs)),
    );
    all
}

fn tables() -> Vec<Pair> {
    let mut all = Vec::new();
    for (ours, theirs) in [
        ("has_capability", "propertyHasCapability"),
        ("backend_create", "backendCreate"),
        ("build_id", "backendGetBuildId"),
        ("supported_operations", "backendGetSupportedOperations"),
        ("validate_op_config", "backendValidateOpConfig"),
        ("backend_free", "backendFree"),
        ("context_create", "contextCreate"),
        ("binary_size", "contextGetBinarySize"),
        ("get_binary", "contextGetBinary"),
        ("create_from_binary", "contextCreateFromBinary"),
        ("context_free", "contextFree"),
        ("graph_create", "graphCreate"),
        ("add_node", "graphAddNode"),
        ("finalize", "graphFinalize"),
        ("retrieve", "graphRetrieve"),
        ("execute", "graphExecute"),
        ("execute_async", "graphExecuteAsync"),
        ("create_graph_tensor", "tensorCreateGraphTensor"),
        ("log_create", "logCreate"),
        ("log_set_level", "logSetLogLevel"),
        ("log_free", "logFree"),
        ("profile_create", "profileCreate"),
        ("profile_events", "profileGetEvents"),
        ("profile_sub_events", "profileGetSubEvents"),
        ("profile_event_data", "profileGetEventData"),
        ("profile_free", "profileFree"),
        ("memory_register", "memRegister"),
        ("memory_deregister", "memDeRegister"),
        ("platform_info", "deviceGetPlatformInfo"),
        ("platform_info_free", "deviceFreePlatformInfo"),
        ("infrastructure", "deviceGetInfrastructure"),
        ("device_create", "deviceCreate"),
        ("device_info", "deviceGetInfo"),
        ("device_free", "deviceFree"),
        ("signal_create", "signalCreate"),
        ("signal_set_config", "signalSetConfig"),
        ("signal_trigger", "signalTrigger"),
        ("signal_free", "signalFree"),
        ("error_message", "errorGetMessage"),
        ("validate_binary", "contextValidateBinary"),
    ] {
        all.push(offset(
            INTERFACE,
            ("table", ours),
            ("QNN_INTERFACE_VER_TYPE", theirs),
        ));
    }
    all.push(fact(
        INTERFACE,
        "the table of the SDK is at least as long as ours",
        "sizeof(QNN_INTERFACE_VER_TYPE) >= sizeof(polychip_qnn_table)",
    ));
    for (ours, theirs) in [
        ("library_id", "backendId"),
        ("name", "providerName"),
        ("core_api", "apiVersion.coreApiVersion"),
        ("library_api", "apiVersion.backendApiVersion"),
        ("table", "QNN_INTERFACE_VER_NAME"),
    ] {
        all.push(offset(INTERFACE, ("provider", ours), ("QnnInterface_t", theirs)));
    }
    all
}

fn devices() -> Vec<Pair> {
    let mut all = Vec::new();
    for (ours, theirs, pairs) in [
        (
            "platform_info",
            "QnnDevice_PlatformInfo_t",
            &[
                ("version", "version"),
                ("info.v1.device_count", "v1.numHwDevices"),
                ("info.v1.devices", "v1.hwDevices"),
            ][..],
        ),
        (
            "hardware_device",
            "QnnDevice_HardwareDeviceInfo_t",
            &[
                ("device.v1.id", "v1.deviceId"),
                ("device.v1.kind", "v1.deviceType"),
                ("device.v1.core_count", "v1.numCores"),
                ("device.v1.cores", "v1.cores"),
                ("device.v1.extension", "v1.deviceInfoExtension"),
            ],
        ),
        (
            "core_info",
            "QnnDevice_CoreInfo_t",
            &[
                ("info.v1.id", "v1.coreId"),
                ("info.v1.kind", "v1.coreType"),
                ("info.v1.extension", "v1.coreInfoExtension"),
            ],
        ),
    ] {
        all.extend(fields(INTERFACE, ours, theirs, pairs));
    }
    for (ours, theirs) in [
        ("kind", "devType"),
        ("on_chip.vtcm_mb", "onChipDevice.vtcmSize"),
        ("on_chip.soc", "onChipDevice.socModel"),
        ("on_chip.signed_pd", "onChipDevice.signedPdSupport"),
        ("on_chip.dlbc", "onChipDevice.dlbcSupport"),
        ("on_chip.arch", "onChipDevice.arch"),
    ] {
        all.push(offset(
            HTP,
            ("htp_device_extension", ours),
            ("QnnHtpDevice_DeviceInfoExtension_t", theirs),
        ));
    }
    all.push(value(HTP, "HTP_DEVICE_SOC", "QNN_HTP_DEVICE_CONFIG_OPTION_SOC"));
    all.push(fact(
        HTP,
        "the SoC lies at byte 4 or 8 of the HTP device config, which is no longer than ours",
        "(offsetof(QnnHtpDevice_CustomConfig_t, socModel) == 4 || offsetof(QnnHtpDevice_CustomConfig_t, socModel) == 8) && \
         sizeof(QnnHtpDevice_CustomConfig_t) <= sizeof(polychip_qnn_htp_device_config)",
    ));
    for (ours, theirs) in [
        (
            "HTP_INFRASTRUCTURE_PERF",
            "QNN_HTP_DEVICE_INFRASTRUCTURE_TYPE_PERF",
        ),
        (
            "HTP_POWER_DCVS_V3",
            "QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_DCVS_V3",
        ),
        (
            "HTP_POWER_RPC_CONTROL_LATENCY",
            "QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_RPC_CONTROL_LATENCY",
        ),
        (
            "HTP_POWER_RPC_POLLING_TIME",
            "QNN_HTP_PERF_INFRASTRUCTURE_POWER_CONFIGOPTION_RPC_POLLING_TIME",
        ),
        (
            "HTP_POWER_MODE_PERFORMANCE",
            "QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_PERFORMANCE_MODE",
        ),
        (
            "HTP_POWER_MODE_POWER_SAVER",
            "QNN_HTP_PERF_INFRASTRUCTURE_POWERMODE_POWER_SAVER_MODE",
        ),
        ("HTP_VOLTAGE_DISABLE", "DCVS_VOLTAGE_CORNER_DISABLE"),
        ("HTP_VOLTAGE_SVS2", "DCVS_VOLTAGE_VCORNER_SVS2"),
        ("HTP_VOLTAGE_SVS", "DCVS_VOLTAGE_VCORNER_SVS"),
        ("HTP_VOLTAGE_SVS_PLUS", "DCVS_VOLTAGE_VCORNER_SVS_PLUS"),
        ("HTP_VOLTAGE_NOM", "DCVS_VOLTAGE_VCORNER_NOM"),
        ("HTP_VOLTAGE_NOM_PLUS", "DCVS_VOLTAGE_VCORNER_NOM_PLUS"),
        ("HTP_VOLTAGE_TURBO", "DCVS_VOLTAGE_VCORNER_TURBO"),
        ("HTP_VOLTAGE_MAX", "DCVS_VOLTAGE_VCORNER_MAX_VOLTAGE_CORNER"),
    ] {
        let header = if ours == "HTP_INFRASTRUCTURE_PERF" {
            HTP
        } else {
            POWER
        };
        all.push(value(header, ours, theirs));
    }
    for (ours, theirs) in [
        ("value.dcvs_v3.context_id", "dcvsV3Config.contextId"),
        ("value.dcvs_v3.set_dcvs_enable", "dcvsV3Config.setDcvsEnable"),
        ("value.dcvs_v3.dcvs_enable", "dcvsV3Config.dcvsEnable"),
        ("value.dcvs_v3.power_mode", "dcvsV3Config.powerMode"),
        ("value.dcvs_v3.set_sleep_latency", "dcvsV3Config.setSleepLatency"),
        ("value.dcvs_v3.sleep_latency_us", "dcvsV3Config.sleepLatency"),
        ("value.dcvs_v3.set_sleep_disable", "dcvsV3Config.setSleepDisable"),
        ("value.dcvs_v3.sleep_disable", "dcvsV3Config.sleepDisable"),
        ("value.dcvs_v3.set_bus", "dcvsV3Config.setBusParams"),
        ("value.dcvs_v3.bus_min", "dcvsV3Config.busVoltageCornerMin"),
        ("value.dcvs_v3.bus_target", "dcvsV3Config.busVoltageCornerTarget"),
        ("value.dcvs_v3.bus_max", "dcvsV3Config.busVoltageCornerMax"),
        ("value.dcvs_v3.set_core", "dcvsV3Config.setCoreParams"),
        ("value.dcvs_v3.core_min", "dcvsV3Config.coreVoltageCornerMin"),
        (
            "value.dcvs_v3.core_target",
            "dcvsV3Config.coreVoltageCornerTarget",
        ),
        ("value.dcvs_v3.core_max", "dcvsV3Config.coreVoltageCornerMax"),
        ("value.microseconds", "rpcPollingTimeConfig"),
    ] {
        all.push(offset(
            POWER,
            ("htp_power_config", ours),
            ("QnnHtpPerfInfrastructure_PowerConfig_t", theirs),
        ));
    }
    for (ours, theirs) in [
        ("kind", "infraType"),
        ("create_power_config", "perfInfra.createPowerConfigId"),
        ("destroy_power_config", "perfInfra.destroyPowerConfigId"),
        ("set_power_config", "perfInfra.setPowerConfig"),
    ] {
        all.push(offset(
            HTP,
            ("htp_infrastructure", ours),
            ("QnnHtpDevice_Infrastructure_t", theirs),
        ));
    }
    for (ours, theirs) in [
        (
            "HTP_GRAPH_OPTIMIZATION",
            "QNN_HTP_GRAPH_CONFIG_OPTION_OPTIMIZATION",
        ),
        ("HTP_GRAPH_PRECISION", "QNN_HTP_GRAPH_CONFIG_OPTION_PRECISION"),
        ("HTP_GRAPH_VTCM_MB", "QNN_HTP_GRAPH_CONFIG_OPTION_VTCM_SIZE_IN_MB"),
        ("HTP_PRECISION_F32", "QNN_PRECISION_FLOAT32"),
        ("HTP_PRECISION_F16", "QNN_PRECISION_FLOAT16"),
    ] {
        all.push(value(HTP_GRAPH, ours, theirs));
    }
    all.push(offset(
        HTP_GRAPH,
        ("htp_graph_config", "value"),
        ("QnnHtpGraph_CustomConfig_t", "precision"),
    ));
    all
}

fn system() -> Vec<Pair> {
    let mut all = Vec::new();
    for (ours, theirs) in [
        ("create", "systemContextCreate"),
        ("get_binary_info", "systemContextGetBinaryInfo"),
        ("get_metadata", "systemContextGetMetaData"),
        ("free", "systemContextFree"),
    ] {
        all.push(offset(
            SYSTEM,
            ("system_table", ours),
            ("QNN_SYSTEM_INTERFACE_VER_TYPE", theirs),
        ));
    }
    for (ours, theirs) in [
        ("name", "providerName"),
        ("system_api", "systemApiVersion"),
        ("table", "QNN_SYSTEM_INTERFACE_VER_NAME"),
    ] {
        all.push(offset(
            SYSTEM,
            ("system_provider", ours),
            ("QnnSystemInterface_t", theirs),
        ));
    }
    for (ours, theirs) in [("v1", "V1"), ("v2.v1", "V2"), ("v3.v2.v1", "V3")] {
        for (field, member) in [
            ("library_id", "backendId"),
            ("build_id", "buildId"),
            ("core_api", "coreApiVersion"),
            ("library_api", "backendApiVersion"),
            ("context_blob_version", "contextBlobVersion"),
            ("graph_count", "numGraphs"),
            ("graphs", "graphs"),
        ] {
            all.push(offset(
                SYSTEM,
                ("binary_info", &format!("info.{ours}.{field}")),
                (
                    "QnnSystemContext_BinaryInfo_t",
                    &format!("contextBinaryInfo{theirs}.{member}"),
                ),
            ));
        }
        for (field, member) in [
            ("name", "graphName"),
            ("input_count", "numGraphInputs"),
            ("inputs", "graphInputs"),
            ("output_count", "numGraphOutputs"),
            ("outputs", "graphOutputs"),
        ] {
            all.push(offset(
                SYSTEM,
                ("graph_info", &format!("info.{ours}.{field}")),
                (
                    "QnnSystemContext_GraphInfo_t",
                    &format!("graphInfo{theirs}.{member}"),
                ),
            ));
        }
    }
    all.push(offset(
        SYSTEM,
        ("binary_info", "info.v3.soc"),
        ("QnnSystemContext_BinaryInfo_t", "contextBinaryInfoV3.socModel"),
    ));
    // entries of the graph list follow each other at this distance
    all.push(size(SYSTEM, "graph_info", "QnnSystemContext_GraphInfo_t"));
    all.push(fact(
        SYSTEM,
        "versions of the System structs count from 1",
        "QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_1 == POLYCHIP_QNN_BINARY_INFO_V1 && \
         QNN_SYSTEM_CONTEXT_BINARY_INFO_VERSION_3 == POLYCHIP_QNN_BINARY_INFO_V3 && \
         QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_1 == POLYCHIP_QNN_GRAPH_INFO_V1 && \
         QNN_SYSTEM_CONTEXT_GRAPH_INFO_VERSION_3 == POLYCHIP_QNN_GRAPH_INFO_V3",
    ));
    all
}

/// Compiles the pair's assertion. What the compiler says is cut to its verdict: the SDK's text stays there.
fn judge(include: &Path, pair: &Pair) -> Result<(), Failed> {
    let program = format!(
        "#include <stddef.h>\n#include \"{}\"\n#include \"qnn.h\"\n_Static_assert({}, \"differs\");\n",
        pair.header, pair.holds
    );
    let mut folder = tempfile::Builder::new();
    let folder = folder.prefix("qnn-layout").tempdir()?;
    let source = folder.path().join("pair.c");
    std::fs::write(&source, program)?;
    let output = Command::new("cc")
        .args(["-std=c11", "-fsyntax-only", "-I"])
        .arg(include)
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("headers"))
        .arg(&source)
        .output()
        .map_err(|error| format!("the C compiler `cc` does not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    // GCC's words and Clang's
    if words.contains("static assertion failed") || words.contains("static_assert failed") {
        return Err(format!("does not hold in this SDK: {}", pair.holds).into());
    }
    Err(format!(
        "cannot be compared, the SDK lacks {} or a name in: {}",
        pair.header, pair.holds
    )
    .into())
}

/// The pairs of a made-up header, to see that the judge finds what differs. Runs everywhere.
fn the_judge_judges() -> Result<(), Failed> {
    let sdk = tempfile::tempdir()?;
    std::fs::write(
        sdk.path().join("Made.h"),
        "#include <stdint.h>\nstruct made { uint32_t word; float scale; int32_t offset; };\nenum { MADE = 3110 };\n",
    )?;
    let holds = [
        value("Made.h", "ERROR_OP_REJECTED", "MADE"),
        fact(
            "Made.h",
            "no name",
            "offsetof(struct made, offset) == sizeof(polychip_qnn_scale_offset)",
        ),
    ];
    for pair in &holds {
        judge(sdk.path(), pair)?;
    }
    let differs = [
        (size("Made.h", "scale_offset", "struct made"), "does not hold"),
        (
            offset("Made.h", ("scale_offset", "offset"), ("struct made", "offset")),
            "does not hold",
        ),
        (
            value("Made.h", "ERROR_OP_REJECTED", "UNMADE"),
            "cannot be compared",
        ),
        (size("Absent.h", "tensor", "int"), "cannot be compared"),
    ];
    for (pair, words) in &differs {
        match judge(sdk.path(), pair) {
            Err(failed) if failed.message().is_some_and(|text| text.contains(words)) => {}
            other => return Err(format!("{}: {other:?}", pair.name).into()),
        }
    }
    Ok(())
}

/// Our side of every pair names a field that our header has.
fn our_side_compiles() -> Result<(), Failed> {
    let mut program = String::from("#include <stddef.h>\n#include \"qnn.h\"\n");
    for pair in pairs() {
        for (mark, end) in [("offsetof(polychip", ')'), ("sizeof(polychip", ')')] {
            if let Some(start) = pair.holds.find(mark)
                && let Some(length) = pair.holds[start..].find(end)
            {
                let expression = &pair.holds[start..=start + length];
                program += &format!("_Static_assert({expression} + 1 > 0, \"\");\n");
            }
        }
        if let Some(start) = pair.holds.find("POLYCHIP_QNN_") {
            let name: String = pair.holds[start..]
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect();
            program += &format!("_Static_assert({name} + 1ull > 0, \"\");\n");
        }
    }
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("ours.c");
    std::fs::write(&source, program)?;
    let output = Command::new("cc")
        .args(["-std=c11", "-fsyntax-only", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("headers"))
        .arg(&source)
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
}

/// What needs the vendor's headers.
const COMPARISON: &str = "comparison with an SDK's headers";

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = vec![
        Trial::test("the judge judges", the_judge_judges),
        Trial::test("our side compiles", our_side_compiles),
    ];
    let root = std::env::var_os("QNN_SDK_ROOT").filter(|root| !root.is_empty());
    match root.map(|root| PathBuf::from(root).join("include").join("QNN")) {
        None => trials.push(skipped(COMPARISON, Need::QnnSdk, "QNN_SDK_ROOT is not set")),
        Some(include) if !include.join(INTERFACE).is_file() => {
            let why = format!("{} holds no {INTERFACE}", include.display());
            trials.push(skipped(COMPARISON, Need::QnnSdk, &why));
        }
        Some(include) => {
            let include = Arc::new(include);
            for (index, pair) in pairs().into_iter().enumerate() {
                let include = Arc::clone(&include);
                let name = format!("{index:03} {}", pair.name);
                trials.push(Trial::test(name, move || judge(&include, &pair)));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
