//! What QNN calls each step, and its parameters: operations of package `qti.aisw`.

use polychip_lowering::operands::{self, Kind, Place, Resampling, Role, Step, constant};
use polychip_lowering::{Outcome, Refusal};
use polychip_ops::Op;
use polychip_ops::operator::{Coordinates, PadMode, Rounding};

use crate::program::{Operation, Param, Program};

/// Operations of one operand and no parameters.
fn unary(op: Op) -> Option<&'static str> {
    Some(match op {
        Op::Abs => "ElementWiseAbs",
        Op::Asin => "ElementWiseAsin",
        Op::Atan => "ElementWiseAtan",
        Op::Ceil => "ElementWiseCeil",
        Op::Cos => "ElementWiseCos",
        Op::Exp => "ElementWiseExp",
        Op::Floor => "ElementWiseFloor",
        Op::Gelu => "Gelu",
        Op::HardSwish => "HardSwish",
        Op::IsNaN => "IsNan",
        Op::Log => "ElementWiseLog",
        Op::Neg => "ElementWiseNeg",
        Op::Not => "ElementWiseNot",
        Op::Relu => "Relu",
        Op::Round => "ElementWiseRound",
        Op::Sigmoid => "Sigmoid",
        Op::Sign => "ElementWiseSign",
        Op::Sin => "ElementWiseSin",
        Op::Sqrt => "ElementWiseSquareRoot",
        Op::Tanh => "Tanh",
        _ => return None,
    })
}

/// Operations of two operands.
fn binary(op: Op) -> Option<&'static str> {
    Some(match op {
        Op::Add | Op::Sum => "ElementWiseAdd",
        Op::And => "ElementWiseAnd",
        Op::Div => "ElementWiseDivide",
        Op::Equal => "ElementWiseEqual",
        Op::Greater => "ElementWiseGreater",
        Op::GreaterOrEqual => "ElementWiseGreaterEqual",
        Op::Less => "ElementWiseLess",
        Op::LessOrEqual => "ElementWiseLessEqual",
        Op::Max => "ElementWiseMaximum",
        Op::Min => "ElementWiseMinimum",
        Op::Mul => "ElementWiseMultiply",
        Op::Or => "ElementWiseOr",
        Op::Pow => "ElementWisePower",
        Op::PRelu => "Prelu",
        Op::Sub => "ElementWiseSubtract",
        Op::Xor => "ElementWiseXor",
        _ => return None,
    })
}

/// Whether an op is an operation, or one of those that several make.
pub(super) fn has(op: Op) -> bool {
    let named = unary(op).is_some() || binary(op).is_some();
    named
        || matches!(
            op,
            Op::ArgMax
                | Op::ArgMin
                | Op::AveragePool
                | Op::BatchNormalization
                | Op::Cast
                | Op::Clip
                | Op::Concat
                | Op::Conv
                | Op::ConvTranspose
                | Op::CumSum
                | Op::DepthToSpace
                | Op::DequantizeLinear
                | Op::Elu
                | Op::Expand
                | Op::Gather
                | Op::GatherElements
                | Op::GatherND
                | Op::Gemm
                | Op::GlobalAveragePool
                | Op::GlobalMaxPool
                | Op::GridSample
                | Op::GroupNormalization
                | Op::HardSigmoid
                | Op::InstanceNormalization
                | Op::LRN
                | Op::LayerNormalization
                | Op::LogSoftmax
                | Op::LpNormalization
                | Op::MatMul
                | Op::MaxPool
                | Op::Mean
                | Op::Mod
                | Op::Pad
                | Op::QLinearConv
                | Op::QLinearMatMul
                | Op::QuantizeLinear
                | Op::RMSNormalization
                | Op::Reciprocal
                | Op::ReduceMax
                | Op::ReduceMean
                | Op::ReduceMin
                | Op::ReduceProd
                | Op::ReduceSum
                | Op::ReduceSumSquare
                | Op::Resize
                | Op::ScatterElements
                | Op::ScatterND
                | Op::Slice
                | Op::Softmax
                | Op::Softplus
                | Op::SpaceToDepth
                | Op::Split
                | Op::Swish
                | Op::Tile
                | Op::TopK
                | Op::Transpose
                | Op::Where
        )
}

