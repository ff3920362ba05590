//! Small models of one or two nodes, as QNN wants them: tensors with encodings, parameters, constants.
//!
//! Invariants:
//! 1. A model says the same on every machine: its constants come from a counter.
//! 2. Names, layouts and parameters are those that the vendor's library was seen to take (NHWC activations, HWIO
//!    filters, tensor parameters as static tensors of u32).

use polychip_sys::qnn::{
    POLYCHIP_QNN_TENSOR_INPUT as INPUT, POLYCHIP_QNN_TENSOR_NATIVE as NATIVE,
    POLYCHIP_QNN_TENSOR_OUTPUT as OUTPUT, POLYCHIP_QNN_TENSOR_STATIC as STATIC,
    POLYCHIP_QNN_TYPE_BOOL8 as BOOL8, POLYCHIP_QNN_TYPE_F16 as F16, POLYCHIP_QNN_TYPE_F32 as F32,
    POLYCHIP_QNN_TYPE_SFIXED4 as SFIXED4, POLYCHIP_QNN_TYPE_SFIXED8 as SFIXED8,
    POLYCHIP_QNN_TYPE_SFIXED16 as SFIXED16, POLYCHIP_QNN_TYPE_SFIXED32 as SFIXED32,
    POLYCHIP_QNN_TYPE_U32 as U32, POLYCHIP_QNN_TYPE_UFIXED8 as UFIXED8,
    POLYCHIP_QNN_TYPE_UFIXED16 as UFIXED16,
};
use serde::Serialize;

/// How a tensor's stored numbers mean real ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Encoding {
    None,
    PerTensor { scale: f32, offset: i32 },
    PerAxis { axis: i32, scales: Vec<f32> },
    BitsPerAxis { bits: u32, axis: i32, scales: Vec<f32> },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TensorSpec {
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) data_type: u32,
    pub(crate) dims: Vec<u32>,
    pub(crate) encoding: Encoding,
    /// Of constants.
    pub(crate) data: Vec<u8>,
}

