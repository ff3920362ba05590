//! What the runtime calls each step, and its parameters: tensors with the role that names them.

use polychip_lowering::operands::{self, Kind, OperandId, Place, Role, Step, Type};
use polychip_lowering::{Outcome, Refusal};
use polychip_ops::Op;
use polychip_ops::operator::{Coordinates, PadMode};
use polychip_sys::nnrt::bindings as sys;

use crate::program::{Operation, Program, Quant, Tensor, TensorId};

/// The runtime's code of a type.
pub(super) fn code(ty: Type) -> Option<u32> {
    Some(match ty {
        Type::Float32 => sys::OH_NN_FLOAT32,
        Type::Float16 => sys::OH_NN_FLOAT16,
        Type::Int32 => sys::OH_NN_INT32,
        Type::Bool8 => sys::OH_NN_BOOL,
        Type::Sfixed8 => sys::OH_NN_INT8,
        _ => return None,
    })
}

/// Operations of one operand.
fn unary(op: Op) -> Option<(u32, On)> {
    let code = match op {
        Op::Abs => sys::OH_NN_OPS_ABS,
        Op::Ceil => sys::OH_NN_OPS_CEIL,
        Op::Cos => sys::OH_NN_OPS_COS,
        Op::Erf => sys::OH_NN_OPS_ERF,
        Op::Exp => sys::OH_NN_OPS_EXP,
        Op::Floor => sys::OH_NN_OPS_FLOOR,
        Op::HardSwish => sys::OH_NN_OPS_HSWISH,
        Op::LeakyRelu => sys::OH_NN_OPS_LEAKY_RELU,
        Op::Log => sys::OH_NN_OPS_LOG,
        Op::Neg => sys::OH_NN_OPS_NEG,
        Op::Not => sys::OH_NN_OPS_LOGICAL_NOT,
        Op::Reciprocal => sys::OH_NN_OPS_RECIPROCAL,
        Op::Relu => sys::OH_NN_OPS_RELU,
        Op::Sigmoid => sys::OH_NN_OPS_SIGMOID,
        Op::Sin => sys::OH_NN_OPS_SIN,
        Op::Sqrt => sys::OH_NN_OPS_SQRT,
        Op::Tanh => sys::OH_NN_OPS_TANH,
        _ => return None,
    };
    let on = match op {
        Op::Not => On::Truths,
        Op::HardSwish | Op::LeakyRelu | Op::Relu | Op::Sigmoid | Op::Tanh => On::Reals,
        _ => On::Floats,
    };
    Some((code, on))
}

/// What operands are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Floats,
    /// Floats and encoded integers.
    Reals,
    /// Floats and plain integers.
    Numbers,
    All,
    Truths,
}

