//! Element-wise nodes: each as an expression, chains of them as one.
//!
//! Invariants:
//! 1. The expression of a node is computed on the types that the op sees; quantised operands are decoded where they
//!    are read.
//! 2. Operands broadcast as ONNX says; the result has the shape of the node's output.

use polychip_gpu_kernels::{Binary, Expression, Scalar, Unary};
use polychip_lowering::{Layout, Node, Outcome, Part, Refusal, Storage, TensorIndex};
use polychip_ops::operator::{Alpha, GeluForm, Shift};
use polychip_ops::{DType, Operator, broadcast};

use super::builder::Lowering;
use super::values::{is_float, scalar_of};
use super::{attention, encoding, map};

/// The expression of several nodes, and the tensors of its operands.
pub(super) struct Chain {
    pub(super) expression: Expression,
    pub(super) operands: Vec<TensorIndex>,
}

/// Most functions in the text of one expression.
const FUNCTIONS: usize = 160;

/// Whether a node can be part of a chain.
pub(super) fn is_fusable(l: &Lowering<'_>, node: &Node) -> bool {
    let part = l.part;
    let Some(output) = node.output(0) else {
        return false;
    };
    if attention::widened(part, node).is_some() {
        return false;
    }
    let known = |t: TensorIndex| {
        part.tensors[t].plain
            && part
                .dims(t)
                .is_some_and(|dims| dims.len() <= 8 && !dims.contains(&0))
    };
    node.outputs.len() == 1
        && node.reads().all(known)
        && known(output)
        && matches!(chain(l, &[node], None, output), Ok(Some(_)))
}

/// A constant of one element as an expression.
pub(super) fn number(l: &Lowering<'_>, tensor: TensorIndex) -> Option<Expression> {
    let part = l.part;
    if part.dims(tensor)?.iter().product::<usize>() != 1 || !part.is_constant(tensor) {
        return None;
    }
    let real = part.real(tensor);
    if is_float(real) {
        let value = *l.floats(tensor).ok()?.first()?;
        return (!value.is_nan()).then_some(Expression::Constant(value));
    }
    let scalar = scalar_of(real)?;
    let value = i32::try_from(*part.integers(tensor)?.first()?).ok()?;
    Some(match scalar {
        Scalar::I32 | Scalar::I16 | Scalar::I8 => Expression::Integer(value),
        other => Expression::Integer(value).cast(other),
    })
}

/// The expression of nodes in order, where `sum` stands as operand 0; nothing where one of them is of another
/// family.
pub(super) fn chain(
    l: &Lowering<'_>,
    nodes: &[&Node],
    sum: Option<TensorIndex>,
    output: TensorIndex,
) -> Outcome<Option<Chain>> {
    let mut inside: Vec<(TensorIndex, Expression)> = Vec::new();
    let mut operands = Vec::new();
    let first = u32::from(sum.is_some());
    if let Some(sum) = sum {
        inside.push((sum, Expression::Operand(0)));
    }
    for node in nodes {
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            inputs.push(input.map(|tensor| {
                if let Some((_, expression)) = inside.iter().rev().find(|(t, _)| *t == tensor) {
                    return expression.clone();
                }
                if let Some(number) = number(l, tensor) {
                    return number;
                }
                let place = operands.iter().position(|&t| t == tensor).unwrap_or_else(|| {
                    operands.push(tensor);
                    operands.len() - 1
                });
                Expression::Operand(first + place as u32)
            }));
        }
        let Some(expression) = expression(l.part, node, &inputs)? else {
            return Ok(None);
        };
        let Some(written) = node.output(0) else {
            return Ok(None);
        };
        // shaders compute in 32 bits; who reads a narrow integer sees it wrapped, as memory would give it
        let expression = match scalar_of(l.part.real(written)) {
            Some(narrow @ (Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16)) => expression.cast(narrow),
            _ => expression,
        };
        inside.push((written, expression));
    }
    let Some((_, expression)) = inside.into_iter().rev().find(|(t, _)| *t == output) else {
        return Ok(None);
    };
    if functions(&expression) > FUNCTIONS {
        return Err(Refusal::op("a chain of too many functions"));
    }
    Ok(Some(Chain { expression, operands }))
}

fn functions(expression: &Expression) -> usize {
    match expression {
        Expression::Operand(_) | Expression::Constant(_) | Expression::Integer(_) => 0,
        Expression::Unary(_, x) | Expression::Cast(_, x) | Expression::Saturate(_, x) => 1 + functions(x),
        Expression::Binary(_, a, b) => 1 + functions(a) + functions(b),
        Expression::Select(c, a, b) => 1 + functions(c) + functions(a) + functions(b),
    }
}

