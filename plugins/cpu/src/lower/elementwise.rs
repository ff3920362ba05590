//! Elementwise ops on f32: functions of one value, and of two with broadcasting.
//!
//! Invariant: a step keeps the form (row-major or channels last) that its operands already have.

use polychip_cpu_kernels::elementwise::BinaryPlan;
use polychip_cpu_kernels::{Binary, Unary, elementwise as kernel};
use polychip_ops::{Attr, Op};
use polychip_sdk::Result;

use super::{Form, Lowering, channels_last, is_trivial, kernel_error};
use crate::part::{Node, Part, TensorIndex};
use crate::step::ValueId;
use crate::work::Class;

/// The function of a node that maps one f32 tensor, where its parameters are constants.
pub(crate) fn activation(part: &Part, node: &Node) -> Option<Unary> {
    let alpha = |default: f32| node.attributes.float(Attr::Alpha).unwrap_or(default);
    if !super::convert::stands_for_f32(part, node.input(0)?) {
        return None;
    }
    Some(match node.op {
        Op::Abs => Unary::Abs,
        Op::Neg => Unary::Neg,
        Op::Relu => Unary::Relu,
        Op::Clip => {
            let bound = |i: usize, default: f32| match node.input(i) {
                None => Some(default),
                Some(tensor) => part.scalar(tensor).map(|value| value as f32),
            };
            let (low, high) = (bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?);
            if low.is_nan() || high.is_nan() {
                return None;
            }
            Unary::Clip { low, high }
        }
        Op::LeakyRelu => Unary::LeakyRelu { alpha: alpha(0.01) },
        Op::ThresholdedRelu => Unary::ThresholdedRelu { alpha: alpha(1.0) },
        Op::Exp => Unary::Exp,
        Op::Log => Unary::Log,
        Op::Sqrt => Unary::Sqrt,
        Op::Reciprocal => Unary::Reciprocal,
        Op::Erf => Unary::Erf,
        Op::Tanh => Unary::Tanh,
        Op::Sigmoid => Unary::Sigmoid,
        Op::Swish => Unary::Swish { alpha: alpha(1.0) },
        Op::Gelu => match node.attributes.str(Attr::Approximate).unwrap_or("none") {
            "none" => Unary::Gelu,
            "tanh" => Unary::GeluTanh,
            _ => return None,
        },
        Op::HardSigmoid => Unary::HardSigmoid {
            alpha: alpha(0.2),
            beta: node.attributes.float(Attr::Beta).unwrap_or(0.5),
        },
        Op::HardSwish => Unary::HardSwish,
        Op::Elu => Unary::Elu { alpha: alpha(1.0) },
        Op::Selu => Unary::Selu {
            alpha: alpha(1.673_263_2),
            gamma: node.attributes.float(Attr::Gamma).unwrap_or(1.050_701),
        },
        Op::Celu => Unary::Celu { alpha: alpha(1.0) },
        Op::Softplus => Unary::Softplus,
        Op::Softsign => Unary::Softsign,
        Op::Mish => Unary::Mish,
        Op::Floor => Unary::Floor,
        Op::Ceil => Unary::Ceil,
        Op::Round => Unary::Round,
        Op::Sign => Unary::Sign,
        _ => return None,
    })
}

/// Functions that have no vector kernel: the scalar library's.
fn scalar(op: Op) -> Option<fn(f32) -> f32> {
    Some(match op {
        Op::Sin => f32::sin,
        Op::Cos => f32::cos,
        Op::Tan => f32::tan,
        Op::Asin => f32::asin,
        Op::Acos => f32::acos,
        Op::Atan => f32::atan,
        Op::Sinh => f32::sinh,
        Op::Cosh => f32::cosh,
        _ => return None,
    })
}

fn binary(op: Op) -> Option<Binary> {
    Some(match op {
        Op::Add | Op::Sum => Binary::Add,
        Op::Sub => Binary::Sub,
        Op::Mul => Binary::Mul,
        Op::Div => Binary::Div,
        Op::Min => Binary::Min,
        Op::Max => Binary::Max,
        Op::PRelu => Binary::Prelu,
        Op::Pow => Binary::Pow,
        _ => return None,
    })
}

/// Whether this family covers a node whose shapes are known.
pub(crate) fn covers(part: &Part, node: &Node) -> bool {
    let f32s = |t: &Option<TensorIndex>| t.is_none_or(|t| super::convert::stands_for_f32(part, t));
    if !node.outputs.iter().all(f32s) {
        return false;
    }
    activation(part, node).is_some()
        || (node.inputs.iter().all(f32s) && (scalar(node.op).is_some() || binary(node.op).is_some()))
}