/// Operations of two operands, the role of the parameter for the fused activation, and the allowed element types.
fn binary(op: Op) -> Option<(u32, Option<u32>, On)> {
    let plain = |code, on| (code, None, on);
    Some(match op {
        Op::Add | Op::Sum => (sys::OH_NN_OPS_ADD, Some(sys::OH_NN_ADD_ACTIVATIONTYPE), On::All),
        Op::Sub => (sys::OH_NN_OPS_SUB, Some(sys::OH_NN_SUB_ACTIVATIONTYPE), On::All),
        Op::Mul => (sys::OH_NN_OPS_MUL, Some(sys::OH_NN_MUL_ACTIVATION_TYPE), On::All),
        // how integers are rounded is not said
        Op::Div => (
            sys::OH_NN_OPS_DIV,
            Some(sys::OH_NN_DIV_ACTIVATIONTYPE),
            On::Floats,
        ),
        Op::Pow => plain(sys::OH_NN_OPS_POW, On::Floats),
        Op::PRelu => plain(sys::OH_NN_OPS_PRELU, On::Floats),
        Op::Max => plain(sys::OH_NN_OPS_MAXIMUM, On::Numbers),
        Op::Min => plain(sys::OH_NN_OPS_MINIMUM, On::Numbers),
        Op::Equal => plain(sys::OH_NN_OPS_EQUAL, On::Numbers),
        Op::Greater => plain(sys::OH_NN_OPS_GREATER, On::Numbers),
        Op::GreaterOrEqual => plain(sys::OH_NN_OPS_GREATER_EQUAL, On::Numbers),
        Op::Less => plain(sys::OH_NN_OPS_LESS, On::Numbers),
        Op::LessOrEqual => plain(sys::OH_NN_OPS_LESS_EQUAL, On::Numbers),
        Op::And => plain(sys::OH_NN_OPS_LOGICAL_AND, On::Truths),
        Op::Or => plain(sys::OH_NN_OPS_LOGICAL_OR, On::Truths),
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
                | Op::DepthToSpace
                | Op::DequantizeLinear
                | Op::Expand
                | Op::Gather
                | Op::Gemm
                | Op::GlobalAveragePool
                | Op::GlobalMaxPool
                | Op::LayerNormalization
                | Op::LogSoftmax
                | Op::MatMul
                | Op::MaxPool
                | Op::Pad
                | Op::QuantizeLinear
                | Op::ReduceMax
                | Op::ReduceMean
                | Op::ReduceMin
                | Op::ReduceProd
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
        Kind::Binary(op) => binary(*op).is_some_and(|(_, role, _)| role.is_some()),
        Kind::Conv(..) | Kind::Connected | Kind::Pool(..) => true,
        _ => false,
    }
}

/// The code of a range that a result is clipped to.
pub(super) fn activation(range: [f32; 2]) -> Option<u32> {
    match range {
        [0.0, f32::MAX] => Some(sys::OH_NN_FUSED_RELU),
        [0.0, 6.0] => Some(sys::OH_NN_FUSED_RELU6),
        _ => None,
    }
}

/// A program of steps in the runtime's words.
pub(super) fn program(from: &operands::Program) -> Outcome<Program> {
    let mut encode = Encode {
        from,
        program: Program {
            tensors: from.operands.iter().map(tensor).collect(),
            operations: Vec::with_capacity(from.steps.len()),
            inputs: from.inputs.clone(),
            outputs: from.outputs.clone(),
            reduced: false,
        },
        params: Vec::new(),
    };
    for step in &from.steps {
        encode.step(step).map_err(|refusal| match step.node {
            Some(node) => refusal.at(node),
            None => refusal,
        })?;
    }
    Ok(encode.program)
}

fn tensor(from: &operands::Operand) -> Tensor {
    Tensor {
        code: match from.ty {
            // no type of data: a port's, in front of a conversion or behind it
            Type::Ufixed8 => sys::OH_NN_UINT8,
            // a bias of integers is another
            ty => code(ty).unwrap_or(sys::OH_NN_INT32),
        },
        dims: from.dims.clone(),
        role: sys::OH_NN_TENSOR,
        image: from.image,
        quant: quant(from),
        value: match &from.role {
            Role::Data(bytes) => Some(bytes.clone()),
            _ => None,
        },
    }
}

/// The encoding of bytes. A bias has none: its steps are those of the product, and the runtime takes encodings of 8 bits only.
fn quant(from: &operands::Operand) -> Option<Quant> {
    if !matches!(from.ty, Type::Sfixed8 | Type::Ufixed8) {
        return None;
    }
    match &from.quant {
        operands::Quant::None => None,
        operands::Quant::PerTensor { scale, zero } => Some(Quant {
            scales: vec![*scale],
            zeros: vec![*zero],
        }),
        operands::Quant::PerAxis { scales, zeros, .. } => Some(Quant {
            scales: scales.clone(),
            zeros: zeros.clone(),
        }),
    }
}

/// The number of a type between which integers and reals are converted.
fn cast(ty: Type) -> Option<usize> {
    let code = match ty {
        Type::Sfixed8 => sys::NN_MINDSPORE_INT8,
        Type::Ufixed8 => sys::NN_MINDSPORE_UINT8,
        Type::Float16 => sys::NN_MINDSPORE_FLOAT16,
        Type::Float32 => sys::NN_MINDSPORE_FLOAT32,
        _ => return None,
    };
    Some(code as usize)
}

struct Encode<'p> {
    from: &'p operands::Program,
    program: Program,
    /// Parameters of the operation in the making.
    params: Vec<TensorId>,
}