impl TensorSpec {
    /// Bytes of its elements.
    pub(crate) fn bytes(&self) -> usize {
        let elements: u32 = self.dims.iter().product();
        let bits = match self.data_type & 0xff {
            0x04 => 4,
            0x08 => 8,
            0x16 => 16,
            0x64 => 64,
            _ => 32,
        };
        elements as usize * bits / 8
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ParamSpec {
    Number { name: &'static str, value: u32 },
    Truth { name: &'static str, value: bool },
    Real { name: &'static str, value: f32 },
    Tensor { name: &'static str, tensor: TensorSpec },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodeSpec {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) params: Vec<ParamSpec>,
    pub(crate) inputs: Vec<TensorSpec>,
    pub(crate) outputs: Vec<TensorSpec>,
}

/// Element types of activations and weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Types {
    U8,
    /// u8 activations, s8 weights per channel.
    U8S8,
    S8,
    /// u16 activations, s8 weights.
    U16S8,
    /// s16 activations, s8 weights.
    S16S8,
    F16,
    F32,
}

/// The model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Model {
    Conv,
    ConvRelu,
    Relu,
    Add,
    MaxPool,
    FullyConnected,
    /// 4-bit weights in 8-bit storage.
    FullyConnected4,
    /// 4-bit weights, two to a byte.
    FullyConnectedPacked,
    /// Both sides are inputs.
    MatMul,
    Softmax,
    Gelu,
    Elu,
    RmsNorm,
    Transpose,
    Reshape,
    /// An op that no library has.
    Unknown,
    /// A convolution whose output has one row too many.
    WrongShape,
}

impl Model {
    /// Nodes in order of execution.
    pub(crate) fn nodes(self, types: Types) -> Vec<NodeSpec> {
        let input = |dims: &[u32]| types.activation("in", INPUT, dims);
        let output = |dims: &[u32]| types.activation("out", OUTPUT, dims);
        match self {
            Self::Conv => vec![conv(types, output(&[1, 4, 4, 8]))],
            Self::WrongShape => vec![conv(types, output(&[1, 5, 4, 8]))],
            Self::ConvRelu => {
                let middle = types.activation("middle", NATIVE, &[1, 4, 4, 8]);
                vec![conv(types, middle.clone()), neuron(middle, output(&[1, 4, 4, 8]))]
            }
            Self::Relu => vec![neuron(input(&[1, 4, 4, 8]), output(&[1, 4, 4, 8]))],
            Self::Add => vec![NodeSpec {
                inputs: vec![
                    input(&[1, 4, 4, 8]),
                    types.activation("in2", INPUT, &[1, 4, 4, 8]),
                ],
                params: vec![ParamSpec::Number {
                    name: "operation",
                    value: 0,
                }],
                ..unary("ElementWiseBinary", input(&[1]), output(&[1, 4, 4, 8]))
            }],
            Self::MaxPool => vec![NodeSpec {
                params: vec![
                    list("filter_size", &[2], &[2, 2]),
                    list("stride", &[2], &[2, 2]),
                    list("pad_amount", &[2, 2], &[0, 0, 0, 0]),
                ],
                ..unary("PoolMax2d", input(&[1, 4, 4, 8]), output(&[1, 2, 2, 8]))
            }],
            Self::FullyConnected | Self::FullyConnected4 | Self::FullyConnectedPacked => {
                let mut node = unary("FullyConnected", input(&[1, 16]), output(&[1, 8]));
                node.inputs.push(self.weight(types));
                vec![node]
            }
            Self::MatMul => {
                let mut node = unary("MatMul", input(&[1, 4, 16]), output(&[1, 4, 8]));
                node.inputs.push(types.activation("in2", INPUT, &[1, 16, 8]));
                node.params = ["transpose_in0", "transpose_in1"]
                    .map(|name| ParamSpec::Truth { name, value: false })
                    .to_vec();
                vec![node]
            }
            Self::Softmax => {
                let mut out = output(&[1, 16]);
                if types == Types::S8 {
                    // another zero point than -128 validates and computes wrong
                    out.encoding = Encoding::PerTensor {
                        scale: 1.0 / 256.0,
                        offset: 128,
                    };
                }
                vec![NodeSpec {
                    params: vec![
                        ParamSpec::Number {
                            name: "axis",
                            value: 1,
                        },
                        ParamSpec::Real {
                            name: "beta",
                            value: 1.0,
                        },
                    ],
                    ..unary("Softmax", input(&[1, 16]), out)
                }]
            }
            Self::Gelu => vec![unary("Gelu", input(&[1, 4, 16]), output(&[1, 4, 16]))],
            Self::Elu => vec![NodeSpec {
                params: vec![ParamSpec::Real {
                    name: "alpha",
                    value: 1.0,
                }],
                ..unary("Elu", input(&[1, 4, 16]), output(&[1, 4, 16]))
            }],
            Self::RmsNorm => {
                let mut node = unary("RmsNorm", input(&[1, 4, 16]), output(&[1, 4, 16]));
                node.inputs.push(types.constant("gamma", &[16]));
                node.params = vec![
                    ParamSpec::Real {
                        name: "epsilon",
                        value: 1e-5,
                    },
                    list("axes", &[1], &[2]),
                ];
                vec![node]
            }
            Self::Transpose => vec![NodeSpec {
                params: vec![list("perm", &[4], &[0, 3, 1, 2])],
                ..unary("Transpose", input(&[1, 4, 4, 8]), output(&[1, 8, 4, 4]))
            }],
            Self::Reshape => vec![unary("Reshape", input(&[1, 4, 4, 8]), output(&[1, 128]))],
            Self::Unknown => vec![unary("NoSuchOp", input(&[1, 16]), output(&[1, 16]))],
        }
    }

    fn weight(self, types: Types) -> TensorSpec {
        let scales: Vec<f32> = (0..8u8).map(|i| 0.01 + f32::from(i) * 0.001).collect();
        match self {
            Self::FullyConnected4 => TensorSpec {
                encoding: Encoding::BitsPerAxis {
                    bits: 4,
                    axis: 0,
                    scales,
                },
                data: (0..128u8).map(|i| (i % 15).wrapping_sub(7)).collect(),
                ..constant("weight", SFIXED8, &[8, 16])
            },
            Self::FullyConnectedPacked => TensorSpec {
                encoding: Encoding::PerAxis { axis: 0, scales },
                ..constant("weight", SFIXED4, &[8, 16])
            },
            _ => types.weights("weight", &[8, 16], 0),
        }
    }
}

impl Types {
    fn activation(self, name: &str, kind: u32, dims: &[u32]) -> TensorSpec {
        let (data_type, encoding) = match self {
            Self::U8 | Self::U8S8 => (UFIXED8, (0.05, -128)),
            Self::S8 => (SFIXED8, (0.05, 0)),
            Self::U16S8 => (UFIXED16, (0.0005, -32768)),
            Self::S16S8 => (SFIXED16, (0.0005, 0)),
            Self::F16 => (F16, (0.0, 0)),
            Self::F32 => (F32, (0.0, 0)),
        };
        TensorSpec {
            name: name.to_owned(),
            kind,
            data_type,
            dims: dims.to_vec(),
            encoding: match encoding {
                (scale, offset) if scale > 0.0 => Encoding::PerTensor { scale, offset },
                _ => Encoding::None,
            },
            data: Vec::new(),
        }
    }

    /// Constants of the activations' type.
    fn constant(self, name: &str, dims: &[u32]) -> TensorSpec {
        let spec = self.activation(name, STATIC, dims);
        TensorSpec {
            data: filled(&spec),
            ..spec
        }
    }

    fn weights(self, name: &str, dims: &[u32], axis: usize) -> TensorSpec {
        let channels = dims[axis];
        match self {
            Self::F16 | Self::F32 => self.constant(name, dims),
            Self::U8 => TensorSpec {
                encoding: Encoding::PerTensor {
                    scale: 0.02,
                    offset: -128,
                },
                ..constant(name, UFIXED8, dims)
            },
            Self::S8 => TensorSpec {
                encoding: Encoding::PerTensor {
                    scale: 0.02,
                    offset: 0,
                },
                ..constant(name, SFIXED8, dims)
            },
            Self::U8S8 | Self::U16S8 | Self::S16S8 => TensorSpec {
                encoding: Encoding::PerAxis {
                    axis: i32::try_from(axis).unwrap(),
                    scales: (0..channels).map(|i| 0.02 + i as f32 * 0.001).collect(),
                },
                ..constant(name, SFIXED8, dims)
            },
        }
    }

    /// A bias for weights of one scale; weights per channel go without.
    fn bias(self, channels: u32) -> Option<TensorSpec> {
        match self {
            Self::U8 | Self::S8 => Some(TensorSpec {
                encoding: Encoding::PerTensor {
                    scale: 0.05 * 0.02,
                    offset: 0,
                },
                ..constant("bias", SFIXED32, &[channels])
            }),
            Self::F16 | Self::F32 => Some(self.constant("bias", &[channels])),
            Self::U8S8 | Self::U16S8 | Self::S16S8 => None,
        }
    }
}

fn conv(types: Types, output: TensorSpec) -> NodeSpec {
    let mut node = NodeSpec {
        name: "conv",
        ..unary("Conv2d", types.activation("in", INPUT, &[1, 4, 4, 4]), output)
    };
    node.inputs.push(types.weights("filter", &[3, 3, 4, 8], 3));
    node.inputs.extend(types.bias(8));
    node.params = vec![
        list("stride", &[2], &[1, 1]),
        list("pad_amount", &[2, 2], &[1, 1, 1, 1]),
        list("dilation", &[2], &[1, 1]),
        ParamSpec::Number {
            name: "group",
            value: 1,
        },
    ];
    node
}

fn neuron(input: TensorSpec, output: TensorSpec) -> NodeSpec {
    NodeSpec {
        name: "relu",
        params: vec![ParamSpec::Number {
            name: "operation",
            value: 4,
        }],
        ..unary("ElementWiseNeuron", input, output)
    }
}

fn unary(kind: &'static str, input: TensorSpec, output: TensorSpec) -> NodeSpec {
    NodeSpec {
        name: "node",
        kind,
        params: Vec::new(),
        inputs: vec![input],
        outputs: vec![output],
    }
}

/// A tensor parameter of u32.
fn list(name: &'static str, dims: &[u32], values: &[u32]) -> ParamSpec {
    ParamSpec::Tensor {
        name,
        tensor: TensorSpec {
            data: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            ..constant(name, U32, dims)
        },
    }
}

fn constant(name: &str, data_type: u32, dims: &[u32]) -> TensorSpec {
    let spec = TensorSpec {
        name: name.to_owned(),
        kind: STATIC,
        data_type,
        dims: dims.to_vec(),
        encoding: Encoding::None,
        data: Vec::new(),
    };
    TensorSpec {
        data: filled(&spec),
        ..spec
    }
}

/// Bytes for a tensor: harmless numbers of its type, from a counter.
pub(crate) fn filled(spec: &TensorSpec) -> Vec<u8> {
    let bytes = spec.bytes();
    match spec.data_type {
        F32 => (0..bytes / 4)
            .flat_map(|i| (((i * 37 % 101) as f32 - 50.0) / 50.0).to_le_bytes())
            .collect(),
        // 0.5, 1, -0.25, -1
        F16 => (0..bytes / 2)
            .flat_map(|i| [0x3800u16, 0x3c00, 0xb400, 0xbc00][i % 4].to_le_bytes())
            .collect(),
        SFIXED32 => (0..bytes / 4)
            .flat_map(|i| (i as i32 * 11 - 40).to_le_bytes())
            .collect(),
        BOOL8 => vec![1; bytes],
        _ => (0..bytes).map(|i| (i * 37 % 251) as u8).collect(),
    }
}