/// What a node computes of its inputs; nothing where it is of another family.
fn expression(part: &Part, node: &Node, inputs: &[Option<Expression>]) -> Outcome<Option<Expression>> {
    let real = |i: usize| node.input(i).map(|t| part.real(t));
    let to = node.output(0).map(|t| part.real(t));
    let input = |i: usize| {
        inputs
            .get(i)
            .cloned()
            .flatten()
            .ok_or_else(|| Refusal::op(format!("{} without input {i}", node.op_name)))
    };
    let unary = |function| Ok(Some(input(0)?.unary(function)));
    let binary = |function| Ok(Some(input(0)?.binary(function, input(1)?)));
    let fold = |function: Binary| -> Outcome<Option<Expression>> {
        let mut sum = input(0)?;
        for i in 1..inputs.len() {
            sum = sum.binary(function, input(i)?);
        }
        Ok(Some(sum))
    };
    match node.operator()? {
        Operator::Relu => unary(Unary::Relu),
        Operator::Neg => unary(Unary::Neg),
        Operator::Abs => unary(Unary::Abs),
        Operator::Sign => unary(Unary::Sign),
        Operator::Exp => unary(Unary::Exp),
        Operator::Log => unary(Unary::Log),
        Operator::Sqrt => unary(Unary::Sqrt),
        Operator::Reciprocal => unary(Unary::Reciprocal),
        Operator::Erf => unary(Unary::Erf),
        Operator::Sigmoid => unary(Unary::Sigmoid),
        Operator::Tanh => unary(Unary::Tanh),
        Operator::HardSwish => unary(Unary::HardSwish),
        Operator::Mish => {
            // tanh(log(1 + n)) of n = exp(x) is n (n + 2) / (n (n + 2) + 2), which loses nothing where n is small
            let x = input(0)?;
            let n = x.clone().clip(None, Some(20.0)).unary(Unary::Exp);
            let product = n.clone().binary(Binary::Mul, n.with(Binary::Add, 2.0));
            let share = product
                .clone()
                .binary(Binary::Div, product.with(Binary::Add, 2.0));
            Ok(Some(x.binary(Binary::Mul, share)))
        }
        Operator::Softplus => unary(Unary::Softplus),
        Operator::Softsign => unary(Unary::Softsign),
        Operator::Floor => unary(Unary::Floor),
        Operator::Ceil => unary(Unary::Ceil),
        Operator::Round => unary(Unary::Round),
        Operator::Sin => unary(Unary::Sin),
        Operator::Cos => unary(Unary::Cos),
        Operator::Tan => unary(Unary::Tan),
        Operator::Asin => unary(Unary::Asin),
        Operator::Acos => unary(Unary::Acos),
        Operator::Atan => unary(Unary::Atan),
        Operator::Sinh => unary(Unary::Sinh),
        Operator::Cosh => unary(Unary::Cosh),
        Operator::Asinh => unary(Unary::Asinh),
        Operator::Acosh => unary(Unary::Acosh),
        Operator::Atanh => unary(Unary::Atanh),
        Operator::Not => unary(Unary::Not),
        Operator::BitwiseNot => unary(Unary::BitwiseNot),
        Operator::IsNaN => unary(Unary::IsNan),
        Operator::IsInf(own) => match (own.positive, own.negative) {
            (true, true) => unary(Unary::IsInf),
            (true, false) => unary(Unary::IsPositiveInf),
            (false, true) => unary(Unary::IsNegativeInf),
            (false, false) => Err(Refusal::attribute("IsInf of nothing")),
        },
        Operator::Gelu(own) => match own.form {
            GeluForm::Tanh => unary(Unary::GeluTanh),
            GeluForm::Exact => unary(Unary::Gelu),
        },
        Operator::LeakyRelu(Alpha { alpha }) => Ok(Some(input(0)?.leaky_relu(alpha))),
        Operator::Elu(Alpha { alpha }) => Ok(Some(input(0)?.with(Binary::Elu, alpha))),
        Operator::Celu(Alpha { alpha }) => Ok(Some(input(0)?.with(Binary::Celu, alpha))),
        Operator::Selu(own) => Ok(Some(input(0)?.selu(own.alpha, own.gamma))),
        Operator::ThresholdedRelu(Alpha { alpha }) => {
            Ok(Some(input(0)?.with(Binary::ThresholdedRelu, alpha)))
        }
        Operator::HardSigmoid(own) => Ok(Some(input(0)?.hard_sigmoid(own.alpha, own.beta))),
        Operator::Swish(Alpha { alpha }) => match alpha {
            1.0 => unary(Unary::Silu),
            alpha => Ok(Some(input(0)?.with(Binary::Swish, alpha))),
        },
        Operator::Shrink(own) => {
            let (limit, bias) = (own.lambda, own.bias);
            if real(0).is_none_or(|real| !is_float(real)) {
                return Err(Refusal::dtype("Shrink of integers is not offered"));
            }
            let x = input(0)?;
            let above = x.clone().with(Binary::Greater, limit);
            let below = x.clone().with(Binary::Less, -limit);
            let lifted = x.clone().with(Binary::Add, bias);
            Ok(Some(above.select(
                x.with(Binary::Sub, bias),
                below.select(lifted, Expression::Constant(0.0)),
            )))
        }
        Operator::Clip => {
            let mut x = input(0)?;
            for (i, function) in [(1, Binary::Max), (2, Binary::Min)] {
                if node.input(i).is_some() {
                    x = x.binary(function, input(i)?);
                }
            }
            Ok(Some(x))
        }
        Operator::Add => binary(Binary::Add),
        Operator::Sub => binary(Binary::Sub),
        Operator::Mul => binary(Binary::Mul),
        Operator::Div => binary(Binary::Div),
        Operator::PRelu => binary(Binary::PRelu),
        Operator::Min => fold(Binary::Min),
        Operator::Max => fold(Binary::Max),
        Operator::Sum => fold(Binary::Add),
        Operator::Mean => {
            let count = inputs.len() as f32;
            Ok(fold(Binary::Add)?.map(|sum| sum.with(Binary::Div, count)))
        }
        Operator::Pow => match (real(0), real(1)) {
            (Some(base), Some(exponent)) if is_float(base) => {
                let exponent = if is_float(exponent) {
                    input(1)?
                } else {
                    input(1)?.cast(Scalar::F32)
                };
                Ok(Some(input(0)?.binary(Binary::Pow, exponent)))
            }
            _ => Err(Refusal::dtype("Pow of integers is not offered")),
        },
        Operator::Mod(own) => {
            let truncates = own.fmod;
            if !truncates && real(0).is_some_and(is_float) {
                return Err(Refusal::attribute("Mod of floats with fmod 0 is not offered"));
            }
            binary(if truncates { Binary::FMod } else { Binary::Mod })
        }
        Operator::Equal => binary(Binary::Equal),
        Operator::Less => binary(Binary::Less),
        Operator::LessOrEqual => binary(Binary::LessOrEqual),
        Operator::Greater => binary(Binary::Greater),
        Operator::GreaterOrEqual => binary(Binary::GreaterOrEqual),
        Operator::And => binary(Binary::And),
        Operator::Or => binary(Binary::Or),
        Operator::Xor => binary(Binary::Xor),
        Operator::BitwiseAnd => binary(Binary::BitwiseAnd),
        Operator::BitwiseOr => binary(Binary::BitwiseOr),
        Operator::BitwiseXor => binary(Binary::BitwiseXor),
        Operator::BitShift(own) => binary(match own.direction {
            Shift::Left => Binary::ShiftLeft,
            Shift::Right => Binary::ShiftRight,
        }),
        Operator::Where => Ok(Some(input(0)?.select(input(1)?, input(2)?))),
        Operator::Cast(_) | Operator::CastLike(_) => {
            let from = real(0).and_then(scalar_of);
            let into = to.and_then(scalar_of);
            let (Some(_), Some(into)) = (from, into) else {
                return Err(Refusal::dtype(format!(
                    "a cast from {} to {} is not offered",
                    real(0).map_or("nothing", DType::name),
                    to.map_or("nothing", DType::name)
                )));
            };
            Ok(Some(input(0)?.cast(into)))
        }
        _ => Ok(None),
    }
}

