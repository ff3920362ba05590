//! What the library calls each step, and its operands: tensors first, then numbers in the order of NNAPI.

use half::f16;
use polychip_lowering::operands::{self, Kind, Place, Resampling, Role, Step, Type, constant};
use polychip_lowering::{Outcome, Refusal};
use polychip_ops::Op;
use polychip_ops::operator::{Coordinates, PadMode, Rounding};
use polychip_sys::neuron::bindings as sys;

use crate::program::{Operand, OperandId, Operation, Program, Quant, Value, number};

/// The library's code of a tensor of this type.
pub(super) fn code(ty: Type) -> Option<u32> {
    Some(match ty {
        Type::Float32 => sys::NEURON_TENSOR_FLOAT32,
        Type::Float16 => sys::NEURON_TENSOR_FLOAT16,
        Type::Int32 => sys::NEURON_TENSOR_INT32,
        Type::Bool8 => sys::NEURON_TENSOR_BOOL8,
        Type::Ufixed8 => sys::NEURON_TENSOR_QUANT8_ASYMM,
        Type::Sfixed8 => sys::NEURON_TENSOR_QUANT8_ASYMM_SIGNED,
        _ => return None,
    })
}

/// Types that an operation computes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Floats,
    /// Floats and encoded integers.
    Reals,
    /// Plain integers too.
    Numbers,
    Truths,
}

/// Operations of one operand.
fn unary(op: Op) -> Option<(u32, On)> {
    Some(match op {
        Op::Abs => (sys::NEURON_ABS, On::Floats),
        Op::Exp => (sys::NEURON_EXP, On::Floats),
        Op::Floor => (sys::NEURON_FLOOR, On::Floats),
        Op::Neg => (sys::NEURON_NEG, On::Floats),
        Op::Sqrt => (sys::NEURON_SQRT, On::Floats),
        Op::Relu => (sys::NEURON_RELU, On::Reals),
        Op::Sigmoid => (sys::NEURON_LOGISTIC, On::Reals),
        Op::Tanh => (sys::NEURON_TANH, On::Reals),
        Op::HardSwish => (sys::NEURON_HARD_SWISH, On::Reals),
        Op::Not => (sys::NEURON_LOGICAL_NOT, On::Truths),
        _ => return None,
    })
}

/// Operations of two operands, what they compute on, and whether they say what is done to the result.
fn binary(op: Op) -> Option<(u32, On, bool)> {
    Some(match op {
        Op::Add | Op::Sum => (sys::NEURON_ADD, On::Numbers, true),
        Op::Sub => (sys::NEURON_SUB, On::Numbers, true),
        Op::Mul => (sys::NEURON_MUL, On::Numbers, true),
        // of integers, the library rounds down
        Op::Div => (sys::NEURON_DIV, On::Floats, true),
        Op::Max => (sys::NEURON_MAXIMUM, On::Numbers, false),
        Op::Min => (sys::NEURON_MINIMUM, On::Numbers, false),
        Op::Pow => (sys::NEURON_POW, On::Floats, false),
        Op::PRelu => (sys::NEURON_PRELU, On::Reals, false),
        Op::Equal => (sys::NEURON_EQUAL, On::Numbers, false),
        Op::Greater => (sys::NEURON_GREATER, On::Numbers, false),
        Op::GreaterOrEqual => (sys::NEURON_GREATER_EQUAL, On::Numbers, false),
        Op::Less => (sys::NEURON_LESS, On::Numbers, false),
        Op::LessOrEqual => (sys::NEURON_LESS_EQUAL, On::Numbers, false),
        Op::And => (sys::NEURON_LOGICAL_AND, On::Truths, false),
        Op::Or => (sys::NEURON_LOGICAL_OR, On::Truths, false),
        _ => return None,
    })
}