impl Encode<'_> {
    fn param(&mut self, role: u32, code: u32, dims: Vec<usize>, value: Vec<u8>) {
        let id = self.program.add(Tensor {
            code,
            dims,
            role,
            image: false,
            quant: None,
            value: Some(value),
        });
        self.params.push(id);
    }

    fn truth(&mut self, role: u32, value: bool) {
        self.param(role, sys::OH_NN_BOOL, vec![], vec![u8::from(value)]);
    }

    fn byte(&mut self, role: u32, value: u32) {
        self.param(role, sys::OH_NN_INT8, vec![], vec![value as u8]);
    }

    fn int(&mut self, role: u32, value: i32) {
        self.param(role, sys::OH_NN_INT32, vec![], value.to_le_bytes().to_vec());
    }

    fn long(&mut self, role: u32, value: usize) {
        self.param(
            role,
            sys::OH_NN_INT64,
            vec![],
            (value as i64).to_le_bytes().to_vec(),
        );
    }

    fn longs(&mut self, role: u32, values: &[usize]) {
        let bytes = values.iter().flat_map(|&value| (value as i64).to_le_bytes());
        self.param(role, sys::OH_NN_INT64, vec![values.len()], bytes.collect());
    }

    fn real(&mut self, role: u32, value: f32) {
        self.param(role, sys::OH_NN_FLOAT32, vec![], value.to_le_bytes().to_vec());
    }

    /// A list of extents, axes or places.
    fn list(&mut self, values: &[usize]) -> TensorId {
        let bytes = values.iter().flat_map(|&value| (value as i32).to_le_bytes());
        let value = Some(bytes.collect());
        self.program.add(Tensor {
            code: sys::OH_NN_INT32,
            dims: vec![values.len()],
            role: sys::OH_NN_TENSOR,
            image: false,
            quant: None,
            value,
        })
    }

    /// Kernel, where there is a role for it, steps, pads and dilations.
    fn window(&mut self, place: &Place, roles: [Option<u32>; 4]) {
        let pads = place.pads.map(|(before, behind)| [before, behind]);
        let lists: [&[usize]; 4] = [
            &place.kernel,
            &place.strides,
            pads.as_flattened(),
            &place.dilations,
        ];
        for (role, list) in roles.into_iter().zip(lists) {
            if let Some(role) = role {
                self.longs(role, list);
            }
        }
    }

    fn step(&mut self, step: &Step) -> Outcome<()> {
        let operand = |id: usize| &self.from.operands[id];
        let ty = operand(step.inputs[0]).ty;
        let dims = operand(step.inputs[0]).dims.clone();
        let out = operand(step.outputs[0]).dims.clone();
        let mut inputs = step.inputs.clone();
        let range = step.activation.and_then(activation);
        let activation = range.unwrap_or(sys::OH_NN_FUSED_NONE);
        let code = match &step.kind {
            // the runtime's operations that move do not say that they take truth values
            Kind::Transpose(_)
            | Kind::Concat(_)
            | Kind::Split(..)
            | Kind::Slice(_)
            | Kind::Tile(_)
            | Kind::Gather(..)
                if ty == Type::Bool8 =>
            {
                return Err(Refusal::dtype("a movement of truth values"));
            }
            Kind::Reshape => {
                inputs.push(self.list(&out));
                sys::OH_NN_OPS_RESHAPE
            }
            Kind::Transpose(perm) => {
                inputs.push(self.list(perm));
                sys::OH_NN_OPS_TRANSPOSE
            }
            Kind::Convert if !ty.is_quantised() && !operand(step.outputs[0]).ty.is_quantised() => {
                let to = operand(step.outputs[0]).ty;
                let from_number = ty.is_float() || ty == Type::Int32;
                // how floats are rounded to integers is not documented, nor which are true
                let (Some(code), true, true) = (code(to), from_number, to.is_float()) else {
                    return Err(Refusal::dtype(format!("Cast of {ty:?} to {to:?}")));
                };
                let list = self.list(&[code as usize]);
                self.program.tensors[list].dims.clear();
                inputs.push(list);
                sys::OH_NN_OPS_CAST
            }
            Kind::Convert => {
                let to = operand(step.outputs[0]).ty;
                let (Some(from), Some(into), true) = (cast(ty), cast(to), ty != to) else {
                    return Err(Refusal::dtype(format!("{ty:?} becomes {to:?} in no operation")));
                };
                self.long(sys::OH_NN_QUANT_DTYPE_CAST_SRC_T, from);
                self.long(sys::OH_NN_QUANT_DTYPE_CAST_DST_T, into);
                sys::OH_NN_OPS_QUANT_DTYPE_CAST
            }
            Kind::Unary(op, [alpha, _]) => {
                let (code, on) = unary(*op).ok_or_else(|| missing(*op))?;
                self.takes(on, step, *op)?;
                if *op == Op::LeakyRelu {
                    self.real(sys::OH_NN_LEAKY_RELU_NEGATIVE_SLOPE, *alpha);
                }
                code
            }
            Kind::Clip(..) => sys::OH_NN_OPS_RELU6,
            Kind::Binary(op) => {
                let (code, role, on) = binary(*op).ok_or_else(|| missing(*op))?;
                self.takes(on, step, *op)?;
                if let Some(role) = role {
                    self.byte(role, activation);
                }
                match op {
                    Op::Pow => self.exponent(inputs[1], &dims, &out)?,
                    Op::PRelu => self.slopes(inputs[1], &dims)?,
                    _ => {}
                }
                code
            }
            Kind::Select if operand(inputs[1]).ty == Type::Bool8 => {
                return Err(Refusal::dtype("Where of truth values"));
            }
            Kind::Select => sys::OH_NN_OPS_SELECT,
            Kind::Concat(axis) => {
                self.long(sys::OH_NN_CONCAT_AXIS, *axis);
                sys::OH_NN_OPS_CONCAT
            }
            Kind::Split(axis, sizes) => {
                self.long(sys::OH_NN_SPLIT_OUTPUT_NUM, sizes.len());
                self.longs(sys::OH_NN_SPLIT_SIZE_SPLITS, sizes);
                self.long(sys::OH_NN_SPLIT_AXIS, *axis);
                sys::OH_NN_OPS_SPLIT
            }
            Kind::Slice([begin, _, step]) if step.iter().all(|&step| step == 1) => {
                inputs.extend([self.list(begin), self.list(&out)]);
                sys::OH_NN_OPS_SLICE
            }
            Kind::Slice(lists) => {
                for list in lists {
                    inputs.push(self.list(list));
                }
                for role in [
                    sys::OH_NN_STRIDED_SLICE_BEGIN_MASK,
                    sys::OH_NN_STRIDED_SLICE_END_MASK,
                    sys::OH_NN_STRIDED_SLICE_ELLIPSIS_MASK,
                    sys::OH_NN_STRIDED_SLICE_NEW_AXIS_MASK,
                    sys::OH_NN_STRIDED_SLICE_SHRINK_AXIS_MASK,
                ] {
                    self.long(role, 0);
                }
                sys::OH_NN_OPS_STRIDED_SLICE
            }
            Kind::Pad(mode, amounts, value) => {
                let mode = match mode {
                    PadMode::Constant => 0,
                    PadMode::Reflect => 1,
                    PadMode::Edge | PadMode::Wrap => {
                        return Err(Refusal::attribute(format!("Pad with mode {}", mode.text())));
                    }
                };
                if !ty.is_float() {
                    return Err(Refusal::dtype("Pad of integers: the value is a float"));
                }
                let flat: Vec<usize> = amounts
                    .iter()
                    .flat_map(|&(before, behind)| [before, behind])
                    .collect();
                let list = self.list(&flat);
                self.program.tensors[list].dims = vec![amounts.len(), 2];
                inputs.push(list);
                self.real(sys::OH_NN_PAD_CONSTANT_VALUE, *value);
                self.int(sys::OH_NN_PAD_PADDING_MODE, mode);
                sys::OH_NN_OPS_PAD
            }
            Kind::Tile(times) => {
                inputs.push(self.list(times));
                sys::OH_NN_OPS_TILE
            }
            Kind::Gather(_, axis) => {
                inputs.push(self.list(&[*axis]));
                sys::OH_NN_OPS_GATHER
            }
            Kind::Conv(place, group, depthwise) => {
                self.multiplies(step, Op::Conv)?;
                if *depthwise {
                    let roles = [
                        None,
                        Some(sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_STRIDES),
                        Some(sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_PAD),
                        Some(sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_DILATION),
                    ];
                    self.window(place, roles);
                    self.byte(sys::OH_NN_DEPTHWISE_CONV2D_NATIVE_ACTIVATION_TYPE, activation);
                    sys::OH_NN_OPS_DEPTHWISE_CONV2D_NATIVE
                } else {
                    let roles = [
                        None,
                        Some(sys::OH_NN_CONV2D_STRIDES),
                        Some(sys::OH_NN_CONV2D_PAD),
                        Some(sys::OH_NN_CONV2D_DILATION),
                    ];
                    self.window(place, roles);
                    self.long(sys::OH_NN_CONV2D_GROUP, *group);
                    self.byte(sys::OH_NN_CONV2D_ACTIVATION_TYPE, activation);
                    sys::OH_NN_OPS_CONV2D
                }
            }
            // the runtime does not say whether what it pads counts
            Kind::Pool(Op::AveragePool, place, _) if place.pads != [(0, 0); 2] => {
                return Err(Refusal::attribute("an average over pads"));
            }
            Kind::Pool(op, place, _) => {
                self.takes(On::Reals, step, *op)?;
                let (code, kernel, stride, pad, round, role) = match op {
                    Op::AveragePool => (
                        sys::OH_NN_OPS_AVG_POOL,
                        sys::OH_NN_AVG_POOL_KERNEL_SIZE,
                        sys::OH_NN_AVG_POOL_STRIDE,
                        sys::OH_NN_AVG_POOL_PAD,
                        sys::OH_NN_AVG_POOL_ROUND_MODE,
                        sys::OH_NN_AVG_POOL_ACTIVATION_TYPE,
                    ),
                    _ => (
                        sys::OH_NN_OPS_MAX_POOL,
                        sys::OH_NN_MAX_POOL_KERNEL_SIZE,
                        sys::OH_NN_MAX_POOL_STRIDE,
                        sys::OH_NN_MAX_POOL_PAD,
                        sys::OH_NN_MAX_POOL_ROUND_MODE,
                        sys::OH_NN_MAX_POOL_ACTIVATION_TYPE,
                    ),
                };
                self.window(place, [Some(kernel), Some(stride), Some(pad), None]);
                self.int(round, 0);
                self.byte(role, activation);
                code
            }
            Kind::Resize(how) => {
                let transform = match (how.linear, how.centres) {
                    (true, Coordinates::Asymmetric) => 0,
                    (true, Coordinates::AlignCorners) => 1,
                    (true, Coordinates::HalfPixel) => 2,
                    _ => return Err(Refusal::attribute(how.words())),
                };
                if how.exclude || !ty.is_float() {
                    return Err(Refusal::attribute("Resize of integers or with other weights"));
                }
                self.long(sys::OH_NN_RESIZE_BILINEAR_NEW_HEIGHT, out[1]);
                self.long(sys::OH_NN_RESIZE_BILINEAR_NEW_WIDTH, out[2]);
                self.truth(sys::OH_NN_RESIZE_BILINEAR_PRESERVE_ASPECT_RATIO, false);
                self.byte(sys::OH_NN_RESIZE_BILINEAR_COORDINATE_TRANSFORM_MODE, transform);
                self.long(sys::OH_NN_RESIZE_BILINEAR_EXCLUDE_OUTSIDE, 0);
                sys::OH_NN_OPS_RESIZE_BILINEAR
            }
            Kind::Blocks(Op::DepthToSpace, size, columns) => {
                self.long(sys::OH_NN_DEPTH_TO_SPACE_BLOCK_SIZE, *size);
                self.int(sys::OH_NN_DEPTH_TO_SPACE_MODE, i32::from(*columns));
                sys::OH_NN_OPS_DEPTH_TO_SPACE
            }
            Kind::Blocks(_, _, true) => {
                return Err(Refusal::attribute("SpaceToDepth with columns before rows (CRD)"));
            }
            Kind::Blocks(_, size, false) => {
                self.long(sys::OH_NN_SPACE_TO_DEPTH_BLOCK_SIZE, *size);
                sys::OH_NN_OPS_SPACE_TO_DEPTH
            }
            Kind::Connected => {
                self.multiplies(step, Op::Gemm)?;
                self.truth(sys::OH_NN_FULL_CONNECTION_HAS_BIAS, true);
                self.byte(sys::OH_NN_FULL_CONNECTION_ACTIVATIONTYPE, activation);
                sys::OH_NN_OPS_FULL_CONNECTION
            }
            Kind::Product([left, right]) => {
                self.takes(On::Reals, step, Op::MatMul)?;
                let other = &self.from.operands[inputs[1]].dims;
                let stacks = dims.len().saturating_sub(2);
                if dims.len() != other.len() || dims[..stacks] != other[..stacks] {
                    return Err(Refusal::shape(format!(
                        "a product of {dims:?} and {other:?}, one repeated"
                    )));
                }
                self.truth(sys::OH_NN_MATMUL_TRANSPOSE_A, *left);
                self.truth(sys::OH_NN_MATMUL_TRANSPOSE_B, *right);
                self.byte(sys::OH_NN_MATMUL_ACTIVATION_TYPE, sys::OH_NN_FUSED_NONE);
                sys::OH_NN_OPS_MATMUL
            }
            Kind::Softmax(Op::Softmax, axis) => {
                self.long(sys::OH_NN_SOFTMAX_AXIS, *axis);
                sys::OH_NN_OPS_SOFTMAX
            }
            Kind::Softmax(op, axis) => {
                self.takes(On::Floats, step, *op)?;
                self.long(sys::OH_NN_LOG_SOFTMAX_AXIS, *axis);
                sys::OH_NN_OPS_LOG_SOFTMAX
            }
            Kind::Reduce(op, axes, _) => {
                let taken = match ty {
                    Type::Int32 => matches!(op, Op::ReduceMax | Op::ReduceMin),
                    Type::Sfixed8 => *op == Op::ReduceMean,
                    _ => ty.is_float(),
                };
                if !taken {
                    return Err(Refusal::dtype(format!("{op:?} of {ty:?}")));
                }
                let (code, role) = match op {
                    Op::ReduceMean => (sys::OH_NN_OPS_REDUCE_MEAN, sys::OH_NN_REDUCE_MEAN_KEEP_DIMS),
                    Op::ReduceMax => (sys::OH_NN_OPS_REDUCE_MAX, sys::OH_NN_REDUCE_MAX_KEEP_DIMS),
                    Op::ReduceMin => (sys::OH_NN_OPS_REDUCE_MIN, sys::OH_NN_REDUCE_MIN_KEEP_DIMS),
                    Op::ReduceProd => (sys::OH_NN_OPS_REDUCE_PROD, sys::OH_NN_REDUCE_PROD_KEEP_DIMS),
                    _ => (sys::OH_NN_OPS_REDUCE_SUM, sys::OH_NN_REDUCE_SUM_KEEP_DIMS),
                };
                inputs.push(self.list(axes));
                self.truth(role, true);
                code
            }
            Kind::Norm(Op::LayerNormalization, axes, _, epsilon) if axes[0] > 0 => {
                self.takes(On::Floats, step, Op::LayerNormalization)?;
                self.long(sys::OH_NN_LAYER_NORM_BEGIN_NORM_AXIS, axes[0]);
                self.real(sys::OH_NN_LAYER_NORM_EPSILON, *epsilon);
                self.long(sys::OH_NN_LAYER_NORM_BEGIN_PARAM_AXIS, axes[0]);
                sys::OH_NN_OPS_LAYER_NORM
            }
            other => {
                return Err(Refusal::op(format!(
                    "{other:?} of {ty:?}: the runtime has no such"
                )));
            }
        };
        self.program.operations.push(Operation {
            code,
            params: std::mem::take(&mut self.params),
            inputs,
            outputs: step.outputs.clone(),
            node: step.node,
        });
        Ok(())
    }

    fn takes(&self, on: On, step: &Step, op: Op) -> Outcome<()> {
        let first = self.from.operands[step.inputs[0]].ty;
        for &id in &step.inputs {
            let ty = self.from.operands[id].ty;
            let fits = match on {
                On::Floats => ty.is_float(),
                On::Reals => ty.is_float() || ty.is_quantised(),
                On::Numbers => ty.is_float() || ty == Type::Int32,
                On::All => ty != Type::Bool8,
                On::Truths => ty == Type::Bool8,
            };
            if !fits || ty != first {
                return Err(Refusal::dtype(match step.inputs.len() {
                    1 => format!("{op:?} of {ty:?}"),
                    _ => format!("{op:?} of {first:?} and {ty:?}"),
                }));
            }
        }
        Ok(())
    }

    /// That input and weights are of one type, and the bias beside integers of 32 bits.
    fn multiplies(&self, step: &Step, op: Op) -> Outcome<()> {
        let ty = |id: OperandId| self.from.operands[id].ty;
        let types: Vec<Type> = step.inputs.iter().map(|&id| ty(id)).collect();
        match types[..] {
            [Type::Sfixed8, Type::Sfixed8, Type::Sfixed32] => Ok(()),
            _ => self.takes(On::Floats, step, op),
        }
    }

    /// Powers are of operands of one shape, or to a constant of one element.
    fn exponent(&mut self, id: TensorId, dims: &[usize], out: &[usize]) -> Outcome<()> {
        let exponent = &mut self.program.tensors[id];
        let single = exponent.value.is_some() && exponent.dims.iter().all(|&dim| dim == 1);
        if dims != out || !(single || exponent.dims == out) {
            return Err(Refusal::shape("Pow that repeats an operand"));
        }
        if single {
            exponent.dims = vec![1];
        }
        Ok(())
    }

    /// A constant slope for all, or one per channel, which come last.
    fn slopes(&mut self, id: TensorId, dims: &[usize]) -> Outcome<()> {
        let slopes = &mut self.program.tensors[id];
        let count: usize = slopes.dims.iter().product();
        let last = slopes.dims.last() == dims.last() && Some(&count) == dims.last();
        if slopes.value.is_none() || dims.len() < 2 || !(count == 1 || last) {
            return Err(Refusal::shape(format!("PRelu with slopes of {:?}", slopes.dims)));
        }
        slopes.dims = vec![count];
        Ok(())
    }
}

fn missing(op: Op) -> Refusal {
    Refusal::op(op.name())
}
