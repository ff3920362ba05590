//! A program's tensors and operations as the vendor's structs.
//!
//! Invariant: what the structs point to lies on the heap at fixed addresses, held by the [`Raw`] that made
//! them, or is data of the program: both must outlive the structs.

use std::ffi::{CString, c_char, c_void};
use std::ptr;

use polychip_sys::qnn;

use crate::program::{self, Operation, Param, Program, Quant, Role, Tensor, TensorId, Type};

/// The vendor's name of its own operations.
const PACKAGE: &std::ffi::CStr = c"qti.aisw";

/// Holds what structs point to.
#[derive(Default)]
pub(super) struct Raw {
    texts: Vec<CString>,
    words: Vec<Box<[u32]>>,
    pairs: Vec<Box<[qnn::ScaleOffset]>>,
    floats: Vec<Box<[f32]>>,
    ints: Vec<Box<[i32]>>,
    params: Vec<Box<[qnn::Param]>>,
    tensors: Vec<Box<[qnn::Tensor]>>,
}

impl Raw {
    pub(super) fn new() -> Raw {
        Raw::default()
    }

    fn text(&mut self, text: &str) -> *const c_char {
        // names are made by us without zeros
        let text = CString::new(text).unwrap_or_default();
        let pointer = text.as_ptr();
        self.texts.push(text);
        pointer
    }

    fn words(&mut self, words: &[u32]) -> *mut u32 {
        let mut words: Box<[u32]> = words.into();
        let pointer = words.as_mut_ptr();
        self.words.push(words);
        pointer
    }

    fn quant(&mut self, quant: &Quant) -> qnn::Quant {
        let defined = |encoding, values| qnn::Quant {
            definition: qnn::POLYCHIP_QNN_QUANT_DEFINED,
            encoding,
            values,
        };
        // QNN's offset is minus the zero point
        let offset = |(scale, zero): (&f32, &i32)| qnn::ScaleOffset {
            scale: *scale,
            offset: zero.wrapping_neg(),
        };
        match quant {
            Quant::None => no_quant(),
            Quant::PerTensor { scale, zero } => defined(
                qnn::POLYCHIP_QNN_ENCODING_PER_TENSOR,
                qnn::Encoding {
                    per_tensor: offset((scale, zero)),
                },
            ),
            Quant::PerAxis {
                axis,
                scales,
                zeros,
                bits: None,
            } => {
                let mut list: Box<[qnn::ScaleOffset]> = scales.iter().zip(zeros).map(offset).collect();
                let per_axis = qnn::polychip_qnn_per_axis {
                    axis: *axis as i32,
                    count: list.len() as u32,
                    pairs: list.as_mut_ptr(),
                };
                self.pairs.push(list);
                defined(qnn::POLYCHIP_QNN_ENCODING_PER_AXIS, qnn::Encoding { per_axis })
            }
            Quant::PerAxis {
                axis,
                scales,
                zeros,
                bits: Some(bits),
            } => {
                let mut scales: Box<[f32]> = scales.as_slice().into();
                let mut offsets: Box<[i32]> = zeros.iter().map(|zero| zero.wrapping_neg()).collect();
                let bits_per_axis = qnn::polychip_qnn_bits_per_axis {
                    bits: *bits,
                    axis: *axis as i32,
                    count: scales.len() as u32,
                    scales: scales.as_mut_ptr(),
                    offsets: offsets.as_mut_ptr(),
                };
                self.floats.push(scales);
                self.ints.push(offsets);
                defined(
                    qnn::POLYCHIP_QNN_ENCODING_BITS_PER_AXIS,
                    qnn::Encoding { bits_per_axis },
                )
            }
        }
    }

