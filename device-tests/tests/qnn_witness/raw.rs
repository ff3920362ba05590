//! What a sequence names, as the structs that the QNN interface takes.
//!
//! Invariants:
//! 1. Memory behind the structs is leaked: the process ends with its sequence.
//!
//! Not here: any call of a library (`client`).

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;

use polychip_sys::qnn::{self, *};

use crate::client::Operand;
use crate::model::{Encoding, NodeSpec, ParamSpec, TensorSpec};
use crate::sequence::Target;

/// Buffers are longer than declared, because the library trusts the declared size.
pub(crate) const SLACK: usize = 64;

/// Ids of the graphs' inputs and outputs, by graph and name.
///
/// # Safety
/// `info` is what a System library gave, still valid.
pub(crate) unsafe fn described(info: &BinaryInfo) -> BTreeMap<String, BTreeMap<String, u32>> {
    // SAFETY: every version begins as version 1.
    let v1 = unsafe { &info.info.v1 };
    let mut graphs = BTreeMap::new();
    for index in 0..v1.graph_count as usize {
        // SAFETY: the list has `graph_count` entries, each of which begins as version 1.
        let graph = unsafe { &(*v1.graphs.add(index)).info.v1 };
        let mut ids = BTreeMap::new();
        for (list, count) in [
            (graph.inputs, graph.input_count),
            (graph.outputs, graph.output_count),
        ] {
            for index in 0..count as usize {
                // SAFETY: the list has `count` tensors; each version begins as version 1.
                let tensor = unsafe { &(*list.add(index)).tensor.v1 };
                // SAFETY: a terminated name.
                let name = unsafe { CStr::from_ptr(tensor.name) };
                ids.insert(name.to_string_lossy().into_owned(), tensor.id);
            }
        }
        // SAFETY: a terminated name.
        let name = unsafe { CStr::from_ptr(graph.name) };
        graphs.insert(name.to_string_lossy().into_owned(), ids);
    }
    graphs
}

pub(crate) unsafe extern "C" fn silent(_: *const c_char, _: u32, _: u64, _: *mut c_void) {}

pub(crate) unsafe extern "C" fn ignore(_: *mut c_void, _: u64) {}

pub(crate) fn text(text: &str) -> *const c_char {
    CString::new(text)
        .expect("invariant: our names hold no zero byte")
        .into_raw()
}

/// A leaked list of one entry.
pub(crate) fn config(option: u32, value: polychip_qnn_config_value) -> *const *const Config {
    let entry: &'static Config = Box::leak(Box::new(Config { option, value }));
    vec![ptr::from_ref(entry), ptr::null()].leak().as_ptr()
}

pub(crate) fn custom_value<T>(custom: &'static T) -> polychip_qnn_config_value {
    polychip_qnn_config_value {
        custom: ptr::from_ref(custom).cast(),
    }
}

pub(crate) fn device_config(target: Target) -> *const *const Config {
    let (soc_at_4, soc_at_8) = match target {
        Target::None => return ptr::null(),
        Target::Soc(soc) => (soc, soc),
        Target::Split(one, other) => (one, other),
    };
    let custom: &'static HtpDeviceConfig = Box::leak(Box::new(HtpDeviceConfig {
        option: POLYCHIP_QNN_HTP_DEVICE_SOC,
        soc_at_4,
        soc_at_8,
        zero: [0; 5],
    }));
    config(POLYCHIP_QNN_CONFIG_CUSTOM, custom_value(custom))
}

pub(crate) fn quant(encoding: &Encoding) -> Quant {
    let no_steps = ScaleOffset {
        scale: 0.0,
        offset: 0,
    };
    let (definition, kind, values) = match encoding {
        Encoding::None => (
            POLYCHIP_QNN_QUANT_NONE,
            POLYCHIP_QNN_QUANT_NONE,
            qnn::Encoding { per_tensor: no_steps },
        ),
        Encoding::PerTensor { scale, offset } => (
            POLYCHIP_QNN_QUANT_DEFINED,
            POLYCHIP_QNN_ENCODING_PER_TENSOR,
            qnn::Encoding {
                per_tensor: ScaleOffset {
                    scale: *scale,
                    offset: *offset,
                },
            },
        ),
        Encoding::PerAxis { axis, scales } => {
            let pairs: Vec<ScaleOffset> = scales
                .iter()
                .map(|scale| ScaleOffset {
                    scale: *scale,
                    offset: 0,
                })
                .collect();
            let per_axis = polychip_qnn_per_axis {
                axis: *axis,
                count: pairs.len() as u32,
                pairs: pairs.leak().as_mut_ptr(),
            };
            (
                POLYCHIP_QNN_QUANT_DEFINED,
                POLYCHIP_QNN_ENCODING_PER_AXIS,
                qnn::Encoding { per_axis },
            )
        }
        Encoding::BitsPerAxis { bits, axis, scales } => {
            let bits_per_axis = polychip_qnn_bits_per_axis {
                bits: *bits,
                axis: *axis,
                count: scales.len() as u32,
                scales: scales.clone().leak().as_mut_ptr(),
                offsets: vec![0; scales.len()].leak().as_mut_ptr(),
            };
            (
                POLYCHIP_QNN_QUANT_DEFINED,
                POLYCHIP_QNN_ENCODING_BITS_PER_AXIS,
                qnn::Encoding { bits_per_axis },
            )
        }
    };
    Quant {
        definition,
        encoding: kind,
        values,
    }
}