/// Whether an op is an operation.
pub(super) fn has(op: Op) -> bool {
    let named = unary(op).is_some() || binary(op).is_some();
    named
        || matches!(
            op,
            Op::AveragePool
                | Op::Cast
                | Op::Concat
                | Op::Conv
                | Op::ConvTranspose
                | Op::DepthToSpace
                | Op::DequantizeLinear
                | Op::Expand
                | Op::Gather
                | Op::Gemm
                | Op::GlobalAveragePool
                | Op::GlobalMaxPool
                | Op::MatMul
                | Op::MaxPool
                | Op::Pad
                | Op::QuantizeLinear
                | Op::ReduceMax
                | Op::ReduceMean
                | Op::ReduceMin
                | Op::ReduceSum
                | Op::Resize
                | Op::Slice
                | Op::Softmax
                | Op::SpaceToDepth
                | Op::Split
                | Op::Tile
                | Op::Transpose
                | Op::Where
        )
}

/// Whether an operation has an activation parameter.
pub(super) fn takes_activation(kind: &Kind) -> bool {
    match kind {
        Kind::Binary(op) => binary(*op).is_some_and(|(_, _, fuses)| fuses),
        Kind::Conv(..) | Kind::Connected | Kind::Pool(..) => true,
        _ => false,
    }
}

/// The code of a range that a result is clipped to.
pub(super) fn activation(range: [f32; 2]) -> Option<u32> {
    match range {
        [0.0, f32::MAX] => Some(sys::NEURON_FUSED_RELU),
        [-1.0, 1.0] => Some(sys::NEURON_FUSED_RELU1),
        [0.0, 6.0] => Some(sys::NEURON_FUSED_RELU6),
        _ => None,
    }
}

/// A program of steps in the library's words.
pub(super) fn program(from: &operands::Program) -> Outcome<Program> {
    let mut encode = Encode {
        from,
        program: Program {
            operands: from.operands.iter().map(operand).collect(),
            operations: Vec::with_capacity(from.steps.len()),
            inputs: from.inputs.clone(),
            outputs: from.outputs.clone(),
            relaxed: false,
        },
    };
    for step in &from.steps {
        encode.step(step).map_err(|refusal| match step.node {
            Some(node) => refusal.at(node),
            None => refusal,
        })?;
    }
    Ok(encode.program)
}

fn operand(from: &operands::Operand) -> Operand {
    let mut operand = Operand {
        // a bias of integers, where it is no type of data
        code: code(from.ty).unwrap_or(sys::NEURON_TENSOR_INT32),
        dims: from.dims.iter().map(|&dim| dim as u32).collect(),
        quant: Quant::default(),
        channels: None,
        value: match &from.role {
            Role::Data(bytes) => Some(Value::Data(bytes.clone())),
            _ => None,
        },
    };
    match &from.quant {
        operands::Quant::PerTensor { scale, zero } => {
            operand.quant = Quant {
                scale: *scale,
                zero: *zero,
            };
        }
        operands::Quant::PerAxis { axis, scales, .. } if from.ty == Type::Sfixed8 => {
            operand.code = sys::NEURON_TENSOR_QUANT8_SYMM_PER_CHANNEL;
            operand.channels = Some((*axis as u32, scales.clone()));
        }
        _ => {}
    }
    operand
}

struct Encode<'p> {
    from: &'p operands::Program,
    program: Program,
}