/// Lowers a node of this family.
pub(crate) fn lower(l: &mut Lowering<'_>, node: &Node) -> Result<bool> {
    if !covers(l.part, node) {
        return Ok(false);
    }
    let Some(output) = node.output(0) else {
        return Ok(false);
    };
    if let Some(function) = activation(l.part, node) {
        let Some(input) = node.input(0) else {
            return Ok(false);
        };
        unary(l, function, input, output)?;
        return Ok(true);
    }
    if let Some(function) = scalar(node.op) {
        let Some(input) = node.input(0) else {
            return Ok(false);
        };
        let form = if l.is_channels_only(input) {
            Form::Channels
        } else {
            Form::Rows
        };
        let (x, y) = (l.form(input, form)?, l.result(output, form)?);
        l.step(
            node.op.name(),
            &[x],
            &[y],
            None,
            Box::new(move |o| {
                let (x, y) = (o.read::<f32>(0), o.write::<f32>(0));
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = function(x);
                }
                Ok(())
            }),
        )
        .is(Class::Library);
        return Ok(true);
    }
    let Some(function) = binary(node.op) else {
        return Ok(false);
    };
    let inputs: Vec<TensorIndex> = node.inputs.iter().copied().flatten().collect();
    match inputs[..] {
        [single] => unary(l, Unary::Identity, single, output)?,
        [a, b] => two(l, function, a, b, output)?,
        [] => return Ok(false),
        [first, second, ref rest @ ..] => {
            // Sum, Min and Max of many: a chain of two at a time
            let form = choose(l, &inputs, output)?;
            let (a, b) = (
                operand(l, first, output, form)?,
                operand(l, second, output, form)?,
            );
            let mut result = join(l, function, a, b)?;
            for (i, &next) in rest.iter().enumerate() {
                let b = operand(l, next, output, form)?;
                let last = i + 1 == rest.len();
                result = if last {
                    let y = l.result(output, form)?;
                    emit(l, function, result, b, y)?;
                    y
                } else {
                    join(l, function, result, b)?
                };
            }
        }
    }
    Ok(true)
}

fn unary(l: &mut Lowering<'_>, function: Unary, input: TensorIndex, output: TensorIndex) -> Result<()> {
    let form = if l.is_channels_only(input) {
        Form::Channels
    } else {
        Form::Rows
    };
    pass(l, function, input, output, form)
}

/// Adds a step for a function of one tensor, in the element type that it has.
fn pass(
    l: &mut Lowering<'_>,
    function: Unary,
    input: TensorIndex,
    output: TensorIndex,
    form: Form,
) -> Result<()> {
    let brief = l.stays_brief(input, &[Some(output)]);
    let (x, y) = (
        l.form_as(input, form, brief)?,
        l.result_near(output, form, brief)?,
    );
    apply(l, function, x, y);
    Ok(())
}

/// The class of a function's loops.
fn class_of(function: Unary) -> Class {
    match function {
        Unary::Exp
        | Unary::Log
        | Unary::Erf
        | Unary::Tanh
        | Unary::Sigmoid
        | Unary::Swish { .. }
        | Unary::Gelu
        | Unary::GeluTanh
        | Unary::Elu { .. }
        | Unary::Selu { .. }
        | Unary::Celu { .. }
        | Unary::Softplus
        | Unary::Mish => Class::Transcendental,
        _ => Class::Arithmetic,
    }
}

/// Adds a step `y = function(x)`.
pub(super) fn apply(l: &mut Lowering<'_>, function: Unary, x: ValueId, y: ValueId) {
    let isa = l.isa;
    l.step(
        "unary",
        &[x],
        &[y],
        None,
        Box::new(move |o| {
            if o.shared().is_some() {
                kernel::unary_in_place(isa, o.pool, function, o.slice_mut(0));
            } else {
                kernel::unary(isa, o.pool, function, o.slice(0), o.slice_mut(0));
            }
            Ok(())
        }),
    )
    .is(class_of(function))
    .may_share = vec![0];
}

/// Channels last where an operand of the full rank exists only so; else row-major.
fn choose(l: &Lowering<'_>, inputs: &[TensorIndex], output: TensorIndex) -> Result<Form> {
    let rank = l.shape(output)?.len();
    let mut channels = 0;
    for &input in inputs {
        if l.shape(input)?.len() == rank && l.is_channels_only(input) && !is_trivial(l.shape(input)?) {
            channels += 1;
        }
    }
    Ok(if channels > 0 && rank >= 3 {
        Form::Channels
    } else {
        Form::Rows
    })
}

/// An operand in a form, its shape extended to the result's rank where it is channels last.
fn operand(l: &mut Lowering<'_>, input: TensorIndex, output: TensorIndex, form: Form) -> Result<ValueId> {
    if form == Form::Rows {
        return l.rows(input);
    }
    let rank = l.shape(output)?.len();
    let dims = l.shape(input)?;
    if dims.len() == rank {
        return l.channels(input);
    }
    let mut extended = vec![1; rank - dims.len()];
    extended.extend(dims);
    let rows = l.rows(input)?;
    if is_trivial(&extended) {
        return Ok(l.view(rows, channels_last(&extended)));
    }
    let [n, c, spatial] = super::image(&extended)?;
    let plan =
        polychip_cpu_kernels::transpose::TransposePlan::channels_last(n, c, spatial).map_err(kernel_error)?;
    let result = l.fresh(l.real_dtype(input), channels_last(&extended))?;
    l.transpose("to channels last", plan, rows, result);
    Ok(result)
}