    /// A tensor of a program, with the id the library gave it, or 0.
    pub(super) fn tensor(&mut self, tensor: &Tensor, id: u32) -> qnn::Tensor {
        let (kind, data): (u32, &[u8]) = match &tensor.role {
            Role::Input => (qnn::POLYCHIP_QNN_TENSOR_INPUT, &[]),
            Role::Output => (qnn::POLYCHIP_QNN_TENSOR_OUTPUT, &[]),
            Role::Inner => (qnn::POLYCHIP_QNN_TENSOR_NATIVE, &[]),
            Role::Data(bytes) => (qnn::POLYCHIP_QNN_TENSOR_STATIC, bytes),
        };
        let name = self.text(&tensor.name);
        let quant = self.quant(&tensor.quant);
        let dimensions = self.words(&tensor.dims.iter().map(|&dim| dim as u32).collect::<Vec<_>>());
        v1(qnn::TensorV1 {
            id,
            name,
            kind,
            format: qnn::POLYCHIP_QNN_FORMAT_DENSE,
            data_type: program::code(tensor.ty),
            quant,
            rank: tensor.dims.len() as u32,
            dimensions,
            memory_type: qnn::POLYCHIP_QNN_MEMORY_RAW,
            memory: memory(data.as_ptr().cast_mut().cast(), data.len()),
        })
    }

    /// The tensor of a parameter that is one; its data live as long as `self`.
    pub(super) fn param_tensor(&mut self, name: &str, param: &Param, id: u32) -> Option<qnn::Tensor> {
        let (ty, dims, words): (Type, &[u32], Vec<u32>) = match param {
            Param::U32s { dims, values } => (Type::Uint32, dims, values.clone()),
            Param::I32s { dims, values } => (
                Type::Int32,
                dims,
                values.iter().map(|value| value.cast_unsigned()).collect(),
            ),
            _ => return None,
        };
        let bytes = words.len() * size_of::<u32>();
        let data = self.words(&words);
        let name = self.text(name);
        let dimensions = self.words(dims);
        Some(v1(qnn::TensorV1 {
            id,
            name,
            kind: qnn::POLYCHIP_QNN_TENSOR_STATIC,
            format: qnn::POLYCHIP_QNN_FORMAT_DENSE,
            data_type: program::code(ty),
            quant: no_quant(),
            rank: dims.len() as u32,
            dimensions,
            memory_type: qnn::POLYCHIP_QNN_MEMORY_RAW,
            memory: memory(data.cast(), bytes),
        }))
    }

    fn param(&mut self, operation: &Operation, place: usize, id: u32) -> qnn::Param {
        let (name, param) = &operation.params[place];
        let scalar = |ty: Type, value| qnn::polychip_qnn_param_value {
            scalar: qnn::Scalar {
                data_type: program::code(ty),
                value,
            },
        };
        let (kind, value) = match param {
            Param::U32(value) => (
                qnn::POLYCHIP_QNN_PARAM_SCALAR,
                scalar(
                    Type::Uint32,
                    qnn::polychip_qnn_scalar_value { unsigned32: *value },
                ),
            ),
            Param::I32(value) => (
                qnn::POLYCHIP_QNN_PARAM_SCALAR,
                scalar(Type::Int32, qnn::polychip_qnn_scalar_value { signed32: *value }),
            ),
            Param::F32(value) => (
                qnn::POLYCHIP_QNN_PARAM_SCALAR,
                scalar(Type::Float32, qnn::polychip_qnn_scalar_value { float32: *value }),
            ),
            Param::Bool(value) => (
                qnn::POLYCHIP_QNN_PARAM_SCALAR,
                scalar(
                    Type::Bool8,
                    qnn::polychip_qnn_scalar_value {
                        boolean: u8::from(*value),
                    },
                ),
            ),
            Param::U32s { .. } | Param::I32s { .. } => {
                let tensor = self
                    .param_tensor(&param_name(operation, place), param, id)
                    .expect("invariant: this parameter is a tensor");
                (
                    qnn::POLYCHIP_QNN_PARAM_TENSOR,
                    qnn::polychip_qnn_param_value { tensor },
                )
            }
        };
        qnn::Param {
            kind,
            name: self.text(name),
            value,
        }
    }