impl Encode<'_> {
    fn scalar(&mut self, code: u32, value: Value) -> OperandId {
        self.program.operand(Operand {
            code,
            dims: Vec::new(),
            quant: Quant::default(),
            channels: None,
            value: Some(value),
        })
    }

    fn int(&mut self, value: usize) -> OperandId {
        self.scalar(sys::NEURON_INT32, number(value as i32))
    }

    fn truth(&mut self, value: bool) -> OperandId {
        self.scalar(sys::NEURON_BOOL, Value::Parameter(vec![u8::from(value)]))
    }

    /// A real number, of 16 bits beside tensors of such.
    fn real(&mut self, beside: Type, value: f32) -> OperandId {
        let (code, bytes) = match beside {
            Type::Float16 => (sys::NEURON_FLOAT16, f16::from_f32(value).to_le_bytes().to_vec()),
            _ => (sys::NEURON_FLOAT32, value.to_le_bytes().to_vec()),
        };
        self.scalar(code, Value::Parameter(bytes))
    }

    /// A tensor of extents, axes or places.
    fn list(&mut self, values: &[usize]) -> OperandId {
        let bytes = values.iter().flat_map(|&value| (value as i32).to_le_bytes());
        let value = Value::Parameter(bytes.collect());
        let list = self.scalar(sys::NEURON_TENSOR_INT32, value);
        self.program.operands[list].dims = vec![values.len() as u32];
        list
    }

    /// Pads, as code or as numbers, and steps: columns before rows.
    fn window(&mut self, place: &Place, image: Option<&[usize]>) -> Vec<OperandId> {
        let same = |axis: usize, size: usize| {
            let (stride, extent) = (
                place.strides[axis],
                (place.kernel[axis] - 1) * place.dilations[axis] + 1,
            );
            let total = ((size.div_ceil(stride) - 1) * stride + extent).saturating_sub(size);
            place.pads[axis] == (total / 2, total - total / 2)
        };
        let [(top, bottom), (left, right)] = place.pads;
        let mut numbers = match image {
            Some(_) if place.pads == [(0, 0); 2] => vec![sys::NEURON_PADDING_VALID as usize],
            // pads that the library finds itself
            Some(dims) if same(0, dims[1]) && same(1, dims[2]) => vec![sys::NEURON_PADDING_SAME as usize],
            _ => vec![left, right, top, bottom],
        };
        numbers.extend([place.strides[1], place.strides[0]]);
        numbers.into_iter().map(|value| self.int(value)).collect()
    }

    fn step(&mut self, step: &Step) -> Outcome<()> {
        let operand = |id: usize| &self.from.operands[id];
        let ty = operand(step.inputs[0]).ty;
        let dims = operand(step.inputs[0]).dims.clone();
        let to = operand(step.outputs[0]);
        let (out, into) = (to.dims.clone(), to.ty);
        let bare = |what: &str| Err(Refusal::dtype(format!("{what} of {ty:?}: the library has none")));
        let mut inputs = step.inputs.clone();
        let activation = step
            .activation
            .and_then(activation)
            .unwrap_or(sys::NEURON_FUSED_NONE);
        let activation = activation as usize;
        let code = match &step.kind {
            // of whole numbers, host libraries say yes and fail when they compile
            Kind::Reshape if matches!(ty, Type::Bool8 | Type::Int32) => return bare("another shape"),
            Kind::Transpose(_)
            | Kind::Concat(_)
            | Kind::Split(..)
            | Kind::Slice(_)
            | Kind::Pad(..)
            | Kind::Tile(_)
            | Kind::Gather(..)
                if ty == Type::Bool8 =>
            {
                return bare("a movement");
            }
            Kind::Reshape => {
                inputs.push(self.list(&out));
                sys::NEURON_RESHAPE
            }
            Kind::Transpose(perm) => {
                inputs.push(self.list(perm));
                sys::NEURON_TRANSPOSE
            }
            Kind::Convert => match (ty.is_quantised(), into.is_quantised()) {
                (false, true) if ty.is_float() => sys::NEURON_QUANTIZE,
                (true, false) if into.is_float() => sys::NEURON_DEQUANTIZE,
                (false, false) => sys::NEURON_CAST,
                _ => return Err(Refusal::dtype(format!("{ty:?} becomes {into:?} in no operation"))),
            },
            Kind::Unary(op, _) => {
                let (code, on) = unary(*op).ok_or_else(|| missing(*op))?;
                self.takes(on, step, *op)?;
                code
            }
            Kind::Clip(low, _) => {
                if *low < 0.0 {
                    sys::NEURON_RELU1
                } else {
                    sys::NEURON_RELU6
                }
            }
            Kind::Binary(op) => {
                let (code, on, fuses) = binary(*op).ok_or_else(|| missing(*op))?;
                self.takes(on, step, *op)?;
                if fuses {
                    inputs.push(self.int(activation));
                }
                code
            }
            Kind::Select if operand(inputs[1]).ty == Type::Bool8 => {
                return Err(Refusal::dtype("Where of truth values"));
            }
            Kind::Select => sys::NEURON_SELECT,
            Kind::Concat(axis) => {
                inputs.push(self.int(*axis));
                sys::NEURON_CONCATENATION
            }
            Kind::Split(axis, sizes) => {
                inputs.extend([self.int(*axis), self.int(sizes.len())]);
                sys::NEURON_SPLIT
            }
            Kind::Slice([begin, _, step]) if step.iter().all(|&step| step == 1) => {
                inputs.extend([self.list(begin), self.list(&out)]);
                sys::NEURON_SLICE
            }
            Kind::Slice(lists) => {
                inputs.extend(lists.iter().map(|list| self.list(list)).collect::<Vec<_>>());
                inputs.extend([0; 3].map(|mask| self.int(mask)));
                sys::NEURON_STRIDED_SLICE
            }
            Kind::Pad(mode, amounts, value) => {
                if *mode != PadMode::Constant {
                    return Err(Refusal::attribute(format!("Pad with mode {}", mode.text())));
                }
                let flat: Vec<usize> = amounts
                    .iter()
                    .flat_map(|&(before, behind)| [before, behind])
                    .collect();
                let list = self.list(&flat);
                self.program.operands[list].dims = vec![amounts.len() as u32, 2];
                inputs.push(list);
                if *value == 0.0 {
                    sys::NEURON_PAD
                } else {
                    let quant = &self.from.operands[inputs[0]].quant;
                    let stored = constant::quantise(ty, quant, &[*value]);
                    inputs.push(match stored {
                        _ if ty.is_float() => self.real(ty, *value),
                        Some(stored) => self.scalar(sys::NEURON_INT32, number(stored[0] as i32)),
                        None => self.scalar(sys::NEURON_INT32, number(*value as i32)),
                    });
                    sys::NEURON_PAD_V2
                }
            }
            Kind::Tile(times) => {
                inputs.push(self.list(times));
                sys::NEURON_TILE
            }
            Kind::Gather(_, axis) => {
                inputs.insert(1, self.int(*axis));
                sys::NEURON_GATHER
            }
            Kind::Conv(place, group, depthwise) => {
                inputs.extend(self.window(place, Some(&dims)));
                let code = match (depthwise, group) {
                    (true, _) => {
                        inputs.push(self.int(out[3] / group));
                        sys::NEURON_DEPTHWISE_CONV_2D
                    }
                    (false, 1) => sys::NEURON_CONV_2D,
                    (false, group) => {
                        inputs.push(self.int(*group));
                        sys::NEURON_GROUPED_CONV_2D
                    }
                };
                inputs.extend([self.int(activation), self.truth(false)]);
                if code != sys::NEURON_GROUPED_CONV_2D {
                    inputs.extend([self.int(place.dilations[1]), self.int(place.dilations[0])]);
                } else if place.dilations != [1, 1] {
                    return Err(Refusal::attribute("dilations of a grouped convolution"));
                }
                code
            }
            Kind::ConvTranspose(place, group, more) => {
                let mut place = place.clone();
                for ((_, end), more) in place.pads.iter_mut().zip(more) {
                    let what = "a transposed convolution with more behind its last window";
                    *end = end.checked_sub(*more).ok_or_else(|| Refusal::attribute(what))?;
                }
                if *group != 1 {
                    return Err(Refusal::attribute("groups of a transposed convolution"));
                }
                inputs.extend(self.window(&place, None));
                inputs.extend([self.int(sys::NEURON_FUSED_NONE as usize), self.truth(false)]);
                sys::NEURON_TRANSPOSE_CONV_2D
            }
            Kind::Pool(op, place, counted) => {
                // the library averages over what lies inside the image
                if *counted && place.pads != [(0, 0); 2] {
                    return Err(Refusal::attribute("count_include_pad with pads"));
                }
                inputs.extend(self.window(place, Some(&dims)));
                // channels last, as where the order is left out
                inputs.extend([place.kernel[1], place.kernel[0], activation].map(|value| self.int(value)));
                match op {
                    Op::MaxPool => sys::NEURON_MAX_POOL_2D,
                    _ => sys::NEURON_AVERAGE_POOL_2D,
                }
            }
            Kind::Resize(how) => {
                let (code, corners, half) = resize(how)?;
                inputs.extend([self.int(out[2]), self.int(out[1])]);
                inputs.extend([false, corners, half].map(|flag| self.truth(flag)));
                code
            }
            Kind::Blocks(_, _, true) => {
                return Err(Refusal::attribute("blocks with columns before rows (CRD)"));
            }
            Kind::Blocks(op, size, false) => {
                inputs.extend([self.int(*size), self.truth(false)]);
                match op {
                    Op::DepthToSpace => sys::NEURON_DEPTH_TO_SPACE,
                    _ => sys::NEURON_SPACE_TO_DEPTH,
                }
            }
            Kind::Connected => {
                inputs.push(self.int(activation));
                sys::NEURON_FULLY_CONNECTED
            }
            Kind::Product(flags) => {
                let right = &operand(inputs[1]).dims;
                let stacks = dims.len().saturating_sub(2);
                if dims.len() != right.len() || dims[..stacks] != right[..stacks] {
                    return Err(Refusal::shape(format!(
                        "a product of {dims:?} and {right:?}, one repeated"
                    )));
                }
                inputs.extend(flags.map(|flag| self.truth(flag)));
                sys::NEURON_BATCH_MATMUL
            }
            Kind::Softmax(_, axis) => {
                inputs.push(self.real(ty, 1.0));
                if axis + 1 != dims.len() {
                    inputs.push(self.int(*axis));
                }
                sys::NEURON_SOFTMAX
            }
            Kind::Reduce(op, axes, _) => {
                if !(ty.is_float() || ty.is_quantised()) {
                    return bare("a reduction");
                }
                inputs.push(self.list(axes));
                // one of these is a number, the others are truth values
                inputs.push(match op {
                    Op::ReduceMean => self.int(1),
                    _ => self.truth(true),
                });
                match op {
                    Op::ReduceMean => sys::NEURON_MEAN,
                    Op::ReduceMax => sys::NEURON_REDUCE_MAX,
                    Op::ReduceMin => sys::NEURON_REDUCE_MIN,
                    _ => sys::NEURON_REDUCE_SUM,
                }
            }
            other => return Err(Refusal::op(format!("{other:?}"))),
        };
        self.program.operations.push(Operation {
            code,
            inputs,
            outputs: step.outputs.clone(),
            node: step.node,
        });
        Ok(())
    }

    fn takes(&self, on: On, step: &Step, op: Op) -> Outcome<()> {
        let types = step.inputs.iter().map(|&id| self.from.operands[id].ty);
        for ty in types {
            let fits = match on {
                On::Floats => ty.is_float(),
                On::Reals => ty.is_float() || ty.is_quantised(),
                On::Numbers => ty != Type::Bool8,
                On::Truths => ty == Type::Bool8,
            };
            let first = self.from.operands[step.inputs[0]].ty;
            if !fits || ty != first {
                return Err(Refusal::dtype(format!("{op:?} of {ty:?} beside {first:?}")));
            }
        }
        Ok(())
    }
}

/// The operation that resamples so, whether it aligns corners, and whether its pixels have centres.
fn resize(how: &Resampling) -> Outcome<(u32, bool, bool)> {
    use Coordinates::{AlignCorners, Asymmetric, HalfPixel};
    let (bilinear, nearest) = (sys::NEURON_RESIZE_BILINEAR, sys::NEURON_RESIZE_NEAREST_NEIGHBOR);
    Ok(match (how.linear, how.centres, how.rounding) {
        (true, AlignCorners, _) => (bilinear, true, false),
        (true, HalfPixel, _) => (bilinear, false, true),
        (true, Asymmetric, _) => (bilinear, false, false),
        (false, Asymmetric, Rounding::Floor) => (nearest, false, false),
        // both round the half up; downwards they agree where no pixel lies half-way, as in whole multiples
        (false, HalfPixel, Rounding::RoundPreferCeil) => (nearest, false, true),
        (false, HalfPixel, Rounding::RoundPreferFloor) if how.whole => (nearest, false, true),
        _ => return Err(Refusal::attribute(how.words())),
    })
}

fn missing(op: Op) -> Refusal {
    Refusal::op(op.name())
}