fn two(
    l: &mut Lowering<'_>,
    function: Binary,
    a: TensorIndex,
    b: TensorIndex,
    output: TensorIndex,
) -> Result<()> {
    let form = choose(l, &[a, b], output)?;
    // a constant of one value on the right becomes a function of one value
    if let (Some(value), Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Pow) =
        (l.part.scalar(b), function)
        && l.shape(a)? == l.shape(output)?
        && let Some(function) = with_constant(function, value as f32)
    {
        return pass(l, function, a, output, form);
    }
    if let (Some(value), Binary::Add | Binary::Mul | Binary::Sub) = (l.part.scalar(a), function)
        && l.shape(b)? == l.shape(output)?
    {
        let value = value as f32;
        let function = match function {
            Binary::Add => Unary::Affine {
                scale: 1.0,
                shift: value,
            },
            Binary::Sub => Unary::Affine {
                scale: -1.0,
                shift: value,
            },
            _ => Unary::Affine {
                scale: value,
                shift: -0.0,
            },
        };
        return pass(l, function, b, output, form);
    }
    let rank = l.shape(output)?.len();
    let brief = |t: &TensorIndex| {
        let extended = form == Form::Channels && l.part.dims(*t).is_none_or(|dims| dims.len() != rank);
        l.stays_brief(*t, &[Some(output)]) && !extended
    };
    if [a, b].iter().all(brief) {
        let (a, b) = (l.brief(a, form)?, l.brief(b, form)?);
        let y = l.result_as(output, form, true)?;
        return emit(l, function, a, b, y);
    }
    let (a, b) = (operand(l, a, output, form)?, operand(l, b, output, form)?);
    let y = l.result(output, form)?;
    emit(l, function, a, b, y)
}

/// A binary function with a constant on the right, as a function of one value. A product adds minus zero, which
/// leaves the sign of a zero alone.
fn with_constant(function: Binary, value: f32) -> Option<Unary> {
    Some(match function {
        Binary::Add => Unary::Affine {
            scale: 1.0,
            shift: value,
        },
        Binary::Sub => Unary::Affine {
            scale: 1.0,
            shift: -value,
        },
        Binary::Mul => Unary::Affine {
            scale: value,
            shift: -0.0,
        },
        // a quotient is a product only where the reciprocal is exact
        Binary::Div if value.is_normal() && (1.0 / value).is_normal() && value.to_bits() << 9 == 0 => {
            Unary::Affine {
                scale: 1.0 / value,
                shift: -0.0,
            }
        }
        Binary::Pow if value == 2.0 => Unary::Square,
        Binary::Pow if value == 0.5 => Unary::Sqrt,
        Binary::Pow if value == 1.0 => Unary::Identity,
        Binary::Pow if value == -1.0 => Unary::Reciprocal,
        _ => return None,
    })
}

/// A step into a new value of the operands' common shape.
fn join(l: &mut Lowering<'_>, function: Binary, a: ValueId, b: ValueId) -> Result<ValueId> {
    let shape = polychip_ops::broadcast::shapes(&[l.value_shape(a), l.value_shape(b)])
        .ok_or_else(|| polychip_sdk::Error::unsupported("shapes do not broadcast together"))?;
    let y = l.fresh(polychip_ops::DType::F32, shape)?;
    emit(l, function, a, b, y)?;
    Ok(y)
}

/// Adds a step `y = function(a, b)`.
pub(super) fn emit(l: &mut Lowering<'_>, function: Binary, a: ValueId, b: ValueId, y: ValueId) -> Result<()> {
    let isa = l.isa;
    let (a_shape, b_shape) = (l.value_shape(a).to_vec(), l.value_shape(b).to_vec());
    let whole = l.value_shape(y).to_vec();
    let plan = BinaryPlan::new(&a_shape, &b_shape).map_err(kernel_error)?;
    if plan.output_len() != whole.iter().product::<usize>() {
        return Err(polychip_sdk::Error::unsupported(format!(
            "operands {a_shape:?} and {b_shape:?} do not make {whole:?}"
        )));
    }
    let swapped = match function {
        Binary::Add | Binary::Mul | Binary::Min | Binary::Max => {
            Some(BinaryPlan::new(&b_shape, &a_shape).map_err(kernel_error)?)
        }
        _ => None,
    };
    let can_swap = swapped.is_some();
    let step = l.step(
        "binary",
        &[a, b],
        &[y],
        None,
        Box::new(move |o| {
            match (o.shared(), &swapped) {
                (Some(0), _) => plan.run_in_place(isa, o.pool, function, o.slice_mut(0), o.slice(1)),
                (Some(_), Some(swapped)) => {
                    swapped.run_in_place(isa, o.pool, function, o.slice_mut(0), o.slice(0))
                }
                _ => plan.run(isa, o.pool, function, o.slice(0), o.slice(1), o.slice_mut(0)),
            }
            Ok(())
        }),
    );
    step.is(if function == Binary::Pow {
        Class::Power
    } else {
        Class::Arithmetic
    });
    if a_shape == whole && a != b {
        step.may_share.push(0);
    }
    if can_swap && b_shape == whole && a != b {
        step.may_share.push(1);
    }
    Ok(())
}