/// Lowers nodes as one kernel.
pub(super) fn fused(l: &mut Lowering<'_>, members: &[usize], output: TensorIndex) -> Outcome<bool> {
    let part = l.part;
    let nodes: Vec<&Node> = members.iter().map(|&index| &part.nodes[index]).collect();
    match chain(l, &nodes, None, output)? {
        None => Ok(false),
        Some(chain) => {
            emit(l, &chain, output)?;
            Ok(true)
        }
    }
}

/// Lowers a node of this family.
pub(super) fn lower(l: &mut Lowering<'_>, node: &Node) -> Outcome<bool> {
    let Some(output) = node.output(0) else {
        return Ok(false);
    };
    match chain(l, &[node], None, output)? {
        None => Ok(false),
        Some(chain) => {
            emit(l, &chain, output)?;
            Ok(true)
        }
    }
}

/// Launches a chain.
fn emit(l: &mut Lowering<'_>, chain: &Chain, output: TensorIndex) -> Outcome<()> {
    let out = l.dims(output)?;
    for &tensor in &chain.operands {
        let dims = l.dims(tensor)?;
        if broadcast::strides(dims, out).is_none() {
            return Err(Refusal::shape(format!("{dims:?} does not broadcast to {out:?}")));
        }
    }
    // channels last where an image of the result's shape lies so only
    let is_channels =
        |&t: &TensorIndex| l.part.dims(t) == Some(out) && !l.part.is_constant(t) && l.is_channels_only(t);
    let layout = if !Layout::is_same(out) && chain.operands.iter().any(is_channels) {
        Layout::ChannelsLast
    } else {
        Layout::RowMajor
    };
    let mut operands = Vec::with_capacity(chain.operands.len());
    let mut reads = Vec::with_capacity(chain.operands.len());
    for (index, &tensor) in chain.operands.iter().enumerate() {
        let (operand, read) = operand(l, tensor, index as u32, out.len(), layout)?;
        operands.push(operand);
        reads.push(read);
    }
    let expression = rewrite(&chain.expression, &|index| reads[index as usize].clone());
    // a quantised result is rounded by the kernel that computes it
    if let Some((scale, zero)) = encoding::single(l, output) {
        let to = l.stored_scalar(output)?;
        let (_, target) = l.destination(output, layout, Storage::Stored)?;
        l.define(output, layout, Storage::Stored, target)?;
        let expression = encoding::encoded(expression, scale, zero, to);
        return map::launch(l, &expression, &operands, out, layout, target);
    }
    let target = l.result(output, layout)?;
    map::launch(l, &expression, &operands, out, layout, target)
}