/// A program of steps in QNN's words.
pub(super) fn program(from: operands::Program) -> Outcome<Program> {
    let mut operations = Vec::with_capacity(from.steps.len());
    for (number, step) in from.steps.iter().enumerate() {
        let (kind, params) = operation(&from, step).map_err(|refusal| match step.node {
            Some(node) => refusal.at(node),
            None => refusal,
        })?;
        operations.push(Operation {
            name: format!("{number}_{kind}"),
            kind,
            params,
            inputs: step.inputs.clone(),
            outputs: step.outputs.clone(),
            node: step.node,
        });
    }
    let mut tensors = from.operands;
    for (id, tensor) in tensors.iter_mut().enumerate() {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = tensor.name.chars().take(64).map(plain).collect();
        let port = matches!(tensor.role, Role::Input | Role::Output);
        tensor.name = if port && name.is_empty() {
            format!("{id}_port")
        } else {
            format!("{id}_{name}")
        };
    }
    Ok(Program {
        tensors,
        operations,
        inputs: from.inputs,
        outputs: from.outputs,
    })
}

type Params = Vec<(&'static str, Param)>;

/// An operation's name and parameters.
fn operation(program: &operands::Program, step: &Step) -> Outcome<(&'static str, Params)> {
    let ty = |id: usize| program.operands[id].ty;
    let place = |place: usize| Param::U32(place as u32);
    let axis = |at: usize| vec![("axis", place(at))];
    let none = Vec::new();
    let first = step.inputs[0];
    Ok(match &step.kind {
        Kind::Reshape => ("Reshape", none),
        Kind::Transpose(perm) => ("Transpose", vec![("perm", u32s(perm))]),
        Kind::Convert => match (ty(first).is_quantised(), ty(step.outputs[0]).is_quantised()) {
            (true, true) => ("Convert", none),
            (true, false) => ("Dequantize", none),
            (false, true) => ("Quantize", none),
            (false, false) => ("Cast", none),
        },
        Kind::Unary(op, [alpha, beta]) => match op {
            Op::Elu => ("Elu", vec![("alpha", Param::F32(*alpha))]),
            Op::HardSigmoid => (
                "ElementWiseNeuron",
                vec![
                    ("operation", Param::U32(2)),
                    ("alpha", Param::F32(*alpha)),
                    ("beta", Param::F32(*beta)),
                ],
            ),
            Op::Softplus => ("ElementWiseNeuron", vec![("operation", Param::U32(7))]),
            Op::Reciprocal => ("ElementWiseUnary", vec![("operation", Param::U32(10))]),
            _ => (unary(*op).ok_or_else(|| missing(*op))?, none),
        },
        Kind::Clip(low, high) => (
            "ReluMinMax",
            vec![("min_value", Param::F32(*low)), ("max_value", Param::F32(*high))],
        ),
        Kind::Binary(op) => (binary(*op).ok_or_else(|| missing(*op))?, none),
        Kind::Remainder(true) => ("ElementWiseFmod", none),
        Kind::Remainder(false) => ("ElementWiseMod", none),
        Kind::Select => ("ElementWiseSelect", none),
        Kind::Concat(at) => ("Concat", axis(*at)),
        Kind::Split(at, sizes) => {
            let ends = sizes.iter().scan(0, |end, size| {
                *end += size;
                Some(*end)
            });
            let indices: Vec<usize> = ends.take(sizes.len() - 1).collect();
            (
                "Split",
                vec![("axis", place(*at)), ("split_index", u32s(&indices))],
            )
        }
        Kind::Slice([begin, end, step]) => {
            let range = |axis: usize| [begin[axis], end[axis], step[axis]].map(|value| value as i32);
            let values = (0..begin.len()).flat_map(range).collect();
            let dims = vec![begin.len() as u32, 3];
            ("StridedSlice", vec![("ranges", Param::I32s { dims, values })])
        }
        Kind::Pad(mode, amounts, value) => {
            let scheme = index(mode.text(), &["constant", "", "reflect", "edge"])?;
            let mut params = vec![("scheme", scheme), ("pad_amount", pairs(amounts))];
            if *mode == PadMode::Constant {
                let operand = &program.operands[first];
                let stored = constant::quantise(operand.ty, &operand.quant, &[*value]);
                params.push((
                    "pad_constant_value",
                    match stored {
                        _ if operand.ty.is_float() => Param::F32(*value),
                        // in the input's encoding, of 32 bits whatever the type
                        Some(stored) => Param::I32(i32::try_from(stored[0]).unwrap_or(0)),
                        None => Param::I32(*value as i32),
                    },
                ));
            }
            ("Pad", params)
        }
        Kind::Tile(times) => ("Tile", vec![("multiples", u32s(times))]),
        Kind::Gather(Op::Gather, at) => ("Gather", vec![("axis", Param::I32(*at as i32))]),
        Kind::Gather(Op::GatherElements, at) => ("GatherElements", axis(*at)),
        Kind::Gather(_, batch) => ("GatherNd", vec![("batch_dims", place(*batch))]),
        Kind::Scatter(Op::ScatterElements, at) => (
            "ScatterElements",
            vec![("reduction", Param::U32(0)), ("axis", place(*at))],
        ),
        Kind::Scatter(..) => ("ScatterNd", vec![("reduction", Param::U32(0))]),
        Kind::Conv(window, group, depthwise) => {
            let mut params = window_params(window);
            params.push(("dilation", u32s(&window.dilations)));
            if *depthwise {
                ("DepthWiseConv2d", params)
            } else {
                params.push(("group", place(*group)));
                ("Conv2d", params)
            }
        }
        Kind::ConvTranspose(window, group, more) => {
            let mut params = window_params(window);
            params.extend([("group", place(*group)), ("output_padding", u32s(more))]);
            ("TransposeConv2d", params)
        }
        Kind::Pool(op, window, counted) => {
            let mut params = window_params(window);
            params.push(("filter_size", u32s(&window.kernel)));
            match op {
                Op::MaxPool => ("PoolMax2d", params),
                _ => {
                    params.push(("count_pad_for_edges", Param::Bool(*counted)));
                    ("PoolAvg2d", params)
                }
            }
        }
        Kind::Resize(how) => resize(how)?,
        Kind::Blocks(op, size, columns) => {
            let mode = Param::U32(u32::from(*columns));
            let params = vec![("block_size", u32s(&[*size, *size])), ("mode", mode)];
            match op {
                Op::DepthToSpace => ("DepthToSpace", params),
                _ => ("SpaceToDepth", params),
            }
        }
        Kind::Connected => ("FullyConnected", none),
        Kind::Product([left, right]) => (
            "MatMul",
            vec![
                ("transpose_in0", Param::Bool(*left)),
                ("transpose_in1", Param::Bool(*right)),
            ],
        ),
        Kind::Softmax(op, at) => (
            if *op == Op::Softmax {
                "Softmax"
            } else {
                "LogSoftmax"
            },
            vec![("axis", place(*at)), ("beta", Param::F32(1.0))],
        ),
        Kind::Reduce(op, axes, keep) => (
            match op {
                Op::ReduceMax => "ReduceMax",
                Op::ReduceMin => "ReduceMin",
                Op::ReduceMean => "ReduceMean",
                Op::ReduceProd => "ReduceProd",
                Op::ReduceSumSquare => "ReduceSumSquare",
                _ => "ReduceSum",
            },
            vec![("axes", u32s(axes)), ("keep_dims", Param::Bool(*keep))],
        ),
        Kind::Arg(op, at, keep) => (
            if *op == Op::ArgMax { "Argmax" } else { "Argmin" },
            vec![("axis", place(*at)), ("keep_dims", Param::Bool(*keep))],
        ),
        Kind::TopK(k, largest) => (
            "TopK",
            vec![("k", Param::U32(*k)), ("largest", Param::Bool(*largest))],
        ),
        Kind::CumSum(at, exclusive, reverse) => (
            "CumulativeSum",
            vec![
                ("axis", place(*at)),
                ("exclusive", Param::Bool(*exclusive)),
                ("reverse", Param::Bool(*reverse)),
            ],
        ),
        Kind::Unit(at) => ("L2Norm", axis(*at)),
        Kind::Norm(op, axes, groups, epsilon) => {
            let mut params = vec![("epsilon", Param::F32(*epsilon))];
            match op {
                Op::BatchNormalization => ("Batchnorm", none),
                Op::InstanceNormalization => ("InstanceNorm", params),
                Op::GroupNormalization => {
                    params.push(("group", place(*groups)));
                    ("GroupNorm", params)
                }
                _ => {
                    params.push(("axes", u32s(axes)));
                    let layer = *op == Op::LayerNormalization;
                    (if layer { "LayerNorm" } else { "RmsNorm" }, params)
                }
            }
        }
        Kind::GridSample(mode, padding, corners) => (
            "GridSample",
            vec![
                ("align_corners", Param::Bool(*corners)),
                ("mode", index(mode.text(), &["linear", "nearest"])?),
                (
                    "padding_mode",
                    index(padding.text(), &["zeros", "border", "reflection"])?,
                ),
            ],
        ),
        Kind::Lrn(size, [alpha, beta, bias]) => (
            "Lrn",
            vec![
                // the library does not divide by the size
                ("alpha", Param::F32(alpha / *size as f32)),
                ("beta", Param::F32(*beta)),
                ("bias", Param::F32(*bias)),
                ("radius", Param::I32((*size as i32 - 1) / 2)),
            ],
        ),
    })
}

fn resize(how: &Resampling) -> Outcome<(&'static str, Params)> {
    let (corners, half) = (
        how.centres == Coordinates::AlignCorners,
        how.centres == Coordinates::HalfPixel,
    );
    let asymmetric = how.centres == Coordinates::Asymmetric;
    let simple = vec![
        ("align_corners", Param::Bool(corners)),
        ("half_pixel_centers", Param::Bool(half)),
    ];
    let plain = corners || half || asymmetric;
    // elsewhere the op does not say how it rounds
    match how.linear {
        true if plain => return Ok(("ResizeBilinear", simple)),
        false if asymmetric && how.rounding == Rounding::Floor => {
            return Ok(("ResizeNearestNeighbor", simple));
        }
        _ => {}
    }
    let known = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"];
    let mut params = vec![
        ("transformation_mode", index(how.centres.text(), &known)?),
        ("interpolation_mode", Param::U32(u32::from(how.linear))),
        ("exclude_outside", Param::Bool(how.exclude)),
    ];
    if !how.linear {
        let modes = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];
        params.push(("nearest_mode", index(how.rounding.text(), &modes)?));
    }
    Ok(("Resize", params))
}

fn missing(op: Op) -> Refusal {
    Refusal::op(op.name())
}

/// The place of a word in a list.
fn index(word: &str, list: &[&str]) -> Outcome<Param> {
    let place = list.iter().position(|&entry| entry == word);
    let place = place.ok_or_else(|| Refusal::attribute(format!("mode {word}")))?;
    Ok(Param::U32(place as u32))
}

/// A parameter of one axis.
fn u32s(values: &[usize]) -> Param {
    Param::U32s {
        dims: vec![values.len() as u32],
        values: values.iter().map(|&value| value as u32).collect(),
    }
}

/// A parameter of pairs.
fn pairs(values: &[(usize, usize)]) -> Param {
    let words = values
        .iter()
        .flat_map(|&(first, second)| [first as u32, second as u32]);
    Param::U32s {
        dims: vec![values.len() as u32, 2],
        values: words.collect(),
    }
}

/// Stride and pads of a window.
fn window_params(window: &Place) -> Params {
    vec![
        ("stride", u32s(&window.strides)),
        ("pad_amount", pairs(&window.pads)),
    ]
}
