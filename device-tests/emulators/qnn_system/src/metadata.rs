//! What a context binary holds, as C structs.
//!
//! Invariant: every pointer of [`Metadata::info`] leads into memory that the same [`Metadata`] owns and never moves.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char};
use std::ptr;

use polychip_emulator_qnn_format::{Binary, CORE_VERSION, Encoding, HTP_VERSION, Linear, Tensor};
use polychip_sys::qnn as sys;

/// The description of one binary.
pub(crate) struct Metadata {
    info: Box<sys::BinaryInfo>,
    /// Owned, never read: what the description points to.
    _memory: Memory,
}

// SAFETY: nothing changes after it was made, and the pointers lead into memory that it owns.
unsafe impl Send for Metadata {}

#[derive(Default)]
struct Memory {
    texts: Vec<CString>,
    words: Vec<Box<[u32]>>,
    pairs: Vec<Box<[sys::ScaleOffset]>>,
    floats: Vec<Box<[f32]>>,
    offsets: Vec<Box<[i32]>>,
    tensors: Vec<Box<[sys::Tensor]>>,
    graphs: Vec<Box<[sys::GraphInfo]>>,
}

impl Memory {
    fn text(&mut self, text: &str) -> *const c_char {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        self.texts.push(text);
        self.texts.last().map_or(ptr::null(), |text| text.as_ptr())
    }
}

/// Keeps a list and gives a pointer to it, and its length.
fn keep<T>(lists: &mut Vec<Box<[T]>>, list: Vec<T>) -> (*mut T, u32) {
    let mut list = list.into_boxed_slice();
    let out = (list.as_mut_ptr(), u32::try_from(list.len()).unwrap_or(u32::MAX));
    lists.push(list);
    out
}

fn version([major, minor, patch]: [u32; 3]) -> sys::Version {
    sys::Version { major, minor, patch }
}

impl Metadata {
    /// The description of a binary.
    pub(crate) fn new(binary: &Binary) -> Metadata {
        let mut memory = Memory::default();
        let graphs: Vec<sys::GraphInfo> = binary
            .graphs
            .iter()
            .map(|graph| {
                let inputs: Vec<sys::Tensor> = graph.inputs().map(|t| tensor(&mut memory, t)).collect();
                let outputs: Vec<sys::Tensor> = graph.outputs().map(|t| tensor(&mut memory, t)).collect();
                let (inputs, input_count) = keep(&mut memory.tensors, inputs);
                let (outputs, output_count) = keep(&mut memory.tensors, outputs);
                sys::GraphInfo {
                    version: sys::POLYCHIP_QNN_GRAPH_INFO_V3,
                    info: sys::polychip_qnn_graph_info_versions {
                        v3: sys::polychip_qnn_graph_info_v3 {
                            v2: sys::polychip_qnn_graph_info_v2 {
                                v1: sys::polychip_qnn_graph_info_v1 {
                                    name: memory.text(&graph.name),
                                    input_count,
                                    inputs,
                                    output_count,
                                    outputs,
                                },
                                updateable_count: 0,
                                updateable: ptr::null_mut(),
                            },
                            extra_bytes: 0,
                            extra: ptr::null(),
                        },
                    },
                }
            })
            .collect();
        let (graphs, graph_count) = keep(&mut memory.graphs, graphs);
        let v1 = sys::polychip_qnn_binary_info_v1 {
            library_id: sys::POLYCHIP_QNN_LIBRARY_HTP,
            build_id: memory.text(&binary.target.build),
            core_api: version(CORE_VERSION),
            library_api: version(HTP_VERSION),
            soc_version: memory.text(""),
            hardware_blob_version: version([0; 3]),
            context_blob_version: version([1, 0, 0]),
            hardware_blob_bytes: 0,
            hardware_blob: ptr::null(),
            context_blob_bytes: 0,
            context_blob: ptr::null(),
            tensor_count: 0,
            tensors: ptr::null_mut(),
            graph_count,
            graphs,
        };
        Metadata {
            info: Box::new(sys::BinaryInfo {
                version: sys::POLYCHIP_QNN_BINARY_INFO_V3,
                info: sys::polychip_qnn_binary_info_versions {
                    v3: sys::polychip_qnn_binary_info_v3 {
                        v2: sys::polychip_qnn_binary_info_v2 {
                            v1,
                            extra_bytes: 0,
                            extra: ptr::null(),
                        },
                        soc: binary.target.soc,
                    },
                },
            }),
            _memory: memory,
        }
    }

    /// The C struct, valid as long as this lives.
    pub(crate) fn info(&self) -> *const sys::BinaryInfo {
        &raw const *self.info
    }
}

fn tensor(memory: &mut Memory, tensor: &Tensor) -> sys::Tensor {
    let (dimensions, rank) = keep(&mut memory.words, tensor.dims.clone());
    sys::Tensor {
        version: sys::POLYCHIP_QNN_TENSOR_V2,
        tensor: sys::polychip_qnn_tensor_versions {
            v2: sys::TensorV2 {
                id: tensor.id,
                name: memory.text(&tensor.name),
                kind: tensor.kind as u32,
                format: tensor.format,
                data_type: tensor.dtype,
                quant: quant(memory, &tensor.encoding),
                rank,
                dimensions,
                memory_type: sys::POLYCHIP_QNN_MEMORY_RAW,
                memory: sys::polychip_qnn_tensor_memory {
                    buffer: sys::ClientBuffer {
                        data: ptr::null_mut(),
                        size: 0,
                    },
                },
                dynamic_dimensions: ptr::null_mut(),
                sparse: sys::polychip_qnn_sparse { words: [0; 3] },
                produced: 0,
            },
        },
    }
}

fn quant(memory: &mut Memory, encoding: &Encoding) -> sys::Quant {
    let pair = |step: &Linear| sys::ScaleOffset {
        scale: step.scale,
        offset: step.offset,
    };
    let none = sys::Encoding {
        per_tensor: sys::ScaleOffset {
            scale: 0.0,
            offset: 0,
        },
    };
    let values = match encoding {
        Encoding::None | Encoding::Other(_) => {
            return sys::Quant {
                definition: sys::POLYCHIP_QNN_QUANT_NONE,
                encoding: sys::POLYCHIP_QNN_QUANT_NONE,
                values: none,
            };
        }
        Encoding::PerTensor(step) => sys::Encoding {
            per_tensor: pair(step),
        },
        Encoding::PerAxis { axis, steps } => {
            let (pairs, count) = keep(&mut memory.pairs, steps.iter().map(pair).collect());
            sys::Encoding {
                per_axis: sys::polychip_qnn_per_axis {
                    axis: *axis,
                    count,
                    pairs,
                },
            }
        }
        Encoding::BitsPerTensor { bits, step } => sys::Encoding {
            bits_per_tensor: sys::polychip_qnn_bits_per_tensor {
                bits: *bits,
                scale: step.scale,
                offset: step.offset,
            },
        },
        Encoding::BitsPerAxis { bits, axis, steps } => {
            let (scales, count) = keep(&mut memory.floats, steps.iter().map(|s| s.scale).collect());
            let (offsets, _) = keep(&mut memory.offsets, steps.iter().map(|s| s.offset).collect());
            sys::Encoding {
                bits_per_axis: sys::polychip_qnn_bits_per_axis {
                    bits: *bits,
                    axis: *axis,
                    count,
                    scales,
                    offsets,
                },
            }
        }
    };
    sys::Quant {
        definition: sys::POLYCHIP_QNN_QUANT_DEFINED,
        encoding: encoding.code().unwrap_or(sys::POLYCHIP_QNN_QUANT_NONE),
        values,
    }
}