/// A tensor as an operand, and how its real value is read.
fn operand(
    l: &mut Lowering<'_>,
    tensor: TensorIndex,
    index: u32,
    rank: usize,
    layout: Layout,
) -> Outcome<(map::Operand, Expression)> {
    let dims = l.dims(tensor)?;
    let mut aligned = vec![1; rank - dims.len()];
    aligned.extend_from_slice(dims);
    let read = Expression::Operand(index);
    // integers with one scale are decoded where they are read
    let forms = l.forms[tensor];
    let exists =
        |kind| [Layout::RowMajor, Layout::ChannelsLast].map(|layout| forms.get(layout, kind).is_some());
    let (kind, read) = match encoding::single(l, tensor) {
        Some((scale, zero)) if exists(Storage::Real) == [false, false] && !l.part.is_constant(tensor) => {
            (Storage::Stored, encoding::decoded(read, scale, zero))
        }
        _ => (Storage::Real, read),
    };
    // an image is read as it lies; strides do the rest
    let own = if dims.len() < rank || Layout::is_same(dims) {
        Layout::RowMajor
    } else if l.part.is_constant(tensor) {
        layout
    } else {
        match exists(kind) {
            [true, false] => Layout::RowMajor,
            [false, true] => Layout::ChannelsLast,
            _ => layout,
        }
    };
    let value = l.get(tensor, own, kind)?;
    let operand = if dims.len() < rank {
        map::Operand::of(value, &aligned, Layout::RowMajor)?
    } else {
        map::Operand::of(
            value,
            &aligned,
            if Layout::is_same(dims) {
                Layout::RowMajor
            } else {
                own
            },
        )?
    };
    Ok((operand, read))
}

/// An expression with its operands replaced.
pub(super) fn rewrite(expression: &Expression, operand: &dyn Fn(u32) -> Expression) -> Expression {
    let go = |x: &Expression| Box::new(rewrite(x, operand));
    match expression {
        Expression::Operand(index) => operand(*index),
        Expression::Constant(_) | Expression::Integer(_) => expression.clone(),
        Expression::Unary(function, x) => Expression::Unary(*function, go(x)),
        Expression::Binary(function, a, b) => Expression::Binary(*function, go(a), go(b)),
        Expression::Select(c, a, b) => Expression::Select(go(c), go(a), go(b)),
        Expression::Cast(to, x) => Expression::Cast(*to, go(x)),
        Expression::Saturate(to, x) => Expression::Saturate(*to, go(x)),
    }
}