    /// An operation. `id` gives the library's id of a thing, or 0 where none was given.
    pub(super) fn operation(
        &mut self,
        program: &Program,
        operation: &Operation,
        id: &dyn Fn(Thing) -> u32,
    ) -> qnn::OpConfig {
        let mut params: Box<[qnn::Param]> = (0..operation.params.len())
            .map(|place| self.param(operation, place, id(Thing::Param(place))))
            .collect();
        let side = |raw: &mut Raw, ids: &[TensorId]| {
            let mut list: Box<[qnn::Tensor]> = ids
                .iter()
                .map(|&tensor| raw.tensor(&program.tensors[tensor], id(Thing::Tensor(tensor))))
                .collect();
            let pointer = list.as_mut_ptr();
            raw.tensors.push(list);
            pointer
        };
        let inputs = side(self, &operation.inputs);
        let outputs = side(self, &operation.outputs);
        let op = qnn::OpConfigV1 {
            name: self.text(&operation.name),
            package_name: PACKAGE.as_ptr(),
            type_name: self.text(operation.kind),
            param_count: params.len() as u32,
            params: params.as_mut_ptr(),
            input_count: operation.inputs.len() as u32,
            inputs,
            output_count: operation.outputs.len() as u32,
            outputs,
        };
        self.params.push(params);
        qnn::OpConfig {
            version: qnn::POLYCHIP_QNN_OP_CONFIG_V1,
            op: qnn::polychip_qnn_op_config_versions { v1: op },
        }
    }
}

/// Something of an operation that the library gives an id to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Thing {
    Tensor(TensorId),
    Param(usize),
}

/// The name of a parameter's tensor.
pub(super) fn param_name(operation: &Operation, place: usize) -> String {
    format!("{}_{}", operation.name, operation.params[place].0)
}

fn no_quant() -> qnn::Quant {
    qnn::Quant {
        definition: qnn::POLYCHIP_QNN_QUANT_NONE,
        encoding: qnn::POLYCHIP_QNN_QUANT_NONE,
        // the whole union is written, so that nothing of it is left to chance
        values: qnn::Encoding {
            bits_per_axis: qnn::polychip_qnn_bits_per_axis {
                bits: 0,
                axis: 0,
                count: 0,
                scales: ptr::null_mut(),
                offsets: ptr::null_mut(),
            },
        },
    }
}

fn memory(data: *mut c_void, bytes: usize) -> qnn::polychip_qnn_tensor_memory {
    qnn::polychip_qnn_tensor_memory {
        buffer: qnn::ClientBuffer {
            data: if bytes == 0 { ptr::null_mut() } else { data },
            size: bytes as u32,
        },
    }
}

fn v1(tensor: qnn::TensorV1) -> qnn::Tensor {
    qnn::Tensor {
        version: qnn::POLYCHIP_QNN_TENSOR_V1,
        tensor: qnn::polychip_qnn_tensor_versions { v1: tensor },
    }
}

/// A tensor for a run: its id and where its elements are.
pub(super) fn bound(id: u32, kind: u32, ty: Type) -> qnn::Tensor {
    v1(qnn::TensorV1 {
        id,
        name: ptr::null(),
        kind,
        format: qnn::POLYCHIP_QNN_FORMAT_DENSE,
        data_type: program::code(ty),
        quant: no_quant(),
        rank: 0,
        dimensions: ptr::null_mut(),
        memory_type: qnn::POLYCHIP_QNN_MEMORY_RAW,
        memory: memory(ptr::null_mut(), 0),
    })
}

/// Points a tensor of a run to its elements.
pub(super) fn bind(tensor: &mut qnn::Tensor, data: *mut u8, bytes: usize) {
    tensor.tensor.v1.memory_type = qnn::POLYCHIP_QNN_MEMORY_RAW;
    tensor.tensor.v1.memory = memory(data.cast(), bytes);
}

/// Points a tensor of a run to memory that the context knows.
pub(super) fn bind_known(tensor: &mut qnn::Tensor, handle: qnn::Memory) {
    tensor.tensor.v1.memory_type = qnn::POLYCHIP_QNN_MEMORY_HANDLE;
    tensor.tensor.v1.memory = qnn::polychip_qnn_tensor_memory { handle };
}