/// The description of a tensor, of version 2.
pub(crate) fn tensor(spec: &TensorSpec, id: u32) -> Tensor {
    let data: &'static mut [u8] = spec.data.clone().leak();
    let size = data.len() as u32;
    let v2 = TensorV2 {
        id,
        name: text(&spec.name),
        kind: spec.kind,
        format: POLYCHIP_QNN_FORMAT_DENSE,
        data_type: spec.data_type,
        quant: quant(&spec.encoding),
        rank: spec.dims.len() as u32,
        dimensions: spec.dims.clone().leak().as_mut_ptr(),
        memory_type: POLYCHIP_QNN_MEMORY_RAW,
        memory: polychip_qnn_tensor_memory {
            buffer: ClientBuffer {
                data: if size == 0 {
                    ptr::null_mut()
                } else {
                    data.as_mut_ptr().cast()
                },
                size,
            },
        },
        dynamic_dimensions: ptr::null_mut(),
        sparse: polychip_qnn_sparse { words: [0; 3] },
        produced: 0,
    };
    Tensor {
        version: POLYCHIP_QNN_TENSOR_V2,
        tensor: polychip_qnn_tensor_versions { v2 },
    }
}

/// What execute wants of an operand: id, memory type and buffer; the name may be null.
pub(crate) fn argument(operand: &Operand, bytes: &[u8]) -> Tensor {
    let mut made = tensor(&operand.spec, operand.id);
    let mut buffer = bytes.to_vec();
    buffer.resize(bytes.len() + SLACK, 0);
    // SAFETY: made of version 2 just now.
    let v2 = unsafe { &mut made.tensor.v2 };
    v2.name = ptr::null();
    v2.memory.buffer = ClientBuffer {
        data: buffer.leak().as_mut_ptr().cast(),
        size: bytes.len() as u32,
    };
    made
}

pub(crate) fn op_config(node: &NodeSpec, ids: &BTreeMap<String, u32>) -> OpConfig {
    let described = |specs: &[TensorSpec]| -> &'static mut [Tensor] {
        let tensors = specs
            .iter()
            .map(|spec| tensor(spec, ids.get(&spec.name).copied().unwrap_or(0)));
        tensors.collect::<Vec<_>>().leak()
    };
    let scalar = |data_type, value| polychip_qnn_param_value {
        scalar: Scalar { data_type, value },
    };
    let params = node.params.iter().map(|param| {
        let (kind, name, value) = match param {
            ParamSpec::Number { name, value } => (
                POLYCHIP_QNN_PARAM_SCALAR,
                name,
                scalar(
                    POLYCHIP_QNN_TYPE_U32,
                    polychip_qnn_scalar_value { unsigned32: *value },
                ),
            ),
            ParamSpec::Truth { name, value } => (
                POLYCHIP_QNN_PARAM_SCALAR,
                name,
                scalar(
                    POLYCHIP_QNN_TYPE_BOOL8,
                    polychip_qnn_scalar_value {
                        unsigned64: u64::from(*value),
                    },
                ),
            ),
            ParamSpec::Real { name, value } => (
                POLYCHIP_QNN_PARAM_SCALAR,
                name,
                scalar(
                    POLYCHIP_QNN_TYPE_F32,
                    polychip_qnn_scalar_value { float32: *value },
                ),
            ),
            ParamSpec::Tensor { name, tensor: spec } => {
                let id = ids.get(&spec.name).copied().unwrap_or(0);
                (
                    POLYCHIP_QNN_PARAM_TENSOR,
                    name,
                    polychip_qnn_param_value {
                        tensor: tensor(spec, id),
                    },
                )
            }
        };
        Param {
            kind,
            name: text(name),
            value,
        }
    });
    let params = params.collect::<Vec<_>>().leak();
    let (inputs, outputs) = (described(&node.inputs), described(&node.outputs));
    OpConfig {
        version: POLYCHIP_QNN_OP_CONFIG_V1,
        op: polychip_qnn_op_config_versions {
            v1: OpConfigV1 {
                name: text(node.name),
                package_name: text("qti.aisw"),
                type_name: text(node.kind),
                param_count: params.len() as u32,
                params: params.as_mut_ptr(),
                input_count: inputs.len() as u32,
                inputs: inputs.as_mut_ptr(),
                output_count: outputs.len() as u32,
                outputs: outputs.as_mut_ptr(),
            },
        },
    }
}
